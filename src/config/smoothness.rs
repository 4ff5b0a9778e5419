//! `train.smoothness`: a number, or several, of which the validation units of a run choose one before it begins.

use harmonia_graph::error::{Error, Result};
use serde::de::{SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;

/// What bent responses cost, or what is tried: at least one number.
#[derive(Clone, Debug, PartialEq)]
pub struct Smoothness(Vec<f64>);

impl Smoothness {
    /// One of several.
    pub fn among(strengths: &[f64]) -> Smoothness {
        Smoothness(strengths.to_vec())
    }

    /// What there is to choose from.
    pub fn choices(&self) -> &[f64] {
        &self.0
    }

    /// The number itself, where there is no choice.
    pub fn settled(&self) -> Option<f64> {
        if let [only] = self.0[..] { Some(only) } else { None }
    }

    /// Whether bent responses cost something, perhaps.
    pub fn is_asked(&self) -> bool {
        self.0.iter().any(|&strength| strength > 0.0)
    }

    /// Refuses what no run can have.
    ///
    /// # Errors
    /// No number, one below 0, or one twice.
    pub fn check(&self) -> Result<()> {
        let expected = "expected a number of at least 0, or several of which validation chooses, as in [0, 1e-3, 1e-2]";
        if let Some(bad) = self.0.iter().find(|strength| !(strength.is_finite() && **strength >= 0.0)) {
            return Err(Error::Config(format!("train.smoothness is {bad}; {expected}")));
        }
        if self.0.is_empty() {
            return Err(Error::Config(format!("train.smoothness is an empty list; {expected}")));
        }
        match self.0.iter().enumerate().find(|(at, strength)| self.0[..*at].contains(strength)) {
            Some((_, twice)) => Err(Error::Config(format!("train.smoothness has {twice} twice; {expected}"))),
            None => Ok(()),
        }
    }
}

impl From<f64> for Smoothness {
    fn from(strength: f64) -> Smoothness {
        Smoothness(vec![strength])
    }
}

impl Serialize for Smoothness {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        match self.settled() {
            Some(strength) => serializer.serialize_f64(strength),
            None => serializer.collect_seq(&self.0),
        }
    }
}

impl<'de> Deserialize<'de> for Smoothness {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Smoothness, D::Error> {
        struct Numbers;

        impl<'de> Visitor<'de> for Numbers {
            type Value = Smoothness;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a number for train.smoothness, or a list of numbers of which validation chooses")
            }

            fn visit_f64<E>(self, strength: f64) -> std::result::Result<Smoothness, E> {
                Ok(strength.into())
            }

            fn visit_i64<E>(self, strength: i64) -> std::result::Result<Smoothness, E> {
                Ok((strength as f64).into())
            }

            fn visit_u64<E>(self, strength: u64) -> std::result::Result<Smoothness, E> {
                Ok((strength as f64).into())
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut numbers: A) -> std::result::Result<Smoothness, A::Error> {
                let mut strengths = Vec::new();
                while let Some(strength) = numbers.next_element::<f64>()? {
                    strengths.push(strength);
                }
                Ok(Smoothness(strengths))
            }
        }

        deserializer.deserialize_any(Numbers)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_and_a_list_read_back_as_they_were_written() {
        for (text, expected) in
            [("0", vec![0.0]), ("1e-3", vec![1e-3]), ("[0.01]", vec![0.01]), ("[0, 1e-3, 2]", vec![0.0, 1e-3, 2.0])]
        {
            let read: Smoothness = serde_json::from_str(text).unwrap();
            assert_eq!(read.choices(), expected, "{text}");
            let written = serde_json::to_string(&read).unwrap();
            assert_eq!(written.contains('['), expected.len() > 1, "{written}");
            assert_eq!(serde_json::from_str::<Smoothness>(&written).unwrap(), read);
        }
        let error = serde_json::from_str::<Smoothness>("\"much\"").unwrap_err().to_string();
        assert!(error.contains("train.smoothness"), "{error}");
    }

    #[test]
    fn what_no_run_can_have_is_refused() {
        for (bad, part) in [
            (vec![], "empty list"),
            (vec![-1.0], "train.smoothness is -1; expected a number of at least 0"),
            (vec![0.0, f64::NAN], "is NaN"),
            (vec![0.0, 1.0, 0.0], "has 0 twice"),
        ] {
            let error = Smoothness(bad).check().unwrap_err().to_string();
            assert!(error.contains(part), "{error}");
        }
        assert!(Smoothness::among(&[0.0, 1.0]).check().is_ok());
    }
}

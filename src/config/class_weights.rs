//! `train.class_weights`: how much units of each class count while a model is fitted.

use harmonia_graph::error::{Error, Result};
use serde::de::{Error as _, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;

/// How much units count by their class.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum ClassWeights {
    /// `none`: all alike.
    #[default]
    None,
    /// `balanced`: so that all classes among the training units count alike together.
    Balanced,
    /// `["yes=3", "no=1"]`: as it says; 1 where a class is not named.
    Named(Vec<(String, f64)>),
}

impl ClassWeights {
    /// Refuses weights that no run can have.
    ///
    /// # Errors
    /// A class twice, or a weight that is not a number above 0.
    pub fn check(&self) -> Result<()> {
        let ClassWeights::Named(weights) = self else { return Ok(()) };
        for (at, (class, weight)) in weights.iter().enumerate() {
            if !(weight.is_finite() && *weight > 0.0) {
                return Err(Error::Config(format!(
                    "train.class_weights: the weight of class `{class}` is {weight}; expected a number above 0"
                )));
            }
            if weights[..at].iter().any(|(other, _)| other == class) {
                return Err(Error::Config(format!("train.class_weights names class `{class}` twice; name it once")));
            }
        }
        Ok(())
    }

    /// One `CLASS=WEIGHT`; names may hold any sign.
    fn word(word: &str) -> std::result::Result<(String, f64), String> {
        let expected = || format!("`{word}`: expected CLASS=WEIGHT, as in yes=3");
        let (class, weight) = word.rsplit_once('=').ok_or_else(expected)?;
        Ok((class.trim().to_string(), weight.trim().parse().map_err(|_| expected())?))
    }
}

impl Serialize for ClassWeights {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        match self {
            ClassWeights::None => serializer.serialize_str("none"),
            ClassWeights::Balanced => serializer.serialize_str("balanced"),
            ClassWeights::Named(weights) => {
                serializer.collect_seq(weights.iter().map(|(class, weight)| format!("{class}={weight}")))
            }
        }
    }
}

impl<'de> Deserialize<'de> for ClassWeights {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<ClassWeights, D::Error> {
        struct Words;

        impl<'de> Visitor<'de> for Words {
            type Value = ClassWeights;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("train.class_weights: none, balanced, or a list of CLASS=WEIGHT")
            }

            fn visit_str<E: serde::de::Error>(self, word: &str) -> std::result::Result<ClassWeights, E> {
                match word {
                    "none" => Ok(ClassWeights::None),
                    "balanced" => Ok(ClassWeights::Balanced),
                    _ => Err(E::custom(format!(
                        "train.class_weights is `{word}`; expected none, balanced, or a list of CLASS=WEIGHT"
                    ))),
                }
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut words: A) -> std::result::Result<ClassWeights, A::Error> {
                let mut weights = Vec::new();
                while let Some(word) = words.next_element::<String>()? {
                    weights.push(
                        ClassWeights::word(&word)
                            .map_err(|what| A::Error::custom(format!("train.class_weights has {what}")))?,
                    );
                }
                Ok(ClassWeights::Named(weights))
            }
        }

        deserializer.deserialize_any(Words)
    }
}

//! `model.monotone`: features that may only raise, or only lower, what is predicted.

use harmonia_graph::error::{Error, Result};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A feature and the way its effect may go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Monotone {
    /// A column of X by name.
    pub feature: String,
    /// Whether more of it never lowers the logit of the positive class, or the number; else it never raises it.
    pub rising: bool,
}

impl Monotone {
    /// `age=+` or `age=-`; names may hold any sign.
    fn of(word: &str) -> std::result::Result<Monotone, String> {
        let (feature, sign) = word.rsplit_once('=').unwrap_or((word, ""));
        let rising = match sign.trim() {
            "+" => true,
            "-" => false,
            _ => return Err(format!("model.monotone has `{word}`; expected FEATURE=+ or FEATURE=-")),
        };
        Ok(Monotone { feature: feature.trim().to_string(), rising })
    }

    /// Refuses a feature that is named twice.
    ///
    /// # Errors
    /// Its name.
    pub fn check(all: &[Monotone]) -> Result<()> {
        match all.iter().enumerate().find(|(at, one)| all[..*at].iter().any(|other| other.feature == one.feature)) {
            Some((_, one)) => {
                Err(Error::Config(format!("model.monotone names feature `{}` twice; name it once", one.feature)))
            }
            None => Ok(()),
        }
    }
}

impl Serialize for Monotone {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        serializer.serialize_str(&format!("{}={}", self.feature, if self.rising { '+' } else { '-' }))
    }
}

impl<'de> Deserialize<'de> for Monotone {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Monotone, D::Error> {
        Monotone::of(&String::deserialize(deserializer)?).map_err(D::Error::custom)
    }
}

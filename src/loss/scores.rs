//! How good predictions are: an ordered list of named scores, which ones is up to the loss.

use super::{Objective, TargetScaling};
use harmonia_graph::dataset::Labels;
use serde::de::{MapAccess, Visitor};
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;

/// A score that a loss has.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ScoreKind {
    /// As in `--json` and `metrics.jsonl`.
    pub name: &'static str,
    /// For people, as in the head of a narrow table.
    pub label: &'static str,
    /// In full.
    pub title: &'static str,
    /// Whether it is a share, shown in percent.
    pub percent: bool,
    /// Whether more is better.
    pub higher: bool,
    /// Whether the page draws it epoch by epoch.
    pub drawn: bool,
    /// What an epoch gets where the score is not defined (only one class present).
    pub undefined: f64,
}

impl ScoreKind {
    /// A value of it, for people.
    pub fn show(&self, value: f64) -> String {
        if self.percent { format!("{:.2} %", 100.0 * value) } else { format!("{value:.4}") }
    }

    /// Larger is better, whatever the score.
    pub fn merit(&self, value: f64) -> f64 {
        if self.higher { value } else { -value }
    }
}

/// Logits of some units beside their labels.
pub struct Scored<'a> {
    /// Labels of all units.
    pub labels: &'a Labels,
    /// Those scored, by number.
    pub units: &'a [u32],
    /// Units x L, in their order; numbers in the units of the target.
    pub logits: &'a [f32],
    /// How training saw the numbers.
    pub scaling: Option<&'a TargetScaling>,
}

impl Scored<'_> {
    /// Logits of each unit.
    pub fn rows(&self) -> Vec<Vec<f64>> {
        let rows = self.logits.chunks_exact(self.labels.outputs());
        rows.map(|row| row.iter().map(|&z| f64::from(z)).collect()).collect()
    }
}

/// Scores of one set of units. `None` where a score is not defined (no units, or only one class present).
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Scores {
    entries: Vec<(String, Option<f64>)>,
}

impl Scores {
    /// Entries are kept, and shown, in this order.
    pub fn new<'a>(entries: impl IntoIterator<Item = (&'a str, Option<f64>)>) -> Scores {
        Scores { entries: entries.into_iter().map(|(name, value)| (name.to_string(), value)).collect() }
    }

    /// All scores of a loss, none of them defined.
    pub fn undefined(objective: Objective) -> Scores {
        Scores::new(objective.scores().iter().map(|kind| (kind.name, None)))
    }

    /// By name; none where it is not defined, or the loss has no such score.
    pub fn get(&self, name: &str) -> Option<f64> {
        self.entries.iter().find(|(known, _)| known == name).and_then(|(_, value)| *value)
    }

    /// Names of all scores, defined or not, in the order they are shown.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.entries.iter().map(|(name, _)| name.as_str())
    }

    /// Whether any score is defined.
    pub fn is_defined(&self) -> bool {
        self.entries.iter().any(|(_, value)| value.is_some())
    }

    /// One more, at the end.
    #[must_use]
    pub fn with(mut self, name: &str, value: Option<f64>) -> Scores {
        self.entries.push((name.to_string(), value));
        self
    }

    /// Only some of them.
    pub fn only(&self, keep: impl Fn(&str) -> bool) -> Scores {
        Scores { entries: self.entries.iter().filter(|(name, _)| keep(name)).cloned().collect() }
    }
}

impl Serialize for Scores {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.entries.len()))?;
        for (name, value) in &self.entries {
            map.serialize_entry(name, value)?;
        }
        map.end()
    }
}

impl<'de> Deserialize<'de> for Scores {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Scores, D::Error> {
        struct Entries;

        impl<'de> Visitor<'de> for Entries {
            type Value = Scores;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("scores by name")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Scores, A::Error> {
                let mut entries = Vec::new();
                while let Some(entry) = map.next_entry()? {
                    entries.push(entry);
                }
                Ok(Scores { entries })
            }
        }

        deserializer.deserialize_map(Entries)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scores_are_written_in_order_and_read_back() {
        let scores = Scores::new([("b", Some(0.5)), ("a", None)]);
        let text = serde_json::to_string(&scores).unwrap();
        assert_eq!(text, r#"{"b":0.5,"a":null}"#);
        assert_eq!(serde_json::from_str::<Scores>(&text).unwrap(), scores);
        assert_eq!((scores.get("b"), scores.get("a"), scores.get("c")), (Some(0.5), None, None));
    }
}

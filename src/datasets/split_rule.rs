//! How units are split: the dataset's own way, or at random by a rule written in one word.

use super::{Dataset, Labels};
use crate::error::{Error, Result};
use crate::graph::Split;

/// Validation and test units of `per-class:N` where no numbers are given, as in the Planetoid public splits.
const PER_CLASS_REST: [usize; 2] = [500, 1000];

/// A parsed `data.split`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum SplitRule {
    /// `default`: the one the dataset came with.
    Own,
    /// `per-class:20/500/1000`: 20 of each class, then 500 and 1000.
    PerClass {
        /// Training units of each class.
        train: usize,
        /// Validation units in all.
        valid: usize,
        /// Test units in all.
        test: usize,
    },
    /// `fractions:60/20/20`.
    Fractions([f64; 3]),
}

impl SplitRule {
    /// Reads a rule.
    ///
    /// # Errors
    /// A word of another form.
    pub fn parse(text: &str) -> Result<SplitRule> {
        let wrong = || {
            Error::Config(format!(
                "data.split is `{text}`; expected default, per-class:20/500/1000 (per class, validation, test) or \
                 fractions:60/20/20"
            ))
        };
        match text.split_once(':') {
            None if text == "default" => Ok(SplitRule::Own),
            Some(("per-class", numbers)) => {
                let numbers: Vec<usize> =
                    numbers.split('/').map(|n| n.parse().map_err(|_| wrong())).collect::<Result<_>>()?;
                match numbers[..] {
                    [train] if train > 0 => {
                        let [valid, test] = PER_CLASS_REST;
                        Ok(SplitRule::PerClass { train, valid, test })
                    }
                    [train, valid, test] if train > 0 => Ok(SplitRule::PerClass { train, valid, test }),
                    _ => Err(wrong()),
                }
            }
            Some(("fractions", numbers)) => {
                let parts: Vec<f64> =
                    numbers.split('/').map(|n| n.parse().map_err(|_| wrong())).collect::<Result<_>>()?;
                match parts[..] {
                    [train, valid, test] if train > 0.0 && parts.iter().all(|p| p.is_finite() && *p >= 0.0) => {
                        Ok(SplitRule::Fractions([train, valid, test]))
                    }
                    _ => Err(wrong()),
                }
            }
            _ => Err(wrong()),
        }
    }

    /// Splits a dataset anew.
    ///
    /// # Errors
    /// The dataset is too small for the rule.
    pub fn apply(self, dataset: &mut Dataset, seed: u64) -> Result<()> {
        dataset.split = match (self, &dataset.labels) {
            (SplitRule::Own, _) => return Ok(()),
            (SplitRule::PerClass { train, valid, test }, Labels::Classes { ids, .. }) => {
                Split::per_class(ids, train, valid, test, seed)?
            }
            (SplitRule::PerClass { .. }, Labels::Multi { .. }) => {
                return Err(Error::Config("data.split: per-class needs one class a unit; this is multi-label".into()));
            }
            (SplitRule::Fractions(parts), labels) => {
                let units: Vec<u32> = (0..dataset.units() as u32).filter(|&i| labels.is_labelled(i as usize)).collect();
                Split::fractions(&units, parts, seed)
            }
        };
        dataset.check_split()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_are_read() {
        assert_eq!(SplitRule::parse("default").unwrap(), SplitRule::Own);
        assert_eq!(
            SplitRule::parse("per-class:20").unwrap(),
            SplitRule::PerClass { train: 20, valid: 500, test: 1000 }
        );
        assert_eq!(
            SplitRule::parse("per-class:5/10/20").unwrap(),
            SplitRule::PerClass { train: 5, valid: 10, test: 20 }
        );
        assert_eq!(SplitRule::parse("fractions:60/20/20").unwrap(), SplitRule::Fractions([60.0, 20.0, 20.0]));
        for wrong in ["", "random", "per-class:", "per-class:0", "fractions:1/2", "fractions:0/1/1", "fractions:a/b/c"]
        {
            assert!(SplitRule::parse(wrong).is_err(), "{wrong}");
        }
    }
}

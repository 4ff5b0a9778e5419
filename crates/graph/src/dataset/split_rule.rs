//! How units are split: the dataset's own way, or at random by a rule written in one word.

use super::Dataset;
use crate::error::{Error, Result};
use crate::graph::Split;

/// Validation and test units of `per-class:N` where no numbers are given, as in the Planetoid public splits.
const PER_CLASS_REST: [usize; 2] = [500, 1000];

/// Folds of a dataset that has no split of its own.
const DEFAULT_FOLDS: usize = 10;

/// A parsed `data.split`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum SplitRule {
    /// `default`: one the dataset came with (of several, that of the run's number), or one of ten folds where it came
    /// with none.
    Default,
    /// `own:3`: that one of several the dataset came with.
    Own(usize),
    /// `folds:10/3`: round 3 of a tenfold cross-validation, classes spread evenly. `folds:10/3/2`: the same with the fold
    /// after the next one to validate.
    Fold {
        /// Number of folds, at least 3: one tests, one validates.
        folds: usize,
        /// The one that tests, from 0.
        fold: usize,
        /// How much further on the one is that validates, from 1.
        valid: usize,
    },
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
                "data.split is `{text}`; expected default, own:0, per-class:20/500/1000 (per class, validation, test), \
                 fractions:60/20/20 or folds:10/0 (ten folds, of which number 0 tests)"
            ))
        };
        match text.split_once(':') {
            None if text == "default" => Ok(SplitRule::Default),
            Some(("own", number)) => number.parse().map(SplitRule::Own).map_err(|_| wrong()),
            Some(("folds", numbers)) => {
                let numbers: Vec<usize> =
                    numbers.split('/').map(|n| n.parse().map_err(|_| wrong())).collect::<Result<_>>()?;
                let (folds, fold, valid) = match numbers[..] {
                    [folds, fold] => (folds, fold, 1),
                    [folds, fold, valid] => (folds, fold, valid),
                    _ => return Err(wrong()),
                };
                match folds >= 3 && fold < folds && (1..folds).contains(&valid) {
                    true => Ok(SplitRule::Fold { folds, fold, valid }),
                    false => Err(wrong()),
                }
            }
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
                        let sum: f64 = parts.iter().sum();
                        // Decimal fractions do not add up exactly.
                        match [100.0, 1.0].iter().any(|whole| (sum - whole).abs() < 1e-6 * whole) {
                            true => Ok(SplitRule::Fractions([train, valid, test])),
                            false => Err(Error::Config(format!(
                                "data.split is `{text}`, which adds up to {sum}; expected percentages that add up to \
                                 100, as in fractions:60/20/20, or fractions that add up to 1"
                            ))),
                        }
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
            // A split that was set by hand stays.
            (SplitRule::Default, _) if dataset.own_splits.len() <= 1 && !dataset.split.is_empty() => return Ok(()),
            (SplitRule::Default, _) if !dataset.own_splits.is_empty() => {
                dataset.own_splits[(seed % dataset.own_splits.len() as u64) as usize].clone()
            }
            (SplitRule::Default, _) => fold_of(dataset, [DEFAULT_FOLDS, 0, 1], seed)?,
            (SplitRule::Own(number), _) => dataset.own_splits.get(number).cloned().ok_or_else(|| {
                let count = dataset.own_splits.len();
                Error::Config(format!("data.split is own:{number}; {} has {count} of its own, from 0", dataset.name))
            })?,
            (SplitRule::Fold { folds, fold, valid }, _) => fold_of(dataset, [folds, fold, valid], seed)?,
            (SplitRule::PerClass { train, valid, test }, labels) => match labels.class_ids() {
                Some(ids) => Split::per_class(&dataset.labelled_units(), ids, train, valid, test, seed)?,
                None => {
                    let kind = if labels.is_values() { "regression" } else { "multi-label" };
                    let message = format!("data.split: per-class needs one class per unit; this is {kind}");
                    return Err(Error::Config(message));
                }
            },
            (SplitRule::Fractions(parts), _) => Split::fractions(&dataset.labelled_units(), parts, seed),
        };
        dataset.check_split(&dataset.split)
    }
}

fn fold_of(dataset: &Dataset, [folds, fold, valid]: [usize; 3], seed: u64) -> Result<Split> {
    let units = dataset.labelled_units();
    if units.len() < folds {
        return Err(Error::Data(format!(
            "{} labelled nodes or graphs cannot be dealt to {folds} folds (which is how data without a split of its own is \
             split); set data.split = fractions:60/20/20, or store a split",
            units.len()
        )));
    }
    let ids = dataset.labels.class_ids();
    let class = |unit: u32| ids.map_or(0, |ids| ids[unit as usize]);
    Ok(Split::fold(&units, class, folds, fold, valid, seed))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_are_read() {
        assert_eq!(SplitRule::parse("default").unwrap(), SplitRule::Default);
        assert_eq!(
            SplitRule::parse("per-class:20").unwrap(),
            SplitRule::PerClass { train: 20, valid: 500, test: 1000 }
        );
        assert_eq!(
            SplitRule::parse("per-class:5/10/20").unwrap(),
            SplitRule::PerClass { train: 5, valid: 10, test: 20 }
        );
        assert_eq!(SplitRule::parse("fractions:60/20/20").unwrap(), SplitRule::Fractions([60.0, 20.0, 20.0]));
        assert_eq!(SplitRule::parse("own:3").unwrap(), SplitRule::Own(3));
        assert_eq!(SplitRule::parse("folds:10/9").unwrap(), SplitRule::Fold { folds: 10, fold: 9, valid: 1 });
        assert_eq!(SplitRule::parse("folds:10/9/3").unwrap(), SplitRule::Fold { folds: 10, fold: 9, valid: 3 });
        assert!(SplitRule::parse("folds:10/9/0").is_err() && SplitRule::parse("folds:10/9/10").is_err());
        assert_eq!(SplitRule::parse("fractions:0.7/0.2/0.1").unwrap(), SplitRule::Fractions([0.7, 0.2, 0.1]));
        for (wrong, sum) in [("fractions:60/20/30", "110"), ("fractions:6/2/2", "10"), ("fractions:0.6/0.2/0", "0.8")] {
            let message = SplitRule::parse(wrong).unwrap_err().to_string();
            assert!(message.contains(&format!("adds up to {sum}; expected")), "{message}");
        }
        for wrong in [
            "own:",
            "folds:10",
            "folds:10/10",
            "folds:2/0",
            "",
            "random",
            "per-class:",
            "per-class:0",
            "fractions:1/2",
            "fractions:0/1/1",
            "fractions:a/b/c",
        ] {
            assert!(SplitRule::parse(wrong).is_err(), "{wrong}");
        }
    }
}

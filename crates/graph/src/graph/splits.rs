//! Train, validation and test sets over labelled units (nodes, or graphs for graph tasks).

use crate::error::{Error, Result};
use crate::seed::{Purpose, Stream};

/// Unit ids of each part; parts are disjoint, train is not empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Split {
    /// Units whose labels are fitted.
    pub train: Vec<u32>,
    /// Units that choose the epoch.
    pub valid: Vec<u32>,
    /// Units that are only scored.
    pub test: Vec<u32>,
}

impl Split {
    /// Whether no part has a unit.
    pub fn is_empty(&self) -> bool {
        self.train.is_empty() && self.valid.is_empty() && self.test.is_empty()
    }

    /// Of `units`, whose classes are in `classes`: `per_class` of each class to train on, then `valid` and `test` of the
    /// rest.
    ///
    /// # Errors
    /// A class with too few units, or too few left over.
    pub fn per_class(
        units: &[u32],
        classes: &[u32],
        per_class: usize,
        valid: usize,
        test: usize,
        seed: u64,
    ) -> Result<Split> {
        let class_count = units.iter().map(|&unit| classes[unit as usize] as usize + 1).max().unwrap_or(0);
        let order = shuffled(units, seed);
        let mut taken = vec![0; class_count];
        let (mut train, mut rest) = (Vec::new(), Vec::new());
        for unit in order {
            let class = classes[unit as usize] as usize;
            if taken[class] < per_class {
                taken[class] += 1;
                train.push(unit);
            } else {
                rest.push(unit);
            }
        }
        if let Some(class) = taken.iter().position(|&count| count < per_class) {
            return Err(Error::Data(format!(
                "a split with {per_class} per class was asked for, class {class} has only {} units",
                taken[class]
            )));
        }
        if rest.len() < valid.saturating_add(test) {
            return Err(Error::Data(format!(
                "a split with {valid} validation and {test} test units was asked for, {} units are left",
                rest.len()
            )));
        }
        let test = rest[valid..valid + test].to_vec();
        rest.truncate(valid);
        Ok(Split { train, valid: rest, test })
    }

    /// Random parts of `units` in the given proportions, for example [60, 20, 20].
    pub fn fractions(units: &[u32], parts: [f64; 3], seed: u64) -> Split {
        let order = shuffled(units, seed);
        let units = order.len();
        let total: f64 = parts.iter().sum();
        let train_end = (units as f64 * parts[0] / total).round() as usize;
        let valid_end = ((units as f64 * (parts[0] + parts[1]) / total).round() as usize).min(units);
        Split {
            train: order[..train_end].to_vec(),
            valid: order[train_end..valid_end].to_vec(),
            test: order[valid_end..].to_vec(),
        }
    }

    /// One of `folds` rounds of a cross-validation: fold number `fold` tests, the one `valid` further on (1: the next)
    /// validates, the others train.
    /// Every class (of `class`, where it is given) is spread evenly over the folds.
    pub fn fold(
        units: &[u32],
        class: impl Fn(u32) -> u32,
        folds: usize,
        fold: usize,
        valid: usize,
        seed: u64,
    ) -> Split {
        let mut order = shuffled(units, seed);
        // Dealing class by class without starting over keeps the folds of one size, too.
        order.sort_by_key(|&unit| class(unit));
        let mut split = Split::default();
        for (at, &unit) in order.iter().enumerate() {
            match at % folds {
                dealt if dealt == fold => split.test.push(unit),
                dealt if dealt == (fold + valid) % folds => split.valid.push(unit),
                _ => split.train.push(unit),
            }
        }
        split
    }

    /// Checks ids and disjointness.
    ///
    /// # Errors
    /// An id out of range, a unit in two parts, or no unit to train on.
    pub fn check(&self, units: usize) -> Result<()> {
        let mut part_of = vec![""; units];
        for (name, ids) in [("train", &self.train), ("validation", &self.valid), ("test", &self.test)] {
            for &unit in ids {
                match part_of.get_mut(unit as usize) {
                    None => return Err(Error::Data(format!("{name} split has id {unit}, there are {units} units"))),
                    Some(part) if *part == name => {
                        return Err(Error::Data(format!("unit {unit} is in the {name} split twice")));
                    }
                    Some(part) if !part.is_empty() => {
                        return Err(Error::Data(format!("unit {unit} is in the {part} split and in the {name} split")));
                    }
                    Some(part) => *part = name,
                }
            }
        }
        if self.train.is_empty() {
            return Err(Error::Data(
                "the train split is empty: at least one labelled node or graph is needed to train on".into(),
            ));
        }
        Ok(())
    }
}

fn shuffled(units: &[u32], seed: u64) -> Vec<u32> {
    let mut order = units.to_vec();
    Stream::new(seed, Purpose::Splits, 0).rng().shuffle(&mut order);
    order
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn per_class_takes_the_same_number_of_each() {
        let classes: Vec<u32> = (0..100).map(|i| if i < 70 { 0 } else { 1 }).collect();
        let units: Vec<u32> = (0..100).collect();
        let draw = |train, valid, test| Split::per_class(&units, &classes, train, valid, test, 1);
        let split = draw(10, 20, 30).unwrap();
        split.check(100).unwrap();
        let ones = split.train.iter().filter(|&&i| classes[i as usize] == 1).count();
        assert_eq!((split.train.len(), ones, split.valid.len(), split.test.len()), (20, 10, 20, 30));
        assert!(draw(40, 0, 0).unwrap_err().to_string().contains("class 1 has only 30"));
        assert!(draw(10, 50, 50).unwrap_err().to_string().contains("80 units are left"));
        assert!(draw(1, usize::MAX, 1).is_err());
        // Units that were not given, for want of a label, are in no part.
        let classes = [0, u32::MAX, 1, 0, 1, u32::MAX, 0, 1];
        let split = Split::per_class(&[0, 2, 3, 4, 6, 7], &classes, 2, 1, 1, 3).unwrap();
        assert!([&split.train, &split.valid, &split.test].into_iter().flatten().all(|&i| i != 1 && i != 5));
    }

    #[test]
    fn fractions_cover_everything_once_and_follow_the_seed() {
        let units: Vec<u32> = (0..101).collect();
        let split = Split::fractions(&units, [60.0, 20.0, 20.0], 4);
        split.check(101).unwrap();
        assert_eq!((split.train.len(), split.valid.len(), split.test.len()), (61, 20, 20));
        assert_eq!(split, Split::fractions(&units, [60.0, 20.0, 20.0], 4));
        assert_ne!(split, Split::fractions(&units, [60.0, 20.0, 20.0], 5));
    }

    #[test]
    fn folds_test_every_unit_once_and_keep_the_classes_even() {
        let units: Vec<u32> = (0..188).collect();
        let class = |unit: u32| u32::from(unit < 63);
        let folds: Vec<Split> = (0..10).map(|fold| Split::fold(&units, class, 10, fold, 1, 7)).collect();
        let mut tested: Vec<u32> = folds.iter().flat_map(|split| split.test.clone()).collect();
        tested.sort_unstable();
        assert_eq!(tested, units);
        for (fold, split) in folds.iter().enumerate() {
            split.check(188).unwrap();
            assert_eq!(split.train.len() + split.valid.len() + split.test.len(), 188);
            let ones = split.test.iter().filter(|&&unit| class(unit) == 1).count();
            assert!((18..=19).contains(&split.test.len()) && (6..=7).contains(&ones), "{fold}: {ones}");
            assert_eq!(split.valid, folds[(fold + 1) % 10].test);
        }
        assert_ne!(folds[0], Split::fold(&units, class, 10, 0, 1, 8));
    }

    #[test]
    fn overlap_range_and_emptiness_are_refused() {
        let split = |train: &[u32], valid: &[u32]| Split { train: train.to_vec(), valid: valid.to_vec(), test: vec![] };
        assert!(split(&[0], &[0]).check(2).unwrap_err().to_string().contains("train split and in the validation"));
        assert!(split(&[2], &[]).check(2).unwrap_err().to_string().contains("id 2"));
        assert!(split(&[], &[0]).check(2).unwrap_err().to_string().contains("train split is empty"));
    }
}

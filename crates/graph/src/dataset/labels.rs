//! What is to be predicted: one class per unit, several yes/no labels, or numbers.

use crate::error::{Error, Result};

/// Class of a unit whose label is not known; no split may hold it.
pub const UNLABELLED: u32 = u32::MAX;
/// More classes than this are taken for a damaged file.
const MOST: usize = 1 << 20;

/// Labels of all units.
#[derive(Clone, Debug, PartialEq)]
pub enum Labels {
    /// One class each. Two classes are a binary task with one output.
    Classes {
        /// Class of each unit, or [`UNLABELLED`].
        ids: Vec<u32>,
        /// Number of classes, at least 2.
        classes: usize,
    },
    /// Several independent yes/no labels each.
    Multi {
        /// Units x width, 0 or 1.
        bits: Vec<u8>,
        /// Labels of each unit.
        width: usize,
    },
    /// Numbers to be fitted, in their own units.
    Values {
        /// Units x width; NaN where a number is not known.
        values: Vec<f32>,
        /// Numbers of each unit.
        width: usize,
    },
}

impl Labels {
    /// Number of units, labelled or not.
    pub fn units(&self) -> usize {
        match self {
            Labels::Classes { ids, .. } => ids.len(),
            Labels::Multi { bits, width } => bits.len().checked_div(*width).unwrap_or(0),
            Labels::Values { values, width } => values.len().checked_div(*width).unwrap_or(0),
        }
    }

    /// L, the number of outputs.
    pub fn outputs(&self) -> usize {
        match *self {
            Labels::Classes { classes: 2, .. } => 1,
            Labels::Classes { classes, .. } => classes,
            Labels::Multi { width, .. } | Labels::Values { width, .. } => width,
        }
    }

    /// How many names people have for them: of classes, of labels, or of the numbers.
    pub fn names(&self) -> usize {
        match *self {
            Labels::Classes { classes, .. } => classes,
            Labels::Multi { width, .. } | Labels::Values { width, .. } => width,
        }
    }

    /// Names by number, for labels that came without.
    pub fn numbered_names(&self) -> Vec<String> {
        match self {
            Labels::Values { width: 1, .. } => vec!["target".into()],
            Labels::Values { width, .. } => (0..*width).map(|output| format!("target {output}")).collect(),
            _ => (0..self.names()).map(|class| format!("class {class}")).collect(),
        }
    }

    /// Whether units have one class each.
    pub fn is_classes(&self) -> bool {
        matches!(self, Labels::Classes { .. })
    }

    /// Whether numbers are to be fitted.
    pub fn is_values(&self) -> bool {
        matches!(self, Labels::Values { .. })
    }

    /// Class of each unit; none where units have no single class.
    pub fn class_ids(&self) -> Option<&[u32]> {
        match self {
            Labels::Classes { ids, .. } => Some(ids),
            Labels::Multi { .. } | Labels::Values { .. } => None,
        }
    }

    /// Whether the label of a unit is known; of several numbers, all of them.
    pub fn is_labelled(&self, unit: usize) -> bool {
        match self {
            Labels::Classes { ids, .. } => ids[unit] != UNLABELLED,
            Labels::Multi { .. } => true,
            Labels::Values { .. } => self.values(unit).iter().all(|value| !value.is_nan()),
        }
    }

    /// Labels of one unit as codes: the class, or one 0/1 per label. Numbers have none.
    pub fn codes(&self, unit: usize) -> impl Iterator<Item = i32> + '_ {
        let (ids, bits): (&[u32], &[u8]) = match self {
            Labels::Classes { ids, .. } => (&ids[unit..=unit], &[]),
            Labels::Multi { bits, width } => (&[], &bits[unit * width..(unit + 1) * width]),
            Labels::Values { .. } => (&[], &[]),
        };
        ids.iter().map(|&id| id as i32).chain(bits.iter().map(|&bit| i32::from(bit)))
    }

    /// Numbers of one unit; classes and yes/no labels have none.
    pub fn values(&self, unit: usize) -> &[f32] {
        match self {
            Labels::Values { values, width } => &values[unit * width..(unit + 1) * width],
            Labels::Classes { .. } | Labels::Multi { .. } => &[],
        }
    }

    /// The same labels with unit `order[new]` at `new`.
    pub fn reordered(&self, order: &[u32]) -> Labels {
        fn rows<T: Copy>(all: &[T], width: usize, order: &[u32]) -> Vec<T> {
            order.iter().flat_map(|&old| &all[old as usize * width..][..width]).copied().collect()
        }
        match self {
            Labels::Classes { ids, classes } => Labels::Classes { ids: rows(ids, 1, order), classes: *classes },
            Labels::Multi { bits, width } => Labels::Multi { bits: rows(bits, *width, order), width: *width },
            Labels::Values { values, width } => Labels::Values { values: rows(values, *width, order), width: *width },
        }
    }

    pub(super) fn check(&self) -> Result<()> {
        match self {
            Labels::Classes { ids, classes } => {
                if !(2..=MOST).contains(classes) {
                    return Err(Error::Data(format!("a task needs 2 to {MOST} classes, found {classes}")));
                }
                match ids.iter().position(|&id| id as usize >= *classes && id != UNLABELLED) {
                    Some(unit) => Err(Error::Data(format!(
                        "label of unit {unit} is {}: labels must be in 0..{classes}",
                        ids[unit]
                    ))),
                    None => Ok(()),
                }
            }
            Labels::Multi { bits, width } => {
                check_rows(bits.len(), *width, "label bits")?;
                match bits.iter().position(|&bit| bit > 1) {
                    Some(at) => Err(Error::Data(format!(
                        "label {} of unit {} is {}: multi-label entries are 0 or 1",
                        at % width,
                        at / width,
                        bits[at]
                    ))),
                    None => Ok(()),
                }
            }
            Labels::Values { values, width } => {
                check_rows(values.len(), *width, "target values")?;
                match values.iter().position(|value| value.is_infinite()) {
                    Some(at) => Err(Error::Data(format!(
                        "target {} of unit {} is {}: targets are finite numbers, or NaN where they are not known",
                        at % width,
                        at / width,
                        values[at]
                    ))),
                    None => Ok(()),
                }
            }
        }
    }
}

fn check_rows(entries: usize, width: usize, what: &str) -> Result<()> {
    match (1..=MOST).contains(&width) && entries.is_multiple_of(width) {
        true => Ok(()),
        false => Err(Error::Data(format!("{entries} {what} are not rows of {width}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_labels_with_an_output_each() {
        let labels = Labels::Values { values: vec![1.5, 2.0, f32::NAN, 4.0, -1.0, 0.0], width: 2 };
        assert_eq!((labels.units(), labels.outputs(), labels.names()), (3, 2, 2));
        assert_eq!([0, 1, 2].map(|unit| labels.is_labelled(unit)), [true, false, true]);
        assert_eq!(labels.values(2), [-1.0, 0.0]);
        assert_eq!(labels.reordered(&[2, 0, 1]).values(0), [-1.0, 0.0]);
        assert_eq!(labels.numbered_names(), ["target 0", "target 1"]);
        assert!(labels.check().is_ok() && labels.codes(0).next().is_none());
        let infinite = Labels::Values { values: vec![1.0, f32::INFINITY], width: 1 };
        let message = infinite.check().unwrap_err().to_string();
        assert!(message.contains("target 0 of unit 1 is inf"), "{message}");
        assert!(Labels::Values { values: vec![1.0; 3], width: 2 }.check().is_err());
    }
}

//! How much each unit counts while a model is fitted: a column of the user's table that is no feature.

use crate::error::{Error, Result};

/// A weight for every unit, in its own scale: only ratios matter.
#[derive(Clone, Debug, PartialEq)]
pub struct UnitWeights {
    /// What the table calls the column.
    pub column: String,
    /// Finite and above 0; 1 where a unit has no label.
    pub values: Vec<f32>,
}

impl UnitWeights {
    /// Checks that there is one for each unit, and every one a number above 0.
    ///
    /// # Errors
    /// The first that is not, by number.
    pub fn check(&self, units: usize) -> Result<()> {
        if self.values.len() != units {
            return Err(Error::Data(format!("{} weights for {units} labelled units", self.values.len())));
        }
        match self.values.iter().position(|&weight| !is_weight(weight)) {
            Some(unit) => Err(Error::Data(format!(
                "the weight of unit {unit} is {}: expected a number above 0; a unit that should not count is one without a label \
                 or in no part of the split",
                self.values[unit]
            ))),
            None => Ok(()),
        }
    }

    /// Those of units in another order: unit `order[new]` comes to `new`.
    #[must_use]
    pub fn reordered(&self, order: &[u32]) -> UnitWeights {
        let values = order.iter().map(|&old| self.values[old as usize]).collect();
        UnitWeights { column: self.column.clone(), values }
    }
}

/// Whether a number can be a weight.
pub fn is_weight(weight: f32) -> bool {
    weight.is_finite() && weight > 0.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_weight_is_a_number_above_zero() {
        let weights = |values: &[f32]| UnitWeights { column: "w".into(), values: values.to_vec() };
        assert!(weights(&[0.5, 3e30]).check(2).is_ok());
        assert!(weights(&[0.5]).check(2).unwrap_err().to_string().contains("1 weights for 2"));
        for bad in [0.0, -1.0, f32::NAN, f32::INFINITY] {
            let error = weights(&[1.0, bad]).check(2).unwrap_err().to_string();
            assert!(error.contains("unit 1") && error.contains("above 0"), "{error}");
        }
        assert_eq!(weights(&[1.0, 2.0, 3.0]).reordered(&[2, 0, 1]).values, [3.0, 1.0, 2.0]);
    }
}

//! Rows of edges that are wrong: named, or left out and counted.

use super::faults::Faults;
use harmonia_graph::error::{Error, Result};
use std::path::Path;

/// Rows without a positive weight, and others that were left out.
#[derive(Default)]
pub(super) struct BadRows {
    /// Where the first ones without weight are, and the first weight.
    weights: Vec<String>,
    first: f32,
    without_weight: usize,
    /// Rows that are left out, and what is wrong with the first.
    pub(super) dropped: usize,
    first_dropped: String,
}

impl BadRows {
    /// Rows that are named.
    const SHOWN: usize = 10;

    pub(super) fn weight(&mut self, weight: f32, at: &dyn Fn() -> String) {
        if self.without_weight == 0 {
            self.first = weight;
        }
        if self.weights.len() < Self::SHOWN {
            self.weights.push(at());
        }
        self.without_weight += 1;
    }

    /// Leaves a row out.
    pub(super) fn leave_out(&mut self, what: impl FnOnce() -> String) {
        if self.dropped == 0 {
            self.first_dropped = what();
        }
        self.dropped += 1;
    }

    /// Where no row is left, they are no exceptions: ids of another column, or another file.
    ///
    /// # Errors
    /// Any was left out.
    pub(super) fn refuse_all(&self, path: &Path) -> Result<()> {
        match self.dropped {
            0 => Ok(()),
            rows => {
                let message = format!("every row is wrong ({rows}), so that no edge is left; {}", self.first_dropped);
                Err(Error::file(path, message))
            }
        }
    }

    /// Those that are not left out are a fault.
    pub(super) fn refuse_weights(&self, faults: &mut Faults) {
        if self.without_weight == 0 {
            return;
        }
        faults.add_all(self.without_weight, || {
            let first = self.weights.first().map_or("", String::as_str);
            let others = match self.without_weight - 1 {
                0 => String::new(),
                1 => format!("; 1 more row has no weight > 0 ({})", self.weights.get(1).map_or("", String::as_str)),
                more => {
                    let dots = if more >= Self::SHOWN { ", ..." } else { "" };
                    let rest = self.weights.get(1..).unwrap_or(&[]).join(", ");
                    format!("; {more} more rows have no weight > 0 ({rest}{dots})")
                }
            };
            let found = if self.first.is_nan() { "none".to_string() } else { self.first.to_string() };
            format!("{first}: expected a weight > 0, found {found}{others}")
        });
    }
}

//! The mean response of each feature over all nodes.
//!
//! A constant in f_k cannot be told from the intercept: rows of M^t sum to one. Explanations therefore take the mean off
//! every response and add it to the intercept, so that a term says what is particular about a node. Means are a pass over
//! all of X: training leaves them in the run directory, and one prediction of a large graph can be explained without it.

use super::Factors;
use super::response::{LANES, each_block};
use harmonia_graph::dataset::Features;
use harmonia_graph::error::{Error, Result};
use harmonia_graph::files;
use harmonia_graph::npy::{self, Element, Npy};
use rayon::prelude::*;
use std::path::Path;

/// Its name in a run directory; a vector of d numbers, f64.
pub const FILE: &str = "centres.npy";

/// Nodes of a task; fixed, so that sums do not depend on threads.
const PORTION: usize = 1 << 10;

/// Mean over all nodes of f_k, d values.
pub fn mean_responses(factors: &Factors, features: &Features) -> Vec<f64> {
    let d = factors.features();
    let starts: Vec<usize> = (0..features.rows).step_by(PORTION).collect();
    let partial: Vec<Vec<f64>> = (starts.par_iter())
        .map(|&start| {
            let mut sums = vec![0.0; d];
            let nodes = start..(start + PORTION).min(features.rows);
            each_block(factors.responses(), features, nodes, |nodes, responses| {
                let sum_of = |f: &[f64; LANES]| f[..nodes.len()].iter().sum::<f64>();
                sums.iter_mut().zip(responses).for_each(|(sum, f)| *sum += sum_of(f));
            });
            sums
        })
        .collect();
    let mut means = vec![0.0; d];
    for part in partial {
        means.iter_mut().zip(part).for_each(|(mean, part)| *mean += part);
    }
    means.iter_mut().for_each(|mean| *mean /= features.rows.max(1) as f64);
    means
}

/// Writes means.
///
/// # Errors
/// The disk is full or not writable.
pub fn write(path: &Path, means: &[f64]) -> Result<()> {
    let mut bytes = npy::header(Element::F64, &[means.len()]);
    bytes.extend(means.iter().flat_map(|mean| mean.to_le_bytes()));
    files::write_atomic(path, &bytes)
}

/// Reads means.
///
/// # Errors
/// The file is damaged or has another length.
pub fn read(path: &Path, features: usize) -> Result<Vec<f64>> {
    let bytes = files::read(path)?;
    let means = Npy::parse(&bytes, path).map(|array| array.doubles()).unwrap_or_default();
    match means.len() == features && means.iter().all(|mean| mean.is_finite()) {
        true => Ok(means),
        false => Err(Error::file(
            path,
            format!("expected {features} finite numbers, found something else; delete the file, it is computed anew"),
        )),
    }
}

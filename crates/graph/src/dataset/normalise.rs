//! Rescaling of features before training: none, by row, by column, or by the kind of column.
//!
//! Standardising takes its means and deviations from the training nodes alone, so that nothing of the test set leaks
//! into them; they are kept with the model, which then takes features in their own units.

use super::{Dataset, Features, Level, Values};
use crate::error::{Error, Result};
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

/// How X is rescaled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Normalise {
    /// Not at all.
    #[default]
    None,
    /// Each row divided by its sum (rows that sum to zero stay), as is usual for bags of words. Structural features take no
    /// part.
    Row,
    /// Each column shifted and scaled to mean 0 and deviation 1 over the training nodes.
    Standardise,
    /// The same of columns of numbers; columns that have only 0 and 1 stay, and so does X where it is held as sparse rows: zeros
    /// of words and of categories mean something, and stay zeros.
    Auto,
}

/// What was done to X, kept with the model so that it takes features in their own units.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Scaling {
    /// Every row divided by its sum.
    Rows,
    /// (x - mean) / deviation, column by column.
    Columns {
        /// Over the training nodes.
        mean: Vec<f32>,
        /// Over the training nodes; 1 where all their values are equal.
        deviation: Vec<f32>,
    },
}

impl Normalise {
    /// The features of a dataset whose split is settled, rescaled, and what it took.
    ///
    /// # Errors
    /// A result that is not finite: rows of mixed signs can sum to almost nothing.
    pub fn apply(self, dataset: &Dataset) -> Result<(Features, Option<Scaling>)> {
        let scaling = match self {
            Normalise::None => return Ok(((*dataset.features).clone(), None)),
            Normalise::Row => Scaling::Rows,
            Normalise::Standardise => Scaling::of_columns(dataset),
            Normalise::Auto => match Scaling::of_numbers(dataset) {
                Some(scaling) => scaling,
                None => return Ok(((*dataset.features).clone(), None)),
            },
        };
        let features = scaling.apply(dataset)?;
        features.check().map_err(|error| Error::Data(format!("after normalising ({self:?}), {error}")))?;
        Ok((features, Some(scaling)))
    }
}

/// `own`: columns that add up and are divided; of copies one adds up.
fn by_row(features: &Features, own: usize, copies: usize) -> Result<Features> {
    let mut values = features.dense().into_owned();
    values.par_chunks_mut(features.cols.max(1)).with_min_len(1 << 8).for_each(|row| {
        let row = &mut row[..own];
        let sum: f32 = row.iter().step_by(copies).sum();
        if sum != 0.0 {
            row.iter_mut().for_each(|value| *value /= sum);
        }
    });
    Ok(Features::new(features.rows, features.cols, values)?.compact())
}

impl Scaling {
    /// Means and deviations over the nodes that the training units are, or are made of.
    fn of_columns(dataset: &Dataset) -> Scaling {
        let features = &dataset.features;
        let nodes: Vec<usize> = match dataset.level {
            Level::Node => dataset.split.train.iter().map(|&unit| unit as usize).collect(),
            Level::Graph => dataset.split.train.iter().flat_map(|&graph| dataset.graph_nodes(graph as usize)).collect(),
        };
        // Portions of fixed size, added up in order: the same bits for any number of threads.
        const PORTION: usize = 1 << 12;
        let sums = |value: &(dyn Fn(usize, f32) -> f64 + Sync)| -> Vec<f64> {
            let partial: Vec<Vec<f64>> = (nodes.par_chunks(PORTION))
                .map(|nodes| {
                    let mut sums = vec![0.0; features.cols];
                    let mut row = vec![0f32; features.cols];
                    for &i in nodes {
                        row.fill(0.0);
                        features.fill_row(i, &mut row);
                        sums.iter_mut().zip(&row).enumerate().for_each(|(k, (sum, &x))| *sum += value(k, x));
                    }
                    sums
                })
                .collect();
            let mut total = vec![0.0; features.cols];
            partial.iter().for_each(|part| total.iter_mut().zip(part).for_each(|(total, part)| *total += part));
            total
        };
        let count = nodes.len().max(1) as f64;
        let mean: Vec<f64> = sums(&|_, x| f64::from(x)).into_iter().map(|sum| sum / count).collect();
        let variance = sums(&|k, x| (f64::from(x) - mean[k]).powi(2));
        let deviation = variance.into_iter().map(|sum| (sum / count).sqrt() as f32);
        Scaling::Columns {
            // A column that does not vary would be divided by nothing.
            deviation: deviation.map(|deviation| if deviation > f32::MIN_POSITIVE { deviation } else { 1.0 }).collect(),
            mean: mean.into_iter().map(|mean| mean as f32).collect(),
        }
    }

    /// Of columns that are numbers alone; none where there are none.
    fn of_numbers(dataset: &Dataset) -> Option<Scaling> {
        if matches!(dataset.features.values(), Values::Sparse(_)) {
            return None;
        }
        let kept = columns_of_bits(&dataset.features);
        let Scaling::Columns { mut mean, mut deviation } = Scaling::of_columns(dataset) else { return None };
        for (k, _) in kept.iter().enumerate().filter(|(_, kept)| **kept) {
            // Subtracting 0 and dividing by 1 changes no bit.
            (mean[k], deviation[k]) = (0.0, 1.0);
        }
        kept.contains(&false).then_some(Scaling::Columns { mean, deviation })
    }

    /// Columns that it changes.
    pub fn changed(&self) -> usize {
        match self {
            Scaling::Rows => 0,
            Scaling::Columns { mean, deviation } => {
                mean.iter().zip(deviation).filter(|(mean, deviation)| (**mean, **deviation) != (0.0, 1.0)).count()
            }
        }
    }

    /// Features of a dataset, rescaled.
    ///
    /// # Errors
    /// Another number of columns.
    pub fn apply(&self, dataset: &Dataset) -> Result<Features> {
        match self {
            Scaling::Rows => by_row(&dataset.features, dataset.own_columns(), dataset.copies()),
            Scaling::Columns { mean, deviation } => by_column(&dataset.features, mean, deviation),
        }
    }
}

/// Which columns have no values but 0 and 1. All nodes are asked: what kind a column is says nothing about labels.
fn columns_of_bits(features: &Features) -> Vec<bool> {
    let all = || vec![true; features.cols];
    let both = |mut a: Vec<bool>, b: Vec<bool>| {
        a.iter_mut().zip(&b).for_each(|(a, b)| *a &= b);
        a
    };
    let nodes = (0..features.rows).into_par_iter().with_min_len(1 << 10);
    let bits = nodes.fold(
        || (all(), Vec::new()),
        |(mut bits, mut scratch), i| {
            let row = features.row(i, &mut scratch);
            bits.iter_mut().zip(row).for_each(|(bits, &x)| *bits &= x == 0.0 || x == 1.0);
            (bits, scratch)
        },
    );
    bits.map(|(bits, _)| bits).reduce(all, both)
}

fn by_column(features: &Features, mean: &[f32], deviation: &[f32]) -> Result<Features> {
    if mean.len() != features.cols || deviation.len() != features.cols {
        let (expected, found) = (mean.len(), features.cols);
        return Err(Error::Data(format!("the scaling is of {expected} features, the dataset has {found}")));
    }
    let mut values = features.dense().into_owned();
    values.par_chunks_mut(features.cols.max(1)).with_min_len(1 << 8).for_each(|row| {
        for ((value, mean), deviation) in row.iter_mut().zip(mean).zip(deviation) {
            *value = (*value - mean) / deviation;
        }
    });
    Features::new(features.rows, features.cols, values)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dataset::Labels;
    use crate::graph::{Direction, Graph, Split};

    fn dataset() -> Dataset {
        let graph = Graph::from_edges(4, &[(0, 1)], None, Direction::Undirected).unwrap();
        let values = vec![1.0, 5.0, 3.0, 5.0, 100.0, 6.0, -50.0, 0.0];
        let labels = Labels::Classes { ids: vec![0, 1, 0, 1], classes: 2 };
        let split = Split { train: vec![0, 1], valid: vec![2], test: vec![3] };
        Dataset::nodes("n", graph, Features::new(4, 2, values).unwrap(), labels, split).unwrap()
    }

    #[test]
    fn standardising_knows_the_training_nodes_only() {
        let (features, scaling) = Normalise::Standardise.apply(&dataset()).unwrap();
        assert_eq!(scaling, Some(Scaling::Columns { mean: vec![2.0, 5.0], deviation: vec![1.0, 1.0] }));
        assert_eq!(*features.dense(), [-1.0, 0.0, 1.0, 0.0, 98.0, 1.0, -52.0, -5.0]);
    }

    #[test]
    fn numbers_are_standardised_and_columns_of_0_and_1_stay() {
        let mut data = dataset();
        let values = vec![1.0, 1.0, 3.0, 0.0, 100.0, 1.0, -50.0, 0.0];
        data.features = Features::new(4, 2, values).unwrap().into();
        let (features, scaling) = Normalise::Auto.apply(&data).unwrap();
        assert_eq!(*features.dense(), [-1.0, 1.0, 1.0, 0.0, 98.0, 1.0, -52.0, 0.0]);
        let scaling = scaling.unwrap();
        assert_eq!(scaling, Scaling::Columns { mean: vec![2.0, 0.0], deviation: vec![1.0, 1.0] });
        assert_eq!(scaling.changed(), 1);
        // New data with another value in the column that stayed: the kept scaling says what is done, not the data.
        data.features = Features::new(4, 2, vec![1.0, 7.0, 3.0, 0.0, 2.0, 1.0, 2.0, 0.0]).unwrap().into();
        assert_eq!(*scaling.apply(&data).unwrap().dense(), [-1.0, 7.0, 1.0, 0.0, 0.0, 1.0, 0.0, 0.0]);
    }

    #[test]
    fn where_there_are_no_numbers_nothing_is_rescaled() {
        let mut data = dataset();
        data.features = Features::new(4, 2, vec![1.0, 0.0, 0.0, 1.0, 1.0, 1.0, 0.0, 0.0]).unwrap().into();
        let (features, scaling) = Normalise::Auto.apply(&data).unwrap();
        assert_eq!((scaling, features.dense()), (None, data.features.dense()));
        // Sparse rows of numbers stay sparse.
        let mut words = vec![0.0; 4 * 64];
        (words[3], words[70], words[130]) = (0.5, 2.0, 1.0);
        data.features = Features::new(4, 64, words).unwrap().compact().into();
        assert!(matches!(data.features.values(), Values::Sparse(_)));
        let (features, scaling) = Normalise::Auto.apply(&data).unwrap();
        assert!(scaling.is_none() && matches!(features.values(), Values::Sparse(_)));
    }

    #[test]
    fn rows_sum_to_one() {
        let (features, scaling) = Normalise::Row.apply(&dataset()).unwrap();
        assert_eq!(scaling, Some(Scaling::Rows));
        assert!(features.dense().chunks(2).all(|row| (row[0] + row[1] - 1.0).abs() < 1e-6));
    }
}

//! A few points of every feature, and the hat functions between them.
//!
//! A feature with few values has a point at each of them: every function of it is then known from its points. Others have
//! points between their least and largest value, close where values are: with quantiles z_j of the feature, steps of
//! equal size in the cumulated (z_j - z_{j-1})^(2/3), no gap counting for more than one step. Where one point is asked for it is the
//! median. Invariant: the points of a feature increase strictly, and no value lies outside two or more of them.

use crate::dataset::{Features, Values};
use crate::error::{Error, Result};
use rayon::prelude::*;
use std::ops::Range;

/// Quantiles that points are placed by, but for the two ends.
const QUANTILES: usize = 2000;
/// Values of a feature that its quantiles are taken from, at most; evenly spaced over the nodes.
const SAMPLED: usize = 1 << 16;
/// Times that wide gaps are cut down: each brings them nearer to one step by the number of steps.
const EVENING_OUT: usize = 24;
/// Rows that a task looks at.
const PORTION: usize = 1 << 12;

/// The points of every feature.
#[derive(Clone, Debug, PartialEq)]
pub struct Grid {
    ptr: Vec<usize>,
    points: Vec<f32>,
    exact: bool,
}

impl Grid {
    /// At most `most` points, at least 1, for each column of X, which must be finite.
    pub fn of(features: &Features, most: usize) -> Grid {
        let sets = value_sets(features, most.max(1));
        let exact = sets.iter().all(|set| matches!(set, ValueSet::Few(_)));
        let sample = if exact { Sample { cols: features.cols, values: Vec::new() } } else { Sample::of(features) };
        let columns: Vec<Vec<f32>> = (sets.into_par_iter().enumerate())
            .map(|(k, values)| match values {
                ValueSet::Few(values) => values,
                ValueSet::Many { least, largest } => placed(sample.column(k), least, largest, most.max(1)),
            })
            .collect();
        let mut ptr = vec![0];
        columns.iter().for_each(|column| ptr.push(ptr[ptr.len() - 1] + column.len()));
        Grid { ptr, points: columns.concat(), exact }
    }

    /// From its parts, as they were saved.
    ///
    /// # Errors
    /// They break the invariant.
    pub fn from_parts(ptr: Vec<usize>, points: Vec<f32>, exact: bool) -> Result<Grid> {
        let rows = ptr.first() == Some(&0) && ptr.last() == Some(&points.len());
        let increasing = |span: &[f32]| !span.is_empty() && span.windows(2).all(|pair| pair[0] < pair[1]);
        let whole = rows
            && ptr.windows(2).all(|pair| pair[0] < pair[1] && pair[1] <= points.len())
            && ptr.windows(2).all(|pair| increasing(&points[pair[0]..pair[1]]))
            && points.iter().all(|point| point.is_finite());
        if whole {
            Ok(Grid { ptr, points, exact })
        } else {
            Err(Error::Data("the points of a table are damaged".into()))
        }
    }

    /// Where the points of each feature begin, and the end; all points.
    pub fn parts(&self) -> (&[usize], &[f32]) {
        (&self.ptr, &self.points)
    }

    /// d.
    pub fn features(&self) -> usize {
        self.ptr.len() - 1
    }

    /// Points of feature k.
    pub fn points(&self, k: usize) -> &[f32] {
        &self.points[self.ptr[k]..self.ptr[k + 1]]
    }

    /// Points of the feature that has most.
    pub fn most(&self) -> usize {
        (0..self.features()).map(|k| self.points(k).len()).max().unwrap_or(0)
    }

    /// Hat functions of feature k that a table holds: all but the first, which is what the others leave of 1.
    pub fn stored(&self, k: usize) -> usize {
        self.ptr[k + 1] - self.ptr[k] - 1
    }

    /// Hat functions of some features that a table holds.
    pub fn stored_of(&self, features: Range<usize>) -> usize {
        self.ptr[features.end] - self.ptr[features.start] - features.len()
    }

    /// The point below `x` and the share of the one above it: phi_q(x) = 1 - share, phi_{q+1}(x) = share.
    #[inline]
    pub fn place(&self, k: usize, x: f32) -> (usize, f32) {
        let points = self.points(k);
        let above = points.partition_point(|&point| point <= x).clamp(1, points.len().max(2) - 1);
        let [Some(&low), Some(&high)] = [points.get(above - 1), points.get(above)] else { return (0, 0.0) };
        (above - 1, ((x - low) / (high - low)).clamp(0.0, 1.0))
    }

    /// Whether every feature has a point at each of its values: then nothing is interpolated.
    pub fn is_exact(&self) -> bool {
        self.exact
    }
}

/// What values a column has.
#[derive(Clone, Debug)]
enum ValueSet {
    /// All of them, increasing.
    Few(Vec<f32>),
    /// More than asked for.
    Many { least: f32, largest: f32 },
}

impl ValueSet {
    fn add(&mut self, value: f32, most: usize) {
        // Both zeros are one value.
        let value = value + 0.0;
        match self {
            ValueSet::Few(values) => {
                let at = values.partition_point(|&other| other < value);
                if values.get(at) == Some(&value) {
                    return;
                }
                values.insert(at, value);
                if values.len() > most {
                    *self = ValueSet::Many { least: values[0], largest: values[values.len() - 1] };
                }
            }
            ValueSet::Many { least, largest } => (*least, *largest) = (least.min(value), largest.max(value)),
        }
    }

    fn merge(&mut self, other: &ValueSet, most: usize) {
        match other {
            ValueSet::Few(values) => values.iter().for_each(|&value| self.add(value, most)),
            ValueSet::Many { least, largest } => {
                let (mut low, mut high) = (*least, *largest);
                match self {
                    ValueSet::Few(values) => {
                        values.iter().for_each(|&value| (low, high) = (low.min(value), high.max(value)))
                    }
                    ValueSet::Many { least, largest } => (low, high) = (low.min(*least), high.max(*largest)),
                }
                *self = ValueSet::Many { least: low, largest: high };
            }
        }
    }
}

fn value_sets(features: &Features, most: usize) -> Vec<ValueSet> {
    let rows: Vec<usize> = (0..features.rows).step_by(PORTION).collect();
    let parts: Vec<Vec<ValueSet>> = (rows.par_iter())
        .map(|&first| {
            let mut sets = vec![ValueSet::Few(Vec::new()); features.cols];
            let span = first..(first + PORTION).min(features.rows);
            match features.values() {
                Values::Sparse(sparse) => {
                    let mut seen = vec![0; features.cols];
                    for (k, value) in span.clone().flat_map(|i| sparse.row(i)) {
                        sets[k].add(value, most);
                        seen[k] += 1;
                    }
                    let zeros = sets.iter_mut().zip(seen).filter(|&(_, seen)| seen < span.len());
                    zeros.for_each(|(set, _)| set.add(0.0, most));
                }
                _ => {
                    let mut scratch = Vec::new();
                    for i in span {
                        let row = features.row(i, &mut scratch);
                        sets.iter_mut().zip(row).for_each(|(set, &value)| set.add(value, most));
                    }
                }
            }
            sets
        })
        .collect();
    let mut sets = vec![ValueSet::Few(Vec::new()); features.cols];
    for part in &parts {
        sets.iter_mut().zip(part).for_each(|(set, part)| set.merge(part, most));
    }
    // A column of no rows has a point all the same.
    for set in &mut sets {
        if matches!(set, ValueSet::Few(values) if values.is_empty()) {
            *set = ValueSet::Few(vec![0.0]);
        }
    }
    sets
}

/// Some rows of X, by which columns are sampled.
struct Sample {
    cols: usize,
    values: Vec<f32>,
}

impl Sample {
    fn of(features: &Features) -> Sample {
        let count = features.rows.min(SAMPLED);
        let mut values = vec![0f32; count * features.cols];
        values.par_chunks_mut(features.cols.max(1)).enumerate().with_min_len(1 << 6).for_each(|(at, row)| {
            features.fill_row((at as u64 * features.rows as u64 / count as u64) as usize, row);
        });
        Sample { cols: features.cols, values }
    }

    fn column(&self, k: usize) -> Vec<f32> {
        self.values.iter().skip(k).step_by(self.cols.max(1)).copied().collect()
    }
}

/// `most` points from `least` to `largest`, where the values are.
fn placed(mut values: Vec<f32>, least: f32, largest: f32, most: usize) -> Vec<f32> {
    values.sort_unstable_by(f32::total_cmp);
    let last = values.len() - 1;
    if most == 1 {
        return vec![values[last / 2]];
    }
    let mut quantiles: Vec<f64> =
        (0..=QUANTILES).map(|j| f64::from(values[(j as u64 * last as u64 / QUANTILES as u64) as usize])).collect();
    (quantiles[0], quantiles[QUANTILES]) = (f64::from(least), f64::from(largest));
    let mut gaps: Vec<f64> = quantiles.windows(2).map(|pair| (pair[1] - pair[0]).max(0.0).powf(2.0 / 3.0)).collect();
    // A gap has hardly a value inside: it gets a step at most, however wide an outlier makes it.
    for _ in 0..EVENING_OUT {
        let step = gaps.iter().sum::<f64>() / (most - 1) as f64;
        gaps.iter_mut().for_each(|gap| *gap = gap.min(step));
    }
    let mut reached = vec![0.0];
    gaps.iter().for_each(|gap| reached.push(reached[reached.len() - 1] + gap));
    let total = reached[QUANTILES];
    let mut points = vec![least];
    for step in 1..most - 1 {
        let aim = total * step as f64 / (most - 1) as f64;
        let at = reached.partition_point(|&sum| sum < aim).clamp(1, QUANTILES);
        let share = (aim - reached[at - 1]) / (reached[at] - reached[at - 1]).max(f64::MIN_POSITIVE);
        let point = (quantiles[at - 1] + share.clamp(0.0, 1.0) * (quantiles[at] - quantiles[at - 1])) as f32;
        if point > points[points.len() - 1] && point < largest {
            points.push(point);
        }
    }
    points.push(largest);
    points
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_values_are_points_and_many_are_spanned() {
        let column = |i: usize| [(i % 3) as f32, if i == 7 { 1e6 } else { (i as f32 * 0.37).sin() }, 5.0];
        let features = Features::new(5000, 3, (0..5000).flat_map(column).collect()).unwrap();
        let grid = Grid::of(&features, 9);
        assert_eq!(grid.points(0), [0.0, 1.0, 2.0]);
        assert_eq!(grid.points(2), [5.0]);
        let wide = grid.points(1);
        assert_eq!((wide.len(), wide[wide.len() - 1]), (9, 1e6));
        assert!(wide.windows(2).all(|pair| pair[0] < pair[1]));
        // One outlier does not take the points of all others.
        assert!(wide.iter().filter(|&&point| point <= 1.0).count() >= 4, "{wide:?}");
        assert_eq!(grid.stored_of(0..3), 2 + 8);
        assert!(!grid.is_exact() && Grid::of(&features.columns(&[0, 2]), 9).is_exact());
        let medians = Grid::of(&features, 1);
        assert_eq!((medians.most(), medians.points(0), medians.points(2)), (1, &[1.0][..], &[5.0][..]));
        assert_eq!((medians.stored_of(0..3), medians.place(1, 1e6)), (0, (0, 0.0)));
        assert!(!medians.is_exact());
    }

    #[test]
    fn hats_interpolate_and_sum_to_one() {
        let features = Features::new(4, 1, vec![0.0, 1.0, 3.0, 7.0]).unwrap();
        let grid = Grid::of(&features, 4);
        assert_eq!(grid.place(0, 0.0), (0, 0.0));
        assert_eq!(grid.place(0, 2.0), (1, 0.5));
        assert_eq!(grid.place(0, 7.0), (2, 1.0));
        assert_eq!(grid.place(0, 3.0), (2, 0.0));
        let single = Grid::of(&Features::new(2, 1, vec![4.0, 4.0]).unwrap(), 4);
        assert_eq!(single.place(0, 4.0), (0, 0.0));
    }

    #[test]
    fn zeros_of_sparse_columns_are_values() {
        let mut values = vec![0.0; 40 * 50];
        (values[3], values[49], values[1999]) = (1.5, -2.0, 7.0);
        let sparse = Features::new(40, 50, values.clone()).unwrap().compact();
        assert_eq!(Grid::of(&sparse, 5), Grid::of(&Features::new(40, 50, values).unwrap(), 5));
        assert_eq!(Grid::of(&sparse, 5).points(49), [-2.0, 0.0, 7.0]);
    }

    #[test]
    fn damaged_points_are_refused() {
        assert!(Grid::from_parts(vec![0, 2], vec![0.0, 1.0], true).is_ok());
        for (ptr, points) in [
            (vec![0, 2], vec![1.0, 0.0]),
            (vec![0, 1], vec![0.0, 1.0]),
            (vec![0, 3], vec![0.0, 1.0]),
            (vec![0, 0, 2], vec![0.0, 1.0]),
            (vec![0, 2], vec![0.0, f32::NAN]),
            (vec![], vec![]),
        ] {
            assert!(Grid::from_parts(ptr, points, true).is_err());
        }
    }
}

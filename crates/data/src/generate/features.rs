//! Features: value (i, k) is a function of (seed, i, k), in whole units of 1/10,000.
//!
//! ```text
//! x[i, k] = (mean[z_i, k] + noise[i, k]) / 10,000      informative columns
//! x[i, k] =                 noise[i, k]  / 10,000      all others
//! ```
//!
//! Noise is the sum of four uniform 16-bit numbers: bell-shaped, variance 1, never beyond 3.5. All of it is whole
//! numbers and one division, so the bits are the same on every machine. Invariant: a value has at most four decimals
//! and its shortest text parses back to the same bits.

use super::{Generator, TeacherResponse};
use harmonia_graph::seed::{Purpose, Stream};

/// Columns that carry signal, where there are as many.
pub const INFORMATIVE: usize = 24;
/// Walk orders of informative columns: 0, 1, 2, 0, ...
pub const HOPS: usize = 3;

/// Whole units in 1.
const UNITS: f32 = 10_000.0;
/// Community means lie between -SPREAD and SPREAD units.
const SPREAD: i64 = 8_000;
/// Four numbers of 0..=65535 have this sum on average ...
const NOISE_MEAN: i64 = 2 * 65_535;
/// ... and the standard deviation 65,536 / sqrt(3); this is UNITS over it, times 2^32.
const NOISE_SCALE: i64 = 1_135_116_817;

/// A column whose mean depends on the community.
#[derive(Clone, Debug)]
pub(super) struct Informative {
    /// Which column of X.
    pub feature: usize,
    /// Walk order at which the teacher reads it.
    pub hop: usize,
    /// What the teacher makes of its value.
    pub response: TeacherResponse,
    /// Mean of each community, in units.
    means: Vec<i32>,
}

impl Informative {
    /// All of them, by feature index.
    pub fn draw(features: usize, classes: usize, seed: u64) -> Vec<Informative> {
        let mut columns: Vec<usize> = (0..features).collect();
        Stream::new(seed, Purpose::GenerateColumns, 0).rng().shuffle(&mut columns);
        columns.truncate(INFORMATIVE);
        columns.sort_unstable();
        (columns.into_iter().enumerate())
            .map(|(c, feature)| {
                // Every response meets every hop: nine columns go through all pairs.
                let response = TeacherResponse::ALL[c / HOPS % TeacherResponse::ALL.len()];
                // Evenly spaced levels in an order of their own: every column tells all communities apart a little.
                let mut means: Vec<i32> = (0..classes).map(|level| mean(response, level, classes)).collect();
                Stream::new(seed, Purpose::GenerateColumns, 1 + c as u32).rng().shuffle(&mut means);
                Informative { feature, hop: c % HOPS, response, means }
            })
            .collect()
    }

    /// Mean of the column in community `z`.
    pub fn mean(&self, z: usize) -> f64 {
        f64::from(self.means[z]) / f64::from(UNITS)
    }
}

fn mean(response: TeacherResponse, level: usize, classes: usize) -> i32 {
    let height = (2 * level as i64 + 1) * SPREAD / classes as i64;
    match response {
        TeacherResponse::Linear | TeacherResponse::Tanh => (height - SPREAD) as i32,
        // The square is even: means on both sides of zero would look alike.
        TeacherResponse::Square => height as i32,
    }
}

impl Generator {
    /// Writes the features of node `i`, below the number of nodes, to `row`, which has a place for each.
    pub fn feature_row(&self, i: usize, row: &mut [f32]) {
        let z = self.communities.of(i);
        row.fill(0.0);
        for column in &self.informative {
            if let Some(value) = row.get_mut(column.feature) {
                *value = column.means[z] as f32;
            }
        }
        let stream = self.noise();
        let first = self.first_block(i);
        for (pair, block) in row.chunks_mut(2).zip(first..) {
            let [a, b, c, d] = stream.block(block);
            for (value, noise) in pair.iter_mut().zip([noise(a, b), noise(c, d)]) {
                // Both are whole numbers far below 2^24: the sum is exact, and the division rounds once.
                *value = (noise as f32 + *value) / UNITS;
            }
        }
    }

    /// Value of one informative column.
    pub(super) fn informative_value(&self, i: usize, column: &Informative) -> f32 {
        let [a, b, c, d] = self.noise().block(self.first_block(i) + column.feature as u64 / 2);
        let noise = if column.feature.is_multiple_of(2) { noise(a, b) } else { noise(c, d) };
        (noise + column.means[self.communities.of(i)]) as f32 / UNITS
    }

    fn noise(&self) -> Stream {
        Stream::new(self.seed, Purpose::GenerateFeatures, 0)
    }

    /// A block of random bits serves two values.
    fn first_block(&self, i: usize) -> u64 {
        i as u64 * self.shape.features.div_ceil(2) as u64
    }
}

/// Noise in units from 64 random bits.
#[inline(always)]
fn noise(a: u32, b: u32) -> i32 {
    let sum = (a & 0xFFFF) + (a >> 16) + (b & 0xFFFF) + (b >> 16);
    (((i64::from(sum) - NOISE_MEAN) * NOISE_SCALE + (1 << 31)) >> 32) as i32
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generate::like;

    fn rows(generator: &Generator) -> Vec<f32> {
        let features = generator.shape().features;
        let mut values = vec![0.0; generator.shape().nodes * features];
        values.chunks_exact_mut(features).enumerate().for_each(|(i, row)| generator.feature_row(i, row));
        values
    }

    #[test]
    fn noise_has_the_range_and_centre_that_were_computed_by_hand() {
        assert_eq!(noise(0x7FFF_8000, 0x7FFF_8000), 0); // 2 x (32,767 + 32,768) is the mean
        assert_eq!(noise(u32::MAX, u32::MAX), 34_640); // 131,070 / 37,837.2 = 3.46405
        assert_eq!(noise(0, 0), -34_640);
    }

    #[test]
    fn noise_columns_have_mean_zero_and_variance_one_and_means_lie_where_they_were_put() {
        let generator = Generator::new(like("ogbn-arxiv").unwrap().scaled(0.1).unwrap(), 3).unwrap();
        let (values, d) = (rows(&generator), generator.shape().features);
        let n = generator.shape().nodes as f64;
        let informative: Vec<usize> = generator.informative.iter().map(|column| column.feature).collect();
        for k in (0..d).filter(|k| !informative.contains(k)) {
            let column = || values.iter().skip(k).step_by(d).map(|&value| f64::from(value));
            let (mean, square) = (column().sum::<f64>() / n, column().map(|x| x * x).sum::<f64>() / n);
            // Standard errors 0.008 and 0.01: five of each.
            assert!(mean.abs() < 0.04 && (square - 1.0).abs() < 0.05, "column {k}: {mean} {square}");
        }
        for column in &generator.informative {
            for z in [0, 17, 39] {
                let members: Vec<usize> = (0..n as usize).filter(|&i| generator.communities.of(i) == z).collect();
                let sum: f64 = members.iter().map(|&i| f64::from(values[i * d + column.feature])).sum();
                let error = sum / members.len() as f64 - column.mean(z);
                assert!(error.abs() < 5.0 / (members.len() as f64).sqrt(), "{error}");
            }
        }
    }

    #[test]
    fn text_is_short_and_parses_to_the_same_bits() {
        let generator = Generator::new(like("tolokers").unwrap().scaled(0.5).unwrap(), 3).unwrap();
        for value in rows(&generator) {
            let text = value.to_string();
            assert_eq!(text.parse::<f32>().unwrap().to_bits(), value.to_bits());
            assert!(text.len() <= "-0.0000".len(), "{text}");
        }
    }

    #[test]
    fn one_value_alone_equals_the_value_in_its_row() {
        let generator = Generator::new(like("cora").unwrap().scaled(0.1).unwrap(), 5).unwrap();
        let (values, d) = (rows(&generator), generator.shape().features);
        assert_eq!(generator.informative.len(), INFORMATIVE);
        for column in &generator.informative {
            for i in 0..generator.shape().nodes {
                assert_eq!(generator.informative_value(i, column), values[i * d + column.feature]);
            }
        }
    }

    #[test]
    fn all_columns_are_informative_where_there_are_few() {
        let columns = Informative::draw(10, 2, 1);
        assert_eq!(columns.iter().map(|column| column.feature).collect::<Vec<_>>(), (0..10).collect::<Vec<_>>());
        assert_eq!(columns.iter().map(|column| column.hop).collect::<Vec<_>>(), [0, 1, 2, 0, 1, 2, 0, 1, 2, 0]);
        // Two classes lie half the spread from zero, or at a half and one and a half of it for the square.
        let mut means = columns[0].means.clone();
        means.sort_unstable();
        assert_eq!(means, [-4_000, 4_000]);
        let mut means = columns[6].means.clone();
        means.sort_unstable();
        assert_eq!((columns[6].response, means), (TeacherResponse::Square, vec![4_000, 12_000]));
    }
}

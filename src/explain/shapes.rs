//! The curve of every response f_k: the finite list of knots it is or, of a smooth one, points of it; and how often the
//! data take which values.

use super::Factors;
use harmonia_graph::dataset::{Features, Scaling};
use rayon::prelude::*;

/// Points of a curve that is not made of lines.
const SAMPLES: usize = 257;
/// Where a curve is sampled when nothing is known about the data: what standardised columns are within.
const USUAL: [f64; 2] = [-3.0, 3.0];

/// A function made of lines between knots and beyond them.
#[derive(Clone, Debug, PartialEq)]
pub struct Shape {
    /// (x, f(x)) where the slope changes, increasing in x; a straight line has the point at x = 0.
    pub knots: Vec<[f64; 2]>,
    /// Slope left of the first knot.
    pub left_slope: f64,
    /// Slope right of the last knot.
    pub right_slope: f64,
    /// Whether this is the response everywhere. Otherwise knots are points of it, and lines stand for what is between them.
    pub exact: bool,
}

impl Shape {
    /// f_k, over what the model reads; of a response without knots, between -3 and 3.
    pub fn of(factors: &Factors, k: usize) -> Shape {
        Shape::over(factors, k, USUAL)
    }

    /// f_k, over what the model reads: its knots, wherever they are, or where it has none, points of it over a range.
    pub fn over(factors: &Factors, k: usize, range: [f64; 2]) -> Shape {
        factors.responses().knots(k).unwrap_or_else(|| Shape::sampled(factors, k, range))
    }

    /// Equally spaced points, and tangents beyond them.
    fn sampled(factors: &Factors, k: usize, [low, high]: [f64; 2]) -> Shape {
        let response = factors.responses();
        let (low, high) = if low <= high { (low, high) } else { (0.0, 0.0) };
        let count = if low < high { SAMPLES } else { 1 };
        // The last is the end itself, not what rounding makes of it.
        let x = |at: usize| match at + 1 == count {
            true => high,
            false => low + (high - low) * at as f64 / (SAMPLES - 1) as f64,
        };
        Shape {
            knots: (0..count).map(x).map(|x| [x, response.value(k, x)]).collect(),
            left_slope: response.slope(k, low),
            right_slope: response.slope(k, high),
            exact: false,
        }
    }

    /// A continuous function of lines (slope, intercept), one more than bends: knots are the bends where the line changes.
    pub fn of_lines(bends: &[f64], lines: &[[f64; 2]]) -> Shape {
        let at = |x: f64, [slope, intercept]: [f64; 2]| slope.mul_add(x, intercept);
        // Experts bend where the mixture may not.
        let knots: Vec<[f64; 2]> = (bends.iter().zip(lines.windows(2)))
            .filter(|(_, pair)| pair[0] != pair[1])
            .map(|(&x, pair)| [x, at(x, pair[0])])
            .collect();
        let (left_slope, right_slope) = (lines[0][0], lines[lines.len() - 1][0]);
        let knots = if knots.is_empty() { vec![[0.0, lines[0][1]]] } else { knots };
        Shape { knots, left_slope, right_slope, exact: true }
    }

    /// The same function of a feature in its own units, where the model reads (x - mean) / deviation.
    pub fn in_units(mut self, units: Units) -> Shape {
        self.knots.iter_mut().for_each(|knot| knot[0] = units.own(knot[0]));
        self.left_slope /= units.deviation;
        self.right_slope /= units.deviation;
        self
    }

    /// Slope of the line that ends at a knot; of the last line, for one more than there are knots.
    pub fn slope_before(&self, knot: usize) -> f64 {
        match (knot.checked_sub(1).map(|before| self.knots[before]), self.knots.get(knot)) {
            (None, _) => self.left_slope,
            (_, None) => self.right_slope,
            (Some(a), Some(b)) => (b[1] - a[1]) / (b[0] - a[0]),
        }
    }

    /// The way it goes on the whole line: 1 where it never falls, -1 where it never rises; none where it does both, or
    /// neither, or where lines only stand for it.
    pub fn direction(&self) -> Option<f64> {
        // Neighbouring knots come from different lines, each rounded.
        let size = self.knots.iter().fold(0.0, |most: f64, knot| most.max(knot[1].abs()));
        let never_falls = |sign: f64| {
            let between = self.knots.windows(2).all(|pair| sign * (pair[1][1] - pair[0][1]) >= -1e-12 * size);
            between && sign * self.left_slope >= 0.0 && sign * self.right_slope >= 0.0
        };
        match (never_falls(1.0), never_falls(-1.0)) {
            (true, false) if self.exact => Some(1.0),
            (false, true) if self.exact => Some(-1.0),
            _ => None,
        }
    }

    /// f(x).
    pub fn value(&self, x: f64) -> f64 {
        let above = self.knots.partition_point(|knot| knot[0] < x);
        let line = |[from, value]: [f64; 2], slope: f64| slope.mul_add(x - from, value);
        match (above.checked_sub(1).map(|below| self.knots[below]), self.knots.get(above)) {
            (None, Some(&first)) => line(first, self.left_slope),
            (Some(last), None) => line(last, self.right_slope),
            (Some(a), Some(b)) => line(a, (b[1] - a[1]) / (b[0] - a[0])),
            (None, None) => 0.0,
        }
    }
}

/// What a column of X was before it was standardised: own = mean + deviation * read.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Units {
    mean: f64,
    deviation: f64,
}

impl Units {
    /// Those that column k had before it was scaled.
    pub fn of(scaling: Option<&Scaling>, k: usize) -> Units {
        match scaling {
            Some(Scaling::Columns { mean, deviation }) => {
                Units { mean: f64::from(mean[k]), deviation: f64::from(deviation[k]) }
            }
            // Rows were divided by their sums: each value by another number.
            Some(Scaling::Rows) | None => Units { mean: 0.0, deviation: 1.0 },
        }
    }

    /// A value that the model reads, in the units of the data.
    pub fn own(&self, read: f64) -> f64 {
        self.deviation.mul_add(read, self.mean)
    }

    /// A value in the units of the data, as the model reads it.
    pub fn read(&self, own: f64) -> f64 {
        (own - self.mean) / self.deviation
    }
}

/// Values of one column: range and counts.
#[derive(Clone, Debug, PartialEq)]
pub struct Distribution {
    /// Smallest and largest.
    pub range: [f64; 2],
    /// Values in each of [`BINS`] equal parts of the range.
    pub counts: Vec<u64>,
}

/// Bars of a histogram.
pub const BINS: usize = 40;

/// Nodes of a task.
const PORTION: usize = 1 << 12;

impl Distribution {
    /// Of some columns, in two passes over X.
    pub fn of(features: &Features, columns: &[usize]) -> Vec<Distribution> {
        Distribution::of_known(features, columns, &|_| None)
    }

    /// The same without the rows where the value of a column is missing: `gap` is another column and what it is above where that
    /// is so. A column of which nothing is known is at 0.
    pub fn of_known(
        features: &Features,
        columns: &[usize],
        gap: &(dyn Fn(usize) -> Option<(usize, f32)> + Sync),
    ) -> Vec<Distribution> {
        let gaps: Vec<Option<(usize, f32)>> = columns.iter().map(|&k| gap(k)).collect();
        let starts: Vec<usize> = (0..features.rows).step_by(PORTION).collect();
        let pass = |state: &(dyn Fn() -> Vec<Distribution> + Sync), visit: &(dyn Fn(&mut Distribution, f64) + Sync)| {
            let parts: Vec<Vec<Distribution>> = (starts.par_iter())
                .map(|&start| {
                    let (mut part, mut row) = (state(), vec![0f32; features.cols]);
                    for i in start..(start + PORTION).min(features.rows) {
                        row.fill(0.0);
                        features.fill_row(i, &mut row);
                        for ((column, &k), gap) in part.iter_mut().zip(columns).zip(&gaps) {
                            if gap.is_none_or(|(missing, above)| row[missing] <= above) {
                                visit(column, f64::from(row[k]));
                            }
                        }
                    }
                    part
                })
                .collect();
            parts
        };
        let empty =
            || vec![Distribution { range: [f64::INFINITY, f64::NEG_INFINITY], counts: vec![0; BINS] }; columns.len()];
        let mut ranges = empty();
        let widen = |range: &mut [f64; 2], [low, high]: [f64; 2]| *range = [range[0].min(low), range[1].max(high)];
        for part in pass(&empty, &|column, x| widen(&mut column.range, [x, x])) {
            ranges.iter_mut().zip(part).for_each(|(all, part)| widen(&mut all.range, part.range));
        }
        ranges.iter_mut().filter(|column| column.range[0] > column.range[1]).for_each(|column| column.range = [0.0; 2]);
        let ranged = || ranges.clone();
        let count = |column: &mut Distribution, x: f64| {
            let [low, high] = column.range;
            let bin = ((x - low) / (high - low) * BINS as f64) as usize;
            column.counts[bin.min(BINS - 1)] += 1;
        };
        let mut all = ranges.clone();
        for part in pass(&ranged, &count) {
            for (all, part) in all.iter_mut().zip(part) {
                all.counts.iter_mut().zip(part.counts).for_each(|(all, part)| *all += part);
            }
        }
        all
    }

    /// The range that holds those of all.
    pub fn joint_range(all: &[Distribution]) -> [f64; 2] {
        let ends = [f64::INFINITY, f64::NEG_INFINITY];
        all.iter().fold(ends, |ends, column| [ends[0].min(column.range[0]), ends[1].max(column.range[1])])
    }

    /// The same in the units of the data.
    pub fn in_units(&self, units: Units) -> Distribution {
        Distribution { range: self.range.map(|x| units.own(x)), counts: self.counts.clone() }
    }

    /// Ends of the bars, one more than bars.
    pub fn edges(&self) -> Vec<f64> {
        let [low, high] = self.range;
        (0..=BINS).map(|bin| low + (high - low) * bin as f64 / BINS as f64).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_curve_goes_one_way_where_all_its_pieces_do() {
        let way = |left_slope: f64, knots: &[[f64; 2]], right_slope: f64| {
            Shape { knots: knots.to_vec(), left_slope, right_slope, exact: true }.direction()
        };
        let rise = [[0.0, 1.0], [1.0, 1.0], [2.0, 3.0]];
        assert_eq!(way(0.0, &rise, 0.5), Some(1.0));
        // Beyond the last knot, and before the first.
        assert_eq!((way(0.0, &rise, -0.5), way(-0.5, &rise, 0.5)), (None, None));
        assert_eq!(way(-1.0, &rise.map(|[x, f]| [x, -f]), 0.0), Some(-1.0));
        assert_eq!(way(1.0, &[[0.0, 1.0], [1.0, 0.5], [2.0, 3.0]], 1.0), None);
        assert_eq!((way(2.0, &[[0.0, 0.0]], 2.0), way(0.0, &[[0.0, 1.0]], 0.0)), (Some(1.0), None));
        let smooth = Shape { knots: rise.to_vec(), left_slope: 0.0, right_slope: 0.5, exact: false };
        assert_eq!(smooth.direction(), None);
    }
}

//! What a feature does by itself: the curve of its numbers, or an effect for each of its values, and one for a gap.
//!
//! A feature is a column of a table, and may be several columns of X (see [`Groups`](super::Groups)). A value x puts a number in each of
//! them, and its effect on an output is `sum_k w[k] s_k (f_k(x_k) - c_k)`, s_k the [reach](super::Factors::reach) of column k: what it adds
//! where all nodes that count have this value. c_k is the mean over the data, so that effects are centred within the feature: weighed by
//! how often values occur, they sum to zero.

use super::shapes::BINS;
use super::stability::{Band, Compared, bands};
use super::{Distribution, Shape, Units};
use harmonia_graph::dataset::{ColumnKind, TableColumn};
use std::ops::Range;

/// What a gap is called.
const MISSING: &str = "missing";
/// Values from low to high whose bars of a histogram can be told apart.
const MOST_ORDERED: usize = BINS / 2;

/// A feature as it is shown.
#[derive(Clone, Debug)]
pub struct FeatureShape {
    /// Its place among the features.
    pub feature: usize,
    /// Its columns of X.
    pub columns: Range<usize>,
    /// Of its numbers, where it is not the table's own: days of a date.
    pub unit: Option<&'static str>,
    /// The response to its numbers, in the units of the data; none of a category.
    pub curve: Option<Shape>,
    /// Mean of that response.
    pub centre: f64,
    /// w of the first column, by output.
    pub readout: Vec<f64>,
    /// What the curve, less its mean, is multiplied by, by output: w s.
    pub weights: Vec<f64>,
    /// What a value adds beside its curve by being there, by output; nothing where there are no gaps.
    pub present: Vec<f64>,
    /// Its values: of a category and of whatever has a few named ones, and `missing` last where there are gaps.
    pub values: Vec<ValueEffect>,
    /// Of its numbers, in the units of the data; none where the data are not known.
    pub distribution: Option<Distribution>,
    /// Of its numbers: x and one band per output, over several models.
    pub bands: Option<(Vec<f64>, Vec<Band>)>,
}

/// One value of a feature.
#[derive(Clone, Debug, PartialEq)]
pub struct ValueEffect {
    /// As the table has it.
    pub name: String,
    /// Whether it is a gap.
    pub missing: bool,
    /// Nodes that have it; none where that is not known.
    pub count: Option<u64>,
    /// By output.
    pub effects: Vec<f64>,
    /// Lowest and highest over several models, by output; empty for one.
    pub spread: Vec<[f64; 2]>,
}

impl FeatureShape {
    /// A feature of the first of some models. `column`: what it is in its table; none of a plain number. `distributions`: of every
    /// column, as the model reads it.
    pub fn of(
        models: &[Compared<'_>],
        feature: usize,
        column: Option<&TableColumn>,
        distributions: Option<&[Distribution]>,
    ) -> FeatureShape {
        let model = models[0];
        let (factors, columns) = (model.factors, model.factors.groups().columns(feature));
        let (first, outputs) = (columns.start, model.factors.outputs());
        let category = column.is_some_and(|column| column.kind == ColumnKind::Category);
        let units = Units::of(model.scaling, first);
        let known = distributions.map(|all| &all[first]);
        let curve = (!category).then(|| match known {
            Some(known) => Shape::over(factors, first, known.range).in_units(units),
            None => Shape::of(factors, first).in_units(units),
        });
        let distribution = known.filter(|_| !category).map(|known| known.in_units(units));
        let readout = factors.weight[first * outputs..][..outputs].to_vec();
        let mut shape = FeatureShape {
            feature,
            unit: column.and_then(TableColumn::unit),
            weights: readout.iter().map(|w| w * factors.reach(first)).collect(),
            present: if category { vec![0.0; outputs] } else { others_at_rest(model, &columns) },
            values: column.map_or(Vec::new(), |column| values(models, &columns, column, distributions)),
            centre: model.centres[first],
            bands: None,
            columns,
            curve,
            readout,
            distribution,
        };
        if models.len() > 1 && !category {
            shape.bands = Some(bands(models, shape.columns.clone(), shape.range()));
        }
        shape
    }

    /// Where its numbers are, or where nothing is known of them, where its curve bends.
    pub fn range(&self) -> [f64; 2] {
        match (&self.distribution, &self.curve) {
            (Some(known), _) => known.range,
            (None, Some(Shape { knots, .. })) => [knots[0][0], knots[knots.len() - 1][0]],
            (None, None) => [0.0, 1.0],
        }
    }

    /// What a number adds to an output.
    pub fn effect(&self, x: f64, output: usize) -> f64 {
        let response = self.curve.as_ref().map_or(self.centre, |curve| curve.value(x));
        self.weights[output] * (response - self.centre) + self.present[output]
    }

    /// Whether an output only rises, or only falls, with a number, wherever it lies; none where it does both, or neither.
    pub fn direction(&self, output: usize) -> Option<&'static str> {
        match self.curve.as_ref()?.direction()? * self.weights[output] {
            way if way > 0.0 => Some("rising"),
            way if way < 0.0 => Some("falling"),
            _ => None,
        }
    }

    /// Whether it is shown by its values instead of by a curve.
    pub fn is_by_value(&self) -> bool {
        self.values.iter().any(|value| !value.missing)
    }

    /// From the lowest effect to the highest on any output: over the numbers of the data, and over values.
    pub fn spread(&self) -> f64 {
        let [low, high] = self.range();
        let corners = self.curve.iter().flat_map(|curve| curve.knots.iter().map(|knot| knot[0]));
        let points: Vec<f64> = [low, high].into_iter().chain(corners.filter(|x| *x > low && *x < high)).collect();
        let of_output = |output: usize| {
            let numbers = points.iter().filter(|_| self.curve.is_some()).map(|&x| self.effect(x, output));
            let all = numbers.chain(self.values.iter().map(|value| value.effects[output]));
            let [least, most] = all.fold([f64::INFINITY, f64::NEG_INFINITY], |[a, b], f| [a.min(f), b.max(f)]);
            (most - least).max(0.0)
        };
        (0..self.weights.len()).map(of_output).sum()
    }
}

/// What columns behind the first add at zero: of a number that is there, the one that marks gaps.
pub(super) fn others_at_rest(model: Compared<'_>, columns: &Range<usize>) -> Vec<f64> {
    let behind = columns.start + 1..columns.end;
    effects(model, behind.clone(), &vec![0.0; behind.len()])
}

/// What columns add to every output at some numbers, in the units of the data.
fn effects(model: Compared<'_>, columns: Range<usize>, x: &[f64]) -> Vec<f64> {
    let (factors, outputs) = (model.factors, model.factors.outputs());
    let mut sums = vec![0.0; outputs];
    for (k, &x) in columns.zip(x) {
        let read = Units::of(model.scaling, k).read(x);
        let effect = factors.reach(k) * (factors.response(k, read) - model.centres[k]);
        sums.iter_mut().zip(&factors.weight[k * outputs..][..outputs]).for_each(|(sum, w)| *sum += w * effect);
    }
    sums
}

/// The named values of a column, and its gap.
fn values(
    models: &[Compared<'_>],
    columns: &Range<usize>,
    column: &TableColumn,
    distributions: Option<&[Distribution]>,
) -> Vec<ValueEffect> {
    let counts = distributions.map(|all| counts(models[0], columns, column, all));
    let named: Vec<String> = match column.kind {
        ColumnKind::Category | ColumnKind::Ordered => column.values.clone(),
        ColumnKind::Boolean => vec!["false".into(), "true".into()],
        ColumnKind::Number | ColumnKind::Date => Vec::new(),
    };
    let gap = column.gaps.then(|| (MISSING.to_string(), true));
    let all = named.into_iter().map(|name| (name, false)).chain(gap);
    let effect = |(at, (name, missing)): (usize, (String, bool))| {
        // A category may have a value that is called `missing`.
        let x = if missing { column.read("") } else { Ok(laid(column, at)) }.unwrap_or_default();
        let of_models: Vec<Vec<f64>> = models.iter().map(|&model| effects(model, columns.clone(), &x)).collect();
        let ends = |output: usize| {
            let of_output = of_models.iter().map(|effects| effects[output]);
            of_output.fold([f64::INFINITY, f64::NEG_INFINITY], |[a, b], f| [a.min(f), b.max(f)])
        };
        let spread = if models.len() > 1 { (0..of_models[0].len()).map(ends).collect() } else { Vec::new() };
        let count = match missing {
            true => distributions.map(|all| above_half(models[0], columns.end - 1, all)),
            false => counts.as_ref().and_then(|counts| counts.get(at).copied()),
        };
        ValueEffect { name, missing, count, effects: of_models.into_iter().next().unwrap_or_default(), spread }
    };
    all.enumerate().map(effect).collect()
}

/// Columns of X of the named value at a place, in the units of the data.
fn laid(column: &TableColumn, at: usize) -> Vec<f64> {
    let mut x = vec![0.0; column.width()];
    match column.kind {
        ColumnKind::Category => x[at] = 1.0,
        _ => x[0] = at as f64,
    }
    x
}

/// How many nodes have each named value; empty where that cannot be told.
fn counts(model: Compared<'_>, columns: &Range<usize>, column: &TableColumn, all: &[Distribution]) -> Vec<u64> {
    if column.kind == ColumnKind::Category {
        return (columns.clone().take(column.values.len())).map(|k| above_half(model, k, all)).collect();
    }
    let named = if column.kind == ColumnKind::Boolean { 2 } else { column.values.len() };
    let Distribution { range, counts } = all[columns.start].in_units(Units::of(model.scaling, columns.start));
    if named > MOST_ORDERED || range[1] > named as f64 - 0.5 {
        return Vec::new();
    }
    let mut sums = vec![0; named];
    for (bin, count) in counts.iter().enumerate() {
        let middle = range[0] + (range[1] - range[0]) * (bin as f64 + 0.5) / BINS as f64;
        sums[(middle.round().max(0.0) as usize).min(named - 1)] += count;
    }
    sums
}

/// Nodes at which a column of zeros and ones is one.
fn above_half(model: Compared<'_>, k: usize, all: &[Distribution]) -> u64 {
    let known = all[k].in_units(Units::of(model.scaling, k));
    match known.range.map(|x| x > 0.5) {
        [true, _] => known.counts.iter().sum(),
        [false, true] => known.counts[BINS / 2..].iter().sum(),
        [false, false] => 0,
    }
}

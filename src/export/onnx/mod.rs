//! A model as an ONNX graph: responses as sums of ramps, hops as gathers and sums along a list of edges.
//!
//! Inputs have the names and forms of PyTorch Geometric: `x`, one column for each column of the table (a category by its place
//! among its values, a date in days, NaN where it is missing), `edge_index`, `edge_weight`, `batch`. What follows from them
//! (columns of categories and gaps, degrees, M, hops) is computed inside, in f64. A response is
//! f(x) = slope x + intercept + sum over knots of (change of slope) max(x - knot, 0), which is exact everywhere.

mod proto;

use super::lines_of;
use crate::runs::SavedModel;
use harmonia_graph::dataset::{ColumnKind, Level, Scaling, Schema, Structure, StructureWord, TableColumn};
use harmonia_graph::error::{Error, Result};
use proto::{Attribute, Graph, Kind, Message, Size, Values, tensor};

/// The first set of operators that can add up where places are the same.
const OPERATORS: i64 = 16;
/// Of the file, as old as those operators.
const FORMAT: i64 = 8;

const ADD: Attribute = Attribute::Text("reduction", "add");

/// The file.
///
/// # Errors
/// Responses that are smooth, or structural features that would take a program.
pub fn to_onnx(saved: &SavedModel) -> Result<Vec<u8>> {
    super::check_kind(saved)?;
    let SavedModel { metadata, model, factors, .. } = saved;
    let (d, hops, outputs) = (factors.features(), factors.hops(), factors.outputs());
    let (schema, mut graph) = (metadata.table(), Graph::default());
    let g = &mut graph;

    let given = g.input("x", Kind::Float, &[Size::Called("nodes"), Size::Is(schema.columns.len())]);
    let given = g.cast("x_wide", &given, Kind::Double);
    let own = columns(g, &given, &schema);
    let edges = Edges::of(g, &given, metadata.weighted);
    let mut parts = vec![match &model.scaling {
        Some(Scaling::Rows) => divided_by_sum(g, &own),
        _ => own.clone(),
    }];
    if let Some(structure) = &model.structure {
        parts.extend(structural(g, structure, &own, &edges)?);
    }
    let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
    let x = g.op("features", "Concat", &parts, &[Attribute::Int("axis", 1)]);
    let responses = responses(g, saved, &x)?;

    // logits = G_0 + M (G_1 + M (G_2 + ...)), the longest walks first.
    let walk = Walk::of(g, &edges, model.walk.self_loops, model.walk.lazy);
    let mut sum: Option<String> = None;
    for t in (0..hops).rev() {
        let weights: Vec<f64> =
            (0..d * outputs).map(|at| factors.theta(t, at / outputs) * factors.weight[at]).collect();
        let weights = g.doubles(&format!("weights_{t}"), &[d, outputs], &weights);
        let own = g.op(&format!("own_{t}"), "MatMul", &[&responses, &weights], &[]);
        sum = Some(match sum {
            None => own,
            Some(farther) => {
                let walked = walk.step(g, &farther, &edges, t);
                g.op(&format!("sum_{t}"), "Add", &[&own, &walked], &[])
            }
        });
    }
    let Some(mut sum) = sum else { return Err(Error::Data("a model without walk lengths has no sum".into())) };
    let unit = if metadata.level == Some(Level::Graph) { "graphs" } else { "nodes" };
    if unit == "graphs" {
        sum = by_graph(g, &sum, outputs);
    }
    let bias = g.doubles("bias", &[1, outputs], &factors.bias);
    let logits = g.op("logits_wide", "Add", &[&sum, &bias], &[]);
    let classes = metadata.class_names.len();
    let name = if model.objective.is_regression() { "predictions" } else { "logits" };
    g.cast(name, &logits, Kind::Float);
    g.output(name, Kind::Float, &[Size::Called(unit), Size::Is(outputs)]);
    if !model.objective.is_regression() {
        let wide = probabilities(g, &logits, outputs == 1 && classes == 2, model.objective.name() == "sigmoid");
        g.cast("probabilities", &wide, Kind::Float);
        let columns = if outputs == 1 && classes == 2 { 2 } else { outputs };
        g.output("probabilities", Kind::Float, &[Size::Called(unit), Size::Is(columns)]);
    }
    let mut about = super::header(saved);
    about["structure"] = serde_json::json!(model.structure.as_ref().map(|structure| structure.words()));
    let about = Message::default().text(1, super::FORMAT).text(2, &about.to_string());
    let file = Message::default().number(1, FORMAT).text(2, "harmonia").text(3, env!("CARGO_PKG_VERSION"));
    let file =
        file.message(7, &graph.finish("harmonia")).message(8, &Message::default().text(1, "").number(2, OPERATORS));
    Ok(file.message(14, &about).into_bytes())
}

/// X as models know it, of one column for each column of the table.
fn columns(g: &mut Graph, given: &str, schema: &Schema) -> String {
    // Of columns without a median nothing can stand for what is missing: NaN stays NaN, and is seen.
    let plain = |column: &TableColumn| column.kind == ColumnKind::Number && !column.gaps && column.median.is_nan();
    if schema.columns.iter().all(plain) {
        return given.to_string();
    }
    let (mut from, mut values, mut medians) = (Vec::new(), Vec::new(), Vec::new());
    let (mut highest, mut is_number, mut is_gap) = (Vec::new(), Vec::new(), Vec::new());
    for (at, column) in schema.columns.iter().enumerate() {
        let mut add = |value: usize, number: bool, gap: bool| {
            from.push(at as i64);
            values.push(value as f64);
            medians.push(f64::from(column.median));
            // A place among values that there are not is missing; numbers may be anything.
            highest.push(match column.kind {
                ColumnKind::Category | ColumnKind::Ordered => column.values.len() as f64 - 1.0,
                _ => f64::INFINITY,
            });
            is_number.push(number);
            is_gap.push(gap);
        };
        match column.kind {
            ColumnKind::Category => (0..column.values.len()).for_each(|value| add(value, false, false)),
            _ => add(0, true, false),
        }
        if column.gaps {
            add(0, false, true);
        }
    }
    let lowest: Vec<f64> =
        highest.iter().map(|&high: &f64| if high.is_finite() { 0.0 } else { f64::NEG_INFINITY }).collect();
    let d = from.len();
    let from = g.ints("column", &from);
    let cells = g.op("cells", "Gather", &[given, &from], &[Attribute::Int("axis", 1)]);
    let [lowest, highest, medians, values] =
        [("lowest", &lowest), ("highest", &highest), ("median", &medians), ("value", &values)]
            .map(|(name, row)| g.doubles(name, &[1, d], row));
    let is_number = g.constant("is_number", &[1, d], &Values::Bools(&is_number));
    let is_gap = g.constant("is_gap", &[1, d], &Values::Bools(&is_gap));
    let absent = g.op("absent", "IsNaN", &[&cells], &[]);
    let below = g.op("below", "Less", &[&cells, &lowest], &[]);
    let above = g.op("above", "Greater", &[&cells, &highest], &[]);
    let beyond = g.op("beyond", "Or", &[&below, &above], &[]);
    let missing = g.op("missing", "Or", &[&absent, &beyond], &[]);
    let number = g.op("number", "Where", &[&missing, &medians, &cells], &[]);
    let equal = g.op("has_value", "Equal", &[&cells, &values], &[]);
    let equal = g.cast("has_value_wide", &equal, Kind::Double);
    let missing = g.cast("missing_wide", &missing, Kind::Double);
    let marks = g.op("marks", "Where", &[&is_gap, &missing, &equal], &[]);
    g.op("columns", "Where", &[&is_number, &number, &marks], &[])
}

/// Edges as lists, and sums over the edges of each node.
struct Edges {
    source: String,
    target: String,
    /// e.
    weight: String,
    /// e, 1 where an edge leads back to its node.
    is_loop: String,
    /// n zeros.
    zeros: String,
}

impl Edges {
    fn of(g: &mut Graph, given: &str, weighted: bool) -> Edges {
        let index = g.input("edge_index", Kind::Int, &[Size::Is(2), Size::Called("edges")]);
        let [source, target] = [("source", 0), ("target", 1)].map(|(name, row)| {
            let at = g.constant(&format!("row_of_{name}"), &[], &Values::Ints(&[row]));
            g.op(name, "Gather", &[&index, &at], &[Attribute::Int("axis", 0)])
        });
        let is_loop = g.op("is_loop", "Equal", &[&source, &target], &[]);
        let is_loop = g.cast("is_loop_wide", &is_loop, Kind::Double);
        let weight = match weighted {
            true => {
                let weight = g.input("edge_weight", Kind::Float, &[Size::Called("edges")]);
                g.cast("weight", &weight, Kind::Double)
            }
            false => filled(g, "weight", &source, 1.0),
        };
        let (shape, first) = (g.op("x_shape", "Shape", &[given], &[]), g.ints("first", &[0]));
        let nodes = g.op("nodes", "Gather", &[&shape, &first], &[]);
        let zeros = g.op("zeros", "ConstantOfShape", &[&nodes], &[constant(0.0)]);
        Edges { source, target, weight, is_loop, zeros }
    }

    /// Sums of numbers of edges by their source, n.
    fn sums(&self, g: &mut Graph, name: &str, of: &str) -> String {
        g.op(name, "ScatterElements", &[&self.zeros, &self.source, of], &[Attribute::Int("axis", 0), ADD])
    }
}

fn constant(value: f64) -> Attribute {
    Attribute::Tensor("value", tensor("", &[1], &Values::Doubles(&[value])))
}

/// As many numbers as another value has, all the same.
fn filled(g: &mut Graph, name: &str, like: &str, value: f64) -> String {
    let shape = g.op(&format!("{name}_shape"), "Shape", &[like], &[]);
    g.op(name, "ConstantOfShape", &[&shape], &[constant(value)])
}

/// A list as the one column of a matrix.
fn upright(g: &mut Graph, name: &str, list: &str) -> String {
    let axis = g.ints(&format!("{name}_axis"), &[1]);
    g.op(name, "Unsqueeze", &[list, &axis], &[])
}

/// Rows divided by their sums, where these are not zero.
fn divided_by_sum(g: &mut Graph, x: &str) -> String {
    let axis = g.ints("sum_axis", &[1]);
    let sums = g.op("row_sums", "ReduceSum", &[x, &axis], &[Attribute::Int("keepdims", 1)]);
    let (zero, one) = (g.doubles("no_sum", &[1, 1], &[0.0]), g.doubles("instead", &[1, 1], &[1.0]));
    let none = g.op("sums_to_nothing", "Equal", &[&sums, &zero], &[]);
    let sums = g.op("divisors", "Where", &[&none, &one, &sums], &[]);
    g.op("divided", "Div", &[x, &sums], &[])
}

/// Columns that follow from the graph, n x some each.
fn structural(g: &mut Graph, structure: &Structure, own: &str, edges: &Edges) -> Result<Vec<String>> {
    let one = g.doubles("one", &[1], &[1.0]);
    let other = g.op("leads_elsewhere", "Sub", &[&one, &edges.is_loop], &[]);
    let degree = edges.sums(g, "degrees", &other);
    let degree = upright(g, "degree", &degree);
    let mut parts = Vec::new();
    for word in structure.asked() {
        parts.push(match word {
            StructureWord::Degree => degree.clone(),
            StructureWord::LogDegree => {
                let more = g.op("degree_and_one", "Add", &[&degree, &one], &[]);
                g.op("log_degree", "Log", &[&more], &[])
            }
            StructureWord::Bias => filled(g, "one_per_node", &degree, 1.0),
            StructureWord::LabelByDegree => {
                let (columns, buckets): (Vec<i64>, Vec<f64>) =
                    structure.kept().map(|(k, bucket)| (k as i64, bucket as f64)).unzip();
                let last = g.doubles("last_bucket", &[1, 1], &[Structure::LAST_BUCKET as f64]);
                let bucket = g.op("bucket", "Min", &[&degree, &last], &[]);
                let buckets = g.doubles("buckets", &[1, buckets.len()], &buckets);
                let there = g.op("in_bucket", "Equal", &[&bucket, &buckets], &[]);
                let there = g.cast("in_bucket_wide", &there, Kind::Double);
                let columns = g.ints("label", &columns);
                let labels = g.op("labels", "Gather", &[own, &columns], &[Attribute::Int("axis", 1)]);
                g.op("label_by_degree", "Mul", &[&labels, &there], &[])
            }
            StructureWord::Returns | StructureWord::LogReturns | StructureWord::Triangles => {
                return Err(Error::Data(format!(
                    "the structural feature {} would take a program: it cannot be written as ONNX; export python does",
                    word.name()
                )));
            }
        });
    }
    Ok(parts)
}

/// F, n x d: one feature after the other, so that no more than nodes times knots of one feature are there at a time.
fn responses(g: &mut Graph, saved: &SavedModel, x: &str) -> Result<String> {
    let shapes = lines_of(saved, "ONNX")?;
    let most = shapes.iter().map(|shape| shape.knots.len()).max().unwrap_or(0);
    let d = shapes.len();
    // Features with fewer knots have some that change nothing.
    let (mut knots, mut bends) = (vec![0.0; d * most], vec![0.0; d * most]);
    let (mut slopes, mut intercepts) = (Vec::new(), Vec::new());
    for (k, shape) in shapes.iter().enumerate() {
        let [x, f] = shape.knots[0];
        slopes.push(shape.left_slope);
        intercepts.push(f - shape.left_slope * x);
        for (at, knot) in shape.knots.iter().enumerate() {
            knots[k * most + at] = knot[0];
            bends[k * most + at] = shape.slope_before(at + 1) - shape.slope_before(at);
        }
    }
    let mut each = Graph::default();
    let one = [
        each.input("column_x", Kind::Double, &[Size::Called("nodes")]),
        each.input("column_knots", Kind::Double, &[Size::Is(most)]),
        each.input("column_bends", Kind::Double, &[Size::Is(most)]),
        each.input("column_slope", Kind::Double, &[]),
        each.input("column_intercept", Kind::Double, &[]),
    ];
    let [x_k, knots_k, bends_k, slope, intercept] = &one;
    let upright = upright(&mut each, "column_upright", x_k);
    let beyond = each.op("column_beyond", "Sub", &[&upright, knots_k], &[]);
    let ramps = each.op("column_ramps", "Relu", &[&beyond], &[]);
    let bent = each.op("column_bent", "MatMul", &[&ramps, bends_k], &[]);
    let line = each.op("column_line", "Mul", &[x_k, slope], &[]);
    let line = each.op("column_from", "Add", &[&line, intercept], &[]);
    each.op("column_response", "Add", &[&line, &bent], &[]);
    each.output("column_response", Kind::Double, &[Size::Called("nodes")]);

    let by_feature = g.op("features_first", "Transpose", &[x], &[]);
    let knots = g.doubles("knots", &[d, most], &knots);
    let bends = g.doubles("bends", &[d, most], &bends);
    let (slopes, intercepts) = (g.doubles("slopes", &[d], &slopes), g.doubles("intercepts", &[d], &intercepts));
    let body = Attribute::Graph("body", each.finish("response"));
    let all = [&*by_feature, &*knots, &*bends, &*slopes, &*intercepts];
    let found = g.op("responses_first", "Scan", &all, &[Attribute::Int("num_scan_inputs", all.len() as i64), body]);
    Ok(g.op("responses", "Transpose", &[&found], &[]))
}

/// M: weights of edges, a loop for nodes that need one, and what they sum to.
struct Walk {
    /// e x 1.
    weight: String,
    /// n x 1.
    loops: String,
    /// n x 1.
    totals: String,
    /// e x 1.
    source: String,
    /// A half, where walks are lazy.
    half: Option<String>,
}

impl Walk {
    fn of(g: &mut Graph, edges: &Edges, self_loops: bool, lazy: bool) -> Walk {
        let degrees = edges.sums(g, "sum_of_weights", &edges.weight);
        let known = if self_loops { edges.sums(g, "known_loops", &edges.is_loop) } else { degrees.clone() };
        let none = g.doubles("none", &[1], &[0.0]);
        let needed = g.op("needs_loop", "Equal", &[&known, &none], &[]);
        let loops = g.cast("loops_flat", &needed, Kind::Double);
        let totals = g.op("totals_flat", "Add", &[&degrees, &loops], &[]);
        Walk {
            weight: upright(g, "weight_column", &edges.weight),
            loops: upright(g, "loops", &loops),
            totals: upright(g, "totals", &totals),
            source: upright(g, "source_column", &edges.source),
            half: lazy.then(|| g.doubles("half", &[1, 1], &[0.5])),
        }
    }

    /// M state.
    fn step(&self, g: &mut Graph, state: &str, edges: &Edges, t: usize) -> String {
        let called = |part: &str| format!("{part}_{t}");
        let there = g.op(&called("there"), "Gather", &[state, &edges.target], &[Attribute::Int("axis", 0)]);
        let carried = g.op(&called("carried"), "Mul", &[&there, &self.weight], &[]);
        let nothing = filled(g, &called("nothing"), state, 0.0);
        let gathered = g.op(&called("gathered"), "ScatterND", &[&nothing, &self.source, &carried], &[ADD]);
        let stayed = g.op(&called("stayed"), "Mul", &[state, &self.loops], &[]);
        let all = g.op(&called("all"), "Add", &[&gathered, &stayed], &[]);
        let walked = g.op(&called("walked"), "Div", &[&all, &self.totals], &[]);
        let Some(half) = &self.half else { return walked };
        let both = g.op(&called("both"), "Add", &[state, &walked], &[]);
        g.op(&called("lazy"), "Mul", &[&both, half], &[])
    }
}

/// Sums over the nodes of each graph.
fn by_graph(g: &mut Graph, sum: &str, outputs: usize) -> String {
    let batch = g.input("batch", Kind::Int, &[Size::Called("nodes")]);
    let last = g.op("last_graph", "ReduceMax", &[&batch], &[Attribute::Int("keepdims", 1)]);
    let one = g.ints("one_more", &[1]);
    let graphs = g.op("graphs", "Add", &[&last, &one], &[]);
    let outputs = g.ints("outputs", &[outputs as i64]);
    let shape = g.op("logits_shape", "Concat", &[&graphs, &outputs], &[Attribute::Int("axis", 0)]);
    let nothing = g.op("no_logits", "ConstantOfShape", &[&shape], &[constant(0.0)]);
    let batch = upright(g, "batch_column", &batch);
    g.op("sums_of_graphs", "ScatterND", &[&nothing, &batch, sum], &[ADD])
}

fn probabilities(g: &mut Graph, logits: &str, two_classes: bool, sigmoid: bool) -> String {
    if !two_classes && !sigmoid {
        return g.op("shares", "Softmax", &[logits], &[Attribute::Int("axis", 1)]);
    }
    let second = g.op("second", "Sigmoid", &[logits], &[]);
    if !two_classes {
        return second;
    }
    let one = g.doubles("certain", &[1, 1], &[1.0]);
    let first = g.op("first_class", "Sub", &[&one, &second], &[]);
    g.op("shares", "Concat", &[&first, &second], &[Attribute::Int("axis", 1)])
}

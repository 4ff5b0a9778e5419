//! The same prediction with something changed, exactly.

use crate::explain::{Case, Edit, Score, Target, Units, ranking};
use crate::runs::{Names, TrainedRun};
use harmonia_graph::dataset::{ColumnKind, Dataset, Level, Scaling, TableColumn};
use harmonia_graph::error::{Error, Result};
use serde_json::{Value, json};

/// A prediction before and after a change.
pub struct Intervention {
    /// The node or graph.
    pub target: Target,
    /// The logit that is looked at.
    pub score: Score,
    /// All logits before.
    pub before: Vec<f64>,
    /// All logits after.
    pub after: Vec<f64>,
    /// What each feature adds to the change of the logit.
    pub changes: Vec<f64>,
    /// Largest difference of a logit from the engine's.
    pub residual: f64,
    /// Nodes that were changed and that the target does not see.
    pub unseen: Vec<u32>,
}

impl Intervention {
    /// Predicts again. `(class, versus)`: which logit; of neither, that of the class predicted before.
    ///
    /// # Errors
    /// There is no such target or class, or the model reads structural features and an edge is taken out.
    pub fn of(
        run: &TrainedRun,
        names: &Names<'_>,
        target: Target,
        edit: &Edit,
        (class, versus): (Option<&str>, Option<&str>),
    ) -> Result<Intervention> {
        let before = Case::new(&run.model, &run.factors, &run.dataset, target, &Edit::default())?;
        let after = Case::new(&run.model, &run.factors, &run.dataset, target, edit)?;
        let (old, new) = (before.logits(), after.logits());
        let touched = edit.replaced.keys().copied().chain(edit.dropped.iter().map(|&(reader, _)| reader));
        let unseen = touched.filter(|node| !before.ball.nodes.contains(node)).collect();
        let score = names.score(class, versus, &old)?;
        // Both by the engine, as a check on the terms.
        let outputs: Vec<usize> = [score.output].into_iter().chain(score.versus).collect();
        let engine = |case: &Case<'_>| -> Result<f64> {
            let logits = case.propagated_logits(&outputs)?;
            Ok(score.sign * (logits[0] - logits.get(1).copied().unwrap_or(0.0)))
        };
        let residual = (score.of(&old) - engine(&before)?).abs().max((score.of(&new) - engine(&after)?).abs());
        // H is what the readout multiplies: its change is the change by feature, exactly.
        let weight = |k: usize| score.of(&run.factors.weight[k * run.factors.outputs()..][..run.factors.outputs()]);
        let (old_state, new_state) = (before.state(), after.state());
        let change_of = |k: usize| weight(k) * (new_state[k] - old_state[k]);
        let changes = run.factors.groups().iter().map(|columns| columns.map(change_of).sum()).collect();
        Ok(Intervention { target, score, before: old, after: new, changes, residual, unseen })
    }

    /// How the logit moves.
    pub fn change(&self) -> f64 {
        self.score.of(&self.after) - self.score.of(&self.before)
    }

    /// The number people know the target by.
    pub fn id(&self, run: &TrainedRun) -> usize {
        match self.target {
            Target::Node(node) => run.dataset.original_id(node),
            Target::Graph(graph) => graph,
        }
    }

    /// Features by the size of their change, how many of them are the first `most` (0: all), and the sum of all others.
    pub fn largest(&self, most: usize) -> (Vec<usize>, usize, f64) {
        let order = ranking(&self.changes.iter().map(|change| change.abs()).collect::<Vec<_>>());
        let top = if most == 0 { order.len() } else { most.min(order.len()) };
        let rest = order[top..].iter().map(|&k| self.changes[k]).sum();
        (order, top, rest)
    }

    /// As `intervene --json` prints it, but for what was changed; `most`: features to list, 0 for all.
    pub fn json(&self, run: &TrainedRun, names: &Names<'_>, most: usize) -> Value {
        let (order, top, rest) = self.largest(most);
        let contribution = |&at: &usize| {
            let index = run.factors.groups().columns(at).start;
            json!({ "feature": names.group(at), "feature_index": index, "value": self.changes[at] })
        };
        let score = self.score;
        let class = if score.versus.is_some() { names.output(score.output) } else { names.score_text(score) };
        json!({
            "target": self.id(run), "level": names.unit(), "class": class,
            "versus": score.versus.map(|versus| names.output(versus)),
            "before": score.of(&self.before), "after": score.of(&self.after), "change": self.change(),
            "predicted_before": names.predicted(&self.before), "predicted_after": names.predicted(&self.after),
            "contributions": order[..top].iter().map(contribution).collect::<Vec<_>>(),
            "rest": rest, "rest_terms": order.len() - top, "residual": self.residual,
        })
    }
}

/// What is dropped where node `a` is no longer to read from node `b`: of an undirected graph, both ways.
///
/// # Errors
/// There is no such edge.
pub fn without_edge(run: &TrainedRun, names: &Names<'_>, a: u32, b: u32) -> Result<Vec<(u32, u32)>> {
    let adjacency = run.dataset.graph.adjacency();
    let has = |i: u32, j: u32| adjacency.col_idx[adjacency.row(i as usize)].binary_search(&j).is_ok();
    if !has(a, b) {
        let text = |from: u32, to: u32| [from, to].map(|node| names.node_text(node as usize)).join("-");
        let other = if has(b, a) { format!("; it goes the other way: {}", text(b, a)) } else { String::new() };
        return Err(Error::Config(format!("there is no edge {} in {}{other}", text(a, b), run.dataset.name)));
    }
    let mut gone = vec![(a, b)];
    if run.dataset.graph.is_symmetric() {
        gone.push((b, a));
    }
    Ok(gone)
}

/// Mean of every feature over the nodes of the training units, as the model reads them.
pub fn training_mean(dataset: &Dataset) -> Vec<f32> {
    let nodes: Vec<usize> = match dataset.level {
        Level::Node => dataset.split.train.iter().map(|&unit| unit as usize).collect(),
        Level::Graph => dataset.split.train.iter().flat_map(|&graph| dataset.graph_nodes(graph as usize)).collect(),
    };
    let (mut sums, mut row) = (vec![0f64; dataset.features.cols], vec![0f32; dataset.features.cols]);
    for &node in &nodes {
        row.fill(0.0);
        dataset.features.fill_row(node, &mut row);
        sums.iter_mut().zip(&row).for_each(|(sum, &x)| *sum += f64::from(x));
    }
    sums.iter().map(|sum| (sum / nodes.len().max(1) as f64) as f32).collect()
}

/// One value of one node.
pub struct Setting {
    node: usize,
    feature: usize,
    /// As the data have it: a number, or a text.
    pub before: Value,
    /// The same, once it is changed.
    pub after: Value,
    /// What its columns of X become, as the model reads them.
    read: Vec<f32>,
    /// Of a column of numbers, the number that stands there.
    number: Option<f64>,
}

/// How the values of a feature are written.
fn column(run: &TrainedRun, names: &Names<'_>, feature: usize) -> TableColumn {
    run.metadata.column(feature).cloned().unwrap_or_else(|| TableColumn::number(&names.group(feature)))
}

impl Setting {
    /// A (node, feature) with the value that a table would write as `text`.
    ///
    /// # Errors
    /// The feature has no such value.
    pub fn new(run: &TrainedRun, names: &Names<'_>, (node, feature): (usize, usize), text: &str) -> Result<Setting> {
        if run.dataset.copies() > 1 {
            // Another value of one copy alone is nothing that data can have.
            let kind = run.config.model.kind.name();
            return Err(Error::Config(format!(
                "a model of kind {kind} reads a copy of every feature for each class, and values are set in models that read one: \
                 harmonia, nbm and nam; predict a table with the other value instead"
            )));
        }
        let column = column(run, names, feature);
        let own = column.read(text).map_err(Error::Config)?;
        let columns = run.factors.groups().columns(feature);
        let units = |k: usize| Units::of(run.model.scaling.as_ref(), k);
        let read: Vec<f32> = columns.clone().zip(&own).map(|(k, &x)| units(k).read(x) as f32).collect();
        if read.iter().any(|x| !x.is_finite()) {
            return Err(Error::Config("the value is too large for single precision".into()));
        }
        let before = match run.model.scaling {
            // Where rows were divided, what was divided is what is set.
            Some(Scaling::Rows) => {
                let mut scratch = Vec::new();
                json!(run.dataset.features.row(node, &mut scratch)[columns.start])
            }
            _ => names.value_json(node, feature),
        };
        let after = match (column.kind, own.first()) {
            (ColumnKind::Number, Some(&x)) if own.last() != Some(&1.0) || !column.gaps => json!(x),
            _ => json!(text),
        };
        let number = own.first().copied().filter(|_| column.kind == ColumnKind::Number);
        Ok(Setting { node, feature, before, after, read, number })
    }

    /// Its node and feature.
    pub fn place(&self) -> (usize, usize) {
        (self.node, self.feature)
    }

    /// The new value, in the units of the data, of a column of numbers.
    pub fn number(&self) -> Option<f64> {
        self.number
    }

    /// Lays it over what is changed already.
    pub fn apply(&self, edit: &mut Edit, run: &TrainedRun) {
        let row = edit.replaced.entry(self.node as u32).or_insert_with(|| {
            let mut row = vec![0f32; run.dataset.features.cols];
            run.dataset.features.fill_row(self.node, &mut row);
            row
        });
        row[run.factors.groups().columns(self.feature)].copy_from_slice(&self.read);
    }

    /// As `--json` prints it.
    pub fn as_json(&self, run: &TrainedRun, names: &Names<'_>) -> Value {
        json!({
            "node": names.node_text(self.node), "feature": names.group(self.feature),
            "feature_index": run.factors.groups().columns(self.feature).start,
            "before": self.before, "after": self.after,
        })
    }
}

//! What people call features, nodes, classes and outputs, and finding them by it.

use super::{ModelMetadata, SavedModel, TrainedRun};
use crate::explain::{Factors, Score};
use crate::loss::Objective;
use harmonia_graph::dataset::{ColumnKind, Dataset, Features, Level, TableColumn};
use harmonia_graph::error::{Error, Result, one_line, suggestion};
use serde_json::Value;
use std::collections::HashMap;

/// Names of a run's parts.
pub struct Names<'a> {
    metadata: &'a ModelMetadata,
    factors: &'a Factors,
    /// The data, and their features before they were rescaled; none of a model by itself, where nothing is asked about nodes.
    data: Option<(&'a Dataset, &'a Features)>,
    features: &'a [String],
    classes: &'a [String],
    outputs: usize,
    objective: Objective,
}

impl<'a> Names<'a> {
    /// Those of a run; the model keeps its own of features and classes.
    pub fn of(run: &'a TrainedRun) -> Self {
        let or = |own: &'a [String], other: &'a [String]| if own.is_empty() { other } else { own };
        Names {
            data: Some((&run.dataset, &run.raw)),
            features: or(&run.metadata.feature_names, &run.dataset.feature_names),
            classes: or(&run.metadata.class_names, &run.dataset.class_names),
            ..Names::new(&run.metadata, &run.factors, run.model.objective)
        }
    }

    /// Those of a model without data: it has no nodes and no units.
    pub fn of_model(saved: &'a SavedModel) -> Self {
        Names::new(&saved.metadata, &saved.factors, saved.model.objective)
    }

    fn new(metadata: &'a ModelMetadata, factors: &'a Factors, objective: Objective) -> Self {
        let (features, classes) = (&metadata.feature_names[..], &metadata.class_names[..]);
        Names { metadata, factors, data: None, features, classes, outputs: factors.outputs(), objective }
    }

    /// What a feature is in its table; none of a plain column of X.
    pub fn column(&self, feature: usize) -> Option<&'a TableColumn> {
        self.metadata.column(feature)
    }

    /// Whether the model tells two classes apart by one logit.
    pub fn is_binary(&self) -> bool {
        self.outputs == 1 && self.classes.len() == 2
    }

    /// Name of a column of X.
    pub fn feature(&self, k: usize) -> String {
        self.features.get(k).cloned().unwrap_or_else(|| format!("feature {k}"))
    }

    /// Name of a feature: of a column of X, or of the column of a table that several of them are.
    pub fn group(&self, feature: usize) -> String {
        let plain = || self.feature(self.factors.groups().columns(feature).start);
        self.column(feature).map_or_else(plain, |column| column.name.clone())
    }

    /// The feature called `text`, as [`Names::group`] calls them, or with that number.
    ///
    /// # Errors
    /// There is none.
    pub fn find_group(&self, text: &str) -> Result<usize> {
        let names: Vec<String> = (0..self.factors.groups().len()).map(|feature| self.group(feature)).collect();
        find(text, &names, names.len(), "feature")
    }

    /// The same, or the feature that a column of X called `text` is of.
    ///
    /// # Errors
    /// There is none.
    pub fn find_shown(&self, text: &str) -> Result<usize> {
        let column = || self.features.iter().position(|name| name == text).map(|k| self.factors.groups().of_column(k));
        self.find_group(text).or_else(|error| column().ok_or(error))
    }

    /// Value of a feature at a node, as the data have it.
    pub fn value(&self, node: usize, feature: usize) -> String {
        match self.value_json(node, feature) {
            Value::String(text) => text,
            number => plain(number.as_f64().unwrap_or(f64::NAN)),
        }
    }

    /// The same for JSON: a number, with all its digits, where the column holds numbers.
    pub fn value_json(&self, node: usize, feature: usize) -> Value {
        let Some((_, raw)) = self.data else { return Value::Null };
        let x = &raw.cells(node, self.factors.groups().columns(feature))[..];
        let column = self.column(feature);
        let number = column.is_none_or(|column| column.kind == ColumnKind::Number);
        // The shortest decimals that read back as the same number, not those of its double.
        let text = column.map_or_else(|| x[0].to_string(), |column| column.text(x));
        match text.parse::<f64>().ok().filter(|x| number && x.is_finite()) {
            Some(x) => x.into(),
            None => text.into(),
        }
    }

    /// Name of a class.
    pub fn class(&self, class: usize) -> String {
        self.classes.get(class).cloned().unwrap_or_else(|| format!("class {class}"))
    }

    /// Names of all classes.
    pub fn classes(&self) -> Vec<String> {
        let count = if self.is_binary() { 2 } else { self.outputs };
        (0..count).map(|class| self.class(class)).collect()
    }

    /// Name of an output; of the one logit of a binary task, the class it speaks for.
    pub fn output(&self, output: usize) -> String {
        if self.is_binary() { self.class(1) } else { self.class(output) }
    }

    fn dataset(&self) -> Option<&'a Dataset> {
        self.data.map(|(dataset, _)| dataset)
    }

    /// Name of a node, where nodes have names.
    pub fn node(&self, node: usize) -> Option<&'a str> {
        self.dataset()?.node_names.get(node).map(String::as_str)
    }

    /// A node for a line of text: its name, or its number.
    pub fn node_text(&self, node: usize) -> String {
        match self.node(node) {
            Some(name) => one_line(name),
            None => self.dataset().map_or(node, |dataset| dataset.original_id(node)).to_string(),
        }
    }

    /// The true class of a unit by the names of its own dataset, or all its labels; none where it is not known.
    pub fn truth(&self, unit: usize) -> Option<String> {
        let dataset = self.dataset()?;
        let named = |class: usize| dataset.class_names.get(class).cloned().unwrap_or_else(|| self.class(class));
        let labels = &dataset.labels;
        if !labels.is_labelled(unit) {
            return None;
        }
        match labels.class_ids() {
            Some(ids) => Some(named(ids[unit] as usize)),
            None if labels.is_values() => {
                let values: Vec<f64> = labels.values(unit).iter().map(|&value| f64::from(value)).collect();
                Some(self.numbers(&values))
            }
            None => {
                let bits = labels.codes(unit).enumerate();
                Some(joined(bits.filter(|(_, bit)| *bit == 1).map(|(label, _)| named(label)).collect()))
            }
        }
    }

    /// Whether labels of the dataset are among what the model predicts, so that predictions can be right or wrong.
    pub fn is_comparable(&self) -> bool {
        let Some(dataset) = self.dataset() else { return false };
        let kind = dataset.labels.is_classes() == self.has_one_class();
        kind && !self.is_regression()
            && self.objective.fits(&dataset.labels)
            && dataset.class_names.iter().all(|name| self.classes.contains(name))
    }

    /// The node called `text`, or with that number in the source of the data.
    ///
    /// # Errors
    /// There is none.
    pub fn find_node(&self, text: &str) -> Result<usize> {
        let Some(dataset) = self.dataset() else {
            return Err(Error::Config(format!("there is no node `{}` without data", one_line(text))));
        };
        if let Some(node) = dataset.node_names.iter().position(|name| name == text) {
            return Ok(node);
        }
        let nodes = dataset.graph.nodes();
        let number = text.parse::<usize>().ok().filter(|&number| number < nodes);
        let number = number.and_then(|number| match &dataset.node_order {
            Some(order) => order.original.iter().position(|&original| original as usize == number),
            None => Some(number),
        });
        number.ok_or_else(|| {
            let names = if dataset.node_names.is_empty() { "" } else { ", or their names" };
            let hint = suggestion(text, dataset.node_names.iter().map(String::as_str));
            Error::Config(format!("there is no node `{}`{hint}; nodes are 0 to {}{names}", one_line(text), nodes - 1))
        })
    }

    /// Several nodes, as [`Names::find_node`] finds them, in the time of one look at all names.
    ///
    /// # Errors
    /// One of them is not there.
    pub fn find_nodes(&self, texts: &[String]) -> Result<Vec<usize>> {
        let dataset = self.dataset();
        let named = dataset.map_or(&[][..], |dataset| &dataset.node_names);
        // The first of several that are called the same.
        let named: HashMap<&str, usize> =
            named.iter().enumerate().rev().map(|(at, name)| (name.as_str(), at)).collect();
        let order = dataset.and_then(|dataset| dataset.node_order.as_ref());
        let places: HashMap<usize, usize> = order
            .map(|order| order.original.iter().enumerate().map(|(at, &original)| (original as usize, at)).collect())
            .unwrap_or_default();
        let nodes = dataset.map_or(0, |dataset| dataset.graph.nodes());
        let find = |text: &String| {
            let number = || match (text.parse::<usize>().ok(), order) {
                (Some(number), Some(_)) => places.get(&number).copied(),
                (number, _) => number.filter(|&number| number < nodes),
            };
            named.get(text.as_str()).copied().or_else(number).map_or_else(|| self.find_node(text), Ok)
        };
        texts.iter().map(find).collect()
    }

    /// Whether a node is called `text`.
    pub fn has_node(&self, text: &str) -> bool {
        self.dataset().is_some_and(|dataset| dataset.node_names.iter().any(|name| name == text))
    }

    /// The score that `--class` and `--versus` ask for; without a class, the predicted one.
    ///
    /// # Errors
    /// There is no such class, or nothing to hold it against.
    pub fn score(&self, class: Option<&str>, versus: Option<&str>, logits: &[f64]) -> Result<Score> {
        let find = |text: &str| find(text, self.classes, self.classes().len(), "class");
        let class = class.map(find).transpose()?;
        let versus = versus.map(find).transpose()?;
        if class.is_some() && class == versus {
            return Err(Error::Config("--class and --versus name the same class".into()));
        }
        if self.is_binary() {
            // One logit speaks for class 1 and against class 0; a class against the other is the logit itself.
            let class = class.or(versus.map(|versus| 1 - versus)).unwrap_or(1);
            return Ok(Score { output: 0, versus: None, sign: if class == 1 { 1.0 } else { -1.0 } });
        }
        let others = (0..logits.len()).filter(|&output| Some(output) != versus);
        let best = others.fold(None, |best: Option<usize>, at| match best {
            Some(best) if logits[at] <= logits[best] => Some(best),
            _ => Some(at),
        });
        Ok(Score { output: class.or(best).unwrap_or(0), versus, sign: 1.0 })
    }

    /// A score in words.
    pub fn score_text(&self, score: Score) -> String {
        if self.is_binary() {
            return self.class(usize::from(score.sign > 0.0));
        }
        match score.versus {
            Some(versus) => format!("{} versus {}", self.output(score.output), self.output(versus)),
            None => self.output(score.output),
        }
    }

    /// Probability of every class (of every label, where a unit has several).
    pub fn probabilities(&self, logits: &[f64]) -> Vec<f64> {
        if self.is_regression() {
            return Vec::new();
        }
        if self.is_binary() {
            let mut both = vec![-logits[0], logits[0]];
            self.objective.predict(&mut both);
            return both;
        }
        let mut row = logits.to_vec();
        self.objective.predict(&mut row);
        row
    }

    /// Whether the model predicts numbers.
    pub fn is_regression(&self) -> bool {
        self.objective.is_regression()
    }

    /// What an output is called: a logit, or a value in the units of the target.
    pub fn quantity(&self) -> &'static str {
        if self.is_regression() { "value" } else { "logit" }
    }

    /// Numbers of a unit in words; of several, each with its name.
    fn numbers(&self, values: &[f64]) -> String {
        match values {
            [value] => plain(*value),
            values => {
                let named =
                    values.iter().enumerate().map(|(at, &value)| format!("{} {}", self.class(at), plain(value)));
                named.collect::<Vec<_>>().join(", ")
            }
        }
    }

    /// The predicted class in words; of a multi-label task, all labels that are more likely than not.
    pub fn predicted(&self, logits: &[f64]) -> String {
        if self.is_regression() {
            return self.numbers(logits);
        }
        let probabilities = self.probabilities(logits);
        if !self.has_one_class() {
            let likely: Vec<String> =
                (0..logits.len()).filter(|&label| probabilities[label] > 0.5).map(|label| self.class(label)).collect();
            return joined(likely);
        }
        let best = (0..probabilities.len())
            .fold(0, |best, at| if probabilities[at] > probabilities[best] { at } else { best });
        self.class(best)
    }

    /// Whether a unit has a single class.
    pub fn has_one_class(&self) -> bool {
        self.is_binary() || self.objective == Objective::Softmax
    }

    /// "node" or "graph".
    pub fn unit(&self) -> &'static str {
        let level = self.dataset().map(|dataset| dataset.level).or(self.metadata.level);
        if level == Some(Level::Graph) { "graph" } else { "node" }
    }
}

/// A number as people write it: six digits.
fn plain(value: f64) -> String {
    let digits = 5 - value.abs().max(1e-300).log10().floor() as i32;
    match digits {
        _ if value == 0.0 => "0".into(),
        -9..=12 => {
            let text = format!("{value:.*}", digits.max(0) as usize);
            if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_string() } else { text }
        }
        _ => format!("{value:.5e}"),
    }
}

/// Several labels as one text.
fn joined(labels: Vec<String>) -> String {
    if labels.is_empty() { "no label".into() } else { labels.join(", ") }
}

fn find(text: &str, names: &[String], count: usize, what: &str) -> Result<usize> {
    if let Some(at) = names.iter().position(|name| name == text) {
        return Ok(at);
    }
    let mut loose = names.iter().enumerate().filter(|(_, name)| name.eq_ignore_ascii_case(text));
    if let (Some((at, _)), None) = (loose.next(), loose.next()) {
        return Ok(at);
    }
    // A class that the source calls -1 is "class -1" here.
    let called = || names.iter().position(|name| *name == format!("{what} {text}"));
    text.parse::<usize>().ok().filter(|&number| number < count).or_else(called).ok_or_else(|| {
        let hint = suggestion(text, names.iter().map(String::as_str));
        let few = if names.len() <= 20 { format!(": {}", names.join(", ")) } else { String::new() };
        Error::Config(format!(
            "there is no {what} `{}`{hint}; give a name or a number from 0 to {}{few}",
            one_line(text),
            count.saturating_sub(1)
        ))
    })
}

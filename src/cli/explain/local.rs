//! One prediction as its terms.

use super::{Arguments, Key, calibrated};
use crate::cli::reading::{Centre, Decimals, short, table};
use crate::cli::say;
use crate::explain::{By, Case, Edit, Explanation, Score, Target, Term};
use crate::runs::{Names, TrainedRun};
use harmonia_graph::error::{Error, Result};
use serde_json::{Map, Value, json};

pub fn run(arguments: &Arguments) -> Result<()> {
    let run = arguments.opened()?;
    let names = Names::of(&run);
    let target = match (&arguments.node, arguments.graph) {
        (Some(node), _) => Target::Node(names.find_node(node)?),
        (None, Some(graph)) => Target::Graph(graph),
        (None, None) => return Err(Error::Config("give --node, --graph or --global".into())),
    };
    let case = Case::new(&run.model, &run.factors, &run.dataset, target, &Edit::default())?;
    let logits = case.logits();
    let score = names.score(arguments.class.as_deref(), arguments.versus.as_deref(), &logits)?;
    let has = |key| arguments.by.contains(&key);
    let by = By { feature: has(Key::Feature), node: has(Key::Node), hop: has(Key::Hop) };
    let centre = arguments.centre.of(&run)?;
    let top = if arguments.top == 0 { usize::MAX } else { arguments.top };
    let explanation = case.explain(score, by, top, &centre)?;
    let about =
        About { run: &run, names: &names, target, score, logits: &logits, centre: arguments.centre, case: &case };
    say(&if arguments.json {
        format!("{:#}\n", local_json(&about, &explanation))
    } else {
        local_text(&about, &explanation, by)
    })
}

/// What an explanation is of.
struct About<'a> {
    run: &'a TrainedRun,
    names: &'a Names<'a>,
    target: Target,
    score: Score,
    logits: &'a [f64],
    centre: Centre,
    case: &'a Case<'a>,
}

impl About<'_> {
    fn unit(&self) -> usize {
        match self.target {
            Target::Node(unit) | Target::Graph(unit) => unit,
        }
    }

    /// The number people know the target by.
    fn id(&self) -> usize {
        match self.target {
            Target::Node(node) => self.run.dataset.original_id(node),
            Target::Graph(graph) => graph,
        }
    }

    /// What the data say of a term's feature: at its source node, or at the target where it is a node.
    fn value(&self, term: &Term) -> Option<String> {
        let target = if let Target::Node(node) = self.target { Some(node) } else { None };
        Some(self.names.value(term.node.or(target)?, term.feature?))
    }

    fn name(&self) -> Option<&str> {
        match self.target {
            Target::Node(node) => self.names.node(node),
            Target::Graph(_) => None,
        }
    }
}

fn local_json(about: &About<'_>, explanation: &Explanation) -> Value {
    let names = about.names;
    let term = |term: &Term| {
        let mut object = Map::new();
        if let Some(k) = term.feature {
            object.insert("feature".into(), json!(names.group(k)));
            object.insert("feature_index".into(), json!(about.run.factors.groups().columns(k).start));
            object.insert("x".into(), json!(about.value(term)));
        }
        if let Some(node) = term.node {
            let id = about.run.dataset.original_id(node);
            object.insert("node".into(), names.node(node).map_or(json!(id), |name| json!(name)));
            object.insert("node_id".into(), json!(id));
        }
        if let Some(hop) = term.hop {
            object.insert(about.run.factors.structure().key().into(), json!(hop));
        }
        object.insert("value".into(), json!(term.value));
        Value::Object(object)
    };
    let probabilities = names.probabilities(about.logits);
    let classes: Map<String, Value> =
        names.classes().into_iter().zip(probabilities).map(|(class, p)| (class, json!(p))).collect();
    json!({
        "target": about.id(),
        "level": names.unit(),
        "name": about.name(),
        "class": if about.score.versus.is_some() { names.output(about.score.output) } else { names.score_text(about.score) },
        "versus": about.score.versus.map(|versus| names.output(versus)),
        "predicted": names.predicted(about.logits),
        "label": names.truth(about.unit()),
        "probabilities": classes,
        "logit": explanation.logit,
        "intercept": explanation.intercept,
        "beta": explanation.beta,
        "centre": about.centre.name(),
        "contributions": explanation.terms.iter().map(term).collect::<Vec<_>>(),
        "rest": explanation.rest,
        "rest_terms": explanation.rest_terms,
        "residual": explanation.residual,
        "calibration": about.run.model.calibration,
        "nodes_seen": about.case.ball.nodes.len(),
    })
}

fn local_text(about: &About<'_>, explanation: &Explanation, by: By) -> String {
    let (names, dataset) = (about.names, &about.run.dataset);
    let called = about.name().map_or(String::new(), |name| format!(" ({})", short(name)));
    let mut out = format!("{}, {} {}{called}\n", dataset.name, names.unit(), about.id());
    let probabilities = names.probabilities(about.logits);
    out += &format!("predicted {}", short(&names.predicted(about.logits)));
    if names.has_one_class() {
        out += &format!(" (probability {:.3})", probabilities.iter().copied().fold(0.0, f64::max));
    }
    out += &names.truth(about.unit()).map_or(String::new(), |truth| format!(", labelled {}", short(&truth)));
    out += &format!("; it sees {} nodes\n{}\n", about.case.ball.nodes.len(), calibrated(about.run));

    let keys = usize::from(by.feature) + usize::from(by.node) + usize::from(by.hop);
    let blank = |first: String| -> Vec<String> {
        [first].into_iter().chain(std::iter::repeat_n(String::new(), keys.max(1) - 1)).collect()
    };
    let mut header = Vec::new();
    header.extend(by.feature.then(|| "feature".to_string()));
    header.extend(by.node.then(|| "node".to_string()));
    header.extend(by.hop.then(|| about.run.factors.structure().key().to_string()));
    header.resize(keys.max(1), String::new());
    // A term of a graph is of many nodes: it has no value of its own.
    let valued = by.feature && (by.node || matches!(about.target, Target::Node(_)));
    header.extend(valued.then(|| if by.node { "x".to_string() } else { "its own x".to_string() }));
    header.push("adds".into());
    let mut rows = vec![header];
    // Terms are what is read here: the intercept may be much larger.
    let decimals = Decimals::of(explanation.terms.iter().map(|term| term.value));
    let line = |mut cells: Vec<String>, value: f64| {
        cells.resize(keys.max(1) + usize::from(valued), String::new());
        cells.push(decimals.show(value));
        cells
    };
    rows.push(line(blank("(intercept)".into()), explanation.intercept));
    for term in &explanation.terms {
        let mut cells = Vec::new();
        cells.extend(term.feature.map(|k| short(&names.group(k))));
        cells.extend(term.node.map(|node| short(&names.node_text(node))));
        cells.extend(term.hop.map(|hop| hop.to_string()));
        cells.resize(keys.max(1), String::new());
        cells.extend(about.value(term).filter(|_| valued).map(|value| short(&value)));
        rows.push(line(cells, term.value));
    }
    if explanation.rest_terms > 0 {
        rows.push(line(blank(format!("(rest: {} more)", explanation.rest_terms)), explanation.rest));
    }
    rows.push(line(
        blank(format!("= {} of {}", names.quantity(), short(&names.score_text(about.score)))),
        explanation.logit,
    ));
    out += &table(&rows, keys.max(1));
    out += &format!("\nresidual |intercept + sum - logit| {:.1e}\n", explanation.residual);
    if about.centre == Centre::Mean {
        let graph = match about.target {
            Target::Node(_) => String::new(),
            Target::Graph(_) => format!(" ({} nodes' worth)", about.case.mass),
        };
        out += &format!(
            "Responses are centred at their mean over all nodes; the constants{graph} are in the intercept (beta alone is \
             {}). --centre none shows raw terms.\n",
            decimals.show(explanation.beta)
        );
    }
    out
}

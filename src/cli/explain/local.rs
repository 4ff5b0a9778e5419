//! One prediction as its terms.

use super::{Arguments, calibrated};
use crate::answers::{About, Explained, local_json};
use crate::cli::reading::{Centre, Decimals, short, table};
use crate::cli::say;
use crate::explain::{By, Explanation, Target};
use crate::runs::{Names, TrainedRun};
use harmonia_graph::dataset::Level;
use harmonia_graph::error::{Error, Result};
use harmonia_graph::files;
use serde_json::json;
use std::path::Path;

pub fn run(arguments: &Arguments) -> Result<()> {
    if arguments.node.is_empty() && arguments.graph.is_empty() {
        return Err(Error::Config("give --node, --graph or --global, or --out FILE for all of them".into()));
    }
    let run = arguments.opened()?;
    let names = Names::of(&run);
    let (by, centre, top) = (arguments.by(), arguments.centre.of(&run)?, arguments.most());
    let (mut text, mut objects) = (Vec::new(), Vec::new());
    for target in targets(arguments, &run, &names)? {
        let score = |logits: &[f64]| names.score(arguments.class.as_deref(), arguments.versus.as_deref(), logits);
        let found = Explained::one(&run, target, by, &score, (top, &centre))?;
        let (about, explanation) = (found.about(&run, &names, arguments.centre.name()), &found.explanation);
        match arguments.json {
            true => objects.push(local_json(&about, explanation)),
            false => text.push(local_text(&about, explanation, by)),
        }
    }
    say(&match (arguments.json, &objects[..]) {
        (true, [one]) => format!("{one:#}\n"),
        (true, several) => format!("{:#}\n", json!(several)),
        (false, _) => text.join("\n"),
    })
}

/// What is to be explained, in the order given; all units where nothing is.
pub(super) fn targets(arguments: &Arguments, run: &TrainedRun, names: &Names<'_>) -> Result<Vec<Target>> {
    if !arguments.graph.is_empty() {
        return Ok(arguments.graph.iter().map(|&graph| Target::Graph(graph)).collect());
    }
    if arguments.node.is_empty() {
        let of = |unit| if run.dataset.level == Level::Node { Target::Node(unit) } else { Target::Graph(unit) };
        return Ok((0..run.dataset.units()).map(of).collect());
    }
    let mut wanted = Vec::new();
    for word in &arguments.node {
        match word.strip_prefix('@').filter(|_| !names.has_node(word)) {
            Some(file) => {
                let text = files::read_handed(Path::new(file))?;
                wanted.extend(text.lines().map(str::trim).filter(|line| !line.is_empty()).map(String::from));
            }
            None => wanted.push(word.clone()),
        }
    }
    if wanted.is_empty() {
        return Err(Error::Config(format!(
            "--node {}: expected a node in each line, found none",
            arguments.node.join(" ")
        )));
    }
    Ok(names.find_nodes(&wanted)?.into_iter().map(Target::Node).collect())
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
    out += &about.nodes_seen.map_or(String::new(), |seen| format!("; it sees {seen} nodes"));
    out += &format!("\n{}\n", calibrated(&about.run.model));

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
        let place = about.source(term).zip(term.feature).filter(|_| valued);
        cells.extend(place.map(|(node, feature)| short(&names.value(node, feature))));
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
    if about.centre == Centre::Mean.name() {
        let graph = match about.target {
            Target::Node(_) => String::new(),
            Target::Graph(_) => format!(" ({} nodes' worth)", about.mass),
        };
        out += &format!(
            "Responses are centred at their mean over all nodes; the constants{graph} are in the intercept (beta alone is \
             {}). --centre none shows raw terms.\n",
            decimals.show(explanation.beta)
        );
    }
    out
}

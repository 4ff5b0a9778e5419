//! `harmonia explain`: one prediction as its terms, or what the model does over many.

use super::reading::{Centre, Decimals, RunArgument, number, short, table};
use super::{say, voice};
use crate::cli::signals;
use crate::diagnose;
use crate::explain::stability::mean_spearman;
use crate::explain::{By, Case, Distribution, Edit, Explanation, Importance, Score, Target, Term, experts, ranking};
use crate::runs::{Names, TrainedRun};
use clap::{Args, ValueEnum};
use harmonia_graph::error::{Error, Result};
use harmonia_graph::watch::{Report, Watch};
use serde_json::{Map, Value, json};

pub const EXAMPLES: &str = "\
Examples:
  harmonia explain runs/cora-1 --node 42
      what speaks for the predicted class of node 42, by feature
  harmonia explain runs/cora-1 --node 42 --by node,hop --top 20
      by source node and walk length
  harmonia explain runs/cora-1 --node 42 --class Theory --versus Neural_Networks
      why one class and not the other
  harmonia explain runs/mutag-1 --graph 7 --by node,feature
      terms of one graph
  harmonia explain runs/cora-1 --global
      importances, signed effects, hop profiles, routing; with several seeds, how well they agree";

/// A key that terms are added up by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Key {
    /// Column of X
    Feature,
    /// Source node
    Node,
    /// Walk length
    Hop,
}

/// Units to measure on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Part {
    /// Training units
    Train,
    /// Validation units
    #[value(alias = "validation")]
    Valid,
    /// Test units
    Test,
    /// All units
    All,
}

impl Part {
    pub fn units(self, run: &TrainedRun) -> Vec<u32> {
        let split = &run.dataset.split;
        match self {
            Part::Train => split.train.clone(),
            Part::Valid => split.valid.clone(),
            Part::Test => split.test.clone(),
            Part::All => (0..run.dataset.units() as u32).collect(),
        }
    }

    pub fn name(self) -> &'static str {
        match self {
            Part::Train => "train",
            Part::Valid => "validation",
            Part::Test => "test",
            Part::All => "all",
        }
    }
}

#[derive(Args)]
#[command(group(clap::ArgGroup::new("target").args(["node", "graph", "global"]).required(true)))]
pub struct Arguments {
    #[command(flatten)]
    run: RunArgument,
    /// Node to explain: its name, or its number in the source of the data
    #[arg(long, value_name = "NODE")]
    node: Option<String>,
    /// Graph to explain, by its number
    #[arg(long, value_name = "NUMBER")]
    graph: Option<usize>,
    /// What the model does over a whole split
    #[arg(long)]
    global: bool,
    /// Class to explain, by name or number [default: the predicted one; of a binary task, class 1, which its one logit
    /// speaks for]
    #[arg(long, value_name = "NAME", conflicts_with = "global", allow_hyphen_values = true)]
    class: Option<String>,
    /// Explain the difference to this class
    #[arg(long, value_name = "NAME", conflicts_with = "global", allow_hyphen_values = true)]
    versus: Option<String>,
    /// What terms are added up by; any of the three, separated by commas
    #[arg(long, value_delimiter = ',', default_value = "feature", conflicts_with = "global")]
    by: Vec<Key>,
    /// Largest terms to list; the others are added up as the rest. 0 lists all
    #[arg(long, value_name = "N", default_value_t = 10)]
    top: usize,
    /// What is taken off every response before terms are formed
    #[arg(long, value_enum, default_value_t = Centre::Mean)]
    centre: Centre,
    /// --global: units to measure on
    #[arg(long, value_enum, default_value_t = Part::Test, conflicts_with_all = ["node", "graph"])]
    split: Part,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

pub fn run(arguments: &Arguments) -> Result<()> {
    arguments.run.with(|| if arguments.global { global(arguments) } else { local(arguments) })
}

fn local(arguments: &Arguments) -> Result<()> {
    let run = arguments.run.first()?;
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
            object.insert("feature".into(), json!(names.feature(k)));
            object.insert("feature_index".into(), json!(k));
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
    out += &format!("; it sees {} nodes\n\n", about.case.ball.nodes.len());

    let keys = usize::from(by.feature) + usize::from(by.node) + usize::from(by.hop);
    let blank = |first: String| -> Vec<String> {
        [first].into_iter().chain(std::iter::repeat_n(String::new(), keys.max(1) - 1)).collect()
    };
    let mut header = Vec::new();
    header.extend(by.feature.then(|| "feature".to_string()));
    header.extend(by.node.then(|| "node".to_string()));
    header.extend(by.hop.then(|| about.run.factors.structure().key().to_string()));
    header.resize(keys.max(1), String::new());
    header.push("adds".into());
    let mut rows = vec![header];
    // Terms are what is read here: the intercept may be much larger.
    let decimals = Decimals::of(explanation.terms.iter().map(|term| term.value));
    let line = |mut cells: Vec<String>, value: f64| {
        cells.push(decimals.show(value));
        cells
    };
    rows.push(line(blank("(intercept)".into()), explanation.intercept));
    for term in &explanation.terms {
        let mut cells = Vec::new();
        cells.extend(term.feature.map(|k| short(&names.feature(k))));
        cells.extend(term.node.map(|node| short(&names.node_text(node))));
        cells.extend(term.hop.map(|hop| hop.to_string()));
        cells.resize(keys.max(1), String::new());
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

fn global(arguments: &Arguments) -> Result<()> {
    let runs = arguments.run.all()?;
    let mut measured = Vec::new();
    for run in &runs {
        let units = match arguments.split.units(run) {
            units if units.is_empty() => {
                let message = format!("has no {} units; choose another --split", arguments.split.name());
                return Err(Error::file(&run.path, message));
            }
            units => units,
        };
        let centre = arguments.centre.of(run)?;
        let features = run.factors.features();
        // Worth a word only where it takes a while.
        let large = run.dataset.graph.nodes().saturating_mul(features) > 1 << 26;
        let progress = |report: Report<'_>| match report {
            Report::Progress(_, done, all) if large => {
                voice::line(format_args!("importance: {done} of {all} features"))
            }
            _ => {}
        };
        let watch = Watch::new(&progress, signals::stop());
        let found = Importance::measure(&run.model, &run.factors, &run.dataset, &units, &centre, &watch)?;
        measured.push((run, found));
    }
    let (run, importance) = &measured[0];
    let overall: Vec<Vec<f64>> = measured.iter().map(|(run, found)| found.overall(&run.factors)).collect();
    let few = run.factors.hops().min(diagnose::MOST_HOPS);
    let hops = diagnose::hop_warning(&run.dataset.graph, run.model.walk, few, &Watch::new(&|_| (), signals::stop()))?;
    let everything: Vec<usize> = (0..run.factors.features()).collect();
    let range = Distribution::joint_range(&Distribution::of(&run.dataset.features, &everything));
    let about = Global {
        run,
        runs: &runs,
        importance,
        overall: &overall,
        warning: hops,
        similar: experts::near_duplicates(&run.factors, range),
        arguments,
    };
    say(&if arguments.json { format!("{:#}\n", about.json()) } else { about.text() })
}

struct Global<'a> {
    run: &'a TrainedRun,
    runs: &'a [TrainedRun],
    importance: &'a Importance,
    /// Of each run.
    overall: &'a [Vec<f64>],
    warning: Option<String>,
    similar: Vec<experts::Similar>,
    arguments: &'a Arguments,
}

impl Global<'_> {
    fn json(&self) -> Value {
        let (run, names) = (self.run, Names::of(self.run));
        let factors = &run.factors;
        let (outputs, term) = (0..factors.outputs(), factors.structure().key());
        let per_output = |value: &dyn Fn(usize) -> f64| -> Map<String, Value> {
            outputs.clone().map(|output| (names.output(output), json!(value(output)))).collect()
        };
        let feature = |&k: &usize| {
            json!({
                "feature": names.feature(k),
                "feature_index": k,
                "importance": self.overall[0][k],
                "importance_by_class": per_output(&|output| self.importance.of(factors, k, output)),
                "signed_by_class": per_output(&|output| self.importance.signed(factors, k, output)),
                "weight_by_class": per_output(&|output| factors.weight[k * factors.outputs() + output]),
                format!("{term}_weights"): (0..factors.hops()).map(|t| factors.theta(t, k)).collect::<Vec<_>>(),
                "gates": factors.monb().map(|_| experts::gates(factors, k)),
                "importance_by_seed": self.overall.iter().map(|of_run| of_run[k]).collect::<Vec<_>>(),
            })
        };
        let shown = ranking(&self.overall[0]);
        let top = if self.arguments.top == 0 { shown.len() } else { self.arguments.top };
        let used = experts::used_by(factors);
        json!({
            "dataset": run.dataset.name,
            "split": self.arguments.split.name(),
            "units": self.importance.units,
            "centre": self.arguments.centre.name(),
            "classes": outputs.clone().map(|output| names.output(output)).collect::<Vec<_>>(),
            "features_total": factors.features(),
            "features": shown.iter().take(top).map(feature).collect::<Vec<_>>(),
            format!("{term}s"): factors.hops(),
            format!("{term}_warning"): self.warning,
            "experts": factors.monb().map(|_| json!({
                "count": used.len(),
                "used_by": used,
                "unused": (0..used.len()).filter(|&expert| used[expert] == 0).collect::<Vec<_>>(),
                "near_duplicates": self.similar,
            })),
            "stability": (self.runs.len() > 1).then(|| json!({
                "runs": self.runs.iter().map(|run| run.path.display().to_string()).collect::<Vec<_>>(),
                "mean_pairwise_spearman": mean_spearman(self.overall),
            })),
        })
    }

    fn text(&self) -> String {
        let (run, names) = (self.run, Names::of(self.run));
        let factors = &run.factors;
        let mut out = format!(
            "{}: importance = mean |contribution| over {} {}s ({})\n\n",
            run.dataset.name,
            self.importance.units,
            names.unit(),
            self.arguments.split.name()
        );
        let shown = ranking(&self.overall[0]);
        let top = if self.arguments.top == 0 { shown.len() } else { self.arguments.top.min(shown.len()) };
        let strongest = |k: usize| {
            let of = |output: usize| self.importance.of(factors, k, output);
            (0..factors.outputs()).fold(0, |best, output| if of(output) > of(best) { output } else { best })
        };
        let mut rows = vec![["feature", "most for", "importance", "signed, for it"].map(String::from).to_vec()];
        // More would not fit a screen; JSON has all.
        let hops = if factors.hops() <= 12 { factors.hops() } else { 0 };
        rows[0].extend((0..hops).map(|t| factors.structure().name(t)));
        rows[0].extend(factors.monb().map(|_| "experts (gates)".into()));
        for &k in &shown[..top] {
            let output = strongest(k);
            let mut row = vec![
                short(&names.feature(k)),
                short(&names.output(output)),
                number(self.overall[0][k]),
                format!("{:+.4}", self.importance.signed(factors, k, output)),
            ];
            row.extend((0..hops).map(|t| format!("{:.3}", factors.theta(t, k))));
            let gates = experts::gates(factors, k).into_iter().enumerate();
            let used = gates.filter_map(|(expert, gate)| gate.map(|gate| format!("{expert} ({gate:.2})")));
            row.extend(factors.monb().map(|_| used.collect::<Vec<_>>().join(" ")));
            rows.push(row);
        }
        out += &table(&rows, 2);
        if top < shown.len() {
            out += &format!("  ... {} more features (--top 0 lists all)\n", shown.len() - top);
        }
        if let Some(warning) = &self.warning {
            out += &format!("\nwarning: {warning}\n");
        }
        let used = experts::used_by(factors);
        if factors.monb().is_some() {
            out += "\nexperts, and how many features use them:";
            used.iter().enumerate().for_each(|(expert, count)| out += &format!(" {expert}: {count}"));
            out += "\n";
        }
        for (expert, _) in used.iter().enumerate().filter(|(_, count)| **count == 0) {
            out += &format!("expert {expert} is never used\n");
        }
        for experts::Similar { a, b, similarity } in &self.similar {
            out += &format!("experts {a} and {b} offer nearly the same functions (similarity {similarity:.4})\n");
        }
        if self.runs.len() > 1 {
            let agreement = mean_spearman(self.overall).map_or("not defined".into(), |value| format!("{value:.3}"));
            out += &format!(
                "\nstability over {} runs: mean pairwise Spearman correlation of importances {agreement}; the table is of \
                 {}\n",
                self.runs.len(),
                run.path.display()
            );
        }
        out
    }
}

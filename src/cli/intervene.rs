//! `harmonia intervene`: the same prediction with something changed, exactly.

mod set;

use super::reading::{Decimals, RunArgument, short, table};
use super::{say, voice};
use crate::explain::{Case, Edit, Target, ranking};
use crate::runs::{Names, TrainedRun};
use clap::Args;
use harmonia_graph::dataset::{Dataset, Level};
use harmonia_graph::error::{Error, Result};
use serde_json::json;

pub const EXAMPLES: &str = "\
Examples:
  harmonia intervene runs/cora-1 --node 42 --drop-edge 42-1372
      without the edge between nodes 42 and 1372; walks are normalised anew
  harmonia intervene runs/cora-1 --node 42 --mean-node 1372
      with the features of node 1372 replaced by the training mean
  harmonia intervene runs/cora-1 --node 42 --drop-edge 42-1372 --mean-node 87
      several changes at once; their effects need not add up
  harmonia intervene runs/customers-1 --node C10962 --set age=50 --set C17:income=2000
      with another age, and another income of node C17, in the units of the data";

#[derive(Args)]
#[command(group(clap::ArgGroup::new("change").args(["drop_edge", "mean_node", "set"]).required(true).multiple(true)))]
pub struct Arguments {
    #[command(flatten)]
    run: RunArgument,
    /// Node whose prediction is made again
    #[arg(long, value_name = "NODE", conflicts_with = "graph", required_unless_present = "graph")]
    node: Option<String>,
    /// Graph whose prediction is made again
    #[arg(long, value_name = "NUMBER")]
    graph: Option<usize>,
    /// Take out an edge; of a directed graph A-B is the edge from A to B, by which A reads from B. May be repeated
    #[arg(long, value_name = "A-B")]
    drop_edge: Vec<String>,
    /// Give a node the mean features of the training nodes. May be repeated
    #[arg(long, value_name = "NODE")]
    mean_node: Vec<String>,
    /// Give a feature of the target, or of any node, another value, in the units of the data. May be repeated
    #[arg(long, value_name = "[NODE:]FEATURE=VALUE", allow_hyphen_values = true)]
    set: Vec<String>,
    /// Class whose logit is looked at [default: the one predicted before the change; of a binary task, class 1]
    #[arg(long, value_name = "NAME", allow_hyphen_values = true)]
    class: Option<String>,
    /// Look at the difference to this class
    #[arg(long, value_name = "NAME", allow_hyphen_values = true)]
    versus: Option<String>,
    /// Features that change the logit most to list; 0 lists all
    #[arg(long, value_name = "N", default_value_t = 10)]
    top: usize,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

pub fn run(arguments: &Arguments) -> Result<()> {
    arguments.run.with(|| intervene(arguments))
}

fn intervene(arguments: &Arguments) -> Result<()> {
    let run = arguments.run.first()?;
    let names = Names::of(&run);
    let target = match (&arguments.node, arguments.graph) {
        (Some(node), _) => Target::Node(names.find_node(node)?),
        (None, Some(graph)) => Target::Graph(graph),
        (None, None) => return Err(Error::Config("give --node or --graph".into())),
    };
    let mut edit = edit(arguments, &run, &names)?;
    let settings = set::settings(&arguments.set, &run, &names, target)?;
    settings.iter().for_each(|setting| setting.apply(&mut edit, &run));
    let before = Case::new(&run.model, &run.factors, &run.dataset, target, &Edit::default())?;
    let after = Case::new(&run.model, &run.factors, &run.dataset, target, &edit)?;
    let (old, new) = (before.logits(), after.logits());
    let touched = edit.replaced.keys().copied().chain(edit.dropped.iter().map(|&(reader, _)| reader));
    for node in touched.filter(|node| !before.ball.nodes.contains(node)) {
        voice::note(format_args!("the target does not see node {}", names.node_text(node as usize)));
    }
    let score = names.score(arguments.class.as_deref(), arguments.versus.as_deref(), &old)?;
    let of = |logits: &[f64]| score.sign * (logits[score.output] - score.versus.map_or(0.0, |versus| logits[versus]));
    // Both by the engine, as a check on the terms.
    let outputs: Vec<usize> = [score.output].into_iter().chain(score.versus).collect();
    let engine = |case: &Case<'_>| -> Result<f64> {
        let logits = case.propagated_logits(&outputs)?;
        Ok(score.sign * (logits[0] - logits.get(1).copied().unwrap_or(0.0)))
    };
    let residual = (of(&old) - engine(&before)?).abs().max((of(&new) - engine(&after)?).abs());
    // H is what the readout multiplies: its change is the change by feature, exactly.
    let weight = |k: usize| {
        let w = |output: usize| run.factors.weight[k * run.factors.outputs() + output];
        score.sign * (w(score.output) - score.versus.map_or(0.0, w))
    };
    let changes: Vec<f64> =
        (before.state().iter().zip(after.state()).enumerate()).map(|(k, (old, new))| weight(k) * (new - old)).collect();
    let order = ranking(&changes.iter().map(|change| change.abs()).collect::<Vec<_>>());
    let top = if arguments.top == 0 { order.len() } else { arguments.top.min(order.len()) };
    let rest: f64 = order[top..].iter().map(|&k| changes[k]).sum();
    let id = match target {
        Target::Node(node) => run.dataset.original_id(node),
        Target::Graph(graph) => graph,
    };
    let change = of(&new) - of(&old);
    if arguments.json {
        let contributions: Vec<_> = (order[..top].iter())
            .map(|&k| json!({ "feature": names.feature(k), "feature_index": k, "value": changes[k] }))
            .collect();
        let class = if score.versus.is_some() { names.output(score.output) } else { names.score_text(score) };
        let object = json!({
            "target": id, "level": names.unit(), "class": class,
            "versus": score.versus.map(|versus| names.output(versus)),
            "dropped_edges": arguments.drop_edge, "mean_nodes": arguments.mean_node,
            "set": settings.iter().map(|setting| setting.as_json(&names)).collect::<Vec<_>>(),
            "before": of(&old), "after": of(&new), "change": change,
            "predicted_before": names.predicted(&old), "predicted_after": names.predicted(&new),
            "contributions": contributions, "rest": rest, "rest_terms": order.len() - top, "residual": residual,
        });
        return say(&format!("{object:#}\n"));
    }
    let what = (arguments.drop_edge.iter().map(|edge| format!("without edge {edge}")))
        .chain(arguments.mean_node.iter().map(|node| format!("node {node} at the training mean")))
        .chain(settings.iter().map(|setting| setting.text(&names)));
    let mut out = format!("{}, {} {id}: {}\n\n", run.dataset.name, names.unit(), what.collect::<Vec<_>>().join(", "));
    let decimals = Decimals::of(order[..top].iter().map(|&k| changes[k]).chain([rest, change]));
    let logits = decimals.or([of(&old), of(&new)]);
    let logit = format!("{} of {}", names.quantity(), short(&names.score_text(score)));
    out += &table(
        &[
            vec!["".into(), "before".into(), "after".into(), "change".into()],
            vec![logit, logits.show(of(&old)), logits.show(of(&new)), decimals.signed(change)],
            vec!["predicted".into(), short(&names.predicted(&old)), short(&names.predicted(&new)), String::new()],
        ],
        1,
    );
    out += "\nthe change, by feature\n";
    let mut rows: Vec<Vec<String>> =
        order[..top].iter().map(|&k| vec![short(&names.feature(k)), decimals.signed(changes[k])]).collect();
    if top < order.len() {
        rows.push(vec![format!("(rest: {} more)", order.len() - top), decimals.signed(rest)]);
    }
    out += &table(&rows, 1);
    out += &format!("\nresidual against propagation {residual:.1e}\n");
    say(&out)
}

fn edit(arguments: &Arguments, run: &TrainedRun, names: &Names<'_>) -> Result<Edit> {
    let mut edit = Edit::default();
    let adjacency = run.dataset.graph.adjacency();
    for text in &arguments.drop_edge {
        let (a, b) = ends(text, names)?;
        let reversed = [b, a].map(|node| names.node_text(node as usize)).join("-");
        let has = |i: u32, j: u32| adjacency.col_idx[adjacency.row(i as usize)].binary_search(&j).is_ok();
        // Node a reads from node b; an undirected edge is both ways.
        let mut gone = vec![(a, b)];
        if run.dataset.graph.is_symmetric() {
            gone.push((b, a));
        }
        if !has(a, b) {
            let other =
                if has(b, a) { format!("; it goes the other way: --drop-edge {}", reversed) } else { String::new() };
            return Err(Error::Config(format!("there is no edge {text} in {}{other}", run.dataset.name)));
        }
        edit.dropped.extend(gone);
    }
    if !arguments.mean_node.is_empty() {
        let mean = training_mean(&run.dataset);
        for text in &arguments.mean_node {
            edit.replaced.insert(names.find_node(text)? as u32, mean.clone());
        }
    }
    Ok(edit)
}

/// Names may hold dashes: the one that leaves two nodes is taken.
fn ends(text: &str, names: &Names<'_>) -> Result<(u32, u32)> {
    let node = |text: &str| names.find_node(text.trim()).map(|node| node as u32);
    for (at, _) in text.match_indices('-') {
        if let (Ok(a), Ok(b)) = (node(&text[..at]), node(&text[at + 1..])) {
            return Ok((a, b));
        }
    }
    // Where one end is a node, the other says what is wrong with it.
    for (at, _) in text.match_indices('-') {
        if let (Ok(_), Err(error)) | (Err(error), Ok(_)) = (node(&text[..at]), node(&text[at + 1..])) {
            return Err(error);
        }
    }
    Err(Error::Config(format!("--drop-edge {text}: expected two nodes, as in 42-1372")))
}

/// Mean of every feature over the nodes of the training units, as the model reads them.
fn training_mean(dataset: &Dataset) -> Vec<f32> {
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

//! `harmonia intervene`: the same prediction with something changed, exactly.

mod set;

use super::reading::{Decimals, RunArgument, short, table};
use super::{new_data, say, voice};
use crate::answers::{Intervention, training_mean, without_edge};
use crate::explain::{Edit, Target};
use crate::runs::{Names, TrainedRun};
use clap::Args;
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
  harmonia intervene runs/customers-1 --node C10962 --set age=50 --set plan=pro --set C17:income=missing
      with another age and plan, and without the income of node C17, as the table would have them
  harmonia intervene runs/customers-1 --data new/ --node C20001 --set age=50
      a node of new tables";

#[derive(Args)]
#[command(group(clap::ArgGroup::new("change").args(["drop_edge", "mean_node", "set"]).required(true).multiple(true)))]
pub struct Arguments {
    #[command(flatten)]
    run: RunArgument,
    /// Other data to look at: a directory of tables, a store, or the name of a dataset [default: what it was trained on]
    #[arg(long, value_name = "DATA", conflicts_with = "mean_node")]
    data: Option<String>,
    #[command(flatten)]
    tables: new_data::TableFlags,
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
    /// Give a feature of the target, or of any node, another value, as the data would have it: 50, pro, 2026-11-18, missing.
    /// May be repeated
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
    let run = new_data::asked(&arguments.run, arguments.data.as_deref(), &arguments.tables)?;
    let names = Names::of(&run);
    let target = match (&arguments.node, arguments.graph) {
        (Some(node), _) => Target::Node(names.find_node(node)?),
        (None, Some(graph)) => Target::Graph(graph),
        (None, None) => return Err(Error::Config("give --node or --graph".into())),
    };
    let mut edit = edit(arguments, &run, &names)?;
    let settings = set::settings(&arguments.set, &run, &names, target)?;
    settings.iter().for_each(|setting| setting.apply(&mut edit, &run));
    let found =
        Intervention::of(&run, &names, target, &edit, (arguments.class.as_deref(), arguments.versus.as_deref()))?;
    for &node in &found.unseen {
        voice::note(format_args!("the target does not see node {}", names.node_text(node as usize)));
    }
    if arguments.json {
        let mut object = found.json(&run, &names, arguments.top);
        object["dropped_edges"] = json!(arguments.drop_edge);
        object["mean_nodes"] = json!(arguments.mean_node);
        object["set"] = settings.iter().map(|setting| setting.as_json(&run, &names)).collect::<Vec<_>>().into();
        return say(&format!("{object:#}\n"));
    }
    let Intervention { score, changes, residual, .. } = &found;
    let (id, [old, new], change) = (found.id(&run), [&found.before, &found.after], found.change());
    let of = |logits: &[f64]| score.of(logits);
    let (order, top, rest) = found.largest(arguments.top);
    let what = (arguments.drop_edge.iter().map(|edge| format!("without edge {edge}")))
        .chain(arguments.mean_node.iter().map(|node| format!("node {node} at the training mean")))
        .chain(settings.iter().map(|setting| set::text(setting, &names)));
    let mut out = format!("{}, {} {id}: {}\n\n", run.dataset.name, names.unit(), what.collect::<Vec<_>>().join(", "));
    let decimals = Decimals::of(order[..top].iter().map(|&k| changes[k]).chain([rest, change]));
    let logits = decimals.or([of(old), of(new)]);
    let logit = format!("{} of {}", names.quantity(), short(&names.score_text(*score)));
    out += &table(
        &[
            vec!["".into(), "before".into(), "after".into(), "change".into()],
            vec![logit, logits.show(of(old)), logits.show(of(new)), decimals.signed(change)],
            vec!["predicted".into(), short(&names.predicted(old)), short(&names.predicted(new)), String::new()],
        ],
        1,
    );
    out += "\nthe change, by feature\n";
    let mut rows: Vec<Vec<String>> =
        order[..top].iter().map(|&k| vec![short(&names.group(k)), decimals.signed(changes[k])]).collect();
    if top < order.len() {
        rows.push(vec![format!("(rest: {} more)", order.len() - top), decimals.signed(rest)]);
    }
    out += &table(&rows, 1);
    out += &format!("\nresidual against propagation {residual:.1e}\n");
    say(&out)
}

fn edit(arguments: &Arguments, run: &TrainedRun, names: &Names<'_>) -> Result<Edit> {
    let mut edit = Edit::default();
    for text in &arguments.drop_edge {
        let (a, b) = ends(text, names)?;
        edit.dropped.extend(without_edge(run, names, a, b).map_err(|error| match error {
            Error::Config(what) => Error::Config(what.replace("the other way: ", "the other way: --drop-edge ")),
            other => other,
        })?);
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

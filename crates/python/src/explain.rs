//! What a model says, as the JSON that commands print: `docs/explain.md` documents every key.

use crate::data::Data;
use crate::model::{Held, Model};
use crate::work;
use harmonia::answers::{
    Explained, Global, Intervention, NamedShape, Setting, local_json, responses, shapes_json, training_mean,
    without_edge,
};
use harmonia::diagnose::{self as diagnosis, Options};
use harmonia::explain::stability::Compared;
use harmonia::explain::{By, Edit, FeatureShape, Target, edge_effects};
use harmonia::runs::{Names, TrainedRun};
use harmonia_graph::dataset::Level;
use harmonia_graph::error::{Error, Result};
use harmonia_graph::watch::Watch;
use pyo3::prelude::*;
use serde_json::{Value, json};
use std::path::Path;

/// Predictions from which on nodes by feature are explained together.
const MANY: usize = 64;

/// One JSON object for each unit, as `explain --json` prints it. `units`: names or numbers; `by`: feature, node, hop;
/// `top` 0: all terms.
#[pyfunction]
#[pyo3(signature = (model, units, by, *, top = 10, class_ = None, versus = None, centre = true, data = None))]
#[allow(clippy::too_many_arguments)]
pub fn explain_local(
    model: &Model,
    py: Python<'_>,
    units: Vec<String>,
    by: Vec<String>,
    top: usize,
    class_: Option<&str>,
    versus: Option<&str>,
    centre: bool,
    data: Option<&Data>,
) -> PyResult<String> {
    model.answer(py, data, |held, watch| {
        let (run, by) = (held.run(), keys(&by)?);
        let names = Names::of(run);
        let targets = targets(run, &names, &units)?;
        let zeros;
        let (constants, word) = match centre {
            true => (held.centres(), "mean"),
            false => {
                zeros = vec![0.0; run.factors.features()];
                (&zeros[..], "none")
            }
        };
        let score = |logits: &[f64]| names.score(class_, versus, logits);
        let top = if top == 0 { usize::MAX } else { top };
        let all = match targets.len() {
            0..MANY => {
                let one = |&target: &Target| {
                    watch.check()?;
                    Explained::one(run, target, by, &score, (top, constants))
                };
                targets.iter().map(one).collect::<Result<Vec<_>>>()?
            }
            _ => Explained::all(run, &targets, by, &score, (top, constants), watch.stop())?,
        };
        let of = |one: &Explained| local_json(&one.about(run, &names, word), &one.explanation);
        Ok(all.iter().map(of).collect::<Vec<_>>().into())
    })
}

/// Of each unit the edges its prediction can depend on, `[reader, source, change]` by the numbers of the source; of an undirected graph
/// each once, taken out both ways.
#[pyfunction]
#[pyo3(signature = (model, units, most, *, class_ = None, versus = None, data = None))]
pub fn explain_edges(
    model: &Model,
    py: Python<'_>,
    units: Vec<String>,
    most: usize,
    class_: Option<&str>,
    versus: Option<&str>,
    data: Option<&Data>,
) -> PyResult<String> {
    model.answer(py, data, |held, watch| {
        let run = held.run();
        let names = Names::of(run);
        let score = |logits: &[f64]| names.score(class_, versus, logits);
        let id = |node: u32| run.dataset.original_id(node as usize);
        let of = |target: Target| {
            let (_, edges) = edge_effects(&run.factors, &run.dataset, target, &score, most, watch.stop())?;
            Ok(edges.iter().map(|edge| json!([id(edge.reader), id(edge.source), edge.change])).collect::<Vec<_>>())
        };
        let all: Vec<_> = targets(run, &names, &units)?.into_iter().map(of).collect::<Result<_>>()?;
        Ok(json!({ "both_ways": run.dataset.graph.is_symmetric(), "edges": all }))
    })
}

/// What `explain --global --json` prints; `part`: train, valid, test or all; `top` 0: all features.
#[pyfunction]
#[pyo3(signature = (model, part, *, top = 0, data = None))]
pub fn explain_global(model: &Model, py: Python<'_>, part: &str, top: usize, data: Option<&Data>) -> PyResult<String> {
    model.answer(py, data, |held, watch| {
        let run = held.run();
        let split = &run.dataset.split;
        let (word, units) = match part {
            "train" => ("train", split.train.clone()),
            "valid" | "validation" => ("validation", split.valid.clone()),
            "test" => ("test", split.test.clone()),
            "all" => ("all", (0..run.dataset.units() as u32).collect()),
            _ => return Err(Error::Config(format!("part is {part}: expected train, valid, test or all"))),
        };
        if units.is_empty() {
            return Err(Error::Data(format!("there are no {word} units: choose another part")));
        }
        let importance = held.importance(&units, watch)?;
        let overall = [importance.of_features(&run.factors)];
        // A model in memory has no directory.
        let about = Global { paths: vec![Path::new("")], ..Global::of(run, (word, &importance), &overall, watch)? };
        Ok(about.json(top))
    })
}

/// What `shapes --json` prints, of some features (none: all); where data are at hand, with their distribution.
#[pyfunction]
#[pyo3(signature = (model, features, *, data = None))]
pub fn shapes(model: &Model, py: Python<'_>, features: Vec<String>, data: Option<&Data>) -> PyResult<String> {
    model.text(py, data, |_| {
        let held = model.on(data);
        let held = if data.is_some() { Some(held?) } else { held.ok() };
        let saved = model.saved();
        let names = Names::of_model(saved);
        let wanted: Vec<usize> = match features.is_empty() {
            true => (0..saved.factors.groups().len()).collect(),
            false => features.iter().map(|name| names.find_shown(name)).collect::<Result<_>>()?,
        };
        let measured = held.as_ref().map(|held| held.measured());
        let known = measured.as_ref().map(|measured| &measured.columns[..]);
        let model =
            [Compared { factors: &saved.factors, scaling: saved.model.scaling.as_ref(), centres: model.centres() }];
        let of = |&feature: &usize| NamedShape {
            name: names.group(feature),
            shape: FeatureShape::of(&model, feature, names.column(feature), known),
        };
        let curves: Vec<NamedShape> = wanted.iter().map(of).collect();
        let outputs: Vec<String> = (0..saved.factors.outputs()).map(|output| names.output(output)).collect();
        Ok(shapes_json(&saved.metadata.dataset, &curves, &outputs, 1))
    })
}

/// What `diagnose --json` prints for the graph and the hop weights of the model.
#[pyfunction]
#[pyo3(signature = (model, *, epsilon = diagnosis::DEFAULT_EPSILON, seed = 0, data = None))]
pub fn diagnose(model: &Model, py: Python<'_>, epsilon: f64, seed: u64, data: Option<&Data>) -> PyResult<String> {
    model.answer(py, data, |held, watch| {
        let run = held.run();
        let options = Options { epsilon, seed, hops: run.factors.hops(), ..Options::default() };
        options.check()?;
        let found = diagnosis::diagnose(&run.dataset.graph, run.model.walk, &options, watch)?;
        let responses = responses(&run.model, &run.dataset, &found)?;
        let as_json = |error: serde_json::Error| Error::Data(format!("the diagnosis: {error}"));
        let mut object = serde_json::to_value(&found).map_err(as_json)?;
        object["dataset"] = json!(run.dataset.name);
        object["responses"] = serde_json::to_value(&responses).map_err(as_json)?;
        Ok(object)
    })
}

/// What `intervene --json` prints. `dropped`: edges by their ends; `means`: nodes with the training mean; `set`: node (none: the
/// target), feature and value as a table would have it.
#[pyfunction]
#[pyo3(signature = (model, unit, *, dropped, means, set, class_ = None, versus = None, top = 0, data = None))]
#[allow(clippy::too_many_arguments)]
pub fn intervene(
    model: &Model,
    py: Python<'_>,
    unit: &str,
    dropped: Vec<(String, String)>,
    means: Vec<String>,
    set: Vec<(Option<String>, String, String)>,
    class_: Option<&str>,
    versus: Option<&str>,
    top: usize,
    data: Option<&Data>,
) -> PyResult<String> {
    model.answer(py, data, |held, _| {
        let run = held.run();
        let names = Names::of(run);
        let target = targets(run, &names, &[unit.to_string()])?[0];
        let mut edit = Edit::default();
        for (a, b) in &dropped {
            let (a, b) = (names.find_node(a)? as u32, names.find_node(b)? as u32);
            edit.dropped.extend(without_edge(run, &names, a, b)?);
        }
        if !means.is_empty() {
            if run.dataset.split.train.is_empty() {
                return Err(Error::Data("these data have no training units to take a mean of".into()));
            }
            let mean = training_mean(&run.dataset);
            for node in &means {
                edit.replaced.insert(names.find_node(node)? as u32, mean.clone());
            }
        }
        let mut settings: Vec<Setting> = Vec::new();
        for (node, feature, value) in &set {
            let node = match (node, target) {
                (Some(node), _) => names.find_node(node)?,
                (None, Target::Node(node)) => node,
                (None, Target::Graph(_)) => {
                    return Err(Error::Config(format!(
                        "of a graph, name the node whose {feature} is set: (node, feature)"
                    )));
                }
            };
            settings.push(Setting::new(run, &names, (node, names.find_group(feature)?), value)?);
        }
        settings.iter().for_each(|setting| setting.apply(&mut edit, run));
        let found = Intervention::of(run, &names, target, &edit, (class_, versus))?;
        let mut object = found.json(run, &names, top);
        object["set"] = settings.iter().map(|setting| setting.as_json(run, &names)).collect::<Vec<_>>().into();
        let unseen = found.unseen.iter().map(|&node| names.node_text(node as usize));
        object["unseen"] = json!(unseen.collect::<Vec<_>>());
        Ok(object)
    })
}

impl Model {
    /// Works with the model and data, and gives the answer as text.
    fn answer(
        &self,
        py: Python<'_>,
        data: Option<&Data>,
        work: impl FnOnce(&Held, &Watch<'_>) -> Result<Value> + Send,
    ) -> PyResult<String> {
        self.text(py, data, |watch| work(&*self.on(data)?, watch))
    }

    fn text(
        &self,
        py: Python<'_>,
        data: Option<&Data>,
        work: impl FnOnce(&Watch<'_>) -> Result<Value> + Send,
    ) -> PyResult<String> {
        let _still = self.still(py, data)?;
        work::run(py, self.saved().config.run.threads, None, |stop, _| {
            Ok(work(&Watch::new(&|_| (), stop.clone()))?.to_string())
        })
    }
}

/// What terms are added up by.
fn keys(words: &[String]) -> Result<By> {
    let mut by = By { feature: false, node: false, hop: false };
    for word in words {
        match word.as_str() {
            "feature" => by.feature = true,
            "node" => by.node = true,
            "hop" => by.hop = true,
            _ => return Err(Error::Config(format!("by has `{word}`: expected feature, node or hop"))),
        }
    }
    Ok(by)
}

/// Nodes by name or number, or graphs by number.
fn targets(run: &TrainedRun, names: &Names<'_>, units: &[String]) -> Result<Vec<Target>> {
    if run.dataset.level == Level::Node {
        return Ok(names.find_nodes(units)?.into_iter().map(Target::Node).collect());
    }
    let graph = |unit: &String| {
        let number = unit.parse::<usize>().ok().filter(|&number| number < run.dataset.graphs());
        number.map(Target::Graph).ok_or_else(|| {
            Error::Config(format!("there is no graph `{unit}`; graphs are 0 to {}", run.dataset.graphs() - 1))
        })
    };
    units.iter().map(graph).collect()
}

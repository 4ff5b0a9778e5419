//! A trained model as a thing of its own: every number of its sum, in JSON or inside a program that needs nothing of this one.
//!
//! Responses are their knots, or what they make of cosines, over what the model reads (`scaling` says how that comes from the data); hop
//! weights, readout and intercept have calibration in them. Nothing of the data of training is in it but names, values of categories and medians.

mod onnx;
mod sql;

pub use onnx::to_onnx;
pub use sql::to_sql;

use crate::architecture::{Form, Spread, Waves};
use crate::explain::{Shape, Units};
use crate::model::FittedModel;
use crate::runs::SavedModel;
use harmonia_graph::dataset::MISSING;
use harmonia_graph::error::{Error, Result};
use serde_json::{Value, json};

/// What an exported model says it is.
const FORMAT: &str = "harmonia-model";
/// Of the keys below; readers refuse others.
const VERSION: u32 = 1;
/// Of models whose responses are not lines, or reach others than by walks: `waves`, `spread` and `pairs` say more.
const WIDER: u32 = 2;

/// Every number of a model.
///
/// # Errors
/// Its responses are of no form that could be listed.
pub fn to_json(saved: &SavedModel) -> Result<Value> {
    let SavedModel { metadata, model, factors, .. } = saved;
    let (d, outputs) = (factors.features(), factors.outputs());
    let mut all = header(saved);
    let numbers = json!({
        "walk": model.walk,
        "structure": model.structure.as_ref().map(with_kept),
        "scaling": model.scaling,
        "names": metadata.feature_names,
        "responses": responses(saved)?,
        "hop_weights": factors.hop_weights.chunks(d).collect::<Vec<_>>(),
        "weights": factors.weight.chunks(outputs).collect::<Vec<_>>(),
        "bias": factors.bias,
    });
    if let (Value::Object(all), Value::Object(numbers), Value::Object(more)) = (&mut all, numbers, wider(model)) {
        all.extend(numbers.into_iter().chain(more));
    }
    Ok(all)
}

/// f_k of every feature.
fn responses(saved: &SavedModel) -> Result<Vec<Value>> {
    let SavedModel { model, factors, .. } = saved;
    let layout = &model.layout;
    if layout.architecture.form() == Form::Fourier {
        let coefficients = wide(&model.parameters[layout.coefficients.clone()]);
        let of_feature = coefficients.chunks_exact(layout.architecture.bases);
        return Ok(of_feature.map(|coefficients| json!({ "coefficients": coefficients })).collect());
    }
    let shapes: Vec<Shape> = (0..factors.features()).map(|k| Shape::of(factors, k)).collect();
    if shapes.iter().any(|shape| !shape.exact) {
        return Err(Error::Data("a model of smooth curves has no finite list of numbers to export".into()));
    }
    let lines = |shape: &Shape| json!({ "knots": shape.knots, "left_slope": shape.left_slope, "right_slope": shape.right_slope });
    Ok(shapes.iter().map(lines).collect())
}

/// What there is to say of a model that is not one of lines and walks; empty where it is.
fn wider(model: &FittedModel) -> Value {
    let architecture = &model.layout.architecture;
    let mut more = json!({});
    if architecture.form() == Form::Fourier {
        let Waves { frequencies, phases, height } = Waves::of(architecture);
        more["waves"] = json!({ "frequencies": frequencies, "phases": phases, "height": height });
    }
    match architecture.spread() {
        Spread::Walks | Spread::Itself => {}
        Spread::Shells => more["spread"] = json!("distances"),
        Spread::Filter => more["spread"] = json!("laplacian"),
        Spread::Pairs => {
            let (network, lengths) = (wide(&model.parameters[model.layout.structure()]), architecture.family.reach + 1);
            let (weights, biases) = network.split_at(network.len() / (lengths + 1) * lengths);
            more["spread"] = json!("pairs");
            more["pairs"] = json!({ "weights": weights.chunks_exact(lengths).collect::<Vec<_>>(), "biases": biases });
        }
    }
    more
}

/// Digits of f64, so that nothing is rounded again.
fn wide(parameters: &[f32]) -> Vec<f64> {
    parameters.iter().map(|&value| f64::from(value)).collect()
}

/// Refuses kinds of models that a form has no words for.
fn check_kind(saved: &SavedModel) -> Result<()> {
    let architecture = &saved.model.layout.architecture;
    match architecture.walks_by_feature() {
        true => Ok(()),
        false => Err(Error::Data(format!(
            "a model of kind {} cannot be written in this form, only those of kind harmonia, nbm and nam; export python does",
            architecture.family.kind.name()
        ))),
    }
}

/// What a model is of: what it reads and what it tells apart, without its numbers.
fn header(saved: &SavedModel) -> Value {
    let SavedModel { metadata, model, .. } = saved;
    let finite = |median: f32| median.is_finite().then_some(median);
    let table = metadata.table().columns.into_iter().map(|column| {
        json!({
            "name": column.name, "kind": column.kind, "values": column.values, "median": finite(column.median),
            "gaps": column.gaps,
        })
    });
    json!({
        "format": FORMAT,
        "version": if wider(model) == json!({}) { VERSION } else { WIDER },
        "dataset": metadata.dataset,
        "level": metadata.level,
        "objective": model.objective,
        "classes": metadata.class_names,
        "directed": metadata.directed,
        "table": table.collect::<Vec<_>>(),
        "missing": MISSING,
    })
}

/// Every response, over its feature in the units of the data.
///
/// # Errors
/// They are not made of lines, which `form` needs.
fn lines_of(saved: &SavedModel, form: &str) -> Result<Vec<Shape>> {
    check_kind(saved)?;
    let SavedModel { model, factors, .. } = saved;
    let shape = |k: usize| Shape::of(factors, k).in_units(Units::of(model.scaling.as_ref(), k));
    let shapes: Vec<Shape> = (0..factors.features()).map(shape).collect();
    match shapes.iter().all(|shape| shape.exact) {
        true => Ok(shapes),
        false => Err(Error::Data(format!("a model whose responses are smooth curves cannot be written as {form}"))),
    }
}

/// Structural columns; the list of those by degree is there even where it is empty.
fn with_kept(structure: &harmonia_graph::dataset::Structure) -> Value {
    let mut object = json!(structure);
    if object.get("kept").is_none() {
        object["kept"] = json!([]);
    }
    object
}

/// A program of one file that scores new data, with numpy and scipy alone.
///
/// # Errors
/// As [`to_json`].
pub fn to_python(saved: &SavedModel) -> Result<String> {
    let text = to_json(saved)?.to_string();
    // A JSON string is a string of Python too.
    let quoted = Value::String(text).to_string();
    Ok(include_str!("score.py").replacen("\"@MODEL@\"", &quoted, 1))
}

//! A trained model as a thing of its own: every number of its sum, in JSON or inside a program that needs nothing of this one.
//!
//! Responses are their knots, over what the model reads (`scaling` says how that comes from the data); hop weights, readout and
//! intercept have calibration in them. Nothing of the data of training is in it but names, values of categories and medians.

mod onnx;
mod sql;

pub use onnx::to_onnx;
pub use sql::to_sql;

use crate::explain::{Shape, Units};
use crate::runs::SavedModel;
use harmonia_graph::dataset::MISSING;
use harmonia_graph::error::{Error, Result};
use serde_json::{Value, json};

/// What an exported model says it is.
const FORMAT: &str = "harmonia-model";
/// Of the keys below; readers refuse others.
const VERSION: u32 = 1;

/// Every number of a model.
///
/// # Errors
/// Its responses are not made of lines.
pub fn to_json(saved: &SavedModel) -> Result<Value> {
    let SavedModel { metadata, model, factors, .. } = saved;
    check_kind(saved)?;
    let (d, outputs) = (factors.features(), factors.outputs());
    let shapes: Vec<Shape> = (0..d).map(|k| Shape::of(factors, k)).collect();
    if shapes.iter().any(|shape| !shape.exact) {
        return Err(Error::Data(
            "a model whose responses are smooth curves has no finite list of numbers to export".into(),
        ));
    }
    let mut all = header(saved);
    let numbers = json!({
        "walk": model.walk,
        "structure": model.structure.as_ref().map(with_kept),
        "scaling": model.scaling,
        "names": metadata.feature_names,
        "responses": shapes.iter().map(|shape| json!({
            "knots": shape.knots, "left_slope": shape.left_slope, "right_slope": shape.right_slope,
        })).collect::<Vec<_>>(),
        "hop_weights": factors.hop_weights.chunks(d).collect::<Vec<_>>(),
        "weights": factors.weight.chunks(outputs).collect::<Vec<_>>(),
        "bias": factors.bias,
    });
    if let (Value::Object(all), Value::Object(numbers)) = (&mut all, numbers) {
        all.extend(numbers);
    }
    Ok(all)
}

/// Refuses kinds of models that exported forms have no words for.
fn check_kind(saved: &SavedModel) -> Result<()> {
    let architecture = &saved.model.layout.architecture;
    match architecture.walks_by_feature() {
        true => Ok(()),
        false => Err(Error::Data(format!(
            "a model of kind {} cannot be exported; those of kind harmonia, nbm and nam can",
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
        "version": VERSION,
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

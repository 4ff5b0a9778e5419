//! A trained model as a thing of its own: every number of its sum, in JSON or inside a program that needs nothing of this one.
//!
//! Responses are their knots, over what the model reads (`scaling` says how that comes from the data); hop weights, readout and
//! intercept have calibration in them. Nothing of the data of training is in it but names, values of categories and medians.

mod sql;

pub use sql::to_sql;

use crate::explain::Shape;
use crate::runs::SavedModel;
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
    let (d, outputs) = (factors.features(), factors.outputs());
    let shapes: Vec<Shape> = (0..d).map(|k| Shape::of(factors, k)).collect();
    if shapes.iter().any(|shape| !shape.exact) {
        return Err(Error::Data(
            "a model whose responses are smooth curves has no finite list of numbers to export".into(),
        ));
    }
    let finite = |median: f32| median.is_finite().then_some(median);
    let table = metadata.table().columns.into_iter().map(|column| {
        json!({
            "name": column.name, "kind": column.kind, "values": column.values, "median": finite(column.median),
            "gaps": column.gaps,
        })
    });
    Ok(json!({
        "format": FORMAT,
        "version": VERSION,
        "dataset": metadata.dataset,
        "level": metadata.level,
        "objective": model.objective,
        "classes": metadata.class_names,
        "walk": model.walk,
        "directed": metadata.directed,
        "table": table.collect::<Vec<_>>(),
        "structure": model.structure.as_ref().map(with_kept),
        "scaling": model.scaling,
        "names": metadata.feature_names,
        "responses": shapes.iter().map(|shape| json!({
            "knots": shape.knots, "left_slope": shape.left_slope, "right_slope": shape.right_slope,
        })).collect::<Vec<_>>(),
        "hop_weights": factors.hop_weights.chunks(d).collect::<Vec<_>>(),
        "weights": factors.weight.chunks(outputs).collect::<Vec<_>>(),
        "bias": factors.bias,
    }))
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

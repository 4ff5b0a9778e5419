//! Features by themselves: knots, and effects of values.

use crate::explain::{FeatureShape, ValueEffect};
use serde_json::{Map, Value, json};

/// One feature as it is shown.
pub struct NamedShape {
    /// What people call it.
    pub name: String,
    /// Its curve, or the effects of its values.
    pub shape: FeatureShape,
}

/// Features as `shapes --json` prints them; `runs`: how many models stand behind bands.
pub fn shapes_json(dataset: &str, curves: &[NamedShape], outputs: &[String], runs: usize) -> Value {
    json!({
        "dataset": dataset, "runs": runs, "classes": outputs,
        "features": curves.iter().map(|curve| feature_json(curve, outputs)).collect::<Vec<_>>(),
    })
}

/// One of them.
pub fn feature_json(NamedShape { name, shape }: &NamedShape, outputs: &[String]) -> Value {
    let by_class = |values: &[f64]| -> Value {
        outputs.iter().cloned().zip(values).map(|(name, value)| (name, json!(value))).collect::<Map<_, _>>().into()
    };
    let mut object = json!({ "feature": name, "feature_index": shape.columns.start });
    if let Some(curve) = &shape.curve {
        let known = shape.distribution.as_ref();
        if let Some(unit) = shape.unit {
            object["unit"] = json!(unit);
        }
        object["knots"] = json!(curve.knots);
        object["left_slope"] = json!(curve.left_slope);
        object["right_slope"] = json!(curve.right_slope);
        object["centre"] = json!(shape.centre);
        object["range"] = json!(known.map(|known| known.range));
        object["density"] = json!(known.map(|known| json!({ "edges": known.edges(), "counts": known.counts })));
        object["weight_by_class"] = by_class(&shape.readout);
        object["effect_by_class"] = by_class(&shape.weights);
        let ways = outputs.iter().enumerate().map(|(output, name)| (name.clone(), json!(shape.direction(output))));
        object["direction_by_class"] = ways.collect::<Map<_, _>>().into();
        object["bands"] = json!(shape.bands.as_ref().map(|(x, bands)| json!({
            "x": x,
            "by_class": outputs.iter().cloned().zip(bands).map(|(name, band)| (name, json!(band))).collect::<Map<_, _>>(),
        })));
        if !curve.exact {
            object["sampled"] = json!(true);
        }
    }
    let value = |value: &ValueEffect| {
        let mut entry = json!({ "value": value.name, "nodes": value.count, "adds_by_class": by_class(&value.effects) });
        if !value.spread.is_empty() {
            let spread = outputs.iter().cloned().zip(&value.spread).map(|(name, ends)| (name, json!(ends)));
            entry["spread_by_class"] = spread.collect::<Map<_, _>>().into();
        }
        entry
    };
    if shape.is_by_value() {
        object["values"] = shape.values.iter().filter(|value| !value.missing).map(value).collect::<Vec<_>>().into();
    }
    if let Some(missing) = shape.values.iter().find(|value| value.missing) {
        object["missing"] = value(missing);
        object["present_by_class"] = by_class(&shape.present);
    }
    object
}

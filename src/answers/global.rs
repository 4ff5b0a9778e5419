//! What a model does over many units.

use crate::diagnose;
use crate::explain::stability::mean_spearman;
use crate::explain::{Distribution, Factors, Importance, experts, ranking};
use crate::model::FittedModel;
use crate::runs::{Names, TrainedRun};
use harmonia_graph::error::Result;
use harmonia_graph::watch::Watch;
use serde_json::{Map, Value, json};
use std::path::Path;

/// What the model does over some units, and what is needed to say it.
pub struct Global<'a> {
    /// Its data.
    pub dataset: &'a str,
    /// The model shown.
    pub model: &'a FittedModel,
    /// The same as the sum it is.
    pub factors: &'a Factors,
    /// What people call its parts.
    pub names: Names<'a>,
    /// Directories of all models, the one shown first.
    pub paths: Vec<&'a Path>,
    /// The part that was measured.
    pub split: &'static str,
    /// What was measured.
    pub importance: &'a Importance,
    /// Importance of the features over all outputs, of each run.
    pub overall: &'a [Vec<f64>],
    /// What not to conclude from hop weights.
    pub warning: Option<String>,
    /// Experts that are nearly the same.
    pub similar: Vec<experts::Similar>,
    /// What was taken off every response: `mean` or `none`.
    pub centre: &'static str,
}

impl<'a> Global<'a> {
    /// What one run does over a part, measured after means were taken off; `overall` is of all runs, this one first.
    ///
    /// # Errors
    /// A stop was asked for.
    pub fn of(
        run: &'a TrainedRun,
        (split, importance): (&'static str, &'a Importance),
        overall: &'a [Vec<f64>],
        watch: &Watch<'_>,
    ) -> Result<Global<'a>> {
        let few = run.factors.hops().min(diagnose::MOST_HOPS);
        let everything: Vec<usize> = (0..run.factors.features()).collect();
        let range = Distribution::joint_range(&Distribution::of(&run.dataset.features, &everything));
        Ok(Global {
            dataset: &run.dataset.name,
            model: &run.model,
            factors: &run.factors,
            names: Names::of(run),
            paths: vec![&run.path],
            split,
            importance,
            overall,
            warning: diagnose::hop_warning(&run.dataset.graph, run.model.walk, few, watch)?,
            similar: experts::near_duplicates(&run.factors, range),
            centre: "mean",
        })
    }

    /// As `explain --global --json` prints it; `most`: features to list, 0 for all.
    pub fn json(&self, most: usize) -> Value {
        let (factors, names) = (self.factors, &self.names);
        let (outputs, term) = (0..factors.outputs(), factors.structure().key());
        let per_output = |value: &dyn Fn(usize) -> f64| -> Map<String, Value> {
            outputs.clone().map(|output| (names.output(output), json!(value(output)))).collect()
        };
        let column = |k: usize| {
            json!({
                "weight_by_class": per_output(&|output| factors.weight[k * factors.outputs() + output]),
                format!("{term}_weights"): (0..factors.hops()).map(|t| factors.theta(t, k)).collect::<Vec<_>>(),
                "gates": factors.monb().map(|_| experts::gates(factors, k)),
            })
        };
        let feature = |&feature: &usize| {
            let columns = factors.groups().columns(feature);
            let mut object = json!({
                "feature": names.group(feature),
                "feature_index": columns.start,
                "importance": self.overall[0][feature],
                "importance_by_class": per_output(&|output| self.importance.of_feature(factors, feature, output)),
                "signed_by_class": per_output(&|output| self.importance.signed_of_feature(factors, feature, output)),
                "importance_by_seed": self.overall.iter().map(|of_run| of_run[feature]).collect::<Vec<_>>(),
            });
            if columns.len() == 1 {
                if let (Value::Object(all), Value::Object(own)) = (&mut object, column(columns.start)) {
                    all.extend(own);
                }
            } else {
                let all = columns.map(|k| {
                    let mut object = column(k);
                    object["column"] = json!(names.feature(k));
                    object["importance"] = json!(per_output(&|output| self.importance.of(factors, k, output)));
                    object
                });
                object["columns"] = all.collect::<Vec<_>>().into();
            }
            object
        };
        let shown = ranking(&self.overall[0]);
        let top = if most == 0 { shown.len() } else { most };
        let used = experts::used_by(factors);
        json!({
            "dataset": self.dataset,
            "split": self.split,
            "units": self.importance.units,
            "centre": self.centre,
            "calibration": self.model.calibration,
            "classes": outputs.clone().map(|output| names.output(output)).collect::<Vec<_>>(),
            "features_total": factors.groups().len(),
            "features": shown.iter().take(top).map(feature).collect::<Vec<_>>(),
            format!("{term}s"): factors.hops(),
            format!("{term}_warning"): self.warning,
            "experts": factors.monb().map(|_| json!({
                "count": used.len(),
                "used_by": used,
                "unused": (0..used.len()).filter(|&expert| used[expert] == 0).collect::<Vec<_>>(),
                "near_duplicates": self.similar,
            })),
            "stability": (self.paths.len() > 1).then(|| json!({
                "runs": self.paths.iter().map(|path| path.display().to_string()).collect::<Vec<_>>(),
                "mean_pairwise_spearman": mean_spearman(self.overall),
            })),
        })
    }
}

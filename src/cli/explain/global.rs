//! What the model does over many units.

use super::{Arguments, calibrated};
use crate::cli::reading::{number, short, table};
use crate::cli::{say, signals, voice};
use crate::diagnose;
use crate::explain::stability::mean_spearman;
use crate::explain::{Distribution, Importance, experts, ranking};
use crate::runs::{Names, TrainedRun};
use harmonia_graph::error::{Error, Result};
use harmonia_graph::watch::{Report, Watch};
use serde_json::{Map, Value, json};

pub fn run(arguments: &Arguments) -> Result<()> {
    let runs = match &arguments.data {
        Some(_) => vec![arguments.opened()?],
        None => arguments.run.all()?,
    };
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
        let importance = Importance::measure(&run.model, &run.factors, &run.dataset, &units, &centre, &watch)?;
        measured.push((run, importance));
    }
    let (run, importance) = &measured[0];
    let overall: Vec<Vec<f64>> =
        measured.iter().map(|(run, importance)| importance.of_features(&run.factors)).collect();
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
    /// Importance of the features over all outputs, of each run.
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
        let top = if self.arguments.top == 0 { shown.len() } else { self.arguments.top };
        let used = experts::used_by(factors);
        json!({
            "dataset": run.dataset.name,
            "split": self.arguments.split.name(),
            "units": self.importance.units,
            "centre": self.arguments.centre.name(),
            "calibration": run.model.calibration,
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
            "{}: importance = mean |contribution| over {} {}s ({})\n{}\n",
            run.dataset.name,
            self.importance.units,
            names.unit(),
            self.arguments.split.name(),
            calibrated(run)
        );
        let shown = ranking(&self.overall[0]);
        let top = if self.arguments.top == 0 { shown.len() } else { self.arguments.top.min(shown.len()) };
        let strongest = |k: usize| {
            let of = |output: usize| self.importance.of_feature(factors, k, output);
            (0..factors.outputs()).fold(0, |best, output| if of(output) > of(best) { output } else { best })
        };
        let mut rows = vec![["feature", "most for", "importance", "signed, for it"].map(String::from).to_vec()];
        // More would not fit a screen; JSON has all.
        let hops = if factors.hops() <= 12 { factors.hops() } else { 0 };
        rows[0].extend((0..hops).map(|t| factors.structure().name(t)));
        rows[0].extend(factors.monb().map(|_| "experts (gates)".into()));
        for &feature in &shown[..top] {
            let output = strongest(feature);
            let mut row = vec![
                short(&names.group(feature)),
                short(&names.output(output)),
                number(self.overall[0][feature]),
                format!("{:+.4}", self.importance.signed_of_feature(factors, feature, output)),
            ];
            // Of several columns, those of the one that matters most stand here.
            let columns = factors.groups().columns(feature);
            let of = |k: usize| self.importance.of(factors, k, output);
            let k = columns.clone().fold(columns.start, |best, k| if of(k) > of(best) { k } else { best });
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

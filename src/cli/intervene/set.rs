//! `--set [NODE:]FEATURE=VALUE`: a feature of one node with another value, read in the units of the data.

use crate::cli::reading::{number, short};
use crate::cli::voice;
use crate::explain::{Distribution, Edit, Target, Units};
use crate::runs::{Names, TrainedRun};
use harmonia_graph::dataset::Scaling;
use harmonia_graph::error::{Error, Result};
use serde_json::{Value, json};

/// One value of one node.
pub struct Setting {
    node: usize,
    feature: usize,
    /// In the units of the data.
    before: f64,
    after: f64,
}

/// What the flags ask for, checked: every value at most once.
pub fn settings(flags: &[String], run: &TrainedRun, names: &Names<'_>, target: Target) -> Result<Vec<Setting>> {
    let mut all: Vec<Setting> = Vec::new();
    for flag in flags {
        let (node, feature, after) = parsed(flag, names, target)?;
        if all.iter().any(|known| (known.node, known.feature) == (node, feature)) {
            let (name, node) = (names.feature(feature), names.node_text(node));
            return Err(Error::Config(format!("--set {flag}: {name} of node {node} is set twice")));
        }
        let units = Units::of(run.model.scaling.as_ref(), feature);
        if !(units.read(after) as f32).is_finite() {
            return Err(Error::Config(format!("--set {flag}: the value is too large for single precision")));
        }
        let mut row = vec![0f32; run.dataset.features.cols];
        run.dataset.features.fill_row(node, &mut row);
        let before = units.own(f64::from(row[feature]));
        let known = Distribution::of(&run.dataset.features, &[feature]);
        let [low, high] = known[0].range.map(|x| units.own(x));
        // Rounding must not put a value outside that is an end.
        let slack = 1e-5 * (high - low).abs().max(low.abs()).max(high.abs());
        if after < low - slack || after > high + slack {
            voice::note(format_args!(
                "{} = {after} lies outside of the data, {} to {}: there the response goes on along its last slope",
                names.feature(feature),
                number(low),
                number(high)
            ));
        }
        all.push(Setting { node, feature, before, after });
    }
    if matches!(run.model.scaling, Some(Scaling::Rows)) && !all.is_empty() {
        voice::note(
            "features of a node are divided by their sum (data.normalise = row): --set gives the divided value, and the others \
             stay as they are",
        );
    }
    Ok(all)
}

/// Names may hold `=` and `:`: the splits that leave a feature, and where there is one a node, are taken.
fn parsed(flag: &str, names: &Names<'_>, target: Target) -> Result<(usize, usize, f64)> {
    let Some((left, value)) = flag.rsplit_once('=') else {
        return Err(Error::Config(format!("--set {flag}: expected FEATURE=VALUE or NODE:FEATURE=VALUE, as in age=50")));
    };
    let value: f64 = value.trim().parse().ok().filter(|value: &f64| value.is_finite()).ok_or_else(|| {
        Error::Config(format!(
            "--set {flag}: `{}` is not a number; give the value in the units of the data",
            value.trim()
        ))
    })?;
    let left = left.trim();
    let own = match target {
        Target::Node(node) => names.find_feature(left).map(|feature| (node, feature)),
        Target::Graph(_) => {
            Err(Error::Config(format!("--set {flag}: of a graph, name the node too: NODE:FEATURE=VALUE")))
        }
    };
    let wrong = match own {
        Ok((node, feature)) => return Ok((node, feature, value)),
        Err(error) => error,
    };
    let mut closest = None;
    for (at, _) in left.match_indices(':') {
        match (names.find_node(left[..at].trim()), names.find_feature(left[at + 1..].trim())) {
            (Ok(node), Ok(feature)) => return Ok((node, feature, value)),
            // Where one half is known, the other says what is wrong with it.
            (Ok(_), Err(error)) | (Err(error), Ok(_)) => closest = closest.or(Some(error)),
            _ => {}
        }
    }
    Err(closest.unwrap_or(wrong))
}

impl Setting {
    /// Lays it over what is changed already.
    pub fn apply(&self, edit: &mut Edit, run: &TrainedRun) {
        let row = edit.replaced.entry(self.node as u32).or_insert_with(|| {
            let mut row = vec![0f32; run.dataset.features.cols];
            run.dataset.features.fill_row(self.node, &mut row);
            row
        });
        row[self.feature] = Units::of(run.model.scaling.as_ref(), self.feature).read(self.after) as f32;
    }

    /// For people.
    pub fn text(&self, names: &Names<'_>) -> String {
        let (feature, node) = (short(&names.feature(self.feature)), names.node_text(self.node));
        format!("{feature} of node {node} = {} (was {})", number(self.after), number(self.before))
    }

    pub fn as_json(&self, names: &Names<'_>) -> Value {
        json!({
            "node": names.node_text(self.node), "feature": names.feature(self.feature), "feature_index": self.feature,
            "before": self.before, "after": self.after,
        })
    }
}

//! Which predictions the page explains where nobody names any: those that say most about the model.

use crate::model::FittedModel;
use crate::runs::{Names, TrainedRun};
use harmonia_graph::dataset::Dataset;
use harmonia_graph::error::Result;

/// Three predictions worth a look: the surest right one, the surest mistake, and the one least sure.
pub(super) fn telling(run: &TrainedRun, units: &[u32]) -> Result<Vec<(usize, &'static str)>> {
    let names = Names::of(run);
    // Features are as the model sees them already.
    let logits = FittedModel { scaling: None, ..run.model.clone() }.logits(&run.dataset)?;
    let outputs = run.factors.outputs();
    let first = || units.first().map(|&unit| (unit as usize, "the first of its part")).into_iter().collect();
    if names.is_regression() {
        let fits = run.model.objective.fits(&run.dataset.labels) && run.dataset.labels.outputs() == outputs;
        let chosen = if fits { by_error(&run.dataset, units, &logits) } else { Vec::new() };
        return Ok(if chosen.is_empty() { first() } else { chosen });
    }
    if !run.dataset.labels.is_classes() {
        return Ok(first());
    }
    // (how sure, unit)
    type Best = Option<(f64, usize)>;
    let (mut right, mut wrong, mut unsure): (Best, Best, Best) = (None, None, None);
    for &unit in units {
        let unit = unit as usize;
        let row: Vec<f64> = logits[unit * outputs..][..outputs].iter().map(|&logit| f64::from(logit)).collect();
        let sure = names.probabilities(&row).into_iter().fold(0.0, f64::max);
        let better = |best: &Best, value: f64| best.is_none_or(|(most, _)| value > most);
        let side = match names.truth(unit) {
            Some(truth) if truth == names.predicted(&row) => Some(&mut right),
            Some(_) => Some(&mut wrong),
            None => None,
        };
        if let Some(side) = side.filter(|side| better(side, sure)) {
            *side = Some((sure, unit));
        }
        if better(&unsure, -sure) {
            unsure = Some((-sure, unit));
        }
    }
    let mut chosen: Vec<(usize, &'static str)> = Vec::new();
    let all = [(right, "the surest right answer"), (wrong, "the surest mistake"), (unsure, "the least sure answer")];
    for (best, reason) in all {
        if let Some((_, unit)) = best
            && !chosen.iter().any(|(known, _)| *known == unit)
        {
            chosen.push((unit, reason));
        }
    }
    Ok(chosen)
}

/// The smallest and the largest error of a regression.
fn by_error(dataset: &Dataset, units: &[u32], values: &[f32]) -> Vec<(usize, &'static str)> {
    let outputs = dataset.labels.outputs();
    let error = |&unit: &u32| {
        let truth = dataset.labels.values(unit as usize);
        values[unit as usize * outputs..][..outputs]
            .iter()
            .zip(truth)
            .map(|(a, b)| f64::from((a - b).abs()))
            .sum::<f64>()
    };
    let known = || units.iter().filter(|&&unit| dataset.labels.is_labelled(unit as usize));
    let least = known().min_by(|a, b| error(a).total_cmp(&error(b)));
    let most = known().max_by(|a, b| error(a).total_cmp(&error(b))).filter(|&unit| Some(unit) != least);
    let chosen = [(least, "the smallest error"), (most, "the largest error")];
    chosen.into_iter().filter_map(|(unit, reason)| unit.map(|&unit| (unit as usize, reason))).collect()
}

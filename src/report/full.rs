//! The whole page of a run: importance, single predictions, diagnostics and other seeds, beside what training knew.

use super::data::{Band, Bands, Data, Feature, ImportanceAbout, NearDuplicate, Stability};
use super::diagnostics::diagnostics;
use super::local::local;
use super::run::{MOST_FEATURES, Trained, of_run};
use super::telling::telling;
use crate::diagnose;
use crate::explain::stability::{self, Compared, mean_spearman};
use crate::explain::{Distribution, Importance, experts, ranking};
use crate::runs::TrainedRun;
use harmonia_graph::dataset::Level;
use harmonia_graph::error::{Error, Result};
use harmonia_graph::watch::Watch;

/// What a page is to show.
pub struct Request<'a> {
    /// The run, and the same settings with other seeds; the first is the one shown.
    pub runs: &'a [TrainedRun],
    /// Units to explain; none: a few that say something.
    pub units: &'a [usize],
    /// Whether to diagnose the graph.
    pub diagnose: bool,
    /// Hears what is being done, and may stop it.
    pub watch: &'a Watch<'a>,
}

/// Everything the page of a run can show.
///
/// # Errors
/// The run is not complete, a unit does not exist, or the user asked to stop.
pub fn full(request: &Request<'_>) -> Result<Data> {
    let run = &request.runs[0];
    let Some(summary) = &run.summary else {
        return Err(Error::file(&run.path, "is not complete: continue it with harmonia-train --resume"));
    };
    let (history, centres) = (run.history()?, run.centres()?);
    let trained = Trained {
        dataset: &run.dataset,
        config: &run.config,
        objective: run.model.objective,
        summary,
        history: &history,
        scaling: run.model.scaling.as_ref(),
        factors: &run.factors,
        centres: &centres,
    };
    let mut data = of_run(&trained)?;
    request.watch.step("importance of features");
    let measured = Measured::of(request)?;
    let shown: Vec<usize> = ranking(&measured.overall[0]).into_iter().take(MOST_FEATURES).collect();
    let everything: Vec<usize> = (0..run.factors.features()).collect();
    let distributions = Distribution::of(&run.dataset.features, &everything);
    data.features = measured.features(&trained, &shown, &distributions);
    let (part, units) = units_of(run);
    let unit = if run.dataset.level == Level::Node { "nodes" } else { "graphs" };
    data.features_order = format!("mean absolute contribution on the {part} {unit}");
    data.importance_about = Some(ImportanceAbout {
        split: part.into(),
        units: units.len(),
        text: format!(
            "Importance is the mean size of what a feature adds to a {}, its response centred at its mean; no label is used.",
            if run.model.objective.is_regression() { "prediction" } else { "logit" }
        ),
    });
    if let Some(experts) = &mut data.experts {
        let range = Distribution::joint_range(&distributions);
        experts.near_duplicates = (experts::near_duplicates(&run.factors, range).into_iter())
            .map(|pair| NearDuplicate { a: pair.a, b: pair.b, similarity: pair.similarity })
            .collect();
    }
    data.stability = measured.stability(&shown);
    request.watch.step("single predictions");
    let chosen: Vec<(usize, Option<String>)> = match request.units.is_empty() {
        false => request.units.iter().map(|&unit| (unit, None)).collect(),
        true => telling(run, &units)?.into_iter().map(|(unit, reason)| (unit, Some(reason.to_string()))).collect(),
    };
    for (unit, reason) in chosen {
        data.locals.push(local(run, unit, reason, &centres)?);
    }
    if request.diagnose {
        diagnose_graph(&mut data, run, request.watch)?;
    }
    Ok(data)
}

/// Units importance is measured on: those of the test, or where there are none, all.
fn units_of(run: &TrainedRun) -> (&'static str, Vec<u32>) {
    match run.dataset.split.test.is_empty() {
        false => ("test", run.dataset.split.test.clone()),
        true => ("all", (0..run.dataset.units() as u32).collect()),
    }
}

/// Importance of every feature in every run; the first run is the one shown.
struct Measured<'a> {
    runs: &'a [TrainedRun],
    /// Mean response of each feature, per run.
    centres: Vec<Vec<f64>>,
    importance: Vec<Importance>,
    /// Over all outputs, runs x features.
    overall: Vec<Vec<f64>>,
}

impl<'a> Measured<'a> {
    fn of(request: &Request<'a>) -> Result<Self> {
        let runs = request.runs;
        let centres: Vec<Vec<f64>> = runs.iter().map(TrainedRun::centres).collect::<Result<_>>()?;
        let importance: Vec<Importance> = (runs.iter().zip(&centres))
            .map(|(run, centres)| {
                Importance::measure(&run.model, &run.factors, &run.dataset, &units_of(run).1, centres, request.watch)
            })
            .collect::<Result<_>>()?;
        let overall = runs.iter().zip(&importance).map(|(run, of_run)| of_run.overall(&run.factors)).collect();
        Ok(Measured { runs, centres, importance, overall })
    }

    /// The features shown, with their spread over seeds where there are several.
    fn features(&self, trained: &Trained<'_>, shown: &[usize], distributions: &[Distribution]) -> Vec<Feature> {
        let (factors, importance) = (&self.runs[0].factors, &self.importance[0]);
        let outputs = 0..factors.outputs();
        let compared: Vec<Compared<'_>> =
            (self.runs.iter().zip(&self.centres)).map(|(run, centres)| run.compared(centres)).collect();
        let feature = |&k: &usize| {
            let mut feature = trained.feature(k, &distributions[k]);
            feature.importance = Some(outputs.clone().map(|o| importance.of(factors, k, o)).collect());
            feature.signed = Some(outputs.clone().map(|o| importance.signed(factors, k, o)).collect());
            feature.overall = Some(self.overall[0][k]);
            if let (Some(shape), true) = (&mut feature.shape, self.runs.len() > 1) {
                shape.bands = Some(bands(&compared, k, shape.range));
            }
            feature
        };
        shown.iter().map(feature).collect()
    }

    /// How importance agrees between seeds. Folds differ by their data: that is another question.
    fn stability(&self, shown: &[usize]) -> Option<Stability> {
        let seeds = self.runs.len() > 1 && self.runs.iter().all(|run| run.metadata.fold.is_none());
        seeds.then(|| Stability {
            seeds: self.runs.iter().map(|run| run.config.run.seed).collect(),
            spearman: mean_spearman(&self.overall),
            importance: self.overall.iter().map(|of_run| shown.iter().map(|&k| of_run[k]).collect()).collect(),
        })
    }
}

fn bands(compared: &[Compared<'_>], k: usize, range: [f64; 2]) -> Bands {
    let (x, bands) = stability::bands(compared, k, range);
    let band = |stability::Band { mean, low, high }| {
        let [mean, low, high] = [mean, low, high].map(|values: Vec<f64>| values.into_iter().map(drawn).collect());
        Band { mean, low, high }
    };
    Bands { x, outputs: bands.into_iter().map(band).collect() }
}

/// A number that is only drawn: six digits, so that pages stay light.
fn drawn(value: f64) -> f64 {
    format!("{value:.5e}").parse().unwrap_or(value)
}

/// The section on the graph, and what it says about hop weights.
fn diagnose_graph(data: &mut Data, run: &TrainedRun, watch: &Watch<'_>) -> Result<()> {
    let (hops, most) = (run.factors.hops(), diagnose::MOST_HOPS);
    if hops > most {
        data.summary.notes.push(format!("The graph was not diagnosed: that takes at most {most} walk lengths."));
        return Ok(());
    }
    let options = diagnose::Options { hops, ..diagnose::Options::default() };
    let diagnosis = diagnose::diagnose(&run.dataset.graph, run.model.walk, &options, watch)?;
    if let Some(hops) = &mut data.hops {
        hops.warning = diagnosis.conditioning.warning();
        hops.gamma = diagnosis.conditioning.gamma.map(|gamma| gamma.value);
    }
    data.diagnostics = Some(diagnostics(&diagnosis));
    Ok(())
}

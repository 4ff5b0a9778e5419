//! The whole page of a run: beside what is known without its graph, single predictions and diagnostics, where the data are there.

use super::data::Data;
use super::diagnostics::diagnostics;
use super::local::local;
use super::run::{Member, Trained, of_run};
use super::telling::telling;
use crate::diagnose;
use crate::runs::{ReadModel, TrainedRun, measured_units, read_history};
use harmonia_graph::dataset::Level;
use harmonia_graph::error::{Error, Result};
use harmonia_graph::watch::Watch;

/// What a page is to show.
pub struct Request<'a> {
    /// The model, and the same settings with other seeds; the first is the one shown.
    pub models: &'a [ReadModel],
    /// The first with its data, or with others; none where they are not there.
    pub run: Option<&'a TrainedRun>,
    /// Whether these are others than those of training.
    pub other: bool,
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
    let model = &request.models[0];
    let Some(summary) = &model.summary else {
        return Err(Error::file(&model.path, "is not complete: continue it with harmonia-train --resume"));
    };
    let members: Vec<Member<'_>> = request.models.iter().map(member).collect();
    let history = read_history(&model.path)?;
    let mut data = of_run(&Trained { config: &model.saved.config, summary, history: &history, members: &members })?;
    let Some(run) = request.run else {
        data.absent = Some(format!(
            "The data of training ({}) are not there: nothing can be said about single {}s and about the graph. Everything else on this \
             page is from the run itself.",
            model.saved.config.data.dataset,
            if model.saved.metadata.level.is_some_and(|level| level == Level::Graph) { "graph" } else { "node" }
        ));
        return Ok(data);
    };
    if request.other {
        data.summary.notes.push(format!(
            "Scores and learning curves are those of training, on {}; everything else was measured on {}.",
            data.summary.dataset, run.dataset.name
        ));
        data.summary.dataset.clone_from(&run.dataset.name);
        let parts = data.summary.scores.iter_mut().chain(&mut data.summary.baselines);
        parts.for_each(|part| part.units = None);
    }
    request.watch.step("single predictions");
    let chosen: Vec<(usize, Option<String>)> = match request.units.is_empty() {
        false => request.units.iter().map(|&unit| (unit, None)).collect(),
        true => {
            let (_, units) = measured_units(&run.dataset);
            telling(run, &units)?.into_iter().map(|(unit, reason)| (unit, Some(reason.to_string()))).collect()
        }
    };
    for (unit, reason) in chosen {
        data.locals.push(local(run, unit, reason, &model.centres)?);
    }
    if request.diagnose {
        diagnose_graph(&mut data, run, request.watch)?;
    }
    Ok(data)
}

fn member(read: &ReadModel) -> Member<'_> {
    Member { metadata: &read.saved.metadata, model: read.compared(), measured: read.measured.as_ref() }
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

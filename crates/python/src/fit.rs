//! Training: settings in layers as on the command line, one run kept in memory.

use crate::data::Data;
use crate::errors::OrRaise;
use crate::lent::{Still, fingerprint};
use crate::model::Model;
use crate::work::{self, Teller};
use harmonia::config::Config;
use harmonia::device::Machine;
use harmonia::on_machine;
use harmonia::runs::RunSummary;
use harmonia::session::{Kept, Observer, Session};
use harmonia::settings::{Layers, merged, own, to_toml};
use harmonia::train::{EpochRecord, Prepared, RunName, structured};
use harmonia_graph::dataset::Dataset;
use harmonia_graph::error::Result;
use harmonia_graph::stop::Stop;
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;

/// What the user says about settings.
struct Said<'a> {
    preset: Option<&'a str>,
    recipe: Option<&'a str>,
    /// `section.key=value`, as `--set` has it.
    set: &'a [String],
}

impl Said<'_> {
    /// Settings for data, before or after the preset `own` has looked at them.
    fn merged(&self, data: &Data, chosen: Option<&own::Choice>) -> Result<Config> {
        let over = |layers: &mut Layers| {
            let (name, directory) = data.named.clone().unwrap_or_else(|| (data.whole.name.clone(), String::new()));
            layers.value("data.dataset", name, "data")?;
            layers.value("data.dir", directory, "data")?;
            self.set.iter().try_for_each(|assignment| layers.set(assignment))
        };
        merged(self.preset, self.recipe, (Some(own::NAME), chosen), &over)?.finish()
    }

    /// Settings for data, and what the preset `own` chose, where it did.
    fn config(&self, data: &Data) -> Result<(Config, Vec<String>)> {
        let config = self.merged(data, None)?;
        if config.preset != own::NAME {
            return Ok((config, Vec::new()));
        }
        let choice = own::choose(&data.whole, &config)?;
        Ok((self.merged(data, Some(&choice))?, choice.reasons))
    }
}

/// Trains. `listener(what, text)` hears of `"epoch"` (JSON of a line of metrics.jsonl), `"note"` and `"device"`.
#[pyfunction]
#[pyo3(signature = (data, set, *, preset = None, recipe = None, listener = None, epochs = true))]
pub fn fit(
    py: Python<'_>,
    data: &Data,
    set: Vec<String>,
    preset: Option<&str>,
    recipe: Option<&str>,
    listener: Option<Py<PyAny>>,
    epochs: bool,
) -> PyResult<Model> {
    let said = Said { preset, recipe, set: &set };
    let (config, reasons) = work::hold(|| said.config(data))?;
    let threads = config.run.threads;
    let _still = Still::hold(py, [data.lent.as_ref()])?;
    let (kept, fingerprint) = work::run(py, threads, listener, |stop, teller| {
        if !reasons.is_empty() {
            teller.tell("note", format!("preset own: {}", reasons.join("; ")));
        }
        let fingerprint = data.lent.as_ref().map(|_| fingerprint(&data.whole.features));
        Ok((train(&data.whole, config, stop, &mut Listener { teller, epochs })?, fingerprint))
    })?;
    let model = Model::trained(kept, data.lent.as_ref().map(|lent| lent.another(py)), fingerprint);
    match work::hold(|| Ok(model.is_unchanged()))? {
        true => Ok(model),
        false => Err(PyRuntimeError::new_err("X was changed while the model was fitted: fit a copy of it, X.copy()")),
    }
}

/// The settings a fit would have, as TOML.
#[pyfunction]
#[pyo3(signature = (data, set, *, preset = None, recipe = None))]
pub fn settings(data: &Data, set: Vec<String>, preset: Option<&str>, recipe: Option<&str>) -> PyResult<String> {
    let (config, _) = work::hold(|| Said { preset, recipe, set: &set }.config(data))?;
    to_toml(&config).or_raise()
}

fn train(whole: &Dataset, config: Config, stop: &Stop, listener: &mut Listener<'_>) -> Result<Kept> {
    let named = if config.without_kernels().is_none() { &config.run.device } else { "cpu" };
    let (machine, reason) = Machine::chosen(named, config.engine)?;
    if let Some(reason) = reason {
        listener.teller.tell("device", format!("computing on the CPU: {reason}"));
    }
    let mut whole = whole.clone();
    if config.data.undirected {
        whole.graph = whole.graph.undirected()?;
    }
    on_machine!(&machine, device => {
        let whole = structured(whole, &config)?;
        let run = Prepared::new(&whole, &config, RunName { seed: config.run.seed, fold: None })?;
        config.engine.states.check(run.dataset.graph.is_symmetric())?;
        run.memory(device, &config).check(device)?;
        Session { device, config: &config, stop }.keep(&whole, run, listener)
    })
}

/// Passes on what training says.
struct Listener<'a> {
    teller: &'a Teller,
    /// Whether epochs are wanted: each waits until it was heard.
    epochs: bool,
}

impl Observer for Listener<'_> {
    fn begin(&mut self, _: RunName, _: usize, _: usize) {}

    fn epoch(&mut self, _: RunName, record: &EpochRecord) {
        if self.epochs
            && let Ok(line) = serde_json::to_string(record)
        {
            self.teller.tell("epoch", line);
        }
    }

    fn end(&mut self, summary: &RunSummary) {
        summary.warnings.iter().for_each(|warning| self.teller.tell("warning", warning.clone()));
    }

    fn note(&mut self, _: RunName, text: &str) {
        self.teller.tell("note", text.to_string());
    }
}

//! Data in, model out: training without files.

use super::{Prepared, RunName, Trainer, choice, honesty, structured};
use crate::config::Config;
use crate::device::{Device, Machine};
use crate::model::FittedModel;
use crate::on_machine;
use crate::tabulate::Tables;
use harmonia_graph::dataset::Dataset;
use harmonia_graph::error::Result;
use harmonia_graph::stop::Stop;
use harmonia_graph::watch::Watch;

/// Trains with the settings' first seed and returns the model of the best epoch, calibrated where `train.calibrate` is on.
/// Writes no files.
///
/// The dataset is taken as it is, with its split and features: of the settings, `data.*` and `run.*` but the seed do not
/// apply. A dataset may have structural features ([`Structure::append`](harmonia_graph::dataset::Structure::append)); the
/// model then takes data with and without them. Threads are those of the current rayon pool.
///
/// # Errors
/// Settings or data that do not fit, a device that is too small, training that diverges, or
/// [`Error::Cancelled`](harmonia_graph::Error::Cancelled) after the epoch in which `stop` was asked for.
pub fn fit(dataset: &Dataset, config: &Config, machine: &Machine, stop: &Stop) -> Result<FittedModel> {
    on_machine!(machine, device => fit_on(device, dataset, config, stop))
}

fn fit_on<D: Device<Real = f32>>(device: &D, dataset: &Dataset, config: &Config, stop: &Stop) -> Result<FittedModel> {
    config.check()?;
    dataset.check()?;
    dataset.check_split(&dataset.split)?;
    // Models with a response per class read a column per class.
    let dataset = match config.model.kind.is_per_class() {
        true => structured(dataset.clone(), config)?,
        false => dataset.clone(),
    };
    let mut run = Prepared::of(dataset, None, config, RunName { seed: config.run.seed, fold: None })?;
    run.memory(device, config).check(device)?;
    let (tables, watch) = (Tables::default(), Watch::new(&|_| (), stop.clone()));
    run.tabulate(&tables, config.walk, &watch)?;
    let settled = choice::settle(device, &run, config, (&tables, stop))?;
    let config = settled.as_ref().map_or(config, |(config, _)| config);
    let mut trainer = Trainer::new(device, &run, config, None)?;
    while !trainer.finished() {
        trainer.epoch()?;
        stop.check()?;
        honesty::look(&mut trainer, &run, config, &tables, &watch)?;
    }
    if config.train.calibrate {
        trainer.calibrate()?;
    }
    trainer.model(None)
}

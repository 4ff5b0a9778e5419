//! `harmonia gradients`: loss, logits and every gradient for given parameters, so that any framework can check us.
//!
//! No dropout, the given routing noise (default zero), the loss over the training units, logits of all units.

use super::say;
use super::settings::Settings;
use crate::batch::Batches;
use crate::config::Config;
use crate::device::Device;
use crate::device::cpu::Cpu;
use crate::device::cpu::Ops;
use crate::model::{Checkpoint, Randomness, Resident};
use crate::plan::Plan;
use crate::train::{layout, weights};
use clap::{Args, ValueEnum};
use harmonia_graph::dataset::Dataset;
use harmonia_graph::error::{Error, Result};
use std::path::{Path, PathBuf};

#[derive(Clone, Copy, ValueEnum)]
enum Precision {
    F32,
    F64,
}

#[derive(Args)]
pub struct Arguments {
    #[command(flatten)]
    settings: Settings,
    /// Parameters, named as in a checkpoint (see `harmonia init`)
    #[arg(long, value_name = "FILE.safetensors")]
    params: PathBuf,
    /// Routing noise: one tensor `noise`, features x experts [default: zero]
    #[arg(long, value_name = "FILE.safetensors")]
    noise: Option<PathBuf>,
    /// Precision of the computation and of the output
    #[arg(long, value_enum, default_value = "f32")]
    precision: Precision,
    /// Where to write `loss`, `logits` and `grad.*`. The loss is the mean over training units; of a multi-label task each unit
    /// counts the sum over its labels, not their mean: divide by the number of labels to compare with a mean over both
    #[arg(long, value_name = "FILE.safetensors")]
    out: PathBuf,
}

pub fn run(arguments: Arguments) -> Result<()> {
    let config = arguments.settings.config()?;
    let dataset = arguments.settings.dataset(&config)?;
    let noise = arguments.noise.as_deref();
    let loss = match arguments.precision {
        Precision::F32 => write::<f32>(&config, &dataset, &arguments.params, noise, &arguments.out),
        Precision::F64 => write::<f64>(&config, &dataset, &arguments.params, noise, &arguments.out),
    }?;
    let units = dataset.split.train.len();
    say(&format!("{}: loss {loss} over {units} training units\n", arguments.out.display()))
}

fn write<T: Ops>(config: &Config, dataset: &Dataset, params: &Path, noise: Option<&Path>, out: &Path) -> Result<f64> {
    let device = Cpu::<T>::new();
    let layout = layout(dataset, config)?;
    let a = &layout.architecture;
    let parameters = device.upload(&Checkpoint::read(params)?.parameters(&layout, "")?)?;
    let noise = match noise {
        Some(path) => {
            let file = Checkpoint::read(path)?;
            let values: Vec<T> =
                file.tensor("noise", &[a.features, a.experts])?.iter().map(|&v| T::from_f64(v)).collect();
            if values.iter().any(|value| !value.is_finite()) {
                return Err(Error::file(path, "tensor `noise` must be finite"));
            }
            Some(device.upload(&values)?)
        }
        None => None,
    };
    let randomness = Randomness { noise, dropout: None };
    let plan = Plan::new(config, dataset, &layout);
    let weights = weights::of_run(dataset, &config.train, config.run.seed)?;
    let batches = Batches::planned(dataset, config.walk, plan, layout.architecture.walk_lengths()).weighted(weights);
    let batch = batches.whole(&dataset.split.train);
    let mut resident = Resident::new(&device, &layout, plan, batch)?;
    let mut gradient = device.zeros(layout.len())?;
    // Of all rows: a step computes those of its targets.
    let logits = device.download(resident.pass.forward(&resident.inputs, &parameters, &randomness)?)?;
    let loss = resident.gradient(&mut gradient, &parameters, &randomness)?;
    if !loss.is_finite() {
        return Err(Error::Diverged(format!("{}: the loss of these parameters is {loss}", params.display())));
    }
    let gradient = device.download(&gradient)?;
    let loss_value = [T::from_f64(loss)];
    let mut tensors = vec![
        ("loss".to_string(), vec![], &loss_value[..]),
        ("logits".to_string(), vec![dataset.units(), a.outputs], &logits[..]),
    ];
    tensors.extend(Checkpoint::named(&layout, &gradient, "grad."));
    Checkpoint::write(out, tensors, None)?;
    Ok(loss)
}

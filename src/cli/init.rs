//! `harmonia init`: fresh parameters as a file.
//!
//! With the default start the readout is zero, and so is every gradient but its own: to compare gradients, start with
//! `--set init.readout_scale=1`.

use super::say;
use super::settings::Settings;
use crate::model::{Checkpoint, initial_parameters};
use crate::train::layout;
use clap::Args;
use harmonia_graph::error::Result;
use std::path::PathBuf;

#[derive(Args)]
pub struct Arguments {
    #[command(flatten)]
    settings: Settings,
    /// Where to write the parameters
    #[arg(long, value_name = "FILE.safetensors")]
    out: PathBuf,
}

pub fn run(arguments: Arguments) -> Result<()> {
    let config = arguments.settings.config()?;
    let dataset = arguments.settings.dataset(&config)?;
    let layout = layout(&dataset, &config)?;
    let parameters = initial_parameters::<f32>(&layout, config.init, config.run.seed);
    Checkpoint::write(&arguments.out, Checkpoint::named(&layout, &parameters, ""), None)?;
    let (count, tensors) = (layout.len(), layout.tensors().len());
    say(&format!("{}: {count} parameters in {tensors} tensors\n", arguments.out.display()))
}

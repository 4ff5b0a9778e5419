//! Flags that choose data and settings, shared by all commands, and their order of precedence:
//! flag > --set > --config > preset > default.

use super::data::{AccessFlags, DirectoryFlag};
use super::{class_weights, watch};
use crate::architecture::Kind;
use crate::config::Config;
use crate::runs::load_dataset;
use crate::settings::{Layers, merged, own};
use crate::train::RunName;
use crate::train::prepare;
use clap::Args;
use harmonia_graph::dataset::Dataset;
use harmonia_graph::error::{Error, Result};
use harmonia_graph::files;
use std::path::PathBuf;

/// TOML has signed integers.
pub fn integer(value: u64, flag: &str) -> Result<i64> {
    i64::try_from(value).map_err(|_| Error::Config(format!("{flag} {value}: expected a number below 2^63")))
}

#[derive(Args, Clone, Debug)]
pub struct Settings {
    /// Dataset name (harmonia data list shows them) or the path of a store directory [default: synthetic]
    #[arg(long, visible_alias = "store", value_name = "NAME|STORE_DIR")]
    pub dataset: Option<String>,
    #[command(flatten)]
    pub directory: DirectoryFlag,
    #[command(flatten)]
    pub access: AccessFlags,
    /// Enter every edge both ways
    #[arg(long)]
    pub undirected: bool,
    /// Rescale features: none, row (each row sums to 1), standardise (columns, by the training nodes) or auto (the same of columns
    /// of numbers, 0/1 columns and sparse features stay)
    #[arg(long, value_name = "HOW")]
    pub normalise: Option<String>,
    /// How much units of each class count while the model is fitted: balanced, or a file of CLASS,WEIGHT lines
    #[arg(long, value_name = "balanced|FILE")]
    pub class_weights: Option<String>,
    /// A feature that may only raise (age=+) or only lower (age=-) the logit of the positive class, or the number; may be repeated
    #[arg(long, value_name = "FEATURE=+|-")]
    pub monotone: Vec<String>,
    /// Which synthetic dataset: 0 to 4 are the five of the paper, any other number is fresh data by the same rule
    #[arg(long, value_name = "I")]
    pub data_index: Option<u32>,
    /// Which additive model: harmonia, nbm, nam, gp-nam, gnan or g-namrff (docs/models.md) [default: harmonia]
    #[arg(long, value_name = "KIND")]
    pub model: Option<String>,
    /// Settings to start from [default: the preset named like the dataset; own where none is]
    #[arg(long, value_name = "NAME")]
    pub preset: Option<String>,
    /// Which settings of the preset: tuned (found by validation), fast (of large graphs: a short schedule) or paper (as
    /// published) [default: tuned where there is one, else fast]
    #[arg(long, value_name = "RECIPE")]
    pub recipe: Option<String>,
    /// Settings file (TOML), over the preset
    #[arg(long, value_name = "FILE.toml")]
    pub config: Option<PathBuf>,
    /// One setting, over preset and file; may be repeated. --dry-run lists all settings
    #[arg(long, value_name = "SECTION.KEY=VALUE")]
    pub set: Vec<String>,
    /// First seed
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
}

impl Settings {
    /// Layers up to `--set`, plus the flags above. Data that no preset knows have the plain defaults.
    pub fn layers(&self) -> Result<Layers> {
        self.merged(None, None)
    }

    /// The same for commands that train: data that no preset knows have the preset `own`, which `chosen` has made for them once
    /// they are there. `--recipe paper` leaves them the plain defaults.
    pub fn training_layers(&self, chosen: Option<&own::Choice>) -> Result<Layers> {
        self.merged(Some(own::NAME), chosen)
    }

    fn merged(&self, unknown: Option<&'static str>, chosen: Option<&own::Choice>) -> Result<Layers> {
        let file = match &self.config {
            Some(path) => Some((files::read_handed(path)?, path.display().to_string())),
            None => None,
        };
        let over = |layers: &mut Layers| self.over_preset(layers, &file);
        merged(self.preset.as_deref(), self.recipe.as_deref(), (unknown, chosen), &over)
    }

    /// The finished configuration.
    pub fn config(&self) -> Result<Config> {
        self.layers()?.finish()
    }

    /// The dataset of the first run.
    pub fn dataset(&self, config: &Config) -> Result<Dataset> {
        let whole = watch::with(&self.access.access(), |context| load_dataset(&config.data, context))?;
        let first = RunName { seed: config.run.seed, fold: None };
        Ok(prepare(&whole, config, first)?.0)
    }

    fn over_preset(&self, layers: &mut Layers, file: &Option<(String, String)>) -> Result<()> {
        if let Some((text, name)) = file {
            layers.toml(text, name)?;
        }
        for assignment in &self.set {
            layers.set(assignment)?;
        }
        if let Some(dataset) = &self.dataset {
            layers.value("data.dataset", dataset.as_str(), "--dataset")?;
        }
        if let Some(kind) = &self.model {
            layers.value("model.kind", Kind::named(kind)?.name(), "--model")?;
        }
        if self.undirected {
            layers.value("data.undirected", true, "--undirected")?;
        }
        if let Some(normalise) = &self.normalise {
            layers.value("data.normalise", normalise.as_str(), "--normalise")?;
        }
        if let Some(weights) = &self.class_weights {
            layers.value("train.class_weights", class_weights::value(weights)?, "--class-weights")?;
        }
        if !self.monotone.is_empty() {
            layers.value("model.monotone", self.monotone.clone(), "--monotone")?;
        }
        if let Some(directory) = &self.directory.data_dir {
            layers.value("data.dir", directory.display().to_string(), "--data-dir")?;
        }
        if let Some(index) = self.data_index {
            layers.value("data.index", i64::from(index), "--data-index")?;
        }
        if let Some(seed) = self.seed {
            layers.value("run.seed", integer(seed, "--seed")?, "--seed")?;
        }
        Ok(())
    }
}

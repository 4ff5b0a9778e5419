//! Flags that choose data and settings, shared by all commands, and their order of precedence:
//! flag > --set > --config > preset > default.

use super::data::{AccessFlags, DirectoryFlag};
use super::watch;
use crate::config::Config;
use crate::runs::load_dataset;
use crate::settings::presets::{self, Recipe};
use crate::settings::{Layers, own};
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
    /// Which of the five synthetic datasets, 0 to 4
    #[arg(long, value_name = "I")]
    pub data_index: Option<u32>,
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
        // The dataset decides the preset, so find it first, by the same precedence.
        let mut probe = Layers::new()?;
        self.over_preset(&mut probe, &file)?;
        let named = self.preset.clone().or(Some(probe.text("preset")).filter(|name| !name.is_empty()));
        let recipe = Recipe::named(&self.recipe.clone().unwrap_or_else(|| probe.text("recipe")))?;
        let preset = match named {
            Some(name) => Some(presets::named(&name)?.0),
            None => presets::find(&probe.text("data.dataset")).map(|(name, _)| name),
        };
        let preset = preset.or(unknown.filter(|_| recipe != Recipe::Paper));
        let mut layers = Layers::new()?;
        let recipe = preset.map(|name| presets::lay(&mut layers, name, recipe)).transpose()?;
        // Nobody has published it.
        let recipe = recipe.filter(|_| preset != Some(own::NAME));
        if let Some(chosen) = chosen.filter(|_| preset == Some(own::NAME)) {
            layers.toml(&chosen.toml, "preset own")?;
        }
        self.over_preset(&mut layers, &file)?;
        layers.value("preset", preset.unwrap_or(""), "preset")?;
        layers.value("recipe", recipe.map_or("", Recipe::name), "recipe")?;
        Ok(layers)
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
        if self.undirected {
            layers.value("data.undirected", true, "--undirected")?;
        }
        if let Some(normalise) = &self.normalise {
            layers.value("data.normalise", normalise.as_str(), "--normalise")?;
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

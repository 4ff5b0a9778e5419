//! The settings of a run: defaults, presets, files, `--set` and flags, merged in that order.
//!
//! The default configuration, written as TOML, is also the schema: a key that it does not have is an error, and the
//! message suggests the closest one.

use crate::datasets::SplitRule;
use crate::device::DropoutPlace;
use crate::error::{Error, Result, suggestion};
use crate::graph::Walk;
use crate::model::{Architecture, HopWeights, Initialisation};
use serde::{Deserialize, Serialize};
use toml::{Table, Value};

/// Everything that decides the outcome of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// Name of the preset the settings started from; empty for none.
    pub preset: String,
    /// What to train on.
    pub data: Data,
    /// The random walk.
    pub walk: Walk,
    /// Sizes of the model.
    pub model: Model,
    /// How parameters start.
    pub init: Initialisation,
    /// Optimisation.
    pub train: Train,
    /// Seeds and machine.
    pub run: Run,
}

/// What to train on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Data {
    /// Name of a dataset, or the path of a store directory.
    pub dataset: String,
    /// Directory that holds raw files; empty: the environment variable HARMONIA_DATA.
    pub dir: String,
    /// Which of the five synthetic datasets, 0..4.
    pub index: u32,
    /// `default` (the dataset's own), `per-class:20/500/1000` or `fractions:60/20/20` (random, by run seed).
    pub split: String,
    /// Divide each row of X by its sum.
    pub row_normalise: bool,
}

/// Sizes of the model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Model {
    /// C, experts.
    pub experts: usize,
    /// m, experts each feature uses.
    pub active: usize,
    /// B, bases of each expert.
    pub bases: usize,
    /// Hidden widths of each expert.
    pub hidden: Vec<usize>,
    /// q, embedding width.
    pub embedding: usize,
    /// T, walk lengths 0..T-1.
    pub hops: usize,
    /// `simplex` or `free`.
    pub hop_weights: HopWeights,
}

/// Which update rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Optimizer {
    /// Weight decay as L2 in the gradient.
    Adam,
    /// Decoupled weight decay.
    AdamW,
}

/// How the learning rate moves over epochs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Schedule {
    /// It does not.
    Constant,
    /// Half a cosine from `learning_rate` to `final_learning_rate` over `epochs`.
    Cosine,
}

/// What early stopping and the choice of the best epoch look at, on the validation units.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Metric {
    /// Share of units classified correctly.
    Accuracy,
    /// Area under the ROC curve.
    RocAuc,
    /// Negative log-likelihood.
    Loss,
}

/// Optimisation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Train {
    /// `adam` or `adamw`.
    pub optimizer: Optimizer,
    /// Step size at the start.
    pub learning_rate: f64,
    /// Weight decay on every parameter.
    pub weight_decay: f64,
    /// `constant` or `cosine`.
    pub schedule: Schedule,
    /// Where the cosine ends.
    pub final_learning_rate: f64,
    /// Largest gradient norm; 0: no clipping.
    pub clip_norm: f64,
    /// Graphs a step sees (on one graph: training nodes a step is scored on); 0: everything at once.
    pub batch_size: usize,
    /// Most epochs.
    pub epochs: usize,
    /// Epochs without improvement before stopping, counted once the model has begun to learn; 0: never stop early.
    pub patience: usize,
    /// `accuracy`, `roc_auc` or `loss`.
    pub metric: Metric,
    /// Dropout probability.
    pub dropout: f64,
    /// `input`, `feature`, `hidden` or `none`.
    pub dropout_place: DropoutPlace,
}

/// Seeds and machine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Run {
    /// First seed.
    pub seed: u64,
    /// Number of runs, with seeds seed, seed + 1, ...
    pub seeds: usize,
    /// `auto` or `cpu`.
    pub device: String,
    /// Threads; 0: one a core. Results do not depend on it.
    pub threads: usize,
    /// Least seconds between two checkpoints; 0: after every epoch. Results do not depend on it.
    pub checkpoint_seconds: f64,
}

impl Default for Config {
    fn default() -> Self {
        Config {
            preset: String::new(),
            data: Data {
                dataset: "synthetic".into(),
                dir: String::new(),
                index: 0,
                split: "default".into(),
                row_normalise: false,
            },
            walk: Walk::default(),
            model: Model {
                experts: 4,
                active: 2,
                bases: 8,
                hidden: vec![16, 8],
                embedding: 16,
                hops: 4,
                hop_weights: HopWeights::Simplex,
            },
            init: Initialisation::default(),
            train: Train {
                optimizer: Optimizer::AdamW,
                learning_rate: 1e-3,
                weight_decay: 1e-4,
                schedule: Schedule::Constant,
                final_learning_rate: 1e-6,
                clip_norm: 0.0,
                batch_size: 0,
                epochs: 500,
                patience: 100,
                metric: Metric::Accuracy,
                dropout: 0.0,
                dropout_place: DropoutPlace::Input,
            },
            run: Run { seed: 0, seeds: 1, device: "auto".into(), threads: 0, checkpoint_seconds: 10.0 },
        }
    }
}

impl Config {
    /// The sizes of the model for a dataset with this many features and outputs.
    pub fn architecture(&self, features: usize, outputs: usize) -> Architecture {
        let Model { experts, active, bases, hidden, embedding, hops, hop_weights } = self.model.clone();
        Architecture { features, outputs, experts, active, bases, hidden, embedding, hops, hop_weights }
    }

    /// Refuses values no run can have.
    ///
    /// # Errors
    /// The first of them, by key.
    pub fn check(&self) -> Result<()> {
        let t = &self.train;
        let bad = |key: &str, found: &dyn std::fmt::Display, expected: &str| {
            Err(Error::Config(format!("{key} is {found}; expected {expected}")))
        };
        for (key, value) in
            [("train.learning_rate", t.learning_rate), ("train.final_learning_rate", t.final_learning_rate)]
        {
            if !(value.is_finite() && value > 0.0) {
                return bad(key, &value, "a number above 0");
            }
        }
        for (key, value) in [("train.weight_decay", t.weight_decay), ("train.clip_norm", t.clip_norm)] {
            if !(value.is_finite() && value >= 0.0) {
                return bad(key, &value, "a number of at least 0");
            }
        }
        if !(0.0..1.0).contains(&t.dropout) {
            return bad("train.dropout", &t.dropout, "a probability in [0, 1)");
        }
        for (key, value) in [("init.readout_scale", self.init.readout_scale), ("init.hop_growth", self.init.hop_growth)]
        {
            if !(value.is_finite() && value >= 0.0) {
                return bad(key, &value, "a number of at least 0");
            }
        }
        if !(self.run.checkpoint_seconds.is_finite() && self.run.checkpoint_seconds >= 0.0) {
            return bad("run.checkpoint_seconds", &self.run.checkpoint_seconds, "a number of at least 0");
        }
        if t.epochs == 0 || t.epochs > u32::MAX as usize {
            return bad("train.epochs", &t.epochs, "at least 1");
        }
        if self.run.seeds == 0 {
            return bad("run.seeds", &0, "at least 1");
        }
        if self.data.index > 4 {
            return bad("data.index", &self.data.index, "0, 1, 2, 3 or 4");
        }
        SplitRule::parse(&self.data.split)?;
        // Sizes that do not depend on the dataset.
        self.architecture(1, 1).check()
    }

    /// Reads a merged table.
    ///
    /// # Errors
    /// A value of the wrong type or out of range.
    pub fn from_table(table: Table) -> Result<Config> {
        let config: Config = Value::Table(table).try_into().map_err(|error| {
            Error::Config(format!("configuration: {}", error.to_string().trim().replace('\n', " ")))
        })?;
        config.check()?;
        Ok(config)
    }

    /// As TOML text, ready to be read again.
    ///
    /// # Errors
    /// Never in practice: every field has a TOML form.
    pub fn to_toml(&self) -> Result<String> {
        toml::to_string(self).map_err(|error| Error::Config(format!("cannot write the configuration: {error}")))
    }
}

/// Builds a configuration layer by layer, later layers winning.
pub struct Layers {
    table: Table,
}

impl Layers {
    /// Starts from the defaults.
    ///
    /// # Errors
    /// Never in practice: the defaults have a TOML form.
    pub fn new() -> Result<Layers> {
        let table = Table::try_from(Config::default())
            .map_err(|error| Error::Config(format!("cannot write the defaults: {error}")))?;
        Ok(Layers { table })
    }

    /// Lays TOML text over what is there; `origin` names it in errors.
    ///
    /// # Errors
    /// Text that is not TOML, or a key that does not exist.
    pub fn toml(&mut self, text: &str, origin: &str) -> Result<()> {
        let layer: Table =
            text.parse().map_err(|error| Error::Config(format!("{origin} is not valid TOML: {error}")))?;
        for (section, value) in layer {
            match value {
                Value::Table(keys) => {
                    for (key, value) in keys {
                        self.value(&format!("{section}.{key}"), value, origin)?;
                    }
                }
                value => self.value(&section, value, origin)?,
            }
        }
        Ok(())
    }

    /// Applies one `section.key=value` of the command line.
    ///
    /// # Errors
    /// No `=`, or a key that does not exist.
    pub fn set(&mut self, assignment: &str) -> Result<()> {
        let Some((key, text)) = assignment.split_once('=') else {
            return Err(Error::Config(format!(
                "--set {assignment}: expected section.key=value, for example --set train.epochs=200"
            )));
        };
        // What reads as TOML is TOML; any other word is a string, so that quotes are not needed.
        let value = format!("v = {text}")
            .parse::<Table>()
            .ok()
            .and_then(|mut table| table.remove("v"))
            .unwrap_or_else(|| Value::String(text.trim().to_string()));
        self.value(key.trim(), value, "--set")
    }

    /// Sets one key.
    ///
    /// # Errors
    /// A key that does not exist.
    pub fn value(&mut self, path: &str, value: impl Into<Value>, origin: &str) -> Result<()> {
        let known = self.keys();
        if !known.iter().any(|key| key == path) {
            return Err(Error::Config(format!(
                "{origin}: there is no setting `{path}`{}",
                suggestion(path, known.iter().map(String::as_str))
            )));
        }
        let (table, key) = match path.split_once('.') {
            Some((section, key)) => match self.table.get_mut(section) {
                Some(Value::Table(table)) => (table, key),
                _ => return Ok(()),
            },
            None => (&mut self.table, path),
        };
        table.insert(key.to_string(), value.into());
        Ok(())
    }

    /// The current value of a key that is text.
    pub fn text(&self, section: &str, key: &str) -> String {
        self.table.get(section).and_then(|s| s.get(key)).and_then(Value::as_str).unwrap_or_default().to_string()
    }

    /// Checks types and ranges.
    ///
    /// # Errors
    /// The first value that is wrong.
    pub fn finish(self) -> Result<Config> {
        Config::from_table(self.table)
    }

    fn keys(&self) -> Vec<String> {
        (self.table.iter())
            .flat_map(|(section, value)| match value {
                Value::Table(keys) => keys.keys().map(|key| format!("{section}.{key}")).collect(),
                _ => vec![section.clone()],
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layers() -> Layers {
        Layers::new().unwrap()
    }

    #[test]
    fn later_layers_win_and_the_rest_stays() {
        let mut layers = layers();
        layers.toml("[train]\nepochs = 7\npatience = 3\n", "a preset").unwrap();
        layers.set("train.epochs=9").unwrap();
        layers.set("model.hidden=[64, 32]").unwrap();
        layers.set("train.dropout_place=hidden").unwrap();
        layers.set("train.learning_rate=1").unwrap();
        let config = layers.finish().unwrap();
        assert_eq!((config.train.epochs, config.train.patience), (9, 3));
        assert_eq!(config.model.hidden, [64, 32]);
        assert_eq!(config.train.dropout_place, DropoutPlace::Hidden);
        assert_eq!(config.train.learning_rate, 1.0);
        assert_eq!(config.model.experts, Config::default().model.experts);
    }

    #[test]
    fn a_typo_is_refused_with_a_suggestion() {
        let error = layers().set("train.epoch=9").unwrap_err().to_string();
        assert!(error.contains("no setting `train.epoch`; did you mean `train.epochs`?"), "{error}");
        let error = layers().toml("[modle]\nexperts = 3", "x.toml").unwrap_err().to_string();
        assert!(error.contains("x.toml") && error.contains("`model.experts`"), "{error}");
    }

    #[test]
    fn wrong_types_and_ranges_name_the_key() {
        for (assignment, expected) in [
            ("train.epochs=many", "epochs"),
            ("train.dropout=1.5", "train.dropout is 1.5"),
            ("train.learning_rate=-1", "train.learning_rate is -1"),
            ("train.optimizer=sgd", "sgd"),
            ("model.active=9", "model.active is 9"),
            ("data.split=half", "data.split"),
            ("data.index=7", "data.index is 7"),
        ] {
            let mut layers = layers();
            layers.set(assignment).unwrap();
            let error = layers.finish().unwrap_err().to_string();
            assert!(error.contains(expected), "{assignment}: {error}");
        }
    }

    #[test]
    fn a_written_configuration_reads_back_equal() {
        let config = Config::default();
        let table: Table = config.to_toml().unwrap().parse().unwrap();
        assert_eq!(Config::from_table(table).unwrap(), config);
    }
}

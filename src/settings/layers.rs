//! Settings merged layer by layer: defaults, preset, file, `--set`, flags.
//!
//! The default configuration, written as TOML, is also the schema: a key that it does not have is an error, and the
//! message suggests the closest one.

use super::closest::closest;
use crate::config::Config;
use harmonia_graph::error::{Error, Result};
use toml::{Table, Value};

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
            return Err(Error::Config(format!("{origin}: there is no setting `{path}`{}", closest(path, &known))));
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
    pub fn text(&self, path: &str) -> String {
        let value = match path.split_once('.') {
            Some((section, key)) => self.table.get(section).and_then(|section| section.get(key)),
            None => self.table.get(path),
        };
        value.and_then(Value::as_str).unwrap_or_default().to_string()
    }

    /// Checks types and ranges.
    ///
    /// # Errors
    /// The first value that is wrong.
    pub fn finish(self) -> Result<Config> {
        read(self.table)
    }

    /// Every setting, as `section.key`.
    pub fn keys(&self) -> Vec<String> {
        (self.table.iter())
            .flat_map(|(section, value)| match value {
                Value::Table(keys) => keys.keys().map(|key| format!("{section}.{key}")).collect(),
                _ => vec![section.clone()],
            })
            .collect()
    }
}

/// Reads a merged table.
///
/// # Errors
/// A value of the wrong type or out of range.
fn read(table: Table) -> Result<Config> {
    let config: Config = Value::Table(table)
        .try_into()
        .map_err(|error| Error::Config(format!("configuration: {}", error.to_string().trim().replace('\n', " "))))?;
    config.check()?;
    Ok(config)
}

/// Settings as TOML text, ready to be read again.
///
/// # Errors
/// Never in practice: every field has a TOML form.
pub fn to_toml(config: &Config) -> Result<String> {
    toml::to_string(config).map_err(|error| Error::Config(format!("cannot write the configuration: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{DropoutPlace, Smoothness};

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
    fn abbreviations_and_keys_without_their_section_are_understood() {
        for (word, expected) in [
            ("train.lr", "`train.learning_rate`"),
            ("lr", "`train.learning_rate`"),
            ("wd", "`train.weight_decay`"),
            ("train.decay", "`train.weight_decay`"),
            ("batch", "`train.batch_size`"),
            ("model.batch_size", "`train.batch_size`"),
            ("dropout", "`train.dropout`"),
            ("epoch", "`train.epochs`"),
            ("optim", "`train.optimizer`"),
            ("experst", "`model.experts`"),
            ("train.epoch", "`train.epochs`"),
        ] {
            let error = layers().set(&format!("{word}=1")).unwrap_err().to_string();
            assert!(error.contains(&format!("did you mean {expected}?")), "{word}: {error}");
        }
        for nonsense in ["x", "", "train.", "zzz", "a.b.c"] {
            let error = layers().set(&format!("{nonsense}=1")).unwrap_err().to_string();
            assert!(!error.contains("did you mean"), "{nonsense}: {error}");
        }
        // Every habit leads to a setting that exists.
        let known = layers().keys();
        assert!(crate::settings::closest::HABITS.iter().all(|(_, key)| known.iter().any(|known| known == key)));
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
            ("data.index=-7", "-7"),
        ] {
            let mut layers = layers();
            layers.set(assignment).unwrap();
            let error = layers.finish().unwrap_err().to_string();
            assert!(error.contains(expected), "{assignment}: {error}");
        }
    }

    #[test]
    fn a_written_configuration_reads_back_equal() {
        let mut config = Config::default();
        for smoothness in [&[0.0][..], &[0.0, 1e-3, 1e-2]] {
            config.train.smoothness = Smoothness::among(smoothness);
            let table: Table = to_toml(&config).unwrap().parse().unwrap();
            assert_eq!(read(table).unwrap(), config);
        }
        let mut layers = layers();
        layers.set("train.smoothness=[0, 1e-3]").unwrap();
        assert_eq!(layers.finish().unwrap().train.smoothness, Smoothness::among(&[0.0, 1e-3]));
    }
}

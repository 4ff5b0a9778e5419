//! What one configuration has that another has not, and all of one as a flat list.

use crate::config::Config;
use harmonia_graph::error::{Error, Result};
use toml::{Table, Value};

/// What says where data are and how often is trained, not how.
const LEFT_OUT: &[(&str, &[&str])] = &[("data", &["dataset", "dir", "index"]), ("run", &[])];

/// The settings of `config` that `from` does not have, as TOML; names of data and presets and the section `run` left out.
///
/// # Errors
/// Never in practice: every setting has a TOML form.
pub fn differences(config: &Config, from: &Config) -> Result<String> {
    let table = |config: &Config| {
        Table::try_from(config).map_err(|error| Error::Config(format!("cannot write the configuration: {error}")))
    };
    let (config, from) = (table(config)?, table(from)?);
    let mut differing = Table::new();
    for (section, keys) in config {
        let Value::Table(mut keys) = keys else { continue };
        let left_out = LEFT_OUT.iter().find(|(known, _)| *known == section).map(|(_, keys)| *keys);
        let is_left_out = |key: &str| left_out.is_some_and(|keys| keys.is_empty() || keys.contains(&key));
        let before = from.get(&section);
        keys.retain(|key, value| !is_left_out(key) && before.and_then(|before| before.get(key)) != Some(value));
        if !keys.is_empty() {
            differing.insert(section, Value::Table(keys));
        }
    }
    toml::to_string(&differing).map_err(|error| Error::Config(format!("cannot write the configuration: {error}")))
}

/// Every setting as (section.key, value), values as TOML has them; the same keys in the same order of any configuration.
///
/// # Errors
/// Never in practice: every setting has a TOML form.
pub fn flattened(config: &Config) -> Result<Vec<(String, String)>> {
    let table =
        Table::try_from(config).map_err(|error| Error::Config(format!("cannot write the configuration: {error}")))?;
    let settings = table.into_iter().flat_map(|(section, value)| match value {
        Value::Table(keys) => {
            keys.into_iter().map(|(key, value)| (format!("{section}.{key}"), value.to_string())).collect()
        }
        value => vec![(section, value.to_string())],
    });
    Ok(settings.collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::Layers;

    #[test]
    fn differences_laid_over_the_one_give_the_other() {
        let from = Config::default();
        let mut config = from.clone();
        (config.train.learning_rate, config.model.hidden, config.data.undirected) = (0.25, vec![3], true);
        let text = differences(&config, &from).unwrap();
        assert_eq!(text.lines().filter(|line| line.contains('=')).count(), 3, "{text}");
        let mut layers = Layers::new().unwrap();
        layers.toml(&text, "differences").unwrap();
        assert_eq!(layers.finish().unwrap(), config);
        (config.run.seed, config.data.dataset, config.preset) = (7, "x".into(), "y".into());
        assert_eq!(differences(&config, &from).unwrap(), text);
        assert_eq!(differences(&from, &from).unwrap(), "");
    }
}

//! The settings that are searched: of each key a list of choices, or a range.
//!
//! As TOML: `"section.key" = [choice, ...]` or `"section.key" = { low = 1e-4, high = 1e-1, log = true }`; a range between
//! two integers gives integers. What is drawn depends on the seed and the number of the trial alone.

use super::Trial;
use crate::architecture::Kind;
use crate::config::Config;
use crate::settings::{Layers, to_toml};
use harmonia_graph::dataset::{self, Dataset, Level, Normalise};
use harmonia_graph::error::{Error, Result};
use harmonia_graph::seed::{Purpose, Rng, Stream};
use toml::{Table, Value};

/// Built in, one per kind of task.
const NODES: &str = include_str!("spaces/nodes.toml");
const WORDS: &str = include_str!("spaces/words.toml");
const GRAPHS: &str = include_str!("spaces/graphs.toml");

/// What would change what settings are compared by, or does not change what is learned.
const NOT_SEARCHED: &[&str] =
    &["preset", "recipe", "data.dataset", "data.dir", "data.index", "data.split", "data.undirected", "train.loss"];

/// Draws of settings that cannot be together, or that there were already, before giving up.
const MOST_DRAWS: usize = 200;

/// Keys in alphabetical order, each with its values.
#[derive(Clone, Debug, PartialEq)]
pub struct Space {
    entries: Vec<(String, Values)>,
}

/// What a key may be.
#[derive(Clone, Debug, PartialEq)]
enum Values {
    /// One of these.
    Choices(Vec<Value>),
    /// A number between two, both included.
    Range { low: f64, high: f64, log: bool },
    /// An integer between two, both included.
    Whole { low: i64, high: i64, log: bool },
}

impl Space {
    /// The space for a dataset and a kind of model where the user gives none.
    ///
    /// # Errors
    /// Never in practice: the files are tested.
    pub fn built_in(dataset: &Dataset, kind: Kind) -> Result<Space> {
        let text = match (dataset.level, dataset.features.values()) {
            (Level::Graph, _) => GRAPHS,
            (Level::Node, dataset::Values::Sparse(_)) => WORDS,
            (Level::Node, _) => NODES,
        };
        let mut space = Space::parse(text, "the built-in space")?;
        if kind != Kind::Harmonia {
            space.entries.retain(|(key, _)| key != "train.smoothness");
        }
        if dataset.truth.is_some() {
            // Other features are not what the truth was made from.
            space.entries.retain(|(key, _)| !key.starts_with("data."));
        }
        Ok(space)
    }

    /// Reads TOML; `origin` names it in errors.
    ///
    /// # Errors
    /// Text that is not TOML, or values that are neither choices nor a range.
    pub fn parse(text: &str, origin: &str) -> Result<Space> {
        let table: Table =
            text.parse().map_err(|error| Error::Config(format!("{origin} is not valid TOML: {error}")))?;
        let mut entries = Vec::new();
        for (key, value) in table {
            match value {
                // `[train]`, or a key that was written without quotes.
                Value::Table(section) if !key.contains('.') => {
                    for (inner, value) in section {
                        let key = format!("{key}.{inner}");
                        entries.push((key.clone(), values(&key, value, origin)?));
                    }
                }
                value => entries.push((key.clone(), values(&key, value, origin)?)),
            }
        }
        if entries.is_empty() {
            return Err(Error::Config(format!("{origin}: there is no setting to search")));
        }
        entries.sort_by(|a, b| a.0.cmp(&b.0));
        Ok(Space { entries })
    }

    /// Refuses keys that are not settings or not to be searched, and values that the starting settings cannot have.
    ///
    /// # Errors
    /// The first of them.
    pub fn check(&self, base: &Config, dataset: &Dataset) -> Result<()> {
        for (key, values) in &self.entries {
            if NOT_SEARCHED.contains(&key.as_str()) || key.starts_with("run.") {
                return Err(Error::Config(format!("the space: `{key}` cannot be searched, only set")));
            }
            let ends = match values {
                Values::Choices(choices) => choices.clone(),
                Values::Range { low, high, .. } => vec![Value::Float(*low), Value::Float(*high)],
                Values::Whole { low, high, .. } => vec![Value::Integer(*low), Value::Integer(*high)],
            };
            for value in ends {
                let config = with(base, [(key.as_str(), value)])?;
                if dataset.truth.is_some() && config.data.normalise != Normalise::None {
                    return Err(Error::Config(
                        "the space: data.normalise would change what the synthetic truth was made from".into(),
                    ));
                }
            }
        }
        Ok(())
    }

    /// Trial 0 is the start, with what the space leaves no choice of; the others are drawn, all different. Fewer than asked
    /// for where the space has no more.
    ///
    /// # Errors
    /// No draw gives settings that can be together.
    pub fn trials(&self, base: &Config, count: usize, seed: u64) -> Result<Vec<Trial>> {
        let settled: Table =
            self.entries.iter().filter_map(|(key, values)| Some((key.clone(), values.only()?))).collect();
        let config = with(base, settled.iter().map(|(key, value)| (key.as_str(), value.clone())))?;
        let mut trials = vec![Trial { number: 0, settings: settled, config }];
        let mut refused = None;
        for number in 1..count {
            // Studies share a purpose; remove-and-retrain has step 0 of it.
            let mut rng = Stream::new(seed, Purpose::Removal, number as u32).rng();
            let drawn = (0..MOST_DRAWS).find_map(|_| {
                let settings = self.draw(&mut rng);
                match with(base, settings.iter().map(|(key, value)| (key.as_str(), value.clone()))) {
                    Ok(config) if trials.iter().all(|trial| trial.config != config) => Some((settings, config)),
                    Ok(_) => None,
                    Err(error) => {
                        refused = Some(error);
                        None
                    }
                }
            });
            match (drawn, refused.take()) {
                (Some((settings, config)), _) => trials.push(Trial { number, settings, config }),
                (None, Some(error)) if number == 1 => return Err(error),
                (None, _) => break,
            }
        }
        Ok(trials)
    }

    /// One value of every key.
    fn draw(&self, rng: &mut Rng) -> Table {
        self.entries.iter().map(|(key, values)| (key.clone(), values.draw(rng))).collect()
    }

    /// As it is written.
    pub fn to_toml(&self) -> String {
        self.entries.iter().map(|(key, values)| format!("\"{key}\" = {}\n", values.to_toml())).collect()
    }
}

impl Values {
    /// The only choice.
    fn only(&self) -> Option<Value> {
        match self {
            Values::Choices(choices) if choices.len() == 1 => choices.first().cloned(),
            _ => None,
        }
    }

    fn draw(&self, rng: &mut Rng) -> Value {
        let between = |low: f64, high: f64, log: bool, share: f64| match log {
            true => (low.ln() + share * (high.ln() - low.ln())).exp(),
            false => low + share * (high - low),
        };
        let share = rng.uniform();
        match self {
            Values::Choices(choices) => {
                choices[((share * choices.len() as f64) as usize).min(choices.len() - 1)].clone()
            }
            Values::Range { low, high, log } => {
                Value::Float(three_digits(between(*low, *high, *log, share)).clamp(*low, *high))
            }
            // Every integer has a unit of the way, so that both ends are as likely as the others.
            Values::Whole { low, high, log: false } => {
                Value::Integer((between(*low as f64, *high as f64 + 1.0, false, share).floor() as i64).min(*high))
            }
            Values::Whole { low, high, log: true } => {
                let drawn = between(*low as f64, *high as f64 + 1.0, true, share).floor() as i64;
                Value::Integer(drawn.clamp(*low, *high))
            }
        }
    }

    fn to_toml(&self) -> String {
        let range = |low: Value, high: Value, log: bool| {
            format!("{{ low = {low}, high = {high}{} }}", if log { ", log = true" } else { "" })
        };
        match self {
            Values::Choices(choices) => Value::Array(choices.clone()).to_string(),
            Values::Range { low, high, log } => range(Value::Float(*low), Value::Float(*high), *log),
            Values::Whole { low, high, log } => range(Value::Integer(*low), Value::Integer(*high), *log),
        }
    }
}

/// What a key of a space file says.
fn values(key: &str, value: Value, origin: &str) -> Result<Values> {
    let bad = |what: &str| {
        Error::Config(format!(
            "{origin}: `{key}` {what}; expected a list of choices, or {{ low = 1e-4, high = 1e-1, log = true }}"
        ))
    };
    let mut range = match value {
        Value::Array(choices) if choices.is_empty() => return Err(bad("has no choices")),
        Value::Array(choices) => return Ok(Values::Choices(choices)),
        Value::Table(range) => range,
        _ => return Err(bad("is a single value")),
    };
    let log = match range.remove("log") {
        None => false,
        Some(Value::Boolean(log)) => log,
        Some(_) => return Err(bad("has a `log` that is neither true nor false")),
    };
    let (low, high) = (range.remove("low"), range.remove("high"));
    if let Some(other) = range.keys().next() {
        return Err(bad(&format!("has a key `{other}`")));
    }
    let number = |value: &Value| value.as_float().or(value.as_integer().map(|value| value as f64));
    let (Some(low), Some(high)) = (low, high) else { return Err(bad("has no low and high")) };
    let (Some(from), Some(to)) = (number(&low), number(&high)) else { return Err(bad("has ends that are no numbers")) };
    if !(from.is_finite() && to.is_finite() && from <= to) {
        return Err(bad("has a low that is not below its high"));
    }
    if log && from <= 0.0 {
        return Err(bad("has a logarithm of what is not above 0"));
    }
    Ok(match (low, high) {
        (Value::Integer(low), Value::Integer(high)) => Values::Whole { low, high, log },
        _ => Values::Range { low: from, high: to, log },
    })
}

/// Settings with some of them changed.
fn with<'a>(base: &Config, settings: impl IntoIterator<Item = (&'a str, Value)>) -> Result<Config> {
    let mut layers = Layers::new()?;
    layers.toml(&to_toml(base)?, "the starting settings")?;
    for (key, value) in settings {
        layers.value(key, value, "the space")?;
    }
    layers.finish()
}

/// A number that is easy to write down, and then the number that is meant.
fn three_digits(value: f64) -> f64 {
    format!("{value:.2e}").parse().unwrap_or(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SPACE: &str = r#"
        "train.learning_rate" = { low = 1e-4, high = 1e-1, log = true }
        "train.dropout" = { low = 0.1, high = 0.5 }
        "train.epochs" = { low = 3, high = 5 }
        "model.hops" = [2, 4]
        "model.hidden" = [[8], [16, 8]]
        "model.hop_weights" = ["simplex", "free"]
    "#;

    #[test]
    fn draws_are_in_range_and_depend_on_seed_and_number_alone() {
        let (space, base) = (Space::parse(SPACE, "a file").unwrap(), Config::default());
        let all = space.trials(&base, 60, 7).unwrap();
        assert_eq!(all.len(), 60);
        assert!(all[0].settings.is_empty() && all[0].config == base);
        for trial in &all[1..] {
            let (model, train) = (&trial.config.model, &trial.config.train);
            assert!((1e-4..=1e-1).contains(&train.learning_rate) && (0.1..=0.5).contains(&train.dropout));
            assert!((3..=5).contains(&train.epochs) && [2, 4].contains(&model.hops));
            assert!(model.hidden == [8] || model.hidden == [16, 8]);
            assert_eq!(model.experts, base.model.experts);
        }
        for epochs in 3..=5 {
            assert!(all[1..].iter().any(|trial| trial.config.train.epochs == epochs), "{epochs}");
        }
        // A logarithmic range: half of the draws in the lower half of the decades.
        let low = all.iter().filter(|trial| trial.config.train.learning_rate < 10f64.powf(-2.5)).count();
        assert!((15..=45).contains(&low), "{low}");
        let settings = |trials: &[Trial]| trials.iter().map(|trial| trial.settings.clone()).collect::<Vec<_>>();
        assert_eq!(settings(&space.trials(&base, 10, 7).unwrap()), settings(&all[..10]));
        assert_ne!(settings(&space.trials(&base, 10, 8).unwrap()), settings(&all[..10]));
        assert_eq!(Space::parse(&space.to_toml(), "again").unwrap(), space);
    }

    #[test]
    fn a_small_space_is_tried_once_through_and_impossible_settings_not_at_all() {
        let base = Config::default();
        let space = Space::parse("\"model.hops\" = [2, 4, 8]", "a file").unwrap();
        // 4 is the start.
        assert_eq!(space.trials(&base, 50, 0).unwrap().len(), 3);
        let space = Space::parse("[model]\nexperts = [2, 4]\nactive = [1, 2, 3, 4]\n", "a file").unwrap();
        let trials = space.trials(&base, 100, 0).unwrap();
        assert!(trials.iter().all(|trial| trial.config.model.active <= trial.config.model.experts));
        assert_eq!(trials.len(), 6);
    }

    #[test]
    fn mistakes_are_named() {
        for (text, expected) in [
            ("\"train.dropout\" = 0.3", "single value"),
            ("\"train.dropout\" = []", "no choices"),
            ("\"train.dropout\" = { low = 0.3 }", "no low and high"),
            ("\"train.dropout\" = { low = 0.3, high = 0.1 }", "not below"),
            ("\"train.dropout\" = { low = 0.0, high = 0.1, log = true }", "logarithm"),
            ("\"train.dropout\" = { low = 0.0, high = 0.1, lgo = true }", "`lgo`"),
            ("", "no setting to search"),
        ] {
            let error = Space::parse(text, "s.toml").unwrap_err().to_string();
            assert!(error.contains(expected) && error.contains("s.toml"), "{text}: {error}");
        }
    }

    #[test]
    fn built_in_spaces_have_only_settings_that_exist() {
        let base = Config::default();
        for text in [NODES, WORDS, GRAPHS] {
            let space = Space::parse(text, "built in").unwrap();
            for (key, values) in space.entries {
                let drawn = values.draw(&mut Stream::new(0, Purpose::Removal, 1).rng());
                assert!(with(&base, [(key.as_str(), drawn)]).is_ok(), "{key}");
            }
        }
    }
}

//! Presets: settings of a dataset, by recipes.
//!
//! `paper`: the paper's two hyperparameter tables, one embedded TOML file per dataset. `tuned`: what `harmonia tune` found by
//! validation, laid over the paper's file, so that it states only what differs. `fast`, of graphs too large to search on: the
//! rate and schedule that arrive in the least time, in the same form. A dataset without a file of the recipe that was asked
//! for has the other of the two, or else (ogbn-arxiv, published with a high rate already) the paper's settings.

use super::{Layers, own};
use crate::architecture::Kind;
use harmonia_graph::error::{Error, Result, suggestion};

macro_rules! presets {
    ($recipe:literal: $($name:literal),* $(,)?) => {
        &[$(($name, include_str!(concat!("presets/", $recipe, "/", $name, ".toml")))),*]
    };
}

/// (name, TOML text) of every preset, as published.
pub const PRESETS: &[(&str, &str)] = presets!("paper":
    "synthetic",
    "cora",
    "citeseer",
    "tolokers",
    "ogbn-arxiv",
    "igb-small",
    "ogbn-products",
    "mutag",
    "proteins",
    "dd",
    "aids",
    "mutagenicity",
    "herg-karim",
);

/// (name, TOML text) of every preset that was tuned: what differs from the one as published.
pub const TUNED: &[(&str, &str)] = presets!("tuned":
    "synthetic", "cora", "citeseer", "tolokers", "mutag", "proteins", "dd", "aids", "mutagenicity", "herg-karim",
);

/// (name, TOML text) of every preset that has a quick schedule: what differs from the one as published.
pub const FAST: &[(&str, &str)] = presets!("fast": "igb-small", "ogbn-products");

/// (kind of model, TOML text) of what other kinds than HARMONIA have of their own, laid over the preset of a dataset.
pub const MODELS: &[(&str, &str)] = presets!("models": "nbm", "nam", "gp-nam", "gnan", "g-namrff", "dnn-rrwp");

/// (kind of model and dataset, TOML text) where a kind was published with other settings for a dataset, or validation asks for them.
pub const MODELS_ON: &[(&str, &str)] = presets!("models":
    "gnan-synthetic", "gnan-mutag", "gp-nam-mutag", "nam-mutag", "g-namrff-cora",
);

/// Which settings a preset stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recipe {
    /// As published.
    Paper,
    /// Found by validation.
    Tuned,
    /// Quickly there, for large graphs.
    Fast,
}

impl Recipe {
    /// All, the default first.
    pub const ALL: [Recipe; 3] = [Recipe::Tuned, Recipe::Fast, Recipe::Paper];

    /// As in `config.toml`.
    pub fn name(self) -> &'static str {
        match self {
            Recipe::Paper => "paper",
            Recipe::Tuned => "tuned",
            Recipe::Fast => "fast",
        }
    }

    /// Recipes whose files are looked for, in this order; behind them as published.
    fn sources(self) -> &'static [(Recipe, &'static [(&'static str, &'static str)])] {
        match self {
            Recipe::Paper => &[],
            Recipe::Tuned => &[(Recipe::Tuned, TUNED), (Recipe::Fast, FAST)],
            Recipe::Fast => &[(Recipe::Fast, FAST), (Recipe::Tuned, TUNED)],
        }
    }

    /// The recipe a user named; empty: the default.
    ///
    /// # Errors
    /// There is none of that name.
    pub fn named(name: &str) -> Result<Recipe> {
        let names = Recipe::ALL.map(Recipe::name);
        match Recipe::ALL.into_iter().find(|recipe| recipe.name() == name) {
            Some(recipe) => Ok(recipe),
            None if name.is_empty() => Ok(Recipe::Tuned),
            None => Err(Error::Config(format!(
                "there is no recipe `{name}`{}; expected {}",
                suggestion(name, names),
                names.join(", ")
            ))),
        }
    }
}

/// The preset of a dataset, if there is one, as published. Case does not matter.
pub fn find(name: &str) -> Option<(&'static str, &'static str)> {
    PRESETS.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).copied()
}

/// The preset a user named, as published; `own` too, which no dataset has by its name.
///
/// # Errors
/// No preset has that name.
pub fn named(name: &str) -> Result<(&'static str, &'static str)> {
    let own = name.eq_ignore_ascii_case(own::NAME).then_some((own::NAME, own::COMMON));
    find(name).or(own).ok_or_else(|| {
        let names = PRESETS.iter().map(|(name, _)| *name).chain([own::NAME]);
        Error::Config(format!(
            "there is no preset `{name}`{}\nknown presets: {}",
            suggestion(name, names.clone()),
            names.collect::<Vec<_>>().join(", ")
        ))
    })
}

/// Lays a preset over settings, by a recipe; gives the recipe it has.
///
/// # Errors
/// No preset has that name.
pub fn lay(layers: &mut Layers, name: &str, recipe: Recipe) -> Result<Recipe> {
    let (name, paper) = named(name)?;
    layers.toml(paper, &format!("preset {name}"))?;
    for (recipe, files) in recipe.sources() {
        if let Some((_, text)) = files.iter().find(|(known, _)| *known == name) {
            layers.toml(text, &format!("preset {name}, {}", recipe.name()))?;
            return Ok(*recipe);
        }
    }
    Ok(Recipe::Paper)
}

/// Lays what a kind of model has of its own over the preset of a dataset, if there is one; HARMONIA has the preset itself.
///
/// # Errors
/// There is no such kind.
pub fn lay_model(layers: &mut Layers, kind: &str, preset: Option<&str>) -> Result<()> {
    let kind = Kind::named(kind)?.name();
    let on = format!("{kind}-{}", preset.unwrap_or_default());
    let of = MODELS.iter().filter(|(known, _)| *known == kind);
    for (name, text) in of.chain(MODELS_ON.iter().filter(|(known, _)| **known == on)) {
        layers.toml(text, &format!("settings of {name}"))?;
    }
    layers.value("model.kind", kind, "model")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Config, Metric, Optimizer};

    fn load(name: &str) -> Config {
        by(name, Recipe::Paper).0
    }

    fn by(name: &str, recipe: Recipe) -> (Config, Recipe) {
        let mut layers = Layers::new().unwrap();
        let used = lay(&mut layers, name, recipe).unwrap();
        (layers.finish().unwrap(), used)
    }

    #[test]
    fn every_kind_of_model_has_settings_for_every_dataset() {
        for (name, _) in PRESETS {
            for kind in Kind::ALL {
                let mut layers = Layers::new().unwrap();
                lay(&mut layers, name, Recipe::Paper).unwrap();
                lay_model(&mut layers, kind.name(), Some(name)).unwrap();
                let config = layers.finish().unwrap();
                assert_eq!(config.model.kind, kind);
                assert_eq!(config == load(name), kind == Kind::Harmonia, "{name} {}", kind.name());
            }
        }
        let mut layers = Layers::new().unwrap();
        let error = lay_model(&mut layers, "gnam", None).unwrap_err().to_string();
        assert!(error.contains("did you mean") && error.contains("g-namrff"), "{error}");
        lay_model(&mut layers, "gnan", Some("synthetic")).unwrap();
        assert_eq!(layers.finish().unwrap().model.hidden, [16]);
    }

    #[test]
    fn a_tuned_preset_differs_from_the_published_one_and_says_where_it_comes_from() {
        for (name, text) in TUNED {
            let (config, used) = by(name, Recipe::Tuned);
            assert!(used == Recipe::Tuned && config != load(name), "{name}");
            let header: String = text.lines().take_while(|line| line.starts_with('#')).collect();
            let searched = header.contains("harmonia tune") && header.contains("--seed") && header.contains("tried");
            // The truth of generated data allows no other features, and there are few settings: all were compared.
            let compared = header.contains("harmonia-train") && header.contains("settings that were compared");
            assert!(searched || compared, "{name}: {header}");
        }
    }

    #[test]
    fn the_default_is_tuned_or_else_fast_or_else_as_published() {
        for (name, _) in PRESETS {
            let has = |files: &[(&str, &str)]| files.iter().any(|(known, _)| known == name);
            let expected = match (has(TUNED), has(FAST)) {
                (true, false) => Recipe::Tuned,
                (false, true) => Recipe::Fast,
                (false, false) => Recipe::Paper,
                (true, true) => panic!("{name} has two recipes beside the published one"),
            };
            let (config, used) = by(name, Recipe::Tuned);
            assert_eq!(used, expected, "{name}");
            assert_eq!(by(name, Recipe::Fast), (config, used));
            assert_eq!(by(name, Recipe::Paper).1, Recipe::Paper);
        }
        for (name, text) in FAST {
            let (config, paper) = (by(name, Recipe::Fast).0, load(name));
            assert_eq!((&config.model, config.train.batch_size), (&paper.model, paper.train.batch_size), "{name}");
            assert!(config.train.epochs < paper.train.epochs / 2, "{name}");
            assert!(text.starts_with('#') && text.contains("harmonia-train"), "{name}");
        }
        assert_eq!(Recipe::named("").unwrap(), Recipe::Tuned);
        let error = Recipe::named("papr").unwrap_err().to_string();
        assert!(error.contains("did you mean `paper`?"), "{error}");
    }

    #[test]
    fn presets_hold_the_values_of_the_papers_tables() {
        use Metric::{Accuracy, RocAuc};
        use Optimizer::{Adam, AdamW};
        // name, C, q, m, T, dropout, optimizer, learning rate, weight decay, batch, epochs, patience, metric
        let table = [
            ("cora", 5, 32, 2, 8, 0.4, AdamW, 5e-4, 5e-4, 0, 800, 150, Accuracy),
            ("citeseer", 5, 32, 2, 8, 0.5, AdamW, 1e-3, 1e-4, 0, 800, 150, Accuracy),
            ("tolokers", 3, 8, 1, 4, 0.2, AdamW, 1e-3, 5e-5, 0, 300, 50, RocAuc),
            ("ogbn-arxiv", 4, 16, 2, 8, 0.1, Adam, 2e-2, 5e-5, 0, 600, 100, Accuracy),
            ("igb-small", 6, 32, 2, 4, 0.1, AdamW, 1e-3, 5e-5, 16384, 500, 50, Accuracy),
            ("ogbn-products", 4, 16, 2, 4, 0.1, AdamW, 1e-3, 5e-5, 3584, 500, 50, Accuracy),
            ("mutag", 3, 8, 1, 4, 0.2, Adam, 1e-3, 1e-5, 32, 600, 100, RocAuc),
            ("proteins", 3, 8, 1, 8, 0.2, Adam, 1e-3, 1e-5, 32, 600, 100, RocAuc),
            ("dd", 4, 16, 2, 8, 0.1, Adam, 1e-3, 1e-5, 16, 800, 100, RocAuc),
            ("aids", 3, 8, 1, 4, 0.1, Adam, 1e-3, 1e-5, 256, 800, 100, RocAuc),
            ("mutagenicity", 4, 16, 2, 8, 0.2, Adam, 1e-3, 1e-5, 32, 600, 100, RocAuc),
            ("herg-karim", 4, 16, 2, 8, 0.2, Adam, 1e-3, 1e-5, 32, 600, 100, RocAuc),
        ];
        assert_eq!(table.len() + 1, PRESETS.len());
        for (name, c, q, m, hops, dropout, optimizer, rate, decay, batch, epochs, patience, metric) in table {
            let (model, train) = (load(name).model, load(name).train);
            assert_eq!((model.experts, model.embedding, model.active, model.hops), (c, q, m, hops), "{name}");
            assert_eq!((model.bases, model.hidden), (8, vec![16, 8]), "{name}");
            assert_eq!((train.dropout, train.optimizer, train.metric), (dropout, optimizer, metric), "{name}");
            assert_eq!((train.learning_rate, train.weight_decay), (rate, decay), "{name}");
            assert_eq!((train.batch_size, train.epochs, train.patience), (batch, epochs, patience), "{name}");
        }
    }

    #[test]
    fn the_synthetic_preset_is_the_protocol_of_the_synthetic_study() {
        let config = load("synthetic");
        let (model, train) = (config.model, config.train);
        assert_eq!((model.bases, model.experts, model.active, model.hops), (64, 4, 2, 4));
        assert_eq!(model.hidden, [64, 32]);
        assert_eq!((train.optimizer, train.learning_rate, train.weight_decay), (Optimizer::AdamW, 5e-4, 0.0));
        assert_eq!((train.batch_size, train.epochs, train.patience), (16, 400, 100));
        assert_eq!((train.clip_norm, train.final_learning_rate, train.dropout), (1.0, 1e-6, 0.0));
        assert_eq!((train.schedule, train.metric), (crate::config::Schedule::Cosine, Metric::Loss));
    }
}

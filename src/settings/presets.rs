//! Presets: the settings of the paper's two hyperparameter tables, one embedded TOML file per dataset.

use harmonia_graph::error::{Error, Result, suggestion};

macro_rules! presets {
    ($($name:literal),* $(,)?) => {
        /// (name, TOML text) of every preset.
        pub const PRESETS: &[(&str, &str)] = &[$(($name, include_str!(concat!("presets/", $name, ".toml")))),*];
    };
}

presets!(
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

/// The preset of a dataset, if there is one. Case does not matter.
pub fn find(name: &str) -> Option<(&'static str, &'static str)> {
    PRESETS.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).copied()
}

/// The preset a user named.
///
/// # Errors
/// No preset has that name.
pub fn named(name: &str) -> Result<(&'static str, &'static str)> {
    find(name).ok_or_else(|| {
        let names = PRESETS.iter().map(|(name, _)| *name);
        Error::Config(format!(
            "there is no preset `{name}`{}\nknown presets: {}",
            suggestion(name, names.clone()),
            names.collect::<Vec<_>>().join(", ")
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Config, Metric, Optimizer};
    use crate::settings::Layers;

    fn load(name: &str) -> Config {
        let mut layers = Layers::new().unwrap();
        layers.toml(named(name).unwrap().1, name).unwrap();
        layers.finish().unwrap()
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

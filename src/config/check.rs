//! Values that no run can have, refused by key before anything is computed.

use super::{Config, DropoutPlace, MOST_TABLE_POINTS, MOST_WALKS, Monotone, States};
use crate::architecture::{Form, Kind, Spread};
use harmonia_graph::dataset::SplitRule;
use harmonia_graph::error::{Error, Result};

/// Characters of the name of a run: it is part of a path and a cell of a table.
const LONGEST_NAME: usize = 80;

impl Config {
    /// Refuses values no run can have.
    ///
    /// # Errors
    /// The first of them, by key.
    pub fn check(&self) -> Result<()> {
        let t = &self.train;
        let bad = |key: &str, found: &dyn std::fmt::Display, expected: &str| {
            Err(Error::Config(format!("{key} is {found}; expected {expected}")))
        };
        if !(t.learning_rate.is_finite() && t.learning_rate > 0.0) {
            return bad("train.learning_rate", &t.learning_rate, "a number above 0");
        }
        let not_negative = [
            ("train.final_learning_rate", t.final_learning_rate),
            ("train.weight_decay", t.weight_decay),
            ("train.clip_norm", t.clip_norm),
            ("train.output_penalty", t.output_penalty),
            ("train.router_noise", t.router_noise),
            ("train.hop_rate", t.hop_rate),
            ("train.readout_rate", t.readout_rate),
            ("init.readout_scale", self.init.readout_scale),
            ("init.hop_growth", self.init.hop_growth),
            ("init.response_slope", self.init.response_slope),
            ("run.checkpoint_seconds", self.run.checkpoint_seconds),
        ];
        for (key, value) in not_negative {
            if !(value.is_finite() && value >= 0.0) {
                return bad(key, &value, "a number of at least 0");
            }
        }
        if !self.init.response_level.is_finite() {
            return bad("init.response_level", &self.init.response_level, "a number");
        }
        if !(0.0..1.0).contains(&t.dropout) {
            return bad("train.dropout", &t.dropout, "a probability in [0, 1)");
        }
        if t.epochs == 0 || t.epochs > u32::MAX as usize {
            return bad("train.epochs", &t.epochs, "1 to 4294967295");
        }
        let name = &self.run.name;
        if name.chars().count() > LONGEST_NAME || name.chars().any(char::is_control) {
            return bad("run.name", &format_args!("{name:?}"), "a line of at most 80 characters");
        }
        if !(1..=1 << 20).contains(&self.run.seeds) {
            return bad("run.seeds", &self.run.seeds, "1 to 1048576");
        }
        let forms = &self.run.metrics;
        if forms.iter().enumerate().any(|(at, form)| forms[..at].contains(form)) {
            return bad("run.metrics", &"a list with a form twice", "each once");
        }
        if self.run.jobs > 4096 {
            return bad("run.jobs", &self.run.jobs, "at most 4096");
        }
        // TOML has signed integers, and seed, seed + 1, ... must all have a form.
        if self.run.seed > i64::MAX as u64 - self.run.seeds as u64 {
            return bad("run.seed", &self.run.seed, "a number below 2^63, with room for all seeds");
        }
        let words = &self.data.structure;
        if let Some((_, word)) = words.iter().enumerate().find(|(at, word)| words[..*at].contains(word)) {
            return bad("data.structure", &format_args!("a list with {} twice", word.name()), "every word once");
        }
        let rule = SplitRule::parse(&self.data.split)?;
        if self.run.folds != 0 && !(3..=1 << 16).contains(&self.run.folds) {
            return bad("run.folds", &self.run.folds, "3 to 65536 (one tests, one validates), or 0 for none");
        }
        if self.run.folds != 0 && rule != SplitRule::Default {
            return bad("data.split", &self.data.split, "default, because run.folds draws the splits");
        }
        t.smoothness.check()?;
        t.class_weights.check()?;
        Monotone::check(&self.model.monotone)?;
        self.check_kind()?;
        let points = self.engine.table_points;
        if !(1..=MOST_TABLE_POINTS).contains(&points) {
            return bad("engine.table_points", &points, &format!("1 to {MOST_TABLE_POINTS}"));
        }
        if ![0, 8, 16, 32].contains(&self.engine.table_bits) {
            return bad("engine.table_bits", &self.engine.table_bits, "8, 16 or 32, or 0 to let sizes decide");
        }
        if self.engine.walks > MOST_WALKS {
            return bad("engine.walks", &self.engine.walks, &format!("0 to {MOST_WALKS}"));
        }
        if points == 1 && self.engine.walks == 0 {
            return bad("engine.walks", &0, "at least 1 where engine.table_points = 1");
        }
        // Sizes that do not depend on the dataset.
        self.architecture(1, 1).check()
    }
}

impl Config {
    /// Refuses what the kind of model does not have.
    fn check_kind(&self) -> Result<()> {
        let kind = self.model.kind;
        if self.model.exu && kind != Kind::Nam {
            return Err(Error::Config(format!(
                "model.exu is for model.kind = nam, and model.kind is {}: leave it out",
                kind.name()
            )));
        }
        if self.model.batch_norm && kind != Kind::Nbm {
            return Err(Error::Config(format!(
                "model.batch_norm is for model.kind = nbm, and model.kind is {}: leave it out",
                kind.name()
            )));
        }
        if self.train.output_penalty > 0.0 && kind.spread() != Spread::Itself {
            return Err(Error::Config(format!(
                "train.output_penalty is for models without a graph (nbm, nam, gp-nam), and model.kind is {}: leave it out",
                kind.name()
            )));
        }
        if kind == Kind::Harmonia {
            return Ok(());
        }
        let hidden = self.train.dropout > 0.0 && self.train.dropout_place == DropoutPlace::Hidden;
        let asked = [
            ("model.monotone", !self.model.monotone.is_empty()),
            ("init.warm_start", self.init.warm_start),
            ("train.smoothness", self.train.smoothness.is_asked()),
            ("train.calibrate", self.train.calibrate && kind.is_per_class()),
            (
                "train.dropout_place = hidden",
                hidden && (kind.form() == Form::Fourier || self.model.exu || self.model.batch_norm),
            ),
            ("engine.states", self.engine.states != States::F32),
        ];
        match asked.iter().find(|(_, asked)| *asked) {
            None => Ok(()),
            Some((key, _)) => Err(Error::Config(format!(
                "{key} is not for model.kind = {}: leave it out, or set model.kind = harmonia",
                kind.name()
            ))),
        }
    }
}

impl States {
    /// Refuses half precision where its range may not do.
    ///
    /// # Errors
    /// f16 on a directed graph.
    pub fn check(self, symmetric: bool) -> Result<()> {
        if self != States::F16 || symmetric {
            return Ok(());
        }
        Err(Error::Config(
            "engine.states = f16 is for undirected graphs: on a directed one the gradient of a node is a sum over all that \
             point to it and may leave the range of half precision; set engine.states = bf16"
                .into(),
        ))
    }
}

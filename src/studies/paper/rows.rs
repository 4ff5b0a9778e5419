//! The models that tables compare: each is a name, a kind of model, and what differs in settings, as `--set` takes it.
//!
//! A further model is one more row. Studies read trained models through [`Factors`](crate::explain::Factors) alone, so that
//! what they measure is defined for any response and any structure.

use crate::architecture::Kind;
use crate::config::Config;
use crate::settings::Layers;
use crate::settings::presets::{self, Recipe};
use harmonia_graph::error::Result;

/// A model of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    /// As the paper's tables have it.
    pub name: &'static str,
    /// What it is; its own settings are those of `settings/presets/models`.
    pub kind: Kind,
    /// `section.key=value`, over what the study sets for all.
    pub set: &'static [&'static str],
}

/// The model of the paper.
pub const HARMONIA: Row = Row::of("HARMONIA", Kind::Harmonia);

/// Where the paper shows nothing of other models.
pub const OWN: &[Row] = &[HARMONIA];

/// Additive models: those whose terms can be read.
pub const ADDITIVE: &[Row] = &[
    HARMONIA,
    Row::of("GNAN", Kind::Gnan),
    Row::of("G-NAMRFF", Kind::GNamrff),
    Row::of("GP-NAM", Kind::GpNam),
    Row::of("NAM", Kind::Nam),
    Row::of("NBM", Kind::Nbm),
];

impl Row {
    /// A kind of model with nothing but its own settings.
    pub const fn of(name: &'static str, kind: Kind) -> Row {
        Row { name, kind, set: &[] }
    }

    /// The settings of a preset by a recipe, those of the kind of model, then `more`, then those of the row.
    ///
    /// # Errors
    /// A setting that does not exist, or values that do not fit.
    pub fn config(&self, preset: &str, recipe: Recipe, more: &[String]) -> Result<Config> {
        let mut layers = Layers::new()?;
        let recipe = presets::lay(&mut layers, preset, recipe)?;
        layers.value("preset", preset, "a study")?;
        layers.value("recipe", recipe.name(), "a study")?;
        presets::lay_model(&mut layers, self.kind.name(), Some(preset))?;
        for assignment in more.iter().map(String::as_str).chain(self.set.iter().copied()) {
            layers.set(assignment)?;
        }
        layers.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_has_the_settings_of_its_kind_over_those_of_the_dataset() {
        let rate =
            |row: &Row, more: &[String]| row.config("synthetic", Recipe::Paper, more).unwrap().train.learning_rate;
        // In the synthetic study those of the paper's table have the same rate.
        assert!(ADDITIVE[..3].iter().all(|row| rate(row, &[]) == 5e-4));
        assert_eq!(rate(&ADDITIVE[1], &["train.learning_rate=0.5".into()]), 0.5);
        let gnan = ADDITIVE[1].config("synthetic", Recipe::Paper, &[]).unwrap();
        assert_eq!((gnan.model.kind, gnan.model.hidden), (Kind::Gnan, vec![16]));
    }
}

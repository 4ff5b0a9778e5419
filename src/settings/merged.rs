//! Which preset settings start from, and what is laid over it: the order of precedence is what the user says, over the preset, over
//! the defaults.

use super::presets::{self, Recipe};
use super::{Layers, own};
use crate::architecture::Kind;
use harmonia_graph::error::Result;

/// Layers of the preset that is named, or is called like the dataset, with `over` (what the user says) on top. Data that no preset
/// knows have the preset `unknown.0`; of `own`, `unknown.1` is what was chosen for the data, once they are there.
///
/// # Errors
/// A preset or a recipe that does not exist; anything `over` refuses.
pub fn merged(
    preset: Option<&str>,
    recipe: Option<&str>,
    (unknown, chosen): (Option<&'static str>, Option<&own::Choice>),
    over: &dyn Fn(&mut Layers) -> Result<()>,
) -> Result<Layers> {
    // The dataset decides the preset, so find it first, by the same precedence.
    let mut probe = Layers::new()?;
    over(&mut probe)?;
    let named = preset.map(String::from).or(Some(probe.text("preset")).filter(|name| !name.is_empty()));
    let kind = Kind::named(&probe.text("model.kind"))?;
    // What was tuned was tuned for HARMONIA: other models start from what was published.
    let of_kind = if kind == Kind::Harmonia { probe.text("recipe") } else { Recipe::Paper.name().into() };
    let recipe = Recipe::named(&recipe.map_or(of_kind, String::from))?;
    let preset = match named {
        Some(name) => Some(presets::named(&name)?.0),
        None => presets::find(&probe.text("data.dataset")).map(|(name, _)| name),
    };
    let preset = preset.or(unknown.filter(|_| recipe != Recipe::Paper || kind != Kind::Harmonia));
    let mut layers = Layers::new()?;
    let recipe = preset.map(|name| presets::lay(&mut layers, name, recipe)).transpose()?;
    // Nobody has published it.
    let recipe = recipe.filter(|_| preset != Some(own::NAME));
    if let Some(chosen) = chosen.filter(|_| preset == Some(own::NAME)) {
        layers.toml(&chosen.toml, "preset own")?;
    }
    if kind != Kind::Harmonia {
        presets::lay_model(&mut layers, kind.name(), preset)?;
    }
    over(&mut layers)?;
    layers.value("preset", preset.unwrap_or(""), "preset")?;
    layers.value("recipe", recipe.map_or("", Recipe::name), "recipe")?;
    Ok(layers)
}

//! Features that may only raise, or only lower, what is predicted: `model.monotone`.
//!
//! Kept by signs of parameters, and so exactly, on the whole line and whatever is rounded. Every hidden unit of an expert is given a
//! direction when it is drawn, s = + (it rises with x) or -: the weight from unit u to unit v has the sign s_u s_v, that from x
//! to u the sign s_u, and that from v to a basis the sign s_v. Every basis of every expert is then a sum of compositions of rising
//! functions, none of which falls anywhere, and with two hidden layers any rising function can be had (1 - relu(1 - x), cut at 0, is
//! a ramp). A feature that is to rise mixes bases by coefficients >= 0 and is read out with a weight >= 0, one that is to fall
//! by coefficients <= 0; gates are above 0, and hop weights and walks are not below. Other features mix rising
//! bases by coefficients of any sign, which makes any response there is. After every step, parameters of the wrong sign are
//! set to 0: what is trained, scored, explained and exported is one and the same ordinary model.

use crate::architecture::{HopWeights, Layout};
use crate::config::{Config, Initialisation, Monotone};
use crate::device::Device;
use crate::loss::Objective;
use crate::model::{calibrate_experts, initial_parameters};
use harmonia_graph::dataset::{Dataset, Scaling};
use harmonia_graph::error::{Error, Result, suggestion};

/// The signs that parameters of a run keep.
pub struct Signs {
    /// 1, -1, or 0 where any number will do; one per parameter.
    signs: Vec<f32>,
}

/// Refuses what could not be kept.
///
/// # Errors
/// A feature that there is not, several outputs, hop weights below 0, rows divided by their sums.
pub fn check(
    dataset: &Dataset,
    scaling: Option<&Scaling>,
    layout: &Layout,
    objective: Objective,
    config: &Config,
) -> Result<()> {
    let wanted = &config.model.monotone;
    if wanted.is_empty() {
        return Ok(());
    }
    let refused = |what: String| Err(Error::Config(format!("model.monotone {what}")));
    if layout.architecture.outputs != 1 || objective == Objective::Softmax {
        return refused(format!(
            "is for two classes or one number, of which a feature can raise one; this dataset has {} outputs",
            layout.architecture.outputs
        ));
    }
    match layout.architecture.hop_weights {
        HopWeights::Simplex | HopWeights::Absolute => {}
        HopWeights::Signed | HopWeights::Free => {
            return refused("needs hop weights that are not below 0: set model.hop_weights = absolute".into());
        }
    }
    if matches!(scaling, Some(Scaling::Rows)) {
        return refused(
            "cannot be kept where rows of X are divided by their sums, since then one feature changes all others: set \
             data.normalise = standardise"
                .into(),
        );
    }
    for Monotone { feature, .. } in wanted {
        if !dataset.feature_names.contains(feature) {
            let close = suggestion(feature, dataset.feature_names.iter().map(String::as_str));
            return refused(format!("names a feature `{feature}` that the dataset does not have{close}"));
        }
    }
    Ok(())
}

impl Signs {
    /// Of a run; none where no feature is told which way to go.
    pub fn of(dataset: &Dataset, layout: &Layout, config: &Config, seed: u64) -> Option<Signs> {
        if config.model.monotone.is_empty() {
            return None;
        }
        // The draws that the model starts from say which way hidden units go: a run that is resumed finds the same.
        let drawn = initial_parameters::<f32>(layout, config.init, seed);
        let sign = |value: f32| if value < 0.0 { -1.0 } else { 1.0 };
        let mut signs = vec![0.0; layout.len()];
        for layers in &layout.experts {
            let mut below = vec![1.0f32];
            for (l, layer) in layers.iter().enumerate() {
                let of_unit = |unit: usize| match l + 1 == layers.len() {
                    true => 1.0,
                    false => sign(drawn[layer.weight.start + unit * layer.inputs]),
                };
                let here: Vec<f32> = (0..layer.outputs).map(of_unit).collect();
                let rows = signs[layer.weight.clone()].chunks_exact_mut(layer.inputs).zip(&here);
                rows.for_each(|(row, unit)| row.iter_mut().zip(&below).for_each(|(to, from)| *to = unit * from));
                below = here;
            }
        }
        let bases = layout.architecture.bases;
        for Monotone { feature, rising } in &config.model.monotone {
            let Some(k) = dataset.feature_names.iter().position(|name| name == feature) else { continue };
            let way = if *rising { 1.0 } else { -1.0 };
            signs[layout.coefficients.start + k * bases..][..bases].fill(way);
            signs[layout.readout_weight.start + k] = 1.0;
        }
        Some(Signs { signs })
    }

    /// Gives fresh parameters their signs; sizes stay as they were drawn, and experts start at the level and slope they should.
    pub fn start(&self, parameters: &mut [f32], layout: &Layout, initialisation: Initialisation) {
        let give = |parameters: &mut [f32]| {
            for (value, sign) in parameters.iter_mut().zip(&self.signs).filter(|(_, sign)| **sign != 0.0) {
                *value = value.abs() * sign;
            }
        };
        give(parameters);
        calibrate_experts(parameters, layout, initialisation);
        // Rounding may have taken a basis that stays where it is for one that falls, and turned it.
        give(parameters);
    }

    /// A copy where parameters of the wrong sign are set to 0 after each step ([`Device::keep_signs`]).
    ///
    /// # Errors
    /// The device is out of memory.
    pub fn on<D: Device<Real = f32>>(&self, device: &D) -> Result<D::Buffer> {
        device.upload(&self.signs)
    }
}

/// What is kept, for people; nothing where there is nothing to keep.
pub fn line(config: &Config) -> Option<String> {
    let each = config.model.monotone.iter();
    let each: Vec<String> = each
        .map(|Monotone { feature, rising }| format!("{feature} never {}", if *rising { "lowers" } else { "raises" }))
        .collect();
    (!each.is_empty()).then(|| format!("monotone, exactly and everywhere: {} what is predicted", each.join(", ")))
}

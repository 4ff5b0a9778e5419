//! What the hop weights of a trained model do to slow and fast modes of its graph.

use crate::architecture::Spread;
use crate::device::Device;
use crate::device::cpu::Cpu;
use crate::diagnose::{Diagnosis, SpectralResponses};
use crate::model::FittedModel;
use harmonia_graph::dataset::{Dataset, Structure};
use harmonia_graph::error::{Error, Result};

/// Of every feature; `dataset` has the columns that the model reads, structural ones or not.
///
/// # Errors
/// The model has no walks, or reads other features.
pub fn responses(model: &FittedModel, dataset: &Dataset, diagnosis: &Diagnosis) -> Result<SpectralResponses> {
    let architecture = &model.layout.architecture;
    if architecture.spread() != Spread::Walks {
        return Err(Error::Data(format!(
            "hop weights are of walks, and a model of kind {} has none: diagnose the data without it",
            architecture.family.kind.name()
        )));
    }
    let own = model.structure.as_ref().map_or(architecture.features, Structure::features);
    let structural = dataset.structure.as_ref().map_or(dataset.features.cols, Structure::features);
    let (expected, found) = (own, structural);
    if expected != found {
        return Err(Error::Data(format!("the model reads {expected} features, the dataset has {found}")));
    }
    let parameters: Vec<f64> = model.parameters.iter().map(|&value| f64::from(value)).collect();
    let mut theta = vec![0.0; model.layout.hop_logits.len()];
    Cpu::<f64>::new().hop_weights_forward(&mut theta, &parameters, None, &model.layout)?;
    let span = diagnosis.spectrum.as_ref().and_then(|spectrum| {
        let (low, high) = (spectrum.lambda_min?.value, spectrum.lambda_2?.value);
        Some([if spectrum.alternating > 0 { -1.0 } else { low }, high])
    });
    let own = &dataset.feature_names;
    let structure = model.structure.as_ref().filter(|_| dataset.structure.is_none());
    let names = structure.map_or_else(|| own.clone(), |structure| structure.names(own));
    Ok(SpectralResponses::new(&theta, &names, span))
}

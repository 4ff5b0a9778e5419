//! Is what a model says of itself what the data were made of? Features and hops, edges and source nodes, each measured on a model and
//! on the generator by the same code.

mod black_box;
mod edges;
mod features;
mod lens;
mod nodes;
mod scores;

pub use black_box::{Answer, Examiner, Questions};
pub use edges::OfEdges;
pub use features::OfFeatures;
pub use lens::Lens;
pub use nodes::OfNodes;
pub use scores::centred_nrmse;

use super::world::World;
use crate::explain::Factors;
use crate::model::FittedModel;
use harmonia_data::synthetic::{FEATURES, INSTANCES, NODES, TEST_INSTANCES};
use harmonia_graph::error::{Error, Result};
use serde::{Deserialize, Serialize};
use std::ops::Range;

/// Nodes that are explained in every test instance.
pub const TARGETS: [usize; 2] = [0, 32];

/// The instances that are explained; fewer for a quick look.
pub fn test_instances(count: usize) -> Range<usize> {
    INSTANCES - TEST_INSTANCES..INSTANCES - TEST_INSTANCES + count.min(TEST_INSTANCES)
}

/// Everything about one trained model.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Measures {
    /// Which features matter, how, and from how far.
    pub features: OfFeatures,
    /// Which edges matter.
    pub edges: OfEdges,
    /// Which source nodes matter, and in which direction.
    pub nodes: OfNodes,
    /// Largest difference between the sum of terms and the engine's logit, over all targets.
    pub engine_gap: f64,
}

/// What a model reads behind the columns of X. A column of ones is the same whatever becomes of a graph; others are not.
///
/// # Errors
/// It reads something of the graph there.
pub fn constants(model: &FittedModel, world: &World) -> Result<Vec<f64>> {
    let Some(structure) = &model.structure else { return Ok(Vec::new()) };
    let read = structure.append(&world.dataset)?;
    let (x, cols) = (read.features.dense(), read.features.cols);
    let constants: Vec<f32> = x[FEATURES..cols].to_vec();
    match x.chunks_exact(cols).all(|row| row[FEATURES..] == constants) {
        true => Ok(constants.into_iter().map(f64::from).collect()),
        false => Err(Error::Config(
            "what becomes of structural columns without an edge is not measured: of data.structure only bias \
                                    can be set"
                .into(),
        )),
    }
}

/// Measures a trained model against the generator of its world, on the targets of some test instances.
///
/// # Errors
/// The model is not one of this world.
pub fn measure(model: &FittedModel, world: &World, instances: Range<usize>) -> Result<Measures> {
    let factors = Factors::of(model)?;
    let learned = Lens::with_constants(&factors, &world.topology, constants(model, world)?);
    let truth = Lens::new(&world.oracle, &world.topology);
    let outputs = factors.outputs();
    let engine = model.logits(&world.dataset)?;
    let of_engine = |node: usize| {
        let logits = &engine[node * outputs..][..outputs];
        f64::from(logits[outputs - 1]) - if outputs > 1 { f64::from(logits[0]) } else { 0.0 }
    };
    let mut engine_gap = 0f64;
    for instance in instances.clone() {
        let logits = learned.logits(world.instance(instance));
        for target in TARGETS {
            engine_gap = engine_gap.max((logits[target] - of_engine(instance * NODES + target)).abs());
        }
    }
    Ok(Measures {
        features: OfFeatures::of(&learned, &truth, world, instances.clone())?,
        edges: OfEdges::of(&learned, &truth, world, instances.clone()),
        nodes: OfNodes::of(&learned, &truth, world, instances),
        engine_gap,
    })
}

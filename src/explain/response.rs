//! What a feature says before the graph is asked: f_k, one function of one number for each feature.
//!
//! Explanations, means and curves see a model's responses through [`Response`] alone. A new kind is one file that
//! implements it, as [`Monb`] does, and a line in [`response_of`]. Invariant: nodes are evaluated [`LANES`] at a time, so
//! that a response is called through its table of methods once per block, never once per number.

use super::{Fourier, Monb, Shape};
use crate::architecture::Form;
use crate::model::FittedModel;
use harmonia_graph::dataset::Features;
use harmonia_graph::error::Result;
use std::any::Any;
use std::fmt::Debug;
use std::ops::Range;
use std::sync::Arc;

/// Nodes whose responses are evaluated together.
pub const LANES: usize = 64;

/// The responses of all features, as the model reads them: of standardised columns, standardised.
///
/// `Any`, so that who knows one kind can ask for what only that kind has, see [`super::Factors::monb`].
pub trait Response: Any + Debug + Send + Sync {
    /// d.
    fn features(&self) -> usize;

    /// f_k(x).
    fn value(&self, k: usize, x: f64) -> f64;

    /// f_k'(x); where f_k bends, that of the line which ends there.
    fn slope(&self, k: usize, x: f64) -> f64;

    /// f_k as the exact list of lines it is made of; none for a function that is not.
    fn knots(&self, k: usize) -> Option<Shape>;

    /// `responses[k][lane]` = f_k(`x[k][lane]`), for all features of a block of nodes. The same numbers as [`value`]'s.
    ///
    /// [`value`]: Response::value
    fn block(&self, responses: &mut [[f64; LANES]], x: &[[f32; LANES]]) {
        for (k, (responses, x)) in responses.iter_mut().zip(x).enumerate() {
            responses.iter_mut().zip(x).for_each(|(response, &x)| *response = self.value(k, f64::from(x)));
        }
    }
}

/// The responses of a trained model.
///
/// # Errors
/// Its parameters are not those of a model.
pub(super) fn response_of(model: &FittedModel) -> Result<Arc<dyn Response>> {
    Ok(match model.layout.architecture.form() {
        Form::Networks => Arc::new(Monb::of(model)?),
        Form::Fourier => Arc::new(Fourier::of(model)),
    })
}

/// Features and responses of a few nodes, d x LANES.
pub(super) struct Block {
    x: Vec<[f32; LANES]>,
    responses: Vec<[f64; LANES]>,
}

impl Block {
    pub fn new(features: usize) -> Block {
        // Lanes without a node are evaluated too: they must be numbers.
        Block { x: vec![[0.0; LANES]; features], responses: vec![[0.0; LANES]; features] }
    }

    /// Features of a node.
    pub fn set(&mut self, lane: usize, row: &[f32]) {
        self.x.iter_mut().zip(row).for_each(|(x, &value)| x[lane] = value);
    }

    /// `responses[k][lane]` = f_k of the nodes in the block.
    pub fn responses(&mut self, of: &dyn Response) -> &[[f64; LANES]] {
        of.block(&mut self.responses, &self.x);
        &self.responses
    }
}

/// Calls `visit(nodes, responses)` for all nodes of a range, a few at a time: `responses[k][lane]` is f_k of the node at
/// that place of `nodes`.
pub(super) fn each_block(
    response: &dyn Response,
    features: &Features,
    nodes: Range<usize>,
    mut visit: impl FnMut(Range<usize>, &[[f64; LANES]]),
) {
    let (mut block, mut scratch) = (Block::new(response.features()), Vec::new());
    for start in nodes.clone().step_by(LANES) {
        let nodes = start..nodes.end.min(start + LANES);
        nodes.clone().enumerate().for_each(|(lane, node)| block.set(lane, features.row(node, &mut scratch)));
        visit(nodes, block.responses(response));
    }
}

//! One pass of the model over a batch, forward and backward, written once for every device.
//!
//! Activations of a batch: responses F (n x d) and states H (n x d), each allocated once. H turns into dH and then
//! into dF in place, so training keeps two n x d matrices for any number of hops.

use crate::batch::Batch;
use crate::device::{Device, Dropout, Routing};
use crate::error::Result;
use crate::model::Layout;

/// What makes a training pass differ from a plain one.
pub struct Randomness<D: Device> {
    /// eps, d x C; none means zero.
    pub noise: Option<D::Buffer>,
    /// Dropout; none means off.
    pub dropout: Option<Dropout>,
}

impl<D: Device> Randomness<D> {
    /// No noise, no dropout: evaluation and gradient checks.
    pub fn none() -> Self {
        Randomness { noise: None, dropout: None }
    }
}

/// Buffers for passes over batches of one size.
pub struct Pass<'a, D: Device> {
    device: &'a D,
    layout: &'a Layout,
    nodes: usize,
    rows: usize,
    routing: Routing<D>,
    d_gates: D::Buffer,       // d x m
    hop_weights: D::Buffer,   // T x d
    d_hop_weights: D::Buffer, // T x d
    responses: D::Matrix,     // n x d: F
    state: D::Matrix,         // n x d: H, then dH, then dF
    logits: D::Buffer,        // rows x L
    d_logits: D::Buffer,      // rows x L
}

impl<'a, D: Device> Pass<'a, D> {
    /// Allocates for batches with this many nodes and logit rows.
    ///
    /// # Errors
    /// The device is out of memory.
    pub fn new(device: &'a D, layout: &'a Layout, nodes: usize, rows: usize) -> Result<Self> {
        let a = &layout.architecture;
        let slots = a.features * a.active;
        let routing =
            Routing { experts: device.indices(slots)?, gates: device.zeros(slots)?, noise_scale: device.zeros(slots)? };
        Ok(Pass {
            device,
            layout,
            nodes,
            rows,
            routing,
            d_gates: device.zeros(slots)?,
            hop_weights: device.zeros(a.hops * a.features)?,
            d_hop_weights: device.zeros(a.hops * a.features)?,
            responses: device.matrix(nodes, a.features)?,
            state: device.matrix(nodes, a.features)?,
            logits: device.zeros(rows * a.outputs)?,
            d_logits: device.zeros(rows * a.outputs)?,
        })
    }

    /// Whether the buffers fit a batch.
    pub fn fits(&self, batch: &Batch) -> bool {
        (self.nodes, self.rows) == (batch.transition.nodes(), batch.rows())
    }

    /// Logits of the batch.
    ///
    /// # Errors
    /// The device failed.
    pub fn forward(
        &mut self,
        inputs: &D::Inputs,
        parameters: &D::Buffer,
        randomness: &Randomness<D>,
    ) -> Result<&D::Buffer> {
        let (device, layout) = (self.device, self.layout);
        let dropout = randomness.dropout.as_ref();
        device.route_forward(&mut self.routing, parameters, randomness.noise.as_ref(), layout)?;
        device.hop_weights_forward(&mut self.hop_weights, parameters, layout)?;
        device.monb_forward(&mut self.responses, inputs, &self.routing, parameters, dropout, layout)?;
        device.propagate_forward(&mut self.state, &self.responses, &self.hop_weights, inputs)?;
        device.readout_forward(&mut self.logits, &self.state, parameters, inputs, layout)?;
        Ok(&self.logits)
    }

    /// Loss over the batch's targets, after `forward`.
    ///
    /// # Errors
    /// The device failed.
    pub fn loss(&mut self, inputs: &D::Inputs) -> Result<f64> {
        self.device.loss(&mut self.d_logits, &self.logits, inputs)
    }

    /// Adds the gradient of the loss, after `forward` and `loss` with the same arguments. H is gone afterwards.
    ///
    /// # Errors
    /// The device failed.
    pub fn backward(
        &mut self,
        gradient: &mut D::Buffer,
        inputs: &D::Inputs,
        parameters: &D::Buffer,
        randomness: &Randomness<D>,
    ) -> Result<()> {
        let (device, layout) = (self.device, self.layout);
        let (noise, dropout) = (randomness.noise.as_ref(), randomness.dropout.as_ref());
        let Pass { routing, d_gates, hop_weights, d_hop_weights, responses, state, d_logits, .. } = self;
        device.readout_backward(gradient, state, d_logits, parameters, inputs, layout)?;
        device.propagate_backward(state, d_hop_weights, responses, hop_weights, inputs)?;
        device.hop_weights_backward(gradient, d_hop_weights, hop_weights, parameters, layout)?;
        device.monb_backward(gradient, d_gates, state, inputs, routing, parameters, dropout, layout)?;
        device.route_backward(gradient, d_gates, routing, parameters, noise, layout)
    }

    /// Logits (rows x L) of the last `forward`.
    pub fn logits(&self) -> &D::Buffer {
        &self.logits
    }

    /// theta (T x d) of the last `forward`.
    pub fn hop_weights(&self) -> &D::Buffer {
        &self.hop_weights
    }

    /// H (n x d) of the last `forward`.
    pub fn state(&self) -> &D::Matrix {
        &self.state
    }

    /// F (n x d) of the last `forward`.
    pub fn responses(&self) -> &D::Matrix {
        &self.responses
    }
}

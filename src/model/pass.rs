//! One pass of the model over a batch, forward and backward, written once for every device.
//!
//! In feature space the activations of a batch are responses F (n x d) and states H (n x d), each allocated once. H turns
//! into dH and then into dF in place, so training keeps two n x d matrices for any number of hops. In class space they
//! are F, which turns into dF, and T states of n x L; where X comes in panels, F is that of one panel at a time. Which
//! space, and how F is evaluated, is the [`Plan`]'s choice.

use super::profile::Timed;
use crate::architecture::{Layout, Routes};
use crate::batch::{Batch, GraphSelection, Selection};
use crate::config::{DropoutPlace, Monb};
use crate::device::{Device, Dropout, Judgement, Responses, Routing};
use crate::plan::{Plan, Space};
use crate::real::Real;
use harmonia_graph::dataset::Values;
use harmonia_graph::error::{Error, Result};

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
    ops: Timed<'a, D>,
    plan: Plan,
    layout: &'a Layout,
    shape: Shape,
    routing: Routing<D>,
    d_gates: D::Buffer,           // d x m
    hop_basis: Option<D::Buffer>, // T x T; none where hop weights are learned as they are
    hop_weights: D::Buffer,       // T x d
    d_hop_weights: D::Buffer,     // T x d
    knots: Option<D::Knots>,      // experts compiled; none where they are evaluated directly
    verdict: D::Verdict,          // of the step at hand
    prediction: D::Verdict,       // of the last prediction
    responses: Responses<D>,      // n x d: F; in class space then dF
    states: States<D>,
    logits: D::Buffer,   // rows x L
    d_logits: D::Buffer, // rows x L
}

/// What responses of the last pass forward were made of.
pub(super) struct ResponseParts<'p, D: Device> {
    pub routing: &'p Routing<D>,
    pub d_gates: &'p mut D::Buffer,
    pub knots: Option<&'p mut D::Knots>,
    pub hop_weights: &'p D::Buffer,
    pub hop_basis: Option<&'p D::Buffer>,
}

/// The sizes of a batch that buffers follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Rows of X.
    nodes: usize,
    /// Rows of the logits.
    rows: usize,
    /// Non-zeros of X where it is held as sparse rows, which sparse responses are as many as.
    entries: Option<usize>,
}

impl From<&Batch> for Shape {
    fn from(batch: &Batch) -> Shape {
        let entries = match batch.features.values() {
            Values::Sparse(sparse) => Some(sparse.values.len()),
            Values::Dense(_) | Values::Half(_) => None,
        };
        Shape { nodes: batch.nodes(), rows: batch.rows(), entries }
    }
}

impl From<&Selection> for Shape {
    fn from(selection: &Selection) -> Shape {
        match selection {
            &Selection::Graphs(GraphSelection { nodes, rows, nonzeros, .. }) => {
                Shape { nodes, rows, entries: nonzeros }
            }
            Selection::Rows(table) => Shape { nodes: table.nodes(), rows: table.rows.len(), entries: None },
        }
    }
}

/// What is carried along walks.
enum States<D: Device> {
    /// n x d: H, then dH, then dF.
    Features(D::Matrix),
    /// T x n x L: G, then Y.
    Classes(D::Hops),
    /// rows x d: H, then dH.
    Table(D::Matrix),
}

impl<D: Device> States<D> {
    fn new(device: &D, layout: &Layout, plan: Plan, shape: Shape, inputs: &D::Inputs) -> Result<Self> {
        let features = layout.architecture.features;
        Ok(match plan.space {
            Space::Classes => States::Classes(device.hops(inputs, layout)?),
            Space::Features => States::Features(device.matrix(shape.nodes, features)?),
            Space::Table => States::Table(device.row_matrix(shape.rows, features)?),
        })
    }
}

impl<'a, D: Device> Pass<'a, D> {
    /// Allocates for batches of the size of this one.
    ///
    /// # Errors
    /// The device is out of memory.
    pub fn new(
        device: &'a D,
        layout: &'a Layout,
        plan: Plan,
        shape: impl Into<Shape>,
        inputs: &D::Inputs,
    ) -> Result<Self> {
        let (a, shape) = (&layout.architecture, shape.into());
        let slots = a.features * a.active;
        // What is not learned never changes: gates and hop weights of one, and the only expert.
        let constant = |learned: bool, size: usize| match learned {
            true => device.zeros(size),
            false => device.upload(&vec![D::Real::from_f64(1.0); size]),
        };
        let gates = constant(a.routes() == Routes::Learned, slots)?;
        let routing = Routing { experts: device.indices(slots)?, gates, noise_scale: device.zeros(slots)? };
        Ok(Pass {
            device,
            ops: Timed::new(device),
            plan,
            layout,
            shape,
            routing,
            d_gates: device.zeros(slots)?,
            hop_basis: layout.hop_basis.as_ref().map(|basis| upload(device, basis)).transpose()?,
            hop_weights: constant(!layout.hop_logits.is_empty(), a.hops * a.features)?,
            d_hop_weights: device.zeros(a.hops * a.features)?,
            knots: if plan.monb == Monb::Knots { Some(device.knots(layout)?) } else { None },
            verdict: device.verdict()?,
            prediction: device.verdict()?,
            responses: device.responses(inputs, layout, plan.space != Space::Features)?,
            states: States::new(device, layout, plan, shape, inputs)?,
            logits: device.zeros(shape.rows * a.outputs)?,
            d_logits: device.zeros(shape.rows * a.outputs)?,
        })
    }

    /// For batches of the size of another one. What does not fit is freed first; what is known of steps under way stays.
    ///
    /// # Errors
    /// The device is out of memory.
    pub fn refitted(self, shape: impl Into<Shape>, inputs: &D::Inputs) -> Result<Self> {
        let shape = shape.into();
        if self.shape == shape {
            return Ok(self);
        }
        let Pass { device, layout, plan, responses, states, logits, d_logits, .. } = self;
        drop((responses, states, logits, d_logits));
        let outputs = layout.architecture.outputs;
        Ok(Pass {
            shape,
            responses: device.responses(inputs, layout, plan.space != Space::Features)?,
            states: States::new(device, layout, plan, shape, inputs)?,
            logits: device.zeros(shape.rows * outputs)?,
            d_logits: device.zeros(shape.rows * outputs)?,
            ..self
        })
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
        self.forward_of(None, inputs, parameters, randomness)
    }

    /// Logits of the rows of a scope, the same bits as [`Pass::forward`] has there; what other rows hold means nothing.
    ///
    /// # Errors
    /// The device failed.
    pub fn forward_of(
        &mut self,
        scope: Option<&D::Scope>,
        inputs: &D::Inputs,
        parameters: &D::Buffer,
        randomness: &Randomness<D>,
    ) -> Result<&D::Buffer> {
        let layout = self.layout;
        let (noise, dropout) = (randomness.noise.as_ref(), randomness.dropout.as_ref());
        let Pass { device, routing, hop_basis, hop_weights, knots, verdict, responses, states, logits, ops, .. } = self;
        ops.route_forward(routing, parameters, noise, layout)?;
        ops.hop_weights_forward(hop_weights, parameters, hop_basis.as_ref(), layout)?;
        if let Some(knots) = knots {
            let scale = dropout.filter(|dropout| dropout.place == DropoutPlace::Input).map(|dropout| dropout.scale());
            device.expect_values(knots, inputs, scale, layout);
            ops.knots_compile(verdict, knots, routing, parameters, layout)?;
        }
        // Where X comes in panels, F is that of the last of them: all that is needed of one is projected while it is there.
        for at in 0..device.panels(inputs) {
            device.open_panel(inputs, at)?;
            match knots {
                Some(knots) => ops.knots_forward(responses, knots, inputs, dropout, layout)?,
                None => ops.monb_forward(responses, inputs, routing, parameters, dropout, layout)?,
            }
            if let States::Classes(hops) = states {
                ops.project_forward(hops, responses, hop_weights, parameters, inputs, layout)?;
            }
        }
        device.close_panels(inputs)?;
        match states {
            States::Classes(hops) => {
                ops.walk_forward(logits, hops, parameters, inputs, scope, layout)?;
            }
            States::Features(state) => {
                let responses = dense(responses)?;
                ops.propagate_forward(state, responses, hop_weights, inputs, scope)?;
                ops.readout_forward(logits, state, parameters, inputs, layout)?;
            }
            States::Table(state) => {
                ops.table_forward(state, dense(responses)?, hop_weights, inputs)?;
                ops.readout_forward(logits, state, parameters, inputs, layout)?;
            }
        }
        Ok(&self.logits)
    }

    /// As [`Pass::forward_of`] without noise or dropout, with a verdict of its own: steps may be under way.
    ///
    /// # Errors
    /// The device failed.
    pub fn predict_of(
        &mut self,
        scope: Option<&D::Scope>,
        inputs: &D::Inputs,
        parameters: &D::Buffer,
    ) -> Result<&D::Buffer> {
        std::mem::swap(&mut self.verdict, &mut self.prediction);
        let done = self.forward_of(scope, inputs, parameters, &Randomness::none()).map(drop);
        std::mem::swap(&mut self.verdict, &mut self.prediction);
        done?;
        Ok(&self.logits)
    }

    /// Has what is known of the last prediction sent on its way; nobody waits.
    ///
    /// # Errors
    /// The device failed.
    pub fn post_prediction(&mut self) -> Result<()> {
        self.device.post(&mut self.prediction)
    }

    /// Whether the tables of the prediction that was posted were large enough: waits for it. If not, they are from here on.
    ///
    /// # Errors
    /// The device failed.
    pub fn had_room(&mut self) -> Result<bool> {
        let Pass { device, layout, knots, prediction, .. } = self;
        let judgement = device.collect(prediction)?;
        if let (true, Some(knots)) = (judgement.crowded, knots) {
            device.make_room(knots, judgement.pieces, layout)?;
            device.resume(prediction)?;
        }
        Ok(!judgement.crowded)
    }

    /// Loss over the batch's targets, after `forward`: waits for it.
    ///
    /// # Errors
    /// The device failed.
    pub fn loss(&mut self, inputs: &D::Inputs) -> Result<f64> {
        self.take_loss(inputs)?;
        Ok(self.judgement()?.loss)
    }

    /// The same, for whoever asks for the verdict later.
    ///
    /// # Errors
    /// The device failed.
    pub fn take_loss(&mut self, inputs: &D::Inputs) -> Result<()> {
        let Pass { ops, verdict, d_logits, logits, .. } = self;
        ops.loss(verdict, d_logits, logits, inputs)
    }

    /// The same of logits that are not those of this pass; where they come from, its own will be put by
    /// [`Pass::set_d_logits`].
    ///
    /// # Errors
    /// The device failed.
    pub fn take_loss_of(&mut self, d_logits: &mut D::Buffer, logits: &D::Buffer, inputs: &D::Inputs) -> Result<()> {
        self.ops.loss(&mut self.verdict, d_logits, logits, inputs)
    }

    /// The gradient by some rows of the logits (rows x `width`); that by all others is zero.
    ///
    /// # Errors
    /// The device failed.
    pub fn set_d_logits(&mut self, rows: &[u32], width: usize, values: &[D::Real]) -> Result<()> {
        self.device.clear(&mut self.d_logits)?;
        self.device.write_rows(&mut self.d_logits, rows, width, values)
    }

    /// What is known of the pass once everything that was asked for is done.
    ///
    /// # Errors
    /// The device failed.
    pub fn judgement(&mut self) -> Result<Judgement> {
        self.device.judgement(&mut self.verdict)
    }

    /// Has the verdict sent on its way; see [`Device::post`].
    ///
    /// # Errors
    /// The device failed.
    pub fn post(&mut self) -> Result<()> {
        self.device.post(&mut self.verdict)
    }

    /// The oldest verdict that was posted; see [`Device::collect`].
    ///
    /// # Errors
    /// The device failed.
    pub fn collect(&mut self) -> Result<Judgement> {
        self.device.collect(&mut self.verdict)
    }

    /// After a verdict that tables were too small: makes them larger and ends the halt.
    ///
    /// # Errors
    /// The device is out of memory.
    pub fn make_room(&mut self, pieces: usize) -> Result<()> {
        let Pass { device, layout, knots, verdict, .. } = self;
        if let Some(knots) = knots {
            device.make_room(knots, pieces, layout)?;
        }
        device.resume(verdict)
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
        self.backward_from(None, gradient, inputs, parameters, randomness)
    }

    /// The same bits from a scope that holds every target of the batch.
    ///
    /// # Errors
    /// The device failed.
    pub fn backward_from(
        &mut self,
        scope: Option<&D::Scope>,
        gradient: &mut D::Buffer,
        inputs: &D::Inputs,
        parameters: &D::Buffer,
        randomness: &Randomness<D>,
    ) -> Result<()> {
        let layout = self.layout;
        let (noise, dropout) = (randomness.noise.as_ref(), randomness.dropout.as_ref());
        let Pass {
            device, routing, d_gates, hop_weights, d_hop_weights, knots, responses, states, d_logits, ops, ..
        } = self;
        let basis = self.hop_basis.as_ref();
        match states {
            States::Classes(hops) => {
                let d_theta = &mut *d_hop_weights;
                ops.walk_backward(gradient, hops, d_logits, inputs, scope, layout)?;
                let panels = device.panels(inputs);
                for at in 0..panels {
                    device.open_panel(inputs, at)?;
                    // The panels behind it have taken the place of its F; hidden units are not dropped, for pieces have none.
                    if let (Some(knots), 2..) = (&*knots, panels) {
                        ops.knots_forward(responses, knots, inputs, dropout, layout)?;
                    }
                    ops.project_backward(gradient, d_theta, responses, hops, hop_weights, parameters, inputs, layout)?;
                    // Sums go on from panel to panel: the last is the turn of what follows.
                    if let (Some(knots), true) = (knots.as_mut(), at + 1 < panels) {
                        let (to, of) = (&mut *gradient, &*responses);
                        ops.knots_backward(to, d_gates, of, knots, inputs, routing, parameters, dropout, layout)?;
                    }
                }
            }
            States::Features(state) => {
                let Responses::Dense(responses) = responses else { return Err(sparse_features()) };
                ops.readout_backward(gradient, state, d_logits, parameters, inputs, layout)?;
                ops.propagate_backward(state, d_hop_weights, responses, hop_weights, inputs, scope)?;
                // F is of no more use: what follows reads the gradient in its place.
                std::mem::swap(responses, state);
            }
            States::Table(state) => {
                let Responses::Dense(responses) = responses else { return Err(sparse_features()) };
                ops.readout_backward(gradient, state, d_logits, parameters, inputs, layout)?;
                ops.table_backward(responses, d_hop_weights, state, hop_weights, inputs)?;
            }
        }
        ops.hop_weights_backward(gradient, d_hop_weights, hop_weights, parameters, basis, layout)?;
        match knots {
            Some(knots) => {
                ops.knots_backward(gradient, d_gates, responses, knots, inputs, routing, parameters, dropout, layout)?
            }
            None => ops.monb_backward(gradient, d_gates, responses, inputs, routing, parameters, dropout, layout)?,
        }
        device.close_panels(inputs)?;
        ops.route_backward(gradient, d_gates, routing, parameters, noise, layout)
    }

    /// What responses of the last pass forward were made of, for whoever wants them elsewhere too.
    pub(super) fn response_parts(&mut self) -> ResponseParts<'_, D> {
        let Pass { routing, d_gates, knots, hop_weights, hop_basis, .. } = self;
        ResponseParts { routing, d_gates, knots: knots.as_mut(), hop_weights, hop_basis: hop_basis.as_ref() }
    }

    /// The ops, with the profile that is kept of them: for updates of parameters, which are no part of a pass.
    pub fn ops(&mut self) -> &mut Timed<'a, D> {
        &mut self.ops
    }

    /// The ops, and the verdict that they read and write.
    pub fn ops_and_verdict(&mut self) -> (&mut Timed<'a, D>, &mut D::Verdict) {
        (&mut self.ops, &mut self.verdict)
    }

    /// Logits (rows x L) of the last `forward`.
    pub fn logits(&self) -> &D::Buffer {
        &self.logits
    }

    /// theta (T x d) of the last `forward`.
    pub fn hop_weights(&self) -> &D::Buffer {
        &self.hop_weights
    }

    /// H (n x d) of the last `forward`; none in class space, which never has it.
    pub fn state(&self) -> Option<&D::Matrix> {
        match &self.states {
            States::Features(state) | States::Table(state) => Some(state),
            States::Classes(_) => None,
        }
    }

    /// F of the last `forward`.
    pub fn responses(&self) -> &Responses<D> {
        &self.responses
    }
}

fn upload<D: Device>(device: &D, values: &[f64]) -> Result<D::Buffer> {
    device.upload(&values.iter().map(|&value| D::Real::from_f64(value)).collect::<Vec<_>>())
}

fn dense<D: Device>(responses: &Responses<D>) -> Result<&D::Matrix> {
    match responses {
        Responses::Dense(matrix) => Ok(matrix),
        Responses::Sparse(_) => Err(sparse_features()),
    }
}

/// No plan leads here.
fn sparse_features() -> Error {
    Error::Device("sparse responses cannot be propagated feature by feature; set engine.sparse = off".into())
}

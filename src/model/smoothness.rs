//! A penalty on responses that bend, `train.smoothness`.
//!
//! Of feature k, at points g_0 < ... < g_n close where its values are (all of them where they are few), with s_k the squared size
//! of its effect,
//!
//! ```text
//! P   = smoothness * sum_k s_k sum_q r_kq^2                       q = 1 .. n-1
//! r_kq = 2 n (f_k(g_q) - the line from f_k(g_q-1) to f_k(g_q+1), at g_q)
//! s_k = sum_c w_kc^2, with free hop weights times sum_t theta_tk^2
//! ```
//!
//! Where points are evenly spaced, r is the change of slope at a point, per range of the feature: a straight line costs nothing, one
//! kink costs its square, and many small ones cost less. It is in logits, whatever the units of the feature, and no rescaling of
//! responses against weights escapes it. A feature of two values has no r. Responses are those of the step, routing noise
//! included, without dropout; evaluated and differentiated are they by the device's own ops, at n + 1 rows that are no nodes. What
//! lies between is the device's too ([`Device::bend`]): a step asks for all of it and reads nothing.

use super::pass::Pass;
use crate::architecture::{HopWeights, Layout};
use crate::batch::{Batch, Reach};
use crate::device::{Bends, Device, Responses};
use crate::loss::{Objective, Targets};
use crate::plan::{Plan, Space, Streamed};
use crate::real::Real;
use harmonia_graph::dataset::{Features, Level};
use harmonia_graph::error::{Error, Result};
use harmonia_graph::graph::{Direction, Graph, Transition, Walk};
use harmonia_graph::walk_table::Grid;
use std::sync::Arc;

/// Points of a feature, at most.
pub const POINTS: usize = 17;

/// The points of every feature, on a device.
pub struct Smoothness<'a, D: Device> {
    device: &'a D,
    layout: &'a Layout,
    inputs: D::Inputs,
    /// F at the points, then dF.
    responses: Responses<D>,
    bends: Bends<D>,
}

impl<'a, D: Device> Smoothness<'a, D> {
    /// Points by the values of X as training sees them; the plan of steps says how responses are evaluated.
    ///
    /// # Errors
    /// The device is out of memory.
    pub fn new(device: &'a D, layout: &'a Layout, plan: Plan, x: &Features, strength: f64) -> Result<Self> {
        let grid = Grid::of(x, POINTS);
        let (rows, d) = (grid.most(), layout.architecture.features);
        let (mut values, mut counts) = (vec![0f32; rows * d], Vec::with_capacity(d));
        for k in 0..d {
            let points = grid.points(k);
            // A feature with fewer points than others repeats its last: nothing asks for those.
            (0..rows).for_each(|q| values[q * d + k] = points[q.min(points.len() - 1)]);
            counts.push(D::Real::from_f64(points.len() as f64));
        }
        let points: Vec<D::Real> = values.iter().map(|&x| D::Real::from_f64(f64::from(x))).collect();
        let bends = Bends {
            strength,
            points: device.upload(&points)?,
            counts: device.upload(&counts)?,
            penalties: device.zeros(d)?,
            d_hop_weights: device.zeros(layout.architecture.hops * d)?,
        };
        let alone = Graph::from_edges(rows, &[], None, Direction::Undirected)?;
        let batch = Batch {
            reach: Reach::Walk(Arc::new(Transition::new(&alone, Walk::default()))),
            features: Arc::new(Features::new(rows, d, values)?),
            graph_ptr: vec![0, rows],
            level: Level::Node,
            objective: Objective::Sigmoid,
            outputs: layout.architecture.outputs,
            targets: Targets::Codes(Vec::new()),
            weights: None,
            units: Vec::new(),
            streamed: Streamed::NOTHING,
            part: None,
        };
        let inputs = device.inputs(&batch, Plan { space: Space::Features, sparse: false, ..plan })?;
        let responses = device.responses(&inputs, layout, false)?;
        Ok(Smoothness { device, layout, inputs, responses, bends })
    }

    /// Adds the gradient of the penalty, after a pass forward or backward with the same parameters and noise.
    ///
    /// # Errors
    /// The device failed.
    pub fn add(
        &mut self,
        pass: &mut Pass<'a, D>,
        gradient: &mut D::Buffer,
        parameters: &D::Buffer,
        noise: Option<&D::Buffer>,
    ) -> Result<()> {
        let (device, layout) = (self.device, self.layout);
        let parts = pass.response_parts();
        match parts.knots {
            Some(ref knots) => device.knots_forward(&mut self.responses, knots, &self.inputs, None, layout)?,
            None => {
                device.monb_forward(&mut self.responses, &self.inputs, parts.routing, parameters, None, layout)?;
            }
        }
        let Responses::Dense(responses) = &mut self.responses else { return Err(sparse()) };
        device.bend(&mut self.bends, responses, gradient, parts.hop_weights, parameters, layout)?;
        let (of, inputs, routing, d_gates) = (&self.responses, &self.inputs, parts.routing, parts.d_gates);
        match parts.knots {
            Some(knots) => {
                device.knots_backward(gradient, d_gates, of, knots, inputs, routing, parameters, None, layout)?;
            }
            None => device.monb_backward(gradient, d_gates, of, inputs, routing, parameters, None, layout)?,
        }
        device.route_backward(gradient, d_gates, routing, parameters, noise, layout)?;
        if layout.architecture.hop_weights == HopWeights::Free {
            let d_theta = &self.bends.d_hop_weights;
            device.hop_weights_backward(gradient, d_theta, parts.hop_weights, parameters, parts.hop_basis, layout)?;
        }
        Ok(())
    }

    /// What was added last: waits for it.
    ///
    /// # Errors
    /// The device failed.
    pub fn penalty(&self) -> Result<f64> {
        Ok(self.device.download(&self.bends.penalties)?.into_iter().map(Real::widen).sum())
    }
}

/// No plan leads here.
fn sparse() -> Error {
    Error::Device("the points that smoothness looks at are dense".into())
}

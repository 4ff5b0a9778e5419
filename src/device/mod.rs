//! Where the arithmetic happens: one trait, one method an op.
//!
//! [`crate::model`] writes the forward and backward pass once over [`Device`]. The native CPU implementation is
//! [`cpu::Cpu`]; [`launcher::Launcher`] runs the CUDA kernels, on a GPU ([`cuda`]) or on the CPU ([`host`]).
//!
//! Convention for all ops: outputs first, then inputs, then sizes. Parameter gradients are added to (`+=`), activations
//! are overwritten (`=`).

pub mod cpu;
pub mod cuda;
pub mod gemm;
pub mod host;
pub mod launcher;
mod real;
pub mod resources;

use crate::batch::Batch;
use crate::error::Result;
use crate::model::{BatchSizes, Layout, Plan};
use crate::seed::Stream;
pub use real::Real;

/// Where dropout acts while training.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DropoutPlace {
    /// Nowhere.
    None,
    /// Entries of X: zero with probability p, else scaled by 1 / (1 - p).
    #[default]
    Input,
    /// Whole responses: f_k is zero for every node with probability p, else scaled by 1 / (1 - p).
    Feature,
    /// Hidden units of the experts, separately for every node and feature.
    Hidden,
}

/// Dropout of one training step. Masks are a function of the stream, so the backward pass sees the same ones.
#[derive(Clone, Copy, Debug)]
pub struct Dropout {
    /// Where.
    pub place: DropoutPlace,
    /// Probability of dropping, in [0, 1).
    pub rate: f64,
    /// Source of the masks.
    pub stream: Stream,
}

impl Dropout {
    /// Whether entry `index` is dropped.
    #[inline(always)]
    pub fn drops(&self, index: u64) -> bool {
        self.stream.bits(index) < self.threshold()
    }

    /// Words of the stream below this drop their entry.
    #[inline(always)]
    pub fn threshold(&self) -> u32 {
        (self.rate * 4_294_967_296.0) as u32
    }

    /// What a kept entry is multiplied by.
    pub fn scale(&self) -> f64 {
        1.0 / (1.0 - self.rate)
    }
}

/// Which experts each feature uses, and how strongly; m slots a feature.
pub struct Routing<D: Device + ?Sized> {
    /// Chosen expert of each slot, d x m, best first.
    pub experts: D::Indices,
    /// pi: sigmoid(Q) of each slot, d x m.
    pub gates: D::Buffer,
    /// sigmoid(N) of each slot, d x m; the scale of the routing noise.
    pub noise_scale: D::Buffer,
}

/// F of a batch, and later its gradient.
pub enum Responses<D: Device + ?Sized> {
    /// Every entry, n x d.
    Dense(D::Matrix),
    /// X is sparse: d constants, then one value a non-zero of X, column by column. As F: f_k(0), and f_k(x) - f_k(0). As
    /// its gradient: the sum of dF over a whole column, and dF of each non-zero.
    Sparse(D::Buffer),
}

/// One Adam step.
#[derive(Clone, Copy, Debug)]
pub struct AdamStep {
    /// Step size of this step.
    pub learning_rate: f64,
    /// Added to the gradient (Adam) or taken off the parameter directly (AdamW).
    pub weight_decay: f64,
    /// AdamW.
    pub decoupled: bool,
    /// 1 for the first step.
    pub step: u64,
    /// Factor on the gradient: 1, or less where its norm is clipped.
    pub gradient_scale: f64,
}

/// Decay of the first-moment average.
pub const ADAM_BETA1: f64 = 0.9;
/// Decay of the second-moment average.
pub const ADAM_BETA2: f64 = 0.999;
/// Keeps the division finite.
pub const ADAM_EPSILON: f64 = 1e-8;
/// Keeps hop weights defined where every hop logit is zero.
pub const HOP_EPSILON: f64 = 1e-8;

/// The ops of a training step.
pub trait Device: Sync {
    /// f32, or f64 to check gradients.
    type Real: Real;
    /// A flat array.
    type Buffer: Send + Sync;
    /// A flat array of small integers.
    type Indices: Send + Sync;
    /// A nodes x features matrix, in whatever layout suits the device.
    type Matrix: Send + Sync;
    /// A [`Batch`] made resident: walk, features, graph offsets and targets.
    type Inputs: Send + Sync;
    /// Experts compiled to pieces, and the pieces of every response.
    type Knots: Send + Sync;
    /// The T states of class space, n x L each.
    type Hops: Send + Sync;

    /// For people.
    fn name(&self) -> String;
    /// Whether batches are copied to the device, so that a plan counts them twice.
    fn copies(&self) -> bool;
    /// Free bytes of the device's own memory; `None` where it works in the host's.
    fn free_bytes(&self) -> Result<Option<usize>>;
    /// Makes a batch resident in the form a plan works on.
    fn inputs(&self, batch: &Batch, plan: Plan) -> Result<Self::Inputs>;
    /// Gives resident inputs the targets of `batch`, which has the same nodes.
    fn retarget(&self, inputs: &mut Self::Inputs, batch: &Batch) -> Result<()>;
    /// Copies to the device.
    fn upload(&self, values: &[Self::Real]) -> Result<Self::Buffer>;
    /// A zeroed array.
    fn zeros(&self, length: usize) -> Result<Self::Buffer>;
    /// Sets every element to zero.
    fn clear(&self, buffer: &mut Self::Buffer) -> Result<()>;
    /// Zeroed indices.
    fn indices(&self, length: usize) -> Result<Self::Indices>;
    /// A zeroed matrix.
    fn matrix(&self, nodes: usize, features: usize) -> Result<Self::Matrix>;
    /// Room for F of a batch, in the form of its inputs; `rows`: with contiguous rows, as class space wants it.
    fn responses(&self, inputs: &Self::Inputs, layout: &Layout, rows: bool) -> Result<Responses<Self>>;
    /// Room for compiled experts.
    fn knots(&self, layout: &Layout) -> Result<Self::Knots>;
    /// Room for the states of class space.
    fn hops(&self, inputs: &Self::Inputs, layout: &Layout) -> Result<Self::Hops>;
    /// Overwrites a buffer with as many values.
    fn write(&self, buffer: &mut Self::Buffer, values: &[Self::Real]) -> Result<()>;
    /// Copies back into memory that is there; lengths are equal.
    fn read(&self, values: &mut [Self::Real], buffer: &Self::Buffer) -> Result<()>;
    /// Copies a row-major matrix to the device.
    fn upload_matrix(&self, values: &[Self::Real], features: usize) -> Result<Self::Matrix>;
    /// Copies back.
    fn download(&self, buffer: &Self::Buffer) -> Result<Vec<Self::Real>>;
    /// Copies some rows of a rows x `width` array back, in the given order.
    fn read_rows(&self, values: &mut Vec<Self::Real>, buffer: &Self::Buffer, width: usize, rows: &[u32]) -> Result<()> {
        let all = self.download(buffer)?;
        values.clear();
        values.extend(rows.iter().flat_map(|&row| &all[row as usize * width..][..width]));
        Ok(())
    }
    /// Copies a matrix back, row-major.
    fn download_matrix(&self, matrix: &Self::Matrix) -> Result<Vec<Self::Real>>;
    /// Bytes of working memory the ops use beside the buffers of the model, for a memory plan.
    fn scratch_bytes(&self, batch: &BatchSizes, layout: &Layout, plan: Plan) -> usize;

    /// Q = e Wg + noise * sigmoid(e Wn); top m of each row (ties: lower expert); gate = sigmoid(Q).
    fn route_forward(
        &self,
        routing: &mut Routing<Self>,
        parameters: &Self::Buffer,
        noise: Option<&Self::Buffer>,
        layout: &Layout,
    ) -> Result<()>;

    /// Gradients of embeddings and router from d_gates (d x m).
    fn route_backward(
        &self,
        gradient: &mut Self::Buffer,
        d_gates: &Self::Buffer,
        routing: &Routing<Self>,
        parameters: &Self::Buffer,
        noise: Option<&Self::Buffer>,
        layout: &Layout,
    ) -> Result<()>;

    /// theta (T x d) from hop logits.
    fn hop_weights_forward(
        &self,
        hop_weights: &mut Self::Buffer,
        parameters: &Self::Buffer,
        layout: &Layout,
    ) -> Result<()>;

    /// Gradient of hop logits from d_hop_weights (T x d).
    fn hop_weights_backward(
        &self,
        gradient: &mut Self::Buffer,
        d_hop_weights: &Self::Buffer,
        hop_weights: &Self::Buffer,
        parameters: &Self::Buffer,
        layout: &Layout,
    ) -> Result<()>;

    /// `F[i,k] = a_k . sum over slots of gate * psi_expert(x[i,k])`.
    fn monb_forward(
        &self,
        responses: &mut Responses<Self>,
        inputs: &Self::Inputs,
        routing: &Routing<Self>,
        parameters: &Self::Buffer,
        dropout: Option<&Dropout>,
        layout: &Layout,
    ) -> Result<()>;

    /// Gradients of experts and coefficients, and d_gates (d x m), from dF. Activations are recomputed.
    #[allow(clippy::too_many_arguments)] // what a kernel launch takes
    fn monb_backward(
        &self,
        gradient: &mut Self::Buffer,
        d_gates: &mut Self::Buffer,
        d_responses: &Responses<Self>,
        inputs: &Self::Inputs,
        routing: &Routing<Self>,
        parameters: &Self::Buffer,
        dropout: Option<&Dropout>,
        layout: &Layout,
    ) -> Result<()>;

    /// Compiles the experts to pieces, and merges those of its slots into one table of lines a feature.
    fn knots_compile(
        &self,
        knots: &mut Self::Knots,
        routing: &Routing<Self>,
        parameters: &Self::Buffer,
        layout: &Layout,
    ) -> Result<()>;

    /// As `monb_forward`, by looking up the piece of each x. Hidden units cannot be dropped.
    fn knots_forward(
        &self,
        responses: &mut Responses<Self>,
        knots: &Self::Knots,
        inputs: &Self::Inputs,
        dropout: Option<&Dropout>,
        layout: &Layout,
    ) -> Result<()>;

    /// As `monb_backward`, from the sums of g and g x over each piece.
    #[allow(clippy::too_many_arguments)] // what a kernel launch takes
    fn knots_backward(
        &self,
        gradient: &mut Self::Buffer,
        d_gates: &mut Self::Buffer,
        d_responses: &Responses<Self>,
        knots: &mut Self::Knots,
        inputs: &Self::Inputs,
        routing: &Routing<Self>,
        parameters: &Self::Buffer,
        dropout: Option<&Dropout>,
        layout: &Layout,
    ) -> Result<()>;

    /// Class space: G_t = F (theta_t (*) Wo) for every t.
    #[allow(clippy::too_many_arguments)] // what a kernel launch takes
    fn project_forward(
        &self,
        hops: &mut Self::Hops,
        responses: &Responses<Self>,
        hop_weights: &Self::Buffer,
        parameters: &Self::Buffer,
        inputs: &Self::Inputs,
        layout: &Layout,
    ) -> Result<()>;

    /// Class space, after `walk_backward`: `responses` = F turns into dF = sum over t of Y_t (theta_t (*) Wo)^T. With
    /// S_t = F^T Y_t: dWo += sum over t of theta_t (*) S_t, `d_hop_weights[t,k] = <Wo[k,:], S_t[k,:]>`.
    #[allow(clippy::too_many_arguments)] // what a kernel launch takes
    fn project_backward(
        &self,
        gradient: &mut Self::Buffer,
        d_hop_weights: &mut Self::Buffer,
        responses: &mut Responses<Self>,
        hops: &mut Self::Hops,
        hop_weights: &Self::Buffer,
        parameters: &Self::Buffer,
        inputs: &Self::Inputs,
        layout: &Layout,
    ) -> Result<()>;

    /// Class space: logits = beta + G_0 + M (G_1 + M (G_2 + ...)), or beta + sum over the nodes and hops of a graph of
    /// `v_t[j] G_t[j]`. The G_t are gone afterwards.
    fn walk_forward(
        &self,
        logits: &mut Self::Buffer,
        hops: &mut Self::Hops,
        parameters: &Self::Buffer,
        inputs: &Self::Inputs,
        layout: &Layout,
    ) -> Result<()>;

    /// Class space: Y_0 = dlogits, Y_{t+1} = M^T Y_t, or `Y_t[j] = v_t[j] dlogits` of its graph; dbeta += column sums of dlogits.
    fn walk_backward(
        &self,
        gradient: &mut Self::Buffer,
        hops: &mut Self::Hops,
        d_logits: &Self::Buffer,
        inputs: &Self::Inputs,
        layout: &Layout,
    ) -> Result<()>;

    /// H = sum over t of theta_t (*) M^t F, one hop at a time.
    fn propagate_forward(
        &self,
        state: &mut Self::Matrix,
        responses: &Self::Matrix,
        hop_weights: &Self::Buffer,
        inputs: &Self::Inputs,
    ) -> Result<()>;

    /// In: `gradient` = dH. Out: `gradient` = dF = sum over t of theta_t (*) (M^T)^t dH, and
    /// `d_hop_weights[t,k] = <F[:,k], ((M^T)^t dH)[:,k]>`. No forward state but F is needed.
    fn propagate_backward(
        &self,
        gradient: &mut Self::Matrix,
        d_hop_weights: &mut Self::Buffer,
        responses: &Self::Matrix,
        hop_weights: &Self::Buffer,
        inputs: &Self::Inputs,
    ) -> Result<()>;

    /// logits = beta + H Wo, summed over each graph for graph tasks.
    fn readout_forward(
        &self,
        logits: &mut Self::Buffer,
        state: &Self::Matrix,
        parameters: &Self::Buffer,
        inputs: &Self::Inputs,
        layout: &Layout,
    ) -> Result<()>;

    /// In: `state` = H. Out: `state` = dH, and the readout gradients.
    fn readout_backward(
        &self,
        gradient: &mut Self::Buffer,
        state: &mut Self::Matrix,
        d_logits: &Self::Buffer,
        parameters: &Self::Buffer,
        inputs: &Self::Inputs,
        layout: &Layout,
    ) -> Result<()>;

    /// Mean cross-entropy over the batch's targets, and its gradient by the logits.
    fn loss(&self, d_logits: &mut Self::Buffer, logits: &Self::Buffer, inputs: &Self::Inputs) -> Result<f64>;

    /// Euclidean norm.
    fn norm(&self, buffer: &Self::Buffer) -> Result<f64>;

    /// One Adam or AdamW step over all parameters.
    fn adam(
        &self,
        parameters: &mut Self::Buffer,
        first_moment: &mut Self::Buffer,
        second_moment: &mut Self::Buffer,
        gradient: &Self::Buffer,
        step: AdamStep,
    ) -> Result<()>;
}

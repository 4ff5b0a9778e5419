//! Where the arithmetic happens: one trait, one method per op.
//!
//! [`crate::model`] writes the forward and backward pass once over [`Device`]. The native CPU implementation is
//! [`cpu::Cpu`]; [`launcher::Launcher`] runs the CUDA kernels, on a GPU ([`cuda`]) or on the CPU ([`host`]).
//!
//! The ops are declared in [`ops`], once; [`machine`] opens a device by its name.

pub mod cpu;
pub mod cuda;
pub mod gemm;
pub mod host;
pub mod launcher;
pub mod link;
pub mod machine;
pub mod ops;
pub mod resources;
mod verdict;

use crate::architecture::Layout;
use crate::batch::{Batch, Selection};
use crate::config::DropoutPlace;
use crate::plan::{BatchSizes, Plan};
use crate::real::Real;
use crate::team::Team;
use harmonia_graph::error::{Error, Result};
use harmonia_graph::seed::Stream;
use link::Link;
pub use machine::Machine;
pub use ops::Op;
use ops::each_op;
pub use verdict::{Judgement, Posted};

/// Dropout of one training step. Masks are a function of the stream, so the backward pass sees the same ones.
#[derive(Clone, Copy, Debug)]
pub struct Dropout {
    /// Which values the mask is applied to.
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

/// Which experts each feature uses, and how strongly; m slots per feature.
pub struct Routing<D: Device> {
    /// Chosen expert of each slot, d x m, best first.
    pub experts: D::Indices,
    /// pi: sigmoid(Q) of each slot, d x m.
    pub gates: D::Buffer,
    /// sigmoid(N) of each slot, d x m; the scale of the routing noise.
    pub noise_scale: D::Buffer,
}

/// Points at which responses are looked at, and what is found of those that bend: `model::Smoothness` has the formula.
pub struct Bends<D: Device> {
    /// What every squared bend costs.
    pub strength: f64,
    /// Those of each feature, most x d; behind them any numbers.
    pub points: D::Buffer,
    /// How many each feature has, d.
    pub counts: D::Buffer,
    /// What each feature costs, d.
    pub penalties: D::Buffer,
    /// The gradient of that by hop weights that have a size of their own, T x d.
    pub d_hop_weights: D::Buffer,
}

/// F of a batch, and later its gradient.
pub enum Responses<D: Device> {
    /// Every entry, n x d.
    Dense(D::Matrix),
    /// X is sparse: d constants, then one value per non-zero of X, column by column. As F: f_k(0), and f_k(x) - f_k(0). As
    /// its gradient: the sum of dF over a whole column, and dF of each non-zero.
    Sparse(D::Buffer),
}

/// F and X of an op in different forms: a plan makes both sparse or neither.
pub(crate) fn mixed_forms() -> Error {
    Error::Device("features and responses must both be sparse, or neither".into())
}

/// An op that walks, on a batch that has no walk.
pub(crate) fn no_walk() -> Error {
    Error::Device("this batch has no walk to propagate along: it was made for another space".into())
}

/// One Adam step.
#[derive(Clone, Copy, Debug)]
pub struct AdamStep {
    /// Step size of this step.
    pub learning_rate: f64,
    /// Added to the gradient (Adam) or taken off the parameter directly (AdamW).
    pub weight_decay: f64,
    /// AdamW: decay shrinks the parameter itself instead of entering its gradient.
    pub decoupled: bool,
    /// 1 for the first step.
    pub step: u64,
    /// Gradients with a longer norm are shortened to it; 0: none is.
    pub clip_norm: f64,
}

/// Decay of the first-moment average.
pub const ADAM_BETA1: f64 = 0.9;
/// Decay of the second-moment average.
pub const ADAM_BETA2: f64 = 0.999;
/// Keeps the division finite.
pub const ADAM_EPSILON: f64 = 1e-8;
/// Keeps hop weights defined where every hop logit is zero.
pub const HOP_EPSILON: f64 = 1e-8;

macro_rules! methods {
    ($($(#[$about:meta])* $op:ident: fn $name:ident($($argument:ident: $type:ty),* $(,)?) -> $result:ty
        = $module:ident::$function:ident;)*) => {
        $(
            $(#[$about])*
            #[allow(missing_docs, clippy::too_many_arguments)] // what a kernel launch takes
            fn $name(&self, $($argument: $type),*) -> Result<$result>;
        )*
    };
}

/// A flat array of a device.
pub type BufferOf<D> = <D as Device>::Buffer;
/// A nodes x features matrix of a device.
pub type MatrixOf<D> = <D as Device>::Matrix;
/// A batch on a device.
pub type InputsOf<D> = <D as Device>::Inputs;
/// Compiled experts on a device.
pub type KnotsOf<D> = <D as Device>::Knots;
/// The states of class space on a device.
pub type HopsOf<D> = <D as Device>::Hops;

/// Who counts for some rows of the logits, on a device.
pub type ScopeOf<D> = <D as Device>::Scope;

/// What a device finds out about steps.
pub type VerdictOf<D> = <D as Device>::Verdict;

/// A machine that computes training steps.
pub trait Device: Sync + Sized {
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
    /// The nodes within so many steps of rows that are scored: hops leave out all others.
    type Scope: Send + Sync;

    /// All graphs of a dataset, all units of a table, or all targets of a graph, where batches are put together from them.
    type Collection: Send + Sync;

    /// What is found out about the step at hand, and was about those before it.
    type Verdict: Send + Sync;
    /// Some rows of an array, on their way to the host.
    type RowReader: Send + Sync;

    /// For people.
    fn name(&self) -> String;
    /// Whether batches are copied to the device, so that a plan counts them twice.
    fn copies(&self) -> bool;
    /// Free bytes of the device's own memory; `None` where it works in the host's.
    fn free_bytes(&self) -> Result<Option<usize>>;
    /// Rows that panels of X are a multiple of, where X may come in panels ([`Streamed`](crate::plan::Streamed)).
    fn panel_rows(&self, batch: &BatchSizes, layout: &Layout, plan: Plan) -> Option<usize> {
        let _ = (batch, layout, plan);
        None
    }
    /// How many panels X of a batch comes in; ops work on the one that was opened last.
    fn panels(&self, inputs: &Self::Inputs) -> usize {
        let _ = inputs;
        1
    }
    /// Has ops work on a panel of X, and of whatever has a row per row of X; all of them are opened in order.
    fn open_panel(&self, inputs: &Self::Inputs, at: usize) -> Result<()> {
        let _ = (inputs, at);
        Ok(())
    }
    /// No op works on a panel any more.
    fn close_panels(&self, inputs: &Self::Inputs) -> Result<()> {
        let _ = inputs;
        Ok(())
    }
    /// Makes a batch resident in the form a plan works on.
    fn inputs(&self, batch: &Batch, plan: Plan) -> Result<Self::Inputs>;
    /// Gives resident inputs the targets of `batch`, which has the same nodes.
    fn retarget(&self, inputs: &mut Self::Inputs, batch: &Batch) -> Result<()>;
    /// Copies what all batches are made of ([`Batches::collected`](crate::batch::Batches::collected)), with the targets of all
    /// steps, to the device, which then puts batches together by itself. None where the host does that at no cost, or has to.
    fn collection(&self, whole: &Batch, plan: Plan) -> Result<Option<Self::Collection>>;
    /// A batch of some of the graphs, or rows of the table; only their numbers are copied.
    fn select(&self, collection: &Self::Collection, selection: &Selection) -> Result<Self::Inputs>;
    /// As [`Device::retarget`], with the targets that a collection has of these rows; only their numbers are copied.
    fn retarget_to(&self, inputs: &mut Self::Inputs, collection: &Self::Collection, rows: &[u32]) -> Result<()>;
    /// Who counts for some rows of a batch's logits, in a model of `hops` hops; none where everybody may.
    fn scope(&self, batch: &Batch, rows: &[u32], hops: usize) -> Result<Option<Self::Scope>>;
    /// Copies to the device.
    fn upload(&self, values: &[Self::Real]) -> Result<Self::Buffer>;
    /// A zeroed array.
    fn zeros(&self, length: usize) -> Result<Self::Buffer>;
    /// Zeroed indices.
    fn indices(&self, length: usize) -> Result<Self::Indices>;
    /// A zeroed matrix.
    fn matrix(&self, nodes: usize, features: usize) -> Result<Self::Matrix>;
    /// A zeroed matrix with contiguous rows.
    fn row_matrix(&self, rows: usize, features: usize) -> Result<Self::Matrix> {
        self.matrix(rows, features)
    }
    /// Room for F of a batch, in the form of its inputs; `rows`: with contiguous rows, as class space wants it.
    fn responses(&self, inputs: &Self::Inputs, layout: &Layout, rows: bool) -> Result<Responses<Self>>;
    /// Room for compiled experts.
    fn knots(&self, layout: &Layout) -> Result<Self::Knots>;

    /// Tells tables before they are compiled what features will be looked up at; of experts that one feature uses at few values, a device
    /// may compile those alone. `scale`: inputs are dropped one by one, and the others are multiplied by it.
    fn expect_values(&self, _: &mut Self::Knots, _: &Self::Inputs, _scale: Option<f64>, _: &Layout) {}
    /// Makes room for experts of so many pieces; what was compiled is gone.
    fn make_room(&self, knots: &mut Self::Knots, pieces: usize, layout: &Layout) -> Result<()>;
    /// Nothing found out yet.
    fn verdict(&self) -> Result<Self::Verdict>;
    /// Has what is found out so far sent to the host, behind all that was asked for; nobody waits.
    fn post(&self, verdict: &mut Self::Verdict) -> Result<()>;
    /// The oldest that was posted and not collected: waits for it, and for nothing that was asked for later.
    fn collect(&self, verdict: &mut Self::Verdict) -> Result<Judgement>;
    /// Ends a halt.
    fn resume(&self, verdict: &mut Self::Verdict) -> Result<()>;
    /// What is known once everything that was asked for is done.
    fn judgement(&self, verdict: &mut Self::Verdict) -> Result<Judgement> {
        self.post(verdict)?;
        self.collect(verdict)
    }
    /// Room for the states of class space.
    fn hops(&self, inputs: &Self::Inputs, layout: &Layout) -> Result<Self::Hops>;
    /// Overwrites a buffer with as many values.
    fn write(&self, buffer: &mut Self::Buffer, values: &[Self::Real]) -> Result<()>;
    /// Overwrites some rows of a buffer of rows x `width`. Through the host, where a device has no better way.
    fn write_rows(&self, buffer: &mut Self::Buffer, rows: &[u32], width: usize, values: &[Self::Real]) -> Result<()> {
        let mut all = self.download(buffer)?;
        for (&row, values) in rows.iter().zip(values.chunks_exact(width.max(1))) {
            all[row as usize * width..][..width].copy_from_slice(values);
        }
        self.write(buffer, &all)
    }
    /// Copies back into memory that is there; lengths are equal.
    fn read(&self, values: &mut [Self::Real], buffer: &Self::Buffer) -> Result<()>;
    /// Copies from one buffer to another of its length, on the device: nobody waits.
    fn keep(&self, kept: &mut Self::Buffer, values: &Self::Buffer) -> Result<()>;
    /// Sets values of the wrong sign to zero, on the device: nobody waits. Signs are 1, -1, or 0 where any number will do.
    fn keep_signs(&self, values: &mut Self::Buffer, signs: &Self::Buffer) -> Result<()>;
    /// What responses at points cost, on the device: nobody waits. They turn into the penalty's gradient by them; that by the
    /// readout is added to `gradient`.
    fn bend(
        &self,
        bends: &mut Bends<Self>,
        responses: &mut Self::Matrix,
        gradient: &mut Self::Buffer,
        hop_weights: &Self::Buffer,
        parameters: &Self::Buffer,
        layout: &Layout,
    ) -> Result<()>;
    /// Copies a row-major matrix to the device.
    fn upload_matrix(&self, values: &[Self::Real], features: usize) -> Result<Self::Matrix>;
    /// Copies back.
    fn download(&self, buffer: &Self::Buffer) -> Result<Vec<Self::Real>>;
    /// To read these rows of arrays of rows x `width`.
    fn row_reader(&self, rows: &[u32], width: usize) -> Result<Self::RowReader>;
    /// Has the rows of an array sent to the host, behind all that was asked for; nobody waits.
    fn send_rows(&self, reader: &mut Self::RowReader, buffer: &Self::Buffer) -> Result<()>;
    /// The rows that were sent last, in the order they were asked for: waits for them, and for nothing that was asked for later.
    fn receive_rows(&self, values: &mut Vec<Self::Real>, reader: &mut Self::RowReader) -> Result<()>;
    /// Copies a matrix back, row-major.
    fn download_matrix(&self, matrix: &Self::Matrix) -> Result<Vec<Self::Real>>;
    /// How this device could exchange numbers with those of other processes without the host.
    fn link(&self) -> Link {
        Link::Host
    }
    /// Connects with the devices of all processes ([`link::connect`] asks whether they can be): [`Device::join`] does without the
    /// host from then on.
    fn connect(&self, team: &dyn Team) -> Result<()> {
        Err(Error::Internal(format!("{} has nothing that connects it with {} others", self.name(), team.size() - 1)))
    }
    /// Adds up values over all processes, in the order of ranks: all get the same bits. Through the host, where devices are not
    /// connected.
    fn join(&self, team: &dyn Team, values: &mut Self::Buffer) -> Result<()> {
        self.join_on_host(team, values)
    }
    /// The same through the host, as any device can. Between processes numbers are f32, as training has them.
    fn join_on_host(&self, team: &dyn Team, values: &mut Self::Buffer) -> Result<()> {
        let own = self.download(values)?;
        let mut sums: Vec<f32> = own.iter().map(|value| value.widen() as f32).collect();
        crate::team::sum(team, &mut sums)?;
        let sums: Vec<Self::Real> = sums.into_iter().map(Self::Real::from_f32).collect();
        self.write(values, &sums)
    }
    /// Bytes of working memory the ops use beside the buffers of the model, for a memory plan.
    fn scratch_bytes(&self, batch: &BatchSizes, layout: &Layout, plan: Plan) -> usize;

    each_op!(methods, Self);
}

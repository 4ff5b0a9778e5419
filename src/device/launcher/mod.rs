//! A [`Device`] made of kernels: every op becomes launches of `kernels/*.cu` on some [`Driver`].
//!
//! Two drivers share it: `cuda` (a GPU) and `host` (the same sources compiled by the C++ compiler). One file an op, named
//! like its kernels. Invariant: grids and buffer sizes depend on the sizes of the problem only, never on the device, so
//! that kernels sum in the same order everywhere. (Products of matrices, of the readout or of class space, are the
//! driver's own: the same bits twice on the same GPU and cuBLAS, not on another.)

pub mod abi;
mod adam;
mod driver;
mod head;
mod hop_weights;
mod inputs;
mod kernels;
mod knots;
mod loss;
mod memory;
mod monb;
mod project;
mod propagate;
mod reduce;
mod route;
mod sparse;
pub mod traffic;
mod walk;

use super::{AdamStep, Device, Dropout, DropoutPlace, Responses, Routing};
use crate::batch::Batch;
use crate::config::{Monb, States};
use crate::error::{Error, Result};
use crate::model::{BatchSizes, Layout, Plan, Space};
pub use driver::{Driver, Gemm, Launch};
use inputs::DeviceFeatures;
pub use inputs::DeviceInputs;
pub use kernels::{Kernel, kernel, kernels};
pub use knots::DeviceKnots;
pub use memory::{Buffer, DeviceMatrix};
pub use project::DeviceHops;

/// Threads of a block in kernels without a shape of their own.
const THREADS: u32 = 256;

/// Names of a kernel that exists for every type of states, in the order of [`States`].
macro_rules! by_states {
    ($name:literal) => {
        [concat!($name, "_f32"), concat!($name, "_f16"), concat!($name, "_bf16")]
    };
}
use by_states;

/// Most blocks of the kernels that stride over what is left: enough to fill any GPU several times, few enough that sums
/// of blocks are added up cheaply. Constants of the problem, not of the device: they decide the order of sums.
#[derive(Clone, Copy, Debug)]
pub struct Blocks {
    /// Along rows: propagate, walk, loss.
    pub rows: u64,
    /// Along nodes in the forward pass of MoNB, direct or by pieces.
    pub nodes: u64,
    /// In the backward pass of MoNB; each team of each has its own sums.
    pub backward: u64,
    /// Elements of states that class space turns into floats at a time: 16 MiB, which caches of large GPUs keep.
    pub states: u64,
}

impl Default for Blocks {
    fn default() -> Self {
        Blocks { rows: 4096, nodes: 4096, backward: 2048, states: 1 << 22 }
    }
}

/// A device that launches kernels.
pub struct Launcher<V: Driver> {
    driver: V,
    states: States,
    blocks: Blocks,
}

impl<V: Driver> Launcher<V> {
    /// Runs on `driver`; propagated states are stored as `states`.
    pub fn new(driver: V, states: States) -> Self {
        Launcher { driver, states, blocks: Blocks::default() }
    }

    /// With other numbers of blocks: tests make small problems stride.
    pub fn with_blocks(self, blocks: Blocks) -> Self {
        Launcher { blocks, ..self }
    }

    /// The machine below.
    pub fn driver(&self) -> &V {
        &self.driver
    }

    /// Starts a kernel; an empty grid is nothing to do.
    ///
    /// # Safety
    /// As [`Driver::launch`].
    #[allow(unsafe_code)]
    unsafe fn run<A>(&self, kernel: &'static str, shape: Shape, arguments: &A) -> Result<()> {
        const MOST_X: u64 = (1 << 31) - 1;
        const MOST_Y: u64 = (1 << 16) - 1;
        let [x, y] = shape.grid;
        if x == 0 || y == 0 {
            return Ok(());
        }
        if x > MOST_X || y > MOST_Y {
            return Err(Error::Device(format!(
                "kernel {kernel} would need a grid of {x} x {y} blocks; at most {MOST_X} x {MOST_Y} are possible: the \
                 problem is too large for one launch"
            )));
        }
        debug_assert!(
            kernels::knows(kernel, shape.block, shape.shared_bytes),
            "kernels.rs has no {kernel} with blocks of {:?}",
            shape.block
        );
        let launch = Launch {
            kernel,
            grid: [x as u32, y as u32, 1],
            block: [shape.block[0], shape.block[1], 1],
            shared_bytes: shape.shared_bytes,
            arguments: std::ptr::from_ref(arguments).cast(),
        };
        // SAFETY: promised by the caller; `arguments` lives until the call returns, and drivers copy it at launch.
        unsafe { self.driver.launch(&launch) }
    }
}

/// Grid and block of a launch.
#[derive(Clone, Copy)]
struct Shape {
    grid: [u64; 2],
    block: [u32; 2],
    shared_bytes: u32,
}

impl Shape {
    fn new(grid: [u64; 2], block: [u32; 2]) -> Self {
        Shape { grid, block, shared_bytes: 0 }
    }

    /// One thread an element.
    fn flat(elements: usize) -> Self {
        Shape::new([(elements as u64).div_ceil(u64::from(THREADS)), 1], [THREADS, 1])
    }
}

/// `items` in at most `most` equal stretches of at least `least`: (stretches, items of one).
fn stretches(items: u64, least: u64, most: u64) -> (u64, u64) {
    let size = items.div_ceil(most).max(least).max(1);
    (items.div_ceil(size), size)
}

/// Masks as kernels see them; none means nothing is dropped.
fn masks(dropout: Option<&Dropout>) -> abi::Dropout {
    let Some(dropout) = dropout else {
        let place = abi::HARMONIA_DROP_NONE;
        return abi::Dropout { key: [0; 2], purpose: 0, step: 0, threshold: 0, place, scale: 1.0 };
    };
    let (key, purpose, step) = dropout.stream.words();
    let place = match dropout.place {
        DropoutPlace::None => abi::HARMONIA_DROP_NONE,
        DropoutPlace::Input => abi::HARMONIA_DROP_INPUT,
        DropoutPlace::Feature => abi::HARMONIA_DROP_FEATURE,
        DropoutPlace::Hidden => abi::HARMONIA_DROP_HIDDEN,
    };
    abi::Dropout { key, purpose, step, threshold: dropout.threshold(), place, scale: dropout.scale() as f32 }
}

impl<V: Driver> Device for Launcher<V> {
    type Real = f32;
    type Buffer = Buffer<V, f32>;
    type Indices = Buffer<V, u32>;
    type Matrix = DeviceMatrix<V>;
    type Inputs = DeviceInputs<V>;
    type Knots = DeviceKnots<V>;
    type Hops = DeviceHops<V>;

    fn name(&self) -> String {
        self.driver.name()
    }

    fn copies(&self) -> bool {
        true
    }

    fn free_bytes(&self) -> Result<Option<usize>> {
        self.driver.free_bytes()
    }

    fn inputs(&self, batch: &Batch, plan: Plan) -> Result<DeviceInputs<V>> {
        if let Some(transition) = batch.transition() {
            self.states.check(transition.is_symmetric())?;
        }
        DeviceInputs::new(self, batch, plan)
    }

    fn retarget(&self, inputs: &mut DeviceInputs<V>, batch: &Batch) -> Result<()> {
        inputs.retarget(self, batch)
    }

    fn upload(&self, values: &[f32]) -> Result<Buffer<V, f32>> {
        self.copy(values)
    }

    fn zeros(&self, length: usize) -> Result<Buffer<V, f32>> {
        self.zeroed(length)
    }

    fn clear(&self, buffer: &mut Buffer<V, f32>) -> Result<()> {
        self.wipe(buffer)
    }

    fn indices(&self, length: usize) -> Result<Buffer<V, u32>> {
        self.zeroed(length)
    }

    fn matrix(&self, nodes: usize, features: usize) -> Result<DeviceMatrix<V>> {
        Ok(DeviceMatrix { values: self.zeroed(nodes * features)?, rows: nodes, cols: features })
    }

    fn responses(&self, inputs: &DeviceInputs<V>, layout: &Layout, _: bool) -> Result<Responses<Self>> {
        let d = layout.architecture.features;
        Ok(match &inputs.features {
            DeviceFeatures::Dense(_) => Responses::Dense(self.matrix(inputs.nodes, d)?),
            DeviceFeatures::Sparse(x) => Responses::Sparse(self.zeroed(d + x.entries())?),
        })
    }

    fn knots(&self, layout: &Layout) -> Result<DeviceKnots<V>> {
        self.new_knots(layout)
    }

    fn hops(&self, inputs: &DeviceInputs<V>, layout: &Layout) -> Result<DeviceHops<V>> {
        self.new_hops(inputs, layout)
    }

    fn write(&self, buffer: &mut Buffer<V, f32>, values: &[f32]) -> Result<()> {
        self.overwrite(buffer, values)
    }

    fn read(&self, values: &mut [f32], buffer: &Buffer<V, f32>) -> Result<()> {
        self.fetch_into(values, buffer)
    }

    fn upload_matrix(&self, values: &[f32], features: usize) -> Result<DeviceMatrix<V>> {
        Ok(DeviceMatrix { values: self.copy(values)?, rows: values.len() / features, cols: features })
    }

    fn download(&self, buffer: &Buffer<V, f32>) -> Result<Vec<f32>> {
        self.fetch(buffer)
    }

    fn download_matrix(&self, matrix: &DeviceMatrix<V>) -> Result<Vec<f32>> {
        self.fetch(&matrix.values)
    }

    fn scratch_bytes(&self, batch: &BatchSizes, layout: &Layout, plan: Plan) -> usize {
        let monb = match plan.monb {
            Monb::Direct => self.monb_scratch(batch.nodes, layout),
            Monb::Knots => self.knots_scratch(batch, layout, plan.sparse),
        };
        let ops = match plan.space {
            Space::Features => self.propagate_scratch(batch, layout).max(self.readout_scratch(batch, layout)),
            Space::Classes => self.project_scratch(batch, layout, plan.sparse).max(self.walk_scratch(batch, layout)),
        };
        // Tables of pieces stay between the ops that need them.
        if plan.monb == Monb::Knots { monb + ops } else { monb.max(ops) }
    }

    fn route_forward(
        &self,
        routing: &mut Routing<Self>,
        parameters: &Buffer<V, f32>,
        noise: Option<&Buffer<V, f32>>,
        layout: &Layout,
    ) -> Result<()> {
        self.launch_route_forward(routing, parameters, noise, layout)
    }

    fn route_backward(
        &self,
        gradient: &mut Buffer<V, f32>,
        d_gates: &Buffer<V, f32>,
        routing: &Routing<Self>,
        parameters: &Buffer<V, f32>,
        noise: Option<&Buffer<V, f32>>,
        layout: &Layout,
    ) -> Result<()> {
        self.launch_route_backward(gradient, d_gates, routing, parameters, noise, layout)
    }

    fn hop_weights_forward(
        &self,
        hop_weights: &mut Buffer<V, f32>,
        parameters: &Buffer<V, f32>,
        layout: &Layout,
    ) -> Result<()> {
        self.launch_hop_weights_forward(hop_weights, parameters, layout)
    }

    fn hop_weights_backward(
        &self,
        gradient: &mut Buffer<V, f32>,
        d_hop_weights: &Buffer<V, f32>,
        hop_weights: &Buffer<V, f32>,
        parameters: &Buffer<V, f32>,
        layout: &Layout,
    ) -> Result<()> {
        self.launch_hop_weights_backward(gradient, d_hop_weights, hop_weights, parameters, layout)
    }

    fn monb_forward(
        &self,
        responses: &mut Responses<Self>,
        inputs: &DeviceInputs<V>,
        routing: &Routing<Self>,
        parameters: &Buffer<V, f32>,
        dropout: Option<&Dropout>,
        layout: &Layout,
    ) -> Result<()> {
        self.launch_monb_forward(responses, inputs, routing, parameters, dropout, layout)
    }

    fn monb_backward(
        &self,
        gradient: &mut Buffer<V, f32>,
        d_gates: &mut Buffer<V, f32>,
        d_responses: &Responses<Self>,
        inputs: &DeviceInputs<V>,
        routing: &Routing<Self>,
        parameters: &Buffer<V, f32>,
        dropout: Option<&Dropout>,
        layout: &Layout,
    ) -> Result<()> {
        self.launch_monb_backward(gradient, d_gates, d_responses, inputs, routing, parameters, dropout, layout)
    }

    fn knots_compile(
        &self,
        knots: &mut DeviceKnots<V>,
        routing: &Routing<Self>,
        parameters: &Buffer<V, f32>,
        layout: &Layout,
    ) -> Result<()> {
        self.launch_knots_compile(knots, routing, parameters, layout)
    }

    fn knots_forward(
        &self,
        responses: &mut Responses<Self>,
        knots: &DeviceKnots<V>,
        inputs: &DeviceInputs<V>,
        dropout: Option<&Dropout>,
        layout: &Layout,
    ) -> Result<()> {
        self.launch_knots_forward(responses, knots, inputs, dropout, layout)
    }

    fn knots_backward(
        &self,
        gradient: &mut Buffer<V, f32>,
        d_gates: &mut Buffer<V, f32>,
        d_responses: &Responses<Self>,
        knots: &mut DeviceKnots<V>,
        inputs: &DeviceInputs<V>,
        _: &Routing<Self>,
        _: &Buffer<V, f32>,
        dropout: Option<&Dropout>,
        layout: &Layout,
    ) -> Result<()> {
        // The routing and the parameters are those the knots were compiled from.
        self.launch_knots_backward(gradient, d_gates, d_responses, knots, inputs, dropout, layout)
    }

    fn project_forward(
        &self,
        hops: &mut DeviceHops<V>,
        responses: &Responses<Self>,
        hop_weights: &Buffer<V, f32>,
        parameters: &Buffer<V, f32>,
        inputs: &DeviceInputs<V>,
        layout: &Layout,
    ) -> Result<()> {
        self.launch_project_forward(hops, responses, hop_weights, parameters, inputs, layout)
    }

    fn project_backward(
        &self,
        gradient: &mut Buffer<V, f32>,
        d_hop_weights: &mut Buffer<V, f32>,
        responses: &mut Responses<Self>,
        hops: &mut DeviceHops<V>,
        hop_weights: &Buffer<V, f32>,
        parameters: &Buffer<V, f32>,
        inputs: &DeviceInputs<V>,
        layout: &Layout,
    ) -> Result<()> {
        let d_theta = d_hop_weights;
        self.launch_project_backward(gradient, d_theta, responses, hops, hop_weights, parameters, inputs, layout)
    }

    fn walk_forward(
        &self,
        logits: &mut Buffer<V, f32>,
        hops: &mut DeviceHops<V>,
        parameters: &Buffer<V, f32>,
        inputs: &DeviceInputs<V>,
        layout: &Layout,
    ) -> Result<()> {
        self.launch_walk_forward(logits, hops, parameters, inputs, layout)
    }

    fn walk_backward(
        &self,
        gradient: &mut Buffer<V, f32>,
        hops: &mut DeviceHops<V>,
        d_logits: &Buffer<V, f32>,
        inputs: &DeviceInputs<V>,
        layout: &Layout,
    ) -> Result<()> {
        self.launch_walk_backward(gradient, hops, d_logits, inputs, layout)
    }

    fn propagate_forward(
        &self,
        state: &mut DeviceMatrix<V>,
        responses: &DeviceMatrix<V>,
        hop_weights: &Buffer<V, f32>,
        inputs: &DeviceInputs<V>,
    ) -> Result<()> {
        self.launch_propagate_forward(state, responses, hop_weights, inputs)
    }

    fn propagate_backward(
        &self,
        gradient: &mut DeviceMatrix<V>,
        d_hop_weights: &mut Buffer<V, f32>,
        responses: &DeviceMatrix<V>,
        hop_weights: &Buffer<V, f32>,
        inputs: &DeviceInputs<V>,
    ) -> Result<()> {
        self.launch_propagate_backward(gradient, d_hop_weights, responses, hop_weights, inputs)
    }

    fn readout_forward(
        &self,
        logits: &mut Buffer<V, f32>,
        state: &DeviceMatrix<V>,
        parameters: &Buffer<V, f32>,
        inputs: &DeviceInputs<V>,
        layout: &Layout,
    ) -> Result<()> {
        self.launch_readout_forward(logits, state, parameters, inputs, layout)
    }

    fn readout_backward(
        &self,
        gradient: &mut Buffer<V, f32>,
        state: &mut DeviceMatrix<V>,
        d_logits: &Buffer<V, f32>,
        parameters: &Buffer<V, f32>,
        inputs: &DeviceInputs<V>,
        layout: &Layout,
    ) -> Result<()> {
        self.launch_readout_backward(gradient, state, d_logits, parameters, inputs, layout)
    }

    fn loss(&self, d_logits: &mut Buffer<V, f32>, logits: &Buffer<V, f32>, inputs: &DeviceInputs<V>) -> Result<f64> {
        self.launch_loss(d_logits, logits, inputs)
    }

    fn norm(&self, buffer: &Buffer<V, f32>) -> Result<f64> {
        self.launch_norm(buffer)
    }

    fn adam(
        &self,
        parameters: &mut Buffer<V, f32>,
        first_moment: &mut Buffer<V, f32>,
        second_moment: &mut Buffer<V, f32>,
        gradient: &Buffer<V, f32>,
        step: AdamStep,
    ) -> Result<()> {
        self.launch_adam(parameters, first_moment, second_moment, gradient, step)
    }
}

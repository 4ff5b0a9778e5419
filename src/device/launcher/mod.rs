//! A [`Device`] made of kernels: every op becomes launches of `kernels/*.cu` on some [`Driver`].
//!
//! Two drivers share it: `cuda` (a GPU) and `host` (the same sources compiled by the C++ compiler). One file per op, named
//! like its kernels. Invariant: grids and buffer sizes depend on the sizes of the problem only, never on the device, so
//! that kernels sum in the same order everywhere. (Products of matrices, of the readout or of class space, are the
//! driver's own: the same bits twice on the same GPU and cuBLAS, not on another.)

pub mod abi;
mod adam;
mod belt;
mod bends;
mod compile;
mod driver;
mod hop_weights;
mod inputs;
mod join;
mod kernels;
mod knots;
mod loss;
mod memory;
mod monb;
mod noise;
mod panels;
mod project;
mod propagate;
mod readout;
mod reduce;
mod route;
mod rows;
mod select;
mod select_rows;
mod sparse;
mod split;
mod table;
mod table_cells;
mod table_walks;
pub mod traffic;
mod verdict;
mod walk;
mod walk_panels;

use super::link::Link;
use super::ops::each_op;
use super::{
    AdamStep, Bends, BufferOf, Device, Dropout, HopsOf, InputsOf, Judgement, KnotsOf, MatrixOf, Responses, Routing,
    ScopeOf, VerdictOf,
};
use crate::architecture::Layout;
use crate::batch::{Batch, Selection};
use crate::config::DropoutPlace;
use crate::config::{Monb, States};
use crate::plan::{BatchSizes, Plan, Space};
use crate::team::Team;
pub use compile::DeviceKnots;
pub use driver::{Driver, Fill, Gemm, GemmBatch, Launch};
use harmonia_graph::error::{Error, Result};
use harmonia_graph::seed::Stream;
use inputs::DeviceFeatures;
pub use inputs::{DeviceInputs, DeviceScope};
pub use kernels::{Kernel, kernel, kernels};
pub use memory::{Buffer, DeviceMatrix};
pub use project::DeviceHops;
pub use rows::DeviceRowReader;
pub use select::DeviceCollection;
use std::sync::Mutex;
pub use verdict::DeviceVerdict;

/// Threads of a block in kernels without a shape of their own.
const THREADS: u32 = 256;

/// Part of the entries that may be looked through for who is near a scored row. The host looks, once for each set of rows,
/// while a GPU takes a step of the walk in a few milliseconds.
const LOOKED_THROUGH: f64 = 1.0 / 32.0;

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
    /// Rows of a part of a product that sums over rows, at least: its sums are worth writing.
    pub product_rows: usize,
    /// Bytes of shared memory a block may have: what every GPU from compute capability 8.0 on gives. The one number that
    /// follows the device: Turing has less, and there tiles are smaller and sums in another order.
    pub shared: usize,
    /// Pieces of an expert that there is room for at first, at most; more room is made where it is needed. Decides no sum.
    pub pieces: usize,
}

impl Default for Blocks {
    fn default() -> Self {
        Blocks {
            rows: 4096,
            nodes: 4096,
            backward: 2048,
            states: 1 << 22,
            product_rows: 256,
            shared: 99 << 10,
            pieces: usize::MAX,
        }
    }
}

/// A device that launches kernels.
pub struct Launcher<V: Driver> {
    driver: V,
    states: States,
    blocks: Blocks,
    last_table: Mutex<table::LastTable<V>>,
}

impl<V: Driver> Launcher<V> {
    /// Runs on `driver`; propagated states are stored as `states`.
    pub fn new(driver: V, states: States) -> Self {
        let launcher = Launcher { driver, states, blocks: Blocks::default(), last_table: Mutex::new(None) };
        launcher.with_blocks(Blocks::default())
    }

    /// With other numbers of blocks: tests make small problems stride.
    pub fn with_blocks(mut self, blocks: Blocks) -> Self {
        self.blocks = Blocks { shared: blocks.shared.min(self.driver.shared_limit()), ..blocks };
        self
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
    unsafe fn run<A>(&self, kernel: &'static str, grid: Grid, arguments: &A) -> Result<()> {
        const MOST_X: u64 = (1 << 31) - 1;
        const MOST_Y: u64 = (1 << 16) - 1;
        let [x, y] = grid.blocks;
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
            kernels::knows(kernel, grid.threads, grid.shared_bytes),
            "kernels.rs has no {kernel} with blocks of {:?}",
            grid.threads
        );
        let launch = Launch {
            kernel,
            grid: [x as u32, y as u32, 1],
            block: [grid.threads[0], grid.threads[1], 1],
            shared_bytes: grid.shared_bytes,
            arguments: std::ptr::from_ref(arguments).cast(),
        };
        // SAFETY: promised by the caller; `arguments` lives until the call returns, and drivers copy it at launch.
        unsafe { self.driver.launch(&launch) }
    }
}

/// How many blocks and threads a kernel is launched with.
#[derive(Clone, Copy)]
struct Grid {
    blocks: [u64; 2],
    /// Threads of a block.
    threads: [u32; 2],
    /// Dynamic shared memory of a block.
    shared_bytes: u32,
}

impl Grid {
    fn new(blocks: [u64; 2], threads: [u32; 2]) -> Self {
        Grid { blocks, threads, shared_bytes: 0 }
    }

    /// One thread per element.
    fn flat(elements: usize) -> Self {
        Grid::new([(elements as u64).div_ceil(u64::from(THREADS)), 1], [THREADS, 1])
    }
}

/// `items` in at most `most` equal stretches of at least `least`: (stretches, items of one).
fn stretches(items: u64, least: u64, most: u64) -> (u64, u64) {
    let size = items.div_ceil(most).max(least).max(1);
    (items.div_ceil(size), size)
}

/// Masks as kernels see them; none means nothing is dropped. `elements` of X at most lose inputs.
fn masks(dropout: Option<&Dropout>, elements: u64) -> abi::Dropout {
    let Some(dropout) = dropout else {
        let place = abi::HARMONIA_DROP_NONE;
        return abi::Dropout {
            key: [0; 2],
            purpose: 0,
            step: 0,
            threshold: 0,
            place,
            scale: 1.0,
            elements: 0,
            first: 0,
        };
    };
    let (key, purpose, step) = dropout.stream.words();
    let place = match dropout.place {
        DropoutPlace::None => abi::HARMONIA_DROP_NONE,
        DropoutPlace::Input => abi::HARMONIA_DROP_INPUT,
        DropoutPlace::Feature => abi::HARMONIA_DROP_FEATURE,
        DropoutPlace::Hidden => abi::HARMONIA_DROP_HIDDEN,
    };
    let (threshold, scale) = (dropout.threshold(), dropout.scale() as f32);
    abi::Dropout { key, purpose, step, threshold, place, scale, elements, first: 0 }
}

// Each op is a method of the launcher under its own name, in the file of its kernels; those of the trait hand on to it.
macro_rules! launched {
    ($($(#[$about:meta])* $op:ident: fn $name:ident($($argument:ident: $type:ty),* $(,)?) -> $result:ty
        = $module:ident::$function:ident;)*) => {
        $(fn $name(&self, $($argument: $type),*) -> Result<$result> {
            Launcher::$name(self, $($argument),*)
        })*
    };
}

impl<V: Driver> Device for Launcher<V> {
    type Real = f32;
    type Buffer = Buffer<V, f32>;
    type Indices = Buffer<V, u32>;
    type Matrix = DeviceMatrix<V>;
    type Inputs = DeviceInputs<V>;
    type Knots = DeviceKnots<V>;
    type Hops = DeviceHops<V>;
    type Scope = DeviceScope<V>;
    type Collection = DeviceCollection<V>;
    type Verdict = DeviceVerdict<V>;
    type RowReader = DeviceRowReader<V>;

    fn name(&self) -> String {
        self.driver.name()
    }

    fn copies(&self) -> bool {
        true
    }

    fn free_bytes(&self) -> Result<Option<usize>> {
        self.driver.free_bytes()
    }

    fn panel_rows(&self, batch: &BatchSizes, layout: &Layout, plan: Plan) -> Option<usize> {
        self.panel_grain(batch, layout, plan)
    }

    fn panels(&self, inputs: &DeviceInputs<V>) -> usize {
        inputs.panel_count()
    }

    fn open_panel(&self, inputs: &DeviceInputs<V>, at: usize) -> Result<()> {
        inputs.open_panel(self, Some(at))
    }

    fn close_panels(&self, inputs: &DeviceInputs<V>) -> Result<()> {
        inputs.open_panel(self, None)
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

    fn collection(&self, whole: &Batch, plan: Plan) -> Result<Option<DeviceCollection<V>>> {
        DeviceCollection::new(self, whole, plan)
    }

    fn select(&self, collection: &DeviceCollection<V>, selection: &Selection) -> Result<DeviceInputs<V>> {
        self.select_batch(collection, selection)
    }

    fn retarget_to(&self, inputs: &mut DeviceInputs<V>, collection: &DeviceCollection<V>, rows: &[u32]) -> Result<()> {
        self.retarget_rows(inputs, collection, rows)
    }

    fn scope(&self, batch: &Batch, rows: &[u32], hops: usize) -> Result<Option<DeviceScope<V>>> {
        let Some(transition) = batch.transition() else { return Ok(None) };
        let near = batch.scope(rows, hops, LOOKED_THROUGH);
        near.map(|near| DeviceScope::new(self, transition.matrix(), &near)).transpose()
    }

    fn upload(&self, values: &[f32]) -> Result<Buffer<V, f32>> {
        self.copy(values)
    }

    fn zeros(&self, length: usize) -> Result<Buffer<V, f32>> {
        self.zeroed(length)
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
            DeviceFeatures::Panels(x) => Responses::Dense(self.matrix(x.rows(), d)?),
        })
    }

    fn knots(&self, layout: &Layout) -> Result<DeviceKnots<V>> {
        self.new_knots(layout)
    }

    fn make_room(&self, knots: &mut DeviceKnots<V>, pieces: usize, layout: &Layout) -> Result<()> {
        self.make_knot_room(knots, pieces, layout)
    }

    fn verdict(&self) -> Result<DeviceVerdict<V>> {
        self.new_verdict()
    }

    fn post(&self, verdict: &mut DeviceVerdict<V>) -> Result<()> {
        self.post_verdict(verdict)
    }

    fn collect(&self, verdict: &mut DeviceVerdict<V>) -> Result<Judgement> {
        self.collect_verdict(verdict)
    }

    fn resume(&self, verdict: &mut DeviceVerdict<V>) -> Result<()> {
        self.resume_verdict(verdict)
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

    fn keep(&self, kept: &mut Buffer<V, f32>, values: &Buffer<V, f32>) -> Result<()> {
        self.keep_values(kept, values)
    }

    fn keep_signs(&self, values: &mut Buffer<V, f32>, signs: &Buffer<V, f32>) -> Result<()> {
        self.keep_value_signs(values, signs)
    }

    fn bend(
        &self,
        bends: &mut Bends<Self>,
        responses: &mut DeviceMatrix<V>,
        gradient: &mut Buffer<V, f32>,
        hop_weights: &Buffer<V, f32>,
        parameters: &Buffer<V, f32>,
        layout: &Layout,
    ) -> Result<()> {
        self.bend_responses(bends, responses, gradient, hop_weights, parameters, layout)
    }

    fn upload_matrix(&self, values: &[f32], features: usize) -> Result<DeviceMatrix<V>> {
        Ok(DeviceMatrix { values: self.copy(values)?, rows: values.len() / features, cols: features })
    }

    fn download(&self, buffer: &Buffer<V, f32>) -> Result<Vec<f32>> {
        self.fetch(buffer)
    }

    fn row_reader(&self, rows: &[u32], width: usize) -> Result<DeviceRowReader<V>> {
        self.new_row_reader(rows, width)
    }

    fn send_rows(&self, reader: &mut DeviceRowReader<V>, buffer: &Buffer<V, f32>) -> Result<()> {
        self.send_gathered(reader, buffer)
    }

    fn receive_rows(&self, values: &mut Vec<f32>, reader: &mut DeviceRowReader<V>) -> Result<()> {
        self.receive_gathered(values, reader)
    }

    fn download_matrix(&self, matrix: &DeviceMatrix<V>) -> Result<Vec<f32>> {
        self.fetch(&matrix.values)
    }

    fn link(&self) -> Link {
        self.driver.link()
    }

    fn connect(&self, team: &dyn Team) -> Result<()> {
        self.driver.connect(team)
    }

    fn join(&self, team: &dyn Team, values: &mut Buffer<V, f32>) -> Result<()> {
        if self.driver.connected() > 1 { self.join_connected(values) } else { self.join_on_host(team, values) }
    }

    fn scratch_bytes(&self, batch: &BatchSizes, layout: &Layout, plan: Plan) -> usize {
        let monb = match plan.monb {
            Monb::Direct => self.monb_scratch(batch.nodes, layout),
            Monb::Knots => self.knots_scratch(batch, layout, plan.sparse),
        };
        let ops = match plan.space {
            Space::Features => self.propagate_scratch(batch, layout).max(self.readout_scratch(batch, layout)),
            Space::Classes => self.project_scratch(batch, layout, plan.sparse).max(self.walk_scratch(batch, layout)),
            Space::Table => self.readout_scratch(batch, layout),
        };
        // Tables of pieces stay between the ops that need them.
        if plan.monb == Monb::Knots { monb + ops } else { monb.max(ops) }
    }

    each_op!(launched, Self);
}

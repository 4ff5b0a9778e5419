//! Launches of `kernels/monb.cu`: fold the output layer, evaluate or differentiate, take the sums through it again.

mod sizes;

pub(super) use sizes::{Chunks, Sizes, VARIANTS, Variant, global_workspace};

use super::inputs::DeviceFeatures;
use super::reduce::partial_sums;
use super::sparse::SparseFeatures;
use super::{Buffer, DeviceInputs, Driver, Grid, Launcher, abi, masks};
use crate::architecture::{Architecture, Layout};
use crate::config::DropoutPlace;
use crate::device::mixed_forms;
use crate::device::{Dropout, Responses, Routing};
use harmonia_graph::error::{Error, Result};
use sizes::{ANY, SPARSE, forward_grid, workspace_bytes};

/// Where the generic kernels keep activations: shared memory, or a piece of global memory per block.
struct Workspace<V: Driver> {
    size: usize,
    shared_bytes: u32,
    memory: Option<Buffer<V, f32>>,
}

#[allow(unsafe_code)]
impl<V: Driver> Launcher<V> {
    pub(super) fn monb_forward(
        &self,
        responses: &mut Responses<Self>,
        inputs: &DeviceInputs<V>,
        routing: &Routing<Self>,
        parameters: &Buffer<V, f32>,
        dropout: Option<&Dropout>,
        layout: &Layout,
    ) -> Result<()> {
        let a = &layout.architecture;
        let (sizes, (variant, features, sparse)) = (Sizes::new(layout), self.points(a, inputs, dropout)?);
        let responses = match (responses, sparse) {
            (Responses::Dense(responses), None) => &mut responses.values,
            (Responses::Sparse(responses), Some(_)) => responses,
            _ => return Err(mixed_forms()),
        };
        let heads = self.fold(&sizes, routing, parameters, layout)?;
        let widths = self.widths(a, variant)?;
        let grid = forward_grid(inputs.nodes, a, variant, self.blocks);
        let mut workspace = self.workspace(a, variant, grid)?;
        let arguments = abi::MonbForward {
            responses: self.at_mut(responses, 0),
            workspace: self.workspace_at(&mut workspace),
            features,
            heads: self.at(&heads, 0),
            gates: self.at(&routing.gates, 0),
            experts: self.at(&routing.experts, 0),
            parameters: self.at(parameters, 0),
            widths: widths.as_ref().map_or(std::ptr::null(), |widths| self.at(widths, 0)),
            nodes: inputs.nodes as u64,
            expert_size: sizes.expert,
            workspace_size: workspace.size as u64,
            feature_count: a.features as u32,
            active: a.active as u32,
            layers: a.hidden.len() as u32,
            head_width: sizes.width as u32,
            dropout: masks(dropout, inputs.maskable(a.features)),
        };
        let mut grid = Grid::new(grid, [variant.threads, 1]);
        grid.shared_bytes = workspace.shared_bytes;
        // SAFETY: X and F are n x d, heads d x m x (w + 1), routing d x m with experts below C, parameters the whole layout,
        // the workspace one piece per block. Of a sparse X responses are d + nnz, and columns end at nnz.
        unsafe {
            match sparse {
                None => self.run(variant.forward, grid, &arguments),
                Some(x) => {
                    let arguments = abi::MonbSparseForward { monb: arguments, x: x.columns(self) };
                    self.run(variant.forward, grid, &arguments)
                }
            }
        }
    }

    #[allow(clippy::too_many_arguments)] // what the op takes
    pub(super) fn monb_backward(
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
        let a = &layout.architecture;
        let (sizes, (variant, features, sparse)) = (Sizes::new(layout), self.points(a, inputs, dropout)?);
        let d_responses = match (d_responses, sparse) {
            (Responses::Dense(d_responses), None) => &d_responses.values,
            (Responses::Sparse(d_responses), Some(_)) => d_responses,
            _ => return Err(mixed_forms()),
        };
        let heads = self.fold(&sizes, routing, parameters, layout)?;
        let widths = self.widths(a, variant)?;
        let chunks =
            Chunks::new(inputs.nodes, a, &sizes, variant, global_workspace(a, variant, self.blocks), self.blocks);
        let expert_parameters = a.experts * sizes.hidden as usize;
        let teams = chunks.teams(variant);
        let mut team_sums = self.zeroed::<f32>(teams as usize * expert_parameters)?;
        let mut chunk_sums = self.zeroed::<f32>(chunks.chunks as usize * sizes.heads)?;
        let grid = [chunks.feature_blocks, chunks.chunks];
        let mut workspace = self.workspace(a, variant, grid)?;
        let arguments = abi::MonbBackward {
            expert_sums: self.at_mut(&mut team_sums, 0),
            head_sums: self.at_mut(&mut chunk_sums, 0),
            workspace: self.workspace_at(&mut workspace),
            d_responses: self.at(d_responses, 0),
            features,
            heads: self.at(&heads, 0),
            gates: self.at(&routing.gates, 0),
            experts: self.at(&routing.experts, 0),
            parameters: self.at(parameters, 0),
            widths: widths.as_ref().map_or(std::ptr::null(), |widths| self.at(widths, 0)),
            nodes: inputs.nodes as u64,
            chunk_rows: chunks.rows,
            expert_size: sizes.expert,
            hidden_size: sizes.hidden,
            workspace_size: workspace.size as u64,
            feature_count: a.features as u32,
            expert_count: a.experts as u32,
            active: a.active as u32,
            layers: a.hidden.len() as u32,
            head_width: sizes.width as u32,
            dropout: masks(dropout, inputs.maskable(a.features)),
        };
        let mut grid = Grid::new(grid, [variant.threads, 1]);
        grid.shared_bytes = workspace.shared_bytes;
        let mut sums = self.allocate::<f32>(sizes.heads)?;
        let mut expert_sums = self.allocate::<f32>(expert_parameters)?;
        let (d_expert, d_head) = (self.at_mut(&mut expert_sums, 0), self.at_mut(&mut sums, 0));
        // SAFETY: X and dF are n x d, heads d x m x (w + 1), routing d x m with experts below C, parameters the whole layout; one
        // slice of sums per team and per chunk, one piece of workspace per block. Of a sparse X gradients are d + nnz, and
        // columns end at nnz.
        unsafe {
            match sparse {
                None => self.run(variant.backward, grid, &arguments)?,
                Some(x) => {
                    let arguments = abi::MonbSparseBackward { monb: arguments, x: x.columns(self) };
                    self.run(variant.backward, grid, &arguments)?;
                }
            }
            self.sum_columns(d_expert, arguments.expert_sums, teams, expert_parameters, false)?;
            self.sum_columns(d_head, arguments.head_sums, chunks.chunks, sizes.heads, false)?;
        }
        self.monb_finish(gradient, d_gates, [&sums, &expert_sums], &heads, routing, parameters, dropout, layout)
    }

    /// From sums over all points to gradients: of gates, coefficients, output layers and hidden layers. The sums: (S, G) of
    /// each slot, and the hidden layers of each expert.
    #[allow(clippy::too_many_arguments)] // what the op takes, and its sums
    fn monb_finish(
        &self,
        gradient: &mut Buffer<V, f32>,
        d_gates: &mut Buffer<V, f32>,
        [head_sums, expert_sums]: [&Buffer<V, f32>; 2],
        heads: &Buffer<V, f32>,
        routing: &Routing<Self>,
        parameters: &Buffer<V, f32>,
        dropout: Option<&Dropout>,
        layout: &Layout,
    ) -> Result<()> {
        let (a, sizes) = (&layout.architecture, Sizes::new(layout));
        let finish = abi::MonbFinish {
            d_gates: self.at_mut(d_gates, 0),
            d_coefficients: self.at_mut(gradient, layout.coefficients.start),
            d_parameters: self.at_mut(gradient, 0),
            sums: self.at(head_sums, 0),
            heads: self.at(heads, 0),
            gates: self.at(&routing.gates, 0),
            experts: self.at(&routing.experts, 0),
            parameters: self.at(parameters, 0),
            coefficients: self.at(parameters, layout.coefficients.start),
            expert_sums: self.at(expert_sums, 0),
            expert_size: sizes.expert,
            hidden_size: sizes.hidden,
            features: a.features as u32,
            expert_count: a.experts as u32,
            active: a.active as u32,
            bases: a.bases as u32,
            head_width: sizes.width as u32,
            // Factors on whole responses alone are read from it.
            dropout: masks(dropout, u64::MAX),
        };
        let rows = [abi::HARMONIA_SUM_COLUMNS, abi::HARMONIA_SUM_SLICES];
        // SAFETY: sums hold d x m x (w + 1) and C x hidden, gates d x m, gradient and parameters the whole layout.
        unsafe {
            self.run("monb_finish_gates", Grid::flat(a.features * a.active), &finish)?;
            self.run("monb_finish_coefficients", Grid::flat(a.features * a.bases), &finish)?;
            self.run("monb_finish_outputs", Grid::new([(a.experts * a.bases) as u64, 1], rows), &finish)?;
            self.run("monb_finish_hidden", Grid::flat(a.experts * sizes.hidden as usize), &finish)
        }
    }

    /// The kernels for these features, and where those are: row-major, or by columns.
    fn points<'a>(
        &self,
        architecture: &Architecture,
        inputs: &'a DeviceInputs<V>,
        dropout: Option<&Dropout>,
    ) -> Result<(&'static Variant, *const f32, Option<&'a SparseFeatures<V>>)> {
        match &inputs.features {
            DeviceFeatures::Dense(features) => Ok((Variant::of(architecture, dropout), self.at(features, 0), None)),
            // No plan leads here.
            DeviceFeatures::Sparse(_) if dropout.is_some_and(|dropout| dropout.place == DropoutPlace::Hidden) => {
                Err(Error::Device(
                    "hidden units are dropped node by node, where zeros of a sparse feature are taken together; set \
                     engine.sparse = off"
                        .into(),
                ))
            }
            DeviceFeatures::Sparse(x) => Ok((&SPARSE, std::ptr::null(), Some(x))),
            // No plan leads here.
            DeviceFeatures::Panels(_) => Err(Error::Device(
                "experts are evaluated directly where X is on the device; set engine.monb = knots".into(),
            )),
        }
    }

    /// Bytes of sums and workspace alive in a backward pass, at most.
    pub(super) fn monb_scratch(&self, nodes: usize, layout: &Layout) -> usize {
        let a = &layout.architecture;
        let sizes = Sizes::new(layout);
        // Dropout of hidden units takes the generic kernels, a sparse X those for columns.
        let bytes = |variant: &Variant| {
            let workspace = global_workspace(a, variant, self.blocks);
            let chunks = Chunks::new(nodes, a, &sizes, variant, workspace, self.blocks);
            let (teams, parameters) = (chunks.teams(variant) as usize, a.experts * sizes.hidden as usize);
            let sums = (teams + 1) * parameters + (chunks.chunks as usize + 2) * sizes.heads;
            let partial = partial_sums(teams, parameters).max(partial_sums(chunks.chunks as usize, sizes.heads));
            let widths = a.hidden.len() + 1;
            let [x, y] = forward_grid(nodes, a, variant, self.blocks);
            let blocks = (chunks.feature_blocks * chunks.chunks).max(x * y) as usize;
            size_of::<f32>() * (sums + partial + widths) + blocks * workspace
        };
        bytes(Variant::of(a, None)).max(bytes(&ANY)).max(bytes(&SPARSE))
    }

    /// v = U^T a_k and u . a_k of every (feature, slot).
    fn fold(
        &self,
        sizes: &Sizes,
        routing: &Routing<Self>,
        parameters: &Buffer<V, f32>,
        layout: &Layout,
    ) -> Result<Buffer<V, f32>> {
        let a = &layout.architecture;
        let mut heads = self.allocate(sizes.heads)?;
        let arguments = abi::MonbFold {
            heads: self.at_mut(&mut heads, 0),
            parameters: self.at(parameters, 0),
            coefficients: self.at(parameters, layout.coefficients.start),
            experts: self.at(&routing.experts, 0),
            expert_size: sizes.expert,
            hidden_size: sizes.hidden,
            features: a.features as u32,
            active: a.active as u32,
            bases: a.bases as u32,
            head_width: sizes.width as u32,
        };
        // SAFETY: heads hold d x m x (w + 1), experts d x m below C, parameters the whole layout.
        unsafe { self.run("monb_fold", Grid::flat(sizes.heads), &arguments)? };
        Ok(heads)
    }

    /// What only the generic kernels have to be told.
    fn widths(&self, architecture: &Architecture, variant: &Variant) -> Result<Option<Buffer<V, u32>>> {
        if !variant.is_generic() {
            return Ok(None);
        }
        let hidden = architecture.hidden.iter().map(|&width| width as u32);
        self.copy(&std::iter::once(1).chain(hidden).collect::<Vec<u32>>()).map(Some)
    }

    fn workspace(&self, architecture: &Architecture, variant: &Variant, grid: [u64; 2]) -> Result<Workspace<V>> {
        if !variant.is_generic() {
            return Ok(Workspace { size: 0, shared_bytes: 0, memory: None });
        }
        let bytes = workspace_bytes(architecture);
        let size = bytes / size_of::<f32>();
        if global_workspace(architecture, variant, self.blocks) == 0 {
            return Ok(Workspace { size, shared_bytes: bytes as u32, memory: None });
        }
        let blocks = (grid[0] * grid[1]) as usize;
        Ok(Workspace { size, shared_bytes: 0, memory: Some(self.allocate(blocks * size)?) })
    }

    fn workspace_at(&self, workspace: &mut Workspace<V>) -> *mut f32 {
        workspace.memory.as_mut().map_or(std::ptr::null_mut(), |memory| self.at_mut(memory, 0))
    }
}

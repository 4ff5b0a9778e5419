//! A batch on the device.

use super::panels::{PanelFeatures, can_come};
use super::sparse::SparseFeatures;
use super::walk_panels::{CsrRows, PanelCsr};
use super::{Buffer, Driver, Launcher, abi};
use crate::batch::{Batch, Reach};
use crate::device::no_walk;
use crate::loss::Objective;
use crate::plan::{Plan, Space};
use harmonia_graph::dataset::{Level, Values};
use harmonia_graph::error::{Error, Result};
use harmonia_graph::graph::{Csr, Neighbourhood, NodeWeights, RowSet, Transition};
use std::sync::Arc;

/// Walk, features, offsets and targets of a batch.
pub struct DeviceInputs<V: Driver> {
    /// X.
    pub(super) features: DeviceFeatures<V>,
    /// n: rows of X and of every state.
    pub(super) nodes: usize,
    /// How nodes reach the logits.
    pub(super) reach: DeviceReach<V>,
    /// First node of each graph and the end.
    pub(super) graph_ptr: Buffer<V, u64>,
    /// What logits belong to.
    pub(super) level: Level,
    /// Which loss kernel scores the logits.
    pub(super) objective: Objective,
    /// L.
    pub(super) outputs: usize,
    /// See [`Batch::target_words`]; words that the kernel of the loss reads as its own type, and perhaps weights.
    pub(super) targets: Buffer<V, u32>,
    /// Rows of the logits that have one; none where the device put the batch together.
    pub(super) target_rows: Option<Buffer<V, u32>>,
    /// Units the loss is a mean over.
    pub(super) units: usize,
}

/// X as the ops read it.
pub(super) enum DeviceFeatures<V: Driver> {
    /// n x d.
    Dense(Buffer<V, f32>),
    /// Non-zeros only.
    Sparse(SparseFeatures<V>),
    /// n x d, panel by panel.
    Panels(PanelFeatures<V>),
}

/// How nodes reach the logits.
pub(super) enum DeviceReach<V: Driver> {
    /// Hop by hop.
    Walk(DeviceWalk<V>),
    /// Graph tasks: by weights known in advance.
    Weights(DeviceWeights<V>),
    /// Rows of a table of walks.
    Table(super::table::DeviceTableRows<V>),
}

/// The walk M = D^-1 A.
pub(super) struct DeviceWalk<V: Driver> {
    /// 1 / degree of each node.
    pub(super) inverse_degree: Buffer<V, f32>,
    pub(super) matrix: WalkMatrix<V>,
    /// `None` where the matrix is symmetric.
    pub(super) transposed: Option<WalkMatrix<V>>,
}

/// The matrix of a walk: on the device, or panel by panel.
pub(super) enum WalkMatrix<V: Driver> {
    Resident(DeviceCsr<V>),
    Panels(PanelCsr<V>),
}

/// What nodes count for in the logits of their graphs.
pub(super) struct DeviceWeights<V: Driver> {
    /// v_t of every node, n x T.
    pub(super) values: Buffer<V, f32>,
    /// Graph of every node.
    pub(super) graph_of: Buffer<V, u32>,
    /// T.
    pub(super) hops: usize,
    /// The largest v_t, or 1.
    pub(super) largest: f32,
}

/// A CSR matrix on the device, with its long rows cut into segments.
pub(super) struct DeviceCsr<V: Driver> {
    pub(super) row_ptr: Buffer<V, u64>,
    pub(super) col_idx: Buffer<V, u32>,
    pub(super) weights: Option<Buffer<V, f32>>,
    pub(super) long: Option<LongRows<V>>,
}

/// Rows with more than `HARMONIA_LONG_ROW` entries, in segments of at most as many.
pub(super) struct LongRows<V: Driver> {
    pub(super) rows: Buffer<V, u32>,
    /// First segment of each, and the end.
    pub(super) first_segment: Buffer<V, u32>,
    /// First entry of each segment.
    pub(super) begin: Buffer<V, u64>,
    /// Entry behind the last of each segment.
    pub(super) end: Buffer<V, u64>,
}

/// The rows within 0, 1, 2, ... steps of those that are scored, as far as they are few.
pub struct DeviceScope<V: Driver> {
    levels: Vec<DeviceRows<V>>,
}

/// Some rows of the walk matrix.
pub(super) struct DeviceRows<V: Driver> {
    /// A bit per row.
    pub(super) members: Buffer<V, u64>,
    /// The long ones among them.
    pub(super) long: Option<LongRows<V>>,
}

impl<V: Driver> DeviceScope<V> {
    pub(super) fn new(launcher: &Launcher<V>, matrix: &Csr, near: &Neighbourhood) -> Result<Self> {
        let rows = |set: &RowSet| {
            let long = LongRows::new(launcher, &matrix.row_ptr, set.iter())?;
            Ok(DeviceRows { members: launcher.copy(set.words())?, long })
        };
        Ok(DeviceScope { levels: near.levels().iter().map(rows).collect::<Result<_>>()? })
    }

    /// The rows within so many steps; none stands for all.
    ///
    /// # Errors
    /// The scope belongs to a batch of another size.
    pub(super) fn within(scope: Option<&Self>, steps: usize, nodes: usize) -> Result<Option<&DeviceRows<V>>> {
        let Some(rows) = scope.and_then(|scope| scope.levels.get(steps)) else { return Ok(None) };
        if rows.members.len() == nodes.div_ceil(64) {
            return Ok(Some(rows));
        }
        Err(Error::Device(format!("a scope of {} words for {nodes} nodes", rows.members.len())))
    }
}

impl<V: Driver> DeviceInputs<V> {
    pub(super) fn new(launcher: &Launcher<V>, batch: &Batch, plan: Plan) -> Result<Self> {
        if batch.part.as_ref().is_some_and(|part| part.halo.is_some()) {
            return Err(Error::Config(
                "engine.share = nodes is for CPUs: on GPUs set engine.share = classes, where every process walks some columns of the \
                 whole graph (larger than a GPU it comes in panels)"
                    .into(),
            ));
        }
        let graph_ptr: Vec<u64> = batch.graph_ptr.iter().map(|&node| node as u64).collect();
        Ok(DeviceInputs {
            features: match batch.features.values() {
                Values::Sparse(rows) if plan.sparse => {
                    DeviceFeatures::Sparse(SparseFeatures::new(launcher, rows, batch.features.cols)?)
                }
                _ if batch.streamed.feature_rows > 0 && can_come(plan) && batch.transition().is_some() => {
                    DeviceFeatures::Panels(PanelFeatures::new(launcher, &batch.features, batch.streamed.feature_rows)?)
                }
                _ => DeviceFeatures::Dense(launcher.copy(&batch.features.dense())?),
            },
            nodes: batch.nodes(),
            reach: match &batch.reach {
                Reach::Walk(transition) => {
                    let panels = if plan.space == Space::Classes { batch.streamed.walk_bytes } else { 0 };
                    DeviceReach::Walk(DeviceWalk::new(launcher, transition, panels)?)
                }
                Reach::Weights(weights) => {
                    DeviceReach::Weights(DeviceWeights::new(launcher, weights, &batch.graph_ptr)?)
                }
                Reach::Table(table) => DeviceReach::Table(launcher.table_rows(table, batch.streamed.table_bytes)?),
            },
            graph_ptr: launcher.copy(&graph_ptr)?,
            level: batch.level,
            objective: batch.objective,
            outputs: batch.outputs,
            targets: launcher.copy(&batch.target_words())?,
            target_rows: Some(launcher.copy(&target_rows(batch))?),
            units: batch.counted(),
        })
    }

    /// The rows that were targets are none, those of `batch` are: nothing else is copied.
    pub(super) fn retarget(&mut self, launcher: &Launcher<V>, batch: &Batch) -> Result<()> {
        let (rows, words) = (target_rows(batch), batch.target_words());
        if words.len() != self.targets.len() {
            return Err(Error::Device(format!("{} targets in place of {}", words.len(), self.targets.len())));
        }
        let width = words.len() / batch.rows().max(1);
        let own: Vec<u32> = rows.iter().flat_map(|&row| &words[row as usize * width..][..width]).copied().collect();
        self.set_targets(launcher, launcher.copy(&rows)?, &launcher.copy(&own)?, width)
    }

    /// The same with rows and words, `width` of each, that are on the device.
    pub(super) fn set_targets(
        &mut self,
        launcher: &Launcher<V>,
        rows: Buffer<V, u32>,
        words: &Buffer<V, u32>,
        width: usize,
    ) -> Result<()> {
        let Some(before) = self.target_rows.take() else {
            return Err(Error::Device("the targets of a batch that was put together on the device are its own".into()));
        };
        launcher.set_targets(&mut self.targets, &before, None, width)?;
        launcher.set_targets(&mut self.targets, &rows, Some(words), width)?;
        self.units = rows.len();
        self.target_rows = Some(rows);
        Ok(())
    }

    /// The walk matrix, for ops that step along edges.
    ///
    /// # Errors
    /// The batch has weights of nodes instead.
    pub(super) fn walk(&self) -> Result<&DeviceWalk<V>> {
        match &self.reach {
            DeviceReach::Walk(walk) => Ok(walk),
            DeviceReach::Weights(_) | DeviceReach::Table(_) => Err(no_walk()),
        }
    }

    /// 1 / degree of each node; none where there is no walk.
    pub(super) fn inverse_degree(&self) -> Option<&Buffer<V, f32>> {
        match &self.reach {
            DeviceReach::Walk(walk) => Some(&walk.inverse_degree),
            DeviceReach::Weights(_) | DeviceReach::Table(_) => None,
        }
    }

    /// Elements of X whose inputs may be dropped; those behind them are points of a grid.
    pub(super) fn maskable(&self, features: usize) -> u64 {
        match &self.reach {
            DeviceReach::Table(rows) => (rows.own() * features) as u64,
            _ => u64::MAX,
        }
    }

    /// Number of graphs.
    pub(super) fn graphs(&self) -> usize {
        self.graph_ptr.len() - 1
    }
}

/// Rows of the logits that have a target.
fn target_rows(batch: &Batch) -> Vec<u32> {
    batch.units.iter().map(|&(row, _)| row).collect()
}

impl<V: Driver> DeviceWalk<V> {
    /// `panel_bytes`: of panels that the matrix comes in; 0: it is copied.
    fn new(launcher: &Launcher<V>, transition: &Arc<Transition>, panel_bytes: usize) -> Result<Self> {
        let inverse_degree: Vec<f32> = transition.degree().iter().map(|&degree| (1.0 / degree) as f32).collect();
        let inverse_degree = launcher.copy(&inverse_degree)?;
        if panel_bytes > 0 {
            let (matrix, transposed) = PanelCsr::both(launcher, transition, panel_bytes)?;
            let [matrix, transposed] = [Some(matrix), transposed].map(|csr| csr.map(WalkMatrix::Panels));
            return matrix.map(|matrix| DeviceWalk { inverse_degree, matrix, transposed }).ok_or_else(no_walk);
        }
        let copy = |csr| DeviceCsr::new(launcher, csr).map(WalkMatrix::Resident);
        let symmetric = transition.is_symmetric();
        let transposed = (!symmetric).then(|| copy(transition.transposed())).transpose()?;
        Ok(DeviceWalk { inverse_degree, matrix: copy(transition.matrix())?, transposed })
    }

    /// A.
    pub(super) fn matrix(&self) -> &WalkMatrix<V> {
        &self.matrix
    }

    /// A^T.
    pub(super) fn transposed(&self) -> &WalkMatrix<V> {
        self.transposed.as_ref().unwrap_or(&self.matrix)
    }
}

impl<V: Driver> WalkMatrix<V> {
    /// All of it.
    ///
    /// # Errors
    /// It comes in panels.
    pub(super) fn resident(&self) -> Result<&DeviceCsr<V>> {
        match self {
            WalkMatrix::Resident(csr) => Ok(csr),
            // No plan leads here.
            WalkMatrix::Panels(_) => Err(Error::Device("feature space walks where the graph is on the device".into())),
        }
    }

    /// Work on all rows: at once, or panel by panel. `near`: the rows that count, where not all do.
    pub(super) fn each(
        &self,
        launcher: &Launcher<V>,
        near: Option<&DeviceRows<V>>,
        work: &mut dyn FnMut(&CsrRows<'_, V>) -> Result<()>,
    ) -> Result<()> {
        match self {
            WalkMatrix::Resident(csr) => work(&CsrRows {
                first: 0,
                rows: csr.row_ptr.len() - 1,
                begin: launcher.at(&csr.row_ptr, 0),
                col_idx: launcher.at(&csr.col_idx, 0),
                weights: csr.weights.as_ref().map_or(std::ptr::null(), |weights| launcher.at(weights, 0)),
                long: near.map_or(&csr.long, |near| &near.long).as_ref(),
            }),
            // Of all long rows: those that do not count are not looked at by anybody.
            WalkMatrix::Panels(panels) => panels.each(launcher, work),
        }
    }
}

impl<V: Driver> DeviceWeights<V> {
    fn new(launcher: &Launcher<V>, weights: &NodeWeights, graph_ptr: &[usize]) -> Result<Self> {
        let values: Vec<f32> = weights.values().iter().map(|&value| value as f32).collect();
        let graph_of: Vec<u32> = (graph_ptr.windows(2).enumerate())
            .flat_map(|(graph, range)| std::iter::repeat_n(graph as u32, range[1] - range[0]))
            .collect();
        Ok(DeviceWeights {
            values: launcher.copy(&values)?,
            graph_of: launcher.copy(&graph_of)?,
            hops: weights.hops(),
            largest: values.iter().copied().fold(1.0, f32::max),
        })
    }
}

impl<V: Driver> DeviceCsr<V> {
    fn new(launcher: &Launcher<V>, csr: &Csr) -> Result<Self> {
        // Kernels take ids as addresses.
        csr.check_range()?;
        Ok(DeviceCsr {
            row_ptr: launcher.copy(&csr.row_ptr)?,
            col_idx: launcher.copy(&csr.col_idx)?,
            weights: csr.weights.as_deref().map(|weights| launcher.copy(weights)).transpose()?,
            long: LongRows::new(launcher, &csr.row_ptr, 0..csr.rows())?,
        })
    }
}

impl<V: Driver> LongRows<V> {
    /// Those among `candidates`, which increase.
    pub(super) fn new(
        launcher: &Launcher<V>,
        row_ptr: &[u64],
        candidates: impl Iterator<Item = usize>,
    ) -> Result<Option<Self>> {
        let longest = u64::from(abi::HARMONIA_LONG_ROW);
        let (mut rows, mut first_segment, mut begin, mut end) = (Vec::new(), vec![0], Vec::new(), Vec::new());
        for i in candidates.filter(|&i| row_ptr[i + 1] - row_ptr[i] > longest) {
            rows.push(i as u32);
            for start in (row_ptr[i]..row_ptr[i + 1]).step_by(longest as usize) {
                begin.push(start);
                end.push((start + longest).min(row_ptr[i + 1]));
            }
            first_segment.push(begin.len() as u32);
        }
        if rows.is_empty() {
            return Ok(None);
        }
        Ok(Some(LongRows {
            rows: launcher.copy(&rows)?,
            first_segment: launcher.copy(&first_segment)?,
            begin: launcher.copy(&begin)?,
            end: launcher.copy(&end)?,
        }))
    }
}

//! X that has no room on the device: it comes panel by panel, and ops work on the rows of the panel that is open.
//!
//! F of a panel, too, is there only while the panel is: the pass backward makes it again. Sums over rows go on from panel to
//! panel; panels end where the stretches of rows end that are summed one after the other, so that sums are the same for any
//! size of panels, and where X is on the device.

use super::belt::{Belt, Panel};
use super::inputs::DeviceFeatures;
use super::knots::chunk_rows;
use super::project::{padded, stretch_rows};
use super::{DeviceInputs, Driver, Launcher};
use crate::architecture::Layout;
use crate::config::Monb;
use crate::knots::planned_pieces;
use crate::plan::{BatchSizes, Plan, Space};
use bytemuck::cast_slice_mut;
use harmonia_graph::dataset::{Features, Values};
use harmonia_graph::error::{Error, Result};
use rayon::prelude::*;
use std::sync::{Arc, Mutex, PoisonError};

/// Numbers that a task writes.
const TASK: usize = 1 << 16;

/// X with the host, and the panel of it that is open.
pub(super) struct PanelFeatures<V: Driver> {
    host: Arc<Features>,
    /// Of a panel.
    rows: usize,
    state: Mutex<State<V>>,
}

struct State<V: Driver> {
    belt: Belt<V>,
    /// Which, and where it is.
    open: Option<(Panel, u64)>,
}

/// The rows that ops work on.
pub(super) struct Window {
    /// X of the first of them; null where it is sparse.
    pub(super) features: *const f32,
    pub(super) first: usize,
    pub(super) rows: usize,
    /// Of the batch.
    nodes: usize,
}

impl Window {
    pub(super) fn is_first(&self) -> bool {
        self.first == 0
    }

    pub(super) fn is_last(&self) -> bool {
        self.first + self.rows == self.nodes
    }
}

impl<V: Driver> PanelFeatures<V> {
    pub(super) fn new(launcher: &Launcher<V>, host: &Arc<Features>, rows: usize) -> Result<Self> {
        let belt = Belt::new(launcher, rows.min(host.rows) * host.cols * size_of::<f32>())?;
        Ok(PanelFeatures { host: Arc::clone(host), rows, state: Mutex::new(State { belt, open: None }) })
    }

    fn count(&self) -> usize {
        self.host.rows.div_ceil(self.rows)
    }

    /// Rows of a panel, at most.
    pub(super) fn rows(&self) -> usize {
        self.rows.min(self.host.rows)
    }

    fn rows_of(&self, at: usize) -> (usize, usize) {
        let first = at * self.rows;
        (first, self.rows.min(self.host.rows - first))
    }

    fn bring(&self, launcher: &Launcher<V>, belt: &mut Belt<V>, panel: Panel) -> Result<()> {
        let (first, rows) = self.rows_of(panel.at);
        let bytes = rows * self.host.cols * size_of::<f32>();
        belt.bring(launcher, panel, bytes, &mut |from, piece| {
            fill(cast_slice_mut(piece), &self.host, first * self.host.cols + from / size_of::<f32>());
        })
    }

    /// Opens a panel, or none.
    fn open(&self, launcher: &Launcher<V>, at: Option<usize>) -> Result<()> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let State { belt, open } = &mut *state;
        if let Some((panel, _)) = open.take() {
            belt.leave(launcher, panel)?;
        }
        // Work on the panel before is asked for and not done: what is brought now comes beside it. Behind the last comes the first.
        let panel = Panel { of: 0, at: at.unwrap_or(0) };
        self.bring(launcher, belt, panel)?;
        if at.is_some() {
            *open = Some((panel, belt.arrive(launcher, panel)?));
        }
        Ok(())
    }

    fn window(&self) -> Result<Window> {
        let open = self.state.lock().unwrap_or_else(PoisonError::into_inner).open;
        let (panel, address) = open.ok_or_else(|| Error::Device("no panel of the features is open".into()))?;
        let (first, rows) = self.rows_of(panel.at);
        Ok(Window { features: address as *const f32, first, rows, nodes: self.host.rows })
    }
}

/// Numbers of X from `first` on, row after row.
fn fill(piece: &mut [f32], features: &Features, first: usize) {
    piece.par_chunks_mut(TASK).enumerate().for_each(|(task, part)| {
        let first = first + task * TASK;
        match features.values() {
            Values::Dense(values) => part.copy_from_slice(&values[first..][..part.len()]),
            Values::Half(values) => {
                part.iter_mut().zip(&values[first..]).for_each(|(to, value)| *to = value.to_f32());
            }
            Values::Sparse(sparse) => {
                part.fill(0.0);
                let (cols, end) = (features.cols, first + part.len());
                for row in first / cols..end.div_ceil(cols) {
                    let places = sparse.row(row).map(|(k, x)| (row * cols + k, x));
                    places.filter(|(at, _)| (first..end).contains(at)).for_each(|(at, x)| part[at - first] = x);
                }
            }
        }
    });
}

impl<V: Driver> DeviceInputs<V> {
    /// The rows that ops work on: all of them, or those of the panel that is open.
    pub(super) fn window(&self, launcher: &Launcher<V>) -> Result<Window> {
        let whole = |features| Window { features, first: 0, rows: self.nodes, nodes: self.nodes };
        match &self.features {
            DeviceFeatures::Dense(x) => Ok(whole(launcher.at(x, 0))),
            DeviceFeatures::Sparse(_) => Ok(whole(std::ptr::null())),
            DeviceFeatures::Panels(x) => x.window(),
        }
    }

    pub(super) fn panel_count(&self) -> usize {
        if let DeviceFeatures::Panels(x) = &self.features { x.count() } else { 1 }
    }

    /// Opens a panel, or closes the last.
    pub(super) fn open_panel(&self, launcher: &Launcher<V>, at: Option<usize>) -> Result<()> {
        if let DeviceFeatures::Panels(x) = &self.features { x.open(launcher, at) } else { Ok(()) }
    }
}

/// Whether X of this plan may come in panels: where F is needed row by row, once forward and once backward.
pub(super) fn can_come(plan: Plan) -> bool {
    plan.space == Space::Classes && plan.monb == Monb::Knots && !plan.sparse
}

impl<V: Driver> Launcher<V> {
    /// Rows that panels are a multiple of: stretches of class space, which are multiples of chunks of pieces.
    pub(super) fn panel_grain(&self, batch: &BatchSizes, layout: &Layout, plan: Plan) -> Option<usize> {
        let a = &layout.architecture;
        let chunk = chunk_rows(batch.nodes, a.features, planned_pieces(a), self.blocks).1 as usize;
        can_come(plan).then(|| stretch_rows(a.hops * padded(a.outputs), chunk, self.blocks))
    }
}

//! Bytes that each op of a training step must move, from sizes alone: what measured times are held against.
//!
//! Every operand of an op is counted once, and the states of a walk once per hop. A gather can be counted in two ways:
//! - `gathered`: one row per entry of the matrix. No order of a large graph keeps the rows its neighbours need in cache,
//!   so this is what memory has to deliver once the states outgrow the caches.
//! - `compulsory`: each row once per hop, as with a cache that holds all of them. No program moves less.
//!
//! Of a node task, hops are counted where a step takes them: at the rows near its targets, from the rows near its targets.
//!
//! A step from a table of walks reads its cells twice, and touches no matrix.
//!
//! Tables that stay in cache for any dataset (pieces of experts, weights of the readout) are counted once. Ops are
//! named as in a [`super::Profile`].

use crate::architecture::Layout;
use crate::config::States;
use crate::device::Op;
use crate::device::cpu::LOOKED_THROUGH;
use crate::loss::Objective;
use crate::plan::Plan;
use harmonia_graph::dataset::{Dataset, Level, Values};
use harmonia_graph::graph::Neighbourhood;
use harmonia_graph::walk_table::WalkTable;

/// Bytes of a float, and of an index.
const WORD: f64 = 4.0;
/// Bytes of an offset into the entries of a matrix.
const OFFSET: f64 = 8.0;

/// What an op moves.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Traffic {
    /// Counted over all its calls in a step.
    pub op: Op,
    /// Bytes, one gathered row per entry.
    pub gathered: f64,
    /// Bytes, each row once per hop.
    pub compulsory: f64,
}

/// Bytes by both counts.
#[derive(Clone, Copy)]
struct Bytes(f64, f64);

/// What a step from a table of walks has of it.
#[derive(Clone, Copy, Debug)]
pub struct TableStep<'a> {
    /// The table.
    pub table: &'a WalkTable,
    /// Units of the step.
    pub rows: usize,
    /// Walks of each unit that correct the table.
    pub walks: usize,
}

impl TableStep<'_> {
    /// Rows of X and F: units, which graphs are not, points of the grid, and ends of walks.
    fn responses(&self) -> usize {
        let contents = &self.table.contents;
        let own = if contents.level == Level::Node { self.rows } else { 0 };
        own + self.table.grid.most() + self.rows * self.walks * contents.steps()
    }

    /// Bytes of the cells of its rows.
    fn cells(&self) -> f64 {
        (self.rows * self.table.bytes()) as f64 / self.table.contents.units.len().max(1) as f64
    }
}

/// The ops of one step over a whole dataset, or from a table of it.
pub fn step(
    plan: Plan,
    states: States,
    dataset: &Dataset,
    layout: &Layout,
    table: Option<TableStep<'_>>,
) -> Vec<Traffic> {
    let a = &layout.architecture;
    let nodes = table.map_or(dataset.graph.nodes(), |table| table.rows);
    let [n, d, outputs, hops] = [nodes, a.features, a.outputs, a.hops].map(|size| size as f64);
    let state = states.bytes() as f64;
    let adjacency = dataset.graph.adjacency();
    let entries = adjacency.entries() as f64;
    let entry = if adjacency.weights.is_some() { 2.0 * WORD } else { WORD };
    // (rows, entries) within so many steps of the targets.
    let near = (dataset.level == Level::Node).then(|| {
        let targets = dataset.split.train.iter().copied();
        Neighbourhood::new(adjacency, targets, a.hops.saturating_sub(1), (LOOKED_THROUGH * entries) as usize)
    });
    let within = |steps: usize| match near.as_ref().and_then(|near| near.within(steps)) {
        Some(rows) => (rows.rows() as f64, rows.entries() as f64),
        None => (n, entries),
    };
    // Rows within each of some numbers of steps, added up.
    let rows_within = |steps: std::ops::Range<usize>| steps.map(|steps| within(steps).0).sum::<f64>();
    // One hop: the matrix and the degrees of the rows that are computed in order, and the states that are gathered.
    let hop = |columns: f64, (rows, read): (f64, f64), (sources, gathered): (f64, f64)| {
        let matrix = read * entry + rows * (OFFSET + WORD);
        Bytes(matrix + gathered * columns * state, matrix + sources * columns * state)
    };
    // All hops, and what they read and write in order. Forward, `t` steps from the targets; backward, from t steps to t + 1.
    let hops_and = |columns: f64, backward: bool, streamed: f64| {
        (0..a.hops.saturating_sub(1)).fold(Bytes(streamed, streamed), |sum, t| {
            let (near, next) = (within(t), within(t + 1));
            // A row reads as many states as it has entries; distinct ones are at most those a step further away.
            let Bytes(gathered, compulsory) =
                if backward { hop(columns, next, near) } else { hop(columns, near, (next.0.min(near.1), near.1)) };
            Bytes(sum.0 + gathered, sum.1 + compulsory)
        })
    };
    let graph_task = dataset.level == Level::Graph && table.is_none();
    let rows = if graph_task { dataset.graphs() as f64 } else { n };
    let (logits, states_of_hop) = (rows * outputs * WORD, n * outputs * state);
    let all_states = hops * states_of_hop;

    // X, and F or dF: all elements, or the non-zeros.
    let (x, f, non_zeros) = match dataset.features.values() {
        _ if table.is_some() => {
            let bytes = table.map_or(0, |table| table.responses()) as f64 * d * WORD;
            (bytes, bytes, None)
        }
        Values::Sparse(sparse) if plan.sparse => {
            let count = sparse.values.len() as f64;
            // A value and the place of its row.
            (2.0 * WORD * count, WORD * (count + d), Some(count))
        }
        Values::Half(_) => (2.0 * n * d, WORD * n * d, None),
        _ => (WORD * n * d, WORD * n * d, None),
    };
    let all = layout.len() as f64 * WORD;
    let count = |ranges: &[&std::ops::Range<usize>]| ranges.iter().map(|range| range.len() as f64 * WORD).sum::<f64>();
    let router = count(&[&layout.embeddings, &layout.router_gate, &layout.router_noise]);
    let hop_logits = count(&[&layout.hop_logits]);
    let readout = count(&[&layout.readout_weight, &layout.readout_bias]);
    let experts = all - router - hop_logits - readout;

    let streamed = |bytes: f64| Bytes(bytes, bytes);
    let targets = rows * Objective::of(&dataset.labels).width(a.outputs) as f64 * WORD;
    let units = table.map_or(dataset.split.train.len(), |table| table.rows) as f64;
    let cells = table.map_or(0.0, |table| table.cells());
    let bytes = |op: Op| match op {
        Op::Clear | Op::Norm => streamed(all),
        Op::DrawNoise => streamed(d * a.experts as f64 * WORD),
        Op::RouteForward => streamed(router),
        Op::HopWeightsForward => streamed(2.0 * hop_logits),
        Op::MonbForward => streamed(x + f + experts),
        Op::KnotsCompile => streamed(experts),
        Op::KnotsForward => streamed(x + f),
        Op::ProjectForward => streamed(f + hop_logits + readout + all_states),
        Op::WalkForward if graph_task => streamed(n * hops * WORD + all_states + logits),
        // Every G_t is read, all A_t but the last and the logits are written.
        Op::WalkForward => {
            let states = rows_within(0..a.hops) + rows_within(1..a.hops.max(2) - 1);
            hops_and(outputs, false, states * outputs * state + within(0).0 * outputs * WORD)
        }
        Op::PropagateForward => {
            // Hop 0 reads F and writes H; any other adds to H and, but for the last, writes the next state.
            let next = rows_within(1..a.hops.max(2) - 1) * d * state;
            hops_and(d, false, 2.0 * (n + rows_within(0..a.hops - 1)) * d * WORD + next)
        }
        Op::ReadoutForward => streamed(n * d * WORD + readout + logits),
        Op::Loss => streamed(units * outputs * WORD + targets + logits),
        Op::WalkBackward if graph_task => streamed(logits + n * hops * WORD + all_states),
        Op::WalkBackward => hops_and(outputs, true, logits + all_states),
        Op::ProjectBackward => {
            // F is read, dF written. Where X is sparse, a non-zero gathers the states of its row.
            let both = 2.0 * f + 2.0 * (hop_logits + readout);
            match non_zeros {
                Some(count) => {
                    let gathered = count * (WORD + hops * outputs * state);
                    Bytes(both + gathered, both + count * WORD + all_states)
                }
                None => streamed(both + all_states),
            }
        }
        Op::ReadoutBackward => streamed(2.0 * n * d * WORD + 2.0 * readout + logits),
        Op::PropagateBackward => {
            // Hop 0 reads F and dH, writes the first state and dF; any other reads F, adds to dF, writes the next one.
            let states = if a.hops > 1 { n + rows_within(1..a.hops - 1) } else { 0.0 };
            hops_and(d, true, 3.0 * (n + rows_within(1..a.hops)) * d * WORD + states * d * state)
        }
        // F, and X of the ends of walks, are read, H is written; then dH and F are read, dF is written.
        Op::TableForward => streamed(cells + f + n * d * WORD + hop_logits),
        Op::TableBackward => streamed(cells + 2.0 * f + n * d * WORD + 2.0 * hop_logits),
        Op::HopWeightsBackward => streamed(4.0 * hop_logits),
        Op::MonbBackward | Op::KnotsBackward => streamed(x + f + 2.0 * experts),
        Op::RouteBackward => streamed(2.0 * router),
        // Reads parameters, gradient and two moments, writes all but the gradient.
        Op::Adam => streamed(7.0 * all),
    };
    let traffic = |op| {
        let Bytes(gathered, compulsory) = bytes(op);
        Traffic { op, gathered, compulsory }
    };
    Op::of_step(plan).map(traffic).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::batch::Batches;
    use crate::config::Config;
    use crate::config::Monb;
    use crate::device::Device;
    use crate::device::cpu::Cpu;
    use crate::model::{Randomness, Resident, initial_parameters};
    use crate::plan::Space;
    use crate::tabulate::{Builder, TablePlan};
    use harmonia_graph::dataset::{Features, Labels, SparseRows};
    use harmonia_graph::graph::{Direction, Graph, Split, Walk};
    use harmonia_graph::walk_table::CellBits;
    use harmonia_graph::watch::Watch;

    /// A path of four nodes, three classes, two features of which one in two is zero.
    fn path(sparse: bool) -> Dataset {
        let graph = Graph::from_edges(4, &[(0, 1), (1, 2), (2, 3)], None, Direction::Undirected).unwrap();
        let rows = SparseRows::collect((0..4).map(|i| vec![(i % 2, 1.0)]));
        let values = if sparse { Values::Sparse(rows) } else { Values::Dense(vec![1.0; 8].into()) };
        let labels = Labels::Classes { ids: vec![0, 1, 2, 0], classes: 3 };
        let split = Split { train: vec![0, 1, 2], ..Split::default() };
        Dataset::nodes("path", graph, Features::held(4, 2, values).unwrap(), labels, split).unwrap()
    }

    fn layout(dataset: &Dataset, hops: usize) -> Layout {
        let mut config = Config::default();
        config.model.hops = hops;
        Layout::new(config.architecture(dataset.features.cols, dataset.labels.outputs())).unwrap()
    }

    fn of(ops: &[Traffic], op: Op) -> (f64, f64) {
        let found = ops.iter().find(|traffic| traffic.op == op).unwrap();
        (found.gathered, found.compulsory)
    }

    #[test]
    fn bytes_of_a_path_counted_by_hand() {
        let dataset = path(false);
        let layout = layout(&dataset, 3);
        let plan = Plan { monb: Monb::Knots, space: Space::Classes, sparse: false };
        let ops = step(plan, States::F32, &dataset, &layout, None);
        // X and F have 4 x 2 floats.
        assert_eq!(of(&ops, Op::KnotsForward), (64.0, 64.0));
        // Two hops over 6 entries (4 bytes each) and 4 rows (12 bytes each); states of 3 floats: 6 or 4 of them.
        let matrix = 2.0 * (24.0 + 48.0);
        // In order: three G_t, one A_t and the logits, 4 x 3 floats each.
        let ordered = (3.0 + 1.0 + 1.0) * 48.0;
        assert_eq!(of(&ops, Op::WalkForward), (matrix + 2.0 * 72.0 + ordered, matrix + 2.0 * 48.0 + ordered));
        // dlogits in, three states out.
        assert_eq!(of(&ops, Op::WalkBackward).1, matrix + 2.0 * 48.0 + 4.0 * 48.0);
        // Half states halve what is gathered and the states in order, not the matrix and the logits.
        let half = step(plan, States::F16, &dataset, &layout, None);
        assert_eq!(of(&half, Op::WalkForward).0, matrix + 72.0 + 4.0 * 24.0 + 48.0);
        assert_eq!(of(&ops, Op::Adam).0, 28.0 * layout.len() as f64);
        // In feature space states are two floats wide.
        let direct = step(Plan::DIRECT, States::F32, &dataset, &layout, None);
        let ordered = (2.0 + 4.0 + 1.0) * 32.0;
        assert_eq!(of(&direct, Op::PropagateForward), (matrix + 2.0 * 48.0 + ordered, matrix + 2.0 * 32.0 + ordered));
        assert!(ops.iter().chain(&direct).all(|traffic| traffic.compulsory <= traffic.gathered));
    }

    #[test]
    fn hops_are_counted_where_they_are_taken() {
        // A path of 40 nodes; node 0 sees one node more with every step.
        let edges: Vec<(u32, u32)> = (1..40).map(|i| (i - 1, i)).collect();
        let graph = Graph::from_edges(40, &edges, None, Direction::Undirected).unwrap();
        let labels = Labels::Classes { ids: (0..40).map(|i| i % 3).collect(), classes: 3 };
        let split = Split { train: vec![0], ..Split::default() };
        let features = Features::new(40, 2, vec![1.0; 80]).unwrap();
        let dataset = Dataset::nodes("path", graph, features, labels, split).unwrap();
        let layout = layout(&dataset, 3);
        let ops = step(Plan { space: Space::Classes, ..Plan::DIRECT }, States::F32, &dataset, &layout, None);
        // The last hop is of one row with one entry, the one before of two rows with three.
        let matrix = (4.0 + 12.0) + (12.0 + 24.0);
        // G_0, G_1 and G_2 of 1, 2 and 3 rows, A_1 of 2 rows, and one row of logits, 12 bytes each.
        let ordered = (6.0 + 2.0 + 1.0) * 12.0;
        assert_eq!(of(&ops, Op::WalkForward), (matrix + 4.0 * 12.0 + ordered, matrix + 4.0 * 12.0 + ordered));
        // Backward the rows of the next step are computed, two and three with three and five entries, from one entry, then
        // from three, of one row and of two; dlogits and all three states are of all rows.
        let (matrix, ordered) = ((12.0 + 24.0) + (20.0 + 36.0), 4.0 * 480.0);
        assert_eq!(of(&ops, Op::WalkBackward), (matrix + 4.0 * 12.0 + ordered, matrix + 3.0 * 12.0 + ordered));
        let direct = step(Plan::DIRECT, States::F32, &dataset, &layout, None);
        // In feature space, 8 bytes a row: F in and H out of all rows, H in and out of two and of one; the state between them.
        let (matrix, ordered) = ((4.0 + 12.0) + (12.0 + 24.0), 2.0 * (40.0 + 3.0) * 8.0 + 2.0 * 8.0);
        assert_eq!(of(&direct, Op::PropagateForward).0, matrix + 4.0 * 8.0 + ordered);
        assert_eq!(of(&direct, Op::PropagateBackward).0, 92.0 + 4.0 * 8.0 + 3.0 * (40.0 + 5.0) * 8.0 + 42.0 * 8.0);
    }

    #[test]
    fn a_step_from_a_table_reads_its_cells_twice() {
        let dataset = path(false);
        let layout = layout(&dataset, 3);
        let table_plan = TablePlan::with(&dataset, 3, 2, CellBits::Eight);
        // One value, so one point: without a hat there is no cell.
        assert_eq!(table_plan.bytes(), 0);
        let features = Features::new(4, 2, (0..8).map(|i| i as f32).collect()).unwrap();
        let dataset = Dataset { features: std::sync::Arc::new(features), ..dataset };
        let table_plan = TablePlan::with(&dataset, 3, 3, CellBits::Eight);
        let table = Builder::new(&dataset, Walk::default(), &table_plan).table(&Watch::silent()).unwrap();
        let plan = Plan { monb: Monb::Knots, space: Space::Table, sparse: false };
        let two = TableStep { table: &table, rows: 2, walks: 0 };
        let ops = step(plan, States::F32, &dataset, &layout, Some(two));
        // Two rows of two features, two hops and two hats, a byte each; F of two units and three points, two floats each; H.
        let (cells, f, h, theta) = (16.0, 40.0, 16.0, 24.0);
        assert_eq!(of(&ops, Op::TableForward), (cells + f + h + theta, cells + f + h + theta));
        assert_eq!(of(&ops, Op::TableBackward).0, cells + 2.0 * f + h + 2.0 * theta);
        assert_eq!(of(&ops, Op::KnotsForward).0, 2.0 * f);
        // Logits of two rows and three classes, of which a target each.
        assert_eq!(of(&ops, Op::Loss).0, 24.0 + 8.0 + 24.0);
        // Three walks of two steps add six rows of X and F for each unit.
        let ops = step(plan, States::F32, &dataset, &layout, Some(TableStep { walks: 3, ..two }));
        assert_eq!(of(&ops, Op::KnotsForward).0, 2.0 * (f + 12.0 * 8.0));
    }

    #[test]
    fn a_step_runs_the_ops_that_are_listed_for_its_plan_and_no_other() {
        let device = Cpu::<f32>::new();
        for (monb, space, sparse) in [
            (Monb::Direct, Space::Features, false),
            (Monb::Knots, Space::Features, false),
            (Monb::Direct, Space::Classes, true),
            (Monb::Knots, Space::Classes, true),
        ] {
            let (dataset, plan) = (path(sparse), Plan { monb, space, sparse });
            let layout = layout(&dataset, 3);
            let batch = Batches::new(&dataset, Walk::default()).whole(&dataset.split.train);
            let mut resident = Resident::new(&device, &layout, plan, batch).unwrap();
            let parameters = device.upload(&initial_parameters(&layout, Default::default(), 0)).unwrap();
            let mut gradient = device.zeros(layout.len()).unwrap();
            resident.pass.ops().profile();
            resident.gradient(&mut gradient, &parameters, &Randomness::none()).unwrap();
            let profile = resident.pass.ops().take_profile().unwrap();
            let ran: Vec<Op> = profile.ops().iter().map(|(op, _)| *op).collect();
            let counted: Vec<Op> = (step(plan, States::F32, &dataset, &layout, None).iter())
                .map(|traffic| traffic.op)
                .filter(|op| op.is_of_pass())
                .collect();
            assert_eq!(ran, counted, "{plan:?}");
        }
    }
}

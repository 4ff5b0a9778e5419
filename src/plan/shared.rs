//! What processes that share a model send each other, and what of the data each of them has: by sizes alone.
//!
//! Bytes are counted as [`Team::sent`](crate::team::Team::sent) counts them: what a rank gathers goes to each of the others, what
//! it exchanges once to whom it is for. A test holds them against teams of threads that train.

use super::BatchSizes;
use crate::architecture::Layout;
use crate::config::Config;
use crate::team::{Share, Sharing, part};
use harmonia_graph::dataset::{Dataset, Values};
use harmonia_graph::error::Result;
use harmonia_graph::graph::Graph;
use std::ops::Range;

/// Bytes of a number between ranks; states go as they are stored.
const NUMBER: usize = 4;
/// Of a loss, and of what states are scaled by.
const DOUBLE: usize = 8;
/// Ranks whose readings are found in one pass over the entries.
const AT_ONCE: usize = 64;

/// What the bytes depend on that a rank sends: the same on all ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SharedSizes {
    /// What of a step is whose.
    pub sharing: Sharing,
    /// P.
    pub ranks: usize,
    /// Parameters of the whole model.
    pub parameters: usize,
    /// L.
    pub outputs: usize,
    /// T.
    pub hops: usize,
    /// Bytes of an element of a state.
    pub state_bytes: usize,
    /// Targets of a step that is as large as others.
    pub targets: usize,
    /// Units that are scored after an epoch.
    pub valid: usize,
}

/// What of the data a rank has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnSizes {
    /// Which rank.
    pub rank: usize,
    /// Of shared nodes its own, else all.
    pub nodes: Range<usize>,
    /// Entries of their rows, or of their columns where these are more.
    pub entries: usize,
    /// Nodes of others that these read.
    pub halo: usize,
    /// Rows that others read of it, as many times as there are others that do.
    pub sent_rows: usize,
    /// Units with a row in its part of the table.
    pub rows: usize,
    /// Units among those scored after an epoch whose logits it has; of shared graphs about as many.
    pub valid: usize,
}

/// Bytes that a rank sends to others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sent {
    /// In a training step.
    pub step: usize,
    /// For the scores of an epoch.
    pub validation: usize,
}

impl SharedSizes {
    /// What a rank sends.
    pub fn sent(&self, own: &OwnSizes) -> Sent {
        let others = self.ranks - 1;
        // Of a gradient the parts of others, and the sums of the own one to all of them; then the loss.
        let sums = part(self.parameters, self.ranks, own.rank).len();
        let gradient = NUMBER * (self.parameters - sums + sums * others) + DOUBLE * others;
        let columns = part(self.outputs, self.ranks, own.rank).len();
        let logits = |units: usize, columns: usize| units * columns * NUMBER * others;
        let hops = (self.hops.saturating_sub(1)) * own.sent_rows * self.outputs * self.state_bytes;
        match self.sharing {
            Sharing::Targets | Sharing::Rows => Sent { step: gradient, validation: logits(own.valid, self.outputs) },
            Sharing::Classes => {
                Sent { step: gradient + logits(self.targets, columns), validation: logits(self.valid, columns) }
            }
            Sharing::Nodes => {
                // What is not stored as it is computed has one scale on all ranks.
                let scale = if self.state_bytes == NUMBER { 0 } else { DOUBLE * others };
                Sent { step: gradient + 2 * hops + scale, validation: hops + logits(own.valid, self.outputs) }
            }
        }
    }
}

/// How a run is shared, of every rank.
#[derive(Clone, Debug)]
pub struct SharedPlan {
    /// What all have in common.
    pub sizes: SharedSizes,
    /// Of each rank its own.
    pub own: Vec<OwnSizes>,
    /// Which of them this process is.
    pub rank: usize,
    /// Whether logits that no table has are walked by shared classes; of sets of graphs, by shared graphs.
    pub by_classes: bool,
}

impl SharedPlan {
    /// Of a run on a dataset. Nobody is asked: all ranks see the whole graph.
    pub fn of(share: &Share, dataset: &Dataset, layout: &Layout, config: &Config) -> SharedPlan {
        let (ranks, sharing) = (share.team.size(), share.sharing);
        let (train, valid) = (dataset.split.train.len(), &dataset.split.valid[..]);
        let targets = if config.train.batch_size == 0 { train } else { config.train.batch_size.min(train) };
        let a = &layout.architecture;
        let sizes = SharedSizes {
            sharing,
            ranks,
            parameters: layout.len(),
            outputs: a.outputs,
            hops: a.hops,
            state_bytes: config.engine.states.bytes(),
            targets,
            valid: valid.len(),
        };
        let entries = dataset.graph.adjacency().entries();
        let all = 0..dataset.graph.nodes();
        let whole = |rank| OwnSizes {
            rank,
            nodes: all.clone(),
            entries,
            halo: 0,
            sent_rows: 0,
            rows: part(share.rows.len(), ranks, rank).len(),
            valid: valid.len(),
        };
        let own = match sharing {
            Sharing::Classes => (0..ranks).map(whole).collect(),
            Sharing::Targets => {
                (0..ranks).map(|rank| OwnSizes { valid: part(valid.len(), ranks, rank).len(), ..whole(rank) }).collect()
            }
            Sharing::Rows => {
                let counts = counted(valid, ranks, |unit| share.owner_of_row(unit));
                counts.into_iter().enumerate().map(|(rank, valid)| OwnSizes { valid, ..whole(rank) }).collect()
            }
            Sharing::Nodes => {
                let counts = counted(valid, ranks, |unit| Some(share.owner_of_node(unit as usize)));
                let of = |(own, valid): (OwnSizes, usize)| OwnSizes { valid, ..own };
                cut(&dataset.graph, &share.bounds).into_iter().zip(counts).map(of).collect()
            }
        };
        let by_classes = share.classes.is_some() && dataset.graphs() == 1;
        SharedPlan { sizes, own, rank: share.team.rank(), by_classes }
    }

    /// What the rank that sends most does.
    pub fn most_sent(&self) -> Sent {
        let all = || self.own.iter().map(|own| self.sizes.sent(own));
        let most = |of: &dyn Fn(Sent) -> usize| all().map(of).max().unwrap_or(0);
        Sent { step: most(&|sent| sent.step), validation: most(&|sent| sent.validation) }
    }

    /// The model that a rank walks with: of shared classes, one of its own.
    ///
    /// # Errors
    /// None but of a layout that is none.
    pub fn walked(&self, layout: &Layout, own: &OwnSizes) -> Result<Option<Layout>> {
        let by_classes = match self.sizes.sharing {
            Sharing::Classes => true,
            Sharing::Rows => self.by_classes,
            Sharing::Targets | Sharing::Nodes => false,
        };
        let columns = part(self.sizes.outputs, self.sizes.ranks, own.rank);
        by_classes.then(|| crate::team::OwnClasses::of(layout, columns).map(|own| own.layout)).transpose()
    }

    /// What of a batch a rank has at once, at most; of graphs, which are dealt out by their nodes, its part and the largest.
    pub fn batch(&self, whole: BatchSizes, dataset: &Dataset, own: &OwnSizes) -> BatchSizes {
        match self.sizes.sharing {
            Sharing::Classes => whole,
            Sharing::Rows if dataset.graphs() == 1 => whole,
            Sharing::Nodes => {
                let nonzeros = match dataset.features.values() {
                    Values::Sparse(x) => (x.row_ptr[own.nodes.end] - x.row_ptr[own.nodes.start]) as usize,
                    Values::Dense(_) | Values::Half(_) => 0,
                };
                BatchSizes { nodes: own.nodes.len(), entries: own.entries, rows: own.nodes.len(), nonzeros }
            }
            Sharing::Targets | Sharing::Rows => {
                let graphs = || dataset.graph_ptr.windows(2).map(|ends| ends[0]..ends[1]);
                let row_ptr = &dataset.graph.adjacency().row_ptr;
                let part_of = |all: usize, most: usize| (all.div_ceil(self.sizes.ranks) + most).min(all);
                let entries = |nodes: Range<usize>| (row_ptr[nodes.end] - row_ptr[nodes.start]) as usize;
                BatchSizes {
                    nodes: part_of(whole.nodes, graphs().map(|nodes| nodes.len()).max().unwrap_or(0)),
                    entries: part_of(whole.entries, graphs().map(entries).max().unwrap_or(0)),
                    rows: part_of(whole.rows, 1),
                    nonzeros: whole.nonzeros,
                }
            }
        }
    }
}

/// How many of some units are of each rank.
fn counted(units: &[u32], ranks: usize, owner: impl Fn(u32) -> Option<usize>) -> Vec<usize> {
    let mut counts = vec![0; ranks];
    units.iter().filter_map(|&unit| owner(unit)).for_each(|rank| counts[rank] += 1);
    counts
}

/// What each rank has of a graph whose nodes are dealt out: nodes, entries, and what is read of others.
pub fn cut(graph: &Graph, bounds: &[usize]) -> Vec<OwnSizes> {
    let ranks = bounds.len() - 1;
    let adjacency = graph.adjacency();
    let owner = |node: usize| bounds.partition_point(|&first| first <= node) - 1;
    let mut own: Vec<OwnSizes> = (0..ranks)
        .map(|rank| {
            let nodes = bounds[rank]..bounds[rank + 1];
            let entries = (adjacency.row_ptr[nodes.end] - adjacency.row_ptr[nodes.start]) as usize;
            OwnSizes { rank, nodes, entries, halo: 0, sent_rows: 0, rows: 0, valid: 0 }
        })
        .collect();
    let directed = !graph.is_symmetric();
    let mut columns = vec![0usize; ranks];
    for first in (0..ranks).step_by(AT_ONCE) {
        // Of every node the ranks that read it, of so many.
        let mut readers = vec![0u64; adjacency.rows()];
        let reads = |readers: &mut [u64], rank: usize, node: usize| {
            if (first..first + AT_ONCE).contains(&rank) {
                readers[node] |= 1 << (rank - first);
            }
        };
        for rank in 0..ranks {
            let nodes = bounds[rank]..bounds[rank + 1];
            for i in nodes.clone() {
                for &j in &adjacency.col_idx[adjacency.row(i)] {
                    let j = j as usize;
                    if nodes.contains(&j) {
                        columns[rank] += usize::from(first == 0);
                        continue;
                    }
                    reads(&mut readers, rank, j);
                    if directed {
                        // A gradient comes back along the entry.
                        let to = owner(j);
                        reads(&mut readers, to, i);
                        columns[to] += usize::from(first == 0);
                    }
                }
            }
        }
        for sender in 0..ranks {
            for &readers in &readers[bounds[sender]..bounds[sender + 1]] {
                own[sender].sent_rows += readers.count_ones() as usize;
                let mut left = readers;
                while left != 0 {
                    own[first + left.trailing_zeros() as usize].halo += 1;
                    left &= left - 1;
                }
            }
        }
    }
    if directed {
        own.iter_mut().zip(columns).for_each(|(own, columns)| own.entries = own.entries.max(columns));
    }
    own
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::team::threads::{Threads, each};
    use crate::team::{Halo, Team};
    use harmonia_graph::graph::{Direction, Transition, Walk};
    use std::sync::Arc;

    const SIZES: SharedSizes = SharedSizes {
        sharing: Sharing::Targets,
        ranks: 4,
        parameters: 10,
        outputs: 6,
        hops: 3,
        state_bytes: 4,
        targets: 5,
        valid: 7,
    };

    fn own(rank: usize) -> OwnSizes {
        OwnSizes { rank, nodes: 0..9, entries: 20, halo: 2, sent_rows: 3, rows: 4, valid: 2 }
    }

    #[test]
    fn bytes_are_those_of_calls_counted_by_hand() {
        // 10 parameters of 4 ranks: 2, 3, 2, 3. Rank 0 sends 8 numbers to those that sum them and 2 sums to each of 3 others.
        let gradient = 4 * (8 + 6) + 8 * 3;
        assert_eq!(SIZES.sent(&own(0)), Sent { step: gradient, validation: 2 * 6 * 4 * 3 });
        let rows = SharedSizes { sharing: Sharing::Rows, ..SIZES };
        assert_eq!(rows.sent(&own(0)), SIZES.sent(&own(0)));
        // 6 columns: 1, 2, 1, 2; 7 numbers and 3 sums to each of 3.
        let classes = SharedSizes { sharing: Sharing::Classes, ..SIZES };
        let expected = Sent { step: 4 * (7 + 9) + 24 + 5 * 2 * 4 * 3, validation: 7 * 2 * 4 * 3 };
        assert_eq!(classes.sent(&own(1)), expected);
        let nodes = SharedSizes { sharing: Sharing::Nodes, ..SIZES };
        let hop = 3 * 6 * 4;
        assert_eq!(nodes.sent(&own(0)), Sent { step: gradient + 4 * hop, validation: 2 * hop + 2 * 6 * 4 * 3 });
        let halves = SharedSizes { state_bytes: 2, ..nodes };
        assert_eq!(halves.sent(&own(0)).step, gradient + 2 * hop + 8 * 3);
        let alone = SharedSizes { ranks: 1, ..nodes };
        assert_eq!(alone.sent(&OwnSizes { sent_rows: 0, ..own(0) }), Sent { step: 0, validation: 0 });
    }

    #[test]
    fn a_gradient_takes_what_a_sum_of_a_team_sends() {
        let sizes = SharedSizes { ranks: 3, ..SIZES };
        let sent = each(3, |team| {
            let mut gradient = [0.5; 10];
            crate::team::sum(&*team, &mut gradient)?;
            crate::team::sum_one(&*team, 1.0)?;
            Ok(team.sent() as usize)
        });
        let planned: Vec<usize> = (0..3).map(|rank| sizes.sent(&own(rank)).step).collect();
        assert_eq!(sent.unwrap(), planned);
    }

    #[test]
    fn halos_are_those_that_ranks_tell_each_other() {
        for direction in [Direction::Undirected, Direction::Directed] {
            let edges: Vec<(u32, u32)> = (0..90).map(|i| (i % 40, (i * i * 7 + 3) % 40)).collect();
            let graph = Graph::from_edges(40, &edges, None, direction).unwrap();
            for bounds in [vec![0, 11, 25, 40], vec![0, 1, 40]] {
                let planned = cut(&graph, &bounds);
                let ranks = bounds.len() - 1;
                let layout = Layout::new(Config::default().architecture(3, 5)).unwrap();
                let halos = each(ranks, |team| {
                    let share = Share::new(team, Sharing::Nodes, &layout, Vec::new(), bounds.clone())?;
                    let (own, others) = Transition::of_rows(&graph, Walk::default(), share.own_nodes());
                    let halo = Halo::new(&share, own.matrix(), others)?;
                    Ok((halo.own(), halo.others(), halo.sent_rows()))
                });
                let planned: Vec<_> = planned.iter().map(|own| (own.nodes.len(), own.halo, own.sent_rows)).collect();
                assert_eq!(halos.unwrap(), planned, "{direction:?} {bounds:?}");
            }
        }
    }

    #[test]
    fn more_ranks_than_a_word_has_bits() {
        // A ring of 130 nodes, one of each rank: everybody reads two others.
        let edges: Vec<(u32, u32)> = (0..130).map(|i| (i, (i + 1) % 130)).collect();
        let graph = Graph::from_edges(130, &edges, None, Direction::Undirected).unwrap();
        let own = cut(&graph, &(0..=130).collect::<Vec<_>>());
        assert!(own.iter().all(|own| (own.nodes.len(), own.entries, own.halo, own.sent_rows) == (1, 2, 2, 2)));
    }

    #[test]
    fn only_shared_classes_walk_with_a_model_of_their_own() {
        let layout = Layout::new(Config::default().architecture(3, 5)).unwrap();
        let team: Arc<dyn Team> = Threads::team(2).swap_remove(1);
        let share = Share::new(team, Sharing::Rows, &layout, vec![1, 2, 3], Vec::new()).unwrap();
        let plan = |sharing, by_classes| SharedPlan {
            sizes: SharedSizes { sharing, ranks: 2, outputs: 5, ..SIZES },
            own: vec![own(0), own(1)],
            rank: share.team.rank(),
            by_classes,
        };
        let walked = |sharing, by_classes| {
            let walked = plan(sharing, by_classes).walked(&layout, &own(1)).unwrap();
            walked.map(|layout| layout.architecture.outputs)
        };
        assert_eq!(walked(Sharing::Classes, true), Some(3));
        assert_eq!(walked(Sharing::Rows, true), Some(3));
        assert_eq!(walked(Sharing::Rows, false), None);
        assert_eq!(walked(Sharing::Nodes, true), None);
    }
}

//! Pairs of nodes in class space: node j counts for feature k of node i by a network of the walk probabilities of the pair.
//!
//! Forward   p_ij = ((M^t)[i,j]) of t = 0..T-1, a(p) = relu(U p + c), score_k(p) = sum_h V[h,k] a_h(p) + b_k
//!           logits[i] = beta + sum_j sum_h a_h(p_ij) G_h[j] + G_W[j]: the output layer (V, b) has the place of hop weights, so that
//!           G_h[j] = sum_k V[h,k] Wo[k] f_k(x[j,k]) and no score of any feature is ever made; of a graph, the sum over its nodes
//! Backward  Y_h[j] = sum_i a_h(p_ij) dlogits[i]; da_h(p_ij) = <dlogits[i], G_h[j]> goes back to U and c
//! A pair that no walk of T - 1 steps joins has p = 0 and counts by a(0): nodes are summed up once per graph with a(0), and pairs that
//! are joined add a(p) - a(0). Exact. Walk probabilities are kept once they are known, for the rows that are scored; hidden
//! units are made anew. Deterministic: targets are added up in stretches that depend on sizes only.

use super::CpuInputs;
use super::element::Element;
use super::hops::{Hops, with_states};
use super::inputs::CpuWalk;
use crate::architecture::{Layout, Spread};
use crate::real::Real;
use harmonia_graph::dataset::Level;
use harmonia_graph::error::Result;
use harmonia_graph::graph::Neighbourhood;
use harmonia_graph::simd::simd;
use rayon::prelude::*;
use std::ops::Range;
use std::sync::OnceLock;

/// Stretches that sums over targets are cut into, at most.
const JOBS: usize = 8;
/// A node that is not in a row.
const ABSENT: u32 = u32::MAX;

/// Walk probabilities of pairs, by the node that hears; none before anybody asks.
#[derive(Debug)]
pub struct KnownPairs<T>(OnceLock<Vec<OnceLock<PairRow<T>>>>);

impl<T> Default for KnownPairs<T> {
    fn default() -> Self {
        KnownPairs(OnceLock::new())
    }
}

/// The nodes that walks from one node reach.
#[derive(Debug)]
struct PairRow<T> {
    nodes: Vec<u32>,
    /// Walk probabilities, nodes x T.
    walks: Vec<T>,
}

/// What finding a row works with: the place of each node in it.
#[derive(Default)]
struct Places(Vec<u32>);

impl<T: Real> PairRow<T> {
    /// Rows i of M^0 to M^(lengths - 1), where any of them is not zero.
    fn new(walk: &CpuWalk<T>, i: usize, lengths: usize, Places(places): &mut Places) -> PairRow<T> {
        let ((matrix, _), degree) = (walk.matrix(), walk.degree());
        places.resize(matrix.rows(), ABSENT);
        let (mut nodes, mut walks) = (vec![i as u32], vec![0.0; lengths]);
        (places[i], walks[0]) = (0, 1.0);
        for t in 1..lengths {
            for from in 0..nodes.len() {
                let weight = walks[from * lengths + t - 1];
                if weight == 0.0 {
                    continue;
                }
                let node = nodes[from] as usize;
                for (j, entry) in matrix.row_entries(node) {
                    if places[j] == ABSENT {
                        places[j] = nodes.len() as u32;
                        nodes.push(j as u32);
                        walks.resize(nodes.len() * lengths, 0.0);
                    }
                    walks[places[j] as usize * lengths + t] += weight * (f64::from(entry) / degree[node]);
                }
            }
        }
        nodes.iter().for_each(|&node| places[node as usize] = ABSENT);
        PairRow { nodes, walks: walks.into_iter().map(T::from_f64).collect() }
    }

    /// Every node with the walk probabilities of its pair.
    fn pairs(&self) -> impl Iterator<Item = (usize, &[T])> {
        self.nodes.iter().map(|&node| node as usize).zip(self.walks.chunks_exact(self.walks.len() / self.nodes.len()))
    }
}

/// The hidden layer, so that a walk length has its weights side by side.
struct Hidden<T> {
    /// U^T, T x W.
    weights: Vec<T>,
    /// c.
    bias: Vec<T>,
    /// a(0).
    at_zero: Vec<T>,
}

impl<T: Real> Hidden<T> {
    /// From parameters as the layout has them.
    fn new(structure: &[T], lengths: usize, units: usize) -> Hidden<T> {
        let (given, bias) = structure.split_at(lengths * units);
        let weights = (0..lengths).flat_map(|t| (0..units).map(move |h| given[h * lengths + t])).collect();
        Hidden { weights, bias: bias.to_vec(), at_zero: bias.iter().map(|c| c.max(T::zero())).collect() }
    }

    /// units = U p + c.
    #[inline(always)]
    fn evaluate(&self, units: &mut [T], walks: &[T]) {
        units.copy_from_slice(&self.bias);
        for (weights, &p) in self.weights.chunks_exact(units.len()).zip(walks) {
            if p != T::zero() {
                units.iter_mut().zip(weights).for_each(|(unit, &weight)| *unit += weight * p);
            }
        }
    }
}

/// What a pass goes over, and what the states were when it began.
struct Pairs<'a, T> {
    inputs: &'a CpuInputs<T>,
    walk: &'a CpuWalk<T>,
    hidden: Hidden<T>,
    /// T.
    lengths: usize,
    /// L.
    outputs: usize,
    /// W.
    units: usize,
    /// G_h by node: n x L x W.
    projected: Vec<T>,
    /// Sums of it over the nodes of each graph, and of G_W: graphs x L x (W + 1).
    sums: Vec<f64>,
}

impl<'a, T: Real> Pairs<'a, T> {
    fn new(hops: &Hops<T>, inputs: &'a CpuInputs<T>, layout: &Layout) -> Result<Self> {
        let (lengths, outputs, units) =
            (layout.architecture.family.reach + 1, layout.architecture.outputs, hops.hops - 1);
        let mut projected = vec![T::zero(); hops.rows * outputs * units];
        let (rows, width) = (hops.rows, hops.width);
        let sums = with_states!(&hops.states, states => {
            projected.par_chunks_exact_mut(outputs * units).enumerate().for_each(|(j, projected)| {
                for (at, to) in projected.iter_mut().enumerate() {
                    *to = states[(at % units * rows + j) * width + at / units].load();
                }
            });
            let of_graph = |nodes: &[usize]| {
                let mut sums = vec![0.0; outputs * (units + 1)];
                for j in nodes[0]..nodes[1] {
                    for (class, sums) in sums.chunks_exact_mut(units + 1).enumerate() {
                        let projected = &projected[(j * outputs + class) * units..][..units];
                        sums.iter_mut().zip(projected).for_each(|(sum, g)| *sum += g.widen());
                        let own: T = states[(units * rows + j) * width + class].load();
                        sums[units] += own.widen();
                    }
                }
                sums
            };
            inputs.graph_ptr.par_windows(2).map(of_graph).collect::<Vec<_>>().concat()
        });
        let hidden = Hidden::new(&hops.structure, lengths, units);
        Ok(Pairs { inputs, walk: inputs.walk()?, hidden, lengths, outputs, units, projected, sums })
    }

    fn row(&self, i: usize, places: &mut Places) -> &'a PairRow<T> {
        let rows = self.inputs.pairs.0.get_or_init(|| (0..self.inputs.nodes).map(|_| OnceLock::new()).collect());
        rows[i].get_or_init(|| PairRow::new(self.walk, i, self.lengths, places))
    }

    /// The graph of a row of the logits, and the nodes whose sum the row is.
    fn nodes_of(&self, row: usize) -> (usize, Range<usize>) {
        let ptr = &self.inputs.graph_ptr;
        match self.inputs.level {
            Level::Node => (ptr.partition_point(|&first| first <= row) - 1, row..row + 1),
            Level::Graph => (row, ptr[row]..ptr[row + 1]),
        }
    }

    /// Sums over the nodes of a graph, L x (W + 1).
    fn sums_of(&self, graph: usize) -> &[f64] {
        let size = self.outputs * (self.units + 1);
        &self.sums[graph * size..][..size]
    }

    /// total += what all nodes of its graph say to node i; `heard` (L x W) and `units` are worked with.
    fn listen(&self, total: &mut [f64], i: usize, graph: usize, work: &mut Work<T>) {
        let Work { places, heard, units, .. } = work;
        let row = self.row(i, places);
        heard.fill(T::zero());
        simd(
            #[inline(always)]
            || {
                for (j, walks) in row.pairs() {
                    self.hidden.evaluate(units, walks);
                    for (unit, &zero) in units.iter_mut().zip(&self.hidden.at_zero) {
                        *unit = unit.max(T::zero()) - zero;
                    }
                    let projected = &self.projected[j * heard.len()..][..heard.len()];
                    for (heard, g) in heard.chunks_exact_mut(units.len()).zip(projected.chunks_exact(units.len())) {
                        heard.iter_mut().zip(g).zip(&*units).for_each(|((heard, &g), &unit)| *heard += unit * g);
                    }
                }
            },
        );
        let all = self.sums_of(graph).chunks_exact(self.units + 1);
        for ((total, heard), sums) in total.iter_mut().zip(heard.chunks_exact(self.units)).zip(all) {
            let apart = self.hidden.at_zero.iter().zip(sums).map(|(zero, sum)| zero.widen() * sum).sum::<f64>();
            *total += apart + sums[self.units] + heard.iter().map(|heard| heard.widen()).sum::<f64>();
        }
    }
}

/// What one thread works with.
struct Work<T> {
    places: Places,
    /// L x W.
    heard: Vec<T>,
    /// W.
    units: Vec<T>,
    /// W.
    d_units: Vec<T>,
}

impl<T: Real> Work<T> {
    fn new(pairs: &Pairs<'_, T>) -> Work<T> {
        let zeros = |size: usize| vec![T::zero(); size];
        Work {
            places: Places::default(),
            heard: zeros(pairs.outputs * pairs.units),
            units: zeros(pairs.units),
            d_units: zeros(pairs.units),
        }
    }
}

/// logits = ...; the states stay for the way back.
pub fn forward<T: Real>(
    logits: &mut [T],
    hops: &mut Hops<T>,
    parameters: &[T],
    inputs: &CpuInputs<T>,
    scope: Option<&Neighbourhood>,
    layout: &Layout,
) -> Result<()> {
    hops.structure.clear();
    hops.structure.extend_from_slice(&parameters[layout.structure()]);
    let pairs = &Pairs::new(hops, inputs, layout)?;
    let bias = &layout.intercept_in(parameters)[..];
    let scored = scope.and_then(|scope| scope.within(0)).filter(|_| inputs.level == Level::Node);
    let rows = logits.par_chunks_exact_mut(pairs.outputs).enumerate();
    rows.for_each_init(
        || (Work::new(pairs), vec![0.0; pairs.outputs]),
        |(work, total), (row, logits)| {
            if scored.is_some_and(|rows| !rows.contains(row)) {
                return;
            }
            total.iter_mut().zip(bias).for_each(|(total, bias)| *total = bias.widen());
            let (graph, nodes) = pairs.nodes_of(row);
            nodes.for_each(|i| pairs.listen(total, i, graph, work));
            logits.iter_mut().zip(&*total).for_each(|(logit, total)| *logit = T::from_f64(*total));
        },
    );
    Ok(())
}

/// What a stretch of targets adds to gradients.
struct Part<T> {
    /// sum_i (a_h(p_ij) - a_h(0)) dlogits\[i\]: n x L x W.
    heard: Vec<T>,
    /// dU^T, T x W.
    d_weights: Vec<T>,
    /// dc, but for what all nodes of a graph add by a(0).
    d_bias: Vec<T>,
}

impl<T: Real> Part<T> {
    fn new(pairs: &Pairs<'_, T>) -> Part<T> {
        let zeros = |size: usize| vec![T::zero(); size];
        Part {
            heard: zeros(pairs.projected.len()),
            d_weights: zeros(pairs.lengths * pairs.units),
            d_bias: zeros(pairs.units),
        }
    }

    /// The pairs of one node that hears, whose logits have this gradient.
    fn add(&mut self, pairs: &Pairs<'_, T>, i: usize, d_row: &[T], work: &mut Work<T>) {
        let Part { heard, d_weights, d_bias } = self;
        let Work { places, units, d_units, .. } = work;
        let (hidden, size, count) = (&pairs.hidden, pairs.outputs * pairs.units, pairs.units);
        let row = pairs.row(i, places);
        simd(
            #[inline(always)]
            || {
                for (j, walks) in row.pairs() {
                    hidden.evaluate(units, walks);
                    d_units.fill(T::zero());
                    let (heard, projected) = (&mut heard[j * size..][..size], &pairs.projected[j * size..][..size]);
                    let classes = heard.chunks_exact_mut(count).zip(projected.chunks_exact(count));
                    for ((heard, projected), &d) in classes.zip(d_row) {
                        for ((to, &unit), &zero) in heard.iter_mut().zip(&*units).zip(&hidden.at_zero) {
                            *to += (unit.max(T::zero()) - zero) * d;
                        }
                        d_units.iter_mut().zip(projected).for_each(|(to, &g)| *to += g * d);
                    }
                    let places = d_bias.iter_mut().zip(d_units.iter_mut()).zip(&*units).zip(&hidden.bias);
                    for (((to, d_unit), &unit), &bias) in places {
                        let apart = if bias > T::zero() { *d_unit } else { T::zero() };
                        *d_unit = if unit > T::zero() { *d_unit } else { T::zero() };
                        *to += *d_unit - apart;
                    }
                    for (to, &p) in d_weights.chunks_exact_mut(count).zip(walks) {
                        if p != T::zero() {
                            to.iter_mut().zip(&*d_units).for_each(|(to, &d)| *to += d * p);
                        }
                    }
                }
            },
        );
    }
}

/// The states hold Y, divided by degrees as those of walks are; gradients of U and c += ...
pub fn backward<T: Real>(
    gradient: &mut [T],
    hops: &mut Hops<T>,
    d_logits: &[T],
    inputs: &CpuInputs<T>,
    layout: &Layout,
) -> Result<()> {
    let pairs = &Pairs::new(hops, inputs, layout)?;
    let Pairs { hidden, lengths, outputs, units, .. } = pairs;
    let (lengths, outputs, units) = (*lengths, *outputs, *units);
    let d_row = |row: usize| &d_logits[row * outputs..][..outputs];
    let targets: Vec<usize> =
        (0..d_logits.len() / outputs).filter(|&row| d_row(row).iter().any(|d| *d != T::zero())).collect();
    let stretches = targets.par_chunks(targets.len().div_ceil(JOBS).max(1));
    let parts: Vec<Part<T>> = stretches
        .map(|targets| {
            let (mut part, mut work) = (Part::new(pairs), Work::new(pairs));
            for &row in targets {
                pairs.nodes_of(row).1.for_each(|i| part.add(pairs, i, d_row(row), &mut work));
            }
            part
        })
        .collect();
    // What all nodes of a graph hear alike: the gradients of those that hear them.
    let mut alike = vec![0.0; (inputs.graph_ptr.len() - 1) * outputs];
    for &row in &targets {
        let (graph, nodes) = pairs.nodes_of(row);
        let alike = &mut alike[graph * outputs..][..outputs];
        alike.iter_mut().zip(d_row(row)).for_each(|(sum, d)| *sum += nodes.len() as f64 * d.widen());
    }
    let structure = &mut gradient[layout.structure()];
    let (d_weights, d_bias) = structure.split_at_mut(lengths * units);
    for part in &parts {
        for (at, &d) in part.d_weights.iter().enumerate() {
            d_weights[at % units * lengths + at / units] += d;
        }
        d_bias.iter_mut().zip(&part.d_bias).for_each(|(to, &d)| *to += d);
    }
    for (graph, alike) in alike.chunks_exact(outputs).enumerate() {
        for (sums, alike) in pairs.sums_of(graph).chunks_exact(units + 1).zip(alike) {
            let open = d_bias.iter_mut().zip(&hidden.bias).zip(sums).filter(|((_, bias), _)| **bias > T::zero());
            open.for_each(|((to, _), sum)| *to += T::from_f64(alike * sum));
        }
    }
    hops.scale = T::one();
    let (rows, width) = (hops.rows, hops.width);
    with_states!(&mut hops.states, states => {
        states.par_chunks_exact_mut(rows * width).enumerate().for_each(|(h, states)| {
            for (graph, nodes) in inputs.graph_ptr.windows(2).enumerate() {
                for j in nodes[0]..nodes[1] {
                    for class in 0..outputs {
                        let alike = T::from_f64(alike[graph * outputs + class]);
                        let sum = match h < units {
                            true => {
                                let at = (j * outputs + class) * units + h;
                                hidden.at_zero[h] * alike + parts.iter().map(|part| part.heard[at]).sum::<T>()
                            }
                            false => alike,
                        };
                        states[j * width + class] = Element::store(sum * pairs.walk.inverse_degree[j]);
                    }
                }
            }
        });
    });
    Ok(())
}

/// Bytes of working memory, at most; nothing where pairs are not weighed.
pub fn scratch_bytes<T>(nodes: usize, layout: &Layout) -> usize {
    let a = &layout.architecture;
    let copies = if a.spread() == Spread::Pairs { 1 + JOBS } else { 0 };
    copies * nodes * a.outputs * a.hops * size_of::<T>()
}

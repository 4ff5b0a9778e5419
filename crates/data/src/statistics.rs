//! What a dataset looks like: counts, degrees, components, classes, feature ranges, splits.

use harmonia_graph::dataset::{Dataset, Labels, UNLABELLED};
use harmonia_graph::graph::Graph;
use rayon::prelude::*;
use serde::Serialize;

/// Everything there is to show of a dataset.
#[derive(Clone, Debug, Serialize)]
pub struct Statistics {
    /// Nodes of all graphs.
    pub nodes: usize,
    /// Entries of the adjacency matrix.
    pub directed_edges: usize,
    /// Pairs of different nodes that an edge joins, each once, and self-loops; where every edge goes both ways.
    pub undirected_edges: Option<usize>,
    /// 1 for a single graph, whatever its components.
    pub graphs: usize,
    /// Entries on the diagonal.
    pub self_loops: usize,
    /// Whether edges carry weights.
    pub weighted: bool,
    /// Nodes that read from no other.
    pub isolated_nodes: usize,
    /// Connected components, whichever way the edges point.
    pub components: usize,
    /// Nodes of the largest component.
    pub largest_component: usize,
    /// Graphs that fall into several components, of a set of graphs.
    pub disconnected_graphs: usize,
    /// Of neighbours a node reads from.
    pub degree: Degrees,
    /// Columns of X.
    pub features: usize,
    /// Share of X that is not zero.
    pub non_zero: f64,
    /// (name, units) of each class; several labels per unit: how often each occurs.
    pub classes: Vec<(String, usize)>,
    /// Units without a label.
    pub unlabelled: usize,
    /// (train, validation, test) of every split the dataset came with.
    pub splits: Vec<(usize, usize, usize)>,
    /// One per feature.
    pub ranges: Vec<FeatureRange>,
}

/// How many neighbours nodes have.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Degrees {
    /// Fewest.
    pub least: usize,
    /// Half of the nodes have at most this many.
    pub median: usize,
    /// On average.
    pub mean: f64,
    /// Most.
    pub most: usize,
    /// (lowest degree, nodes) of bins 0, 1, 2-3, 4-7, ...
    pub histogram: Vec<(usize, usize)>,
}

/// The values one feature takes.
#[derive(Clone, Debug, Serialize)]
pub struct FeatureRange {
    /// As the dataset calls it.
    pub name: String,
    /// Smallest.
    pub least: f32,
    /// On average.
    pub mean: f64,
    /// Largest.
    pub most: f32,
    /// Nodes where it is not zero.
    pub non_zero: usize,
}

impl Statistics {
    /// Reads a dataset through.
    pub fn of(dataset: &Dataset) -> Statistics {
        let graph = &dataset.graph;
        let (row_ptr, col_idx) = (&graph.adjacency().row_ptr[..], &graph.adjacency().col_idx[..]);
        let row = |i: usize| &col_idx[row_ptr[i] as usize..row_ptr[i + 1] as usize];
        let self_loops =
            (0..graph.nodes()).into_par_iter().filter(|&i| row(i).binary_search(&(i as u32)).is_ok()).count();
        let roots = components(graph);
        let mut sizes = vec![0usize; graph.nodes()];
        roots.iter().for_each(|&root| sizes[root as usize] += 1);
        let disconnected = |graph: &usize| {
            let nodes = dataset.graph_nodes(*graph);
            nodes.clone().any(|i| roots[i] != roots[nodes.start])
        };
        let ranges = ranges(dataset);
        let non_zero: usize = ranges.iter().map(|range| range.non_zero).sum();
        let (classes, unlabelled) = classes(dataset);
        Statistics {
            nodes: graph.nodes(),
            directed_edges: graph.directed_edges(),
            undirected_edges: graph.is_symmetric().then(|| (graph.directed_edges() - self_loops) / 2 + self_loops),
            graphs: dataset.graphs(),
            self_loops,
            weighted: graph.adjacency().weights.is_some(),
            isolated_nodes: (0..graph.nodes()).filter(|&i| row(i).iter().all(|&j| j as usize == i)).count(),
            components: sizes.iter().filter(|&&size| size > 0).count(),
            largest_component: sizes.iter().copied().max().unwrap_or(0),
            disconnected_graphs: if dataset.graphs() == 1 {
                0
            } else {
                (0..dataset.graphs()).filter(disconnected).count()
            },
            degree: Degrees::of(row_ptr),
            features: dataset.features.cols,
            non_zero: non_zero as f64 / (dataset.features.rows * dataset.features.cols).max(1) as f64,
            classes,
            unlabelled,
            splits: (dataset.own_splits.iter())
                .map(|split| (split.train.len(), split.valid.len(), split.test.len()))
                .collect(),
            ranges,
        }
    }
}

impl Degrees {
    fn of(row_ptr: &[u64]) -> Degrees {
        let mut degrees: Vec<usize> = row_ptr.windows(2).map(|pair| (pair[1] - pair[0]) as usize).collect();
        degrees.par_sort_unstable();
        let (Some(&least), Some(&most)) = (degrees.first(), degrees.last()) else { return Degrees::default() };
        // Bin 0 is degree 0, bin b is 2^(b-1) up to the next power of two.
        let bin = |degree: usize| (usize::BITS - degree.leading_zeros()) as usize;
        let mut counts = vec![0; bin(most) + 1];
        degrees.iter().for_each(|&degree| counts[bin(degree)] += 1);
        Degrees {
            least,
            median: degrees[(degrees.len() - 1) / 2],
            mean: degrees.iter().sum::<usize>() as f64 / degrees.len() as f64,
            most,
            histogram: counts.into_iter().enumerate().map(|(bin, nodes)| ((1usize << bin) / 2, nodes)).collect(),
        }
    }
}

/// The smallest node of the component of each node: union-find with path halving.
fn components(graph: &Graph) -> Vec<u32> {
    fn root(parents: &mut [u32], mut i: u32) -> u32 {
        while parents[i as usize] != i {
            parents[i as usize] = parents[parents[i as usize] as usize];
            i = parents[i as usize];
        }
        i
    }
    let (row_ptr, col_idx) = (&graph.adjacency().row_ptr[..], &graph.adjacency().col_idx[..]);
    let mut parents: Vec<u32> = (0..graph.nodes() as u32).collect();
    for i in 0..graph.nodes() {
        for &j in &col_idx[row_ptr[i] as usize..row_ptr[i + 1] as usize] {
            let (a, b) = (root(&mut parents, i as u32), root(&mut parents, j));
            parents[a.max(b) as usize] = a.min(b);
        }
    }
    (0..graph.nodes() as u32).map(|i| root(&mut parents, i)).collect()
}

fn ranges(dataset: &Dataset) -> Vec<FeatureRange> {
    const PORTION: usize = 1 << 12;
    let (rows, cols) = (dataset.features.rows, dataset.features.cols);
    let starts: Vec<usize> = (0..rows).step_by(PORTION).collect();
    type Column = (f32, f64, f32, usize);
    let none: Column = (f32::INFINITY, 0.0, f32::NEG_INFINITY, 0);
    let partial: Vec<Vec<Column>> = (starts.into_par_iter())
        .map(|start| {
            let (mut columns, mut row) = (vec![none; cols], vec![0f32; cols]);
            for i in start..rows.min(start + PORTION) {
                row.fill(0.0);
                dataset.features.fill_row(i, &mut row);
                for ((least, sum, most, non_zero), &x) in columns.iter_mut().zip(&row) {
                    *least = least.min(x);
                    *sum += f64::from(x);
                    *most = most.max(x);
                    *non_zero += usize::from(x != 0.0);
                }
            }
            columns
        })
        .collect();
    let name = |k: usize| dataset.feature_names.get(k).cloned().unwrap_or_else(|| format!("feature {k}"));
    (0..cols)
        .map(|k| {
            let (least, sum, most, non_zero) = partial.iter().fold(none, |total, columns| {
                let column = columns[k];
                (total.0.min(column.0), total.1 + column.1, total.2.max(column.2), total.3 + column.3)
            });
            FeatureRange { name: name(k), least, mean: sum / rows.max(1) as f64, most, non_zero }
        })
        .collect()
}

fn classes(dataset: &Dataset) -> (Vec<(String, usize)>, usize) {
    let mut counts = vec![0; dataset.class_names.len()];
    let mut unlabelled = 0;
    match &dataset.labels {
        Labels::Classes { ids, .. } => {
            for &id in ids {
                match counts.get_mut(id as usize) {
                    Some(count) => *count += 1,
                    None => unlabelled += usize::from(id == UNLABELLED),
                }
            }
        }
        Labels::Multi { bits, width } => {
            for row in bits.chunks_exact((*width).max(1)) {
                counts.iter_mut().zip(row).for_each(|(count, &bit)| *count += usize::from(bit));
            }
        }
        // A number counts where it is known.
        Labels::Values { values, width } => {
            for row in values.chunks_exact((*width).max(1)) {
                counts.iter_mut().zip(row).for_each(|(count, value)| *count += usize::from(!value.is_nan()));
                unlabelled += usize::from(row.iter().any(|value| value.is_nan()));
            }
        }
    }
    (dataset.class_names.iter().cloned().zip(counts).collect(), unlabelled)
}

#[cfg(test)]
mod tests {
    use super::*;
    use harmonia_graph::dataset::{Features, Level};
    use harmonia_graph::graph::{Direction, Split};

    #[test]
    fn a_small_graph_by_hand() {
        // 0-1-2 with a loop on 1, 3-4, 5 alone; two graphs: {0..4}, {5}.
        let edges = [(0, 1), (1, 2), (1, 1), (3, 4)];
        let graph = Graph::from_edges(6, &edges, None, Direction::Undirected).unwrap();
        let features = Features::new(6, 2, vec![0., 1., 0., -2., 0., 3., 5., 0., 0., 0., 0., 0.]).unwrap();
        let labels = Labels::Classes { ids: vec![1, UNLABELLED], classes: 2 };
        let dataset =
            Dataset::new("s", graph, vec![0, 5, 6], features, labels, Level::Graph, Split::default()).unwrap();
        let statistics = Statistics::of(&dataset);
        assert_eq!((statistics.nodes, statistics.directed_edges, statistics.undirected_edges), (6, 7, Some(4)));
        assert_eq!((statistics.self_loops, statistics.isolated_nodes), (1, 1));
        assert_eq!((statistics.components, statistics.largest_component, statistics.disconnected_graphs), (3, 3, 1));
        assert_eq!((statistics.degree.least, statistics.degree.median, statistics.degree.most), (0, 1, 3));
        assert_eq!(statistics.degree.histogram, [(0, 1), (1, 4), (2, 1)]);
        assert_eq!((statistics.classes[0].1, statistics.classes[1].1, statistics.unlabelled), (0, 1, 1));
        let range = &statistics.ranges[1];
        assert_eq!((range.least, range.most, range.non_zero), (-2.0, 3.0, 3));
        assert!((range.mean - 2.0 / 6.0).abs() < 1e-12 && (statistics.non_zero - 4.0 / 12.0).abs() < 1e-12);
    }
}

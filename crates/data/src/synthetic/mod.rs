//! Data with a known answer: four of twenty features carry signal, each with its own response and its own hops.
//!
//! One random 64-node graph, 384 draws of features and labels on it. The labels come from the kind of model HARMONIA
//! fits, so what a trained model says about features and hops can be held against [`Truth`]. Sizes, responses, hop
//! profiles, seeds and (for the first three datasets) signal columns are the paper's; its random numbers are not
//! published, so the graphs and values are our own. Invariant: a data index names the same bits on every machine with
//! the same mathematical library, and topology, features, columns and labels come from separate streams.

mod balance;
mod topology;

pub use balance::balancing_intercept;
pub use harmonia_graph::dataset::{
    Design, HOPS, INFORMATIVE, MAX_CONDITION, MAX_CORRELATION, Profile, TrueResponse, Truth,
};

use harmonia_graph::dataset::{Dataset, Features, Labels, Level};
use harmonia_graph::error::Result;
use harmonia_graph::graph::{Direction, Graph, Split, Transition};
use harmonia_graph::seed::{Purpose, Stream};
use std::array::from_fn;

/// Nodes of an instance.
pub const NODES: usize = 64;
/// Draws of features and labels on the graph.
pub const INSTANCES: usize = TRAIN_INSTANCES + VALID_INSTANCES + TEST_INSTANCES;
/// Instances to train on; validation and test instances follow them.
pub const TRAIN_INSTANCES: usize = 256;
/// Instances that choose the epoch.
pub const VALID_INSTANCES: usize = 64;
/// Instances that are only scored.
pub const TEST_INSTANCES: usize = 64;
/// d, the columns of X.
pub const FEATURES: usize = 20;
/// Data indices 0..DATASETS are the paper's; larger ones follow the same rule.
pub const DATASETS: u32 = 5;

const FEATURE_SEED: u64 = 20_260_916;
const GRAPH_SEED: u64 = 123;
const GRAPH_SEED_STRIDE: u64 = 100;
const TRAIN_NODES: usize = TRAIN_INSTANCES * NODES;
/// Signal columns of the datasets whose columns the paper prints.
const PUBLISHED_COLUMNS: [[usize; INFORMATIVE]; 3] = [[19, 17, 5, 2], [18, 3, 7, 1], [1, 14, 18, 0]];

/// Generates synthetic dataset `data_index`. With i the index: features, labels and signal columns (of the first three the
/// published ones) have the seed 20260916 + i, the topology has 123 + 100 i, and hop profiles are those of dataset i mod 4.
///
/// # Errors
/// No graph passes the checks, which no index is known for.
pub fn generate(data_index: u32) -> Result<Dataset> {
    let seed = FEATURE_SEED + u64::from(data_index);
    let features = features(seed)?;
    let columns = columns(data_index, seed);
    let (sources, centres) = centred_responses(&features, &columns);
    let graph_seed = GRAPH_SEED + GRAPH_SEED_STRIDE * u64::from(data_index);
    let training: Vec<&[f64]> = sources.iter().map(|source| &source[..TRAIN_NODES]).collect();
    let (edges, design) = topology::accepted(graph_seed, &training)?;

    let walk = topology::walk(&edges)?;
    let truth = truth(data_index, columns, centres, &sources, &walk, design);
    let labels = labels(seed, &truth);
    let node_ids = |instances: std::ops::Range<usize>| {
        (instances.start * NODES..instances.end * NODES).map(|i| i as u32).collect::<Vec<_>>()
    };
    let split = Split {
        train: node_ids(0..TRAIN_INSTANCES),
        valid: node_ids(TRAIN_INSTANCES..TRAIN_INSTANCES + VALID_INSTANCES),
        test: node_ids(TRAIN_INSTANCES + VALID_INSTANCES..INSTANCES),
    };
    let graph_ptr = (0..=INSTANCES).map(|instance| instance * NODES).collect();
    let mut dataset = Dataset::new("synthetic", copies(&edges)?, graph_ptr, features, labels, Level::Node, split)?;
    dataset.feature_names = (0..FEATURES).map(feature_name).collect();
    dataset.truth = Some(truth);
    Ok(dataset)
}

/// Name of a column of X.
pub fn feature_name(column: usize) -> String {
    format!("x{column}")
}

/// X: independent and uniform in [-1, 1].
fn features(seed: u64) -> Result<Features> {
    let stream = Stream::new(seed, Purpose::SyntheticFeatures, 0);
    let rows = INSTANCES * NODES;
    let values = (0..(rows * FEATURES) as u64).map(|at| (2.0 * stream.uniform(at) - 1.0) as f32).collect();
    Features::new(rows, FEATURES, values)
}

/// The column of each response: published, or the first of a random permutation.
fn columns(data_index: u32, seed: u64) -> [usize; INFORMATIVE] {
    PUBLISHED_COLUMNS.get(data_index as usize).copied().unwrap_or_else(|| {
        let mut order: [usize; FEATURES] = from_fn(|k| k);
        Stream::new(seed, Purpose::SyntheticColumns, 0).rng().shuffle(&mut order);
        from_fn(|r| order[r])
    })
}

/// f*_r(x) of every node, and the training mean that was taken off.
fn centred_responses(
    features: &Features,
    columns: &[usize; INFORMATIVE],
) -> ([Vec<f64>; INFORMATIVE], [f64; INFORMATIVE]) {
    let mut sources: [Vec<f64>; INFORMATIVE] = from_fn(|r| {
        let x = features.dense();
        let column = x.iter().skip(columns[r]).step_by(FEATURES);
        column.map(|&x| TrueResponse::ALL[r].value(f64::from(x))).collect()
    });
    let centres = from_fn(|r| sources[r][..TRAIN_NODES].iter().sum::<f64>() / TRAIN_NODES as f64);
    for (source, centre) in sources.iter_mut().zip(centres) {
        source.iter_mut().for_each(|value| *value -= centre);
    }
    (sources, centres)
}

fn truth(
    data_index: u32,
    columns: [usize; INFORMATIVE],
    centres: [f64; INFORMATIVE],
    sources: &[Vec<f64>; INFORMATIVE],
    walk: &Transition,
    design: Design,
) -> Truth {
    let profiles: [Profile; INFORMATIVE] = from_fn(|r| Profile::ALL[(r + data_index as usize) % Profile::ALL.len()]);
    let hop_weights = profiles.map(Profile::hop_weights);
    let mut contributions = vec![0.0; INSTANCES * NODES * INFORMATIVE];
    for r in 0..INFORMATIVE {
        for (weight, hop) in hop_weights[r].into_iter().zip(topology::hop_columns(walk, &sources[r])) {
            let column = contributions.iter_mut().skip(r).step_by(INFORMATIVE);
            column.zip(hop).for_each(|(to, value)| *to += weight * value);
        }
    }
    let mut logits: Vec<f64> = contributions.chunks_exact(INFORMATIVE).map(|row| row.iter().sum()).collect();
    let intercept = balancing_intercept(&logits[..TRAIN_NODES]);
    logits.iter_mut().for_each(|logit| *logit += intercept);
    Truth {
        data_index,
        columns,
        responses: TrueResponse::ALL,
        profiles,
        hop_weights,
        centres,
        intercept,
        contributions,
        logits,
        design,
    }
}

/// y ~ Bernoulli(sigmoid(eta*)).
fn labels(seed: u64, truth: &Truth) -> Labels {
    let stream = Stream::new(seed, Purpose::SyntheticLabels, 0);
    let ids = (0..truth.logits.len()).map(|i| u32::from(stream.uniform(i as u64) < truth.probability(i))).collect();
    Labels::Classes { ids, classes: 2 }
}

/// One copy of the graph for every instance, block-diagonal.
fn copies(edges: &[(u32, u32)]) -> Result<Graph> {
    let starts = (0..INSTANCES).map(|instance| (instance * NODES) as u32);
    let all: Vec<_> = starts.flat_map(|start| edges.iter().map(move |&(i, j)| (start + i, start + j))).collect();
    Graph::from_edges(INSTANCES * NODES, &all, None, Direction::Undirected)
}

#[cfg(test)]
mod tests {
    use super::*;
    use harmonia_graph::graph::Walk;

    /// Rounding of sums over 16384 training nodes.
    const SUM_TOLERANCE: f64 = 1e-9;
    /// Rounding of a logit: a few dozen products of numbers near 1.
    const LOGIT_TOLERANCE: f64 = 1e-12;

    fn dataset(data_index: u32) -> (Dataset, Truth) {
        let dataset = generate(data_index).unwrap();
        let truth = dataset.truth.clone().unwrap();
        (dataset, truth)
    }

    fn ids(dataset: &Dataset) -> &[u32] {
        match &dataset.labels {
            Labels::Classes { ids, classes: 2 } => ids,
            other => panic!("expected two classes, found {other:?}"),
        }
    }

    #[test]
    fn sizes_split_and_range_are_the_papers() {
        let (dataset, truth) = dataset(0);
        assert_eq!((dataset.graphs(), dataset.units(), dataset.features.cols), (384, 24576, 20));
        assert_eq!((dataset.labels.outputs(), dataset.level), (1, Level::Node));
        assert!([78, 79].map(|edges| 2 * edges * INSTANCES).contains(&dataset.graph.directed_edges()));
        let split = &dataset.split;
        assert_eq!((split.train.len(), split.valid.len(), split.test.len()), (256 * 64, 64 * 64, 64 * 64));
        assert_eq!((split.train[0], split.valid[0], split.test[0]), (0, 256 * 64, 320 * 64));
        assert!(dataset.features.dense().iter().all(|x| (-1.0..=1.0).contains(x)));
        // Variance of a uniform number on [-1, 1] is 1/3; its standard error here is 0.0004.
        let squares: f64 = dataset.features.dense().iter().map(|&x| f64::from(x * x)).sum();
        assert!((squares / dataset.features.dense().len() as f64 - 1.0 / 3.0).abs() < 0.003);
        assert_eq!((dataset.name.as_str(), dataset.feature_names[19].as_str()), ("synthetic", "x19"));
        assert_eq!(truth.logits.len(), 24576);
        dataset.check().unwrap();
    }

    #[test]
    fn columns_and_profiles_follow_the_published_table() {
        use Profile::{A, B, C, D};
        let table = [([19, 17, 5, 2], [A, B, C, D]), ([18, 3, 7, 1], [B, C, D, A]), ([1, 14, 18, 0], [C, D, A, B])];
        for (data_index, (columns, profiles)) in table.into_iter().enumerate() {
            let (_, truth) = dataset(data_index as u32);
            assert_eq!((truth.columns, truth.profiles), (columns, profiles));
        }
        for data_index in [3, 4] {
            let mut columns = dataset(data_index).1.columns;
            columns.sort_unstable();
            assert!(columns.windows(2).all(|pair| pair[0] < pair[1]) && columns[3] < FEATURES, "{columns:?}");
        }
    }

    #[test]
    fn training_responses_are_centred_and_classes_balanced() {
        for data_index in 0..DATASETS {
            let (dataset, truth) = dataset(data_index);
            for r in 0..INFORMATIVE {
                let responses = dataset.split.train.iter().map(|&i| {
                    truth.response(r, f64::from(dataset.features.dense()[i as usize * FEATURES + truth.columns[r]]))
                });
                assert!(responses.sum::<f64>().abs() / (TRAIN_NODES as f64) < SUM_TOLERANCE);
            }
            let expected: f64 = dataset.split.train.iter().map(|&i| truth.probability(i as usize)).sum();
            assert!((expected / TRAIN_NODES as f64 - 0.5).abs() < SUM_TOLERANCE);
        }
    }

    #[test]
    fn logits_equal_dense_powers_of_the_walk() {
        let (dataset, truth) = dataset(3);
        let instance = 300;
        let nodes = dataset.graph_nodes(instance);
        let walk = Transition::new(&dataset.graph, Walk::default());
        let mut dense = vec![vec![0.0; NODES]; NODES];
        for (i, row) in dense.iter_mut().enumerate() {
            for (j, weight) in walk.matrix().row_entries(nodes.start + i) {
                row[j - nodes.start] = f64::from(weight) / walk.degree()[nodes.start + i];
            }
        }
        let mut power: Vec<Vec<f64>> = (0..NODES).map(|i| (0..NODES).map(|j| f64::from(i == j)).collect()).collect();
        let mut logits = vec![truth.intercept; NODES];
        for t in 0..HOPS {
            for (logit, row) in logits.iter_mut().zip(&power) {
                for (j, probability) in row.iter().enumerate() {
                    for r in 0..INFORMATIVE {
                        let x = dataset.features.dense()[(nodes.start + j) * FEATURES + truth.columns[r]];
                        *logit += truth.hop_weights[r][t] * probability * truth.response(r, f64::from(x));
                    }
                }
            }
            let entry = |row: &[f64], j: usize| row.iter().zip(&dense).map(|(p, from)| p * from[j]).sum();
            power = power.iter().map(|row| (0..NODES).map(|j| entry(row, j)).collect()).collect();
        }
        for (i, logit) in nodes.zip(logits) {
            assert!((truth.logits[i] - logit).abs() < LOGIT_TOLERANCE);
            let sum: f64 = (0..INFORMATIVE).map(|r| truth.contribution(i, r)).sum();
            assert!((truth.logits[i] - sum - truth.intercept).abs() < LOGIT_TOLERANCE);
        }
    }

    #[test]
    fn labels_are_as_frequent_as_their_probability() {
        let (dataset, truth) = dataset(1);
        let mut bins = [(0.0, 0.0, 0.0); 10]; // count, sum of p, sum of y
        for (i, &y) in ids(&dataset).iter().enumerate() {
            let p = truth.probability(i);
            let bin = &mut bins[((10.0 * p) as usize).min(9)];
            *bin = (bin.0 + 1.0, bin.1 + p, bin.2 + f64::from(y));
        }
        for (count, p, y) in bins {
            let deviation = (p * (1.0 - p / count)).sqrt();
            assert!(count > 0.0 && (y - p).abs() < 4.0 * deviation, "{count} labels: {y} ones, {p} expected");
        }
        // Entropy of the labels given the truth: better than a coin, worse than certainty.
        let nll = truth.nll(&dataset.labels, &dataset.split.test);
        assert!((0.3..std::f64::consts::LN_2).contains(&nll), "{nll}");
    }

    #[test]
    fn features_and_labels_depend_on_their_own_streams_only() {
        let (dataset, truth) = dataset(2);
        let x = Stream::new(FEATURE_SEED + 2, Purpose::SyntheticFeatures, 0);
        let y = Stream::new(FEATURE_SEED + 2, Purpose::SyntheticLabels, 0);
        for (i, &label) in ids(&dataset).iter().enumerate() {
            assert_eq!(dataset.features.dense()[i * FEATURES], (2.0 * x.uniform((i * FEATURES) as u64) - 1.0) as f32);
            assert_eq!(label == 1, y.uniform(i as u64) < truth.probability(i));
        }
        let products: f64 = (0..TRAIN_NODES as u64).map(|i| (x.uniform(i) - 0.5) * (y.uniform(i) - 0.5)).sum();
        // Uncorrelated: the mean of such products has standard error 1/12 / sqrt(16384) = 0.00065.
        assert!((products / TRAIN_NODES as f64).abs() < 0.0026);
    }

    #[test]
    fn an_index_names_one_dataset() {
        let all: Vec<(Dataset, Truth)> = (0..DATASETS).map(dataset).collect();
        for (i, (left, truth)) in all.iter().enumerate() {
            let (again, again_truth) = dataset(i as u32);
            assert_eq!((&left.graph, &left.features, &left.labels), (&again.graph, &again.features, &again.labels));
            assert!(truth.logits.iter().zip(&again_truth.logits).all(|(a, b)| a.to_bits() == b.to_bits()));
            for (right, _) in &all[i + 1..] {
                assert_ne!(left.graph, right.graph);
                assert_ne!(left.features, right.features);
            }
        }
    }

    #[test]
    fn indices_beyond_the_papers_are_fresh_data_by_the_same_rule() {
        for index in [DATASETS, 1_000_003, u32::MAX] {
            let (fresh, truth) = dataset(index);
            fresh.check().unwrap();
            assert_eq!((fresh.units(), truth.data_index), (24576, index));
            assert!(truth.design.passes());
            assert_eq!(truth.profiles, dataset(index % 4).1.profiles);
            let x = Stream::new(FEATURE_SEED + u64::from(index), Purpose::SyntheticFeatures, 0);
            assert_eq!(fresh.features.dense()[7], (2.0 * x.uniform(7) - 1.0) as f32);
            assert!((0..DATASETS).all(|known| dataset(known).0.graph != fresh.graph));
        }
    }
}

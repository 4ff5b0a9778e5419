//! The generator as a whole: what it plants can be found, and nothing depends on threads.

use super::*;
use harmonia_graph::graph::{Graph, Transition, Walk};
use proptest::prelude::*;

fn generator(name: &str, scale: f64, seed: u64) -> Generator {
    Generator::new(like(name).unwrap().scaled(scale).unwrap(), seed).unwrap()
}

fn planted(generator: &Generator) -> Planted {
    let edges = generator.edges();
    let graph = Graph::from_edges(generator.shape().nodes, &edges, None, generator.direction()).unwrap();
    generator.labels(&graph).unwrap()
}

#[test]
fn the_teacher_needs_the_graph_and_every_class_occurs() {
    let cases = [
        ("ogbn-products", 0.01),
        ("ogbn-products", 0.03),
        ("ogbn-arxiv", 0.01),
        ("ogbn-arxiv", 0.1),
        ("igb-small", 0.01),
        ("cora", 1.0),
        ("citeseer", 1.0),
        ("tolokers", 0.1),
        ("tolokers", 1.0),
    ];
    for (name, scale) in cases {
        let generator = generator(name, scale, 1);
        let planted = planted(&generator);
        println!(
            "{name} x {scale}: teacher {:.3}, local {:.3}, majority {:.3}, repeats {:.4}, temperature {:.3}",
            planted.teacher_accuracy,
            planted.local_accuracy,
            planted.majority_share,
            planted.duplicate_share,
            planted.temperature
        );
        let classes = generator.shape().classes;
        assert!((0..classes as u32).all(|class| planted.labels.contains(&class)), "{name} {scale}");
        assert!(planted.labels.iter().all(|&label| (label as usize) < classes), "{name} {scale}");
        assert!((planted.teacher_accuracy - TEACHER_ACCURACY).abs() < 0.02, "{name} {scale}");
        assert!(planted.local_accuracy < planted.teacher_accuracy - 0.1, "{name} {scale}");
        assert!(planted.local_accuracy > planted.majority_share, "{name} {scale}");
        assert!(planted.majority_share < 3.0 / classes as f64, "{name} {scale}");
    }
}

/// The definition, column by column in f64 and with the walk the model runs on.
#[test]
fn labels_are_those_of_the_definition() {
    for (name, scale) in [("cora", 0.3), ("ogbn-arxiv", 0.01), ("tolokers", 0.02)] {
        let generator = generator(name, scale, 6);
        let GraphShape { nodes, features, classes, .. } = *generator.shape();
        let graph = Graph::from_edges(nodes, &generator.edges(), None, generator.direction()).unwrap();
        let planted = generator.labels(&graph).unwrap();
        let walk = Transition::new(&graph, Walk::default());
        let mut x = vec![0.0; nodes * features];
        x.chunks_exact_mut(features).enumerate().for_each(|(i, row)| generator.feature_row(i, row));

        let mut scores = vec![0.0; nodes * classes];
        let mut lengths = vec![0.0; classes];
        for column in &generator.informative {
            let mut z: Vec<f64> =
                (0..nodes).map(|i| column.response.at(f64::from(x[i * features + column.feature]))).collect();
            for _ in 0..column.hop {
                let average = |i: usize| {
                    let sum: f64 = walk.matrix().row_entries(i).map(|(j, weight)| f64::from(weight) * z[j]).sum();
                    sum / walk.degree()[i]
                };
                z = (0..nodes).map(average).collect();
            }
            let mean = z.iter().sum::<f64>() / nodes as f64;
            let deviation = (z.iter().map(|z| (z - mean).powi(2)).sum::<f64>() / nodes as f64).sqrt();
            let at_means: Vec<f64> = (0..classes).map(|class| column.response.at(column.mean(class))).collect();
            let centre = at_means.iter().sum::<f64>() / classes as f64;
            let factor = if column.hop == 0 { 0.5 } else { 1.0 };
            for class in 0..classes {
                let weight = factor * (at_means[class] - centre);
                lengths[class] += weight * weight;
                (0..nodes).for_each(|i| scores[i * classes + class] += weight * (z[i] - mean) / deviation);
            }
        }
        let stream = Stream::new(6, Purpose::GenerateLabels, 0);
        let (mut same, mut right) = (0, 0);
        for i in 0..nodes {
            let score = |class: usize| scores[i * classes + class] / f64::sqrt(lengths[class]);
            // Two numbers per block: an odd number of classes leaves one unused.
            let uniform = |class: usize| stream.uniform((i * classes.next_multiple_of(2) + class) as u64);
            let noisy = |class: usize| score(class) - planted.temperature * (-uniform(class).ln()).ln();
            let best = |value: &dyn Fn(usize) -> f64| {
                (0..classes).max_by(|&a, &b| value(a).total_cmp(&value(b))).unwrap() as u32
            };
            same += usize::from(best(&noisy) == planted.labels[i]);
            right += usize::from(best(&score) == planted.labels[i]);
        }
        // Columns are carried in f32: a tie or two may fall the other way, and the node at the very temperature.
        assert!(same + 2 >= nodes, "{name}: {same} of {nodes}");
        assert!((right as f64 / nodes as f64 - planted.teacher_accuracy).abs() <= 2.0 / nodes as f64, "{name}");
    }
}

#[test]
fn labels_follow_communities_where_neighbourhoods_are_large() {
    let generator = generator("ogbn-products", 0.02, 4);
    let planted = planted(&generator);
    let same = (planted.labels.iter().enumerate()).filter(|&(i, &label)| generator.community(i) == label as usize);
    let share = same.count() as f64 / planted.labels.len() as f64;
    println!("{share:.3} of the labels are the community");
    assert!(share > 0.5, "{share}");
}

#[test]
fn truth_names_the_columns_whose_means_differ() {
    let generator = generator("ogbn-arxiv", 0.05, 2);
    let truth = planted(&generator).truth;
    assert_eq!(truth.columns.len(), INFORMATIVE);
    let (n, d) = (generator.shape().nodes, generator.shape().features);
    // Spread of the community means of each column: noise alone has 1 / sqrt(n / classes) = 0.07.
    let mut sums = vec![0f64; generator.shape().classes * d];
    let mut sizes = vec![0f64; generator.shape().classes];
    let mut row = vec![0.0; d];
    for i in 0..n {
        generator.feature_row(i, &mut row);
        let z = generator.community(i);
        sizes[z] += 1.0;
        sums[z * d..(z + 1) * d].iter_mut().zip(&row).for_each(|(sum, &value)| *sum += f64::from(value));
    }
    for k in 0..d {
        let means: Vec<f64> = sizes.iter().enumerate().map(|(z, size)| sums[z * d + k] / size).collect();
        let mean = means.iter().sum::<f64>() / means.len() as f64;
        let spread = (means.iter().map(|m| (m - mean).powi(2)).sum::<f64>() / means.len() as f64).sqrt();
        let informative = truth.columns.iter().any(|column| column.feature == k);
        assert_eq!(spread > 0.25, informative, "column {k} has spread {spread}");
    }
}

#[test]
fn the_same_bits_on_any_number_of_threads() {
    let on = |threads: usize| {
        rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap().install(|| {
            let generator = generator("ogbn-arxiv", 0.1, 9);
            let planted = planted(&generator);
            (planted.temperature.to_bits(), planted, generator.split())
        })
    };
    assert_eq!(on(1), on(2));
}

#[test]
fn facts_survive_json_and_leave_the_labels_out() {
    let planted = planted(&generator("cora", 0.1, 1));
    let text = serde_json::to_string(&planted).unwrap();
    assert!(
        text.contains(r#""hop":2"#) && text.contains(r#""response":"tanh(2x)""#) && !text.contains("labels"),
        "{text}"
    );
    let read: Planted = serde_json::from_str(&text).unwrap();
    assert_eq!(Planted { labels: planted.labels.clone(), ..read }, planted);
}

#[test]
fn splits_have_their_sizes_and_order() {
    let random = generator("cora", 1.0, 3).split();
    random.check(2708).unwrap();
    assert_eq!((random.train.len(), random.valid.len(), random.test.len()), (140, 500, 1000));
    assert!(random.train.is_sorted() && random.train.last() > Some(&1000));
    let by_id = generator("igb-small", 0.001, 3).split();
    assert_eq!(by_id.train, (0..600).collect::<Vec<_>>());
    assert_eq!(by_id.test, (800..1000).collect::<Vec<_>>());
}

#[test]
fn another_graph_is_refused() {
    let generator = generator("cora", 0.1, 1);
    let refused = |graph: Graph| generator.labels(&graph).unwrap_err().to_string();
    let small = Graph::from_edges(3, &[(0, 1)], None, Direction::Undirected).unwrap();
    assert!(refused(small).contains("271 nodes and at most"));
    let weighted = Graph::from_edges(271, &[(0, 1)], Some(&[2.0]), Direction::Undirected).unwrap();
    assert!(refused(weighted).contains("without weights"));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_shape_is_refused_or_generated(
        nodes in 0usize..300, edge_rows in 0usize..2000, features in 0usize..40, classes in 0usize..30,
        directed: bool, split_by_id: bool, train in 0usize..100, valid in 0usize..100, test in 0usize..100, seed: u64,
    ) {
        let shape = GraphShape { nodes, edge_rows, features, classes, directed, train, valid, test, split_by_id };
        if let Ok(generator) = Generator::new(shape, seed) {
            let planted = planted(&generator);
            prop_assert!((0..classes as u32).all(|class| planted.labels.contains(&class)));
            generator.split().check(nodes).unwrap();
            let mut row = vec![f32::NAN; features];
            (0..nodes).for_each(|i| generator.feature_row(i, &mut row));
            prop_assert!(row.iter().all(|value| value.is_finite()));
        }
    }
}

//! Train on your own arrays, stop when you like, and read a prediction: the library without files.
//!
//! `cargo run --release --example embed`

use harmonia::Stop;
use harmonia::config::Config;
use harmonia::dataset::{Dataset, Features, Labels};
use harmonia::device::Machine;
use harmonia::explain::{By, Case, Edit, Factors, Score, Target};
use harmonia::graph::{Direction, Graph, Split};

/// Trains on the best device there is, and explains.
///
/// # Errors
/// None of this data has any.
pub fn main() -> harmonia::Result<()> {
    // A ring of 40 nodes; a node belongs to class 1 where its neighbours' feature is large.
    let n = 40;
    let edges: Vec<(u32, u32)> = (0..n).map(|i| (i, (i + 1) % n)).collect();
    let x: Vec<f32> = (0..n).map(|i| ((i * 7 % n) as f32 / n as f32) * 2.0 - 1.0).collect();
    let at = |i: u32| x[(i % n) as usize];
    let ids = (0..n).map(|i| u32::from(at(i + 1) + at(i + n - 1) > 0.0)).collect();
    let graph = Graph::from_edges(n as usize, &edges, None, Direction::Undirected)?;
    let split = Split { train: (0..30).collect(), valid: (30..35).collect(), test: (35..40).collect() };
    let features = Features::new(n as usize, 1, x)?;
    let dataset = Dataset::nodes("ring", graph, features, Labels::Classes { ids, classes: 2 }, split)?;

    let mut config = Config::default();
    (config.train.epochs, config.train.learning_rate) = (200, 1e-2);
    let machine = Machine::open("auto", config.engine)?;
    // Another thread may hold a clone of the token and call `ask`: `fit` then ends with `Error::Cancelled`.
    let model = harmonia::fit(&dataset, &config, &machine, &Stop::new())?;
    println!("node 39: class {}", model.predict(&dataset)?[39]);

    let factors = Factors::of(&model)?;
    let case = Case::new(&model, &factors, &dataset, Target::Node(39), &Edit::default())?;
    let (score, by) = (Score { output: 0, versus: None, sign: 1.0 }, By { feature: true, node: true, hop: true });
    let found = case.explain(score, by, 3, &[0.0])?;
    for term in &found.terms {
        println!("node {:?}, hop {:?}: {:+.4}", term.node, term.hop, term.value);
    }
    println!("logit {:.4}, residual {:.1e}", found.logit, found.residual);
    Ok(())
}

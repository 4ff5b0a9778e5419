//! Builds a graph from arrays, fits a model and predicts: `cargo run --release --example fit_predict`.
//!
//! A ring of 40 nodes with one feature; the class of a node is the sign of the sum of its neighbours' features.

use harmonia::Stop;
use harmonia::config::Config;
use harmonia::dataset::{Dataset, Features, Labels};
use harmonia::device::Machine;
use harmonia::graph::{Direction, Graph, Split};

/// Trains and prints how many test nodes are right.
pub fn main() -> harmonia::Result<()> {
    let n = 40u32;
    let edges: Vec<(u32, u32)> = (0..n).map(|i| (i, (i + 1) % n)).collect();
    let graph = Graph::from_edges(n as usize, &edges, None, Direction::Undirected)?;
    let x: Vec<f32> = (0..n).map(|i| (i as f32 * 0.9).sin()).collect();
    let neighbours = |i: u32| x[((i + 1) % n) as usize] + x[((i + n - 1) % n) as usize];
    let ids: Vec<u32> = (0..n).map(|i| u32::from(neighbours(i) > 0.0)).collect();
    let labels = Labels::Classes { ids: ids.clone(), classes: 2 };
    let split = Split::fractions(&(0..n).collect::<Vec<_>>(), [50.0, 25.0, 25.0], 0);
    let dataset = Dataset::nodes("ring", graph, Features::new(n as usize, 1, x)?, labels, split)?;

    let mut config = Config::default();
    (config.train.learning_rate, config.train.epochs) = (0.02, 300);
    let machine = Machine::open("cpu", config.engine)?;
    let model = harmonia::fit(&dataset, &config, &machine, &Stop::new())?;
    let predicted = model.predict(&dataset)?;
    let right = dataset.split.test.iter().filter(|&&i| predicted[i as usize] == ids[i as usize]).count();
    println!("{right} of {} test nodes are right", dataset.split.test.len());
    Ok(())
}

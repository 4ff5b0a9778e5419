//! Train on arrays of your own, then read one prediction as the sum it is: `cargo run --example explain`.

use harmonia::Stop;
use harmonia::config::Config;
use harmonia::dataset::{Dataset, Features, Labels};
use harmonia::device::Machine;
use harmonia::explain::{By, Case, Edit, Factors, Score, Target, centre};
use harmonia::graph::{Direction, Graph, Split};

/// Trains, explains, prints.
///
/// # Errors
/// None of this data has any.
pub fn main() -> harmonia::Result<()> {
    // A ring of 60 nodes: the class is the sign of the first feature's mean over the neighbours.
    let nodes = 60;
    let edges: Vec<(u32, u32)> = (0..nodes).map(|i| (i, (i + 1) % nodes)).collect();
    let graph = Graph::from_edges(nodes as usize, &edges, None, Direction::Undirected)?;
    let x = |i: u32| ((i as f32) * 0.9).sin();
    let values = (0..nodes).flat_map(|i| [x(i), ((i * i) as f32).cos()]).collect();
    let class = |i: u32| u32::from(x((i + 1) % nodes) + x((i + nodes - 1) % nodes) > 0.0);
    let labels = Labels::Classes { ids: (0..nodes).map(class).collect(), classes: 2 };
    let split = Split { train: (0..40).collect(), valid: (40..50).collect(), test: (50..60).collect() };
    let dataset = Dataset::nodes("ring", graph, Features::new(nodes as usize, 2, values)?, labels, split)?;
    let mut config = Config::default();
    config.train.epochs = 200;
    let machine = Machine::open("cpu", config.engine)?;
    let model = harmonia::fit(&dataset, &config, &machine, &Stop::new())?;

    let factors = Factors::of(&model)?;
    let centre = centre::mean_responses(&factors, &dataset.features);
    let case = Case::new(&model, &factors, &dataset, Target::Node(55), &Edit::default())?;
    let score = Score { output: 0, versus: None, sign: 1.0 };
    let by = By { feature: true, node: false, hop: true };
    let explanation = case.explain(score, by, 5, &centre)?;
    println!("intercept {:+.4}", explanation.intercept);
    for term in &explanation.terms {
        println!("feature {:?}, hop {:?}: {:+.4}", term.feature, term.hop, term.value);
    }
    println!("rest {:+.4}", explanation.rest);
    println!("logit {:+.4}, residual {:.1e}", explanation.logit, explanation.residual);
    Ok(())
}

//! What linearity in walk lengths costs and saves: HARMONIA against the same model with a network on what walks say of every pair of
//! nodes (DNN-RRWP), on graphs and nodes, and the refusal of the latter where pairs have no room.

use super::accuracy::{self, Record, Verdict, cell, verdicts};
use super::findings::{Cell, Claim, Findings, Table};
use super::real;
use super::rows::Row;
use super::study::{Job, Records, Scene, Size, Study};
use crate::architecture::Kind;
use harmonia_data::generate::{self, Generator};
use harmonia_graph::dataset::{Dataset, Features, Labels};
use harmonia_graph::error::{Error, Result};
use harmonia_graph::graph::Graph;

/// The study.
pub struct LinearVsDnn;

/// Both models, the linear one last as in the paper.
const ROWS: [Row; 2] = [Row::of("DNN RRWP", Kind::DnnRrwp), Row::of("linear RRWP", Kind::Harmonia)];
/// A dataset, its folds (of nodes none), and the paper's accuracies in the order of [`ROWS`]; none: out of memory.
const DATASETS: [(&str, usize, Papers); 6] = [
    ("mutag", 10, [Some([71.25, 1.8]), Some([69.50, 1.5])]),
    ("proteins", 10, [Some([72.10, 1.4]), Some([70.76, 1.2])]),
    ("aids", 10, [Some([98.15, 0.9]), Some([97.75, 1.1])]),
    ("cora", 0, [Some([80.52, 0.9]), Some([79.60, 1.3])]),
    ("citeseer", 0, [Some([73.64, 0.8]), Some([72.80, 1.1])]),
    (LARGE, 0, [None, Some([78.14, 2.3])]),
];
/// Accuracy and deviation of each row.
type Papers = [Option<[f64; 2]>; 2];
/// Where pairs have no room.
const LARGE: &str = "ogbn-arxiv";

/// Trains a row, or has its plan looked at where the data are known by their shape alone.
fn train(row: Row, dataset: &'static str, seed: u64, folds: usize, size: Size, scene: &Scene<'_>) -> Result<Record> {
    let mut record = accuracy::train(row, dataset, seed, folds, &[], size, scene)?;
    if dataset == LARGE && matches!(record.verdict, Some(Verdict::Absent)) && row.kind == Kind::DnnRrwp {
        let config = real::config(&row, dataset, seed, &[], scene)?;
        record.verdict = accuracy::verdict(&config, of_that_shape(dataset)?, scene)?.or(record.verdict);
    }
    Ok(record)
}

/// A graph of the shape of a dataset, without anything to learn: plans read sizes alone.
fn of_that_shape(name: &str) -> Result<Dataset> {
    let Some(shape) = generate::like(name) else { return Err(Error::Config(format!("{name} has no known shape"))) };
    let (nodes, features, classes) = (shape.nodes, shape.features, shape.classes);
    let generator = Generator::new(shape, 0)?;
    let graph = Graph::from_edges(nodes, &generator.edges(), None, generator.direction())?;
    let ids = (0..nodes).map(|node| (node % classes) as u32).collect();
    let features = Features::new(nodes, features, vec![0.0; nodes * features])?;
    Dataset::nodes(name, graph, features, Labels::Classes { ids, classes }, generator.split())
}

impl Study for LinearVsDnn {
    fn name(&self) -> &'static str {
        "linear-vs-dnn"
    }

    fn about(&self) -> &'static str {
        "hop weights against a network on walk probabilities, and where the latter has no room"
    }

    fn source(&self) -> &'static str {
        "table of linear and DNN-based RRWP"
    }

    fn jobs(&self, size: Size) -> Result<Vec<Job>> {
        let mut jobs = Vec::new();
        for (dataset, folds, _) in DATASETS {
            let folds = if size == Size::Smallest { folds.min(3) } else { folds };
            let repeats = if folds > 0 { size.of(1, 1, 3) } else { size.of(1, 1, 5) };
            // Pairs of the larger datasets take hours: those of MUTAG (made by hand for tests), and the refusal, take minutes.
            if size != Size::Full && !["mutag", LARGE].contains(&dataset) {
                continue;
            }
            for row in ROWS {
                for seed in 0..if dataset == LARGE { 1 } else { repeats } {
                    let key = format!("{dataset} {} seed {seed}", row.name);
                    let work = move |scene: &Scene<'_>| train(row, dataset, seed, folds, size, scene);
                    jobs.push(Job::of_machine(key, work, Record::is_of_machine));
                }
            }
        }
        Ok(jobs)
    }

    fn findings(&self, _: Size, records: &Records) -> Result<Findings> {
        let records = records.read::<Record>()?;
        let row = |(at, row): (usize, &Row)| {
            let cells = DATASETS.iter().map(|(dataset, _, papers)| cell(&records, row.name, dataset, papers[at]));
            [Cell::text(row.name)].into_iter().chain(cells).collect()
        };
        let table = Table {
            name: "linear-vs-dnn",
            title: "Test accuracy, percent".into(),
            head: ["model"].iter().chain(DATASETS.iter().map(|(name, ..)| name)).map(|name| name.to_string()).collect(),
            rows: ROWS.iter().enumerate().map(row).collect(),
            note: format!("Mean and deviation over runs, by the paper's settings. {}", verdicts(&records)),
        };
        let large = records.iter().filter(|record| record.dataset == LARGE && record.model == ROWS[0].name);
        let refused = large.filter_map(|record| record.verdict.as_ref()?.shown()).next();
        let claims = vec![Claim::reported(
            format!("a network on every pair of nodes has no room on {LARGE}"),
            refused.is_some(),
            refused.map_or("it was not refused".to_string(), |(_, text)| text.to_string()),
        )];
        Ok(Findings { tables: vec![table], figures: Vec::new(), claims })
    }
}

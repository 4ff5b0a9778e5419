//! Is what matters missed? A fifth of the features is removed (the most important, the least, or any), a new model is trained, and test
//! accuracies are compared. What is removed is chosen by importance on validation units; test labels play no part.

use super::findings::{Cell, Claim, Findings, Spread, Table};
use super::real;
use super::rows::{OWN, Row};
use super::study::{Job, Records, Scene, Size, Study};
use crate::explain::ranking;
use crate::studies::remove_retrain::{Which, columns, without};
use harmonia_graph::error::Result;
use serde::{Deserialize, Serialize};

/// Share of the features.
const FRACTION: f64 = 0.2;
/// What the paper's figure prints for the most important features; it does not say of which dataset.
const PAPER_TOP: f64 = -0.104;

/// The study.
pub struct Removal;

#[derive(Serialize, Deserialize)]
struct Record {
    model: String,
    dataset: String,
    seed: u64,
    /// Test accuracy with all features; none where the dataset is not here.
    full: Option<f64>,
    /// Without the top, bottom and random ones.
    without: Vec<f64>,
}

fn train(row: Row, dataset: &'static str, seed: u64, size: Size, scene: &Scene<'_>) -> Result<Record> {
    let set: Vec<String> = (size == Size::Smallest).then(|| "train.epochs=3".to_string()).into_iter().collect();
    let config = real::config(&row, dataset, seed, &set, scene)?;
    let mut record = Record { model: row.name.into(), dataset: dataset.into(), seed, full: None, without: Vec::new() };
    let Some(whole) = real::load(&config, scene)? else { return Ok(record) };
    let trained = real::train(&whole, &config, scene)?;
    record.full = Some(trained.test_accuracy()?);
    let order = ranking(&trained.importance(scene)?);
    for which in Which::ALL {
        let left = without(&trained.dataset, &columns(&order, FRACTION, which, seed));
        record.without.push(real::again(left, &config, scene)?.test_accuracy()?);
    }
    Ok(record)
}

impl Study for Removal {
    fn name(&self) -> &'static str {
        "removal"
    }

    fn about(&self) -> &'static str {
        "test accuracy after a fifth of the features is removed and a model is trained anew"
    }

    fn source(&self) -> &'static str {
        "figure of remove-and-retrain"
    }

    fn jobs(&self, size: Size) -> Result<Vec<Job>> {
        let datasets: &[&'static str] =
            size.of(&["synthetic"], &["synthetic", "cora"], &["synthetic", "cora", "citeseer", "mutagenicity"]);
        let seeds = size.of(1, 2, 5);
        let mut jobs = Vec::new();
        for &dataset in datasets {
            for &row in OWN {
                for seed in 0..seeds {
                    let key = format!("{dataset} {} seed {seed}", row.name);
                    let work = move |scene: &Scene<'_>| train(row, dataset, seed, size, scene);
                    jobs.push(Job::of_machine(key, work, |record| record.full.is_none()));
                }
            }
        }
        Ok(jobs)
    }

    fn findings(&self, _: Size, records: &Records) -> Result<Findings> {
        let records = records.read::<Record>()?;
        let mut groups: Vec<(&str, &str)> = Vec::new();
        for record in &records {
            if !groups.contains(&(&record.dataset, &record.model)) {
                groups.push((&record.dataset, &record.model));
            }
        }
        let changes = |(dataset, model): (&str, &str), at: usize| {
            let own =
                records.iter().filter(|record| (record.dataset.as_str(), record.model.as_str()) == (dataset, model));
            own.filter_map(|record| Some(record.without.get(at)? - record.full?)).collect::<Vec<f64>>()
        };
        let row = |&group: &(&str, &str)| {
            let mut cells = vec![Cell::text(group.0), Cell::text(group.1)];
            cells.extend((0..Which::ALL.len()).map(|at| Cell::spread(Spread::of(&changes(group, at)), 3)));
            cells
        };
        let head = ["dataset", "model"].map(String::from).into_iter();
        let table = Table {
            name: "removal",
            title: "Change of test accuracy without a fifth of the features".into(),
            head: head.chain(Which::ALL.map(|which| which.name().to_string())).collect(),
            rows: groups.iter().map(row).collect(),
            note: format!(
                "Mean and deviation over seeds. The paper prints {PAPER_TOP} for the most important features, of a dataset that it does not name."
            ),
        };
        let mean = |at: usize| {
            let all: Vec<f64> = groups.iter().flat_map(|&group| changes(group, at)).collect();
            Spread::of(&all).map(|spread| spread.mean)
        };
        let claims = match (mean(0), mean(1), mean(2)) {
            (Some(top), Some(bottom), Some(random)) => vec![Claim::reported(
                "removing the most important features costs most",
                top < bottom.min(random),
                format!("top {top:.3}, bottom {bottom:.3}, random {random:.3}"),
            )],
            _ => Vec::new(),
        };
        Ok(Findings { tables: vec![table], figures: Vec::new(), claims })
    }
}

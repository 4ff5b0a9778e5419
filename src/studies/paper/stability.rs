//! Do models of other seeds find the same features important? Rank correlation of importances over five seeds, and the scatter around
//! their mean.

use super::findings::{Axis, Cell, Drawing, Figure, Findings, Series, Style, Table};
use super::real;
use super::rows::{OWN, Row};
use super::study::{Job, Records, Scene, Size, Study};
use crate::explain::stability::{mean_spearman, spearman};
use harmonia_graph::error::Result;
use serde::{Deserialize, Serialize};

/// The study.
pub struct Stability;

#[derive(Serialize, Deserialize)]
struct Record {
    model: String,
    dataset: String,
    seed: u64,
    /// Of every feature; none where the dataset is not here.
    importance: Option<Vec<f64>>,
}

fn train(row: Row, dataset: &'static str, seed: u64, size: Size, scene: &Scene<'_>) -> Result<Record> {
    let set: Vec<String> = (size == Size::Smallest).then(|| "train.epochs=3".to_string()).into_iter().collect();
    let config = real::config(&row, dataset, seed, &set, scene)?;
    let importance = match real::load(&config, scene)? {
        Some(whole) => Some(real::train(&whole, &config, scene)?.importance(scene)?),
        None => None,
    };
    Ok(Record { model: row.name.into(), dataset: dataset.into(), seed, importance })
}

impl Study for Stability {
    fn name(&self) -> &'static str {
        "stability"
    }

    fn about(&self) -> &'static str {
        "agreement of feature importances over seeds"
    }

    fn source(&self) -> &'static str {
        "figure of importance stability across seeds"
    }

    fn jobs(&self, size: Size) -> Result<Vec<Job>> {
        let datasets: &[&'static str] =
            size.of(&["synthetic"], &["synthetic", "cora"], &["synthetic", "cora", "citeseer", "mutagenicity"]);
        let seeds = size.of(2, 3, 5);
        let mut jobs = Vec::new();
        for &dataset in datasets {
            for &row in OWN {
                for seed in 0..seeds {
                    let key = format!("{dataset} {} seed {seed}", row.name);
                    let work = move |scene: &Scene<'_>| train(row, dataset, seed, size, scene);
                    jobs.push(Job::of_machine(key, work, |record| record.importance.is_none()));
                }
            }
        }
        Ok(jobs)
    }

    fn findings(&self, _: Size, records: &Records) -> Result<Findings> {
        let records = records.read::<Record>()?;
        let mut groups: Vec<(&str, &str, Vec<Vec<f64>>)> = Vec::new();
        for record in &records {
            let at = groups.iter().position(|group| (group.0, group.1) == (&record.dataset, &record.model));
            let at = at.unwrap_or_else(|| {
                groups.push((&record.dataset, &record.model, Vec::new()));
                groups.len() - 1
            });
            groups[at].2.extend(record.importance.clone());
        }
        let row = |(dataset, model, importances): &(&str, &str, Vec<Vec<f64>>)| {
            let pairs: Vec<f64> = (0..importances.len())
                .flat_map(|a| (a + 1..importances.len()).map(move |b| (a, b)))
                .filter_map(|(a, b)| spearman(&importances[a], &importances[b]))
                .collect();
            let least = pairs.iter().copied().fold(f64::INFINITY, f64::min);
            let mean = mean_spearman(importances).map_or(Cell::text("–"), |mean| Cell::number(mean, 4));
            let least = if pairs.is_empty() { Cell::text("–") } else { Cell::number(least, 4) };
            vec![Cell::text(*dataset), Cell::text(*model), Cell::count(importances.len() as u64), mean, least]
        };
        let table = Table {
            name: "stability",
            title: "Rank agreement of importances over seeds".into(),
            head: ["dataset", "model", "seeds", "mean Spearman", "least"].map(String::from).to_vec(),
            rows: groups.iter().map(row).collect(),
            note: "Importance on the validation units. The paper prints no value. No seeds: the dataset is not on this machine.".into(),
        };
        let shown = groups.iter().rfind(|group| group.2.len() > 1);
        let figures = shown.map(|(dataset, _, importances)| scatter(dataset, importances));
        Ok(Findings { tables: vec![table], figures: figures.into_iter().collect(), claims: Vec::new() })
    }
}

/// Importance of every seed against the mean.
fn scatter(dataset: &str, importances: &[Vec<f64>]) -> Figure {
    let count = importances.len() as f64;
    let mean = |k: usize| importances.iter().map(|of| of[k]).sum::<f64>() / count;
    let means: Vec<f64> = (0..importances[0].len()).map(mean).collect();
    let seed = |(seed, importance): (usize, &Vec<f64>)| Series {
        name: format!("seed {seed}"),
        points: means.iter().zip(importance).map(|(&mean, &own)| [mean, own]).collect(),
        style: Style::Dots,
    };
    let positive = means.iter().copied().filter(|mean| *mean > 0.0);
    let (low, high) = (positive.clone().fold(f64::INFINITY, f64::min), positive.fold(0.0, f64::max));
    let mut series: Vec<Series> = importances.iter().enumerate().map(seed).collect();
    series.push(Series { name: "agreement".into(), points: vec![[low, low], [high, high]], style: Style::Dashed });
    Figure {
        name: "scatter",
        title: format!("Importance by seed against the mean, {dataset}"),
        drawing: Drawing::Plot { x: Axis::logarithmic("mean importance"), y: Axis::logarithmic("importance"), series },
    }
}

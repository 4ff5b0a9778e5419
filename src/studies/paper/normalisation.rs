//! What the simplex is good for: hop weights on it against free ones, on data of four families of functions with profiles of their own.
//!
//! Three datasets, ten model seeds each; within a pair everything but the hop weights is the same. Means over model seeds, then mean and
//! deviation over datasets, as in the paper.

use super::faithfulness::{Measures, measure, test_instances};
use super::findings::{Axis, Cell, Claim, Drawing, Figure, Findings, Series, Spread, Style, Table};
use super::rows::Row;
use super::study::{Job, Records, Scene, Size, Study};
use super::world::{Function, World};
use crate::architecture::Kind;
use crate::device::Machine;
use crate::settings::presets::Recipe;
use crate::train::fit;
use harmonia_graph::error::Result;
use serde::{Deserialize, Serialize};

/// The study.
pub struct Normalisation;

/// The two parameterisations.
const ROWS: [Row; 2] = [
    Row { name: "simplex", kind: Kind::Harmonia, set: &["model.hop_weights=simplex"] },
    Row { name: "free", kind: Kind::Harmonia, set: &["model.hop_weights=free"] },
];

/// Responses and profiles of the paper.
const SIGNALS: [(Function, &[f64]); 4] = [
    (Function { label: "1.5(x^2 - 1)", value: |x| 1.5 * (x * x - 1.0) }, &[0.70, 0.20, 0.07, 0.03]),
    (Function { label: "sin(pi x)", value: |x| (std::f64::consts::PI * x).sin() }, &[0.10, 0.70, 0.15, 0.05]),
    (Function { label: "tanh(2x)", value: |x| (2.0 * x).tanh() }, &[0.05, 0.15, 0.70, 0.10]),
    (
        Function { label: "exp(-8(x - 0.4)^2)", value: |x| (-8.0 * (x - 0.4) * (x - 0.4)).exp() },
        &[0.03, 0.07, 0.20, 0.70],
    ),
];

/// A metric: its name, whether less is better, its value, the paper's for both rows.
struct Metric {
    name: &'static str,
    less: bool,
    of: fn(&Measures) -> Option<f64>,
    papers: [[f64; 2]; 2],
}

const METRICS: [Metric; 6] = [
    Metric {
        name: "effective NRMSE",
        less: true,
        of: |m| Some(m.features.effective_nrmse),
        papers: [[0.2049, 0.0139], [0.2279, 0.0072]],
    },
    Metric { name: "hop L1", less: true, of: |m| m.features.hop_l1, papers: [[0.4409, 0.0221], [0.5491, 0.0188]] },
    Metric {
        name: "node signed NRMSE",
        less: true,
        of: |m| Some(m.nodes.signed_nrmse),
        papers: [[0.3125, 0.0302], [0.3252, 0.0281]],
    },
    Metric {
        name: "node Precision@4",
        less: false,
        of: |m| Some(m.nodes.precision),
        papers: [[0.8509, 0.0195], [0.8409, 0.0179]],
    },
    Metric {
        name: "edge Spearman",
        less: false,
        of: |m| m.edges.spearman,
        papers: [[0.7823, 0.0112], [0.7556, 0.0170]],
    },
    Metric {
        name: "edge Precision@20%",
        less: false,
        of: |m| m.edges.precision,
        papers: [[0.8329, 0.0253], [0.8053, 0.0140]],
    },
];

#[derive(Serialize, Deserialize)]
struct Record {
    hop_weights: String,
    data: u32,
    seed: u64,
    measures: Measures,
}

fn train(row: Row, data: u32, seed: u64, size: Size, scene: &Scene<'_>) -> Result<Record> {
    let world = World::with_signals(data, &SIGNALS)?;
    let mut set = vec![format!("run.seed={seed}")];
    set.extend((size == Size::Smallest).then(|| "train.epochs=4".to_string()));
    let config = row.config("synthetic", Recipe::Paper, &set)?;
    let model = fit(&world.dataset, &config, &Machine::open("cpu", config.engine)?, scene.stop)?;
    let measures = measure(&model, &world, test_instances(size.of(4, 64, 64)))?;
    Ok(Record { hop_weights: row.name.into(), data, seed, measures })
}

impl Study for Normalisation {
    fn name(&self) -> &'static str {
        "normalisation"
    }

    fn about(&self) -> &'static str {
        "hop weights on the simplex against free ones, by six metrics of faithfulness"
    }

    fn source(&self) -> &'static str {
        "table and figure of the ablation of the simplex constraint"
    }

    fn jobs(&self, size: Size) -> Result<Vec<Job>> {
        let (datasets, seeds) = (size.of(1, 1, 3), size.of(1, 2, 10));
        let job = |row: Row, data: u32, seed: u64| {
            let key = format!("{} data {data} seed {seed}", row.name);
            Job::new(key, move |scene| train(row, data, seed, size, scene))
        };
        let runs = (0..datasets).flat_map(|data| (0..seeds).map(move |seed| (data, seed)));
        Ok(runs.flat_map(|(data, seed)| ROWS.map(|row| job(row, data, seed))).collect())
    }

    fn findings(&self, _: Size, records: &Records) -> Result<Findings> {
        let records = records.read::<Record>()?;
        let figures = vec![profiles(&records)];
        Ok(Findings { tables: vec![table(&records)], figures, claims: claims(&records) })
    }
}

fn spread(records: &[Record], row: &Row, metric: &Metric) -> Option<Spread> {
    let own = records.iter().filter(|record| record.hop_weights == row.name);
    let values: Vec<(u32, f64)> =
        own.filter_map(|record| Some((record.data, (metric.of)(&record.measures)?))).collect();
    Spread::of_groups(&values)
}

fn table(records: &[Record]) -> Table {
    let row = |metric: &Metric| {
        let of: Vec<Option<Spread>> = ROWS.iter().map(|row| spread(records, row, metric)).collect();
        let cell = |at: usize| {
            let [mean, deviation] = metric.papers[at];
            Cell::spread(of[at], 4).beside(Some(mean), Some(deviation))
        };
        let change = of[0].zip(of[1]).map(|(simplex, free)| simplex.mean - free.mean);
        let paper = metric.papers[0][0] - metric.papers[1][0];
        let change = change.map_or(Cell::empty(), |change| Cell::number(change, 4).beside(Some(paper), None));
        vec![Cell::text(metric.name), cell(0), cell(1), change]
    };
    Table {
        name: "normalisation",
        title: "Faithfulness with hop weights on the simplex and free".into(),
        head: ["metric", "simplex", "free", "simplex - free"].map(String::from).to_vec(),
        rows: METRICS.iter().map(row).collect(),
        note: "Trained by the settings of the synthetic study; the paper does not say other ones. Its graphs and draws are not published.".into(),
    }
}

/// True and recovered profiles, one walk length after the other.
fn profiles(records: &[Record]) -> Figure {
    let hops = SIGNALS[0].1.len();
    let line = |name: &str, style: Style, of: &dyn Fn(usize, usize) -> f64| {
        let points = (0..SIGNALS.len()).flat_map(|signal| (0..hops).map(move |t| (signal, t)));
        Series {
            name: name.into(),
            points: points.map(|(signal, t)| [(signal * (hops + 1) + t) as f64, of(signal, t)]).collect(),
            style,
        }
    };
    let mut series = vec![line("truth", Style::Line, &|signal, t| SIGNALS[signal].1[t])];
    for row in &ROWS {
        let mean = |signal: usize, t: usize| {
            let own = records.iter().filter(|record| record.hop_weights == row.name);
            let values: Vec<f64> =
                own.filter_map(|record| record.measures.features.profiles[signal].get(t).copied()).collect();
            values.iter().sum::<f64>() / values.len().max(1) as f64
        };
        series.push(line(row.name, Style::Dots, &mean));
    }
    let labels: Vec<&str> = SIGNALS.iter().map(|(function, _)| function.label).collect();
    Figure {
        name: "profiles",
        title: "Hop profiles of the four signals".into(),
        drawing: Drawing::Plot {
            x: Axis::linear(format!("walk lengths 0 to 3 of {}", labels.join(", "))),
            y: Axis::linear("hop weight"),
            series,
        },
    }
}

fn claims(records: &[Record]) -> Vec<Claim> {
    let gap = records.iter().map(|record| record.measures.engine_gap).fold(0.0, f64::max);
    let better = |metric: &&Metric| {
        let [simplex, free] = [0, 1].map(|at| spread(records, &ROWS[at], metric).map_or(f64::NAN, |one| one.mean));
        if metric.less { simplex < free } else { simplex > free }
    };
    let names: Vec<&str> = METRICS.iter().filter(better).map(|metric| metric.name).collect();
    vec![
        Claim::theorem(
            "terms add up to the logit of the engine",
            gap <= super::recovery::ENGINE_ROUNDING,
            format!("largest difference {gap:.1e}"),
        ),
        Claim::reported(
            "the simplex is better by all six metrics",
            names.len() == METRICS.len(),
            format!("by {}: {}", names.len(), names.join(", ")),
        ),
    ]
}

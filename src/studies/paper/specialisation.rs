//! When experts pay: one global basis, a mixture, and a network for every feature, as the functions of features become more different.
//!
//! A regression without noise: y = sum_k f_k(x_k) of sixteen features of one, two or four families, no graph (T = 1). The error is that
//! of each learned curve, centred, over the deviation of the true one; mean over features.

use super::families::{GRID, Regime, point};
use super::findings::{Axis, Cell, Claim, Drawing, Figure, Findings, Series, Spread, Style, Table};
use super::rows::Row;
use super::study::{Job, Records, Scene, Size, Study};
use crate::architecture::Kind;
use crate::config::Config;
use crate::device::Machine;
use crate::explain::{Factors, experts};
use crate::settings::Layers;
use crate::settings::presets;
use crate::train::fit;
use harmonia_graph::dataset::{Dataset, Features, Labels};
use harmonia_graph::error::Result;
use harmonia_graph::graph::{Direction, Graph, Split};
use harmonia_graph::seed::{Purpose, Stream};
use serde::{Deserialize, Serialize};

/// d.
pub const FEATURES: usize = 16;
/// Rows of training, validation and test.
const ROWS: [usize; 3] = [2048, 512, 512];

/// The study.
pub struct Specialisation;

/// One shared basis, experts, and networks that every feature has for itself: all of the same widths.
const MODELS: [Row; 3] = [
    Row { name: "global basis", kind: Kind::Harmonia, set: &["model.experts=1", "model.active=1"] },
    Row { name: "MoNB", kind: Kind::Harmonia, set: &["model.experts=5", "model.active=2"] },
    Row::of("per feature", Kind::Nam),
];

/// What all are trained by. The paper says only that it is the same for all.
const PROTOCOL: [&str; 12] = [
    "model.hops=1",
    "model.bases=8",
    "model.hidden=[16, 8]",
    "train.optimizer=adam",
    "train.learning_rate=1e-2",
    "train.weight_decay=0.0",
    "train.schedule=cosine",
    "train.batch_size=256",
    "train.loss=squared",
    "train.metric=loss",
    "train.patience=0",
    "init.readout_scale=1.0",
];

/// Settings of a kind of model, by the protocol, `epochs` and more.
///
/// # Errors
/// A setting that does not exist.
pub fn config(kind: Kind, epochs: usize, seed: u64, more: &[String]) -> Result<Config> {
    let mut layers = Layers::new()?;
    presets::lay_model(&mut layers, kind.name(), None)?;
    PROTOCOL.iter().try_for_each(|assignment| layers.set(assignment))?;
    layers.set(&format!("train.epochs={epochs}"))?;
    layers.set(&format!("run.seed={seed}"))?;
    more.iter().try_for_each(|assignment| layers.set(assignment))?;
    layers.finish()
}

/// What came of one training.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Trained {
    /// Mean over features of the centred error.
    pub error: f64,
    /// Of each feature.
    pub errors: Vec<f64>,
    /// Gates, features x experts.
    pub gates: Vec<Vec<f64>>,
}

/// The data of a regime.
fn dataset(regime: Regime, data: u64) -> Result<Dataset> {
    let rows: usize = ROWS.iter().sum();
    let stream = Stream::new(data, Purpose::Studies, 50);
    let x: Vec<f32> = (0..(rows * FEATURES) as u64).map(|at| (2.0 * stream.uniform(at) - 1.0) as f32).collect();
    let functions = regime.functions(FEATURES);
    let target = |row: &[f32]| row.iter().zip(&functions).map(|(&x, f)| f.value(f64::from(x))).sum::<f64>() as f32;
    let values: Vec<f32> = x.chunks_exact(FEATURES).map(target).collect();
    let [train, valid, _] = ROWS.map(|count| count as u32);
    let split = Split {
        train: (0..train).collect(),
        valid: (train..train + valid).collect(),
        test: (train + valid..rows as u32).collect(),
    };
    // Nobody walks: T = 1.
    let graph = Graph::from_edges(rows, &[], None, Direction::Undirected)?;
    let labels = Labels::Values { values, width: 1 };
    Dataset::nodes("functions", graph, Features::new(rows, FEATURES, x)?, labels, split)
}

/// Trains on a regime and measures every curve.
///
/// # Errors
/// Training failed or was stopped.
pub fn train(regime: Regime, data: u64, config: &Config, scene: &Scene<'_>) -> Result<Trained> {
    let dataset = dataset(regime, data)?;
    let model = fit(&dataset, config, &Machine::open("cpu", config.engine)?, scene.stop)?;
    let factors = Factors::of(&model)?;
    let error = |(k, function): (usize, &super::families::Drawn)| {
        let scale = factors.weight[k] * factors.total_theta(k);
        let learned: Vec<f64> = (0..GRID).map(|at| scale * factors.response(k, point(at))).collect();
        super::faithfulness::centred_nrmse(&learned, &function.on_grid())
    };
    let errors: Vec<f64> = regime.functions(FEATURES).iter().enumerate().map(error).collect();
    let gates = (0..FEATURES)
        .map(|k| experts::gates(&factors, k).into_iter().map(|gate| gate.unwrap_or(0.0)).collect())
        .collect();
    Ok(Trained { error: errors.iter().sum::<f64>() / errors.len() as f64, errors, gates })
}

/// Epochs, by size.
pub fn epochs(size: Size) -> usize {
    size.of(3, 200, 400)
}

#[derive(Serialize, Deserialize)]
struct Record {
    regime: Regime,
    model: String,
    seed: u64,
    trained: Trained,
}

impl Study for Specialisation {
    fn name(&self) -> &'static str {
        "specialisation"
    }

    fn about(&self) -> &'static str {
        "one global basis, a mixture of experts and a network per feature, as functions become more different"
    }

    fn source(&self) -> &'static str {
        "figure of functional specialisation under increasing heterogeneity"
    }

    fn jobs(&self, size: Size) -> Result<Vec<Job>> {
        let seeds = size.of(1, 2, 5);
        let mut jobs = Vec::new();
        for regime in Regime::ALL {
            for model in MODELS {
                for seed in 0..seeds {
                    let key = format!("{} {} seed {seed}", regime.name(), model.name);
                    jobs.push(Job::new(key, move |scene| {
                        let set: Vec<String> = model.set.iter().map(|one| one.to_string()).collect();
                        let trained = train(regime, seed, &config(model.kind, epochs(size), seed, &set)?, scene)?;
                        Ok(Record { regime, model: model.name.into(), seed, trained })
                    }));
                }
            }
        }
        Ok(jobs)
    }

    fn findings(&self, _: Size, records: &Records) -> Result<Findings> {
        let records = records.read::<Record>()?;
        let spread = |regime: Regime, model: &Row| {
            let own = records.iter().filter(|record| record.regime == regime && record.model == model.name);
            Spread::of(&own.map(|record| record.trained.error).collect::<Vec<_>>())
        };
        let gain = |regime: Regime| {
            let [global, mixture] = [0, 1].map(|at| spread(regime, &MODELS[at]).map_or(f64::NAN, |one| one.mean));
            global - mixture
        };
        let row = |(regime, paper): (Regime, f64)| {
            let mut cells = vec![Cell::text(regime.name())];
            cells.extend(MODELS.iter().map(|model| Cell::spread(spread(regime, model), 4)));
            cells.push(Cell::number(gain(regime), 4).beside(Some(paper), None));
            cells
        };
        let table = Table {
            name: "specialisation",
            title: "Centred NRMSE of learned curves".into(),
            head: ["heterogeneity", "global basis", "MoNB", "per feature", "gain"].map(String::from).to_vec(),
            rows: Regime::ALL.into_iter().zip([0.0019, 0.0366, 0.0418]).map(row).collect(),
            note: "The paper prints the gains alone, and neither functions nor settings: only their order can be compared. Experts are 1-16-8-8 with \
                   B = 8, networks per feature 1-16-8-1 (the model nam). Gain: global basis less MoNB."
                .into(),
        };
        let curve = |model: &Row| Series {
            name: model.name.into(),
            points: (Regime::ALL.iter().enumerate())
                .filter_map(|(at, &regime)| Some([at as f64, spread(regime, model)?.mean]))
                .collect(),
            style: Style::Line,
        };
        let mut figures = vec![Figure {
            name: "error",
            title: "Error under increasing heterogeneity".into(),
            drawing: Drawing::Plot {
                x: Axis::linear("heterogeneity: low, medium, high"),
                y: Axis::linear("centred NRMSE"),
                series: MODELS.iter().map(curve).collect(),
            },
        }];
        figures.extend(gates(&records));
        let gains = Regime::ALL.map(gain);
        let claims = vec![Claim::reported(
            "experts gain more where functions differ more than where they are alike",
            gains[1].min(gains[2]) > gains[0],
            format!("gains {:.4}, {:.4}, {:.4}", gains[0], gains[1], gains[2]),
        )];
        Ok(Findings { tables: vec![table], figures, claims })
    }
}

/// Gates of the first mixture at high heterogeneity: experts have no order that seeds share, so that a mean would say nothing.
fn gates(records: &[Record]) -> Option<Figure> {
    let own = records.iter().find(|record| record.regime == Regime::High && record.model == MODELS[1].name)?;
    let values = own.trained.gates.clone();
    let functions = Regime::High.functions(FEATURES);
    Some(Figure {
        name: "routing",
        title: "Gates at high heterogeneity (seed 0)".into(),
        drawing: Drawing::Grid {
            rows: functions.iter().enumerate().map(|(k, f)| format!("x{k}, {}", f.family.name())).collect(),
            columns: (0..values.first()?.len()).map(|c| format!("expert {c}")).collect(),
            values,
            decimals: 2,
        },
    })
}

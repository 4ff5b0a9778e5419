//! How long training takes to be as good as it gets: walking over the whole graph, and from a table of walks, made first or
//! there already.
//!
//! Each way is a training in a process of its own, by the rate that suits it; all are scored by the exact model at the end. The clock of a
//! way stops at the first epoch whose validation accuracy is within [`WITHIN`] of the best that any way reached. Validation in each epoch counts,
//! as it does for a user.

use super::case::{self, Source};
use super::child::{self, Answer};
use super::job::Job;
use super::memory;
use super::stores::Stores;
use crate::cli::{signals, voice, watch};
use crate::config::Config;
use crate::device::cpu::Cpu;
use crate::runs::load_dataset;
use crate::tabulate::{Tables, kept};
use crate::train::trainer::Which;
use crate::train::{Prepared, RunName, Trainer};
use harmonia_graph::error::{Error, Result};
use harmonia_graph::units::bytes;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::fmt::Write;
use std::time::Instant;

/// How far below the best accuracy is good enough.
const WITHIN: f64 = 0.005;
const PRESET: &str = "ogbn-products";

/// The ways: whole graph in one step, or batches from a table; each at the rate it learns fastest by.
const WALKING: [&str; 7] = [
    "engine.table=off",
    "train.batch_size=0",
    "train.dropout=0",
    "train.learning_rate=0.02",
    "train.schedule=cosine",
    "train.epochs=60",
    "train.patience=0",
];
const TABLED: [&str; 6] = [
    "engine.table=force",
    "train.dropout=0",
    "train.learning_rate=0.02",
    "train.schedule=cosine",
    "train.epochs=4",
    "train.patience=0",
];

/// One training.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Curve {
    /// Making the table, or checking the one that is there.
    pub table_seconds: f64,
    /// Bytes of the table; 0 where there is none.
    pub table_bytes: usize,
    /// (seconds since training began, validation accuracy) after each epoch.
    pub epochs: Vec<(f64, f64)>,
    /// Test accuracy of the exact model, best epoch.
    pub test: f64,
    /// Validation losses of the best epoch by the table, and exact.
    pub losses: Option<(f64, f64)>,
    /// Most memory that was resident while the table was made, and over all.
    pub peak_bytes: [Option<u64>; 2],
}

/// The three ways.
pub struct TimeToAccuracy {
    ways: Vec<(&'static str, Answer<Curve>)>,
}

/// Trains on a graph of the size of ogbn-products, or a small one.
///
/// # Errors
/// The data cannot be had, or a stop was asked for.
pub fn compare(source: Source, user: &[String], threads: usize, stores: &Stores<'_>) -> Result<TimeToAccuracy> {
    let store = match stores.of(source)? {
        Ok(store) => store,
        Err(error) => return Ok(TimeToAccuracy { ways: vec![("data", Err(error))] }),
    };
    let mut ways = Vec::new();
    for (name, own) in [("whole graph", &WALKING[..]), ("table, made first", &TABLED), ("table, there", &TABLED)] {
        voice::line(format_args!("{name}: training"));
        let mut config = case::config(PRESET, own, user)?;
        (config.data.dataset, config.run.threads) = (store.display().to_string(), threads);
        let fresh = name == "table, made first";
        ways.push((name, child::job(&Job::Accuracy { config, fresh })?));
    }
    Ok(TimeToAccuracy { ways })
}

/// The child: trains once. `fresh`: a table that is there is made anew.
pub fn measure(config: &Config, fresh: bool) -> Result<Curve> {
    let whole = watch::with(&Default::default(), |context| load_dataset(&config.data, context))?;
    let mut run = Prepared::new(&whole, config, RunName { seed: config.run.seed, fold: None })?;
    drop(whole);
    let start = Instant::now();
    if let Some(plan) = run.tabulation.plan() {
        if let (true, Some(home)) = (fresh, kept::home(&run.dataset)) {
            let there = home.join(&kept::key(&run.dataset, config.walk, plan)[..16]);
            if there.is_dir() {
                std::fs::remove_dir_all(&there).map_err(Error::io("remove", &there))?;
            }
        }
        watch::with(&Default::default(), |context| run.tabulate(&Tables::default(), config.walk, &context.watch))?;
    }
    let (table_seconds, made) = (start.elapsed().as_secs_f64(), memory::now().peak);
    let device = Cpu::<f32>::with_states(config.engine.states);
    let start = Instant::now();
    let mut trainer = Trainer::new(&device, &run, config, None)?;
    let mut epochs = Vec::new();
    while !trainer.finished() {
        signals::stop().check()?;
        let record = trainer.epoch()?;
        epochs.push((start.elapsed().as_secs_f64(), record.validation.get("accuracy").unwrap_or(0.0)));
    }
    let losses = trainer.table_losses(Which::Best)?.map(|losses| (losses.tabulated, losses.exact));
    Ok(Curve {
        table_seconds,
        table_bytes: trainer.table().map_or(0, |table| table.bytes()),
        test: trainer.score(&run.dataset.split.test)?.get("accuracy").unwrap_or(0.0),
        epochs,
        losses,
        peak_bytes: [made, memory::now().peak],
    })
}

impl TimeToAccuracy {
    fn curves(&self) -> impl Iterator<Item = (&'static str, &Curve)> {
        self.ways.iter().filter_map(|(name, curve)| Some((*name, curve.as_ref().ok()?)))
    }

    /// Ways that failed.
    pub fn failed(&self) -> bool {
        self.ways.iter().any(|(_, curve)| curve.is_err())
    }

    /// The accuracy that counts as arrived.
    fn aim(&self) -> f64 {
        let all = self.curves().flat_map(|(_, curve)| &curve.epochs);
        all.fold(0.0, |best: f64, (_, accuracy)| best.max(*accuracy)) - WITHIN
    }

    /// Seconds until a way arrived, its table included.
    fn arrived(&self, curve: &Curve) -> Option<f64> {
        let first = curve.epochs.iter().find(|(_, accuracy)| *accuracy >= self.aim());
        first.map(|(seconds, _)| curve.table_seconds + seconds)
    }

    fn walking(&self) -> Option<f64> {
        self.curves().find(|(_, curve)| curve.table_bytes == 0).and_then(|(_, curve)| self.arrived(curve))
    }

    pub fn text(&self, out: &mut String) -> std::fmt::Result {
        writeln!(
            out,
            "Seconds to within {} points of the best validation accuracy, validation included.\n",
            100.0 * WITHIN
        )?;
        writeln!(
            out,
            "{:<20}{:>10}{:>12}{:>10}{:>9}{:>8}{:>10}{:>22}{:>10}",
            "way", "table s", "epoch s", "arrived", "times", "test %", "table", "losses table / exact", "peak"
        )?;
        for (name, way) in &self.ways {
            let curve = match way {
                Ok(curve) => curve,
                Err(error) => {
                    writeln!(out, "{name:<20}  failed: {error}")?;
                    continue;
                }
            };
            let arrived = self.arrived(curve);
            let epoch = curve.epochs.last().map_or(0.0, |(seconds, _)| seconds / curve.epochs.len() as f64);
            writeln!(
                out,
                "{name:<20}{:>10.1}{epoch:>12.2}{:>10}{:>9}{:>8.2}{:>10}{:>22}{:>10}",
                curve.table_seconds,
                arrived.map_or("-".into(), |seconds| format!("{seconds:.1}")),
                arrived.zip(self.walking()).map_or("-".into(), |(here, walking)| format!("{:.1}x", walking / here)),
                100.0 * curve.test,
                bytes(curve.table_bytes as u64),
                curve.losses.map_or("-".into(), |(table, exact)| format!("{table:.4} / {exact:.4}")),
                curve.peak_bytes[1].map_or("-".into(), bytes),
            )?;
        }
        Ok(())
    }

    pub fn json(&self) -> Value {
        let way = |(name, way): &(&str, Answer<Curve>)| match way {
            Ok(curve) => json!({ "way": name, "curve": curve, "seconds_to_accuracy": self.arrived(curve) }),
            Err(error) => json!({ "way": name, "error": error }),
        };
        json!({ "aim": self.aim(), "ways": self.ways.iter().map(way).collect::<Vec<_>>() })
    }
}

//! The preset `own` on tables that nobody has seen: it arrives at any size, says what it chose, knows rare classes, and advises more
//! epochs only where they help.

#![allow(clippy::unwrap_used, clippy::panic, missing_docs)]

mod program;

use harmonia::dataset::{Dataset, Features, Labels};
use harmonia::graph::{Direction, Graph, Split};
use program::Scratch;
use serde_json::Value;

/// Numbers in [0, 1), the same every time.
struct Dice(u64);

impl Dice {
    fn roll(&mut self) -> f64 {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Nearly normal: mean 0, variance 1.
    fn normal(&mut self) -> f64 {
        (0..12).map(|_| self.roll()).sum::<f64>() - 6.0
    }
}

/// Two classes: log-odds are `strength` times what the first feature of a node and the mean of its two neighbours' say, less
/// `rare`. A feature is in units of its own.
fn table(nodes: usize, features: usize, strength: f64, rare: f64) -> Dataset {
    let mut dice = Dice(7);
    let x: Vec<f64> = (0..nodes * features).map(|_| dice.normal()).collect();
    let first = |node: usize| x[node % nodes * features];
    let edges: Vec<(u32, u32)> = (0..nodes).map(|node| (node as u32, ((node + 1) % nodes) as u32)).collect();
    let graph = Graph::from_edges(nodes, &edges, None, Direction::Undirected).unwrap();
    let ids = (0..nodes).map(|node| {
        let logit = strength * (first(node) + first(node + 1) + first(node + nodes - 1)) - rare;
        u32::from(dice.roll() < 1.0 / (1.0 + (-logit).exp()))
    });
    let labels = Labels::Classes { ids: ids.collect(), classes: 2 };
    let units = |from: usize, to: usize| (from as u32..to as u32).collect::<Vec<u32>>();
    let (half, most) = (nodes / 2, nodes * 3 / 4);
    let split = Split { train: units(0, half), valid: units(half, most), test: units(most, nodes) };
    let values = x.iter().map(|x| (40.0 + 15.0 * x) as f32).collect();
    Dataset::nodes("mine", graph, Features::new(nodes, features, values).unwrap(), labels, split).unwrap()
}

/// The same, but the first feature of a node says more the farther it is from its mean: nothing of that is straight.
fn bent(nodes: usize) -> Dataset {
    let straight = table(nodes, 3, 0.0, 0.0);
    let x = straight.features.dense().into_owned();
    let mut dice = Dice(11);
    let ids = (0..nodes).map(|node| {
        let at = f64::from(x[node * 3] - 40.0) / 15.0;
        u32::from(dice.roll() < 1.0 / (1.0 + (4.0 * (2.0 * at).sin()).exp()))
    });
    Dataset { labels: Labels::Classes { ids: ids.collect(), classes: 2 }, ..straight }
}

/// What training said, and its one run.
fn trained(scratch: &Scratch, dataset: &Dataset, more: &[&str]) -> (String, Value) {
    if !scratch.path("store").exists() {
        harmonia::store::write(dataset, &scratch.path("store")).unwrap();
    }
    let output = scratch.train(&[&["--dataset", "store", "--json"], more].concat());
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{said}");
    let result: Value = serde_json::from_slice(&output.stdout).unwrap();
    (said, result["runs"][0].clone())
}

fn loss_of(run: &Value) -> f64 {
    run["validation"]["nll"].as_f64().unwrap()
}

/// Validation loss that the preset may have above that of ten times as many epochs at a third of the rate.
const NEAR: f64 = 0.03;

#[test]
fn small_tables_arrive_where_slower_training_does_and_the_log_says_what_was_chosen() {
    for (nodes, features) in [(100, 1), (400, 3), (200, 100)] {
        let scratch = Scratch::new();
        let dataset = table(nodes, features, 1.0, 0.0);
        let (said, quick) = trained(&scratch, &dataset, &[]);
        assert!(said.contains("preset own") && said.contains("columns of numbers are standardised"), "{said}");
        assert_eq!(said.contains("the readout learns"), features > 64, "{said}");
        let slow = ["--epochs", "3000", "--set", "train.learning_rate=5e-3", "--set", "train.patience=0"];
        let (_, slow) = trained(&scratch, &dataset, &slow);
        assert!(
            loss_of(&quick) < loss_of(&slow) + NEAR,
            "{nodes} x {features}: {} and {}",
            loss_of(&quick),
            loss_of(&slow)
        );
        assert!(features > 3 || loss_of(&quick) < 0.6, "{nodes} x {features}: {}", loss_of(&quick));
    }
}

#[test]
fn how_smooth_responses_are_is_chosen_by_validation_and_the_run_is_the_one_that_won() {
    let smoothness = |scratch: &Scratch, run: &str| {
        let text = std::fs::read_to_string(scratch.path(run).join("config.toml")).unwrap();
        text.lines().find_map(|line| line.strip_prefix("smoothness = ")).unwrap().to_string()
    };
    let parameters = |scratch: &Scratch, run: &str| std::fs::read(scratch.path(run).join("best.safetensors")).unwrap();
    let mut chosen = Vec::new();
    for dataset in [table(500, 3, 1.0, 0.0), bent(500)] {
        let scratch = Scratch::new();
        let quick = ["--epochs", "150", "--seeds", "2", "--out", "own"];
        harmonia::store::write(&dataset, &scratch.path("store")).unwrap();
        let output = scratch.train(&[&["--dataset", "store", "--json"], &quick[..]].concat());
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success() && said.contains("three trainings tell beforehand"), "{said}");
        let own: Value = serde_json::from_slice(&output.stdout).unwrap();
        // The settings of the whole still leave the choice, those of each seed say what it chose.
        assert_eq!(smoothness(&scratch, "own"), "[0.0, 0.001, 0.01]");
        for seed in [0, 1] {
            let mut tried = Vec::new();
            for value in ["0", "1e-3", "1e-2"] {
                let (out, seed) = (format!("{value}-{seed}"), seed.to_string());
                let set = format!("train.smoothness={value}");
                let more = ["--epochs", "150", "--seed", &seed, "--set", &set, "--out", &out];
                let (said, run) = trained(&scratch, &dataset, &more);
                assert!(!said.contains("the best of"), "{said}");
                // Of parameters as training has them: calibration comes after the choice.
                let loss = run["calibration"]["validation_nll_before"].as_f64();
                tried.push((loss.unwrap_or_else(|| loss_of(&run)), value.parse::<f64>().unwrap(), out));
            }
            let best = tried.iter().min_by(|a, b| a.0.total_cmp(&b.0)).unwrap();
            let run = format!("own/seed-{seed}");
            assert_eq!(smoothness(&scratch, &run).parse::<f64>().unwrap(), best.1, "{tried:?}: {said}");
            assert_eq!(parameters(&scratch, &run), parameters(&scratch, &best.2));
            let line = format!("train.smoothness = {}, the best of 3 by ", best.1);
            assert!(said.contains(&line), "{line}: {said}");
            assert!(own["runs"][seed]["validation"]["nll"].is_number());
            chosen.push(best.1);
        }
        // A kill before it was chosen leaves the settings of the whole alone.
        std::fs::create_dir(scratch.path("killed")).unwrap();
        std::fs::copy(scratch.path("own/config.toml"), scratch.path("killed/config.toml")).unwrap();
        scratch.train_ok(&["--resume", "killed"]);
        assert_eq!(parameters(&scratch, "killed/seed-1"), parameters(&scratch, "own/seed-1"));
        // What was chosen stays chosen.
        let output = scratch.train(&["--resume", "own", "--epochs", "160"]);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success() && !said.contains("the best of"), "{said}");
        assert_eq!(smoothness(&scratch, "own/seed-1").parse::<f64>().unwrap(), chosen[chosen.len() - 1]);
    }
    // Waves need their bends; straight lines are found better where bends cost something.
    assert!(chosen[0] > 0.0 && chosen[1] > 0.0 && chosen[2] == 0.0 && chosen[3] == 0.0, "{chosen:?}");
}

#[test]
fn more_epochs_are_advised_where_they_help() {
    const ADVICE: &str = "train for more epochs";
    let scratch = Scratch::new();
    let dataset = table(600, 3, 1.0, 0.0);
    let slow = ["--set", "train.learning_rate=1e-4"];
    let (said, short) = trained(&scratch, &dataset, &[&slow[..], &["--epochs", "40"]].concat());
    assert!(said.contains(ADVICE) && short["still_learning"] == true, "{said}");
    let (said, long) = trained(&scratch, &dataset, &[&slow[..], &["--epochs", "4000"]].concat());
    assert!(!said.contains(ADVICE), "{said}");
    assert!(loss_of(&long) < 0.95 * loss_of(&short), "{} {}", loss_of(&long), loss_of(&short));
    // Already better than always the same: no such note, though more would help.
    let (said, some) = trained(&scratch, &dataset, &["--epochs", "60"]);
    assert!(!said.contains("better than a constant") && loss_of(&some) < 0.65, "{said}");

    // Labels at random: nothing to learn, however long.
    let scratch = Scratch::new();
    let noise = table(600, 3, 0.0, 0.0);
    for epochs in ["100", "1000"] {
        let (said, run) = trained(&scratch, &noise, &["--epochs", epochs]);
        assert!(!said.contains(ADVICE), "{epochs}: {said}");
        // The luckiest of three trainings may look like something on 150 validation units; new ones know better.
        assert!((run["test"]["nll"].as_f64().unwrap() - 2f64.ln()).abs() < 0.02, "{epochs}: {run}");
        let (said, run) = trained(&scratch, &noise, &["--epochs", epochs, "--set", "train.smoothness=0"]);
        assert!(!said.contains(ADVICE), "{epochs}: {said}");
        assert!(run["learned"] == false && loss_of(&run) > 0.67, "{epochs}: {run}");
    }
}

#[test]
fn a_class_of_two_percent_is_ranked_calibrated_and_found_by_the_threshold() {
    let scratch = Scratch::new();
    let dataset = table(6000, 4, 1.0, 5.1);
    let Labels::Classes { ids, .. } = &dataset.labels else { unreachable!() };
    let share = ids.iter().sum::<u32>() as f64 / 6000.0;
    assert!((0.015..0.025).contains(&share), "{share}");
    let (_, run) = trained(&scratch, &dataset, &[]);
    assert!(run["test"]["roc_auc"].as_f64().unwrap() > 0.85, "{}", run["test"]);
    // Probabilities are those of a rare class, not of the half that a start at 0 would say.
    assert!(run["reliability"]["test"]["ece"].as_f64().unwrap() < 0.015, "{}", run["reliability"]["test"]["ece"]);
    let majority = run["baselines"][0]["test"]["nll"].as_f64().unwrap();
    assert!(run["test"]["nll"].as_f64().unwrap() < 0.9 * majority);
    assert!(run["details"]["test"]["pr_auc"].as_f64().unwrap() > 5.0 * share);
    // 1/2 hardly ever names the rare class; the threshold does, and is chosen by validation.
    let threshold = &run["details"]["threshold"];
    assert!(threshold["probability"].as_f64().unwrap() < 0.5);
    let (with, without) = (threshold["test_macro_f1"].as_f64().unwrap(), run["test"]["macro_f1"].as_f64().unwrap());
    assert!(with > without + 0.02, "{with} {without}");
}

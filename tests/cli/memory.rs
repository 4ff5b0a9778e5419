//! `--memory`: a training that is let begin goes through to its end, and any other is refused before it begins.

use super::program::Scratch;

/// A limit is let out by so much at a time: 3 % of what the trainings here take, where what a plan forgot would be 8 % and more.
const STEP: usize = 1 << 20;

#[test]
fn a_training_that_is_let_begin_stays_within_its_limit() {
    let scratch = Scratch::new();
    scratch.harmonia_ok(&["data", "generate", "--like", "ogbn-arxiv", "--scale", "0.05", "--out", "s"]);
    let common =
        ["--dataset", "s", "--preset", "ogbn-arxiv", "--recipe", "paper", "--epochs", "2", "--set", "train.dropout=0"];
    for table in ["engine.table=off", "engine.table=force"] {
        let is_let_begin = |steps: usize| {
            let (memory, out) = (format!("{}", steps * STEP), format!("{table}-{steps}"));
            let output = scratch.train(&[&common[..], &["--set", table, "--memory", &memory, "--out", &out]].concat());
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            let refused = said.contains("out of memory: planned") && !scratch.path(&out).exists();
            assert!(output.status.success() || refused, "{table}, {steps} MiB: {said}");
            // The search below may have been here already.
            if output.status.success() {
                std::fs::remove_dir_all(scratch.path(&out)).unwrap();
            }
            output.status.success()
        };
        // Looking at the data takes some megabytes before there is a plan.
        let (mut too_little, mut enough) = (12, 128);
        assert!(!is_let_begin(too_little) && is_let_begin(enough));
        while enough - too_little > 1 {
            let between = too_little.midpoint(enough);
            *if is_let_begin(between) { &mut enough } else { &mut too_little } = between;
        }
        (1..=4).for_each(|more| assert!(is_let_begin(enough + more), "{table}: {enough} + {more} MiB"));
    }
}

#[test]
fn copies_of_features_are_counted_before_they_are_made() {
    let scratch = Scratch::new();
    // 8 MB of features, 376 MB of copies for 47 classes.
    let shape = ["--like", "ogbn-products", "--nodes", "20000", "--edges", "40000", "--split", "1000/1000/18000"];
    scratch.harmonia_ok(&[&["data", "generate"], &shape[..], &["--out", "s"]].concat());
    let output = scratch.train(&["--dataset", "s", "--model", "gp-nam", "--memory", "200M", "--out", "run"]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("each of 47 classes") && said.contains("model.kind = harmonia"), "{said}");
    assert!(!scratch.path("run").exists());
}

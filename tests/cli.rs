//! The command line as a user meets it: settings and what a training writes here, bad input and what commands say beside it.

#![allow(clippy::unwrap_used, clippy::panic, missing_docs)]

#[path = "cli/intervene.rs"]
mod intervene;
#[path = "cli/memory.rs"]
mod memory;
#[path = "cli/metrics.rs"]
mod metrics;
mod program;
#[path = "cli/refusals.rs"]
mod refusals;
#[path = "cli/runs.rs"]
mod runs;
#[path = "cli/voice.rs"]
mod voice;

use harmonia::dataset::Dataset;
use harmonia::graph::{Direction, Graph};
use program::{Scratch, small_dataset, stdout_of};
use serde_json::Value;

const QUICK: [&str; 4] = ["--epochs", "2", "--set", "model.hidden=[4]"];

fn quick<'a>(more: &[&'a str]) -> Vec<&'a str> {
    QUICK.iter().chain(more).copied().collect()
}

#[test]
fn the_default_job_trains_reports_and_names_its_directory() {
    let scratch = Scratch::new();
    let text = scratch.train_ok(&quick(&[]));
    for part in ["test", "accuracy %", "Precision@4", "dominant hops", "generator's own", "runs/synthetic-1"] {
        assert!(text.contains(part), "no {part:?} in:\n{text}");
    }
    let run = scratch.path("runs/synthetic-1");
    for file in ["config.toml", "metrics.jsonl", "best.safetensors", "last.safetensors", "summary.json", "report.html"]
    {
        assert!(run.join(file).is_file(), "{file} is missing");
    }
    let lines = std::fs::read_to_string(run.join("metrics.jsonl")).unwrap();
    assert_eq!(lines.lines().count(), 2);
    // A second run takes the next number.
    assert!(scratch.train_ok(&quick(&[])).contains("runs/synthetic-2"));
}

#[test]
fn json_is_one_object_with_the_promised_keys() {
    let scratch = Scratch::new();
    let text = scratch.train_ok(&quick(&["--seeds", "2", "--seed", "5", "--json", "--out", "r"]));
    let json: Value = serde_json::from_str(&text).unwrap();
    assert_eq!((&json["dataset"], &json["preset"]), (&"synthetic".into(), &"synthetic".into()));
    assert_eq!((&json["seeds"], &json["run_dir"]), (&2.into(), &"r".into()));
    for part in ["test", "validation"] {
        for metric in ["accuracy", "roc_auc", "nll", "macro_f1"] {
            for statistic in ["mean", "std"] {
                assert!(json[part][metric][statistic].is_f64(), "{part}.{metric}.{statistic}");
            }
        }
    }
    let runs = json["runs"].as_array().unwrap();
    assert_eq!(runs.iter().map(|run| run["seed"].as_u64().unwrap()).collect::<Vec<_>>(), [5, 6]);
    let (a, b) = (runs[0]["test"]["nll"].as_f64().unwrap(), runs[1]["test"]["nll"].as_f64().unwrap());
    assert!((json["test"]["nll"]["mean"].as_f64().unwrap() - (a + b) / 2.0).abs() < 1e-12);
    assert!((json["test"]["nll"]["std"].as_f64().unwrap() - (a - b).abs() / 2f64.sqrt()).abs() < 1e-12);
    assert_eq!(json["epochs"], 4);
    assert!(json["parameters"].as_u64().unwrap() > 0 && json["seconds"].as_f64().unwrap() > 0.0);
    assert!(scratch.path("r/seed-5/summary.json").is_file() && scratch.path("r/summary.json").is_file());
}

#[test]
fn a_flag_beats_set_beats_file_beats_preset() {
    let scratch = Scratch::new();
    let file = scratch.write("my.toml", "[train]\nepochs = 11\npatience = 12\nlearning_rate = 0.5\n");
    let file = file.to_str().unwrap();
    let text = scratch.train_ok(&[
        "--config",
        file,
        "--set",
        "train.epochs=13",
        "--set",
        "train.patience=14",
        "--epochs",
        "15",
        "--dry-run",
        "--json",
    ]);
    let train = serde_json::from_str::<Value>(&text).unwrap()["config"]["train"].clone();
    assert_eq!((&train["epochs"], &train["patience"]), (&15.into(), &14.into()));
    assert_eq!(train["learning_rate"], 0.5);
    assert_eq!(train["batch_size"], 16, "from the preset");
    assert_eq!(train["dropout_place"], "input", "from the defaults");
    // A file can name its preset; the flag still wins.
    scratch.write("my.toml", "preset = \"proteins\"\n");
    let config = |more: &[&str]| {
        let arguments: Vec<&str> = ["--config", file, "--dry-run", "--json"].iter().chain(more).copied().collect();
        serde_json::from_str::<Value>(&scratch.train_ok(&arguments)).unwrap()["config"].clone()
    };
    assert_eq!((&config(&[])["preset"], &config(&[])["model"]["experts"]), (&"proteins".into(), &3.into()));
    let flag = config(&["--preset", "cora", "--recipe", "paper"]);
    assert_eq!((&flag["preset"], &flag["model"]["experts"]), (&"cora".into(), &5.into()));
}

#[test]
fn a_recipe_is_chosen_said_and_recorded() {
    let scratch = Scratch::new();
    let config = |more: &[&str]| {
        let arguments: Vec<&str> =
            ["--preset", "proteins", "--dry-run", "--json"].iter().chain(more).copied().collect();
        serde_json::from_str::<Value>(&scratch.train_ok(&arguments)).unwrap()["config"].clone()
    };
    let (tuned, paper) = (config(&[]), config(&["--recipe", "paper"]));
    assert_eq!((&tuned["recipe"], &paper["recipe"]), (&"tuned".into(), &"paper".into()));
    assert_eq!((&paper["train"]["metric"], &paper["train"]["learning_rate"]), (&"roc_auc".into(), &1e-3.into()));
    assert_ne!(tuned["train"], paper["train"]);
    assert_eq!(tuned["model"]["experts"], 3, "what a tuned file does not state is the paper's");
    // As with presets: a file can name it, --set beats the file, the flag beats both; and own settings beat recipes.
    let file = scratch.write("my.toml", "recipe = \"paper\"\n");
    let file = file.to_str().unwrap();
    assert_eq!(config(&["--config", file])["recipe"], "paper");
    assert_eq!(config(&["--config", file, "--set", "recipe=tuned"])["recipe"], "tuned");
    assert_eq!(config(&["--set", "recipe=paper", "--recipe", "tuned"])["recipe"], "tuned");
    assert_eq!(config(&["--set", "train.learning_rate=0.3"])["train"]["learning_rate"], 0.3);
    // Large graphs have a short schedule instead, and without a preset there is no recipe.
    for (arguments, recipe) in [(&[][..], "fast"), (&["--recipe", "tuned"], "fast"), (&["--recipe", "paper"], "paper")]
    {
        let large = scratch.train_ok(&[&["--preset", "igb-small", "--dry-run", "--json"], arguments].concat());
        assert_eq!(serde_json::from_str::<Value>(&large).unwrap()["recipe"], recipe);
    }
    harmonia::store::write(&small_dataset(), &scratch.path("ring")).unwrap();
    let own = scratch.train_ok(&["--store", "ring", "--dry-run", "--json"]);
    assert_eq!(serde_json::from_str::<Value>(&own).unwrap()["recipe"], "");
    scratch.refused("harmonia-train", &["--recipe", "papr"], &["papr", "did you mean `paper`"]);

    let output = scratch.train(&quick(&["--preset", "proteins", "--out", "r"]));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("recipe tuned (--recipe paper for the settings as published)"), "{said}");
    let recorded = std::fs::read_to_string(scratch.path("r/config.toml")).unwrap();
    assert!(recorded.contains("preset = \"proteins\"") && recorded.contains("recipe = \"tuned\""), "{recorded}");
    scratch.refused("harmonia-train", &["--resume", "r", "--recipe", "paper"], &["--resume", "--recipe"]);
}

#[test]
fn a_dry_run_shows_settings_parameters_and_memory_and_makes_no_files() {
    let scratch = Scratch::new();
    let text = scratch.train_ok(&["--dry-run"]);
    // C P + 2 q C + d (B + q + T + L) + L with C = 4, q = 16, d = 20, B = 64, T = 4, L = 1, P = 128 + 2080 + 2112
    let expected = 4 * (128 + 2080 + 2112) + 2 * 16 * 4 + 20 * (64 + 16 + 4 + 1) + 1;
    for part in ["[train]", "epochs = 400", "embeddings", &expected.to_string(), "responses F", "MiB"] {
        assert!(text.contains(part), "no {part:?} in:\n{text}");
    }
    assert!(scratch.entries().is_empty());
}

#[test]
fn a_store_trains_by_path_and_keeps_its_names() {
    let scratch = Scratch::new();
    harmonia::store::write(&small_dataset(), &scratch.path("ring")).unwrap();
    let text = scratch.train_ok(&["--dataset", "ring", "--epochs", "3", "--json"]);
    let json: Value = serde_json::from_str(&text).unwrap();
    assert_eq!((&json["dataset"], &json["preset"]), (&"ring".into(), &"own".into()));
    // The constant prediction stands beside every result.
    assert!(json["baselines"]["majority"]["accuracy"]["mean"].is_f64(), "{json}");
    assert!(json["runs"][0]["details"]["test"]["confusion"].is_array(), "{json}");
    assert_eq!(json["run_dir"], "runs/ring-1");
}

#[test]
fn init_and_gradients_write_what_checkpoints_are_named() {
    use harmonia::model::Checkpoint;
    let scratch = Scratch::new();
    harmonia::store::write(&small_dataset(), &scratch.path("ring")).unwrap();
    let preset = ["--store", "ring", "--preset", "cora", "--recipe", "paper"];
    let settings = [&preset[..], &["--set", "init.readout_scale=1"]].concat();
    let run = |arguments: &[&str]| {
        let arguments: Vec<&str> = arguments.iter().chain(&settings).copied().collect();
        stdout_of(&scratch.run("harmonia", &arguments), &arguments)
    };
    run(&["init", "--seed", "3", "--out", "p.safetensors"]);
    run(&["gradients", "--params", "p.safetensors", "--out", "g32.safetensors"]);
    run(&["gradients", "--params", "p.safetensors", "--precision", "f64", "--out", "g64.safetensors"]);
    let parameters = Checkpoint::read(&scratch.path("p.safetensors")).unwrap();
    let single = Checkpoint::read(&scratch.path("g32.safetensors")).unwrap();
    let double = Checkpoint::read(&scratch.path("g64.safetensors")).unwrap();
    assert_eq!(parameters.tensors["experts.4.layers.1.weight"].shape, [8, 16]);
    assert_eq!(parameters.tensors["hop_logits"].shape, [8, 2]);
    assert_eq!(double.tensors["loss"].shape, Vec::<usize>::new());
    assert_eq!(double.tensors["logits"].shape, [12, 3]);
    assert_eq!(double.tensors.len(), parameters.tensors.len() + 2);
    for (name, tensor) in &parameters.tensors {
        let gradient = &double.tensors[&format!("grad.{name}")];
        assert_eq!(gradient.shape, tensor.shape, "{name}");
        let scale = gradient.values.iter().fold(1e-3, |m: f64, v| m.max(v.abs()));
        for (a, b) in gradient.values.iter().zip(&single.tensors[&format!("grad.{name}")].values) {
            assert!((a - b).abs() < 1e-4 * scale, "{name}: {a} {b}");
        }
    }
    // Noise changes routing, and must have the right shape.
    let noise: Vec<f64> = (0..10).map(f64::from).collect();
    Checkpoint::write(&scratch.path("n.safetensors"), vec![("noise".into(), vec![2, 5], &noise[..])], None).unwrap();
    run(&["gradients", "--params", "p.safetensors", "--noise", "n.safetensors", "--precision", "f64", "--out", "gn"]);
    let noisy = Checkpoint::read(&scratch.path("gn")).unwrap();
    assert_ne!(noisy.tensors["loss"], double.tensors["loss"]);
    Checkpoint::write(&scratch.path("bad"), vec![("noise".into(), vec![5, 2], &noise[..])], None).unwrap();
    let arguments = ["gradients", "--params", "p.safetensors", "--out", "x", "--noise", "bad"];
    scratch.refused("harmonia", &[&arguments[..], &preset[..]].concat(), &["bad", "[5, 2]", "[2, 5]"]);
    // Parameters of another model are refused by name and shape.
    let other = ["gradients", "--store", "ring", "--preset", "proteins", "--params", "p.safetensors", "--out", "x"];
    scratch.refused("harmonia", &other, &["p.safetensors", "shape", "preset"]);
}

#[test]
fn numpy_habits_are_understood() {
    // An empty list saved by numpy is an array of f64; labels of a binary task may be booleans.
    let scratch = Scratch::new();
    let mut dataset = small_dataset();
    dataset.split.test.clear();
    harmonia::store::write(&dataset, &scratch.path("s")).unwrap();
    let header = "{'descr': '<f8', 'fortran_order': False, 'shape': (0,), }                                                   \n";
    let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
    bytes.extend((header.len() as u16).to_le_bytes());
    bytes.extend(header.as_bytes());
    std::fs::write(scratch.path("s/test.npy"), bytes).unwrap();
    let text = scratch.train_ok(&["--dataset", "s", "--epochs", "1"]);
    assert!(text.contains("validation"), "{text}");
}

#[test]
fn one_test_node_still_gives_a_finished_run() {
    let scratch = Scratch::new();
    let text = scratch.train_ok(&quick(&["--set", "data.split=per-class:20/100/1", "--json", "--out", "r"]));
    let run = serde_json::from_str::<Value>(&text).unwrap()["runs"][0].clone();
    assert!(run["recovery"].is_null() && run["test"]["nll"].is_f64(), "{run}");
    assert!(scratch.path("r/summary.json").is_file());
}

#[test]
fn half_states_train_on_the_cpu_and_are_refused_on_directed_graphs() {
    let scratch = Scratch::new();
    let nll = |states: &str| {
        let setting = format!("engine.states={states}");
        let text = scratch.train_ok(&quick(&["--device", "cpu", "--set", &setting, "--json", "--out", states]));
        let outcome: serde_json::Value = serde_json::from_str(&text).unwrap();
        outcome["test"]["nll"]["mean"].as_f64().unwrap()
    };
    let (full, half, bfloat) = (nll("f32"), nll("f16"), nll("bf16"));
    assert!(full != half && (full - half).abs() < 1e-2, "{full} {half}");
    assert!(full != bfloat && (full - bfloat).abs() < 5e-2, "{full} {bfloat}");

    let edges: Vec<(u32, u32)> = (0..11).map(|i| (i, i + 1)).collect();
    let graph = Graph::from_edges(12, &edges, None, Direction::Directed).unwrap();
    let dataset = Dataset { graph, ..small_dataset() };
    harmonia::store::write(&dataset, &scratch.path("directed")).unwrap();
    let output = scratch.train(&["--dataset", "directed", "--device", "cpu", "--set", "engine.states=f16"]);
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{message}");
    // The library names the setting, the command line how to set it.
    assert!(message.contains("set engine.states = bf16\n"), "{message}");
    assert!(message.ends_with("hint: try --set engine.states=bf16\n"), "{message}");
}

#[test]
fn a_dry_run_shows_the_plan_and_what_both_spaces_cost() {
    let scratch = Scratch::new();
    let plan = |more: &[&str]| {
        let text = scratch.train_ok(&quick(&[&["--dry-run", "--json"], more].concat()));
        let shown: serde_json::Value = serde_json::from_str(&text).unwrap();
        let costs =
            ["features", "classes"].map(|space| shown["estimates"][space]["byte_equivalents"].as_f64().unwrap());
        (shown["plan"].clone(), costs)
    };
    // 20 features and one logit: class space moves a twentieth.
    let (shown, [features, classes]) = plan(&[]);
    assert_eq!(shown, serde_json::json!({ "monb": "knots", "propagate": "classes", "sparse": false }));
    assert!(classes < features, "{classes} {features}");
    let (shown, _) = plan(&["--set", "engine.propagate=features", "--set", "engine.monb=direct"]);
    assert_eq!(shown, serde_json::json!({ "monb": "direct", "propagate": "features", "sparse": false }));
    let (shown, _) = plan(&["--set", "train.dropout_place=hidden", "--set", "train.dropout=0.1"]);
    assert_eq!(shown["monb"], "direct", "hidden units cannot be dropped from pieces");

    let text = scratch.train_ok(&quick(&["--dry-run"]));
    assert!(text.contains("# plan") && text.contains("<- taken"), "{text}");
    let output = scratch.train(&quick(&["--set", "engine.monb=fast"]));
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{message}");
    assert!(message.contains("direct") && message.contains("knots"), "{message}");
}

#[test]
fn the_kernels_train_a_store_on_the_host() {
    let scratch = Scratch::new();
    harmonia::store::write(&small_dataset(), &scratch.path("s")).unwrap();
    let nll = |device: &str, out: &str| {
        let common = ["--dataset", "s", "--epochs", "3", "--json", "--device", device, "--out", out];
        let text = scratch.train_ok(&common);
        serde_json::from_str::<Value>(&text).unwrap()["test"]["nll"].clone()
    };
    let nll = |device, out| {
        let value = nll(device, out);
        value["mean"].as_f64().or(value.as_f64()).unwrap()
    };
    let (cpu, host) = (nll("cpu", "a"), nll("host", "b"));
    assert!((cpu - host).abs() <= 1e-4 * cpu, "{cpu} {host}");

    let plan = |device: &str| {
        let text = scratch.train_ok(&["--dataset", "s", "--dry-run", "--json", "--device", device]);
        serde_json::from_str::<Value>(&text).unwrap()
    };
    let host = plan("host");
    assert!(host["device"].as_str().unwrap().contains("host"), "{host}");
    // A device that copies batches plans for the copies.
    assert!(host["memory_bytes_by_buffer"]["features, copied"].as_u64().unwrap() > 0);
    assert!(plan("cpu")["memory_bytes_by_buffer"]["features, copied"].is_null());
}

#[test]
fn a_plan_knows_that_nodes_are_scored_in_panels_where_memory_is_short() {
    let scratch = Scratch::new();
    // A pass over 8,467 nodes holds 4.3 MB of responses and 10.8 MB of states.
    scratch.harmonia_ok(&["data", "generate", "--like", "ogbn-arxiv", "--scale", "0.05", "--out", "s"]);
    let plan = |table: &str, memory: &str| {
        let common = ["--dataset", "s", "--preset", "ogbn-arxiv", "--dry-run", "--json"];
        let more = ["--set", table, "--memory", memory];
        serde_json::from_str::<Value>(&scratch.train_ok(&[&common[..], &more].concat())).unwrap()
    };
    let (panel, whole) = ("states of a panel of classes", "states of all hops");
    let (short, ample) = (plan("engine.table=force", "24M"), plan("engine.table=force", "1G"));
    assert_eq!(ample["scored_classes"], Value::Null);
    assert!(ample["memory_bytes_by_buffer"][panel].is_null(), "{ample}");
    let classes = short["scored_classes"].as_u64().unwrap();
    assert_eq!(short["memory_bytes_by_buffer"][panel].as_u64().unwrap(), 2 * 8467 * 4 * classes);
    assert!(short["memory_bytes_by_buffer"][whole].is_null(), "{short}");
    let device = |plan: &Value| plan["device_memory_bytes"].as_u64().unwrap();
    assert!(device(&short) < device(&ample), "{short}");
    // Training that walks holds whole states anyway.
    assert_eq!(plan("engine.table=off", "24M")["scored_classes"], Value::Null);
}

#[test]
fn own_data_have_a_preset_that_says_what_it_chose_and_gives_way() {
    let scratch = Scratch::new();
    harmonia::store::write(&small_dataset(), &scratch.path("ring")).unwrap();
    let config = |more: &[&str]| {
        let text = scratch.train_ok(&[&["--store", "ring", "--dry-run", "--json"], more].concat());
        serde_json::from_str::<Value>(&text).unwrap()["config"].clone()
    };
    let own = config(&[]);
    assert_eq!((&own["preset"], &own["data"]["normalise"]), (&"own".into(), &"auto".into()));
    assert_eq!((&own["train"]["metric"], &own["model"]["hop_weights"]), (&"loss".into(), &"free".into()));
    // What the user sets wins, and --recipe paper has the plain defaults.
    assert_eq!(config(&["--set", "train.learning_rate=0.5"])["train"]["learning_rate"], 0.5);
    let plain = config(&["--recipe", "paper"]);
    assert_eq!((&plain["preset"], &plain["train"]["learning_rate"]), (&"".into(), &1e-3.into()));
    let output = scratch.train(&["--store", "ring", "--epochs", "2", "--baselines", "--out", "r"]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("preset own, for data that no other preset knows"), "{said}");
    let shown = String::from_utf8_lossy(&output.stdout).into_owned();
    for name in ["majority", "logistic", "logistic with neighbour means"] {
        assert!(shown.contains(name), "{shown}");
    }
    let summary: Value =
        serde_json::from_str(&std::fs::read_to_string(scratch.path("r/summary.json")).unwrap()).unwrap();
    assert_eq!(summary["baselines"].as_array().unwrap().len(), 3, "{summary}");
    // The trained run is read as it was trained.
    scratch.harmonia_ok(&["predict", "r", "--out", "p.csv"]);
}

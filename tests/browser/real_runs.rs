//! Pages of models that were trained: what they show is what the models compute.

use super::SECTIONS;
use super::checks::{OVERFLOW, clean};
use super::driver::Browser;
use harmonia::FittedModel;
use harmonia::Stop;
use harmonia::config::Config;
use harmonia::dataset::{Dataset, Features, Labels};
use harmonia::device::cpu::Cpu;
use harmonia::graph::{Direction, Graph, Split};
use harmonia::report;
use harmonia::runs::{ReadModel, TrainedRun, members};
use harmonia::session::{Session, Silent};
use harmonia::watch::Watch;

#[test]
fn the_page_of_a_real_run_is_drawn() {
    let Some(browser) = Browser::start() else { return };
    let nodes = 40;
    let edges: Vec<(u32, u32)> = (0..nodes).map(|i| (i, (i * 7 + 1) % nodes)).filter(|(a, b)| a != b).collect();
    let graph = Graph::from_edges(nodes as usize, &edges, None, Direction::Undirected).unwrap();
    let values = (0..nodes * 3).map(|at| (at as f32 * 0.37).sin()).collect();
    let labels = Labels::Classes { ids: (0..nodes).map(|i| i % 3).collect(), classes: 3 };
    let split = Split { train: (0..20).collect(), valid: (20..30).collect(), test: (30..40).collect() };
    let features = Features::new(nodes as usize, 3, values).unwrap();
    let mut dataset = Dataset::nodes("ring", graph, features, labels, split).unwrap();
    dataset.feature_names = vec!["<b>bold</b>".into(), "height".into(), "width".into()];
    let mut config = Config::default();
    config.train.epochs = 5;
    config.data.normalise = harmonia::dataset::Normalise::Standardise;
    let stop = Stop::new();
    let scratch = tempfile::tempdir().unwrap();
    let root = scratch.path().join("run");
    Session { device: &Cpu::new(), config: &config, stop: &stop }.run(&dataset, Some(&root), &mut Silent).unwrap();
    browser.open(&std::fs::read_to_string(root.join("report.html")).unwrap());
    let sections = browser.list("return [...document.querySelectorAll('main > section')].map(({id}) => id)");
    assert_eq!(
        sections,
        ["summary", "curves", "reliability", "details", "importance", "shapes", "hops", "routing", "settings"]
    );
    assert!(browser.run("return document.body.textContent").as_str().unwrap().contains("harmonia report"));
    clean(&browser);
    // Without edges every walk stays where it is, so two nodes that differ in one feature differ by its curve alone. The
    // page's curve is over the data as given, the model scales what it is given: both must say the same.
    let (here, there) = (0.2f32, -0.7f32);
    let values = vec![0.1, here, 0.3, 0.1, there, 0.3];
    let labels = Labels::Classes { ids: vec![0, 1], classes: 3 };
    let split = Split { train: vec![0], valid: vec![1], test: vec![] };
    let graph = Graph::from_edges(2, &[], None, Direction::Undirected).unwrap();
    let apart = Dataset::nodes("two", graph, Features::new(2, 3, values).unwrap(), labels, split).unwrap();
    let logits = FittedModel::load(&root.join("best.safetensors")).unwrap().logits(&apart).unwrap();
    let drawn: Vec<f64> = serde_json::from_value(browser.run(&format!(
        "const {{weight, shape}} = data.features.find((feature) => feature.index === 1);
         return weight.map((weight) => weight * (response(shape, {here}) - response(shape, {there})))"
    )))
    .unwrap();
    for (output, drawn) in drawn.into_iter().enumerate() {
        let model = f64::from(logits[output] - logits[3 + output]);
        // The model computes in f32, with numbers of size one.
        assert!((drawn - model).abs() < 1e-5, "{output}: {drawn} {model}");
    }
    assert!((logits[0] - logits[3]).abs() > 1e-4, "a curve that is flat shows nothing: {logits:?}");
}

#[test]
fn the_whole_page_of_real_runs_is_drawn() {
    let Some(browser) = Browser::start() else { return };
    let nodes = 40;
    let edges: Vec<(u32, u32)> = (0..nodes).map(|i| (i, (i * 7 + 1) % nodes)).filter(|(a, b)| a != b).collect();
    let graph = Graph::from_edges(nodes as usize, &edges, None, Direction::Undirected).unwrap();
    let values = (0..nodes * 3).map(|at| (at as f32 * 0.37).sin()).collect();
    let labels = Labels::Classes { ids: (0..nodes).map(|i| i % 2).collect(), classes: 2 };
    let split = Split { train: (0..20).collect(), valid: (20..30).collect(), test: (30..40).collect() };
    let features = Features::new(nodes as usize, 3, values).unwrap();
    let mut dataset = Dataset::nodes("ring", graph, features, labels, split).unwrap();
    dataset.feature_names = vec!["</script><script>alert(1)</script>".into(), "height".into(), "width".into()];
    let mut config = Config::default();
    (config.train.epochs, config.run.seeds) = (5, 2);
    let stop = Stop::new();
    let scratch = tempfile::tempdir().unwrap();
    let root = scratch.path().join("run");
    Session { device: &Cpu::new(), config: &config, stop: &stop }.run(&dataset, Some(&root), &mut Silent).unwrap();
    let models: Vec<ReadModel> = members(&root).unwrap().iter().map(|path| ReadModel::open(path).unwrap()).collect();
    let run = TrainedRun::open(&models[0].path, |_| Ok(dataset.clone())).unwrap();
    for units in [&[][..], &[7, 3]] {
        let request = report::Request {
            models: &models,
            run: Some(&run),
            other: false,
            units,
            diagnose: true,
            watch: &Watch::silent(),
        };
        let data = report::full(&request).unwrap();
        // Every split of every logit adds up: the page says so, too.
        for local in &data.locals {
            for (output, of) in local.outputs.iter().enumerate() {
                let features: f64 = local.by_feature.parts.iter().map(|part| part.values[output]).sum();
                let nodes: f64 = local.by_node.parts.iter().map(|part| part.values[output]).sum();
                let hops: f64 = local.by_hop.iter().map(|part| part.values[output]).sum();
                let rest = |rest: &[f64]| rest.get(output).copied().unwrap_or(0.0);
                for sum in [features + rest(&local.by_feature.rest), nodes + rest(&local.by_node.rest), hops] {
                    // f32 logits of size one.
                    assert!((of.intercept + sum + of.residual - of.logit).abs() < 1e-9 && of.residual.abs() < 1e-5);
                }
            }
        }
        browser.open(&report::html(&data).unwrap());
        assert_eq!(browser.list("return [...document.querySelectorAll('main > section')].map(({id}) => id)"), SECTIONS);
        assert!(browser.run("return document.body.textContent").as_str().unwrap().contains("<script>alert(1)"));
        for width in [320, 1400] {
            browser.width(width);
            assert_eq!(browser.list(OVERFLOW), Vec::<String>::new(), "{width}");
            clean(&browser);
        }
    }
}

#[test]
fn the_page_of_a_regression_speaks_in_the_units_of_its_targets() {
    let Some(browser) = Browser::start() else { return };
    let nodes = 60;
    let edges: Vec<(u32, u32)> = (0..nodes).map(|i| (i, (i + 1) % nodes)).collect();
    let graph = Graph::from_edges(nodes as usize, &edges, None, Direction::Undirected).unwrap();
    let x = |i: u32| (i as f32 * 0.37).sin();
    let targets = (0..nodes).flat_map(|i| [500.0 + 40.0 * x(i), x(i + 1)]).collect();
    let split = Split { train: (0..40).collect(), valid: (40..50).collect(), test: (50..60).collect() };
    let features = Features::new(nodes as usize, 1, (0..nodes).map(x).collect()).unwrap();
    let labels = Labels::Values { values: targets, width: 2 };
    let mut dataset = Dataset::nodes("ring", graph, features, labels, split).unwrap();
    dataset.class_names = vec!["price".into(), "age".into()];
    let mut config = Config::default();
    (config.train.epochs, config.train.learning_rate) = (60, 2e-2);
    let stop = Stop::new();
    let scratch = tempfile::tempdir().unwrap();
    let root = scratch.path().join("run");
    Session { device: &Cpu::new(), config: &config, stop: &stop }.run(&dataset, Some(&root), &mut Silent).unwrap();
    browser.open(&std::fs::read_to_string(root.join("report.html")).unwrap());
    clean(&browser);
    let models = vec![ReadModel::open(&root).unwrap()];
    let run = TrainedRun::open(&root, |_| Ok(dataset.clone())).unwrap();
    let request = report::Request {
        models: &models,
        run: Some(&run),
        other: false,
        units: &[],
        diagnose: false,
        watch: &Watch::silent(),
    };
    let data = report::full(&request).unwrap();
    // The first target lies around 500: so do its predictions, and the terms add up to them.
    assert!(
        data.locals.iter().all(|local| (local.outputs[0].logit - 500.0).abs() < 100.0),
        "{:?}",
        data.locals[0].outputs
    );
    assert!(data.locals.iter().all(|local| local.probabilities.is_empty()));
    browser.open(&report::html(&data).unwrap());
    let text = browser.run("return document.querySelector('main').textContent");
    let text = text.as_str().unwrap();
    for words in [
        "Test R2",
        "Root mean squared error",
        "the smallest error",
        "In truth it is",
        "price",
        "added to the prediction",
    ] {
        assert!(text.contains(words), "{words:?} is not on the page");
    }
    for words in ["logit", "Probability", "Accuracy", "NaN", "undefined"] {
        assert!(!text.contains(words), "{words:?} is on the page");
    }
    for width in [320, 1400] {
        browser.width(width);
        assert_eq!(browser.list(OVERFLOW), Vec::<String>::new(), "{width}");
        clean(&browser);
    }
}

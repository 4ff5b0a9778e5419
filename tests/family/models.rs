//! Trained models: explanations that sum to the logit, files, restored training, kernels, and what is refused.

use super::common::assert_close;
use super::common::edges::assert_what_ifs;
use super::oracle::Oracle;
use super::{F32_TOLERANCE, KINDS, config, dataset, machine, prepared, problems, trained};
use harmonia::architecture::Kind;
use harmonia::config::{Config, Monb};
use harmonia::dataset::{Dataset, Features, Labels, Level};
use harmonia::device::Machine;
use harmonia::explain::{By, Case, Edit, Factors, Importance, Score, Shape, Target, explain_nodes};
use harmonia::graph::{Direction, Graph, Split};
use harmonia::model::{FittedModel, initial_parameters};
use harmonia::train::{Prepared, RunName, Trainer, structured};
use harmonia::{Stop, fit};

#[test]
fn explanations_sum_to_the_logit_and_models_survive_files() {
    let folder = tempfile::tempdir().unwrap();
    for kind in KINDS {
        for data in problems(kind) {
            let model = trained(kind, &data);
            let logits = model.logits(&data).unwrap();
            let (seen, factors) = (structured(data.clone(), &config(kind)).unwrap(), Factors::of(&model).unwrap());
            let outputs = factors.outputs();
            let centre: Vec<f64> = (0..factors.features()).map(|k| 0.1 * k as f64).collect();
            for unit in 0..data.units() {
                let target = if data.level == Level::Node { Target::Node(unit) } else { Target::Graph(unit) };
                let case = Case::new(&model, &factors, &seen, target, &Edit::default()).unwrap();
                for output in 0..outputs {
                    let own = f64::from(logits[unit * outputs + output]);
                    for (feature, node, hop) in
                        [(true, true, true), (true, false, false), (false, true, false), (false, false, true)]
                    {
                        let (score, by) = (Score { output, versus: None, sign: 1.0 }, By { feature, node, hop });
                        let explained = case.explain(score, by, usize::MAX, &centre).unwrap();
                        let sum = explained.intercept + explained.terms.iter().map(|term| term.value).sum::<f64>();
                        let scale = explained.terms.iter().map(|term| term.value.abs()).sum::<f64>().max(1.0);
                        let context = (kind.name(), data.level, unit, output, by);
                        assert!((sum - own).abs() < F32_TOLERANCE * scale, "{sum} is not {own} in {context:?}");
                        assert!(explained.residual < F32_TOLERANCE * scale, "{context:?}");
                    }
                }
            }
            assert_what_ifs(&factors, &seen, data.units() - 1, kind.name());
            let units: Vec<u32> = (0..data.units() as u32).collect();
            let watch = harmonia::watch::Watch::silent();
            let importance = Importance::measure(&model, &factors, &seen, &units, &centre, &watch).unwrap();
            assert!(importance.fits(&factors));
            if data.level == Level::Node {
                let score = |_: &[f64]| Ok(Score { output: 0, versus: None, sign: 1.0 });
                let nodes: Vec<usize> = (0..5).collect();
                let all = explain_nodes(&model, &factors, &seen, &nodes, score, (99, &centre), &watch).unwrap();
                for one in all {
                    let own = f64::from(logits[one.node * outputs]);
                    assert!((one.explanation.logit - own).abs() < F32_TOLERANCE * own.abs().max(1.0));
                }
            }
            // Lines where there are lines, and points of what is smooth.
            let shape = Shape::over(&factors, 0, [-2.0, 2.0]);
            assert_eq!(shape.exact, !matches!(kind, Kind::GpNam | Kind::GNamrff));
            let path = folder.path().join("model.safetensors");
            model.save(&path).unwrap();
            let read = FittedModel::load(&path).unwrap();
            assert_eq!((read.description(), &read.parameters), (model.description(), &model.parameters));
            assert_eq!(read.logits(&data).unwrap(), logits);
        }
    }
}

#[test]
fn training_learns_and_a_restored_trainer_goes_on_to_the_same_bits() {
    for kind in KINDS {
        let mut config = config(kind);
        config.train.epochs = 40;
        let data = structured(dataset(kind as u32, Level::Node, 3, Direction::Undirected), &config).unwrap();
        let run = Prepared::of(data, None, &config, RunName { seed: 1, fold: None }).unwrap();
        let device = harmonia::device::cpu::Cpu::<f32>::new();
        let mut whole = Trainer::new(&device, &run, &config, None).unwrap();
        let mut losses = Vec::new();
        let mut middle = None;
        while !whole.finished() {
            losses.push(whole.epoch().unwrap().train_loss);
            if losses.len() == 15 {
                middle = Some(whole.state().unwrap());
            }
        }
        assert!(losses[losses.len() - 1] < 0.9 * losses[0], "{} does not learn: {losses:?}", kind.name());
        let mut restored = Trainer::new(&device, &run, &config, middle).unwrap();
        while !restored.finished() {
            restored.epoch().unwrap();
        }
        assert_eq!(whole.state().unwrap(), restored.state().unwrap(), "{}", kind.name());
        // Any number of threads.
        let pool = rayon::ThreadPoolBuilder::new().num_threads(3).build().unwrap();
        let other = pool.install(|| {
            let mut other = Trainer::new(&device, &run, &config, None).unwrap();
            while !other.finished() {
                other.epoch().unwrap();
            }
            other.state().unwrap()
        });
        assert_eq!(whole.state().unwrap(), other, "{}", kind.name());
    }
}

#[test]
fn a_filter_starts_where_it_is_told_to_and_learns_at_the_rate_of_hop_weights() {
    let data = dataset(2, Level::Node, 3, Direction::Undirected);
    let start = |growth: f64| {
        let mut config = config(Kind::GNamrff);
        config.init.hop_growth = growth;
        let layout = prepared(Kind::GNamrff, &data).0.layout;
        initial_parameters::<f64>(&layout, config.init, 3)[layout.filter].to_vec()
    };
    // (1 - y)^3 and (1 - y / 2)^3 by powers of y.
    assert_eq!([0.0, 1.0, 0.5].map(start), [[1.0, 0.0, 0.0, 0.0], [1.0, -3.0, 3.0, -1.0], [1.0, -1.5, 0.75, -0.125]]);
    let moved = |rate: f64| {
        let mut config = config(Kind::GNamrff);
        config.train.hop_rate = rate;
        let data = structured(data.clone(), &config).unwrap();
        let run = Prepared::of(data, None, &config, RunName { seed: 1, fold: None }).unwrap();
        let device = harmonia::device::cpu::Cpu::<f32>::new();
        let mut trainer = Trainer::new(&device, &run, &config, None).unwrap();
        while !trainer.finished() {
            trainer.epoch().unwrap();
        }
        let parameters = trainer.state().unwrap().parameters;
        let filter = &parameters[run.layout.filter.clone()];
        filter.iter().zip([1.0, 0.0, 0.0, 0.0]).map(|(now, start)| (now - start).abs()).fold(0.0, f32::max)
    };
    let [slow, plain, fast] = [1e-3, 1.0, 4.0].map(moved);
    assert!(slow < 1e-3 && plain > 1e-2 && fast > 2.0 * plain, "{slow} {plain} {fast}");
}

/// A few steps in f32, sums in another order.
const DEVICE_TOLERANCE: f64 = 1e-4;

#[test]
fn kernels_train_the_shared_network_as_the_cpu_does() {
    let host = Machine::open("host", Default::default()).unwrap();
    // Narrow, and as wide as it was published.
    for (hidden, bases) in [(vec![5, 4], 6), (vec![256, 128, 128], 100)] {
        for (monb, data) in [Monb::Knots, Monb::Direct].into_iter().zip(problems(Kind::Nbm).into_iter().skip(1)) {
            let mut config = config(Kind::Nbm);
            (config.model.hidden, config.model.bases, config.engine.monb) = (hidden.clone(), bases, monb);
            let logits = |machine: &Machine| {
                let model = fit(&data, &config, machine, &Stop::new()).unwrap();
                model.logits(&data).unwrap().iter().map(|&z| f64::from(z)).collect::<Vec<f64>>()
            };
            let (found, expected) = (logits(&host), logits(&machine()));
            assert!(expected.iter().any(|z| z.abs() > 0.05), "{expected:?}");
            assert_close("logits", &found, &expected, DEVICE_TOLERANCE, &(monb, bases));
        }
    }
}

#[test]
fn pairs_without_room_are_refused_before_any_of_them_is_looked_at() {
    let nodes = 3_000_000;
    let graph = Graph::from_edges(nodes, &[(0, 1)], None, Direction::Undirected).unwrap();
    let labels = Labels::Classes { ids: (0..nodes as u32).map(|i| i % 2).collect(), classes: 2 };
    let split = Split { train: vec![0, 1], valid: vec![2, 3], test: vec![4, 5] };
    let x = Features::new(nodes, 1, vec![1.0; nodes]).unwrap();
    let data = Dataset::new("large", graph, vec![0, nodes], x, labels, Level::Node, split).unwrap();
    let error = Prepared::of(data, None, &config(Kind::DnnRrwp), RunName { seed: 0, fold: None }).unwrap_err();
    let (said, needed) = (error.to_string(), (nodes * nodes * (4 + 1) * 4) as f64 / (1u64 << 30) as f64);
    assert!(said.contains(&format!("{needed:.1} GiB")) && said.contains("9000000000000 pairs"), "{said}");
    assert_eq!(error.exit_code(), 1);
    let error = Config {
        model: harmonia::config::Model { pair_hidden: 0, ..config(Kind::DnnRrwp).model },
        ..config(Kind::DnnRrwp)
    };
    assert!(error.check().unwrap_err().to_string().contains("model.pair_hidden is 0"));
}

#[test]
fn a_horizon_leaves_out_what_is_farther_and_settings_that_do_not_fit_are_refused() {
    let data = dataset(1, Level::Node, 2, Direction::Undirected);
    let mut near = config(Kind::Gnan);
    near.model.horizon = 1;
    let model = fit(&data, &near, &machine(), &Stop::new()).unwrap();
    assert_eq!(model.layout.architecture.family.reach, 1);
    let parameters: Vec<f64> = model.parameters.iter().map(|&p| f64::from(p)).collect();
    let expected = Oracle::new(Kind::Gnan, &data, &model.layout, &parameters).logits();
    assert_close("logits", &model.logits(&data).unwrap(), &expected, F32_TOLERANCE, &"horizon 1");
    for (change, expected) in [
        ((|c: &mut Config| c.train.calibrate = true) as fn(&mut Config), "train.calibrate"),
        (|c| c.init.warm_start = true, "init.warm_start"),
        (|c| c.train.smoothness = 1.0.into(), "train.smoothness"),
    ] {
        let mut config = config(Kind::Gnan);
        change(&mut config);
        let error = config.check().unwrap_err().to_string();
        assert!(error.contains(expected) && error.contains("gnan"), "{error}");
    }
}

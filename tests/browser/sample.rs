//! Pages with every section, and names that try to be more than names.

use harmonia::dataset::Level;
use harmonia::loss::{Bin, Details, DetailsOfParts, Objective, Reliabilities, Reliability, Scores, Threshold};
use harmonia::report::*;

/// Names that would act as markup, break layouts or turn text around if they could.
pub const HOSTILE: [&str; 12] = [
    "<script>window.injected = 1</script>",
    "</script><img src=x onerror=\"window.injected = 2\">",
    "\"quotes\" 'and' `ticks` &amp; &",
    "",
    "   ",
    "emoji 🧬😀",
    "שלום (עולם)",
    "line\u{2028}and\u{2029}paragraph",
    "averyveryverylongnamewithoutanyplacetobreakitaveryveryverylongnamewithoutanyplacetobreakit",
    "{{script}} \\u003cb\\u003e",
    "__proto__",
    "constructor",
];

/// Numbers that look random and are the same every time.
fn wobble(at: usize) -> f64 {
    ((at as f64 + 1.0) * 12.9898).sin()
}

fn shape(k: usize) -> Curve {
    let knots: Vec<[f64; 2]> = (0..6).map(|at| [at as f64 - 3.0, wobble(7 * k + at)]).collect();
    Curve {
        knots,
        left_slope: 0.5,
        right_slope: -0.25,
        unit: None,
        range: [-2.5, 2.5],
        density: Some(Histogram { edges: vec![-2.5, -1.0, 0.0, 1.0, 2.5], counts: vec![3, 40, 20, 1] }),
        centre: 0.1,
        bands: None,
        sampled: false,
        present: Vec::new(),
    }
}

/// Of a model that is too sure; no prediction is made with less than a third.
fn reliability(seed: usize) -> Reliability {
    let bin = |at: usize| {
        let confidence = (at as f64 + 0.5) / 15.0;
        let known = |value: f64| (at >= 5).then_some(value);
        let accuracy = (confidence - 0.1 + 0.05 * wobble(at + seed)).clamp(0.0, 1.0);
        Bin { confidence: known(confidence), accuracy: known(accuracy), count: if at >= 5 { 7 * at } else { 0 } }
    };
    Reliability { ece: 0.1, bins: (0..15).map(bin).collect() }
}

/// A page with everything on it: `features` features, one output for two classes.
pub fn everything(features: usize, classes: &[&str], name: &dyn Fn(usize) -> String) -> Data {
    let outputs: Vec<Output> = match classes {
        [negative, positive] => vec![Output { name: (*positive).into(), negative: Some((*negative).into()) }],
        _ => classes.iter().map(|&name| Output { name: name.into(), negative: None }).collect(),
    };
    let count = outputs.len();
    let per_output = |seed: usize| (0..count).map(|output| wobble(31 * seed + output)).collect::<Vec<f64>>();
    let value = |name: String, missing: bool, effects: Vec<f64>| FeatureValue {
        spread: effects.iter().map(|effect| [effect - 0.1, effect + 0.1]).collect(),
        count: (!missing).then_some(17),
        name,
        missing,
        effects,
    };
    let details = Details {
        confusion: (0..classes.len())
            .map(|a| (0..classes.len()).map(|b| if a == b { 30 } else { 2 + a }).collect())
            .collect(),
        pr_auc: Some(0.7),
        brier: Some(0.12),
    };
    let threshold =
        Threshold { probability: 0.3, validation_macro_f1: 0.7, test_macro_f1: Some(0.68), test_accuracy: Some(0.8) };
    let feature = |k: usize| Feature {
        index: k,
        name: name(k),
        weight: per_output(k),
        theta: vec![0.4, 0.3, 0.2, 0.1],
        importance: Some(per_output(k + 3).into_iter().map(f64::abs).collect()),
        signed: Some(per_output(k + 5)),
        overall: Some(1.0 / (k + 1) as f64),
        // Every seventh a category, and the one behind it a number with gaps.
        shape: (k % 7 != 4)
            .then(|| Curve { present: if k % 7 == 5 { per_output(k + 9) } else { Vec::new() }, ..shape(k) }),
        column: (k % 7 == 4).then(|| name(k + 1)),
        monotone: (k == 0).then(|| "rising".into()),
        values: match k % 7 {
            4 => (0..4).map(|at| value(name(at), at == 3, per_output(k + at))).collect(),
            5 => vec![value(name(k), true, per_output(k + 2))],
            _ => Vec::new(),
        },
        gates: (0..4).map(|c| (c == k % 4 || c == (k + 1) % 4).then_some(0.3 + 0.1 * c as f64)).collect(),
    };
    Data {
        summary: Summary {
            dataset: name(0),
            run: "seed 0".into(),
            level: Some(Level::Node),
            nodes: 2708,
            directed_edges: 10556,
            graphs: 1,
            features,
            classes: classes.iter().map(ToString::to_string).collect(),
            parameters: 1234,
            epochs: 30,
            best_epoch: 20,
            learned: true,
            seconds: 1.5,
            device: "cpu".into(),
            kinds: kinds(),
            scores: ["test", "validation", "train"]
                .map(|part| PartScores {
                    part: part.into(),
                    units: Some(9),
                    scores: Scores::new([
                        ("accuracy", Some(0.8)),
                        ("roc_auc", None),
                        ("nll", None),
                        ("macro_f1", None),
                    ]),
                })
                .into(),
            baselines: ["majority", "logistic with neighbour means"]
                .map(|part| PartScores {
                    part: part.into(),
                    units: Some(9),
                    scores: Scores::new([
                        ("accuracy", Some(0.4)),
                        ("roc_auc", Some(0.5)),
                        ("nll", None),
                        ("macro_f1", None),
                    ]),
                })
                .into(),
            details: Some(DetailsOfParts {
                test: Some(details.clone()),
                validation: Some(details),
                threshold: (classes.len() == 2).then_some(threshold),
            }),
            reliability: Some(Reliabilities { test: Some(reliability(0)), validation: Some(reliability(5)) }),
            warnings: vec![format!("Take care of {}.", name(2))],
            settings: format!("name = \"{}\"", name(1)),
            notes: vec![name(0)],
            recovery: Some("a table".into()),
            generator_nll: Some(0.5),
            ..Summary::default()
        },
        history: (1..=30)
            .map(|epoch| Epoch {
                epoch,
                train_loss: 1.0 / epoch as f64,
                scores: Scores::new([
                    ("accuracy", Some(0.5 + 0.01 * epoch as f64)),
                    ("roc_auc", (epoch % 2 == 0).then_some(0.7)),
                    ("nll", Some(1.2 / epoch as f64)),
                ]),
            })
            .collect(),
        features: (0..features).map(feature).collect(),
        features_total: 10 * features,
        features_order: "importance".into(),
        importance_about: Some(ImportanceAbout { split: "test".into(), units: 9, text: "Mean size.".into() }),
        experts: Some(Experts {
            count: 4,
            active: 2,
            used_by: vec![3, 2, 1, 0],
            unused: vec![3],
            near_duplicates: vec![NearDuplicate { a: 0, b: 1, similarity: 0.99 }],
        }),
        hops: Some(Hops { count: 4, warning: Some("Take care.".into()), gamma: Some(0.01) }),
        locals: vec![
            local(0, 25, classes, count, name),
            local(1, 1, classes, count, name),
            local(2, 40, classes, count, name),
        ],
        diagnostics: Some(Diagnostics {
            findings: vec![
                Finding {
                    title: "Components".into(),
                    value: "2".into(),
                    reading: "Two.".into(),
                    level: FindingLevel::Warn,
                },
                Finding { title: "rho".into(), value: "0.9".into(), reading: "Good.".into(), level: FindingLevel::Ok },
            ],
            decay: (0..12).map(|t| Decay { t, lower: 0.8f64.powi(t as i32), upper: 0.9f64.powi(t as i32) }).collect(),
            epsilon: Some(0.4),
            horizon: Some(5),
            bound: Some(9),
            recommended: Some(6),
            lambda_2: Some(0.9),
            lambda_min: Some(-0.8),
        }),
        stability: Some(Stability {
            seeds: vec![0, 1, 2],
            spearman: Some(0.7),
            importance: (0..3).map(|seed| (0..features).map(|k| wobble(k + 50 * seed).abs()).collect()).collect(),
        }),
        outputs,
        more: None,
        absent: None,
    }
}

/// Node `id` with `nodes` nodes around it, on a tree in which each has three children.
fn local(id: usize, nodes: usize, classes: &[&str], outputs: usize, name: &dyn Fn(usize) -> String) -> Local {
    let values = |seed: usize| (0..outputs).map(|output| wobble(17 * seed + output + id)).collect::<Vec<f64>>();
    let mut parts: Vec<FeaturePart> = (0..15)
        .map(|k| FeaturePart { index: k, name: name(k), value: Some(wobble(k)), text: None, values: values(k) })
        .collect();
    (parts[2].value, parts[2].text) = (None, Some(name(3)));
    let rest = values(99);
    let (rare, others) = (0.1 / (id + 1) as f64, (classes.len() - 1) as f64);
    let sums = (0..outputs).map(|output| parts.iter().map(|part| part.values[output]).sum::<f64>() + rest[output]);
    let mut distance = vec![0];
    for node in 1..nodes {
        distance.push(distance[(node - 1) / 3] + 1);
    }
    let node =
        |at: usize| NodePart { id: 100 + at, name: Some(name(at)), distance: Some(distance[at]), values: values(at) };
    Local {
        id,
        name: (id == 2).then(|| name(0)),
        level: Some(Level::Node),
        reason: Some("chosen".into()),
        truth: Some(classes[0].into()),
        predicted: classes[classes.len() - 1].into(),
        // The first class gets what the others leave.
        probabilities: (0..classes.len()).map(|class| if class == 0 { 1.0 - rare * others } else { rare }).collect(),
        outputs: sums.map(|sum| LocalOutput { logit: sum + 0.25, intercept: 0.25, residual: 0.0 }).collect(),
        by_feature: ByFeature { parts, rest, rest_count: 5 },
        by_node: ByNode { parts: (0..nodes).map(node).collect(), rest: vec![0.0; outputs], rest_count: 3 },
        by_hop: (0..4).map(|t| HopPart { t, values: values(t + 40) }).collect(),
        edges: (1..nodes).map(|node| [(node - 1) / 3, node]).collect(),
        notes: vec!["Constants were moved to the intercept.".into()],
    }
}

/// Those of a classification.
pub fn kinds() -> Vec<Kind> {
    let kind = |kind: &harmonia::loss::ScoreKind| Kind {
        name: kind.name.into(),
        title: kind.title.into(),
        percent: kind.percent,
        drawn: kind.drawn,
        loss: kind.name == "nll",
    };
    Objective::Softmax.scores().iter().map(kind).collect()
}

//! The whole page of a run: importance, single predictions, diagnostics and other seeds, beside what training knew.

use super::data::{
    Band, Bands, ByFeature, ByNode, Data, Decay, Diagnostics, FeaturePart, Finding, FindingLevel, HopPart,
    ImportanceAbout, Local, LocalOutput, NearDuplicate, NodePart, Stability,
};
use super::run::{MOST_FEATURES, Trained, of_run};
use crate::diagnose::{self, Diagnosis, Verdict};
use crate::explain::stability::{self, Compared, mean_spearman};
use crate::explain::{Case, Distribution, Edit, Importance, Target, Units, experts, ranking};
use crate::model::FittedModel;
use crate::runs::{Names, TrainedRun};
use harmonia_graph::dataset::{Dataset, Level};
use harmonia_graph::error::{Error, Result};
use harmonia_graph::watch::Watch;

/// Features of a single prediction that are shown one by one.
const LOCAL_FEATURES: usize = 20;
/// Source nodes likewise: more cannot be told apart in a picture.
const LOCAL_NODES: usize = 30;

/// What a page is to show.
pub struct Request<'a> {
    /// The run, and the same settings with other seeds; the first is the one shown.
    pub runs: &'a [TrainedRun],
    /// Units to explain; none: a few that say something.
    pub units: &'a [usize],
    /// Whether to diagnose the graph.
    pub diagnose: bool,
    /// Hears what is being done, and may stop it.
    pub watch: &'a Watch<'a>,
}

/// Everything the page of a run can show.
///
/// # Errors
/// The run is not complete, a unit does not exist, or the user asked to stop.
pub fn full(request: &Request<'_>) -> Result<Data> {
    let run = &request.runs[0];
    let Some(summary) = &run.summary else {
        return Err(Error::file(&run.path, "is not complete: continue it with harmonia-train --resume"));
    };
    let (history, centres) = (run.history()?, run.centres()?);
    let trained = Trained {
        dataset: &run.dataset,
        config: &run.config,
        objective: run.model.objective,
        summary,
        history: &history,
        scaling: run.model.scaling.as_ref(),
        factors: &run.factors,
        centres: &centres,
    };
    let mut data = of_run(&trained)?;
    request.watch.step("importance of features");
    let all_centres: Vec<Vec<f64>> = request.runs.iter().map(TrainedRun::centres).collect::<Result<_>>()?;
    let (part, units) = units_of(run);
    let measured: Vec<Importance> = (request.runs.iter().zip(&all_centres))
        .map(|(run, centres)| {
            Importance::measure(&run.model, &run.factors, &run.dataset, &units_of(run).1, centres, request.watch)
        })
        .collect::<Result<_>>()?;
    let overall: Vec<Vec<f64>> =
        request.runs.iter().zip(&measured).map(|(run, found)| found.overall(&run.factors)).collect();
    let shown: Vec<usize> = ranking(&overall[0]).into_iter().take(MOST_FEATURES).collect();
    let everything: Vec<usize> = (0..run.factors.features()).collect();
    let found = Distribution::of(&run.dataset.features, &everything);
    let outputs = 0..run.factors.outputs();
    let compared: Vec<Compared<'_>> =
        (request.runs.iter().zip(&all_centres)).map(|(run, centres)| run.compared(centres)).collect();
    data.features = (shown.iter())
        .map(|&k| {
            let mut feature = trained.feature(k, &found[k]);
            feature.importance = Some(outputs.clone().map(|o| measured[0].of(&run.factors, k, o)).collect());
            feature.signed = Some(outputs.clone().map(|o| measured[0].signed(&run.factors, k, o)).collect());
            feature.overall = Some(overall[0][k]);
            if let (Some(shape), true) = (&mut feature.shape, request.runs.len() > 1) {
                shape.bands = Some(bands(&compared, k, shape.range));
            }
            feature
        })
        .collect();
    let unit = if run.dataset.level == Level::Node { "nodes" } else { "graphs" };
    data.features_order = format!("mean absolute contribution on the {part} {unit}");
    data.importance_about = Some(ImportanceAbout {
        split: part.into(),
        units: units.len(),
        text: format!(
            "Importance is the mean size of what a feature adds to a {}, its response centred at its mean; no label is used.",
            if run.model.objective.is_regression() { "prediction" } else { "logit" }
        ),
    });
    let range = Distribution::joint_range(&found);
    if let Some(experts) = &mut data.experts {
        experts.near_duplicates = (experts::near_duplicates(&run.factors, range).into_iter())
            .map(|pair| NearDuplicate { a: pair.a, b: pair.b, similarity: pair.similarity })
            .collect();
    }
    // Folds differ by their data: that is another question.
    if request.runs.len() > 1 && request.runs.iter().all(|run| run.metadata.fold.is_none()) {
        data.stability = Some(Stability {
            seeds: request.runs.iter().map(|run| run.config.run.seed).collect(),
            spearman: mean_spearman(&overall),
            importance: overall.iter().map(|of_run| shown.iter().map(|&k| of_run[k]).collect()).collect(),
        });
    }
    request.watch.step("single predictions");
    let chosen: Vec<(usize, Option<String>)> = match request.units.is_empty() {
        false => request.units.iter().map(|&unit| (unit, None)).collect(),
        true => telling(run, &units)?.into_iter().map(|(unit, reason)| (unit, Some(reason.to_string()))).collect(),
    };
    for (unit, reason) in chosen {
        data.locals.push(local(run, unit, reason, &centres)?);
    }
    if request.diagnose && run.factors.hops() > diagnose::MOST_HOPS {
        let most = diagnose::MOST_HOPS;
        data.summary.notes.push(format!("The graph was not diagnosed: that takes at most {most} walk lengths."));
    } else if request.diagnose {
        let options = diagnose::Options { hops: run.factors.hops(), ..diagnose::Options::default() };
        let found = diagnose::diagnose(&run.dataset.graph, run.model.walk, &options, request.watch)?;
        if let Some(hops) = &mut data.hops {
            hops.warning = found.conditioning.warning();
            hops.gamma = found.conditioning.gamma.map(|gamma| gamma.value);
        }
        data.diagnostics = Some(diagnostics(&found));
    }
    Ok(data)
}

/// Units importance is measured on: those of the test, or where there are none, all.
fn units_of(run: &TrainedRun) -> (&'static str, Vec<u32>) {
    match run.dataset.split.test.is_empty() {
        false => ("test", run.dataset.split.test.clone()),
        true => ("all", (0..run.dataset.units() as u32).collect()),
    }
}

fn bands(compared: &[Compared<'_>], k: usize, range: [f64; 2]) -> Bands {
    let (x, bands) = stability::bands(compared, k, range);
    let band = |stability::Band { mean, low, high }| {
        let [mean, low, high] = [mean, low, high].map(|values: Vec<f64>| values.into_iter().map(drawn).collect());
        Band { mean, low, high }
    };
    Bands { x, outputs: bands.into_iter().map(band).collect() }
}

/// A number that is only drawn: six digits, so that pages stay light.
fn drawn(value: f64) -> f64 {
    format!("{value:.5e}").parse().unwrap_or(value)
}

/// Three predictions worth a look: the surest right one, the surest mistake, and the one least sure.
fn telling(run: &TrainedRun, units: &[u32]) -> Result<Vec<(usize, &'static str)>> {
    let names = Names::of(run);
    // Features are as the model sees them already.
    let logits = FittedModel { scaling: None, ..run.model.clone() }.logits(&run.dataset)?;
    let outputs = run.factors.outputs();
    if names.is_regression() {
        return Ok(by_error(&run.dataset, units, &logits));
    }
    if !run.dataset.labels.is_classes() {
        return Ok(units.first().map(|&unit| (unit as usize, "the first of its part")).into_iter().collect());
    }
    // (how sure, unit)
    type Best = Option<(f64, usize)>;
    let (mut right, mut wrong, mut unsure): (Best, Best, Best) = (None, None, None);
    for &unit in units {
        let unit = unit as usize;
        let row: Vec<f64> = logits[unit * outputs..][..outputs].iter().map(|&logit| f64::from(logit)).collect();
        let sure = names.probabilities(&row).into_iter().fold(0.0, f64::max);
        let better = |best: &Best, value: f64| best.is_none_or(|(most, _)| value > most);
        let side = match names.truth(unit) {
            Some(truth) if truth == names.predicted(&row) => Some(&mut right),
            Some(_) => Some(&mut wrong),
            None => None,
        };
        if let Some(side) = side.filter(|side| better(side, sure)) {
            *side = Some((sure, unit));
        }
        if better(&unsure, -sure) {
            unsure = Some((-sure, unit));
        }
    }
    let mut found: Vec<(usize, &'static str)> = Vec::new();
    let all = [(right, "the surest right answer"), (wrong, "the surest mistake"), (unsure, "the least sure answer")];
    for (best, reason) in all {
        if let Some((_, unit)) = best
            && !found.iter().any(|(known, _)| *known == unit)
        {
            found.push((unit, reason));
        }
    }
    Ok(found)
}

/// The smallest and the largest error of a regression.
fn by_error(dataset: &Dataset, units: &[u32], values: &[f32]) -> Vec<(usize, &'static str)> {
    let outputs = dataset.labels.outputs();
    let error = |&unit: &u32| {
        let truth = dataset.labels.values(unit as usize);
        values[unit as usize * outputs..][..outputs]
            .iter()
            .zip(truth)
            .map(|(a, b)| f64::from((a - b).abs()))
            .sum::<f64>()
    };
    let known = || units.iter().filter(|&&unit| dataset.labels.is_labelled(unit as usize));
    let least = known().min_by(|a, b| error(a).total_cmp(&error(b)));
    let most = known().max_by(|a, b| error(a).total_cmp(&error(b))).filter(|&unit| Some(unit) != least);
    let chosen = [(least, "the smallest error"), (most, "the largest error")];
    chosen.into_iter().filter_map(|(unit, reason)| unit.map(|&unit| (unit as usize, reason))).collect()
}

fn local(run: &TrainedRun, unit: usize, reason: Option<String>, centres: &[f64]) -> Result<Local> {
    let (dataset, factors, names) = (&run.dataset, &run.factors, Names::of(run));
    let outputs = factors.outputs();
    let target = if dataset.level == Level::Node { Target::Node(unit) } else { Target::Graph(unit) };
    let case = Case::new(&run.model, factors, dataset, target, &Edit::default())?;
    let (logits, state) = (case.logits(), case.state());
    let engine = case.propagated_logits(&(0..outputs).collect::<Vec<_>>())?;
    let constant = |k: usize| centres[k] * case.total_theta(k) * case.mass;
    let added = |k: usize, output: usize| factors.weight[k * outputs + output] * (state[k] - constant(k));
    let per_output = (0..outputs).map(|output| {
        let constants: f64 = (0..factors.features()).map(|k| factors.weight[k * outputs + output] * constant(k)).sum();
        LocalOutput {
            logit: engine[output],
            intercept: factors.bias[output] + constants,
            residual: engine[output] - logits[output],
        }
    });
    let largest = |values: &[f64]| values.iter().fold(0.0f64, |most, value| most.max(value.abs()));
    let values_of = |k: usize| (0..outputs).map(|output| added(k, output)).collect::<Vec<f64>>();
    let order = ranking(&(0..factors.features()).map(|k| largest(&values_of(k))).collect::<Vec<_>>());
    let (first, others) = order.split_at(order.len().min(LOCAL_FEATURES));
    let mut row = vec![0f32; factors.features()];
    if dataset.level == Level::Node {
        dataset.features.fill_row(unit, &mut row);
    }
    let own = |k: usize| Units::of(run.model.scaling.as_ref(), k).own(f64::from(row[k]));
    let feature = |&k: &usize| FeaturePart {
        index: k,
        name: names.feature(k),
        value: (dataset.level == Level::Node).then(|| own(k)),
        values: values_of(k),
    };
    let sum = |keys: &[usize], values: &dyn Fn(usize) -> Vec<f64>| {
        let mut sums = vec![0.0; outputs];
        keys.iter().for_each(|&key| sums.iter_mut().zip(values(key)).for_each(|(sum, value)| *sum += value));
        sums
    };
    let by_feature = ByFeature {
        parts: first.iter().map(feature).collect(),
        rest: sum(others, &values_of),
        rest_count: others.len(),
    };

    let node_values = case.node_values(centres);
    let of_node = |at: usize| node_values[at * outputs..][..outputs].to_vec();
    let mut order = ranking(&(0..case.ball.nodes.len()).map(|at| largest(&of_node(at))).collect::<Vec<_>>());
    if dataset.level == Level::Node {
        // The explained node comes first, whatever it adds.
        order.retain(|&at| at != 0);
        order.insert(0, 0);
    }
    let (first, others) = order.split_at(order.len().min(LOCAL_NODES));
    let node = |&at: &usize| NodePart {
        id: dataset.original_id(case.ball.nodes[at] as usize),
        name: names.node(case.ball.nodes[at] as usize).map(String::from),
        distance: (dataset.level == Level::Node).then(|| case.ball.distance[at] as usize),
        values: of_node(at),
    };
    let adjacency = dataset.graph.adjacency();
    let mut edges = Vec::new();
    for (a, &i) in first.iter().enumerate() {
        for (b, &j) in first.iter().enumerate().skip(a + 1) {
            let [i, j] = [i, j].map(|at| case.ball.nodes[at]);
            let linked = |i: u32, j: u32| adjacency.col_idx[adjacency.row(i as usize)].binary_search(&j).is_ok();
            if linked(i, j) || linked(j, i) {
                edges.push([a, b]);
            }
        }
    }
    let hop_values = case.hop_values(centres);
    let mass = if dataset.level == Level::Graph { format!(" ({} nodes' worth)", case.mass) } else { String::new() };
    Ok(Local {
        id: if dataset.level == Level::Node { dataset.original_id(unit) } else { unit },
        name: if dataset.level == Level::Node { names.node(unit).map(String::from) } else { None },
        level: Some(dataset.level),
        reason,
        truth: names.truth(unit),
        predicted: names.predicted(&logits),
        probabilities: names.probabilities(&logits),
        outputs: per_output.collect(),
        by_feature,
        by_node: ByNode {
            parts: first.iter().map(node).collect(),
            rest: sum(others, &of_node),
            rest_count: others.len(),
        },
        by_hop: hop_values
            .chunks_exact(outputs)
            .enumerate()
            .map(|(t, row)| HopPart { t, values: row.to_vec() })
            .collect(),
        edges,
        notes: vec![format!(
            "Responses are centred at their mean over all nodes; the constants{mass} were moved to the intercept."
        )],
    })
}

fn diagnostics(found: &Diagnosis) -> Diagnostics {
    let finding = |title: &str, value: String, reading: String, fine: bool| Finding {
        title: title.into(),
        value,
        reading,
        level: if fine { FindingLevel::Ok } else { FindingLevel::Warn },
    };
    let mut findings = Vec::new();
    let verdict = found.independence.verdict;
    let value = match verdict {
        Verdict::Independent => "linearly independent",
        Verdict::Dependent => "linearly dependent",
        Verdict::Undecided => "not decided",
    };
    let reading = match verdict {
        Verdict::Independent => "One set of hop weights belongs to what the model does: the weights have a meaning.",
        Verdict::Dependent => "Several sets of hop weights do the very same: do not read single weights.",
        Verdict::Undecided => "Whether several sets of hop weights do the same could not be decided at this size.",
    };
    let reading = format!("{reading} ({})", found.independence.reason);
    findings.push(finding("Walk lengths", value.into(), reading, verdict == Verdict::Independent));
    if let (Some(gamma), Some(per_node)) = (found.conditioning.gamma, found.conditioning.gamma_per_node) {
        let error = if gamma.error > 0.0 { format!(" ± {:.2}", gamma.error) } else { String::new() };
        let warning = found.conditioning.warning();
        let fine = warning.is_none();
        let reading = warning.unwrap_or_else(|| {
            "Changing hop weights changes predictions noticeably: the split over hops can be read.".into()
        });
        findings.push(finding(
            "Conditioning gamma_T",
            format!("{:.4}{error}; a node {:.4}", gamma.value, per_node.value),
            reading,
            fine,
        ));
    }
    for note in &found.notes {
        findings.push(finding("Keep in mind", String::new(), note.clone(), found.ergodic));
    }
    // What decays at all: without alternating parts, which never do.
    let decay = found.apart_from_alternating.as_ref().or(found.decay.as_ref());
    if let Some(decay) = decay {
        let apart = if found.apart_from_alternating.is_some() { " apart from alternating parts" } else { "" };
        findings.push(finding(
            "Spectral radius rho",
            format!("{:.5}{apart}", decay.rho.high),
            "What is left of the slowest difference between nodes after one step; near 1, far walks still differ."
                .into(),
            true,
        ));
        let horizon = decay.horizon.high.map_or("none found".into(), |horizon| horizon.to_string());
        findings.push(finding(
            &format!("Horizon at resolution {}{apart}", found.epsilon),
            horizon,
            match decay.recommended_hops {
                Some(hops) => format!(
                    "From there on one more step changes next to nothing: T = {hops} reaches it. It says what can be told \
                     apart, not what predicts best."
                ),
                None => "No finite number of steps is known to be enough at this resolution.".into(),
            },
            decay.horizon.high.is_some(),
        ));
    }
    let end = |end: fn(&crate::diagnose::Spectrum) -> Option<f64>| found.spectrum.as_ref().and_then(end);
    Diagnostics {
        findings,
        decay: decay.map_or(Vec::new(), |decay| {
            (decay.distances.iter()).map(|at| Decay { t: at.t as usize, lower: at.low, upper: at.high }).collect()
        }),
        epsilon: Some(found.epsilon),
        horizon: decay.and_then(|decay| decay.horizon.high).map(|horizon| horizon as usize),
        bound: decay.and_then(|decay| decay.bound).map(|bound| bound as usize),
        recommended: (found.decay.as_ref()).and_then(|decay| decay.recommended_hops).map(|hops| hops as usize),
        lambda_2: end(|spectrum| spectrum.lambda_2.as_ref().map(|end| end.value)),
        lambda_min: end(|spectrum| spectrum.lambda_min.as_ref().map(|end| end.value)),
    }
}

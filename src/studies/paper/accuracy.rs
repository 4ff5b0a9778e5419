//! Accuracy on the paper's datasets, as far as they are on this machine: nodes (five seeds) and graphs (ten folds, three times).
//!
//! A dataset that is not here, or a model that has no room, is a verdict of its job, not an error.

use super::findings::{Cell, Findings, Spread, Table};
use super::real;
use super::rows::{ADDITIVE, HARMONIA, Row};
use super::study::{Job, Records, Scene, Size, Study};
use crate::config::Config;
use crate::device::cpu::Cpu;
use crate::runs::run_names;
use crate::session::{Session, Silent};
use crate::train::{Prepared, structured};
use harmonia_graph::dataset::{Dataset, Features, Labels, Level, SplitRule};
use harmonia_graph::error::{Error, Result};
use harmonia_graph::graph::{Direction, Graph, Split};
use serde::{Deserialize, Serialize};

/// A table of accuracies.
pub struct Accuracy {
    name: &'static str,
    about: &'static str,
    source: &'static str,
    /// Of graphs: folds; of nodes none.
    folds: usize,
    datasets: &'static [&'static str],
    /// (model, accuracy in percent and deviation on each dataset); none: it has no room.
    papers: &'static [(&'static str, [Option<[f64; 2]>; 6])],
}

/// Node classification.
pub const NODES: Accuracy = Accuracy {
    name: "node-accuracy",
    about: "accuracy of node classification on the datasets at hand",
    source: "table of node classification",
    folds: 0,
    datasets: &["cora", "citeseer", "tolokers", "ogbn-arxiv", "igb-small", "ogbn-products"],
    papers: &[
        ("GCN", some([[81.23, 1.1], [71.20, 1.7], [83.47, 0.7], [71.74, 0.3], [70.46, 1.17], [75.64, 0.3]])),
        ("GAT", some([[80.32, 2.3], [70.26, 2.3], [83.76, 1.0], [71.95, 0.6], [70.93, 2.15], [79.45, 0.5]])),
        ("GraphSAGE", some([[79.94, 3.4], [75.90, 5.0], [82.58, 0.5], [71.49, 0.2], [75.49, 1.08], [75.63, 0.3]])),
        (
            "Graph Transformer",
            some([[80.70, 0.5], [76.00, 0.9], [83.27, 0.9], [70.13, 0.5], [70.73, 1.26], [74.74, 0.5]]),
        ),
        ("NAM", [Some([51.35, 2.3]), Some([55.40, 1.9]), Some([62.48, 2.1]), Some([56.12, 3.4]), None, None]),
        ("GP-NAM", some([[59.96, 3.2], [60.30, 3.9], [83.12, 0.4], [62.35, 4.2], [55.92, 3.32], [60.13, 3.9]])),
        ("GNAN", [Some([72.89, 5.1]), Some([65.23, 3.7]), Some([84.47, 0.8]), Some([69.56, 0.9]), None, None]),
        ("G-NAMRFF", some([[77.84, 1.7], [69.45, 2.5], [82.88, 0.3], [70.02, 3.9], [63.10, 1.26], [72.13, 0.4]])),
        ("HARMONIA", some([[79.60, 1.3], [72.80, 1.1], [84.18, 0.6], [80.14, 2.3], [68.93, 1.08], [78.14, 0.7]])),
    ],
};

/// Graph classification.
pub const GRAPHS: Accuracy = Accuracy {
    name: "graph-accuracy",
    about: "accuracy of graph classification on the datasets at hand, ten folds three times",
    source: "table of graph classification",
    folds: 10,
    datasets: &["mutag", "proteins", "dd", "aids", "mutagenicity", "herg-karim"],
    papers: &[
        ("GCN", some([[68.07, 6.34], [70.97, 4.67], [75.66, 2.36], [99.25, 0.63], [75.69, 0.94], [73.06, 2.08]])),
        ("GAT", some([[67.20, 3.45], [69.92, 4.03], [77.30, 3.68], [99.00, 0.75], [69.40, 1.26], [65.04, 1.07]])),
        ("GraphSAGE", some([[64.12, 2.46], [67.35, 2.38], [75.78, 3.98], [98.20, 1.05], [69.25, 3.94], [71.08, 2.05]])),
        (
            "Graph Transformer",
            some([[73.30, 5.36], [69.76, 3.27], [76.24, 3.26], [99.10, 0.60], [73.10, 0.93], [74.58, 1.84]]),
        ),
        ("NAM", some([[63.12, 9.15], [62.45, 4.28], [58.07, 3.56], [72.51, 2.53], [67.35, 2.57], [64.57, 2.54]])),
        ("GP-NAM", some([[64.30, 8.46], [65.68, 4.13], [62.07, 3.24], [79.35, 2.28], [65.46, 2.25], [68.06, 2.37]])),
        ("GNAN", some([[67.35, 3.92], [59.64, 2.45], [60.57, 5.26], [74.87, 1.43], [66.64, 4.76], [66.12, 2.24]])),
        ("G-NAMRFF", some([[66.81, 5.38], [67.94, 3.74], [63.91, 3.47], [81.10, 1.76], [71.70, 2.03], [68.41, 1.86]])),
        ("HARMONIA", some([[69.50, 1.54], [70.76, 1.27], [75.38, 1.85], [97.75, 1.16], [74.70, 1.04], [71.78, 1.57]])),
    ],
};

const fn some(values: [[f64; 2]; 6]) -> [Option<[f64; 2]>; 6] {
    let [a, b, c, d, e, f] = values;
    [Some(a), Some(b), Some(c), Some(d), Some(e), Some(f)]
}

/// What came of a model on a dataset, by one seed and all its folds.
#[derive(Serialize, Deserialize)]
pub(super) struct Record {
    pub model: String,
    pub dataset: String,
    pub seed: u64,
    /// Test accuracy of every run, in percent.
    pub accuracies: Vec<f64>,
    /// Why there is none.
    pub verdict: Option<Verdict>,
}

impl Record {
    /// Whether another machine could have trained what this one did not.
    pub(super) fn is_of_machine(&self) -> bool {
        matches!(self.verdict, Some(Verdict::Absent | Verdict::NoRoom(_)))
    }
}

/// Of a column that may hold another score than the paper's.
const TOLOKERS: &str = " The paper captions Tolokers as accuracy and selects it by ROC-AUC; here it is accuracy, in docs/results.md ROC-AUC.";

/// Why a model was not trained on a dataset.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Verdict {
    /// The data are not on this machine.
    Absent,
    /// The plan of the training, made before anything is computed, asks for more memory than there is.
    NoRoom(String),
    /// The model refuses such data, or would take too long on them.
    Refused(String),
}

impl Verdict {
    /// In a cell, and in full; nothing of data that are not here.
    pub(super) fn shown(&self) -> Option<(&'static str, &str)> {
        match self {
            Verdict::Absent => None,
            Verdict::NoRoom(text) => Some(("no room", text)),
            Verdict::Refused(text) => Some(("refused", text)),
        }
    }
}

/// Forty small graphs, rings of one label and paths of another: what graph tasks are tried on where there are no files.
fn rings_and_paths() -> Result<Dataset> {
    const GRAPHS: usize = 40;
    const SIZE: usize = 5;
    let mut edges = Vec::new();
    for graph in 0..GRAPHS {
        let node = |at: usize| (graph * SIZE + at) as u32;
        edges.extend((1..SIZE).map(|at| (node(at - 1), node(at))));
        edges.extend((graph % 2 == 0).then(|| (node(0), node(SIZE - 1))));
    }
    let nodes = GRAPHS * SIZE;
    let x = (0..2 * nodes).map(|at| f32::from(u8::from((at / 2 % SIZE == 0) == (at % 2 == 0)))).collect();
    let labels = Labels::Classes { ids: (0..GRAPHS).map(|graph| (graph % 2) as u32).collect(), classes: 2 };
    let split = Split { train: (0..24).collect(), valid: (24..32).collect(), test: (32..40).collect() };
    Dataset::new(
        "rings and paths",
        Graph::from_edges(nodes, &edges, None, Direction::Undirected)?,
        (0..=GRAPHS).map(|graph| graph * SIZE).collect(),
        Features::new(nodes, 2, x)?,
        labels,
        Level::Graph,
        split,
    )
}

/// Trains a row with one seed, in all folds.
///
/// # Errors
/// Training failed or was stopped; what has no room, and data that are not here, are verdicts.
pub(super) fn train(
    row: Row,
    dataset: &str,
    seed: u64,
    folds: usize,
    more: &[String],
    size: Size,
    scene: &Scene<'_>,
) -> Result<Record> {
    let mut set = vec![format!("run.folds={folds}")];
    set.extend((size == Size::Smallest).then(|| "train.epochs=3".to_string()));
    set.extend_from_slice(more);
    let config = real::config(&row, dataset, seed, &set, scene)?;
    let done = match data(&config, folds, size, scene)? {
        Some(whole) => trained(&config, whole, scene)?,
        None => Err(Verdict::Absent),
    };
    let (accuracies, verdict) = match done {
        Ok(accuracies) => (accuracies, None),
        Err(verdict) => (Vec::new(), Some(verdict)),
    };
    Ok(Record { model: row.name.into(), dataset: dataset.into(), seed, accuracies, verdict })
}

/// Accuracy of every run of a session in percent, or why there is none.
fn trained(config: &Config, whole: Dataset, scene: &Scene<'_>) -> Result<std::result::Result<Vec<f64>, Verdict>> {
    let device = Cpu::<f32>::new();
    let session = Session { device: &device, config, stop: scene.stop };
    // What has no room here is a finding.
    let (whole, first) = match planned(&session, whole)? {
        Ok(planned) => planned,
        Err(verdict) => return Ok(Err(verdict)),
    };
    let outcome = session.run_prepared(&whole, first, None, &mut Silent)?;
    Ok(Ok(outcome.runs.iter().filter_map(|run| Some(100.0 * run.test.get("accuracy")?)).collect()))
}

/// What the plan of a training says, of data that nothing is trained on.
///
/// # Errors
/// Damaged data.
pub(super) fn verdict(config: &Config, whole: Dataset, scene: &Scene<'_>) -> Result<Option<Verdict>> {
    let device = Cpu::<f32>::new();
    let session = Session { device: &device, config, stop: scene.stop };
    Ok(planned(&session, whole)?.err())
}

/// Black boxes of the paper's tables, by the names that `harmonia.peers.black_boxes` knows.
const BLACK_BOXES: [&str; 4] = ["GCN", "GAT", "GraphSAGE", "Graph Transformer"];

/// What a black box is asked; its splits are in the store.
#[derive(Serialize)]
struct Task {
    model: &'static str,
    seed: u64,
    epochs: usize,
    patience: usize,
}

#[derive(Deserialize)]
struct Answer {
    accuracies: Vec<f64>,
}

/// Trains a black box on the splits that ours have.
fn train_peer(
    model: &'static str,
    dataset: &'static str,
    seed: u64,
    folds: usize,
    size: Size,
    scene: &Scene<'_>,
) -> Result<Record> {
    let config = real::config(&HARMONIA, dataset, seed, &[format!("run.folds={folds}")], scene)?;
    let record =
        |accuracies, verdict| Record { model: model.into(), dataset: dataset.into(), seed, accuracies, verdict };
    let Some(mut whole) = data(&config, folds, size, scene)? else {
        return Ok(record(Vec::new(), Some(Verdict::Absent)));
    };
    let splits = run_names(&config.run).into_iter().map(|name| {
        let mut drawn = whole.clone();
        let rule = match name.fold {
            Some(fold) => SplitRule::Fold { folds, fold, valid: 1 },
            None => SplitRule::parse(&config.data.split)?,
        };
        rule.apply(&mut drawn, name.seed)?;
        Ok(drawn.split)
    });
    whole.own_splits = splits.collect::<Result<_>>()?;
    let task = Task { model, seed, epochs: size.of(2, 100, 200), patience: 50 };
    let key = format!("{dataset} {model} {seed}");
    let answer: Answer = scene.python()?.ask("black_boxes", &key, &whole, &task, scene)?;
    Ok(record(answer.accuracies, None))
}

/// The dataset, if it is on this machine.
fn data(config: &Config, folds: usize, size: Size, scene: &Scene<'_>) -> Result<Option<Dataset>> {
    match size == Size::Smallest && folds > 0 {
        true => rings_and_paths().map(Some),
        false => real::load(config, scene),
    }
}

/// The data as the model reads them and the first run of a session, or why there is none.
fn planned(
    session: &Session<'_, Cpu<f32>>,
    whole: Dataset,
) -> Result<std::result::Result<(Dataset, Prepared), Verdict>> {
    let first = structured(whole, session.config).and_then(|whole| {
        let first = Prepared::new(&whole, session.config, session.names()[0])?;
        first.memory(session.device, session.config).check(session.device)?;
        Ok((whole, first))
    });
    match first {
        Ok(first) => Ok(Ok(first)),
        Err(Error::Device(message)) => Ok(Err(Verdict::NoRoom(message))),
        Err(Error::Config(message)) => Ok(Err(Verdict::Refused(message))),
        Err(error) => Err(error),
    }
}

impl Accuracy {
    /// A job for every dataset, model and seed; folds of a seed are one job.
    fn each<M>(&self, size: Size, models: &[M], job: impl Fn(&'static str, &M, u64, usize) -> Job) -> Vec<Job> {
        let datasets = match (size, self.folds) {
            (Size::Smallest, 0) => &["synthetic"],
            (Size::Smallest, _) => &self.datasets[..1],
            (Size::Quick, 0) => &self.datasets[..2],
            (Size::Quick, _) => &self.datasets[..1],
            (Size::Full, _) => self.datasets,
        };
        let repeats = if self.folds > 0 { size.of(1, 1, 3) } else { size.of(1, 2, 5) };
        let folds = if size == Size::Smallest { self.folds.min(3) } else { self.folds };
        let mut jobs = Vec::new();
        for &dataset in datasets {
            for model in models {
                jobs.extend((0..repeats).map(|seed| job(dataset, model, seed, folds)));
            }
        }
        jobs
    }
}

impl Study for Accuracy {
    fn name(&self) -> &'static str {
        self.name
    }

    fn about(&self) -> &'static str {
        self.about
    }

    fn source(&self) -> &'static str {
        self.source
    }

    fn version(&self) -> u32 {
        2
    }

    fn jobs(&self, size: Size) -> Result<Vec<Job>> {
        let one = |dataset, row: &Row, seed, folds| {
            let (key, row) = (format!("{dataset} {} seed {seed}", row.name), *row);
            Job::of_machine(key, move |scene| train(row, dataset, seed, folds, &[], size, scene), Record::is_of_machine)
        };
        Ok(self.each(size, ADDITIVE, one))
    }

    fn peer_jobs(&self, size: Size) -> Result<Vec<Job>> {
        let one = |dataset, model: &&'static str, seed, folds| {
            let (key, model) = (format!("{dataset} {model} seed {seed}"), *model);
            Job::of_machine(
                key,
                move |scene| train_peer(model, dataset, seed, folds, size, scene),
                Record::is_of_machine,
            )
        };
        Ok(self.each(size, &BLACK_BOXES, one))
    }

    fn findings(&self, _: Size, records: &Records) -> Result<Findings> {
        let records = records.read::<Record>()?;
        let mut datasets: Vec<String> = self.datasets.iter().map(|name| name.to_string()).collect();
        for record in records.iter().filter(|record| !self.datasets.contains(&record.dataset.as_str())) {
            if !datasets.contains(&record.dataset) {
                datasets.push(record.dataset.clone());
            }
        }
        let mut models: Vec<&str> = self.papers.iter().map(|(name, _)| *name).collect();
        models.extend(
            ADDITIVE.iter().map(|row| row.name).filter(|name| self.papers.iter().all(|known| known.0 != *name)),
        );
        let cell = |model: &str, at: usize| {
            let paper = self.papers.iter().find(|known| known.0 == model).and_then(|known| *known.1.get(at)?);
            cell(&records, model, &datasets[at], paper)
        };
        let row = |model: &str| {
            [Cell::text(model)].into_iter().chain((0..datasets.len()).map(|at| cell(model, at))).collect()
        };
        let table = Table {
            name: "accuracy",
            title: "Test accuracy, percent".into(),
            head: ["model".to_string()].into_iter().chain(datasets.iter().cloned()).collect(),
            rows: models.into_iter().map(row).collect(),
            note: format!(
                "Mean and deviation over runs, by the paper's settings; black boxes by usual ones.{} {}",
                if datasets.iter().any(|name| name == "tolokers") { TOLOKERS } else { "" },
                verdicts(&records)
            ),
        };
        Ok(Findings { tables: vec![table], figures: Vec::new(), claims: Vec::new() })
    }
}

/// Mean and deviation over all runs beside the paper's, or why there are none.
pub(super) fn cell(records: &[Record], model: &str, dataset: &str, paper: Option<[f64; 2]>) -> Cell {
    let own = || records.iter().filter(|record| record.model == model && record.dataset == dataset);
    let values: Vec<f64> = own().flat_map(|record| record.accuracies.iter().copied()).collect();
    match own().find_map(|record| record.verdict.as_ref()?.shown()) {
        Some((word, _)) => Cell::text(word),
        None => Cell::spread(Spread::of(&values), 2).beside(paper.map(|paper| paper[0]), paper.map(|paper| paper[1])),
    }
}

/// Why there are no numbers, in a sentence for each reason.
pub(super) fn verdicts(records: &[Record]) -> String {
    let mut all: Vec<String> = Vec::new();
    for record in records {
        let Some(verdict) = &record.verdict else { continue };
        let said = match verdict.shown() {
            None => format!("{}: not on this machine.", record.dataset),
            Some((word, text)) => format!("{}, {}: {word} ({text}).", record.model, record.dataset),
        };
        if !all.contains(&said) {
            all.push(said);
        }
    }
    all.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use harmonia_graph::stop::Stop;

    #[test]
    fn what_has_no_room_is_a_verdict_of_its_plan() {
        let stop = Stop::new();
        let scene = Scene { stop: &stop, data_dir: "", peers: None };
        // Some terabytes of hidden units.
        let more = ["model.hidden=[16777216, 16]".to_string(), "engine.monb=direct".into()];
        let record = train(HARMONIA, "synthetic", 0, 0, &more, Size::Smallest, &scene).unwrap();
        let (word, text) = record.verdict.as_ref().unwrap().shown().unwrap();
        assert_eq!(word, "no room");
        assert!(text.contains("planned") && text.contains("the limit is"), "{text}");
        assert_eq!(cell(&[record], "HARMONIA", "synthetic", None), Cell::text("no room"));
    }
}

//! What training measured on its data and left in the run directory: where values lie, and how much features matter. With it a model is
//! read and shown where the data are not.
//!
//! `measured.jsonl` is two lines: which model it is of and the SHA-256 of the other line, then the numbers. What was measured of another
//! model is not used, and what was changed since is refused. It holds counts and means, no row of the data.

use super::open::MODEL;
use crate::architecture::Spread;
use crate::explain::{BINS, Distribution, Factors, Importance, Units};
use crate::model::FittedModel;
use harmonia_graph::dataset::{ColumnKind, Dataset, Level};
use harmonia_graph::error::{Error, Result};
use harmonia_graph::files;
use harmonia_graph::memory;
use harmonia_graph::stop::Stop;
use harmonia_graph::watch::Watch;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::path::Path;

const FILE: &str = "measured.jsonl";
/// Of the form of the file; another one is as good as none.
const VERSION: u32 = 1;
/// Steps of a feature along an edge up to which importance is measured at the end of a training: seconds.
const MOST_STEPS: u128 = 1 << 32;
/// Elements of H computed at once then: training is planned within the memory that there is, and this comes on top.
const FEW_ELEMENTS: usize = 1 << 20;

/// What is known of some data, and of a model on them.
#[derive(Clone, Debug, PartialEq)]
pub struct Measured {
    /// Nodes of all graphs.
    pub nodes: usize,
    /// Directed edges of all graphs.
    pub directed_edges: usize,
    /// 1 for a single graph.
    pub graphs: usize,
    /// Units of each part, in the order shown.
    pub parts: [(&'static str, usize); 3],
    /// Values of every column of X, as the model reads them; of a column with gaps those that are there.
    pub columns: Vec<Distribution>,
    /// How much features matter; none where nobody has measured it.
    pub importance: Option<PartImportance>,
}

/// Importance on some units.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PartImportance {
    /// "test" or "all".
    pub part: String,
    /// Of every feature.
    pub measured: Importance,
}

/// Units that importance is measured on: those of the test, or where there are none, all.
pub fn measured_units(dataset: &Dataset) -> (&'static str, Vec<u32>) {
    match dataset.split.test.is_empty() {
        false => ("test", dataset.split.test.clone()),
        true => ("all", (0..dataset.units() as u32).collect()),
    }
}

impl Measured {
    /// All but importance. `dataset` has its features as the model sees them.
    pub fn data(model: &FittedModel, factors: &Factors, dataset: &Dataset) -> Measured {
        let gap_of = |k: usize| {
            let schema = dataset.shown_schema()?;
            let feature = factors.groups().of_column(k);
            let (columns, column) = (factors.groups().columns(feature), schema.columns.get(feature)?);
            let gap = columns.end - 1;
            let is_number = column.gaps && column.kind != ColumnKind::Category && k == columns.start;
            is_number.then(|| (gap, Units::of(model.scaling.as_ref(), gap).read(0.5) as f32))
        };
        let everything: Vec<usize> = (0..factors.features()).collect();
        let split = &dataset.split;
        Measured {
            nodes: dataset.graph.nodes(),
            directed_edges: dataset.graph.directed_edges(),
            graphs: dataset.graphs(),
            parts: [("test", split.test.len()), ("validation", split.valid.len()), ("train", split.train.len())],
            columns: Distribution::of_known(&dataset.features, &everything, &gap_of),
            importance: None,
        }
    }

    /// Importance, whatever it takes.
    ///
    /// # Errors
    /// The device failed, or the user asked to stop.
    pub fn measure(
        &mut self,
        model: &FittedModel,
        factors: &Factors,
        dataset: &Dataset,
        centres: &[f64],
        watch: &Watch<'_>,
    ) -> Result<()> {
        let (part, units) = measured_units(dataset);
        let measured = Importance::measure(model, factors, dataset, &units, centres, watch)?;
        self.importance = Some(PartImportance { part: part.into(), measured });
        Ok(())
    }

    /// At the end of a training: importance where that takes seconds and little memory.
    ///
    /// # Errors
    /// The device failed, or the user asked to stop.
    pub fn at_the_end(
        model: &FittedModel,
        factors: &Factors,
        dataset: &Dataset,
        centres: &[f64],
        watch: &Watch<'_>,
    ) -> Result<Measured> {
        let mut all = Measured::data(model, factors, dataset);
        let reached = dataset.graph.directed_edges() + dataset.graph.nodes();
        let steps = [reached, factors.features(), factors.hops()].iter().map(|&size| size as u128).product::<u128>();
        let (part, units) = measured_units(dataset);
        // Where responses are not carried feature by feature, every unit looks at all that it sees.
        let steps = match model.layout.architecture.walks_by_feature() || dataset.level == Level::Graph {
            true => steps,
            false => steps.saturating_mul(units.len() as u128) / reached.max(1) as u128 * seen(model, dataset),
        };
        let fits = dataset.level == Level::Graph || dataset.graph.nodes() <= FEW_ELEMENTS;
        // Values, responses and states of some columns, and the walk: under a limit on memory it must not end a training that is done.
        let bytes = 24 * FEW_ELEMENTS.min(dataset.graph.nodes() * factors.features()) + 8 * reached;
        if steps <= MOST_STEPS && fits && memory::fits(bytes as u64) && !units.is_empty() {
            let measured = Importance::measure_in(FEW_ELEMENTS, model, factors, dataset, &units, centres, watch)?;
            all.importance = Some(PartImportance { part: part.into(), measured });
        }
        Ok(all)
    }
}

/// Nodes that a prediction sees at most.
fn seen(model: &FittedModel, dataset: &Dataset) -> u128 {
    match model.layout.architecture.spread() {
        Spread::Itself => 1,
        _ => dataset.graph.nodes() as u128,
    }
}

/// The first line.
#[derive(Serialize, Deserialize)]
struct Head {
    version: u32,
    model_sha256: String,
    sha256: String,
}

/// The second line.
#[derive(Serialize, Deserialize)]
struct Numbers {
    nodes: usize,
    directed_edges: usize,
    graphs: usize,
    /// Test, validation, train.
    parts: [usize; 3],
    columns: Vec<KeptColumn>,
    importance: Option<PartImportance>,
}

/// A histogram without its empty bars: most columns of zeros and ones have two.
#[derive(Serialize, Deserialize)]
struct KeptColumn {
    range: [f64; 2],
    counts: Vec<(usize, u64)>,
}

/// Of the bytes of a line.
fn sha256_of(text: &str) -> String {
    Sha256::digest(text.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Leaves what was measured of the model that is in a run directory.
///
/// # Errors
/// The disk is full or not writable.
pub fn write_measured(directory: &Path, measured: &Measured) -> Result<()> {
    let (path, model) = (directory.join(FILE), directory.join(MODEL));
    // A run of no epochs leaves no model.
    if !model.is_file() {
        return Ok(());
    }
    let kept = |column: &Distribution| {
        let counts = column.counts.iter().copied().enumerate().filter(|(_, count)| *count > 0);
        KeptColumn { range: column.range, counts: counts.collect() }
    };
    let numbers = Numbers {
        nodes: measured.nodes,
        directed_edges: measured.directed_edges,
        graphs: measured.graphs,
        parts: measured.parts.map(|(_, units)| units),
        columns: measured.columns.iter().map(kept).collect(),
        importance: measured.importance.clone(),
    };
    let json = |text: serde_json::Result<String>| text.map_err(|error| Error::file(&path, error.to_string()));
    let numbers = json(serde_json::to_string(&numbers))?;
    let model_sha256 = files::sha256(&model, &Stop::new())?;
    let head = Head { version: VERSION, model_sha256, sha256: sha256_of(&numbers) };
    files::write_atomic(&path, format!("{}\n{numbers}\n", json(serde_json::to_string(&head))?).as_bytes())
}

/// What was measured of the model that is in a run directory; none where that was not left there, or is of another model.
///
/// # Errors
/// The file was changed since.
pub fn read_measured(directory: &Path, factors: &Factors) -> Result<Option<Measured>> {
    let path = directory.join(FILE);
    if path.symlink_metadata().is_err() {
        return Ok(None);
    }
    let text = files::read_text(&path)?;
    let changed = || Error::file(&path, "is not the one that training left: delete the file, it is measured anew");
    let (head, numbers) = text.split_once('\n').ok_or_else(changed)?;
    let head: Head = serde_json::from_str(head).map_err(|_| changed())?;
    if head.version != VERSION || head.model_sha256 != files::sha256(&directory.join(MODEL), &Stop::new())? {
        return Ok(None);
    }
    let numbers = numbers.trim_end_matches('\n');
    if sha256_of(numbers) != head.sha256 {
        return Err(changed());
    }
    let numbers: Numbers = serde_json::from_str(numbers).map_err(|_| changed())?;
    let column = |kept: KeptColumn| {
        let mut counts = vec![0; BINS];
        kept.counts.iter().try_for_each(|&(bin, count)| counts.get_mut(bin).map(|place| *place = count))?;
        kept.range.iter().all(|end| end.is_finite()).then_some(Distribution { range: kept.range, counts })
    };
    let columns: Option<Vec<Distribution>> = numbers.columns.into_iter().map(column).collect();
    let columns = columns.filter(|columns| columns.len() == factors.features()).ok_or_else(changed)?;
    if numbers.importance.as_ref().is_some_and(|importance| !importance.measured.fits(factors)) {
        return Err(changed());
    }
    let [test, validation, train] = numbers.parts;
    Ok(Some(Measured {
        nodes: numbers.nodes,
        directed_edges: numbers.directed_edges,
        graphs: numbers.graphs,
        parts: [("test", test), ("validation", validation), ("train", train)],
        columns,
        importance: numbers.importance,
    }))
}

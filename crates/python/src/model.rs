//! A trained model: predictions, what it says about itself, run directories.

use crate::data::Data;
use crate::errors::{OrRaise, to_python};
use crate::lent::{Lent, Still, fingerprint};
use crate::work;
use harmonia::explain::{Importance, centre};
use harmonia::report;
use harmonia::runs::{Measured, ReadModel, RunSummary, SavedModel, TrainedRun, load_dataset, members, read_history};
use harmonia::session::Kept;
use harmonia::settings::to_toml;
use harmonia::train::EpochRecord;
use harmonia_data::download::Access;
use harmonia_data::obtain::Context;
use harmonia_graph::dataset::{Dataset, Level};
use harmonia_graph::error::{Error, Result};
use harmonia_graph::files;
use harmonia_graph::stop::Stop;
use harmonia_graph::store::{Description, Writer};
use harmonia_graph::watch::Watch;
use numpy::PyArray1;
use pyo3::prelude::*;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The state to go on from is four models: it stays where training left it.
const STATE: &str = "last.safetensors";

/// A trained model, with the data of training where they are at hand.
#[pyclass(frozen, module = "harmonia._harmonia")]
pub struct Model {
    saved: SavedModel,
    summary: Option<RunSummary>,
    history: Vec<EpochRecord>,
    /// Mean response of each column.
    centres: Vec<f64>,
    origin: Origin,
    /// What an array of the user was when the model was fitted.
    fingerprint: Option<u64>,
}

/// Where it comes from.
enum Origin {
    /// Trained here, on an array of the user or on data of the engine's own.
    Kept(Arc<Kept>, Option<Lent>),
    /// Read: the files of its directory by name, and where that is, if it is still there.
    Read { files: Vec<(String, Vec<u8>)>, path: PathBuf },
}

impl Model {
    /// What training left in memory; the array it was trained on and what that was, where it is the user's.
    pub fn trained(kept: Kept, lent: Option<Lent>, fingerprint: Option<u64>) -> Model {
        Model {
            saved: kept.saved(),
            summary: kept.run.summary.clone(),
            history: kept.history.clone(),
            centres: kept.centres.clone(),
            origin: Origin::Kept(Arc::new(kept), lent),
            fingerprint,
        }
    }

    /// A run directory.
    fn read(path: &Path) -> Result<Model> {
        let read = ReadModel::open(path)?;
        let mut held = Vec::new();
        for entry in std::fs::read_dir(path).map_err(Error::io("read", path))?.flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            if entry.path().is_file() && name != STATE && !files::is_passing(&entry.file_name()) {
                held.push((name, files::read(&entry.path())?));
            }
        }
        held.sort();
        Ok(Model {
            summary: read.summary,
            history: read_history(path)?,
            centres: read.centres,
            saved: read.saved,
            origin: Origin::Read { files: held, path: path.to_path_buf() },
            fingerprint: None,
        })
    }

    /// Whether the data of training are what they were.
    pub fn is_unchanged(&self) -> bool {
        match (&self.origin, self.fingerprint) {
            (Origin::Kept(kept, _), Some(known)) => fingerprint(&kept.whole().features) == known,
            _ => true,
        }
    }

    /// What training left in memory, where its data are what they were.
    fn trained_on<'k>(&self, kept: &'k Arc<Kept>) -> Result<&'k Arc<Kept>> {
        match self.is_unchanged() {
            true => Ok(kept),
            false => Err(Error::Data(
                "X was changed after the fit, and the model reads the array itself, not a copy: give the data, as in X=X, graph=graph, \
                 or fit a copy, X.copy()"
                    .into(),
            )),
        }
    }

    /// Holds still what a look at the model and these data reads.
    pub fn still(&self, py: Python<'_>, data: Option<&Data>) -> PyResult<Still> {
        let own = if let Origin::Kept(_, lent) = &self.origin { lent.as_ref() } else { None };
        Still::hold(py, [own, data.and_then(|data| data.lent.as_ref())])
    }

    /// The model with data: those given, or those of training.
    pub fn on(&self, data: Option<&Data>) -> Result<Arc<Held>> {
        let hold = |run: TrainedRun, centres: Vec<f64>| Arc::new(Held::Other(Box::new(run), centres));
        match (data, &self.origin) {
            (None, Origin::Kept(kept, _)) => Ok(Arc::new(Held::Kept(Arc::clone(self.trained_on(kept)?)))),
            (None, Origin::Read { path, .. }) => {
                if !path.join("config.toml").is_file() {
                    return Err(Error::Data(
                        "the data of training are not with this model (a pickle holds the model alone): give them, as in X=X, graph=graph"
                            .into(),
                    ));
                }
                let watch = Watch::new(&|_| (), Stop::new());
                let context = Context {
                    access: Access { offline: true, yes: false, mirror: None },
                    download: &|_| (),
                    watch,
                    note: &|_| (),
                };
                let run = TrainedRun::open(path, |config| match harmonia::runs::is_gone(&config.data) {
                    true => Err(Error::Data(format!(
                        "the data of training ({}) are not here: give them, as in X=X, graph=graph",
                        config.data.dataset
                    ))),
                    false => load_dataset(&config.data, &context),
                })?;
                let centres = run.centres()?;
                Ok(hold(run, centres))
            }
            (Some(data), _) => {
                let run = TrainedRun::on(Path::new(""), self.saved.clone(), self.summary.clone(), data.whole.clone())?;
                // What is taken off a response is what it was in training: explanations of other data can be held against those.
                Ok(hold(run, self.centres.clone()))
            }
        }
    }

    /// The model alone.
    pub fn saved(&self) -> &SavedModel {
        &self.saved
    }

    /// Mean response of each column over the data of training.
    pub fn centres(&self) -> &[f64] {
        &self.centres
    }

    /// Writes the run directory.
    fn write(&self, path: &Path) -> Result<()> {
        match &self.origin {
            Origin::Kept(kept, _) => kept.write(path, self.is_unchanged()),
            Origin::Read { files: held, .. } => {
                files::check_directory(path)?;
                std::fs::create_dir_all(path).map_err(Error::io("create directory", path))?;
                if std::fs::read_dir(path).map_err(Error::io("read", path))?.next().is_some() {
                    return Err(Error::file(path, "is not empty: choose another directory"));
                }
                held.iter().try_for_each(|(name, bytes)| files::write_atomic(&path.join(name), bytes))
            }
        }
    }

    /// Its run directory, for a moment.
    fn with_directory<R>(&self, work: impl FnOnce(&Path) -> Result<R>) -> Result<R> {
        let scratch = tempfile::tempdir().map_err(Error::io("create directory", &std::env::temp_dir()))?;
        let path = scratch.path().join("model");
        self.write(&path)?;
        work(&path)
    }
}

/// A model with data, whoever holds them.
pub enum Held {
    Kept(Arc<Kept>),
    Other(Box<TrainedRun>, Vec<f64>),
}

impl Held {
    pub fn run(&self) -> &TrainedRun {
        match self {
            Held::Kept(kept) => &kept.run,
            Held::Other(run, _) => run,
        }
    }

    /// c_k of every column.
    pub fn centres(&self) -> &[f64] {
        match self {
            Held::Kept(kept) => &kept.centres,
            Held::Other(_, centres) => centres,
        }
    }

    /// What is measured on the data without a walk.
    pub fn measured(&self) -> Measured {
        let run = self.run();
        Measured::data(&run.model, &run.factors, &run.dataset)
    }

    /// How much features matter on some units.
    pub fn importance(&self, units: &[u32], watch: &Watch<'_>) -> Result<Importance> {
        let run = self.run();
        Importance::measure(&run.model, &run.factors, &run.dataset, units, self.centres(), watch)
    }
}

#[pymethods]
impl Model {
    /// A run directory, of the command line or of `save`; of several seeds or folds the first.
    #[staticmethod]
    fn load(py: Python<'_>, path: PathBuf) -> PyResult<Model> {
        work::run(py, 1, None, |_, _| Model::read(&members(&path)?.swap_remove(0)))
    }

    /// The files of a run directory, by name.
    #[staticmethod]
    fn from_files(py: Python<'_>, held: Vec<(String, Vec<u8>)>) -> PyResult<Model> {
        work::run(py, 1, None, |_, _| {
            let scratch = tempfile::tempdir().map_err(Error::io("create directory", &std::env::temp_dir()))?;
            for (name, bytes) in &held {
                if Path::new(name).components().count() != 1 {
                    return Err(Error::Data(format!("`{name}` is no file of a run directory")));
                }
                files::write_atomic(&scratch.path().join(name), bytes)?;
            }
            Model::read(scratch.path())
        })
    }

    /// What `from_files` reads.
    fn files(&self, py: Python<'_>) -> PyResult<Vec<(String, Vec<u8>)>> {
        if let Origin::Read { files, .. } = &self.origin {
            return Ok(files.clone());
        }
        let _still = self.still(py, None)?;
        work::run(py, 0, None, |_, _| {
            self.with_directory(|path| match Model::read(path)?.origin {
                Origin::Read { files, .. } => Ok(files),
                Origin::Kept(..) => Ok(Vec::new()),
            })
        })
    }

    /// Writes a run directory. `data`: with the data of training as a store in it, so that the command line finds them.
    #[pyo3(signature = (path, data = false))]
    fn save(&self, py: Python<'_>, path: PathBuf, data: bool) -> PyResult<()> {
        let _still = self.still(py, None)?;
        work::run(py, 0, None, |stop, _| {
            if let (Origin::Kept(kept, _), true) = (&self.origin, data) {
                self.trained_on(kept)?;
            }
            self.write(&path)?;
            match (&self.origin, data) {
                (Origin::Kept(kept, _), true) => write_data(kept, &path, stop),
                (Origin::Read { .. }, true) => {
                    Err(Error::Data("a model that was read has its data where it says: save it without data".into()))
                }
                (_, false) => Ok(()),
            }
        })
    }

    /// Logits, or the numbers that a regression predicts: units x outputs, in the order of the source.
    #[pyo3(signature = (data = None))]
    fn logits<'py>(&self, py: Python<'py>, data: Option<&Data>) -> PyResult<Bound<'py, PyAny>> {
        let outputs = self.saved.model.layout.architecture.outputs;
        let _still = self.still(py, data)?;
        let logits = work::run(py, self.saved.config.run.threads, None, |_, _| match (data, &self.origin) {
            (Some(data), _) => in_order(&data.whole, self.saved.model.logits(&data.whole)?, outputs),
            (None, Origin::Kept(kept, _)) => {
                let whole = self.trained_on(kept)?.whole();
                in_order(whole, self.saved.model.logits(whole)?, outputs)
            }
            (None, Origin::Read { .. }) => {
                let held = self.on(None)?;
                // Features are as the model sees them already.
                let model = harmonia::FittedModel { scaling: None, ..self.saved.model.clone() };
                in_order(&held.run().dataset, model.logits(&held.run().dataset)?, outputs)
            }
        })?;
        let units = logits.len() / outputs.max(1);
        PyArray1::from_vec(py, logits).call_method1("reshape", ((units, outputs),))
    }

    /// Probabilities of logits as `logits` has them: units x classes (or labels).
    fn probabilities<'py>(
        &self,
        py: Python<'py>,
        logits: numpy::PyReadonlyArray2<'py, f32>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let outputs = self.saved.model.layout.architecture.outputs;
        if self.is_regression() {
            return Err(to_python(Error::Data("a regression has no probabilities".into())));
        }
        let both = outputs == 1 && self.saved.metadata.class_names.len() == 2;
        let mut all = Vec::new();
        for row in logits.as_slice()?.chunks_exact(outputs) {
            let mut wide: Vec<f64> = row.iter().map(|&z| f64::from(z)).collect();
            self.saved.model.objective.predict(&mut wide);
            all.extend(both.then(|| 1.0 - wide[0]));
            all.extend(wide);
        }
        let width = outputs + usize::from(both);
        let units = all.len() / width;
        PyArray1::from_vec(py, all).call_method1("reshape", ((units, width),))
    }

    /// theta, walk lengths x columns of X.
    fn hop_weights<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let factors = &self.saved.factors;
        PyArray1::from_slice(py, &factors.hop_weights).call_method1("reshape", ((factors.hops(), factors.features()),))
    }

    /// Parameters in the order of the checkpoint's layout.
    fn parameters<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<f32>> {
        PyArray1::from_slice(py, &self.saved.model.parameters)
    }

    /// SHA-256 of them.
    fn parameters_sha256(&self) -> String {
        self.saved.model.parameters_sha256()
    }

    #[getter]
    fn is_regression(&self) -> bool {
        self.saved.model.objective.is_regression()
    }

    /// Whether a unit has one class.
    #[getter]
    fn has_one_class(&self) -> bool {
        let outputs = self.saved.model.layout.architecture.outputs;
        !self.is_regression() && (outputs > 1) == (self.saved.model.objective == harmonia::loss::Objective::Softmax)
    }

    #[getter]
    fn class_names(&self) -> Vec<String> {
        self.saved.metadata.class_names.clone()
    }

    /// Of the columns of X, structural ones left out.
    #[getter]
    fn own_feature_names(&self) -> Vec<String> {
        self.saved.metadata.own_names()
    }

    /// Of all columns of X, as the model reads them.
    #[getter]
    fn feature_names(&self) -> Vec<String> {
        self.saved.metadata.feature_names.clone()
    }

    /// The columns of a table that X is made of, as JSON; none where they are plain numbers.
    #[getter]
    fn schema(&self) -> Option<String> {
        self.saved.metadata.schema.as_ref().and_then(|schema| serde_json::to_string(schema).ok())
    }

    /// What it predicts: "node" or "graph".
    #[getter]
    fn level(&self) -> &'static str {
        if self.saved.metadata.level == Some(Level::Graph) { "graph" } else { "node" }
    }

    #[getter]
    fn dataset(&self) -> &str {
        &self.saved.metadata.dataset
    }

    /// Settings, as TOML.
    #[getter]
    fn config(&self) -> PyResult<String> {
        to_toml(&self.saved.config).or_raise()
    }

    /// `summary.json`; none where training was not finished.
    #[getter]
    fn summary(&self) -> Option<String> {
        self.summary.as_ref().and_then(|summary| serde_json::to_string(summary).ok())
    }

    /// Every epoch, as in `metrics.jsonl`.
    #[getter]
    fn history(&self) -> Vec<String> {
        self.history.iter().filter_map(|record| serde_json::to_string(record).ok()).collect()
    }

    /// Writes the page about the run; `units`: predictions to show, or a few that say something.
    #[pyo3(signature = (path, units = Vec::new(), diagnose = true, data = None))]
    fn report(
        &self,
        py: Python<'_>,
        path: PathBuf,
        units: Vec<usize>,
        diagnose: bool,
        data: Option<&Data>,
    ) -> PyResult<()> {
        let _still = self.still(py, data)?;
        work::run(py, 0, None, |stop, _| {
            let watch = Watch::new(&|_| (), stop.clone());
            // Of a model that was read, data that are not here are left out of the page.
            let needed = data.is_some() || matches!(self.origin, Origin::Kept(..));
            let held = self.on(data).map(Some).or_else(|error| if needed { Err(error) } else { Ok(None) })?;
            let page = self.with_directory(|directory| {
                let mut read = ReadModel::open(directory)?;
                if let (Some(held), Some(_)) = (&held, data) {
                    read.measured = None;
                    read.centres = centre::mean_responses(&held.run().factors, &held.run().dataset.features);
                }
                if let Some(held) = &held {
                    read.complete(held.run(), true, &watch)?;
                }
                let models = [read];
                let run = held.as_ref().map(|held| held.run());
                let request = report::Request {
                    models: &models,
                    run,
                    other: data.is_some(),
                    units: &units,
                    diagnose,
                    watch: &watch,
                };
                report::html(&report::full(&request)?)
            })?;
            files::write_atomic(&path, page.as_bytes())
        })
    }
}

/// Rows of nodes as the source numbers them.
fn in_order(dataset: &Dataset, logits: Vec<f32>, outputs: usize) -> Result<Vec<f32>> {
    let Some(order) = dataset.node_order.as_ref().filter(|_| dataset.level == Level::Node) else { return Ok(logits) };
    let mut all = vec![0f32; logits.len()];
    for (row, &original) in logits.chunks_exact(outputs.max(1)).zip(order.original.iter()) {
        all[original as usize * outputs..][..outputs].copy_from_slice(row);
    }
    Ok(all)
}

/// A store in a run directory that was just written, and the settings that name it.
fn write_data(kept: &Kept, path: &Path, stop: &Stop) -> Result<()> {
    let store = std::path::absolute(path.join("data")).map_err(Error::io("find", path))?;
    let whole = kept.given();
    let mut writer = Writer::create(&store)?.stopping(stop);
    writer.dataset(&whole)?;
    writer.finish(Description::of(&whole))?;
    let mut config = kept.run.config.clone();
    config.data.dataset = files::utf8(&store)?.to_string();
    files::write_atomic(&path.join("config.toml"), to_toml(&config)?.as_bytes())
}

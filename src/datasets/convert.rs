//! Raw files of any format to a store: which reader reads them, and what they share.
//!
//! Formats that can be large (OGB, IGB) stream to the store; the others are read as a [`Dataset`] and written.

use super::archive::Archive;
use super::catalogue::Format;
use super::{Dataset, Level, heterophilous, igb, ogb, planetoid, smiles, table, tudataset};
use crate::error::{Error, Result};
use crate::graph::{Direction, Graph, Reorder};
use crate::store::{ArrayWriter, Counts, Description, Source, Writer};
use half::f16;
use std::path::{Path, PathBuf};

/// Settings of a conversion.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Name of the dataset.
    pub name: String,
    /// Enter every edge both ways.
    pub undirected: bool,
    /// Keep dense features in half precision.
    pub half: bool,
    /// Order of the nodes, where it is not that of the source.
    pub reorder: Option<Reorder>,
    /// TUDataset: which columns.
    pub node_features: tudataset::NodeFeatures,
    /// SMILES: which columns.
    pub columns: smiles::Columns,
    /// Tables: which files and columns.
    pub tables: table::Options,
    /// Files that are read, where the caller knows them; else the input, or the files directly in it.
    pub files: Vec<PathBuf>,
    /// Where the data come from; made by [`convert`].
    pub source: Option<Source>,
}

impl Options {
    /// For `meta.json`: a store made with other settings is not the same store.
    pub(super) fn words(&self) -> String {
        let mut words = Vec::new();
        words.extend(self.undirected.then(|| "undirected".to_string()));
        words.extend(self.half.then(|| "f16".to_string()));
        words.extend(self.reorder.map(|method| format!("reorder {}", method.name())));
        if self.node_features != tudataset::NodeFeatures::Default {
            words.push(format!("features {:?}", self.node_features).to_lowercase());
        }
        for (what, column) in [("smiles", &self.columns.smiles), ("label", &self.columns.label)] {
            words.extend(column.as_ref().map(|column| format!("{what} column {column}")));
        }
        words.join(", ")
    }
}

/// Hears of the progress of long work.
pub struct Watch<'a> {
    report: &'a dyn Fn(Report<'_>),
}

/// What is going on.
pub enum Report<'a> {
    /// Something without a measure has begun.
    Step(&'a str),
    /// So much of something is done; a total of 0 or `u64::MAX` is not known.
    Progress(&'a str, u64, u64),
}

impl<'a> Watch<'a> {
    /// Passes everything on to `report`.
    pub fn new(report: &'a dyn Fn(Report<'_>)) -> Self {
        Watch { report }
    }

    /// Says what has begun.
    pub fn step(&self, what: &str) {
        (self.report)(Report::Step(what));
    }

    /// Says how far something is.
    pub fn progress(&self, what: &str, done: u64, total: u64) {
        (self.report)(Report::Progress(what, done, total));
    }
}

/// What there is to say about a conversion.
#[derive(Clone, Debug, Default)]
pub struct Converted {
    /// Rows that were left out, each with its line and the reason.
    pub skipped: Vec<String>,
}

/// Converts `input` into a store at `target`.
///
/// # Errors
/// Input that is missing, damaged or of another format; nothing is left behind.
pub fn convert(format: Format, input: &Path, target: &Path, options: &Options, watch: &Watch) -> Result<Converted> {
    if !input.exists() {
        return Err(Error::file(input, "there is no such file or directory to convert"));
    }
    let mut options = options.clone();
    if options.name.is_empty() {
        options.name = name_of(input);
    }
    options.source = Some(source(format, input, &options)?);
    let (dataset, skipped) = match format {
        Format::Ogb => return ogb::convert(input, target, &options, watch),
        Format::Igb => return igb::convert(input, target, &options, watch),
        Format::Planetoid => (planetoid::load(&planetoid_name(input, &options.name), input)?, Vec::new()),
        Format::TuDataset => {
            let archive = Archive::open(input)?;
            let name = tu_name(&archive, &options.name)?;
            let features = tudataset::Options { features: options.node_features };
            (tudataset::load(&name, &archive, features)?, Vec::new())
        }
        Format::Heterophilous => (heterophilous::load(&options.name, &only(input, "npz")?)?, Vec::new()),
        Format::Smiles => smiles::load(&options.name, &molecules(input)?, &options.columns)?,
        Format::Table => {
            let tables = table::Options {
                directed: !options.undirected,
                directory: input.to_path_buf(),
                ..options.tables.clone()
            };
            (table::load(&options.name, &tables)?, Vec::new())
        }
    };
    write(dataset, target, &options, watch)?;
    let place =
        |row: &smiles::Skipped| format!("{}: line {}: `{}`: {}", input.display(), row.line, row.smiles, row.reason);
    let skipped = skipped.iter().map(place).collect();
    Ok(Converted { skipped })
}

fn write(mut dataset: Dataset, target: &Path, options: &Options, watch: &Watch) -> Result<()> {
    watch.step("writing");
    dataset.name.clone_from(&options.name);
    if options.undirected {
        dataset.graph = dataset.graph.undirected()?;
    }
    let features = (*dataset.features).clone().compact();
    dataset.features = std::sync::Arc::new(if options.half { features.halved()? } else { features });
    let mut writer = Writer::create(target)?;
    writer.dataset(&dataset)?;
    if let Some(method) = options.reorder {
        reorder(&mut writer, method, dataset.graph.clone(), &dataset.graph_ptr, dataset.level, watch)?;
    }
    writer.finish(Description { source: options.source.clone(), ..Description::of(&dataset) })
}

/// What is known of a large node task once labels, split and features are written.
pub(super) struct NodeTask {
    pub nodes: usize,
    pub features: usize,
    pub classes: usize,
    pub class_names: Vec<String>,
}

impl NodeTask {
    /// Builds the graph of the rows of edges, which came from `origin`, writes it and closes the store.
    ///
    /// # Errors
    /// A node id out of range, or a disk that is full.
    pub fn finish(
        self,
        mut writer: Writer,
        edges: Vec<(u32, u32)>,
        origin: &Path,
        options: &Options,
        watch: &Watch,
    ) -> Result<Converted> {
        watch.step("building the graph");
        let edge_rows = edges.len() as u64;
        let direction = if options.undirected { Direction::Undirected } else { Direction::Directed };
        let graph = Graph::from_edges(self.nodes, &edges, None, direction)
            .map_err(|error| Error::file(origin, error.to_string()))?;
        drop(edges);
        watch.step("writing");
        writer.adjacency(graph.adjacency())?;
        let description = Description {
            name: options.name.clone(),
            classes: self.classes,
            class_names: self.class_names,
            edge_rows: Some(edge_rows),
            source: options.source.clone(),
            counts: Some(Counts {
                nodes: self.nodes,
                directed_edges: graph.directed_edges(),
                features: self.features,
                graphs: 1,
            }),
            symmetric: options.undirected.then_some(true),
            ..Description::default()
        };
        match options.reorder {
            Some(method) => reorder(&mut writer, method, graph, &[0, self.nodes], Level::Node, watch)?,
            None => drop(graph),
        }
        watch.step("checking");
        writer.finish(description)?;
        Ok(Converted::default())
    }
}

/// Puts the nodes of a store in another order, once everything else is written.
pub(super) fn reorder(
    writer: &mut Writer,
    method: Reorder,
    graph: Graph,
    graph_ptr: &[usize],
    level: Level,
    watch: &Watch,
) -> Result<()> {
    watch.step("ordering nodes");
    let order = method.order(&graph, graph_ptr)?;
    // From here on the files are enough.
    drop(graph);
    writer.renumber(method, &order, level, watch)
}

/// Writes numbers in the precision of the array.
pub(crate) fn write_floats(array: &mut ArrayWriter, values: &[f32], half: bool, origin: &Path) -> Result<()> {
    if !half {
        return array.write(bytemuck::cast_slice(values));
    }
    let halves: Vec<f16> = values.iter().map(|&value| f16::from_f32(value)).collect();
    if let Some(at) = halves.iter().position(|value| !value.is_finite()) {
        let message = format!("holds {}, beyond the range of half precision; convert without --f16", values[at]);
        return Err(Error::file(origin, message));
    }
    array.write(bytemuck::cast_slice(&halves))
}

/// A name for data that came without one.
fn name_of(input: &Path) -> String {
    let absolute = std::path::absolute(input).unwrap_or_else(|_| input.to_path_buf());
    let raw = |path: &&Path| path.file_name().is_some_and(|name| !name.eq_ignore_ascii_case("raw"));
    let stem =
        absolute.ancestors().find(raw).and_then(|path| if path.is_dir() { path.file_name() } else { path.file_stem() });
    stem.map_or("data".into(), |stem| stem.to_string_lossy().to_lowercase())
}

/// Files by size and time: enough to notice that they were replaced.
fn source(format: Format, input: &Path, options: &Options) -> Result<Source> {
    let files: Vec<PathBuf> = match input.is_dir() {
        _ if !options.files.is_empty() => options.files.clone(),
        false => vec![input.to_path_buf()],
        true => {
            let entries = std::fs::read_dir(input).map_err(Error::io("read", input))?;
            entries.flatten().map(|entry| entry.path()).collect()
        }
    };
    let mut files = files.iter().filter(|path| path.is_file()).map(|path| stamp(path)).collect::<Result<Vec<_>>>()?;
    files.sort();
    Ok(Source { format: format.name().into(), options: options.words(), files })
}

/// (name, bytes, seconds of the last change).
pub(super) fn stamp(path: &Path) -> Result<(String, u64, u64)> {
    let data = std::fs::metadata(path).map_err(Error::io("read", path))?;
    let changed = data.modified().ok().and_then(|time| time.duration_since(std::time::UNIX_EPOCH).ok());
    let name = path.file_name().map_or(String::new(), |name| name.to_string_lossy().into_owned());
    Ok((name, data.len(), changed.map_or(0, |time| time.as_secs())))
}

/// Planetoid files carry the name of the dataset: `ind.cora.allx`. The wished name if there are such files of it or
/// none at all, so that the reader says what is missing.
fn planetoid_name(input: &Path, wished: &str) -> String {
    let folders = [input.to_path_buf(), input.join("raw")];
    let entries = folders.iter().flat_map(|folder| std::fs::read_dir(folder).into_iter().flatten().flatten());
    let files = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
    let names: Vec<String> =
        files.filter_map(|file| Some(file.strip_prefix("ind.")?.strip_suffix(".allx")?.to_string())).collect();
    match &names[..] {
        [name] if !name.eq_ignore_ascii_case(wished) => name.clone(),
        _ => wished.to_string(),
    }
}

/// TUDataset files start with the name of the dataset: `MUTAG_A.txt`.
fn tu_name(archive: &Archive, wished: &str) -> Result<String> {
    let names: Vec<&str> =
        (archive.names().iter()).filter_map(|name| name.rsplit('/').next()?.strip_suffix("_A.txt")).collect();
    let wished = names.iter().find(|name| name.eq_ignore_ascii_case(wished));
    match (wished, &names[..]) {
        (Some(name), _) => Ok(name.to_string()),
        (None, [name]) => Ok(name.to_string()),
        (None, []) => {
            Err(Error::file(archive.path(), "expected a TUDataset: <NAME>_A.txt, <NAME>_graph_indicator.txt, ..."))
        }
        (None, several) => {
            let message = format!("holds several datasets ({}); choose one with --name", several.join(", "));
            Err(Error::file(archive.path(), message))
        }
    }
}

/// The file itself, or the only one with that ending in a directory.
fn only(input: &Path, ending: &str) -> Result<PathBuf> {
    if !input.is_dir() {
        return Ok(input.to_path_buf());
    }
    let found: Vec<PathBuf> = (std::fs::read_dir(input).map_err(Error::io("read", input))?.flatten())
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|found| found.eq_ignore_ascii_case(ending)))
        .collect();
    match &found[..] {
        [path] => Ok(path.clone()),
        _ => {
            Err(Error::file(input, format!("expected one .{ending} file in it, found {}; name the file", found.len())))
        }
    }
}

/// A table of molecules, by itself or in a directory.
fn molecules(input: &Path) -> Result<PathBuf> {
    ["tab", "tsv", "csv"]
        .iter()
        .find_map(|ending| only(input, ending).ok())
        .ok_or_else(|| Error::file(input, "expected one table of molecules (.csv, .tsv or .tab) in it; name the file"))
}

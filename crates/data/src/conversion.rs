//! What every conversion shares: its settings, the end of one, and how its source is remembered.
//!
//! Readers of large formats stream to a [`Writer`] and close it with `NodeTask::finish`; the others read a [`Dataset`] and
//! hand it to `write`.

use half::f16;
use harmonia_graph::dataset::{Dataset, Level};
use harmonia_graph::error::{Error, Result};
use harmonia_graph::graph::{Direction, EdgeList, Graph, Reorder};
use harmonia_graph::store::{ArrayWriter, Counts, Description, Source, Writer};
use harmonia_graph::watch::Watch;
use std::path::{Path, PathBuf};

/// Settings that every conversion has.
#[derive(Clone, Debug, Default)]
pub struct Common {
    /// Name of the dataset.
    pub name: String,
    /// Enter every edge both ways.
    pub undirected: bool,
    /// Keep dense features in half precision.
    pub half: bool,
    /// Order of the nodes, where it is not that of the source.
    pub reorder: Option<Reorder>,
    /// Where the data come from, for `meta.json`.
    pub source: Option<Source>,
}

/// What there is to say about a conversion.
#[derive(Clone, Debug, Default)]
pub struct Converted {
    /// Rows that were left out, each with its line and the reason.
    pub skipped: Vec<String>,
    /// What the user should know about the rest.
    pub notes: Vec<String>,
}

/// Writes a dataset that was read whole, as `options` want it.
///
/// # Errors
/// The place is taken or cannot be written; nothing is left behind.
pub(crate) fn write(mut dataset: Dataset, target: &Path, common: &Common, watch: &Watch) -> Result<Converted> {
    watch.step("writing");
    dataset.name.clone_from(&common.name);
    if common.undirected {
        dataset.graph = dataset.graph.undirected()?;
    }
    let features = (*dataset.features).clone().compact();
    dataset.features = std::sync::Arc::new(if common.half { features.halved()? } else { features });
    let mut writer = Writer::create(target)?.stopping(watch.stop());
    writer.dataset(&dataset)?;
    if let Some(method) = common.reorder {
        reorder(&mut writer, method, dataset.graph.clone(), &dataset.graph_ptr, dataset.level, watch)?;
    }
    writer.finish(Description { source: common.source.clone(), ..Description::of(&dataset) })?;
    Ok(Converted::default())
}

/// What is known of a large node task once labels, split and features are written.
pub(crate) struct NodeTask {
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
        edges: EdgeList,
        origin: &Path,
        common: &Common,
        watch: &Watch,
    ) -> Result<Converted> {
        watch.step("building the graph");
        let (edge_rows, edges) = (edges.rows(), edges.into_pairs());
        let direction = if common.undirected { Direction::Undirected } else { Direction::Directed };
        let graph = Graph::from_edges(self.nodes, &edges, None, direction)
            .map_err(|error| Error::file(origin, error.to_string()))?;
        drop(edges);
        watch.step("writing");
        writer.adjacency(graph.adjacency())?;
        let description = Description {
            name: common.name.clone(),
            classes: self.classes,
            class_names: self.class_names,
            edge_rows: Some(edge_rows),
            source: common.source.clone(),
            counts: Some(Counts {
                nodes: self.nodes,
                directed_edges: graph.directed_edges(),
                features: self.features,
                graphs: 1,
            }),
            symmetric: common.undirected.then_some(true),
            ..Description::default()
        };
        match common.reorder {
            Some(method) => reorder(&mut writer, method, graph, &[0, self.nodes], Level::Node, watch)?,
            None => drop(graph),
        }
        watch.step("checking");
        writer.finish(description)?;
        Ok(Converted::default())
    }
}

/// Puts the nodes of a store in another order, once everything else is written.
pub(crate) fn reorder(
    writer: &mut Writer,
    method: Reorder,
    graph: Graph,
    graph_ptr: &[usize],
    level: Level,
    watch: &Watch,
) -> Result<()> {
    watch.step("ordering nodes");
    let order = method.order(&graph, graph_ptr, watch.stop())?;
    // From here on the files are enough.
    drop(graph);
    writer.renumber(method.name(), &order, level, watch)
}

/// Writes numbers in the precision of the array.
pub(crate) fn write_floats(array: &mut ArrayWriter, values: &[f32], half: bool, origin: &Path) -> Result<()> {
    if !half {
        return array.write(bytemuck::cast_slice(values));
    }
    let halves: Vec<f16> = values.iter().map(|&value| f16::from_f32(value)).collect();
    if let Some(at) = halves.iter().position(|value| !value.is_finite()) {
        let message = format!("holds {}, beyond the range of half precision: set half = false", values[at]);
        return Err(Error::file(origin, message));
    }
    array.write(bytemuck::cast_slice(&halves))
}

/// The file itself, or the only one with that ending in a directory.
pub(crate) fn only(input: &Path, ending: &str) -> Result<PathBuf> {
    if !input.is_dir() {
        return Ok(input.to_path_buf());
    }
    let files: Vec<PathBuf> = (std::fs::read_dir(input).map_err(Error::io("read", input))?.flatten())
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case(ending)))
        .collect();
    match &files[..] {
        [path] => Ok(path.clone()),
        _ => {
            Err(Error::file(input, format!("expected one .{ending} file in it, found {}; name the file", files.len())))
        }
    }
}

/// (name, bytes, seconds of the last change).
pub(crate) fn stamp(path: &Path) -> Result<(String, u64, u64)> {
    let data = std::fs::metadata(path).map_err(Error::io("read", path))?;
    let changed = data.modified().ok().and_then(|time| time.duration_since(std::time::UNIX_EPOCH).ok());
    let name = path.file_name().map_or(String::new(), |name| name.to_string_lossy().into_owned());
    Ok((name, data.len(), changed.map_or(0, |time| time.as_secs())))
}

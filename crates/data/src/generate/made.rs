//! A generated dataset, made: its graph, labels and split in memory, its features row by row when asked for.

use super::numbers::TEACHER_R2;
use super::{Generator, Planted, Tables};
use crate::conversion::{reorder, write_floats};
use harmonia_graph::dataset::{Labels, Level};
use harmonia_graph::error::Result;
use harmonia_graph::graph::{Graph, Reorder, Split};
use harmonia_graph::npy::Element;
use harmonia_graph::store::{Counts, Description, Writer};
use harmonia_graph::watch::Watch;
use rayon::prelude::*;
use serde_json::json;
use std::path::Path;

/// Nodes whose features are made at a time.
const BLOCK: usize = 1 << 12;

/// A generator with everything that is not a function of a row.
pub struct Made {
    generator: Generator,
    /// Kept for the writers that list edges.
    edges: Vec<(u32, u32)>,
    edge_rows: usize,
    graph: Graph,
    planted: Planted,
    split: Split,
}

impl Made {
    /// Makes edges, graph and labels; the list of edges is kept if asked for.
    ///
    /// # Errors
    /// A shape that no labels can be planted in.
    pub fn new(generator: Generator, keep_edges: bool, watch: &Watch) -> Result<Made> {
        watch.step("drawing edges");
        let mut edges = generator.edges();
        watch.check()?;
        watch.step("building the graph");
        let edge_rows = edges.len();
        let graph = Graph::from_edges(generator.shape().nodes, &edges, None, generator.direction())?;
        if !keep_edges {
            edges = Vec::new();
        }
        watch.check()?;
        watch.step("planting labels");
        let planted = generator.labels(&graph)?;
        watch.check()?;
        let split = generator.split();
        Ok(Made { generator, edges, edge_rows, graph, planted, split })
    }

    /// What the labels come from.
    pub fn planted(&self) -> &Planted {
        &self.planted
    }

    /// Hands the tables to a writer of another layout.
    ///
    /// # Errors
    /// What the writer gives.
    pub fn with_tables<R>(&self, write: impl FnOnce(&Tables<'_>) -> Result<R>) -> Result<R> {
        let row = |i: usize, row: &mut [f32]| self.generator.feature_row(i, row);
        write(&Tables::of(&self.generator, &self.edges, &row, &self.planted.labels, &self.split))
    }
}

/// How a store of generated data is kept.
#[derive(Clone, Copy, Debug, Default)]
pub struct Keep {
    /// Features in half precision.
    pub half: bool,
    /// Order of the nodes, where it is not the one they were drawn in.
    pub reorder: Option<Reorder>,
    /// Numbers to be fitted instead of classes.
    pub regression: bool,
}

/// Writes a store.
///
/// # Errors
/// The place is taken or cannot be written; nothing is left behind.
pub fn write_store(made: Made, name: &str, target: &Path, keep: Keep, watch: &Watch) -> Result<()> {
    let Made { generator, edge_rows, graph, planted, split, .. } = made;
    let (nodes, cols) = (generator.shape().nodes, generator.shape().features);
    let mut writer = Writer::create(target)?.stopping(watch.stop());
    watch.step("writing");
    writer.adjacency(graph.adjacency())?;
    let counts = Counts { nodes, directed_edges: graph.directed_edges(), features: cols, graphs: 1 };
    let symmetric = graph.is_symmetric().then_some(true);
    let classes = if keep.regression { 1 } else { generator.shape().classes };
    let labels = match keep.regression {
        true => Labels::Values { values: generator.numbers(&graph)?, width: 1 },
        false => Labels::Classes { ids: planted.labels, classes },
    };
    // Dropped here, unless its nodes are to be put in order at the end.
    let ordered = keep.reorder.map(|method| (method, graph));
    let mut about = json!({
        "like": generator.shape(),
        "seed": generator.seed(),
        "teacher_accuracy": planted.teacher_accuracy,
        "local_accuracy": planted.local_accuracy,
        "majority_share": planted.majority_share,
        "duplicate_share": planted.duplicate_share,
        "truth": planted.truth,
    });
    if keep.regression {
        about = json!({
            "like": generator.shape(),
            "seed": generator.seed(),
            "teacher_r2": TEACHER_R2,
            "duplicate_share": planted.duplicate_share,
            "truth": planted.truth,
        });
    }
    writer.labels(&labels)?;
    writer.splits(&[split], nodes)?;
    let element = if keep.half { Element::F16 } else { Element::F32 };
    let mut array = writer.stream("features.npy", element, &[nodes, cols])?;
    for start in (0..nodes).step_by(BLOCK) {
        watch.check()?;
        let mut block = vec![0f32; BLOCK.min(nodes - start) * cols];
        block.par_chunks_mut(cols).enumerate().for_each(|(row, values)| generator.feature_row(start + row, values));
        write_floats(&mut array, &block, keep.half, target)?;
        watch.progress("features", start as u64, nodes as u64);
    }
    writer.take(array)?;
    if let Some((method, graph)) = ordered {
        reorder(&mut writer, method, graph, &[0, nodes], Level::Node, watch)?;
    }
    watch.step("checking");
    writer.finish(Description {
        name: name.into(),
        classes,
        regression: keep.regression,
        edge_rows: Some(edge_rows as u64),
        generator: Some(about),
        counts: Some(counts),
        symmetric,
        ..Description::default()
    })
}

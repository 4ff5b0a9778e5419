//! The nodes: how many, their ids, features, and whatever else their file says of them.
//!
//! A text or Parquet file has one row per node; numpy files have arrays with one row per node. Words become one-hot features
//! named `column=value`. Invariant: features have one row for each node, in the order of the nodes.

use super::arrays::{self, Arrays};
use super::column::{Role, Table, Values};
use super::index::Index;
use super::listing::units;
use super::sheet::{Kind, Sheet, is_header};
use super::source::Files;
use super::{Columns, Options};
use harmonia_graph::dataset::Features;
use harmonia_graph::error::{Error, Result};
use harmonia_graph::files;
use harmonia_graph::npy::Npy;
use std::path::{Path, PathBuf};

/// All that is said of the nodes.
pub(super) struct Nodes {
    pub(super) path: PathBuf,
    pub(super) index: Index,
    /// Ids as text; empty where they are the row numbers.
    pub(super) names: Vec<String>,
    pub(super) features: Features,
    /// Empty where the file has none.
    pub(super) feature_names: Vec<String>,
    /// The rows, where the file has columns.
    pub(super) table: Option<Table>,
    pub(super) labels: Option<Table>,
    pub(super) graph: Option<Table>,
    pub(super) lists: [Option<Table>; 3],
}

/// A file of rows or arrays.
struct Part {
    path: PathBuf,
    table: Option<Table>,
    named: bool,
    arrays: Arrays,
}

impl Part {
    fn read(path: &Path, columns: &Columns) -> Result<Part> {
        let nothing = Arrays { features: None, labels: None, graph: None, lists: [None, None, None] };
        let mut part = Part { path: path.to_path_buf(), table: None, named: false, arrays: nothing };
        match Kind::of(path)? {
            Kind::Npy => {
                let bytes = files::read(path)?;
                part.arrays.features = Some(arrays::matrix(&Npy::parse(&bytes, path)?, path)?);
            }
            Kind::Npz => part.arrays = arrays::nodes(path, columns.regression)?,
            Kind::Text | Kind::Parquet => {
                let sheet = Sheet::open(path)?;
                let names = sheet.names(|first| is_header(path, first, |name| columns.is_reserved(name)))?;
                part.named = names.is_some();
                if let Some(names) = &names {
                    columns.check(path, names, &[])?;
                }
                let unnamed = if part.named { None } else { Some(numbered(sheet.width())) };
                let named = part.named;
                part.table = Some(sheet.read(unnamed, |name| match () {
                    () if !named => Role::Measure,
                    () if columns.is_ignored(name) => Role::Skip,
                    () if columns.is_reserved(name) => Role::Key,
                    () => Role::Measure,
                })?);
            }
        }
        Ok(part)
    }

    /// Features and, where they have any, their names.
    fn features(&mut self) -> Option<(Features, Vec<String>)> {
        if let Some(features) = self.arrays.features.take() {
            return Some((features, Vec::new()));
        }
        let (features, names) = interleaved(self.table.as_mut()?)?;
        Some((features, if self.named { names } else { Vec::new() }))
    }
}

fn numbered(width: usize) -> Vec<String> {
    (0..width).map(|k| format!("feature {k}")).collect()
}

/// Reads nodes.* and features.*; either will do.
///
/// # Errors
/// A bad row, features in both or neither, or files of different length.
pub(super) fn load(files: &Files, options: &Options) -> Result<Nodes> {
    let columns = &options.columns;
    let Some(first) = files.nodes.as_ref().or(files.features.as_ref()) else {
        return Err(Error::file(&options.directory, "expected nodes.* or features.*"));
    };
    let mut part = Part::read(first, columns)?;
    let own = part.features();
    let rows = part.table.as_ref().map(|table| table.rows).or(own.as_ref().map(|(features, _)| features.rows));
    let rows = rows.or(part.arrays.graph.as_ref().map(|graph| graph.rows));
    let rows = rows.or(part.arrays.labels.as_ref().map(|labels| labels.rows)).unwrap_or(0);
    if rows == 0 {
        return Err(Error::file(&part.path, "expected at least one node, found no rows"));
    }
    let origin = part.path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let id = part.table.as_ref().filter(|_| part.named);
    let (index, names) = match id.and_then(|table| table.column(|name| columns.is_id(name)).map(|id| (table, id))) {
        Some((table, id)) => Index::from_column("node", table, id)?,
        None => (Index::rows("node", &origin, rows), Vec::new()),
    };
    let other = match (&files.nodes, &files.features) {
        (Some(_), Some(path)) => Some(separate(path, columns, &index)?),
        _ => None,
    };
    let (features, feature_names) = match (own, other) {
        (Some(_), Some(_)) => {
            let message = format!("{origin} has features too; keep them in one of the files");
            return Err(Error::file(files.features.as_ref().unwrap_or(&part.path), message));
        }
        (Some(features), None) | (None, Some(features)) => features,
        (None, None) => {
            let message = "expected columns of features beside id, label, split and graph, or a file features.*; a graph \
                           without features of its own can be given a constant column or the degrees";
            return Err(Error::file(&part.path, message));
        }
    };
    let named = part.named;
    let Arrays { labels, graph, lists, .. } = part.arrays;
    let table = part.table.filter(|_| named);
    Ok(Nodes { path: part.path, index, names, features, feature_names, table, labels, graph, lists })
}

/// Features in a file of their own, put in the order of the nodes where it has ids.
fn separate(path: &Path, columns: &Columns, index: &Index) -> Result<(Features, Vec<String>)> {
    let mut part = Part::read(path, columns)?;
    let extra = |table: &Table| {
        let reserved = |name: &&str| columns.is_reserved(name) && !columns.is_id(name) && !columns.is_ignored(name);
        table.columns.iter().map(|column| column.name.as_str()).find(reserved).map(str::to_string)
    };
    if let Some(name) = part.table.as_ref().filter(|_| part.named).and_then(extra) {
        let message = format!("column `{name}`: expected id and features only; put it into nodes.*");
        return Err(Error::file(path, message));
    }
    let arrays = &part.arrays;
    if arrays.labels.is_some() || arrays.graph.is_some() || arrays.lists.iter().any(Option::is_some) {
        return Err(Error::file(path, "expected features only; put labels, graph and splits into nodes.npz"));
    }
    let Some((features, names)) = part.features() else {
        return Err(Error::file(path, "expected columns or an array of features, found none"));
    };
    arrays::same_rows(path, features.rows, "node", index.count())?;
    let id = part.table.as_ref().filter(|_| part.named).filter(|t| t.column(|name| columns.is_id(name)).is_some());
    let Some(table) = id else { return Ok((features, names)) };
    // As many distinct ids as nodes: every node has its row.
    let mut rows = vec![0..0; features.rows];
    for (row, unit) in units(table, columns, index)?.into_iter().enumerate() {
        if let Some(place) = rows.get_mut(unit as usize) {
            *place = row..row + 1;
        }
    }
    Ok((features.rows(&rows), names))
}

/// The measures of a table side by side, row-major; `None` where there are none. Takes them out of the table.
fn interleaved(table: &mut Table) -> Option<(Features, Vec<String>)> {
    let mut names = Vec::new();
    let mut measures = Vec::new();
    for column in &mut table.columns {
        if !matches!(column.values, Values::Numbers(_) | Values::Categories { .. }) {
            continue;
        }
        let values = std::mem::replace(&mut column.values, Values::Skipped);
        let start = names.len();
        match &values {
            Values::Categories { names: words, .. } => {
                names.extend(words.iter().map(|word| format!("{}={word}", column.name)));
            }
            _ => names.push(column.name.clone()),
        }
        measures.push((start, values));
    }
    let (rows, cols) = (table.rows, names.len());
    if cols == 0 {
        return None;
    }
    let mut values = vec![0f32; rows.checked_mul(cols)?];
    // A block of rows at a time stays in the cache while the columns are laid into it.
    const BLOCK: usize = 256;
    for (block, out) in values.chunks_mut(BLOCK * cols).enumerate() {
        let (from, count) = (block * BLOCK, out.len() / cols);
        for (start, measure) in &measures {
            match measure {
                Values::Numbers(column) => {
                    let column = column.get(from..from + count).unwrap_or(&[]);
                    out.iter_mut().skip(*start).step_by(cols).zip(column).for_each(|(to, &value)| *to = value);
                }
                Values::Categories { codes, .. } => {
                    let codes = codes.get(from..from + count).unwrap_or(&[]);
                    for (row, &code) in out.chunks_exact_mut(cols).zip(codes) {
                        if let Some(to) = row.get_mut(start + usize::from(code)) {
                            *to = 1.0;
                        }
                    }
                }
                _ => {}
            }
        }
    }
    Features::new(rows, cols, values).ok().map(|features| (features, names))
}

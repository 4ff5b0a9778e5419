//! The nodes: how many, their ids, features, and whatever else their file says of them.
//!
//! A text or Parquet file has one row per node; numpy files have arrays with one row per node. Invariant: features have one
//! row for each node, in the order of the nodes.

use super::arrays::{self, Arrays};
use super::column::{Reading, Role, Table, Values};
use super::index::Index;
use super::layout::{self, Laid};
use super::listing::units;
use super::sheet::{Kind, Sheet, is_header};
use super::source::{self, Files};
use super::{Columns, Options, kinds};
use harmonia_graph::dataset::{self, ColumnKind, Features, Schema, TableColumn};
use harmonia_graph::error::{Error, Result};
use harmonia_graph::files;
use harmonia_graph::npy::Npy;
use std::collections::HashMap;
use std::path::{Path, PathBuf};

/// All that is said of the nodes.
pub(super) struct Nodes {
    pub(super) path: PathBuf,
    pub(super) index: Index,
    /// Ids as text; empty where they are the row numbers.
    pub(super) names: Vec<String>,
    pub(super) features: Features,
    /// What features are made of.
    pub(super) schema: Schema,
    /// Whether its columns have names.
    pub(super) named: bool,
    /// What the user should know.
    pub(super) notes: Vec<String>,
    /// The column to split by, where one is named.
    pub(super) split_by: Option<Values>,
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
    /// Columns that are not read because the model does not.
    extra: Vec<String>,
}

/// How the columns of features are to be read.
struct Wanted<'a> {
    columns: &'a Columns,
    kinds: &'a [TableColumn],
    model: Option<&'a Schema>,
    /// The columns of the model by name.
    known: HashMap<&'a str, &'a TableColumn>,
    split_by: Option<&'a str>,
    /// Names of columns in a file of their own.
    names: Option<Vec<String>>,
}

impl<'a> Wanted<'a> {
    fn role(&self, name: &str) -> Role<'a> {
        let known = self.model.map(|_| self.known.get(name).copied());
        match known {
            _ if self.columns.is_ignored(name) => Role::Skip,
            // A model knows its columns, whatever they are called.
            Some(Some(column)) => Role::Measure(Reading::Known(column)),
            _ if self.columns.is_reserved(name) => Role::Key,
            _ if self.split_by == Some(name) => Role::Measure(Reading::Guess),
            Some(None) => Role::Skip,
            None => Role::Measure(kinds::reading(self.kinds, name)),
        }
    }

    fn is_ordered(&self, name: &str) -> bool {
        self.kinds.iter().any(|column| column.name == name && column.kind == ColumnKind::Ordered)
    }
}

impl Part {
    fn read(path: &Path, wanted: &Wanted<'_>) -> Result<Part> {
        let columns = wanted.columns;
        let nothing = Arrays { features: None, labels: None, graph: None, lists: [None, None, None] };
        let mut part = Part { path: path.to_path_buf(), table: None, named: false, arrays: nothing, extra: Vec::new() };
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
                    let extra = |name: &&String| {
                        wanted.model.is_some() && wanted.role(name) == Role::Skip && !columns.is_ignored(name)
                    };
                    part.extra = names.iter().filter(extra).cloned().collect();
                }
                let unnamed = if part.named { None } else { Some(wanted.given(sheet.width(), path)?) };
                let named = part.named;
                part.table = Some(sheet.read(unnamed, |name| match named || wanted.names.is_some() {
                    true => wanted.role(name),
                    false => Role::Measure(match wanted.model {
                        Some(_) => wanted.known.get(name).map_or(Reading::Guess, |column| Reading::Known(column)),
                        None => Reading::Guess,
                    }),
                })?);
            }
        }
        Ok(part)
    }

    /// Features, of which there may be none here.
    fn features(&mut self, wanted: &Wanted<'_>) -> Result<Option<Laid>> {
        if let Some(features) = self.arrays.features.take() {
            let names = wanted.given(features.cols, &self.path)?;
            return of_array(&self.path, features, &names, wanted.model).map(Some);
        }
        let Some(table) = self.table.as_mut() else { return Ok(None) };
        match wanted.model {
            Some(_) if table.columns.iter().all(|column| !column.values.is_measure()) => Ok(None),
            Some(schema) => layout::known(table, schema, &self.extra).map(Some),
            None => layout::measures(table, |name| wanted.is_ordered(name)),
        }
    }
}

impl Wanted<'_> {
    /// Names of columns that have none in their own file.
    fn given(&self, width: usize, path: &Path) -> Result<Vec<String>> {
        /// A name is made for each: a claim of a small file must not fill the memory.
        const MOST: usize = 1 << 20;
        match &self.names {
            _ if width > MOST => {
                Err(Error::file(path, format!("expected 1 to {MOST} features, found {width} columns")))
            }
            Some(names) if names.len() == width => Ok(names.clone()),
            Some(names) => {
                Err(Error::file(path, format!("has {width} columns, but there are {} names of features", names.len())))
            }
            None => Ok((0..width).map(|k| format!("feature {k}")).collect()),
        }
    }
}

/// Features of an array: numbers, NaN where they are missing.
fn of_array(path: &Path, features: Features, names: &[String], model: Option<&Schema>) -> Result<Laid> {
    let Some(schema) = model else {
        if matches!(features.values(), dataset::Values::Sparse(_)) {
            return Ok(Laid { features, schema: Schema::of_numbers(names), notes: Vec::new() });
        }
        let (features, schema) = Schema::of_matrix(names, features.rows, features.dense().into_owned())?;
        return Ok(Laid { features, schema, notes: Vec::new() });
    };
    if matches!(features.values(), dataset::Values::Sparse(_)) {
        let place = |column: &TableColumn| names.iter().position(|name| *name == column.name);
        let places: Option<Vec<usize>> = schema.columns.iter().map(place).collect();
        let places = places.filter(|_| schema.is_plain()).ok_or_else(|| {
            Error::file(path, "expected the columns of the model, by name; give them as a table with a header")
        })?;
        return Ok(Laid { features: features.columns(&places), schema: schema.clone(), notes: Vec::new() });
    }
    let (rows, cols, x) = (features.rows, features.cols, features.dense());
    let column = |(k, name): (usize, &String)| super::column::Column {
        name: name.clone(),
        values: Values::Numbers {
            values: x.iter().skip(k).step_by(cols.max(1)).copied().collect(),
            kind: ColumnKind::Number,
        },
    };
    let columns = names.iter().enumerate().map(column).collect();
    let mut table = Table { path: path.to_path_buf(), rows, columns, places: super::column::Places::default() };
    let known = |name: &&String| !schema.columns.iter().any(|column| column.name == **name);
    let extra: Vec<String> = names.iter().filter(known).cloned().collect();
    layout::known(&mut table, schema, &extra)
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
    let said: Vec<TableColumn> = options.kinds.iter().cloned().chain(kinds::read(&options.directory)?).collect();
    let model = options.model.as_ref().map(|model| &*model.schema);
    let wanted = Wanted {
        columns,
        kinds: &said,
        model,
        known: model.into_iter().flat_map(|schema| &schema.columns).map(|one| (one.name.as_str(), one)).collect(),
        split_by: options.split_by.as_ref().map(|by| by.column.as_str()),
        names: files.feature_names.as_ref().map(|path| source::names(path)).transpose()?,
    };
    let mut part = Part::read(first, &wanted)?;
    let split_by = wanted.split_by.and_then(|name| part.take(name));
    let own = part.features(&wanted)?;
    let rows = part.table.as_ref().map(|table| table.rows).or(own.as_ref().map(|laid| laid.features.rows));
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
    let mut named = part.named;
    let other = match (&files.nodes, &files.features) {
        (Some(_), Some(path)) => {
            let (laid, of_names) = separate(path, &wanted, &index)?;
            named = of_names;
            Some(laid)
        }
        _ => None,
    };
    let Laid { features, schema, notes } = match (own, other) {
        (Some(_), Some(_)) => {
            let message = format!("{origin} has features too; keep them in one of the files");
            return Err(Error::file(files.features.as_ref().unwrap_or(&part.path), message));
        }
        (Some(laid), None) | (None, Some(laid)) => laid,
        (None, None) => {
            let message = match wanted.model {
                Some(schema) => {
                    let absent: Vec<&str> = schema.columns.iter().map(|column| column.name.as_str()).collect();
                    layout::without(&absent, std::iter::empty())
                }
                None => {
                    "expected columns of features beside id, label, split and graph, or a file features.*; a graph \
                         without features of its own can be given a constant column or the degrees"
                        .to_string()
                }
            };
            return Err(Error::file(&part.path, message));
        }
    };
    if let (true, Some(path)) = (named, &files.feature_names) {
        return Err(Error::file(path, "the features have names in their table already; keep one of the two"));
    }
    for column in &said {
        if wanted.model.is_none() && !schema.columns.iter().any(|known| known.name == column.name) {
            let close = harmonia_graph::error::suggestion(&column.name, schema.columns.iter().map(|c| c.name.as_str()));
            let name = super::column::shortened(&column.name);
            return Err(Error::file(&part.path, format!("has no feature `{name}`, of which a kind is given{close}")));
        }
    }
    let named = named || files.feature_names.is_some();
    let table = part.table.filter(|_| part.named);
    let Arrays { labels, graph, lists, .. } = part.arrays;
    Ok(Nodes { path: part.path, index, names, features, schema, named, notes, split_by, table, labels, graph, lists })
}

impl Part {
    /// Takes a measure out, which is no feature then.
    fn take(&mut self, name: &str) -> Option<Values> {
        let column = self.table.as_mut()?.columns.iter_mut().find(|column| column.name == name)?;
        column.values.is_measure().then(|| std::mem::replace(&mut column.values, Values::Skipped))
    }
}

/// Features in a file of their own, put in the order of the nodes where it has ids; and whether they have names there.
fn separate(path: &Path, wanted: &Wanted<'_>, index: &Index) -> Result<(Laid, bool)> {
    let columns = wanted.columns;
    let mut part = Part::read(path, wanted)?;
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
    let Some(mut laid) = part.features(wanted)? else {
        return Err(Error::file(path, "expected columns or an array of features, found none"));
    };
    arrays::same_rows(path, laid.features.rows, "node", index.count())?;
    let id = part.table.as_ref().filter(|_| part.named).filter(|t| t.column(|name| columns.is_id(name)).is_some());
    let Some(table) = id else { return Ok((laid, part.named)) };
    // As many distinct ids as nodes: every node has its row.
    let mut rows = vec![0..0; laid.features.rows];
    for (row, unit) in units(table, columns, index)?.into_iter().enumerate() {
        if let Some(place) = rows.get_mut(unit as usize) {
            *place = row..row + 1;
        }
    }
    laid.features = laid.features.rows(&rows);
    Ok((laid, part.named))
}

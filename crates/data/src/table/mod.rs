//! A user's own graph: a directory of plain tables.
//!
//! | file | holds | notes |
//! |---|---|---|
//! | `edges.*` | `source`, `target`, perhaps `weight` | required. Text or Parquet; `.npy` of shape m x 2 or 2 x m; `.npz` with `edges` or `edge_index` and perhaps `weights`, or a scipy csr matrix. Weights > 0. A text file needs no header |
//! | `nodes.*` | perhaps `id`, features, perhaps `label`, `split`, `graph` | text or Parquet, a row a node; `.npz` with `features` or `x`, `labels` or `y`, `graph`, `train`, `valid`, `test` (ids or masks), or a scipy csr matrix; `.npy` of features |
//! | `features.*` | features, perhaps `id` | instead of features in `nodes.*`, or alone; text, Parquet, `.npy`, `.npz` |
//! | `labels.*` | `label`, perhaps `id` or `graph` | text, Parquet or `.npy` (-1 or nan: no label); a row a node, or a row a graph |
//! | `splits.*` | `id`, `split` | text or Parquet |
//! | `train.*`, `valid.*`, `test.*` | ids | instead of `splits.*`; text, Parquet or `.npy` (ids or a mask) |
//! | `graphs.*` | `graph`, `label`, perhaps `split` | graph tasks; text or Parquet |
//! | `feature_names.txt`, `class_names.txt`, `node_names.txt` | one name per line | where the other files have none |
//!
//! - **Text** is `.csv`, `.tsv` or `.txt`, each also as `.gz`: UTF-8, fields in quotes where needed, separated by commas
//!   (or by the tabs or semicolons the first row has instead; in `.txt` also by spaces). Lines that start with `# ` above
//!   the table and blank lines are skipped. A first row of names is a header; so is 0, 1, 2, 3, … of four or more.
//! - **Ids** are the row numbers 0..n-1 of `nodes.*`, or whatever its `id` column holds, each once.
//! - **Features** are finite numbers; true and false are 1 and 0, ISO dates (`2026-11-18`, with or without a time) days since
//!   1970-01-01. A column of words with at most 64 distinct values is a category: features `column=value`, shown as one. A
//!   column with gaps (empty cells, NA, nan, null) has one more feature, `column is missing`, and its median in the gaps.
//! - **Kinds** of columns that their cells do not tell stand in `column_kinds.toml`: `zip = "category"`, `since = "date"`,
//!   `size = ["small", "medium", "large"]` (ordered; `"ordered"` takes the order in which values come), `code = "number"`.
//! - **Labels** are integers from 0, or words (classes in alphabetical order, or in that of `class_names.txt`). An empty
//!   cell is no label. Columns `label:<name>` of 0 and 1 are several labels a node.
//! - **Weights** of nodes or graphs, where the caller names a column of them: numbers above 0, in the file that has the labels.
//! - **Splits** are `train`, `valid` (`validation`, `val`, `dev`), `test` or empty. Without any the caller draws one.
//! - **Several graphs**: a `graph` column in `nodes.*`. Labels in `graphs.*`, or in a `labels.*` of a row a graph, make it
//!   a graph task. Nodes may stand in any order; they are sorted by graph.
//! - **Edges** are undirected unless the caller says otherwise; (a, b) and (b, a) are one edge then, and a weighted file
//!   that lists all edges both ways is taken as it is.
//!
//! Column names are found in any case; [`Columns`] gives others. A column that is none of these is refused in all files
//! but `nodes.*` and `features.*`, where it is a feature. Invariant: no row is dropped without a word.

mod arrays;
mod assemble;
mod bad_rows;
mod builder;
mod cells;
mod column;
mod delimited;
mod edges;
mod faults;
mod index;
mod kinds;
mod labels;
mod layout;
mod listing;
mod nodes;
mod parquet;
mod record;
mod sheet;
mod source;
mod splits;
mod stream;
#[cfg(test)]
mod tests;
mod weights;

pub use assemble::{Loaded, load, load_noted};
pub use kinds::kind;

use crate::conversion::{self, Common, Converted};
use harmonia_graph::dataset::{Level, Schema, TableColumn};
use harmonia_graph::error::{Error, Result, suggestion};
use harmonia_graph::watch::Watch;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Converts the tables of a directory into a store.
///
/// # Errors
/// As [`load`], or the store cannot be written; nothing is left behind.
pub fn convert(input: &Path, target: &Path, common: &Common, tables: &Options, watch: &Watch) -> Result<Converted> {
    let tables = Options { directed: !common.undirected, directory: input.to_path_buf(), ..tables.clone() };
    let Loaded { dataset, notes } = load_noted(&common.name, &tables)?;
    let converted = conversion::write(dataset, target, common, watch)?;
    Ok(Converted { notes, ..converted })
}

/// Where the tables are and how to read them.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Directory of the files.
    pub directory: PathBuf,
    /// Edges, instead of `edges.*` in the directory.
    pub edges: Option<PathBuf>,
    /// Nodes, instead of `nodes.*`.
    pub nodes: Option<PathBuf>,
    /// Features, instead of `features.*`.
    pub features: Option<PathBuf>,
    /// Labels, instead of `labels.*`.
    pub labels: Option<PathBuf>,
    /// Splits, instead of `splits.*`.
    pub splits: Option<PathBuf>,
    /// Graphs, instead of `graphs.*`.
    pub graphs: Option<PathBuf>,
    /// Whether an edge (i, j) does not stand for (j, i): node i reads from node j only.
    pub directed: bool,
    /// Names of the columns.
    pub columns: Columns,
    /// What columns are, where their cells do not tell; values of an ordered one, where they are given. Those of
    /// `column_kinds.toml` come after.
    pub kinds: Vec<TableColumn>,
    /// A trained model is to read the data: its columns, by name. Labels may be missing then.
    pub model: Option<Scoring>,
    /// A split by a column of dates or numbers.
    pub split_by: Option<SplitBy>,
    /// The class that counts as positive: the second of two.
    pub positive: Option<String>,
    /// Rows of edges that are wrong are left out and counted.
    pub drop_bad_rows: bool,
    /// Only edges with this value (second) in this column (first).
    pub relation: Option<(String, String)>,
}

/// What a model asks of data.
#[derive(Clone, Debug)]
pub struct Scoring {
    /// Its columns.
    pub schema: Arc<Schema>,
    /// Whether it speaks of nodes or of graphs.
    pub level: Level,
    /// What it tells apart.
    pub class_names: Vec<String>,
}

/// A split by time, or by any other column with an order.
#[derive(Clone, Debug)]
pub struct SplitBy {
    /// A column of dates or numbers of the nodes; it is no feature.
    pub column: String,
    /// The first value of the validation part.
    pub valid_from: String,
    /// The first value of the test part.
    pub test_from: String,
}

impl Options {
    fn given(&self) -> impl Iterator<Item = &Path> {
        [&self.edges, &self.nodes, &self.features, &self.labels, &self.splits, &self.graphs]
            .into_iter()
            .flatten()
            .map(PathBuf::as_path)
    }
}

/// Names of columns that are not called as the format has it; `None` is the usual name.
#[derive(Clone, Debug, Default)]
pub struct Columns {
    /// `source`, `src` or `from`.
    pub source: Option<String>,
    /// `target`, `dst` or `to`.
    pub target: Option<String>,
    /// `weight`.
    pub weight: Option<String>,
    /// `id`, `node` or `node_id`.
    pub id: Option<String>,
    /// `label`.
    pub label: Option<String>,
    /// `split`.
    pub split: Option<String>,
    /// `graph` or `graph_id`.
    pub graph: Option<String>,
    /// How much each node or graph counts while a model is fitted; none unless it is named.
    pub unit_weight: Option<String>,
    /// Columns to pass over, in any file.
    pub ignore: Vec<String>,
    /// Labels are numbers to be fitted, not classes.
    pub regression: bool,
}

/// A meaning a column may have, and its test.
type Meaning = (&'static str, fn(&Columns, &str) -> bool);

impl Columns {
    fn is(&self, given: &Option<String>, usual: &[&str], name: &str) -> bool {
        !self.is_ignored(name)
            && match given {
                Some(given) => given == name,
                None => usual.iter().any(|usual| usual.eq_ignore_ascii_case(name)),
            }
    }

    fn is_source(&self, name: &str) -> bool {
        self.is(&self.source, &["source", "src", "from"], name)
    }

    fn is_target(&self, name: &str) -> bool {
        self.is(&self.target, &["target", "dst", "to"], name)
    }

    fn is_weight(&self, name: &str) -> bool {
        self.is(&self.weight, &["weight"], name)
    }

    fn is_id(&self, name: &str) -> bool {
        self.is(&self.id, &["id", "node", "node_id"], name)
    }

    /// A column `label`, or one of several `label:<name>`.
    fn is_label(&self, name: &str) -> bool {
        self.is(&self.label, &["label"], name) || self.is_multi(name)
    }

    fn is_multi(&self, name: &str) -> bool {
        let prefix = name.get(..labels::PREFIX.len()).is_some_and(|start| start.eq_ignore_ascii_case(labels::PREFIX));
        prefix && !self.is_ignored(name) && self.label.as_deref().is_none_or(|given| given != name)
    }

    fn is_split(&self, name: &str) -> bool {
        self.is(&self.split, &["split"], name)
    }

    fn is_graph(&self, name: &str) -> bool {
        self.is(&self.graph, &["graph", "graph_id"], name)
    }

    fn is_unit_weight(&self, name: &str) -> bool {
        self.is(&self.unit_weight, &[], name)
    }

    /// Whether a column of the nodes is no feature.
    fn is_reserved(&self, name: &str) -> bool {
        let of_units = self.is_label(name) || self.is_unit_weight(name) || self.is_split(name);
        of_units || self.is_id(name) || self.is_graph(name)
    }

    /// Columns the caller names, and the index that pandas adds to Parquet files.
    fn is_ignored(&self, name: &str) -> bool {
        self.ignore.iter().any(|ignored| ignored == name) || name.starts_with("__index_level_")
    }

    /// What a column of the usual name is called here.
    fn given(&self, usual: &str) -> String {
        let given = match usual {
            "id" => &self.id,
            "label" => &self.label,
            "split" => &self.split,
            "graph" => &self.graph,
            _ => &None,
        };
        given.clone().unwrap_or_else(|| usual.to_string())
    }

    /// Checks a header: no name twice, no two columns of one meaning, and the `needed` ones there.
    ///
    /// # Errors
    /// One of these, with the names.
    fn check(&self, path: &Path, names: &[String], needed: &[Meaning]) -> Result<()> {
        let mut seen = std::collections::HashSet::new();
        if let Some(twice) = names.iter().find(|name| !seen.insert(name.as_str())) {
            let twice = column::shortened(twice);
            return Err(Error::file(path, format!("column `{twice}` is there twice; rename or drop one")));
        }
        const OF_EDGES: &[Meaning] =
            &[("source", Columns::is_source), ("target", Columns::is_target), ("weight", Columns::is_weight)];
        const OF_UNITS: &[Meaning] = &[
            ("id", Columns::is_id),
            ("label", |columns, name| columns.is_label(name) && !columns.is_multi(name)),
            ("split", Columns::is_split),
            ("graph", Columns::is_graph),
        ];
        // Source, target and weight are ordinary features in the nodes, and the other way about.
        for (meaning, is) in if needed.is_empty() { OF_UNITS } else { OF_EDGES } {
            let mut meant = names.iter().filter(|name| is(self, name));
            if let (Some(first), Some(second)) = (meant.next(), meant.next()) {
                let message = format!(
                    "columns `{first}` and `{second}` both mean {meaning}; rename one, or leave one out (set ignore = NAME)"
                );
                return Err(Error::file(path, message));
            }
        }
        for (meaning, is) in needed {
            if !names.iter().any(|name| is(self, name)) {
                let shown: Vec<String> = names.iter().take(8).map(|name| column::shortened(name)).collect();
                let shown = shown.join(", ");
                let given = match *meaning {
                    "source" => &self.source,
                    "target" => &self.target,
                    _ => &None,
                };
                // The other way about than elsewhere: it is the user's own word that is to be changed.
                let close = names.iter().find(|name| !suggestion(name, [*meaning]).is_empty());
                let message = match (given, close) {
                    (Some(given), _) => {
                        let close = suggestion(given, names.iter().map(String::as_str));
                        format!("expected a column `{given}`, found {shown}{close} (set column.{meaning} = NAME)")
                    }
                    (None, Some(name)) => {
                        let name = column::shortened(name);
                        format!(
                            "expected a column `{meaning}`, found {shown}; rename `{name}`, or set column.{meaning} = `{name}`"
                        )
                    }
                    (None, None) => {
                        format!("expected a column `{meaning}`, found {shown}; name it (set column.{meaning} = NAME)")
                    }
                };
                return Err(Error::file(path, message));
            }
        }
        Ok(())
    }
}

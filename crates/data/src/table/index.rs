//! Ids: from what a file calls a node or graph to its number.
//!
//! Without an `id` column the ids are the row numbers 0..n-1; with one they are whatever it holds, each once.

use super::column::{Column, Key, Table, integer};
use super::faults::Faults;
use harmonia_graph::error::{Result, suggestion};
use std::collections::HashMap;

/// Ids of the nodes, or of the graphs.
#[derive(Debug)]
pub(super) struct Index {
    /// "node" or "graph".
    what: &'static str,
    /// Name of the file that lists them.
    origin: String,
    count: usize,
    ids: Ids,
}

#[derive(Debug)]
enum Ids {
    Rows,
    Integers(HashMap<i64, u32>),
    Names(HashMap<String, u32>),
}

/// A suggestion compares the word with every name: only where that is quick.
const MOST_COMPARED: usize = 20_000;

impl Index {
    /// Ids 0..count.
    pub(super) fn rows(what: &'static str, origin: &str, count: usize) -> Index {
        Index { what, origin: origin.to_string(), count, ids: Ids::Rows }
    }

    /// Ids in a column, and their texts; the texts are empty where the ids are the row numbers.
    ///
    /// # Errors
    /// An id that is empty or occurs twice.
    pub(super) fn from_column(what: &'static str, table: &Table, column: &Column) -> Result<(Index, Vec<String>)> {
        let origin = table.path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let key = |row| column.values.key(row);
        if (0..table.rows).all(|row| key(row) == Key::Integer(row as i64)) {
            return Ok((Index::rows(what, &origin, table.rows), Vec::new()));
        }
        let mut faults = Faults::new(&table.path);
        let (mut integers, mut names, mut texts) = (HashMap::new(), HashMap::new(), Vec::with_capacity(table.rows));
        for row in 0..table.rows {
            let text = match key(row) {
                Key::Integer(value) => value.to_string(),
                Key::Text(text) => text.to_string(),
            };
            let earlier = match key(row) {
                Key::Integer(value) => integers.insert(value, row as u32),
                Key::Text("") => {
                    faults.add(|| format!("{}: expected a {what} id, found nothing", table.places.of(row)));
                    None
                }
                Key::Text(_) => names.insert(text.clone(), row as u32),
            };
            if let Some(earlier) = earlier {
                let (at, before) = (table.places.of(row), table.places.of(earlier as usize));
                faults.add(|| format!("{at}: {what} id `{}` is already on {before}; ids must differ", key(row)));
            }
            if faults.is_full() {
                break;
            }
            texts.push(text);
        }
        faults.finish()?;
        let ids = if names.is_empty() { Ids::Integers(integers) } else { Ids::Names(names) };
        Ok((Index { what, origin, count: table.rows, ids }, texts))
    }

    /// Number of nodes or graphs.
    pub(super) fn count(&self) -> usize {
        self.count
    }

    /// "node" or "graph".
    pub(super) fn what(&self) -> &'static str {
        self.what
    }

    /// Number of the node or graph that `key` names.
    pub(super) fn find(&self, key: Key<'_>) -> Option<u32> {
        let integer = || match key {
            Key::Integer(value) => Some(value),
            Key::Text(text) => integer(text),
        };
        match &self.ids {
            Ids::Rows => integer().filter(|&id| id >= 0 && (id as u64) < self.count as u64).map(|id| id as u32),
            Ids::Integers(map) => map.get(&integer()?).copied(),
            Ids::Names(map) => match key {
                Key::Text(text) => map.get(text).copied(),
                Key::Integer(value) => map.get(&value.to_string()).copied(),
            },
        }
    }

    /// What to say of a key that [`Index::find`] does not know.
    pub(super) fn unknown(&self, key: Key<'_>) -> String {
        let (what, origin, count) = (self.what, &self.origin, self.count);
        let close = match &self.ids {
            Ids::Rows => {
                let one_based = key == Key::Integer(count as i64);
                let hint = match key {
                    _ if one_based => "; ids start at 0",
                    Key::Text(_) => "; where a column has their ids, name it (set column.id = NAME)",
                    Key::Integer(_) => "",
                };
                let last = count.saturating_sub(1);
                return format!(
                    "expected a {what} id from 0 to {last} ({origin} has {count} rows), found `{key}`{hint}"
                );
            }
            Ids::Names(map) if map.len() <= MOST_COMPARED => {
                suggestion(&key.to_string(), map.keys().map(String::as_str))
            }
            _ => String::new(),
        };
        format!("names {what} `{key}`, which {origin} does not have{close}")
    }
}

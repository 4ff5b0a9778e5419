//! Files that say one thing of each node or graph: labels, split words, or lists of ids.
//!
//! With an `id` column rows may come in any order and leave units out; without one there is a row for each unit, in
//! order. Invariant: no unit is named twice.

use super::Columns;
use super::arrays;
use super::column::{Key, Role, Table, shortened};
use super::faults::Faults;
use super::index::Index;
use super::sheet::{Kind, Sheet};
use harmonia_graph::error::{Error, Result, suggestion};
use harmonia_graph::files;
use harmonia_graph::npy::Npy;
use std::path::Path;

/// What a file lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Listing {
    /// id, label.
    Labels,
    /// id, split.
    Splits,
    /// id.
    Ids,
    /// graph, label, split.
    Graphs,
}

impl Listing {
    /// Columns of a file without a header, for each width it may have.
    fn layouts(self) -> &'static [&'static [&'static str]] {
        match self {
            Listing::Labels => &[&["label"], &["id", "label"]],
            Listing::Splits => &[&["split"], &["id", "split"]],
            Listing::Ids => &[&["id"]],
            Listing::Graphs => &[&["graph"], &["graph", "label"], &["graph", "label", "split"]],
        }
    }

    fn has(self, columns: &Columns, name: &str) -> bool {
        let id = columns.is_id(name) || columns.is_graph(name);
        match self {
            Listing::Labels => id || columns.is_label(name) || columns.is_unit_weight(name),
            Listing::Splits => id || columns.is_split(name),
            Listing::Ids => id,
            Listing::Graphs => id || columns.is_label(name) || columns.is_split(name) || columns.is_unit_weight(name),
        }
    }
}

/// Reads such a file.
///
/// # Errors
/// Unreadable, a column that does not belong, or a bad row.
pub(super) fn read(path: &Path, listing: Listing, columns: &Columns) -> Result<Table> {
    match (Kind::of(path)?, listing) {
        (Kind::Npy, Listing::Labels) => {
            let bytes = files::read(path)?;
            return arrays::labels(&Npy::parse(&bytes, path)?, path, columns.regression);
        }
        (Kind::Npy, Listing::Ids) => {
            let bytes = files::read(path)?;
            return arrays::ids(&Npy::parse(&bytes, path)?, path, "id");
        }
        (Kind::Npy | Kind::Npz, _) => {
            return Err(Error::file(path, "expected a text or Parquet table; numpy files are read for arrays only"));
        }
        (Kind::Text | Kind::Parquet, _) => {}
    }
    let sheet = Sheet::open(path)?;
    // Only the known names make a header: a first label or id may be any word.
    let names = sheet.names(|first| Ok(first.iter().any(|cell| listing.has(columns, cell))))?;
    let expected = listing.layouts().last().map_or(String::new(), |names| names.join(", "));
    let Some(names) = names else {
        let Some(layout) = listing.layouts().iter().find(|layout| layout.len() == sheet.width()) else {
            let width = sheet.width();
            let message =
                format!("line 1: expected columns {expected}, found {width} without these names; add a header");
            return Err(Error::file(path, message));
        };
        return sheet.read(Some(layout.iter().map(|name| columns.given(name)).collect()), |_| Role::Key);
    };
    columns.check(path, &names, &[])?;
    if let Some(extra) = names.iter().find(|name| !listing.has(columns, name) && !columns.is_ignored(name)) {
        let message = format!(
            "column `{}`: expected {expected}{}; drop it, or leave it out (set ignore = NAME)",
            shortened(extra),
            suggestion(extra, ["id", "graph", "label", "split"])
        );
        return Err(Error::file(path, message));
    }
    sheet.read(None, |name| if columns.is_ignored(name) { Role::Skip } else { Role::Key })
}

/// The node or graph of each row.
///
/// # Errors
/// An unknown id, one that occurs twice, or, without ids, rows that are not as many as the units.
pub(super) fn units(table: &Table, columns: &Columns, index: &Index) -> Result<Vec<u32>> {
    let graphs = index.what() == "graph";
    // A graph may be called `graph` or plainly `id`.
    let id = table.column(|name| if graphs { columns.is_graph(name) } else { columns.is_id(name) });
    let id = id.or_else(|| table.column(|name| graphs && columns.is_id(name)));
    let Some(id) = id else {
        arrays::same_rows(&table.path, table.rows, index.what(), index.count())?;
        return Ok((0..table.rows as u32).collect());
    };
    let mut faults = Faults::new(&table.path);
    let mut row_of = vec![usize::MAX; index.count()];
    let mut units = Vec::with_capacity(table.rows);
    for row in 0..table.rows {
        let key: Key<'_> = id.values.key(row);
        let at = || table.places.of(row);
        let unit = index.find(key);
        match unit.and_then(|unit| row_of.get_mut(unit as usize)) {
            None => faults.add(|| format!("{}: {}", at(), index.unknown(key))),
            Some(earlier) if *earlier != usize::MAX => {
                let before = table.places.of(*earlier);
                faults.add(|| format!("{}: {} `{key}` is already on {before}; name it once", at(), index.what()));
            }
            Some(earlier) => *earlier = row,
        }
        units.extend(unit);
        if faults.is_full() {
            break;
        }
    }
    faults.finish()?;
    Ok(units)
}

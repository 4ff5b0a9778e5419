//! Train, validation and test units: words in a column, or three lists of ids.

use super::Columns;
use super::column::{Faults, Key, Table, is_missing};
use super::index::Index;
use super::listing::{self, Listing};
use super::source::Files;
use harmonia_graph::error::{Error, Result, suggestion};
use harmonia_graph::graph::Split;

/// Words for the parts, first the one this program uses.
const WORDS: [&[&str]; 3] = [&["train", "training"], &["valid", "validation", "val", "dev"], &["test", "testing"]];

/// The split in the words of a column; `units` is the unit of each row.
///
/// # Errors
/// An unknown word.
pub(super) fn words(table: &Table, columns: &Columns, units: &[u32]) -> Result<Option<Split>> {
    let Some(column) = table.column(|name| columns.is_split(name)) else { return Ok(None) };
    let mut faults = Faults::new(&table.path);
    let mut split = Split::default();
    for (row, &unit) in units.iter().enumerate() {
        let key = column.values.key(row);
        let part = match key {
            Key::Text(word) if is_missing(word) => continue,
            Key::Text(word) => {
                WORDS.iter().position(|words| words.iter().any(|known| known.eq_ignore_ascii_case(word)))
            }
            Key::Integer(_) => None,
        };
        match part {
            Some(0) => split.train.push(unit),
            Some(1) => split.valid.push(unit),
            Some(_) => split.test.push(unit),
            None => faults.add(|| {
                let close = suggestion(&key.to_string(), WORDS.into_iter().flatten().copied());
                format!("{}: expected train, valid, test or nothing, found `{key}`{close}", table.places.of(row))
            }),
        }
        if faults.is_full() {
            break;
        }
    }
    faults.finish()?;
    Ok(Some(split))
}

/// The split in three lists, some of which may be missing; `None` where all are.
///
/// # Errors
/// An unknown id, or one listed twice.
pub(super) fn lists(lists: &[Option<Table>; 3], columns: &Columns, index: &Index) -> Result<Option<Split>> {
    if lists.iter().all(Option::is_none) {
        return Ok(None);
    }
    let [train, valid, test] = lists.each_ref().map(|list| match list {
        Some(table) => listing::units(table, columns, index),
        None => Ok(Vec::new()),
    });
    Ok(Some(Split { train: train?, valid: valid?, test: test? }))
}

/// The one split among all the places where it may be given, or an empty one.
///
/// # Errors
/// A bad row, or splits in two places.
pub(super) fn load(
    files: &Files,
    columns: &Columns,
    index: &Index,
    own: Option<&Table>,
    own_lists: &[Option<Table>; 3],
) -> Result<Split> {
    let mut splits: Vec<(&str, Split)> = Vec::new();
    if let Some(table) = own {
        splits.extend(words(table, columns, &listing::units(table, columns, index)?)?.map(|s| ("a column split", s)));
    }
    splits.extend(lists(own_lists, columns, index)?.map(|split| ("arrays in nodes.npz", split)));
    if let Some(path) = &files.splits {
        let table = listing::read(path, Listing::Splits, columns)?;
        let Some(split) = words(&table, columns, &listing::units(&table, columns, index)?)? else {
            return Err(Error::file(path, "expected a column split, found none"));
        };
        splits.push(("splits.*", split));
    }
    let read = |path: &std::path::PathBuf| listing::read(path, Listing::Ids, columns);
    let [train, valid, test] = files.lists.each_ref().map(|path| path.as_ref().map(read).transpose());
    splits.extend(lists(&[train?, valid?, test?], columns, index)?.map(|split| ("lists train, valid, test", split)));
    match splits.len() {
        0 => Ok(Split::default()),
        1 => Ok(splits.swap_remove(0).1),
        _ => {
            let places: Vec<&str> = splits.iter().map(|(place, _)| *place).collect();
            let path = files.splits.as_ref().or(files.nodes.as_ref()).unwrap_or(&files.edges);
            Err(Error::file(path, format!("the split is given more than once ({}); keep one", places.join("; "))))
        }
    }
}

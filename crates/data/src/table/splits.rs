//! Train, validation and test units: words in a column, or three lists of ids.

use super::column::{Faults, Key, Table, Values, is_missing, shortened};
use super::index::Index;
use super::listing::{self, Listing};
use super::nodes::Nodes;
use super::source::Files;
use super::{Columns, SplitBy};
use harmonia_graph::dataset::{ColumnKind, Labels, Level, days};
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

/// The split by a column of dates or numbers: what comes before `valid_from` trains, what comes from `test_from` on tests.
/// Nodes without a value or a label are in no part.
///
/// # Errors
/// No such column, labels of graphs, or limits that are not in order.
pub(super) fn by_column(by: &SplitBy, nodes: &Nodes, level: Level, labels: &Labels) -> Result<Split> {
    let refused = |what: String| Err(Error::file(&nodes.path, what));
    let column = shortened(&by.column);
    if level == Level::Graph {
        return refused(format!("to split by `{column}`, labels must be those of nodes; put a split into graphs.*"));
    }
    let Some(Values::Numbers { values, kind }) = &nodes.split_by else {
        return refused(format!("expected a column `{column}` of dates or numbers to split by"));
    };
    let limit = |text: &str| match kind {
        ColumnKind::Date => days(text).map(|days| days as f32),
        _ => text.parse().ok().filter(|value: &f32| value.is_finite()),
    };
    let (Some(valid), Some(test)) = (limit(&by.valid_from), limit(&by.test_from)) else {
        let what = if *kind == ColumnKind::Date { "dates such as 2026-11-18" } else { "numbers" };
        return refused(format!(
            "`{column}` holds {what}: expected such limits, found `{}` and `{}`",
            by.valid_from, by.test_from
        ));
    };
    if valid >= test {
        return refused(format!(
            "expected validation to begin before test, found {} and {}",
            by.valid_from, by.test_from
        ));
    }
    let mut split = Split::default();
    for (unit, &value) in values.iter().enumerate().filter(|(unit, _)| labels.is_labelled(*unit)) {
        match value {
            value if value.is_nan() => {}
            value if value < valid => split.train.push(unit as u32),
            value if value < test => split.valid.push(unit as u32),
            _ => split.test.push(unit as u32),
        }
    }
    for (part, units) in [("train", &split.train), ("validation", &split.valid), ("test", &split.test)] {
        if units.is_empty() {
            return refused(format!("split by `{column}`, no labelled node is left for {part}; move the limits"));
        }
    }
    Ok(split)
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

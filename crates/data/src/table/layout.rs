//! Columns of a table laid side by side as X, and what X is made of.
//!
//! Without a model every measure becomes features as its cells tell; with one its schema says which columns there are, and they
//! are found by name. Invariant: the features of a row are those its schema counts.

use super::column::{GAP, Table, Values, shortened};
use harmonia_graph::dataset::{ColumnKind, Features, Schema, TableColumn, median};
use harmonia_graph::error::{Error, Result, suggestion};
use std::collections::HashMap;
use std::path::Path;

/// X, what it is made of, and what the user should know.
pub(super) struct Laid {
    pub(super) features: Features,
    pub(super) schema: Schema,
    pub(super) notes: Vec<String>,
}

/// The measures of a table, which are taken out of it; `None` where there are none. `ordered`: whether a column of words is
/// from low to high.
pub(super) fn measures(table: &mut Table, ordered: impl Fn(&str) -> bool) -> Result<Option<Laid>> {
    let (mut schema, mut cells) = (Schema::default(), Vec::new());
    let path = table.path.clone();
    for column in &mut table.columns {
        let values = match &mut column.values {
            values @ (Values::Numbers { .. } | Values::Categories { .. }) => std::mem::replace(values, Values::Skipped),
            _ => continue,
        };
        if let Values::Categories { unseen, names, .. } = &values
            && unseen.count > 0
        {
            return Err(Error::file(
                &path,
                format!(
                    "column `{}`: expected {}, found `{}` in {} rows; add it to the list of its values",
                    shortened(&column.name),
                    names.join(", "),
                    shortened(&unseen.word),
                    unseen.count
                ),
            ));
        }
        schema.columns.push(described(&column.name, &values, ordered(&column.name)));
        cells.push(values);
    }
    if schema.columns.is_empty() {
        return Ok(None);
    }
    let features = lay(&path, table.rows, &schema, &cells.iter().collect::<Vec<_>>())?;
    Ok(Some(Laid { features, schema, notes: Vec::new() }))
}

/// What a column is, by its cells.
fn described(name: &str, values: &Values, ordered: bool) -> TableColumn {
    let column = TableColumn::number(name);
    match values {
        Values::Categories { codes, names, .. } => {
            let code = |&code: &u8| if code == GAP { f32::NAN } else { f32::from(code) };
            TableColumn {
                kind: if ordered { ColumnKind::Ordered } else { ColumnKind::Category },
                values: names.clone(),
                median: if ordered { median(codes.iter().map(code)) } else { 0.0 },
                gaps: codes.contains(&GAP),
                ..column
            }
        }
        Values::Numbers { values, kind } => TableColumn {
            kind: *kind,
            median: median(values.iter().copied()),
            gaps: values.iter().any(|value| value.is_nan()),
            ..column
        },
        _ => column,
    }
}

/// The columns of a model, by name, in its order. Others are left aside with a note.
///
/// # Errors
/// Columns that are not there: all of them.
pub(super) fn known(table: &mut Table, schema: &Schema, extra: &[String]) -> Result<Laid> {
    let mut notes = Vec::new();
    let there: HashMap<&str, &Values> =
        table.columns.iter().map(|column| (column.name.as_str(), &column.values)).collect();
    let found = |name: &str| there.get(name).copied();
    let absent: Vec<&str> = (schema.columns.iter())
        .map(|column| column.name.as_str())
        .filter(|name| !matches!(found(name), Some(Values::Numbers { .. } | Values::Categories { .. })))
        .collect();
    if !absent.is_empty() {
        return Err(Error::file(
            &table.path,
            without(&absent, table.columns.iter().map(|column| column.name.as_str())),
        ));
    }
    let worded = |kind| matches!(kind, ColumnKind::Category | ColumnKind::Ordered);
    let unlike =
        |column: &&TableColumn| worded(column.kind) && !matches!(found(&column.name), Some(Values::Categories { .. }));
    let numbered: Vec<String> = schema.columns.iter().filter(unlike).map(|column| column.name.clone()).collect();
    if !numbered.is_empty() {
        let message =
            format!("expected words in {}, found an array of numbers: give a table of text or Parquet", all(&numbered));
        return Err(Error::file(&table.path, message));
    }
    if !extra.is_empty() {
        notes.push(format!("columns that the model does not read are left aside: {}", some(extra)));
    }
    let cells: Vec<&Values> = schema.columns.iter().filter_map(|column| found(&column.name)).collect();
    for (column, values) in schema.columns.iter().zip(&cells) {
        let name = shortened(&column.name);
        let gaps = match values {
            Values::Categories { codes, unseen, .. } => {
                if unseen.count > 0 {
                    let word = shortened(&unseen.word);
                    let count = unseen.count;
                    notes.push(format!(
                        "column `{name}`: {count} values that the model has not seen (`{word}`) count as missing"
                    ));
                }
                codes.iter().filter(|&&code| code == GAP).count() - unseen.count
            }
            Values::Numbers { values, .. } => values.iter().filter(|value| value.is_nan()).count(),
            _ => 0,
        };
        if gaps > 0 && !column.gaps && column.kind != ColumnKind::Category && column.median.is_nan() {
            let message = format!(
                "column `{name}`: {gaps} missing values; the model has seen none and has nothing to put in their place: fill or \
                 drop them"
            );
            return Err(Error::file(&table.path, message));
        }
        if gaps > 0 && !column.gaps {
            let instead = match column.kind {
                ColumnKind::Category => "they are none of its values".to_string(),
                _ => format!("the median, {}, stands for them", column.text(&[column.median])),
            };
            notes.push(format!("column `{name}`: {gaps} missing values, of which the model has seen none: {instead}"));
        }
    }
    let features = lay(&table.path, table.rows, schema, &cells)?;
    Ok(Laid { features, schema: schema.clone(), notes })
}

/// What to say where columns are not there.
pub(super) fn without<'a>(absent: &[&str], there: impl Iterator<Item = &'a str>) -> String {
    let names: Vec<String> = absent.iter().map(|name| name.to_string()).collect();
    let close = if let [one] = absent { suggestion(one, there) } else { String::new() };
    let (count, columns) = (absent.len(), if absent.len() == 1 { "column" } else { "columns" });
    format!("expected the columns of the model, found no {columns} {}{close} ({count} missing)", all(&names))
}

fn all(names: &[String]) -> String {
    names.iter().map(|name| format!("`{}`", shortened(name))).collect::<Vec<_>>().join(", ")
}

fn some(names: &[String]) -> String {
    const SHOWN: usize = 8;
    match names.len().checked_sub(SHOWN).filter(|&more| more > 0) {
        Some(more) => format!("{} and {more} more", all(&names[..SHOWN])),
        None => all(names),
    }
}

/// Lays columns side by side, row-major.
fn lay(path: &Path, rows: usize, schema: &Schema, cells: &[&Values]) -> Result<Features> {
    // A block of rows at a time stays in the cache while the columns are laid into it.
    const BLOCK: usize = 256;
    let width = schema.features();
    let size = rows.checked_mul(width).filter(|&size| size <= isize::MAX as usize / size_of::<f32>());
    let size = size.ok_or_else(|| Error::file(path, format!("has {rows} rows of {width} features: too many")))?;
    let mut x = vec![0f32; size];
    let ranges = schema.ranges();
    for (block, out) in x.chunks_mut((BLOCK * width).max(1)).enumerate() {
        let from = block * BLOCK;
        for ((column, range), values) in schema.columns.iter().zip(&ranges).zip(cells) {
            for (at, row) in out.chunks_exact_mut(width).enumerate() {
                if let Some(to) = row.get_mut(range.clone()) {
                    cell(column, values, from + at, to);
                }
            }
        }
    }
    Features::new(rows, width, x)
}

/// The features of one cell.
fn cell(column: &TableColumn, values: &Values, row: usize, to: &mut [f32]) {
    let value = match values {
        Values::Numbers { values, .. } => values.get(row).copied().filter(|value| !value.is_nan()),
        Values::Categories { codes, .. } => codes.get(row).copied().filter(|&code| code != GAP).map(f32::from),
        _ => None,
    };
    let place = match (column.kind, value) {
        (ColumnKind::Category, Some(code)) => to.get_mut(code as usize).map(|to| (to, 1.0)),
        (ColumnKind::Category, None) => None,
        (_, value) => to.first_mut().map(|to| (to, value.unwrap_or(column.median))),
    };
    if let Some((to, value)) = place {
        *to = value;
    }
    if let (true, None, Some(gap)) = (column.gaps, value, to.last_mut()) {
        *gap = 1.0;
    }
}

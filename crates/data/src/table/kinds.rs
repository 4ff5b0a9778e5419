//! What the user says columns are: `column_kinds.toml`, and the same by flags.

use super::column::{Reading, shortened};
use harmonia_graph::dataset::{ColumnKind, TableColumn};
use harmonia_graph::error::{Error, Result, one_line, suggestion};
use harmonia_graph::files;
use std::path::Path;

pub(super) const FILE: &str = "column_kinds.toml";

const WORDS: [(&str, ColumnKind); 5] = [
    ("number", ColumnKind::Number),
    ("boolean", ColumnKind::Boolean),
    ("date", ColumnKind::Date),
    ("category", ColumnKind::Category),
    ("ordered", ColumnKind::Ordered),
];

/// A kind by its word.
///
/// # Errors
/// There is no such kind.
pub fn kind(word: &str) -> std::result::Result<ColumnKind, String> {
    WORDS.iter().find(|(known, _)| *known == word).map(|(_, kind)| *kind).ok_or_else(|| {
        let known = WORDS.map(|(word, _)| word);
        let close = suggestion(word, known);
        format!(
            "expected {} or a list of values from low to high, found `{}`{close}",
            known.join(", "),
            shortened(word)
        )
    })
}

/// Kinds in the file of a directory; none without the file.
///
/// # Errors
/// It is no TOML, or says something else than kinds.
pub(super) fn read(directory: &Path) -> Result<Vec<TableColumn>> {
    let path = directory.join(FILE);
    if !path.exists() {
        return Ok(Vec::new());
    }
    let table: toml::Table = toml::from_str(&files::read_text(&path)?)
        .map_err(|error| Error::file(&path, format!("is not valid TOML: {}", one_line(error.message()))))?;
    let mut kinds = Vec::new();
    for (name, value) in table {
        let refused = |what: String| Error::file(&path, format!("column `{}`: {what}", shortened(&name)));
        let column = TableColumn::number(&name);
        kinds.push(match value {
            toml::Value::String(word) => TableColumn { kind: kind(&word).map_err(refused)?, ..column },
            toml::Value::Array(values) => {
                let text = |value: toml::Value| match value {
                    toml::Value::String(text) => Ok(text),
                    toml::Value::Integer(number) => Ok(number.to_string()),
                    other => Err(refused(format!("expected texts from low to high, found {}", other.type_str()))),
                };
                let values: Vec<String> = values.into_iter().map(text).collect::<Result<_>>()?;
                let distinct: std::collections::HashSet<&String> = values.iter().collect();
                if !(2..=super::column::MOST_CATEGORIES).contains(&values.len()) || distinct.len() != values.len() {
                    let most = super::column::MOST_CATEGORIES;
                    return Err(refused(format!("expected 2 to {most} distinct values from low to high")));
                }
                TableColumn { kind: ColumnKind::Ordered, values, ..column }
            }
            other => return Err(refused(format!("expected a kind or a list of values, found {}", other.type_str()))),
        });
    }
    Ok(kinds)
}

/// How a column is read, by what is said of it.
pub(super) fn reading<'a>(kinds: &'a [TableColumn], name: &str) -> Reading<'a> {
    match kinds.iter().find(|column| column.name == name) {
        None => Reading::Guess,
        Some(column) if column.values.is_empty() => Reading::As(column.kind),
        Some(column) => Reading::Known(column),
    }
}

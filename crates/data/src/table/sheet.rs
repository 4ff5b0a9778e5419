//! A table of any kind with rows and named columns: text or Parquet; and what kind a file is.

use super::column::{Role, Table};
use super::delimited::Delimited;
use super::parquet::Parquet;
use harmonia_graph::error::{Error, Result};
use std::path::Path;

/// Endings of the files this format reads.
pub(super) const EXTENSIONS: [&str; 9] = ["csv", "tsv", "txt", "csv.gz", "tsv.gz", "txt.gz", "parquet", "npy", "npz"];

/// How a file is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Text,
    Parquet,
    Npy,
    Npz,
}

impl Kind {
    /// From the ending of the name.
    ///
    /// # Errors
    /// An ending that is not one of [`EXTENSIONS`].
    pub(super) fn of(path: &Path) -> Result<Kind> {
        let name = path.file_name().unwrap_or_default().to_string_lossy().to_lowercase();
        let ends = |endings: &[&str]| endings.iter().any(|ending| name.ends_with(&format!(".{ending}")));
        Ok(match () {
            () if ends(&["csv", "tsv", "txt", "csv.gz", "tsv.gz", "txt.gz"]) => Kind::Text,
            () if ends(&["parquet"]) => Kind::Parquet,
            () if ends(&["npy"]) => Kind::Npy,
            () if ends(&["npz"]) => Kind::Npz,
            () => {
                let message = format!("expected a file that ends in .{}", EXTENSIONS.join(", ."));
                return Err(Error::file(path, message));
            }
        })
    }
}

/// An open table.
pub(super) enum Sheet {
    Text(Delimited),
    Parquet(Parquet),
}

impl Sheet {
    /// Opens a text or Parquet file.
    ///
    /// # Errors
    /// Unreadable, or a numpy file, which has no rows of columns.
    pub(super) fn open(path: &Path) -> Result<Sheet> {
        match Kind::of(path)? {
            Kind::Text => Ok(Sheet::Text(Delimited::open(path)?)),
            Kind::Parquet => Ok(Sheet::Parquet(Parquet::open(path)?)),
            Kind::Npy | Kind::Npz => Err(Error::file(path, "expected a text or Parquet table, found a numpy file")),
        }
    }

    /// Names of the columns, where `header` agrees that the first row holds them; a Parquet file always has names.
    pub(super) fn names(&self, header: impl FnOnce(&[String]) -> Result<bool>) -> Result<Option<Vec<String>>> {
        Ok(match self {
            Sheet::Text(text) => header(text.first())?.then(|| text.first().to_vec()),
            Sheet::Parquet(parquet) => Some(parquet.names().to_vec()),
        })
    }

    /// Number of columns.
    pub(super) fn width(&self) -> usize {
        match self {
            Sheet::Text(text) => text.first().len(),
            Sheet::Parquet(parquet) => parquet.names().len(),
        }
    }

    /// Reads the columns; `names` for a text file whose first row is data.
    ///
    /// # Errors
    /// Anything wrong with a row.
    pub(super) fn read<'a>(self, names: Option<Vec<String>>, role: impl Fn(&str) -> Role<'a>) -> Result<Table> {
        match self {
            Sheet::Text(text) => text.read(names, role),
            Sheet::Parquet(parquet) => parquet.read(role),
        }
    }
}

/// The usual rule for a header: no cell of it is a number. A row 0, 1, 2, 3… of four or more is one too: pandas numbers
/// columns that have no name.
///
/// # Errors
/// A first row of names and numbers, or a first name that is empty: which it is cannot be told.
pub(super) fn is_header(path: &Path, first: &[String], known: impl Fn(&str) -> bool) -> Result<bool> {
    let number = |cell: &String| super::column::number(cell).is_some() || super::column::is_missing(cell);
    let counted = first.len() >= 4 && first.iter().enumerate().all(|(at, cell)| *cell == at.to_string());
    if counted || first.iter().any(|cell| known(cell)) || !first.iter().any(number) {
        if first.first().is_some_and(|name| name.is_empty()) {
            return Err(unnamed(path));
        }
        return Ok(true);
    }
    if first.iter().all(number) {
        return Ok(false);
    }
    if first.first().is_some_and(|name| name.is_empty()) {
        return Err(unnamed(path));
    }
    let words: Vec<&String> = first.iter().filter(|cell| !number(cell)).take(1).collect();
    let word = words.first().map_or(String::new(), |word| super::column::shortened(word));
    Err(Error::file(
        path,
        format!(
            "line 1: expected a header of names or a row of numbers, found both (`{word}` and numbers); add a header, \
             with `id` over a column of node names"
        ),
    ))
}

fn unnamed(path: &Path) -> Error {
    Error::file(
        path,
        "line 1: the first column has no name, as when pandas writes its index; save with index=False or call it `id`",
    )
}

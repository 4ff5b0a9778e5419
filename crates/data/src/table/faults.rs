//! What is wrong with the rows and cells of a file: the first in words, the others counted.

use super::column::{Places, shortened};
use harmonia_graph::error::{Error, Result};
use std::collections::HashMap;
use std::path::{Path, PathBuf};

/// What is wrong with the rows of one file: the first in words, the rest counted.
#[derive(Debug)]
pub(super) struct Faults {
    path: PathBuf,
    first: Option<String>,
    count: usize,
    /// What to do about them, as the end of the message.
    advice: &'static str,
}

impl Faults {
    /// Counting further tells the user nothing.
    const MOST: usize = 1000;

    pub(super) fn new(path: &Path) -> Faults {
        Faults { path: path.to_path_buf(), first: None, count: 0, advice: "" }
    }

    /// The same, with what to do about bad rows.
    pub(super) fn advising(self, advice: &'static str) -> Faults {
        Faults { advice, ..self }
    }

    /// Notes a bad row; `message` says where, what was expected and what was found.
    pub(super) fn add(&mut self, message: impl FnOnce() -> String) {
        self.first.get_or_insert_with(message);
        self.count += 1;
    }

    /// Notes several bad rows by one message that counts them itself.
    pub(super) fn add_all(&mut self, rows: usize, message: impl FnOnce() -> String) {
        self.count += if self.first.is_none() { 1 } else { rows };
        self.first.get_or_insert_with(message);
    }

    /// Whether it is time to stop looking.
    pub(super) fn is_full(&self) -> bool {
        self.count >= Self::MOST
    }

    /// # Errors
    /// There was a bad row.
    pub(super) fn finish(self) -> Result<()> {
        let Some(first) = self.first else { return Ok(()) };
        let more = match self.count - 1 {
            0 => String::new(),
            more if self.count >= Self::MOST => format!(" (and at least {more} more bad rows)"),
            1 => " (and 1 more bad row)".to_string(),
            more => format!(" (and {more} more bad rows)"),
        };
        Err(Error::file(&self.path, first + &more + self.advice))
    }
}

/// Missing values of one column.
#[derive(Clone, Debug, Default)]
pub(super) struct Missing {
    pub(super) count: usize,
    pub(super) first: usize,
}

impl Missing {
    pub(super) fn note(&mut self, row: usize) {
        if self.count == 0 {
            self.first = row;
        }
        self.count += 1;
    }

    /// # Errors
    /// Something is missing, in words.
    pub(super) fn refuse(&self, places: &Places) -> std::result::Result<(), String> {
        if self.count == 0 {
            return Ok(());
        }
        let (at, values) = (places.of(self.first), if self.count == 1 { "value" } else { "values" });
        Err(format!(
            "{at}: has {} missing {values}, this is the first; expected a number in every row: fill or drop them",
            self.count
        ))
    }
}

/// What is wrong with the cells of the columns of one file: the first of each column in words, the others counted.
#[derive(Debug)]
pub(super) struct ColumnFaults {
    path: PathBuf,
    columns: Vec<(String, String, usize)>,
    /// Place of each of them: there may be a hundred thousand.
    places: HashMap<String, usize>,
}

impl ColumnFaults {
    /// More columns are counted.
    const SHOWN: usize = 8;

    pub(super) fn new(path: &Path) -> ColumnFaults {
        ColumnFaults { path: path.to_path_buf(), columns: Vec::new(), places: HashMap::new() }
    }

    /// Notes a bad cell; `message` says where, what was expected and what was found.
    pub(super) fn add(&mut self, column: &str, message: impl FnOnce() -> String) {
        match self.places.get(column).and_then(|&place| self.columns.get_mut(place)) {
            Some((.., count)) => *count += 1,
            None => {
                self.places.insert(column.to_string(), self.columns.len());
                self.columns.push((column.to_string(), message(), 1));
            }
        }
    }

    /// # Errors
    /// There was a bad cell: all columns with one, at once.
    pub(super) fn finish(self) -> Result<()> {
        if self.columns.is_empty() {
            return Ok(());
        }
        let told = self.columns.iter().take(Self::SHOWN).map(|(name, first, count)| {
            let more = match count - 1 {
                0 => String::new(),
                1 => " (and 1 more cell)".to_string(),
                more => format!(" (and {more} more cells)"),
            };
            format!("column `{}`: {first}{more}", shortened(name))
        });
        let mut message = told.collect::<Vec<_>>().join("; ");
        if self.columns.len() > Self::SHOWN {
            message += &format!("; and {} more columns", self.columns.len() - Self::SHOWN);
        }
        Err(Error::file(&self.path, message))
    }
}

//! Text tables: fields separated by commas, tabs, semicolons or spaces, quoted where needed, gzip'ed or not.
//!
//! The text is gone through once for each way a column is tried: first as numbers, and again, for the columns that are
//! none, as dates or words; what is held are the columns. Invariant: a fault names the line a person would find it on.

use super::builder::{Builder, Pushed};
use super::column::{Column, ColumnFaults, Faults, Places, Role, Table, shortened};
use super::record::Records;
use super::stream::{LONGEST_ROW, Text, each_record};
use harmonia_graph::error::{Error, Result};
use std::borrow::Cow;
use std::path::{Path, PathBuf};

/// A text table whose first row has been looked at.
pub(super) struct Delimited {
    path: PathBuf,
    delimiter: u8,
    first: Vec<String>,
}

impl Delimited {
    /// Reads the file and its first row.
    ///
    /// # Errors
    /// Unreadable, empty, not UTF-8, or a quote that does not close.
    pub(super) fn open(path: &Path) -> Result<Delimited> {
        let delimiter = delimiter(path)?;
        let mut first = None;
        each_record(path, delimiter, |_, fields| {
            first = Some(fields.iter().map(|field| field.to_string()).collect());
            Ok(false)
        })?;
        match first {
            None => Err(Error::file(path, "is empty: expected at least one row")),
            Some(first) => Ok(Delimited { path: path.to_path_buf(), delimiter, first }),
        }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// The first row: a header or data.
    pub(super) fn first(&self) -> &[String] {
        &self.first
    }

    /// Reads the columns. `names` are given where the first row is data.
    ///
    /// # Errors
    /// Rows of another length, infinite numbers, words that are too many for a category.
    pub(super) fn read<'a>(self, names: Option<Vec<String>>, role: impl Fn(&str) -> Role<'a>) -> Result<Table> {
        let header = names.is_none();
        let names = names.unwrap_or_else(|| self.first.clone());
        let roles: Vec<Role<'a>> = names.iter().map(|name| role(name)).collect();
        let mut builders: Vec<Builder<'a>> = roles.iter().map(|&role| Builder::first(role)).collect();
        let (rows, places) = self.fill(header, &names, &mut builders)?;

        // Columns that are not what was tried first are tried as something else; those that are done need no other look.
        while builders.iter().any(Builder::has_failed) {
            let mut again: Vec<Builder<'a>> = builders.iter().zip(&roles).map(|(one, &role)| one.next(role)).collect();
            if self.fill(header, &names, &mut again)?.0 != rows {
                return Err(Error::file(&self.path, "changed while it was being read; convert it again"));
            }
            for (builder, again) in builders.iter_mut().zip(again).filter(|(builder, _)| builder.has_failed()) {
                *builder = again;
            }
        }
        let (mut columns, mut faults) = (Vec::with_capacity(names.len()), ColumnFaults::new(&self.path));
        for ((name, builder), &role) in names.into_iter().zip(builders).zip(&roles) {
            match builder.finish(role, rows, &places) {
                Ok(values) => columns.push(Column { name, values }),
                Err(message) => faults.add(&name, || message),
            }
        }
        faults.finish()?;
        Ok(Table { path: self.path, rows, columns, places })
    }

    fn fill(&self, header: bool, names: &[String], builders: &mut [Builder<'_>]) -> Result<(usize, Places)> {
        let (mut places, mut lengths) = (Places::default(), Faults::new(&self.path));
        let mut faults = ColumnFaults::new(&self.path);
        let mut rows = 0;
        self.each_row(header, names, &mut lengths, |line, fields, lengths| {
            places.note(rows, line);
            for ((builder, field), name) in builders.iter_mut().zip(fields).zip(names) {
                let expected = match builder.push(field, rows) {
                    Pushed::Fine => continue,
                    Pushed::Not(expected) => expected,
                };
                faults.add(name, || format!("line {line}: expected {expected}, found `{}`", shortened(field)));
            }
            rows += 1;
            Ok(!lengths.is_full())
        })?;
        lengths.finish()?;
        faults.finish()?;
        Ok((rows, places))
    }

    /// Hands on every row below the header that has a field for each name, with its line, until `row` has seen enough;
    /// rows of another length are faults.
    ///
    /// # Errors
    /// Unreadable, or what `row` gives.
    pub(super) fn each_row(
        &self,
        header: bool,
        names: &[String],
        faults: &mut Faults,
        mut row: impl FnMut(u64, &[Cow<'_, str>], &mut Faults) -> Result<bool>,
    ) -> Result<()> {
        let mut above = header;
        each_record(&self.path, self.delimiter, |line, fields| {
            if std::mem::take(&mut above) {
                return Ok(true);
            }
            if fields.len() == names.len() {
                return row(line, fields, faults);
            }
            faults.add(|| {
                let (expected, found) = (names.len(), fields.len());
                let fields = if expected == 1 { "field" } else { "fields" };
                format!("line {line}: expected {expected} {fields} ({}), found {found}", listed(names))
            });
            Ok(!faults.is_full())
        })
    }
}

fn listed(names: &[String]) -> String {
    const SHOWN: usize = 6;
    let mut text = names.iter().take(SHOWN).map(|name| shortened(name)).collect::<Vec<_>>().join(", ");
    if names.len() > SHOWN {
        text.push_str(", …");
    }
    text
}

/// The text of a file, unpacked where its name ends in `.gz`.
///
/// # Errors
/// Unreadable, not UTF-8, or unpacking to far more than its size allows.
pub(super) fn text(path: &Path) -> Result<String> {
    let mut text = Text::open(path)?;
    while !text.has_ended() {
        text.more()?;
    }
    Ok(text.into_held())
}

/// The separator: tab for .tsv; else a comma, or what the first row has instead of one.
fn delimiter(path: &Path) -> Result<u8> {
    let name = path.file_name().unwrap_or_default().to_string_lossy().to_lowercase();
    if name.ends_with(".tsv") || name.ends_with(".tsv.gz") {
        return Ok(b'\t');
    }
    let mut text = Text::open(path)?;
    let mut first = None;
    while first.is_none() && !text.has_ended() && text.held().len() <= LONGEST_ROW {
        text.more()?;
        // A line without its end may go on.
        let whole = |line: &&str| text.has_ended() || line.ends_with('\n');
        let lines = text.held().split_inclusive('\n').skip_while(|line| Records::is_preamble(line));
        first = lines.take(1).find(whole).map(str::to_string);
    }
    let mut quoted = false;
    let mut occurs = [false; 256];
    for byte in first.unwrap_or_default().bytes() {
        quoted ^= byte == b'"';
        if !quoted {
            occurs[usize::from(byte)] = true;
        }
    }
    // Spaces stand inside names: they separate only in files that are not called .csv.
    let spaces = if name.contains(".csv") { &b""[..] } else { b" " };
    Ok(*b",\t;".iter().chain(spaces).find(|&&byte| occurs[usize::from(byte)]).unwrap_or(&b','))
}

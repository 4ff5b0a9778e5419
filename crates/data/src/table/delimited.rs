//! Text tables: fields separated by commas, tabs, semicolons or spaces, quoted where needed, gzip'ed or not.
//!
//! The whole text is held and read once for each way a column is tried: first as numbers, and again, for the columns
//! that are none, as words. Invariant: a fault names the line a person would find it on.

use super::column::{
    Categories, Column, Faults, Missing, Places, Role, Table, Texts, Values, integer, is_missing, not_a_measure,
    number, shortened,
};
use super::record::Records;
use crate::archive::limit;
use harmonia_graph::error::{Error, Result};
use harmonia_graph::files;
use std::io::Read;
use std::path::{Path, PathBuf};

/// A text table whose first row has been looked at.
pub(super) struct Delimited {
    path: PathBuf,
    text: String,
    delimiter: u8,
    first: Vec<String>,
}

impl Delimited {
    /// Reads the file and its first row.
    ///
    /// # Errors
    /// Unreadable, empty, not UTF-8, or a quote that does not close.
    pub(super) fn open(path: &Path) -> Result<Delimited> {
        let text = text(path)?;
        let delimiter = delimiter(path, &text);
        let (mut records, mut first) = (Records::new(&text, delimiter), Vec::new());
        match records.next(&mut first) {
            Err(fault) => Err(Error::file(path, fault)),
            Ok(None) => Err(Error::file(path, "is empty: expected at least one row")),
            Ok(Some(_)) => {
                let first = first.into_iter().map(|field| field.into_owned()).collect();
                Ok(Delimited { path: path.to_path_buf(), text, delimiter, first })
            }
        }
    }

    /// The first row: a header or data.
    pub(super) fn first(&self) -> &[String] {
        &self.first
    }

    /// Reads the columns. `names` are given where the first row is data.
    ///
    /// # Errors
    /// Rows of another length, missing or infinite numbers, words that are too many for a category.
    pub(super) fn read(self, names: Option<Vec<String>>, role: impl Fn(&str) -> Role) -> Result<Table> {
        let header = names.is_none();
        let names = names.unwrap_or_else(|| self.first.clone());
        let roles: Vec<Role> = names.iter().map(|name| role(name)).collect();
        let mut builders: Vec<Builder> = (roles.iter())
            .map(|role| match role {
                Role::Key => Builder::Integers(Vec::new()),
                Role::Measure => Builder::Numbers(Vec::new(), Missing::default()),
                Role::Skip => Builder::Skip,
            })
            .collect();
        let (rows, places) = self.fill(header, &names, &mut builders)?;

        // Columns that are no numbers are words; those that are done need no second look.
        let again = |(builder, role): (&Builder, &Role)| match (builder, role) {
            (Builder::Failed(_), Role::Key) => Builder::Texts(Texts::default()),
            (Builder::Failed(row), _) => Builder::Categories(Categories::default(), Missing::default(), *row),
            _ => Builder::Skip,
        };
        let mut words: Vec<Builder> = builders.iter().zip(&roles).map(again).collect();
        if words.iter().any(|builder| !matches!(builder, Builder::Skip)) {
            self.fill(header, &names, &mut words)?;
        }
        let mut columns = Vec::with_capacity(names.len());
        for ((name, numbers), words) in names.into_iter().zip(builders).zip(words) {
            let builder = if matches!(numbers, Builder::Failed(_)) { words } else { numbers };
            let values = match builder {
                Builder::Integers(values) => Values::Integers(values),
                Builder::Texts(texts) => Values::Texts(texts),
                Builder::Numbers(values, missing) => {
                    missing.refuse(&self.path, &name, &places)?;
                    Values::Numbers(values)
                }
                Builder::Categories(categories, missing, first) => {
                    missing.refuse(&self.path, &name, &places)?;
                    // A slip of the pen among numbers is no category.
                    let numbers = categories.count(|word| number(word).is_some());
                    if 2 * numbers > rows {
                        let message = format!(
                            "{}: column `{name}`: expected a number, found `{}`; {numbers} of {rows} rows are numbers: mend the \
                             others, or write all of them as words",
                            places.of(first),
                            shortened(categories.word(first))
                        );
                        return Err(Error::file(&self.path, message));
                    }
                    categories.finish()
                }
                Builder::Skip | Builder::Failed(_) => Values::Skipped,
            };
            columns.push(Column { name, values });
        }
        Ok(Table { path: self.path, rows, columns, places })
    }

    fn fill(&self, header: bool, names: &[String], builders: &mut [Builder]) -> Result<(usize, Places)> {
        let mut records = Records::new(&self.text, self.delimiter);
        let (mut fields, mut places, mut faults) = (Vec::new(), Places::default(), Faults::new(&self.path));
        let mut rows = 0;
        if header {
            records.next(&mut fields).map_err(|fault| Error::file(&self.path, fault))?;
        }
        while let Some(line) = records.next(&mut fields).map_err(|fault| Error::file(&self.path, fault))? {
            if fields.len() != builders.len() {
                faults.add(|| {
                    let (expected, found) = (builders.len(), fields.len());
                    let fields = if expected == 1 { "field" } else { "fields" };
                    format!("line {line}: expected {expected} {fields} ({}), found {found}", listed(names))
                });
                if faults.is_full() {
                    break;
                }
                continue;
            }
            places.note(rows, line);
            for ((builder, field), name) in builders.iter_mut().zip(&fields).zip(names) {
                match builder.push(field, rows) {
                    Pushed::Fine => {}
                    Pushed::NotFinite => faults.add(|| {
                        let (name, field) = (shortened(name), shortened(field));
                        format!("line {line}: column `{name}`: expected a finite 32-bit number, found `{field}`")
                    }),
                    Pushed::TooMany(first) => {
                        let value = self.field(header, first, name, names);
                        return Err(not_a_measure(&self.path, name, &places.of(first), &value));
                    }
                }
            }
            rows += 1;
            if faults.is_full() {
                break;
            }
        }
        faults.finish()?;
        Ok((rows, places))
    }

    /// One field again, for a message.
    fn field(&self, header: bool, row: usize, name: &str, names: &[String]) -> String {
        let (mut records, mut fields) = (Records::new(&self.text, self.delimiter), Vec::new());
        for _ in 0..=row + usize::from(header) {
            if !matches!(records.next(&mut fields), Ok(Some(_))) {
                return String::new();
            }
        }
        let column = names.iter().position(|other| other == name).unwrap_or(0);
        fields.get(column).map_or(String::new(), |field| field.to_string())
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

/// A column in the making.
enum Builder {
    Skip,
    Integers(Vec<i64>),
    Texts(Texts),
    Numbers(Vec<f32>, Missing),
    /// With the first row that is no number.
    Categories(Categories, Missing, usize),
    /// Not what was tried; holds the first row that was not.
    Failed(usize),
}

enum Pushed {
    Fine,
    NotFinite,
    /// More words than a category has; the row of the first.
    TooMany(usize),
}

impl Builder {
    fn push(&mut self, field: &str, row: usize) -> Pushed {
        match self {
            Builder::Skip | Builder::Failed(_) => {}
            Builder::Integers(values) => match integer(field) {
                Some(value) => values.push(value),
                None => *self = Builder::Failed(row),
            },
            Builder::Texts(texts) => texts.push(field),
            Builder::Numbers(values, missing) => match number(field) {
                Some(value) if value.is_finite() => values.push(value),
                _ if is_missing(field) => {
                    missing.note(row);
                    values.push(0.0);
                }
                Some(_) => return Pushed::NotFinite,
                None => *self = Builder::Failed(row),
            },
            Builder::Categories(categories, missing, first) => {
                if field.is_empty() {
                    missing.note(row);
                } else if !categories.push(field) {
                    return Pushed::TooMany(*first);
                }
            }
        }
        Pushed::Fine
    }
}

/// The text of a file, unpacked where its name ends in `.gz`.
///
/// # Errors
/// Unreadable, not UTF-8, or unpacking to far more than its size allows.
pub(super) fn text(path: &Path) -> Result<String> {
    let mut bytes = files::read(path)?;
    if path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("gz")) {
        let most = limit(bytes.len() as u64);
        let mut unpacked = Vec::new();
        // A file may be several gzip members one after the other.
        let read = flate2::read::MultiGzDecoder::new(&bytes[..]).take(most + 1).read_to_end(&mut unpacked);
        read.map_err(|error| Error::file(path, format!("expected gzip, found damage ({error}); pack it again")))?;
        if unpacked.len() as u64 > most {
            return Err(Error::file(path, format!("unpacks to more than {most} bytes; unpack it first")));
        }
        bytes = unpacked;
    }
    if bytes.starts_with(&[0xff, 0xfe]) || bytes.starts_with(&[0xfe, 0xff]) {
        return Err(Error::file(path, "expected UTF-8 text, found UTF-16; save it as CSV UTF-8"));
    }
    let text = String::from_utf8(bytes).map_err(|error| {
        let end = error.utf8_error().valid_up_to();
        let line = 1 + error.as_bytes().iter().take(end).filter(|&&byte| byte == b'\n').count();
        Error::file(path, format!("line {line}: expected UTF-8 text, found other bytes; save it as UTF-8"))
    })?;
    // Spreadsheets put a byte order mark in front.
    Ok(match text.strip_prefix('\u{feff}') {
        Some(rest) => rest.to_string(),
        None => text,
    })
}

/// The separator: tab for .tsv; else a comma, or what the first row has instead of one.
fn delimiter(path: &Path, text: &str) -> u8 {
    let name = path.file_name().unwrap_or_default().to_string_lossy().to_lowercase();
    if name.ends_with(".tsv") || name.ends_with(".tsv.gz") {
        return b'\t';
    }
    let mut quoted = false;
    let mut occurs = [false; 256];
    let lines = text.lines().skip_while(|line| Records::is_preamble(line));
    for byte in lines.take(1).flat_map(str::bytes) {
        quoted ^= byte == b'"';
        if !quoted {
            occurs[usize::from(byte)] = true;
        }
    }
    // Spaces stand inside names: they separate only in files that are not called .csv.
    let spaces = if name.contains(".csv") { &b""[..] } else { b" " };
    *b",\t;".iter().chain(spaces).find(|&&byte| occurs[usize::from(byte)]).unwrap_or(&b',')
}

//! Text tables: fields separated by commas, tabs, semicolons or spaces, quoted where needed, gzip'ed or not.
//!
//! The text is gone through once for each way a column is tried: first as numbers, and again, for the columns that are
//! none, as words; what is held are the columns. Invariant: a fault names the line a person would find it on.

use super::column::{
    Categories, Column, Faults, Missing, Places, Role, Table, Texts, Values, integer, is_missing, not_a_measure,
    number, shortened,
};
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
            let (again, _) = self.fill(header, &names, &mut words)?;
            if again != rows {
                return Err(Error::file(&self.path, "changed while it was being read; convert it again"));
            }
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
        let (mut places, mut faults) = (Places::default(), Faults::new(&self.path));
        let mut rows = 0;
        self.each_row(header, names, &mut faults, |line, fields, faults| {
            places.note(rows, line);
            for ((builder, field), name) in builders.iter_mut().zip(fields).zip(names) {
                match builder.push(field, rows) {
                    Pushed::Fine => {}
                    Pushed::NotFinite => faults.add(|| {
                        let (name, field) = (shortened(name), shortened(field));
                        format!("line {line}: column `{name}`: expected a finite 32-bit number, found `{field}`")
                    }),
                    Pushed::TooMany(first) => {
                        let value = self.field(header, first, name, names)?;
                        return Err(not_a_measure(&self.path, name, &places.of(first), &value));
                    }
                }
            }
            rows += 1;
            Ok(!faults.is_full())
        })?;
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

    /// One field again, for a message.
    fn field(&self, header: bool, row: usize, name: &str, names: &[String]) -> Result<String> {
        let column = names.iter().position(|other| other == name).unwrap_or(0);
        let (mut left, mut found) = (row + usize::from(header), String::new());
        each_record(&self.path, self.delimiter, |_, fields| {
            let is_it = left == 0;
            if is_it {
                found = fields.get(column).map_or(String::new(), |field| field.to_string());
            }
            left = left.saturating_sub(1);
            Ok(!is_it)
        })?;
        Ok(found)
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

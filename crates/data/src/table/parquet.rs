//! Parquet tables: flat columns of integers, floats, yes/no and text.
//!
//! The `parquet` crate decodes; counts in the file are claims, so columns grow as values arrive and stop at a bound.
//! Invariant: damage gives an error, even where the decoder itself gives up with a panic.

use super::column::{
    Categories, Column, ColumnFaults, GAP, Missing, Places, Reading, Role, Table, Texts, Unseen, Values, not_a_measure,
    shortened,
};
use harmonia_graph::dataset::{ColumnKind, days};
use harmonia_graph::error::{Error, Result};
use parquet::basic::{ConvertedType, LogicalType, TimeUnit, Type};
use parquet::column::reader::{ColumnReader, ColumnReaderImpl};
use parquet::data_type::DataType;
use parquet::errors::ParquetError;
use parquet::file::metadata::ColumnChunkMetaData;
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::schema::types::ColumnDescriptor;
use std::fs::File;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

/// Values read at a time.
const BATCH: usize = 1 << 14;

/// A Parquet file whose schema has been checked.
pub(super) struct Parquet {
    path: PathBuf,
    reader: SerializedFileReader<File>,
    names: Vec<String>,
    /// Values all columns together may have: runs pack well, but not without end.
    most: u64,
}

impl Parquet {
    /// Reads the schema.
    ///
    /// # Errors
    /// Not Parquet, or with nested columns.
    pub(super) fn open(path: &Path) -> Result<Parquet> {
        let file = File::open(path).map_err(Error::io("read", path))?;
        let bytes = file.metadata().map_err(Error::io("read", path))?.len();
        let reader = guarded(path, || SerializedFileReader::new(file))?;
        let schema = reader.metadata().file_metadata().schema_descr();
        let mut names = Vec::new();
        for column in schema.columns() {
            if column.max_rep_level() > 0 || column.path().parts().len() > 1 {
                let message = format!(
                    "column `{}`: expected a flat column, found a nested one; write one column per value",
                    shortened(&column.path().string())
                );
                return Err(Error::file(path, message));
            }
            names.push(column.name().to_string());
        }
        if names.is_empty() {
            return Err(Error::file(path, "expected at least one column, found none"));
        }
        // The decoder asserts this instead of refusing it.
        let negative = |column: &ColumnChunkMetaData| {
            let dictionary = column.dictionary_page_offset().unwrap_or(0);
            column.compressed_size() < 0 || column.data_page_offset() < 0 || dictionary < 0
        };
        if reader.metadata().row_groups().iter().any(|group| group.columns().iter().any(negative)) {
            let message = "expected a Parquet table: a column starts before the file; write it again, it is damaged";
            return Err(Error::file(path, message));
        }
        Ok(Parquet { path: path.to_path_buf(), reader, names, most: crate::archive::limit(bytes) })
    }

    /// Names of the columns.
    pub(super) fn names(&self) -> &[String] {
        &self.names
    }

    /// Reads the columns.
    ///
    /// # Errors
    /// Damage, a type that is no key or measure, infinite numbers.
    pub(super) fn read<'a>(self, role: impl Fn(&str) -> Role<'a>) -> Result<Table> {
        let (mut columns, mut faults) = (Vec::new(), ColumnFaults::new(&self.path));
        let mut rows: Option<usize> = None;
        let mut left = self.most;
        for (at, name) in self.names.iter().enumerate() {
            let values = match role(name) {
                Role::Skip => Values::Skipped,
                role => {
                    let cells = self.empty(at, role)?;
                    let cells = guarded(&self.path, || self.cells(at, cells, &mut left))?;
                    let length = cells.len();
                    if rows.is_some_and(|rows| rows != length) {
                        let message =
                            format!("column `{name}` has {length} rows, the ones before it {}", rows.unwrap_or(0));
                        return Err(Error::file(&self.path, message));
                    }
                    rows = Some(length);
                    match role {
                        Role::Key => Parquet::key(cells),
                        _ => measure(name, cells, role, &mut faults),
                    }
                }
            };
            columns.push(Column { name: name.clone(), values });
        }
        faults.finish()?;
        Ok(Table { path: self.path, rows: rows.unwrap_or(0), columns, places: Places::default() })
    }

    /// An empty column of the right kind; a moment is no key.
    fn empty(&self, at: usize, role: Role<'_>) -> Result<Cells> {
        let description = self.reader.metadata().file_metadata().schema_descr().column(at);
        let cells = kind(&description).filter(|cells| role != Role::Key || !matches!(cells, Cells::Days(..)));
        cells.ok_or_else(|| {
            let name = shortened(description.name());
            let logical = description.logical_type_ref().map(|logical| format!("{logical:?}"));
            // Only the name of the type; its settings say nothing here.
            let logical = logical.and_then(|text| text.split(['(', ' ', '{']).next().map(str::to_uppercase));
            let type_name = match (logical, description.converted_type()) {
                (Some(logical), _) => logical,
                (None, ConvertedType::NONE) => description.physical_type().to_string(),
                (None, converted) => converted.to_string(),
            };
            let dates = if role == Role::Key { "" } else { "dates, " };
            let message = format!(
                "column `{name}`: expected integers, floats, {dates}yes/no or text, found {type_name}; convert or drop it"
            );
            Error::file(&self.path, message)
        })
    }

    fn cells(&self, at: usize, mut cells: Cells, left: &mut u64) -> std::result::Result<Cells, ParquetError> {
        let description = self.reader.metadata().file_metadata().schema_descr().column(at);
        let (unsigned, long) = (is_unsigned(&description), description.converted_type() == ConvertedType::UINT_64);
        for group in 0..self.reader.num_row_groups() {
            let reader = self.reader.get_row_group(group)?.get_column_reader(at)?;
            match (&mut cells, reader) {
                (Cells::Truths(to), ColumnReader::BoolColumnReader(from)) => {
                    drain(from, &description, left, |value| to.push(value.map(|&yes| f64::from(u8::from(yes)))))?;
                }
                (Cells::Days(to, _), ColumnReader::Int32ColumnReader(from)) => {
                    drain(from, &description, left, |value| to.push(value.map(|&value| f64::from(value))))?;
                }
                (Cells::Days(to, in_a_day), ColumnReader::Int64ColumnReader(from)) => {
                    let in_a_day = *in_a_day;
                    drain(from, &description, left, |value| to.push(value.map(|&value| value as f64 / in_a_day)))?;
                }
                (Cells::Numbers(to), ColumnReader::FloatColumnReader(from)) => {
                    drain(from, &description, left, |value| to.push(value.map(|&value| f64::from(value))))?;
                }
                (Cells::Numbers(to), ColumnReader::DoubleColumnReader(from)) => {
                    drain(from, &description, left, |value| to.push(value.copied()))?;
                }
                (Cells::Integers(to), ColumnReader::Int32ColumnReader(from)) => {
                    let widen = |&value: &i32| if unsigned { i64::from(value as u32) } else { i64::from(value) };
                    drain(from, &description, left, |value| to.push(value.map(widen)))?;
                }
                (Cells::Integers(to), ColumnReader::Int64ColumnReader(from)) => {
                    let mut beyond = false;
                    drain(from, &description, left, |value| {
                        beyond |= long && value.is_some_and(|&value| value < 0);
                        to.push(value.copied());
                    })?;
                    if beyond {
                        return Err(ParquetError::General(
                            "an unsigned integer is too large for 64 bits with sign".into(),
                        ));
                    }
                }
                (Cells::Texts(to, present), ColumnReader::ByteArrayColumnReader(from)) => {
                    let mut bad = None;
                    drain(from, &description, left, |value| {
                        let text = value.map(|bytes| std::str::from_utf8(bytes.data()));
                        if let Some(Err(_)) = text {
                            bad.get_or_insert(to.len());
                        }
                        to.push(text.and_then(std::result::Result::ok).unwrap_or(""));
                        present.push(text.is_some());
                    })?;
                    if let Some(row) = bad {
                        return Err(ParquetError::General(format!(
                            "row {row}: expected UTF-8 text, found other bytes"
                        )));
                    }
                }
                _ => return Err(ParquetError::General("a column changes its type between row groups".into())),
            }
        }
        Ok(cells)
    }

    /// Ids, labels and words; what is missing becomes the empty text.
    fn key(cells: Cells) -> Values {
        let texts = |cells: &mut dyn Iterator<Item = Option<String>>| {
            let mut texts = Texts::default();
            cells.for_each(|cell| texts.push(&cell.unwrap_or_default()));
            Values::Texts(texts)
        };
        match cells {
            Cells::Integers(values) if values.iter().all(Option::is_some) => {
                Values::Integers(values.into_iter().flatten().collect())
            }
            Cells::Integers(values) => texts(&mut values.into_iter().map(|value| value.map(|value| value.to_string()))),
            // pandas keeps integers with gaps as floats: 1.0 is shown as 1, and is a label again.
            Cells::Numbers(values) | Cells::Truths(values) | Cells::Days(values, _) => {
                let shown = |value: f64| if value.is_nan() { String::new() } else { value.to_string() };
                texts(&mut values.into_iter().map(|value| value.map(shown)))
            }
            Cells::Texts(values, _) => Values::Texts(values),
        }
    }
}

/// A feature or a weight; what is wrong with it goes to `faults`.
fn measure(name: &str, cells: Cells, role: Role<'_>, faults: &mut ColumnFaults) -> Values {
    let reading = if let Role::Measure(reading) = role { reading } else { Reading::Guess };
    let worded = matches!(reading.kind(), Some(ColumnKind::Category | ColumnKind::Ordered));
    let kind = match &cells {
        Cells::Truths(_) => ColumnKind::Boolean,
        Cells::Days(..) => ColumnKind::Date,
        _ => ColumnKind::Number,
    };
    match cells {
        Cells::Texts(texts, present) => {
            let dated = reading.kind() == Some(ColumnKind::Date) || (reading == Reading::Guess && are_dates(&texts));
            let cell = |row: usize| present.get(row).filter(|present| **present).map(|_| texts.get(row));
            let cells = (0..present.len()).map(cell);
            match reading.kind() {
                Some(kind @ (ColumnKind::Number | ColumnKind::Boolean)) => {
                    let cells =
                        cells.map(|cell| cell.map(|text| super::column::number(text).map_or(f64::INFINITY, f64::from)));
                    numbers(name, cells, kind, role, faults)
                }
                _ if dated => {
                    let cells = cells.map(|cell| {
                        cell.filter(|text| !text.is_empty()).map(|text| days(text).unwrap_or(f64::INFINITY))
                    });
                    numbers(name, cells, ColumnKind::Date, role, faults)
                }
                _ => words(name, cells, reading, faults),
            }
        }
        Cells::Integers(values) if worded => {
            let texts: Vec<Option<String>> =
                values.into_iter().map(|value| value.map(|value| value.to_string())).collect();
            words(name, texts.iter().map(Option::as_deref), reading, faults)
        }
        Cells::Truths(values) if worded => {
            let texts = values.into_iter().map(|value| value.map(|value| if value == 1.0 { "true" } else { "false" }));
            words(name, texts, reading, faults)
        }
        Cells::Numbers(values) if worded => {
            let texts: Vec<Option<String>> =
                values.into_iter().map(|value| value.map(|value| value.to_string())).collect();
            words(name, texts.iter().map(Option::as_deref), reading, faults)
        }
        Cells::Integers(values) => {
            numbers(name, values.into_iter().map(|value| value.map(|value| value as f64)), kind, role, faults)
        }
        Cells::Numbers(values) | Cells::Truths(values) | Cells::Days(values, _) => {
            numbers(name, values.into_iter(), kind, role, faults)
        }
    }
}

/// Whether every text that is there is a date.
fn are_dates(texts: &Texts) -> bool {
    let mut there = (0..texts.len()).map(|row| texts.get(row)).filter(|text| !text.is_empty()).peekable();
    there.peek().is_some() && there.all(|text| days(text).is_some())
}

fn numbers(
    name: &str,
    cells: impl Iterator<Item = Option<f64>>,
    kind: ColumnKind,
    role: Role<'_>,
    faults: &mut ColumnFaults,
) -> Values {
    let (mut missing, mut values) = (Missing::default(), Vec::new());
    for (row, cell) in cells.enumerate() {
        let value = cell.filter(|value| !value.is_nan());
        if value.is_none() {
            missing.note(row);
        }
        let number = value.map_or(f32::NAN, |value| value as f32);
        if number.is_infinite() {
            faults.add(name, || format!("row {row}: expected a finite 32-bit number, found {}", value.unwrap_or(0.0)));
        }
        values.push(number);
    }
    if role == Role::Weight
        && let Err(message) = missing.refuse(&Places::default())
    {
        faults.add(name, || message);
    }
    if missing.count == values.len() && !values.is_empty() && role == Role::Measure(Reading::Guess) {
        faults.add(name, || "every value is missing; leave the column out".into());
    }
    Values::Numbers { values, kind }
}

fn words<'t>(
    name: &str,
    cells: impl Iterator<Item = Option<&'t str>>,
    reading: Reading<'_>,
    faults: &mut ColumnFaults,
) -> Values {
    if let Some(known) = reading.values() {
        let mut unseen = Unseen::default();
        let code = |cell: Option<&str>| {
            let text = cell.filter(|text| !text.is_empty())?;
            let code = known.iter().position(|value| value == text);
            if code.is_none() {
                unseen.note(text);
            }
            code
        };
        let codes = cells.map(code).map(|code| code.map_or(GAP, |code| code as u8)).collect();
        return Values::Categories { codes, names: known.to_vec(), unseen };
    }
    let mut categories = Categories::default();
    for (row, cell) in cells.enumerate() {
        match cell.filter(|text| !text.is_empty()) {
            None => categories.push_gap(),
            Some(text) => {
                if !categories.push(text) {
                    faults.add(name, || not_a_measure(&Places::default().of(row), text));
                    break;
                }
            }
        }
    }
    categories.finish(reading == Reading::As(ColumnKind::Ordered))
}

/// Cells of one column; `None` is missing.
enum Cells {
    Integers(Vec<Option<i64>>),
    Numbers(Vec<Option<f64>>),
    /// 1 and 0.
    Truths(Vec<Option<f64>>),
    /// Days since 1970-01-01; with how many of the column's units make a day.
    Days(Vec<Option<f64>>, f64),
    /// With whether each is there.
    Texts(Texts, Vec<bool>),
}

impl Cells {
    fn len(&self) -> usize {
        match self {
            Cells::Integers(values) => values.len(),
            Cells::Numbers(values) | Cells::Truths(values) | Cells::Days(values, _) => values.len(),
            Cells::Texts(values, _) => values.len(),
        }
    }
}

/// An empty column of the right kind; none for decimals, times and the like, whose numbers mean something else.
fn kind(column: &ColumnDescriptor) -> Option<Cells> {
    if let Some(in_a_day) = in_a_day(column) {
        return Some(Cells::Days(Vec::new(), in_a_day));
    }
    let plain = match (column.logical_type_ref(), column.converted_type()) {
        (Some(LogicalType::String | LogicalType::Enum | LogicalType::Integer { .. } | LogicalType::Unknown), _) => true,
        (Some(_), _) => false,
        (None, converted) => !matches!(
            converted,
            ConvertedType::DECIMAL
                | ConvertedType::DATE
                | ConvertedType::TIME_MILLIS
                | ConvertedType::TIME_MICROS
                | ConvertedType::TIMESTAMP_MILLIS
                | ConvertedType::TIMESTAMP_MICROS
                | ConvertedType::INTERVAL
        ),
    };
    match column.physical_type() {
        _ if !plain => None,
        Type::BOOLEAN => Some(Cells::Truths(Vec::new())),
        Type::FLOAT | Type::DOUBLE => Some(Cells::Numbers(Vec::new())),
        Type::INT32 | Type::INT64 => Some(Cells::Integers(Vec::new())),
        Type::BYTE_ARRAY => Some(Cells::Texts(Texts::default(), Vec::new())),
        Type::INT96 | Type::FIXED_LEN_BYTE_ARRAY => None,
    }
}

/// Of a column of dates or moments, its units in a day.
fn in_a_day(column: &ColumnDescriptor) -> Option<f64> {
    const SECONDS: f64 = 86_400.0;
    match (column.physical_type(), column.logical_type_ref(), column.converted_type()) {
        (Type::INT32, Some(LogicalType::Date), _) | (Type::INT32, None, ConvertedType::DATE) => Some(1.0),
        (Type::INT64, Some(LogicalType::Timestamp(kind)), _) => Some(match kind.unit {
            TimeUnit::MILLIS => SECONDS * 1e3,
            TimeUnit::MICROS => SECONDS * 1e6,
            TimeUnit::NANOS => SECONDS * 1e9,
        }),
        (Type::INT64, None, ConvertedType::TIMESTAMP_MILLIS) => Some(SECONDS * 1e3),
        (Type::INT64, None, ConvertedType::TIMESTAMP_MICROS) => Some(SECONDS * 1e6),
        _ => None,
    }
}

/// Unsigned integers of up to 32 bits; Parquet keeps them in signed ones.
fn is_unsigned(column: &ColumnDescriptor) -> bool {
    matches!(column.converted_type(), ConvertedType::UINT_8 | ConvertedType::UINT_16 | ConvertedType::UINT_32)
}

/// Hands every value of a column of one row group to `push`.
fn drain<T: DataType>(
    mut reader: ColumnReaderImpl<T>,
    description: &ColumnDescriptor,
    left: &mut u64,
    mut push: impl FnMut(Option<&T::T>),
) -> std::result::Result<(), ParquetError> {
    let there = description.max_def_level();
    let (mut levels, mut values) = (Vec::new(), Vec::new());
    loop {
        levels.clear();
        values.clear();
        let (records, ..) = reader.read_records(BATCH, Some(&mut levels), None, &mut values)?;
        if records == 0 {
            return Ok(());
        }
        *left = left.checked_sub(records as u64).ok_or_else(|| {
            ParquetError::General("unpacks to far more values than its size allows; write it again in parts".into())
        })?;
        if there == 0 {
            values.iter().for_each(|value| push(Some(value)));
            continue;
        }
        let mut present = values.iter();
        for &level in &levels {
            push(if level == there { present.next() } else { None });
        }
    }
}

/// Runs the decoder; its errors, and its panics on damaged files, become errors of the file.
fn guarded<T>(path: &Path, work: impl FnOnce() -> std::result::Result<T, ParquetError>) -> Result<T> {
    let refused = |reason: String| {
        let reason = harmonia_graph::error::one_line(reason);
        Error::file(path, format!("expected a Parquet table: {reason}; write it again if it is damaged"))
    };
    match catch_unwind(AssertUnwindSafe(work)) {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(ParquetError::General(reason))) => Err(refused(reason)),
        Ok(Err(error)) => Err(refused(error.to_string())),
        Err(_) => Err(refused("the decoder stopped".into())),
    }
}

//! Cells of a column that come with a type of their own, as in Parquet, read as a measure.

use super::builder::{TRUTH, is_truth};
use super::column::{
    Categories, GAP, Places, Reading, Role, Texts, Unseen, Values, is_missing, not_a_measure, number, shortened,
};
use super::faults::ColumnFaults;
use harmonia_graph::dataset::{ColumnKind, days};

/// Cells of one column; `None` is missing.
pub(super) enum Cells {
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
    pub(super) fn len(&self) -> usize {
        match self {
            Cells::Integers(values) => values.len(),
            Cells::Numbers(values) | Cells::Truths(values) | Cells::Days(values, _) => values.len(),
            Cells::Texts(values, _) => values.len(),
        }
    }
}

impl Cells {
    /// The first row, and what is wrong, of a column that cannot be of a kind: dates where there are to be numbers or words, and the other
    /// way about.
    fn unlike(&self, settled: ColumnKind) -> Option<(usize, String)> {
        const DATE: &str = "a date such as 2026-11-18";
        let first = |values: &[Option<f64>]| {
            values
                .iter()
                .enumerate()
                .find_map(|(row, cell)| cell.filter(|value| !value.is_nan()).map(|value| (row, value)))
        };
        let number = match (self, settled) {
            (Cells::Days(values, _), ColumnKind::Category | ColumnKind::Ordered) => {
                return first(values).map(|(row, _)| (row, "expected a word, found a date".into()));
            }
            (Cells::Days(values, _), ColumnKind::Number | ColumnKind::Boolean) => {
                return first(values).map(|(row, _)| (row, "expected a number, found a date".into()));
            }
            (Cells::Numbers(values) | Cells::Truths(values), ColumnKind::Date) => first(values),
            (Cells::Integers(values), ColumnKind::Date) => {
                values.iter().enumerate().find_map(|(row, cell)| cell.map(|value| (row, value as f64)))
            }
            _ => None,
        };
        number.map(|(row, value)| (row, format!("expected {DATE}, found `{value}`")))
    }
}

/// A feature or a weight; what is wrong with it goes to `faults`.
pub(super) fn measure(name: &str, cells: Cells, role: Role<'_>, faults: &mut ColumnFaults) -> Values {
    let reading = if let Role::Measure(reading) = role { reading } else { Reading::Guess };
    let worded = matches!(reading.kind(), Some(ColumnKind::Category | ColumnKind::Ordered));
    let kind = match &cells {
        Cells::Truths(_) => ColumnKind::Boolean,
        Cells::Days(..) => ColumnKind::Date,
        _ => ColumnKind::Number,
    };
    if let Some((row, message)) = reading.kind().and_then(|settled| cells.unlike(settled)) {
        faults.add(name, || format!("{}: {message}", Places::default().of(row)));
        return Values::Skipped;
    }
    match cells {
        Cells::Texts(texts, present) => {
            let dated = reading.kind() == Some(ColumnKind::Date) || (reading == Reading::Guess && are_dates(&texts));
            let cell = |row: usize| present.get(row).filter(|present| **present).map(|_| texts.get(row));
            let cells = (0..present.len()).map(cell);
            match reading.kind() {
                Some(kind @ (ColumnKind::Number | ColumnKind::Boolean)) => {
                    let expected = if kind == ColumnKind::Boolean { TRUTH } else { "a number" };
                    let cells = parsed(name, cells, expected, |text| number(text).map(f64::from), faults);
                    numbers(name, cells.into_iter(), kind, role, faults)
                }
                _ if dated => {
                    let cells = parsed(name, cells, "a date such as 2026-11-18", days, faults);
                    numbers(name, cells.into_iter(), ColumnKind::Date, role, faults)
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

/// Texts as numbers or dates; one that is neither that nor missing is a fault.
fn parsed<'t>(
    name: &str,
    cells: impl Iterator<Item = Option<&'t str>>,
    expected: &str,
    read: impl Fn(&str) -> Option<f64>,
    faults: &mut ColumnFaults,
) -> Vec<Option<f64>> {
    let value = |(row, cell): (usize, Option<&str>)| {
        let text = cell.filter(|text| !is_missing(text))?;
        let value = read(text);
        if value.is_none() {
            faults.add(name, || {
                format!("{}: expected {expected}, found `{}`", Places::default().of(row), shortened(text))
            });
        }
        value
    };
    cells.enumerate().map(value).collect()
}

fn numbers(
    name: &str,
    cells: impl Iterator<Item = Option<f64>>,
    kind: ColumnKind,
    role: Role<'_>,
    faults: &mut ColumnFaults,
) -> Values {
    let (mut missing, mut values) = (0, Vec::new());
    let truths = matches!(role, Role::Measure(reading) if reading.kind() == Some(ColumnKind::Boolean));
    for (row, cell) in cells.enumerate() {
        let value = cell.filter(|value| !value.is_nan());
        missing += usize::from(value.is_none());
        let number = value.map_or(f32::NAN, |value| value as f32);
        if truths && !number.is_nan() && !is_truth(number) {
            faults.add(name, || format!("row {row}: expected {TRUTH}, found {number}"));
        }
        if number.is_infinite() {
            faults.add(name, || format!("row {row}: expected a finite 32-bit number, found {}", value.unwrap_or(0.0)));
        }
        values.push(number);
    }
    if missing == values.len() && !values.is_empty() && role == Role::Measure(Reading::Guess) {
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

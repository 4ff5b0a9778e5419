//! A column of a text table in the making: what its cells are tried as, and what it becomes when they are not that.

use super::column::{
    Categories, GAP, Places, Reading, Role, Texts, Unseen, Values, integer, is_gap, is_missing, not_a_measure, number,
    shortened,
};
use super::faults::Missing;
use harmonia_graph::dataset::{ColumnKind, days};

/// A column in the making.
pub(super) enum Builder<'a> {
    /// Not looked at.
    Skip,
    /// Keys.
    Integers(Vec<i64>),
    /// Keys that are no integers.
    Texts(Texts),
    /// Measures; NaN where they are missing.
    Numbers {
        values: Vec<f32>,
        missing: Missing,
        /// Cells that are words for true and false.
        truths: usize,
        /// What they are to be, where that is settled: a word among them is then a fault, else a sign that the column is something else.
        settled: Option<ColumnKind>,
    },
    /// Days; NaN where they are missing.
    Dates { values: Vec<f32>, settled: bool },
    /// Words, with the first that was no number and its row.
    Categories { words: Categories, first: (usize, String), overflow: bool },
    /// Words of which all that may occur are known.
    Known { values: &'a [String], codes: Vec<u8>, unseen: Unseen },
    /// Not what was tried; the first cell that was not, and whether it is a date.
    Failed { row: usize, word: String, date: bool },
}

/// What became of a cell.
pub(super) enum Pushed {
    Fine,
    /// It is not what its column holds.
    Not(&'static str),
}

const FINITE: &str = "a finite 32-bit number";
/// What is neither, in a column that is to hold nothing else.
pub(super) const TRUTH: &str = "true or false, or 1 or 0";

pub(super) fn is_truth(value: f32) -> bool {
    value == 0.0 || value == 1.0
}

impl<'a> Builder<'a> {
    /// What a column is tried as first.
    pub(super) fn first(role: Role<'a>) -> Builder<'a> {
        let numbers =
            |settled| Builder::Numbers { values: Vec::new(), missing: Missing::default(), truths: 0, settled };
        match role {
            Role::Skip => Builder::Skip,
            Role::Key => Builder::Integers(Vec::new()),
            Role::Weight => numbers(None),
            Role::Measure(reading) => match (reading.kind(), reading.values()) {
                (_, Some(values)) => Builder::Known { values, codes: Vec::new(), unseen: Unseen::default() },
                (None, _) => numbers(None),
                (settled @ Some(ColumnKind::Number | ColumnKind::Boolean), _) => numbers(settled),
                (Some(ColumnKind::Date), _) => Builder::Dates { values: Vec::new(), settled: true },
                (Some(ColumnKind::Category | ColumnKind::Ordered), _) => Builder::words((0, String::new())),
            },
        }
    }

    fn words(first: (usize, String)) -> Builder<'a> {
        Builder::Categories { words: Categories::default(), first, overflow: false }
    }

    pub(super) fn has_failed(&self) -> bool {
        matches!(self, Builder::Failed { .. })
    }

    /// What a column is tried as after this; nothing where it is done.
    pub(super) fn next(&self, role: Role<'a>) -> Builder<'a> {
        match (self, role) {
            (Builder::Failed { .. }, Role::Key) => Builder::Texts(Texts::default()),
            (Builder::Failed { date: true, .. }, Role::Measure(_)) => {
                Builder::Dates { values: Vec::new(), settled: false }
            }
            (Builder::Failed { row, word, .. }, _) => Builder::words((*row, word.clone())),
            _ => Builder::Skip,
        }
    }

    /// Takes the cell of the next row.
    pub(super) fn push(&mut self, field: &str, row: usize) -> Pushed {
        match self {
            Builder::Skip | Builder::Failed { .. } => {}
            Builder::Integers(values) => match integer(field) {
                Some(value) => values.push(value),
                None => self.fail(field, row, false),
            },
            Builder::Texts(texts) => texts.push(field),
            Builder::Numbers { values, missing, truths, settled } => match number(field) {
                Some(value) if *settled == Some(ColumnKind::Boolean) && !is_truth(value) => return Pushed::Not(TRUTH),
                Some(value) if value.is_finite() => {
                    *truths += usize::from(!field.starts_with(|c: char| c.is_ascii_digit() || "+-.".contains(c)));
                    values.push(value);
                }
                _ if is_missing(field) => {
                    missing.note(row);
                    values.push(f32::NAN);
                }
                Some(_) => return Pushed::Not(FINITE),
                None if *settled == Some(ColumnKind::Boolean) => return Pushed::Not(TRUTH),
                None if settled.is_some() => return Pushed::Not("a number"),
                None => self.fail(field, row, days(field).is_some()),
            },
            Builder::Dates { values, settled } => match days(field) {
                Some(days) => values.push(days as f32),
                None if is_missing(field) => values.push(f32::NAN),
                None if *settled => return Pushed::Not("a date such as 2026-11-18"),
                None => self.fail(field, row, false),
            },
            Builder::Categories { words, overflow, .. } => match is_gap(field) {
                _ if *overflow => {}
                true => words.push_gap(),
                false => *overflow = !words.push(field),
            },
            Builder::Known { values, codes, unseen } => {
                let code = values.iter().position(|value| value == field);
                if code.is_none() && !is_gap(field) {
                    unseen.note(field);
                }
                codes.push(code.map_or(GAP, |code| code as u8));
            }
        }
        Pushed::Fine
    }

    fn fail(&mut self, word: &str, row: usize, date: bool) {
        *self = Builder::Failed { row, word: word.to_string(), date };
    }

    /// The column.
    ///
    /// # Errors
    /// It is no measure, in words.
    pub(super) fn finish(self, role: Role<'a>, rows: usize, places: &Places) -> Result<Values, String> {
        Ok(match self {
            Builder::Skip | Builder::Failed { .. } => Values::Skipped,
            Builder::Integers(values) => Values::Integers(values),
            Builder::Texts(texts) => Values::Texts(texts),
            Builder::Numbers { missing, values, truths, .. } => {
                if role == Role::Weight {
                    missing.refuse(places)?;
                }
                let known = rows - missing.count;
                if known == 0 && rows > 0 && role == Role::Measure(Reading::Guess) {
                    return Err("every value is missing; leave the column out".into());
                }
                let kind = if known > 0 && truths == known { ColumnKind::Boolean } else { ColumnKind::Number };
                Values::Numbers { values, kind }
            }
            Builder::Dates { values, .. } => Values::Numbers { values, kind: ColumnKind::Date },
            Builder::Known { values, codes, unseen } => Values::Categories { codes, names: values.to_vec(), unseen },
            Builder::Categories { words, first, overflow } => {
                let (row, word) = first;
                if overflow {
                    return Err(match word.is_empty() {
                        true => format!(
                            "has more than {} distinct values, too many for a category",
                            super::column::MOST_CATEGORIES
                        ),
                        false => not_a_measure(&places.of(row), &word),
                    });
                }
                // A slip of the pen among numbers is no category, unless somebody said so.
                let numbers = words.count(|word| number(word).is_some());
                if 2 * numbers > rows && !word.is_empty() {
                    return Err(format!(
                        "{}: expected a number, found `{}`; {numbers} of {rows} rows are numbers: mend the others, or write all \
                         of them as words",
                        places.of(row),
                        shortened(&word)
                    ));
                }
                words.finish(role == Role::Measure(Reading::As(ColumnKind::Ordered)))
            }
        })
    }
}

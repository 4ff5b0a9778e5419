//! Columns of a table, whatever file they come from.
//!
//! A column is read as keys (ids, labels, words: integers where all are, else text) or as a measure (numbers, dates, or a few
//! categories, with gaps). Invariant: every column of a [`Table`] has `rows` values.

use harmonia_graph::dataset::{ColumnKind, MISSING, TableColumn};
use std::path::PathBuf;

/// A text column with more distinct values than this is no category.
pub(super) const MOST_CATEGORIES: usize = 64;
/// The code of a category that is missing.
pub(super) const GAP: u8 = u8::MAX;

/// How a column is to be read.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Role<'a> {
    /// Ids, labels, split words.
    Key,
    /// A feature.
    Measure(Reading<'a>),
    /// Numbers, none of which may be missing.
    Weight,
    /// Not at all.
    Skip,
}

/// What is known about a feature before it is read.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Reading<'a> {
    /// Nothing: its cells tell.
    Guess,
    /// The user said what it is.
    As(ColumnKind),
    /// A model has read a column of this name.
    Known(&'a TableColumn),
}

impl<'a> Reading<'a> {
    /// The kind, where it is settled.
    pub(super) fn kind(self) -> Option<ColumnKind> {
        match self {
            Reading::Guess => None,
            Reading::As(kind) => Some(kind),
            Reading::Known(column) => Some(column.kind),
        }
    }

    /// The values a category may have, where they are settled.
    pub(super) fn values(self) -> Option<&'a [String]> {
        match self {
            Reading::Known(column) if !column.values.is_empty() => Some(&column.values),
            _ => None,
        }
    }
}

/// Many short strings in one allocation.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Texts {
    joined: String,
    ends: Vec<usize>,
}

impl Texts {
    pub(super) fn push(&mut self, text: &str) {
        self.joined.push_str(text);
        self.ends.push(self.joined.len());
    }

    pub(super) fn len(&self) -> usize {
        self.ends.len()
    }

    /// Text of a row; empty beyond the end.
    pub(super) fn get(&self, row: usize) -> &str {
        let start = if row == 0 { 0 } else { self.ends.get(row - 1).copied().unwrap_or(0) };
        self.ends.get(row).and_then(|&end| self.joined.get(start..end)).unwrap_or("")
    }
}

/// The values of one column.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Values {
    /// Keys that are all integers.
    Integers(Vec<i64>),
    /// Keys that are not; a missing one is empty.
    Texts(Texts),
    /// A measure; finite, or NaN where it is missing.
    Numbers {
        values: Vec<f32>,
        /// Number, boolean or date.
        kind: ColumnKind,
    },
    /// A measure given as words.
    Categories {
        /// Position in `names` of each row; [`GAP`] where it is missing.
        codes: Vec<u8>,
        /// The distinct words: sorted, or in the order that was asked for.
        names: Vec<String>,
        /// Rows whose word is none of those a model knows; they count as missing.
        unseen: Unseen,
    },
    /// Not read.
    Skipped,
}

/// Words that a model does not know.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Unseen {
    pub(super) count: usize,
    /// The first of them.
    pub(super) word: String,
}

impl Unseen {
    pub(super) fn note(&mut self, word: &str) {
        if self.count == 0 {
            self.word = word.to_string();
        }
        self.count += 1;
    }
}

/// A value that names a node, a graph or a class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Key<'a> {
    Integer(i64),
    Text(&'a str),
}

impl Key<'_> {
    /// As it stands in its cell.
    pub(super) fn whole(&self) -> String {
        match self {
            Key::Integer(value) => value.to_string(),
            Key::Text(text) => text.to_string(),
        }
    }
}

impl std::fmt::Display for Key<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Key::Integer(value) => write!(f, "{value}"),
            Key::Text(text) => f.write_str(&shortened(text)),
        }
    }
}

impl Values {
    /// Whether these are numbers or categories.
    pub(super) fn is_measure(&self) -> bool {
        matches!(self, Values::Numbers { .. } | Values::Categories { .. })
    }

    /// Key of a row; empty for a column that holds none.
    pub(super) fn key(&self, row: usize) -> Key<'_> {
        match self {
            Values::Integers(values) => values.get(row).map_or(Key::Text(""), |&value| Key::Integer(value)),
            Values::Texts(texts) => Key::Text(texts.get(row)),
            _ => Key::Text(""),
        }
    }
}

/// A named column.
#[derive(Clone, Debug)]
pub(super) struct Column {
    pub(super) name: String,
    pub(super) values: Values,
}

/// Rows of a file.
#[derive(Clone, Debug)]
pub(super) struct Table {
    pub(super) path: PathBuf,
    pub(super) rows: usize,
    pub(super) columns: Vec<Column>,
    pub(super) places: Places,
}

impl Table {
    /// The column that `is` accepts, or none.
    pub(super) fn column(&self, is: impl Fn(&str) -> bool) -> Option<&Column> {
        self.columns.iter().find(|column| is(&column.name))
    }
}

/// Where a row stands in its file, as people count.
#[derive(Clone, Debug, Default)]
pub(super) struct Places {
    /// (row, line) from which lines run in step with rows; empty for files without lines.
    steps: Vec<(usize, u64)>,
}

impl Places {
    /// Notes that `row` starts on `line`.
    pub(super) fn note(&mut self, row: usize, line: u64) {
        if self.steps.last().is_none_or(|&(from, first)| first + (row - from) as u64 != line) {
            self.steps.push((row, line));
        }
    }

    /// "line 7", or "row 7" (from 0) where the file has no lines.
    pub(super) fn of(&self, row: usize) -> String {
        match self.steps.partition_point(|&(from, _)| from <= row).checked_sub(1).and_then(|at| self.steps.get(at)) {
            Some(&(from, line)) => format!("line {}", line + (row - from) as u64),
            None => format!("row {row}"),
        }
    }
}

/// Distinct words of a column, up to [`MOST_CATEGORIES`].
#[derive(Debug, Default)]
pub(super) struct Categories {
    codes: Vec<u8>,
    names: Vec<String>,
}

impl Categories {
    /// Whether there was room.
    pub(super) fn push(&mut self, word: &str) -> bool {
        let code = match self.names.iter().position(|name| name == word) {
            Some(code) => code,
            None if self.names.len() == MOST_CATEGORIES => return false,
            None => {
                self.names.push(word.to_string());
                self.names.len() - 1
            }
        };
        self.codes.push(code as u8);
        true
    }

    /// A row without a value.
    pub(super) fn push_gap(&mut self) {
        self.codes.push(GAP);
    }

    /// Rows whose word is of a kind.
    pub(super) fn count(&self, is: impl Fn(&str) -> bool) -> usize {
        let kinds: Vec<bool> = self.names.iter().map(|name| is(name)).collect();
        self.codes.iter().filter(|&&code| kinds.get(usize::from(code)).copied().unwrap_or(false)).count()
    }

    /// The column, its words sorted so that the order of the rows does not matter, or in that order.
    pub(super) fn finish(self, as_they_come: bool) -> Values {
        let mut names = self.names.clone();
        if !as_they_come {
            names.sort();
        }
        let place = |name: &String| names.iter().position(|other| other == name).unwrap_or(0) as u8;
        let places: Vec<u8> = self.names.iter().map(place).collect();
        let code = |&code: &u8| places.get(usize::from(code)).copied().unwrap_or(GAP);
        let codes = self.codes.iter().map(code).collect();
        Values::Categories { codes, names, unseen: Unseen::default() }
    }
}

/// What to say of a measure that is neither numbers nor few words; `at` and `value` are its first word.
pub(super) fn not_a_measure(at: &str, value: &str) -> String {
    let hint = if value.replacen(',', ".", 1).parse::<f32>().is_ok() {
        "; save it with decimal points, not commas".to_string()
    } else {
        format!(
            ", and the column has more than {MOST_CATEGORIES} distinct values, too many for a category: give \
             numbers, leave it out (set ignore = NAME), or say that it names the nodes (set column.id = NAME)"
        )
    };
    format!("{at}: expected a number, found `{}`{hint}", shortened(value))
}

/// An integer in its usual form: `007` and `+7` are words, or names would lose their zeros.
pub(super) fn integer(text: &str) -> Option<i64> {
    let digits = text.strip_prefix('-').unwrap_or(text).as_bytes();
    match digits {
        [b'0'] if text.len() == 1 => Some(0),
        [b'1'..=b'9', rest @ ..] if digits.len() <= 18 => {
            let mut value = i64::from(digits[0] - b'0');
            for &byte in rest {
                if !byte.is_ascii_digit() {
                    return None;
                }
                value = value * 10 + i64::from(byte - b'0');
            }
            Some(if digits.len() < text.len() { -value } else { value })
        }
        _ => None,
    }
}

/// Whether a cell stands for "not known".
pub(super) fn is_missing(text: &str) -> bool {
    text.is_empty() || MISSING.iter().any(|word| text.eq_ignore_ascii_case(word))
}

/// The same among words, where `none` is one of them: no allergy, no discount.
pub(super) fn is_gap(text: &str) -> bool {
    is_missing(text) && !text.eq_ignore_ascii_case("none")
}

/// A number, or yes and no as most tools write them.
pub(super) fn number(text: &str) -> Option<f32> {
    match text {
        "true" | "True" | "TRUE" => Some(1.0),
        "false" | "False" | "FALSE" => Some(0.0),
        _ => text.parse().ok(),
    }
}

/// What a message shows of a value that may be of any length.
pub(super) fn shortened(text: &str) -> String {
    const MOST: usize = 40;
    let mut shown: String = text.chars().take(MOST).map(|c| if c.is_control() { ' ' } else { c }).collect();
    if text.chars().nth(MOST).is_some() {
        shown.push('…');
    }
    shown
}

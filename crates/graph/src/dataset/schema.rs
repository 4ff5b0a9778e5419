//! What the columns of a user's table are, and which columns of X each of them became.
//!
//! A number is one column of X; a category is one per value, 1 where it holds. A column with gaps has one more behind these,
//! 1 where the value is missing: there a number is its median and a category no value, so that a gap has a response of its
//! own, whatever stands in for it. Stores and models keep the schema: other data are read by it, by name. Invariant: columns
//! tile the features of a table from first to last.

use super::Features;
use super::dates::{date_text, days};
use crate::error::{Error, Result, one_line};
use serde::{Deserialize, Serialize};
use std::ops::Range;

/// More columns or values than this are taken for a damaged file.
const MOST: usize = 1 << 20;

/// Words, in any case, that stand for "not known" where a cell holds one; so does an empty cell.
pub const MISSING: [&str; 7] = ["na", "n/a", "#n/a", "nan", "null", "none", "<na>"];

/// The columns of a table, in the order of X.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Schema {
    /// Each takes the next columns of X.
    pub columns: Vec<TableColumn>,
}

/// One column of a table.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TableColumn {
    /// What the table calls it.
    pub name: String,
    /// How its cells are read.
    pub kind: ColumnKind,
    /// The values of a category, or of an ordered one from low to high.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub values: Vec<String>,
    /// What stands in for a missing number: the median of those that are known.
    #[serde(default)]
    pub median: f32,
    /// Whether its last column of X says that the value is missing.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub gaps: bool,
}

/// How the cells of a column are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ColumnKind {
    /// Numbers.
    Number,
    /// True and false, as 1 and 0.
    Boolean,
    /// Days since 1970-01-01, with parts of a day.
    Date,
    /// One of a few words without order: a column of X for each.
    Category,
    /// One of a few words from low to high: 0, 1, 2, ...
    Ordered,
}

impl ColumnKind {
    /// As it is written in files.
    pub fn word(self) -> &'static str {
        match self {
            ColumnKind::Number => "number",
            ColumnKind::Boolean => "boolean",
            ColumnKind::Date => "date",
            ColumnKind::Category => "category",
            ColumnKind::Ordered => "ordered",
        }
    }
}

impl TableColumn {
    /// A column of numbers without gaps.
    pub fn number(name: &str) -> TableColumn {
        TableColumn { name: name.to_string(), kind: ColumnKind::Number, values: Vec::new(), median: 0.0, gaps: false }
    }

    /// How many columns of X it became.
    pub fn width(&self) -> usize {
        self.own_width() + usize::from(self.gaps)
    }

    /// Without the one for gaps.
    fn own_width(&self) -> usize {
        if self.kind == ColumnKind::Category { self.values.len() } else { 1 }
    }

    /// Names of its columns of X.
    fn names(&self) -> impl Iterator<Item = String> + '_ {
        let own = (0..self.own_width()).map(|at| match self.kind {
            ColumnKind::Category => format!("{}={}", self.name, self.values[at]),
            _ => self.name.clone(),
        });
        own.chain(self.gaps.then(|| format!("{} is missing", self.name)))
    }

    /// Whether a value is missing, by its columns of X in their own units.
    pub fn is_missing(&self, x: &[f32]) -> bool {
        self.gaps && x.last().is_some_and(|&missing| missing != 0.0)
    }

    /// A value as the table had it, from its columns of X in their own units.
    pub fn text(&self, x: &[f32]) -> String {
        if self.is_missing(x) {
            return "missing".to_string();
        }
        let first = x.first().copied().unwrap_or(0.0);
        let named = |at: usize| self.values.get(at).cloned();
        match self.kind {
            ColumnKind::Number => first.to_string(),
            ColumnKind::Boolean if first == 0.0 || first == 1.0 => (first == 1.0).to_string(),
            ColumnKind::Boolean => first.to_string(),
            ColumnKind::Date => date_text(f64::from(first)),
            ColumnKind::Ordered if first >= 0.0 && first.fract() == 0.0 => {
                named(first as usize).unwrap_or_else(|| first.to_string())
            }
            ColumnKind::Ordered => first.to_string(),
            ColumnKind::Category => {
                let at = x.iter().take(self.values.len()).position(|&value| value != 0.0);
                at.and_then(named).unwrap_or_else(|| "another value".to_string())
            }
        }
    }

    /// Its columns of X for a value as a table has it, in their own units.
    ///
    /// # Errors
    /// It has no such value, in words.
    pub fn read(&self, text: &str) -> std::result::Result<Vec<f64>, String> {
        let mut x = vec![0.0; self.width()];
        if text.is_empty() || text == "missing" {
            if !self.gaps {
                return Err(format!("the model has seen no missing values of `{}`", one_line(&self.name)));
            }
            if self.kind != ColumnKind::Category {
                x[0] = f64::from(self.median);
            }
            x[self.width() - 1] = 1.0;
            return Ok(x);
        }
        let among = || {
            let known = self.values.iter().position(|value| value == text);
            known.ok_or_else(|| format!("`{}` is none of {}", one_line(text), one_line(self.values.join(", "))))
        };
        match self.kind {
            ColumnKind::Category => x[among()?] = 1.0,
            ColumnKind::Ordered => x[0] = among()? as f64,
            ColumnKind::Date => {
                x[0] = days(text).ok_or_else(|| format!("`{}` is not a date such as 2026-11-18", one_line(text)))?;
            }
            ColumnKind::Boolean if text == "true" || text == "false" => x[0] = f64::from(u8::from(text == "true")),
            ColumnKind::Number | ColumnKind::Boolean => {
                let value = text.parse().ok().filter(|value: &f64| value.is_finite());
                let not = || format!("`{}` is not a number; give the value in the units of the data", one_line(text));
                x[0] = value.ok_or_else(not)?;
            }
        }
        Ok(x)
    }

    /// The unit of its numbers, where it is not the table's own.
    pub fn unit(&self) -> Option<&'static str> {
        (self.kind == ColumnKind::Date).then_some("days since 1970-01-01")
    }
}

impl Schema {
    /// Numbers of these names, without gaps, of which nothing else is known.
    pub fn of_numbers(names: &[String]) -> Schema {
        let column = |name: &String| TableColumn { median: f32::NAN, ..TableColumn::number(name) };
        Schema { columns: names.iter().map(column).collect() }
    }

    /// Whether it says no more than the names of features do.
    pub fn is_plain(&self) -> bool {
        self.columns.iter().all(|column| column.kind == ColumnKind::Number && !column.gaps)
    }

    /// How many columns of X they are.
    pub fn features(&self) -> usize {
        self.columns.iter().map(TableColumn::width).sum()
    }

    /// Names of the columns of X.
    pub fn names(&self) -> Vec<String> {
        self.columns.iter().flat_map(TableColumn::names).collect()
    }

    /// The columns of X of each column.
    pub fn ranges(&self) -> Vec<Range<usize>> {
        let mut end = 0;
        let next = |column: &TableColumn| {
            let start = end;
            end += column.width();
            start..end
        };
        self.columns.iter().map(next).collect()
    }

    /// Refuses what no table can be.
    ///
    /// # Errors
    /// A name twice, a category without values or with one twice, or another number of features.
    pub fn check(&self, features: usize) -> Result<()> {
        let refused = |what: String| Err(Error::Data(format!("columns of the table: {what}")));
        let mut seen = std::collections::HashSet::new();
        let mut total = 0usize;
        for column in &self.columns {
            let name = one_line(&column.name);
            if !seen.insert(column.name.as_str()) {
                return refused(format!("`{name}` is there twice"));
            }
            let worded = matches!(column.kind, ColumnKind::Category | ColumnKind::Ordered);
            let distinct: std::collections::HashSet<&String> = column.values.iter().collect();
            if worded == column.values.is_empty() || distinct.len() != column.values.len() {
                return refused(format!("`{name}` must have distinct values exactly where it is a category"));
            }
            // Plain columns of a model that keeps nothing but their names have none: a gap there is refused when it is read.
            if column.median.is_infinite() || (column.median.is_nan() && column.gaps) {
                return refused(format!("the median of `{name}` is not finite"));
            }
            total = total.saturating_add(column.width());
        }
        if total != features || total > MOST {
            return refused(format!("they are {total} features, expected {features}"));
        }
        Ok(())
    }

    /// X and the schema of an array of numbers, NaN where they are missing; rows x columns.
    ///
    /// # Errors
    /// Too large a table.
    pub fn of_matrix(names: &[String], rows: usize, values: Vec<f32>) -> Result<(Features, Schema)> {
        let cols = names.len();
        let mut schema = Schema::of_numbers(names);
        let mut missing = vec![false; cols];
        values.chunks_exact(cols.max(1)).for_each(|row| {
            missing.iter_mut().zip(row).for_each(|(missing, value)| *missing |= value.is_nan());
        });
        if !missing.contains(&true) {
            return Ok((Features::new(rows, cols, values)?, schema));
        }
        for (k, column) in schema.columns.iter_mut().enumerate() {
            column.gaps = missing[k];
            column.median = median(values.iter().skip(k).step_by(cols).copied());
        }
        let width = schema.features();
        let mut laid = Vec::with_capacity(rows.saturating_mul(width));
        for row in values.chunks_exact(cols.max(1)) {
            for (column, &value) in schema.columns.iter().zip(row) {
                laid.push(if value.is_nan() { column.median } else { value });
                if column.gaps {
                    laid.push(f32::from(u8::from(value.is_nan())));
                }
            }
        }
        Ok((Features::new(rows, width, laid)?, schema))
    }
}

/// The middle of the numbers that are known; the lower one of two. 0 where there is none.
pub fn median(values: impl Iterator<Item = f32>) -> f32 {
    let mut known: Vec<f32> = values.filter(|value| !value.is_nan()).collect();
    if known.is_empty() {
        return 0.0;
    }
    let middle = (known.len() - 1) / 2;
    *known.select_nth_unstable_by(middle, f32::total_cmp).1
}

#[cfg(test)]
mod tests {
    use super::*;

    fn colour() -> TableColumn {
        let values = ["blue", "red"].map(String::from).to_vec();
        TableColumn { kind: ColumnKind::Category, values, gaps: true, ..TableColumn::number("colour") }
    }

    #[test]
    fn columns_tile_x_and_values_read_back() {
        let schema = Schema { columns: vec![TableColumn::number("age"), colour()] };
        assert_eq!(schema.names(), ["age", "colour=blue", "colour=red", "colour is missing"]);
        assert_eq!(schema.ranges(), [0..1, 1..4]);
        schema.check(4).unwrap();
        assert!(schema.check(5).is_err());
        let text = |x: &[f32]| schema.columns[1].text(x);
        assert_eq!([text(&[0.0, 1.0, 0.0]), text(&[0.0, 0.0, 1.0])], ["red", "missing"]);
        assert_eq!(text(&[0.0, 0.0, 0.0]), "another value");
        let json = serde_json::to_string(&schema).unwrap();
        assert_eq!(serde_json::from_str::<Schema>(&json).unwrap(), schema);
        let twice = Schema { columns: vec![TableColumn::number("a"), TableColumn::number("a")] };
        assert!(twice.check(2).unwrap_err().to_string().contains("`a` is there twice"));
    }

    #[test]
    fn what_a_value_reads_as_is_shown_as_that_value() {
        let number = TableColumn { gaps: true, median: 40.0, ..TableColumn::number("age") };
        let day = TableColumn { kind: ColumnKind::Date, ..TableColumn::number("day") };
        for (column, text) in
            [(&number, "31.5"), (&number, "missing"), (&colour(), "red"), (&colour(), "missing"), (&day, "2024-02-29")]
        {
            let x: Vec<f32> = column.read(text).unwrap().into_iter().map(|x| x as f32).collect();
            assert_eq!(column.text(&x), text);
        }
        assert_eq!(number.read("missing").unwrap(), [40.0, 1.0]);
        assert!(colour().read("mars").unwrap_err().contains("`mars` is none of blue, red"));
        assert!(day.read("missing").unwrap_err().contains("has seen no missing values"));
        assert!(number.read("nan").is_err() && day.read("31").is_err());
    }

    #[test]
    fn gaps_of_an_array_become_columns_of_their_own() {
        let names = ["a", "b"].map(String::from);
        let values = vec![1.0, 5.0, f32::NAN, 6.0, 3.0, 7.0];
        let (features, schema) = Schema::of_matrix(&names, 3, values).unwrap();
        assert_eq!(schema.names(), ["a", "a is missing", "b"]);
        assert_eq!(*features.dense(), [1.0, 0.0, 5.0, 1.0, 1.0, 6.0, 3.0, 0.0, 7.0]);
        assert_eq!(schema.columns[0].median, 1.0);
        assert!(!schema.is_plain() && Schema::of_numbers(&names).is_plain());
    }
}

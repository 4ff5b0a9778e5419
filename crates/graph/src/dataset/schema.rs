//! What the columns of a user's table are, and which columns of X each of them became.
//!
//! A number is one column of X; a category is one per value, 1 where it holds. A column with gaps has one more behind these,
//! 1 where the value is missing: there a number is its median and a category no value, so that a gap has a response of its
//! own, whatever stands in for it. Stores and models keep the schema: other data are read by it, by name. Invariant: columns
//! tile the features of a table from first to last.

use super::Features;
use crate::error::{Error, Result, one_line};
use serde::{Deserialize, Serialize};
use std::ops::Range;

/// More columns or values than this are taken for a damaged file.
const MOST: usize = 1 << 20;

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
            if !column.median.is_finite() {
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

/// Days since 1970-01-01 of an ISO date (`2026-11-18`), with or without a time (`2026-11-18T09:30:00Z`, `2026-11-18 09:30`).
pub fn days(text: &str) -> Option<f64> {
    let (date, time) = match text.get(..10) {
        Some(date) => (date, text.get(10..)?),
        None => return None,
    };
    let bytes = date.as_bytes();
    let digits = |range: Range<usize>| {
        let part = date.get(range)?;
        part.bytes().all(|byte| byte.is_ascii_digit()).then(|| part.parse::<i64>().ok()).flatten()
    };
    if bytes.get(4) != Some(&b'-') || bytes.get(7) != Some(&b'-') {
        return None;
    }
    let (year, month, day) = (digits(0..4)?, digits(5..7)?, digits(8..10)?);
    let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let longest = match month {
        2 => 28 + i64::from(leap),
        4 | 6 | 9 | 11 => 30,
        1..=12 => 31,
        _ => return None,
    };
    if !(1..=longest).contains(&day) {
        return None;
    }
    let whole = days_from_civil(year, month, day) as f64;
    Some(whole + time_of_day(time)?)
}

/// The part of a day that a time is: `T09:30`, ` 09:30:15.5`, with `Z` or an offset such as `+02:00`.
fn time_of_day(text: &str) -> Option<f64> {
    if text.is_empty() {
        return Some(0.0);
    }
    let text = text.strip_prefix(['T', 't', ' '])?;
    let (clock, offset) = match text.find(['Z', 'z', '+', '-']) {
        None => (text, 0.0),
        Some(at) => {
            let (clock, zone) = text.split_at(at);
            let sign = if zone.starts_with('-') { -1.0 } else { 1.0 };
            match zone {
                "Z" | "z" => (clock, 0.0),
                _ => (clock, sign * clock_of(zone.get(1..)?)?),
            }
        }
    };
    Some((clock_of(clock)? - offset) / 86_400.0)
}

/// Seconds of `09:30`, `09:30:15` or `09:30:15.25`.
fn clock_of(text: &str) -> Option<f64> {
    let mut parts = text.split(':');
    let mut part = |most: f64| -> Option<f64> {
        let part = parts.next()?;
        let sound = part.len() >= 2 && part.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
        part.parse::<f64>().ok().filter(|&value| sound && value < most)
    };
    let (hours, minutes) = (part(24.0)?, part(60.0)?);
    let seconds = if text.matches(':').count() > 1 { part(60.0)? } else { 0.0 };
    (parts.next().is_none() && hours.fract() == 0.0 && minutes.fract() == 0.0)
        .then_some(hours * 3600.0 + minutes * 60.0 + seconds)
}

/// A date as people write it; with the time to the minute where there is one.
fn date_text(days: f64) -> String {
    let whole = days.floor();
    if !(-719_528.0..2_932_897.0).contains(&whole) {
        return days.to_string();
    }
    let (year, month, day) = civil_from_days(whole as i64);
    let minutes = ((days - whole) * 1440.0).round() as u32;
    match minutes {
        0 => format!("{year:04}-{month:02}-{day:02}"),
        minutes => {
            let minutes = minutes.min(1439);
            format!("{year:04}-{month:02}-{day:02} {:02}:{:02}", minutes / 60, minutes % 60)
        }
    }
}

/// Of the Gregorian calendar: eras of 400 years of 146,097 days, years that begin in March.
fn days_from_civil(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let of_era = year.rem_euclid(400);
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

fn civil_from_days(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let (era, of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let shifted = (5 * of_year + 2) / 153;
    let (day, month) = (of_year - (153 * shifted + 2) / 5 + 1, if shifted < 10 { shifted + 3 } else { shifted - 9 });
    (year + era * 400 + i64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn colour() -> TableColumn {
        let values = ["blue", "red"].map(String::from).to_vec();
        TableColumn { kind: ColumnKind::Category, values, gaps: true, ..TableColumn::number("colour") }
    }

    #[test]
    fn dates_are_days_and_read_back() {
        for (text, expected) in [("1970-01-01", 0), ("1969-12-31", -1), ("2000-02-29", 11_016), ("2026-11-18", 20_775)]
        {
            assert_eq!(days(text), Some(f64::from(expected)), "{text}");
            assert_eq!(date_text(f64::from(expected)), text);
        }
        // Every day of 800 years is the one after the day before.
        let mut last = days("1600-01-01").unwrap() - 1.0;
        for number in last as i64 + 1..last as i64 + 292_194 {
            let (year, month, day) = civil_from_days(number);
            let again = days(&format!("{year:04}-{month:02}-{day:02}")).unwrap();
            assert_eq!(again, last + 1.0);
            last = again;
        }
        assert_eq!(days("2026-11-18T12:00:00Z"), Some(20_775.5));
        assert_eq!(days("2026-11-18 06:00"), Some(20_775.25));
        assert_eq!(days("2026-11-18T01:00:00+02:00"), Some(20_775.0 - 1.0 / 24.0));
        assert_eq!(date_text(20_775.5), "2026-11-18 12:00");
        for wrong in
            ["2026-13-01", "2025-02-29", "2026-11-31", "20261118", "2026-11-18x", "2026-11-18T25:00", "", "é026-11-18"]
        {
            assert_eq!(days(wrong), None, "{wrong}");
        }
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

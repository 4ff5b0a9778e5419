//! The text files: lines of numbers, separated by commas or blanks.
//!
//! Bytes are read as they are (the edges of DD are 24 MB). A message names the file and the line, counted from 1.

use crate::archive::Archive;
use harmonia_graph::error::{Error, Result};
use std::path::PathBuf;

/// No file of the collection comes near it.
const MOST_BYTES: u64 = 1 << 33;
/// Characters of a line that are shown in a message.
const SHOWN: usize = 40;

/// A file of numbers in lines, read whole.
pub(super) struct Table {
    path: PathBuf,
    bytes: Vec<u8>,
}

impl Table {
    pub(super) fn read(archive: &Archive, member: &str) -> Result<Table> {
        Ok(Table { path: archive.location(member), bytes: archive.read(member, MOST_BYTES)? })
    }

    /// Line numbers and lines; empty lines at the end are none.
    pub(super) fn rows(&self) -> impl Iterator<Item = (usize, &[u8])> {
        let text = self.bytes.trim_ascii_end();
        // Splitting an empty text would give one line.
        let lines = if text.is_empty() { 0 } else { usize::MAX };
        (1..).zip(text.split(|&byte| byte == b'\n')).take(lines)
    }

    /// A file of one whole number per line.
    pub(super) fn column(&self, expected: &str) -> Result<Vec<i64>> {
        self.rows().map(|(line, row)| self.integer(line, row, expected)).collect()
    }

    /// The whole number that is a line.
    pub(super) fn integer(&self, line: usize, row: &[u8], expected: &str) -> Result<i64> {
        let whole = leading_integer(row).filter(|(_, rest)| rest.trim_ascii().is_empty());
        whole.map(|(number, _)| number).ok_or_else(|| self.unexpected(line, row, expected))
    }

    /// The two whole numbers that are a line.
    pub(super) fn pair(&self, line: usize, row: &[u8]) -> Result<[i64; 2]> {
        let both = || {
            let (first, rest) = leading_integer(row)?;
            let separated = rest.trim_ascii_start();
            let rest = separated.strip_prefix(b",").or((separated.len() < rest.len()).then_some(separated))?;
            let (second, rest) = leading_integer(rest)?;
            rest.trim_ascii().is_empty().then_some([first, second])
        };
        both().ok_or_else(|| self.unexpected(line, row, "two node ids, as in `1, 2`"))
    }

    /// A file of `rows` lines of finite numbers: how many a line, and all of them.
    pub(super) fn matrix(&self, rows: usize) -> Result<(usize, Vec<f32>)> {
        let (mut width, mut values) = (0, Vec::new());
        let mut lines = 0;
        for (line, row) in self.rows() {
            let before = values.len();
            for field in row.split(|&byte| byte == b',') {
                let number = str::from_utf8(field.trim_ascii()).ok().and_then(|text| text.parse::<f32>().ok());
                match number.filter(|number| number.is_finite()) {
                    Some(number) => values.push(number),
                    None => return Err(self.unexpected(line, field, "finite numbers separated by commas")),
                }
            }
            let read = values.len() - before;
            if line == 1 {
                width = read;
            } else if read != width {
                return Err(self.error(line, &format!("expected {width} attributes as in line 1, found {read}")));
            }
            lines = line;
        }
        self.expect_rows(lines, rows, "node")?;
        Ok((width, values))
    }

    /// Fails unless there is a line for each unit.
    pub(super) fn expect_rows(&self, found: usize, expected: usize, unit: &str) -> Result<()> {
        if found == expected {
            return Ok(());
        }
        Err(self.whole(&format!(
            "expected {expected} lines, one per {unit} of the graph indicator, found {found}; fetch the file again"
        )))
    }

    /// An error of the whole file.
    pub(super) fn whole(&self, message: &str) -> Error {
        Error::file(&self.path, message)
    }

    /// An error of one line.
    pub(super) fn error(&self, line: usize, message: &str) -> Error {
        Error::file(&self.path, format!("line {line}: {message}"))
    }

    fn unexpected(&self, line: usize, row: &[u8], expected: &str) -> Error {
        let row = row.trim_ascii();
        let shown = String::from_utf8_lossy(row.get(..SHOWN).unwrap_or(row)).into_owned();
        self.error(line, &format!("expected {expected}, found {shown:?}"))
    }
}

/// A whole number at the start, after blanks, and what follows it.
fn leading_integer(text: &[u8]) -> Option<(i64, &[u8])> {
    let text = text.trim_ascii_start();
    let (negative, digits) = match text.split_first() {
        Some((b'-', rest)) => (true, rest),
        _ => (false, text),
    };
    let mut value = 0i64;
    let mut length = 0;
    for digit in digits.iter().map(|byte| byte.wrapping_sub(b'0')).take_while(|&digit| digit < 10) {
        value = value.checked_mul(10)?.checked_add(i64::from(digit))?;
        length += 1;
    }
    let rest = digits.get(length..).filter(|_| length > 0)?;
    Some((if negative { -value } else { value }, rest))
}

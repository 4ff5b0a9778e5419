//! The table around the molecules: separator, header, and the two columns that matter.
//!
//! Gives one [`Row`] a line of data, in the order of the file, with the line it starts on.

use super::SmilesColumns;
use csv::{ByteRecord, ReaderBuilder};
use harmonia_graph::error::{Error, Result, one_line, suggestion};
use std::path::Path;

/// In order of preference; compared without regard to case.
const SMILES_COLUMNS: [&str; 3] = ["smiles", "drug", "molecule"];
const LABEL_COLUMNS: [&str; 4] = ["y", "label", "target", "activity"];
/// Cells that mean "not measured".
const MISSING: [&str; 4] = ["", "nan", "na", "null"];

/// One line of data.
#[derive(Debug, PartialEq)]
pub(super) struct MoleculeRow {
    /// Counted from 1.
    pub line: usize,
    pub smiles: String,
    /// Finite; `None` where the cell is empty.
    pub label: Option<f64>,
}

pub(super) fn read(path: &Path, bytes: &[u8], columns: &SmilesColumns) -> Result<Vec<MoleculeRow>> {
    // Spreadsheets mark UTF-8 at the start of a file.
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    let mut reader =
        ReaderBuilder::new().delimiter(separator(path, bytes)).has_headers(false).flexible(true).from_reader(bytes);
    let (mut record, mut rows) = (ByteRecord::new(), Vec::new());
    // Only reading from memory could fail, and that does not.
    let mut next = |record: &mut ByteRecord| {
        reader.read_byte_record(record).map_err(|error| Error::file(path, format!("not a table: {error}")))
    };
    if !next(&mut record)? {
        return Err(Error::file(path, "line 1: expected a header, found an empty file"));
    }
    let header: Vec<String> = record.iter().map(|name| String::from_utf8_lossy(name).trim().to_string()).collect();
    let smiles =
        column(path, &header, columns.smiles.as_deref(), &SMILES_COLUMNS, ("SMILES strings", "smiles_column"))?;
    let label = column(path, &header, columns.label.as_deref(), &LABEL_COLUMNS, ("labels", "label_column"))?;
    let mut lines = Lines { bytes, at: 0, line: 1 };
    while next(&mut record)? {
        let line = lines.of(record.position().map_or(0, |position| position.byte() as usize));
        let refused = |message: String| Error::file(path, format!("line {line}: {message}"));
        if record.len() != header.len() {
            let message = format!("expected {} fields as in the header, found {}", header.len(), record.len());
            return Err(refused(message));
        }
        let field = |column: usize| {
            let bytes = record.get(column).unwrap_or_default().trim_ascii();
            str::from_utf8(bytes).map_err(|_| refused("expected UTF-8 text, found other bytes".into()))
        };
        let text = field(label)?;
        let number = || text.parse().ok().filter(|number: &f64| number.is_finite());
        let label = match number() {
            // -0 and 0 are one class.
            Some(number) => Some(number + 0.0),
            None if MISSING.contains(&text.to_lowercase().as_str()) => None,
            None => {
                let shown: String = text.chars().take(40).collect();
                return Err(refused(format!(
                    "expected a number as label, found {shown:?}; write classes as 0, 1, ..."
                )));
            }
        };
        rows.push(MoleculeRow { line, smiles: field(smiles)?.to_string(), label });
    }
    if rows.is_empty() {
        return Err(Error::file(path, "line 2: expected a molecule, found the end of the file"));
    }
    Ok(rows)
}

/// Line numbers of rising byte positions. (The reader's own count is one short after `\r\n`.)
struct Lines<'a> {
    bytes: &'a [u8],
    at: usize,
    line: usize,
}

impl Lines<'_> {
    /// The line of the first byte from `position` on that does not end a line.
    fn of(&mut self, position: usize) -> usize {
        while let Some(&byte) = self.bytes.get(self.at)
            && (self.at < position || matches!(byte, b'\r' | b'\n'))
        {
            self.at += 1;
            let lone_return = byte == b'\r' && self.bytes.get(self.at) != Some(&b'\n');
            self.line += usize::from(byte == b'\n' || lone_return);
        }
        self.line
    }
}

fn separator(path: &Path, bytes: &[u8]) -> u8 {
    let extension = path.extension().map(|extension| extension.to_ascii_lowercase().to_string_lossy().into_owned());
    match extension.as_deref() {
        Some("tab" | "tsv") => b'\t',
        _ => {
            let first = bytes.split(|&byte| byte == b'\n').next().unwrap_or_default();
            // A .csv with tabs and no comma in its header is a .tsv by another name.
            if first.contains(&b'\t') && !first.contains(&b',') { b'\t' } else { b',' }
        }
    }
}

/// Number of a column. `what`: what it holds, and the option that names it.
fn column(
    path: &Path,
    header: &[String],
    given: Option<&str>,
    guesses: &[&str],
    (what, option): (&str, &str),
) -> Result<usize> {
    let position = match given {
        Some(name) => header.iter().position(|other| other == name),
        None => guesses.iter().find_map(|guess| header.iter().position(|other| other.eq_ignore_ascii_case(guess))),
    };
    position.ok_or_else(|| {
        let expected = given.map_or_else(|| format!("one of {}", guesses.join(", ")), |name| format!("`{name}`"));
        let near = suggestion(given.unwrap_or_default(), header.iter().map(String::as_str).filter(|_| given.is_some()));
        let names = one_line(header.join(", "));
        Error::file(
            path,
            format!("line 1: expected a column of {what}, {expected}; found {names}{near} (set {option} = NAME)"),
        )
    })
}

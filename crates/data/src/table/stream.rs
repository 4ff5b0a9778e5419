//! The text of a table a block at a time, unpacked where its name ends in `.gz`.
//!
//! A few hundred kilobytes of gzip may unpack to hundreds of megabytes: what is held is a block of text, whatever the size of
//! the file, and what the reader of the rows keeps. Each pass opens the file again. Invariant: rows and their lines are
//! those of the whole text, wherever a block happens to end.

use super::record::Records;
use crate::archive::limit;
use harmonia_graph::error::{Error, Result};
use harmonia_graph::files;
use std::borrow::Cow;
use std::io::Read;
use std::path::{Path, PathBuf};

/// Bytes that are read at a time.
const BLOCK: usize = 1 << 20;
/// A row of a million features has some twenty megabytes; beyond this a quote was not closed.
pub(super) const LONGEST_ROW: usize = 32 << 20;

/// The part of a text that is held, and where the rest comes from.
pub(super) struct Text {
    path: PathBuf,
    reader: Box<dyn Read>,
    /// Bytes that may still come: unpacking beyond this is refused.
    left: u64,
    most: u64,
    packed: bool,
    /// What was read and not yet used.
    held: String,
    /// The beginning of a character whose rest has not been read yet.
    cut: Vec<u8>,
    /// Line breaks before what is held.
    lines: u64,
    begun: bool,
    ended: bool,
    /// Bytes that are read next, and at least.
    block: usize,
    smallest: usize,
}

impl Text {
    /// Opens a file at its beginning.
    ///
    /// # Errors
    /// Missing or unreadable.
    pub(super) fn open(path: &Path) -> Result<Text> {
        let file = files::open(path)?;
        let bytes = file.metadata().map_err(Error::io("read", path))?.len();
        let packed = path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("gz"));
        // Not beyond what was there at first: somebody may be adding to it.
        let file = std::io::BufReader::new(file.take(bytes));
        // A file may be several gzip members one after the other.
        let reader: Box<dyn Read> =
            if packed { Box::new(flate2::bufread::MultiGzDecoder::new(file)) } else { Box::new(file) };
        let most = if packed { limit(bytes) } else { bytes };
        let (held, cut) = (String::new(), Vec::new());
        let path = path.to_path_buf();
        let (lines, begun, ended) = (0, false, false);
        Ok(Text {
            path,
            reader,
            left: most,
            most,
            packed,
            held,
            cut,
            lines,
            begun,
            ended,
            block: BLOCK,
            smallest: BLOCK,
        })
    }

    /// What is held.
    pub(super) fn held(&self) -> &str {
        &self.held
    }

    pub(super) fn into_held(self) -> String {
        self.held
    }

    /// Whether what is held reaches to the end of the file.
    pub(super) fn has_ended(&self) -> bool {
        self.ended
    }

    /// Reads some more; twice as much as before where nothing was used in between.
    ///
    /// # Errors
    /// Unreadable, damaged, not UTF-8, or unpacking to far more than its size allows.
    pub(super) fn more(&mut self) -> Result<()> {
        let mut bytes = std::mem::take(&mut self.cut);
        let read =
            self.reader.by_ref().take(self.block as u64).read_to_end(&mut bytes).map_err(|error| match self.packed {
                true => Error::file(&self.path, format!("expected gzip, found damage ({error}); pack it again")),
                false => Error::io("read", &self.path)(error),
            })? as u64;
        self.block = (2 * self.block).min(LONGEST_ROW);
        self.ended = read == 0;
        self.left = self.left.checked_sub(read).ok_or_else(|| {
            Error::file(&self.path, format!("unpacks to more than {} bytes; unpack it first", self.most))
        })?;
        if !self.begun {
            if bytes.starts_with(&[0xff, 0xfe]) || bytes.starts_with(&[0xfe, 0xff]) {
                return Err(Error::file(&self.path, "expected UTF-8 text, found UTF-16; save it as CSV UTF-8"));
            }
            // Spreadsheets put a byte order mark in front.
            if bytes.starts_with("\u{feff}".as_bytes()) {
                bytes.drain(..3);
            }
            self.begun = true;
        }
        match std::str::from_utf8(&bytes) {
            Ok(text) => self.held.push_str(text),
            Err(error) => {
                let (sound, rest) = bytes.split_at(error.valid_up_to());
                self.held.push_str(&String::from_utf8_lossy(sound));
                if error.error_len().is_some() || self.ended {
                    let line = 1 + self.lines + breaks(&self.held);
                    let message = format!("line {line}: expected UTF-8 text, found other bytes; save it as UTF-8");
                    return Err(Error::file(&self.path, message));
                }
                self.cut = rest.to_vec();
            }
        }
        Ok(())
    }

    /// Gives up what was used.
    fn used(&mut self, bytes: usize) {
        if bytes > 0 {
            self.lines += breaks(&self.held[..bytes]);
            self.held.drain(..bytes);
            self.block = self.smallest;
        }
    }
}

fn breaks(text: &str) -> u64 {
    text.bytes().filter(|&byte| byte == b'\n').count() as u64
}

/// Calls `row(line, fields)` for every record of a file, until it says that it has seen enough.
///
/// # Errors
/// As [`Text::more`], a quote that is not closed, or what `row` gives.
pub(super) fn each_record(
    path: &Path,
    delimiter: u8,
    row: impl FnMut(u64, &[Cow<'_, str>]) -> Result<bool>,
) -> Result<()> {
    each_record_by(Text::open(path)?, delimiter, row)
}

fn each_record_by(
    mut text: Text,
    delimiter: u8,
    mut row: impl FnMut(u64, &[Cow<'_, str>]) -> Result<bool>,
) -> Result<()> {
    let path = text.path.clone();
    // Of the first record that was not handed on; none before the first one.
    let mut line = None;
    loop {
        text.more()?;
        let used = {
            let (mut fields, ended) = (Vec::new(), text.has_ended());
            let mut records = match line {
                None => Records::new(text.held(), delimiter),
                Some(line) => Records::resumed(text.held(), delimiter, line),
            };
            loop {
                let (at, first) = records.place();
                let record = records.next(&mut fields);
                // What touches the end of a block may go on behind it; so may the lines above the first record.
                if !ended && records.is_at_end() {
                    let used = if line.is_some() { at } else { 0 };
                    line = line.map(|_| first);
                    break used;
                }
                match record.map_err(|fault| Error::file(&path, fault))? {
                    Some(number) if row(number, &fields)? => line = Some(number),
                    _ => return Ok(()),
                }
            }
        };
        if used == 0 && text.held().len() > LONGEST_ROW {
            let message = format!(
                "line {}: expected a row of at most {LONGEST_ROW} bytes, found more; is there a quote that does not close?",
                line.unwrap_or(1)
            );
            return Err(Error::file(&path, message));
        }
        text.used(used);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Rows by blocks of so many bytes.
    fn rows(text: &str, delimiter: u8, block: usize) -> std::result::Result<Vec<(u64, Vec<String>)>, String> {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("t.csv");
        std::fs::write(&path, text).unwrap();
        let mut rows = Vec::new();
        each_record_by(Text { block, smallest: block, ..Text::open(&path).unwrap() }, delimiter, |line, fields| {
            rows.push((line, fields.iter().map(|field| field.to_string()).collect()));
            Ok(true)
        })
        .map_err(|error| error.to_string().split_once("t.csv: ").unwrap().1.to_string())?;
        Ok(rows)
    }

    /// The same of the text as a whole.
    fn at_once(text: &str, delimiter: u8) -> std::result::Result<Vec<(u64, Vec<String>)>, String> {
        let (mut records, mut fields, mut rows) = (Records::new(text, delimiter), Vec::new(), Vec::new());
        while let Some(line) = records.next(&mut fields)? {
            rows.push((line, fields.iter().map(|field| field.to_string()).collect()));
        }
        Ok(rows)
    }

    proptest! {
        #[test]
        fn blocks_of_any_size_give_the_rows_of_the_whole_text(
            text in "[a\",;\n\r\t é#]{0,60}",
            delimiter in prop::sample::select(b",;\t ".to_vec()),
            block in 1usize..9,
        ) {
            prop_assert_eq!(rows(&text, delimiter, block), at_once(&text, delimiter));
        }
    }

    #[test]
    fn a_quote_that_does_not_close_is_named_before_memory_is_full() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("t.csv.gz");
        let mut file =
            flate2::write::GzEncoder::new(std::fs::File::create(&path).unwrap(), flate2::Compression::best());
        std::io::Write::write_all(&mut file, b"a,b\n1,2\n\"3,4\n").unwrap();
        for _ in 0..120 {
            std::io::Write::write_all(&mut file, &b"5,6\n".repeat(1 << 18)).unwrap();
        }
        file.finish().unwrap();
        let mut seen = 0;
        let error = each_record(&path, b',', |_, _| {
            seen += 1;
            Ok(true)
        });
        let message = error.unwrap_err().to_string();
        assert!(seen == 2 && message.contains("line 3: expected a row of at most"), "{seen}: {message}");
    }

    #[test]
    fn a_character_may_be_cut_by_a_block_and_other_bytes_are_named_by_their_line() {
        assert_eq!(rows("é\né", b',', 1).unwrap(), [(1, vec!["é".to_string()]), (2, vec!["é".to_string()])]);
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("t.csv");
        for end in [&b"c\xff\n"[..], b"c\xc3"] {
            std::fs::write(&path, [b"a\nb\n", end].concat()).unwrap();
            let message = each_record(&path, b',', |_, _| Ok(true)).unwrap_err().to_string();
            assert!(message.contains("line 3: expected UTF-8"), "{message}");
        }
    }
}

//! One record of a text table after the other: fields, quotes, line ends.
//!
//! A record ends at a line end outside quotes; blank lines and a preamble of lines that start with `# ` are skipped.
//! Unquoted fields lose the blanks around them. Invariant: every call moves forward, so reading ends.

use super::column::shortened;
use std::borrow::Cow;

/// Reader over a text.
pub(super) struct Records<'a> {
    text: &'a str,
    at: usize,
    line: u64,
    delimiter: u8,
}

impl<'a> Records<'a> {
    pub(super) fn new(text: &'a str, delimiter: u8) -> Records<'a> {
        let mut records = Records { text, at: 0, line: 1, delimiter };
        for line in text.split_inclusive('\n').take_while(|line| Records::is_preamble(line)) {
            records.at += line.len();
            records.line += 1;
        }
        records
    }

    /// Goes on in what follows a record, at the beginning of a line.
    pub(super) fn resumed(text: &'a str, delimiter: u8, line: u64) -> Records<'a> {
        Records { text, at: 0, line, delimiter }
    }

    /// Where the next record begins, and its line, blank ones counted.
    pub(super) fn place(&self) -> (usize, u64) {
        (self.at, self.line)
    }

    /// Whether all of the text was looked at.
    pub(super) fn is_at_end(&self) -> bool {
        self.at >= self.text.len()
    }

    /// Whether a line above the table is skipped.
    pub(super) fn is_preamble(line: &str) -> bool {
        line.starts_with("# ") || line.trim().is_empty()
    }

    /// Puts the next record into `fields` and gives its line; `None` at the end.
    ///
    /// # Errors
    /// A quote that does not close, or text behind one that does; with the line.
    pub(super) fn next(&mut self, fields: &mut Vec<Cow<'a, str>>) -> Result<Option<u64>, String> {
        let bytes = self.text.as_bytes();
        // Blank lines.
        while let Some(end) = blank_line(bytes.get(self.at..).unwrap_or(&[])) {
            self.at += end;
            self.line += 1;
        }
        fields.clear();
        let line = self.line;
        if self.at >= bytes.len() {
            return Ok(None);
        }
        loop {
            if self.delimiter == b' ' {
                // Columns are often aligned by several.
                while bytes.get(self.at) == Some(&b' ') {
                    self.at += 1;
                }
            }
            let field = match bytes.get(self.at) {
                Some(b'"') => self.quoted(line)?,
                _ => self.plain(),
            };
            fields.push(field);
            match bytes.get(self.at) {
                Some(&byte) if byte == self.delimiter => {
                    self.at += 1;
                    // Blanks at the end of a line open no field.
                    if byte == b' ' && matches!(trimmed(bytes.get(self.at..).unwrap_or(&[])), [] | [b'\n', ..]) {
                        self.at += bytes.get(self.at..).unwrap_or(&[]).iter().take_while(|&&b| b != b'\n').count() + 1;
                        self.line += 1;
                        return Ok(Some(line));
                    }
                }
                _ => {
                    // A line end, or the end of the text.
                    self.at += 1;
                    self.line += 1;
                    return Ok(Some(line));
                }
            }
        }
    }

    /// A field without quotes; stops at the separator or the line end.
    fn plain(&mut self) -> Cow<'a, str> {
        let rest = self.text.as_bytes().get(self.at..).unwrap_or(&[]);
        let length = rest.iter().position(|&byte| byte == self.delimiter || byte == b'\n').unwrap_or(rest.len());
        let field = self.text.get(self.at..self.at + length).unwrap_or("");
        self.at += length;
        Cow::Borrowed(field.trim_ascii())
    }

    /// A field in quotes, where two stand for one; stops at the separator or the line end.
    fn quoted(&mut self, line: u64) -> Result<Cow<'a, str>, String> {
        let (opened, mut content) = (self.line, Cow::Borrowed(""));
        loop {
            let start = self.at + 1;
            let rest = self.text.get(start..).unwrap_or("");
            let Some(length) = rest.find('"') else {
                self.at = self.text.len();
                return Err(format!("line {opened}: expected a closing quote, found the end of the file"));
            };
            let part = rest.get(..length).unwrap_or("");
            self.line += part.bytes().filter(|&byte| byte == b'\n').count() as u64;
            if content.is_empty() {
                content = Cow::Borrowed(part);
            } else {
                content.to_mut().push_str(part);
            }
            self.at = start + length + 1;
            if self.text.as_bytes().get(self.at) != Some(&b'"') {
                break;
            }
            content.to_mut().push('"');
        }
        let behind = self.plain();
        if behind.is_empty() {
            Ok(content)
        } else {
            let (content, behind) = (shortened(&content), shortened(&behind));
            Err(format!("line {line}: expected a separator behind \"{content}\", found `{behind}`"))
        }
    }
}

/// Length of a line of blanks, with its end.
fn blank_line(bytes: &[u8]) -> Option<usize> {
    let first = bytes.first()?;
    if !matches!(first, b'\n' | b'\r' | b' ') {
        return None;
    }
    let blanks = bytes.iter().take_while(|&&byte| matches!(byte, b'\r' | b' ')).count();
    match bytes.get(blanks) {
        Some(b'\n') => Some(blanks + 1),
        None => Some(blanks),
        Some(_) => None,
    }
}

fn trimmed(bytes: &[u8]) -> &[u8] {
    let blanks = bytes.iter().take_while(|&&byte| matches!(byte, b'\r' | b' ')).count();
    bytes.get(blanks..).unwrap_or(&[])
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn all(text: &str, delimiter: u8) -> Result<Vec<(u64, Vec<String>)>, String> {
        let (mut records, mut fields, mut read) = (Records::new(text, delimiter), Vec::new(), Vec::new());
        while let Some(line) = records.next(&mut fields)? {
            read.push((line, fields.iter().map(|field| field.to_string()).collect()));
        }
        Ok(read)
    }

    fn rows(expected: &[(u64, &[&str])]) -> Vec<(u64, Vec<String>)> {
        expected.iter().map(|(line, row)| (*line, row.iter().map(|field| field.to_string()).collect())).collect()
    }

    #[test]
    fn quotes_line_ends_and_blank_lines_keep_the_line_numbers() {
        let text = "# made by hand\n\na,b\r\n\r\n\"x, \"\"y\"\"\nz\", 2 \r\n,\n3,\"\"";
        let expected: [(u64, &[&str]); 4] =
            [(3, &["a", "b"]), (5, &["x, \"y\"\nz", "2"]), (7, &["", ""]), (8, &["3", ""])];
        assert_eq!(all(text, b',').unwrap(), rows(&expected));
    }

    #[test]
    fn runs_of_spaces_are_one_separator() {
        let expected: [(u64, &[&str]); 3] = [(1, &["0", "1"]), (2, &["12", "3"]), (3, &["4", "5"])];
        assert_eq!(all("  0   1  \n12 3\r\n4 5", b' ').unwrap(), rows(&expected));
    }

    #[test]
    fn a_bad_quote_is_named_by_its_line() {
        assert_eq!(all("a\n\"b\nc", b',').unwrap_err(), "line 2: expected a closing quote, found the end of the file");
        let error = all("a\n\"b\"c,d", b',').unwrap_err();
        assert_eq!(error, "line 2: expected a separator behind \"b\", found `c`");
    }

    proptest! {
        /// Fields written with quotes come back, whatever they hold.
        #[test]
        fn what_is_quoted_reads_back(table in prop::collection::vec(prop::collection::vec("[a\",;\n\r\t é#]{0,6}", 3), 1..8)) {
            let line = |row: &Vec<String>| {
                row.iter().map(|field| format!("\"{}\"", field.replace('"', "\"\""))).collect::<Vec<_>>().join(",")
            };
            let text = table.iter().map(line).collect::<Vec<_>>().join("\r\n");
            let rows: Vec<Vec<String>> = all(&text, b',').unwrap().into_iter().map(|(_, row)| row).collect();
            prop_assert_eq!(rows, table);
        }

        #[test]
        fn any_text_ends(text in "[a\",;\n\r\t #]{0,60}", delimiter in prop::sample::select(b",;\t ".to_vec())) {
            if let Ok(records) = all(&text, delimiter) {
                prop_assert!(records.len() <= text.len());
            }
        }
    }
}

//! The two ways in which the oldest protocols escape what does not fit on a line of ASCII. Anything the pickler would not
//! write is `None`.

/// The bytes of a Python 2 string literal, limited to the escapes that `repr` writes.
pub(super) fn unquote(line: &str) -> Option<Vec<u8>> {
    let quote = line.chars().next().filter(|quote| matches!(quote, '\'' | '"'))?;
    let mut rest = line.strip_prefix(quote)?.strip_suffix(quote)?.bytes();
    let mut bytes = Vec::with_capacity(rest.len());
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'\\' => match rest.next()? {
                b'n' => b'\n',
                b'r' => b'\r',
                b't' => b'\t',
                b'x' => u8::try_from(hexadecimal(&mut rest, 2)?).ok()?,
                same @ (b'\\' | b'\'' | b'"') => same,
                _ => return None,
            },
            plain => plain,
        });
    }
    Some(bytes)
}

/// Python's `raw-unicode-escape`: latin-1 but for `\uXXXX` and `\UXXXXXXXX`.
pub(super) fn unescape(line: &[u8]) -> Option<String> {
    let mut rest = line.iter().copied();
    let mut text = String::with_capacity(line.len());
    while let Some(byte) = rest.next() {
        text.push(match byte {
            // The pickler escapes the backslash itself too, so a bare one starts an escape.
            b'\\' => match rest.next()? {
                b'u' => char::from_u32(hexadecimal(&mut rest, 4)?)?,
                b'U' => char::from_u32(hexadecimal(&mut rest, 8)?)?,
                _ => return None,
            },
            latin => char::from(latin),
        });
    }
    Some(text)
}

fn hexadecimal(bytes: &mut impl Iterator<Item = u8>, digits: usize) -> Option<u32> {
    (0..digits).try_fold(0, |sum, _| Some(sum << 4 | char::from(bytes.next()?).to_digit(16)?))
}

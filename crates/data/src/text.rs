//! Large text files of numbers, streamed: one thread reads (and decompresses), the others parse.
//!
//! A stream is cut into blocks of whole lines; blocks are parsed in parallel and taken in their order, so memory is
//! bounded by a few blocks and the result does not depend on the number of threads.

use crate::archive::Archive;
use harmonia_graph::error::{Error, Result};
use harmonia_graph::stop::Stop;
use rayon::prelude::*;
use std::io::Read;
use std::sync::mpsc::{Receiver, sync_channel};

/// Bytes of a block, about.
const BLOCK: usize = 4 << 20;
/// A line longer than this is no line of numbers.
const LONGEST_LINE: usize = 1 << 20;
/// Characters of a bad line that a message shows.
const SHOWN: usize = 60;

/// What is wrong with a line of a block.
#[derive(Debug)]
pub struct Wrong {
    /// Lines of the block before it.
    pub line: usize,
    /// Expected and found.
    pub message: String,
}

/// Parses a member of an archive block by block; `take` sees what `parse` made of them, in order.
///
/// # Errors
/// The stream is damaged or has a line without end, a line that `parse` refuses (named by its number), or what `take`
/// gives.
pub fn parse<T: Send>(
    archive: &Archive,
    name: &str,
    stop: &Stop,
    parse: impl Fn(&[u8]) -> std::result::Result<(T, usize), Wrong> + Sync,
    mut take: impl FnMut(T) -> Result<()>,
) -> Result<()> {
    let mut reader = archive.reader(name)?;
    let location = archive.location(name);
    let (sender, blocks) = sync_channel(2);
    std::thread::scope(|scope| {
        scope.spawn(move || {
            let mut carried = Vec::new();
            loop {
                let block = next_block(&mut reader, &mut carried);
                let last = !matches!(&block, Ok(Some(_)));
                // The other side may have given up.
                if sender.send(block).is_err() || last {
                    return;
                }
            }
        });
        // Dropped on the way out, so that the reading thread never waits for one who has left.
        let blocks = blocks;
        let mut lines = 0;
        loop {
            stop.check()?;
            let (portion, end) = portion(&blocks);
            let parsed: Vec<_> = portion.par_iter().map(|block| parse(block)).collect();
            for parsed in parsed {
                let (values, count) = parsed.map_err(|wrong| {
                    Error::file(&location, format!("line {}: {}", lines + wrong.line + 1, wrong.message))
                })?;
                take(values)?;
                lines += count;
            }
            match end {
                None => {}
                Some(Ok(())) => return Ok(()),
                Some(Err(error)) => return Err(archive.failed(name, error)),
            }
        }
    })
}

/// As many blocks as there are threads, and how the stream ended if it did.
fn portion(blocks: &Receiver<std::io::Result<Option<Vec<u8>>>>) -> (Vec<Vec<u8>>, Option<std::io::Result<()>>) {
    let mut portion = Vec::new();
    while portion.len() < rayon::current_num_threads() {
        match blocks.recv() {
            Ok(Ok(Some(block))) => portion.push(block),
            Ok(Ok(None)) | Err(_) => return (portion, Some(Ok(()))),
            Ok(Err(error)) => return (portion, Some(Err(error))),
        }
    }
    (portion, None)
}

/// The next whole lines; what follows the last line break is carried over. `None` at the end.
fn next_block(reader: &mut impl Read, carried: &mut Vec<u8>) -> std::io::Result<Option<Vec<u8>>> {
    let mut block = std::mem::take(carried);
    loop {
        let before = block.len();
        let read = reader.by_ref().take(BLOCK as u64).read_to_end(&mut block)?;
        if read == 0 {
            return Ok(Some(block).filter(|block| !block.is_empty()));
        }
        if let Some(end) = block[before..].iter().rposition(|&byte| byte == b'\n') {
            *carried = block.split_off(before + end + 1);
            return Ok(Some(block));
        }
        if block.len() > LONGEST_LINE {
            let message = format!("expected lines of numbers, found one of more than {LONGEST_LINE} bytes");
            return Err(std::io::Error::other(message));
        }
    }
}

/// Lines of a block without their ends; a last empty one does not count.
pub fn lines(block: &[u8]) -> impl Iterator<Item = &[u8]> {
    let block = block.strip_suffix(b"\n").unwrap_or(block);
    block.split(|&byte| byte == b'\n').map(|line| line.strip_suffix(b"\r").unwrap_or(line))
}

/// Rows of two node ids, `source,target`.
///
/// # Errors
/// The first line of another form.
pub fn pairs(block: &[u8]) -> std::result::Result<(Vec<(u32, u32)>, usize), Wrong> {
    let mut pairs = Vec::with_capacity(block.len() / 12);
    let mut rest = block;
    while !rest.is_empty() {
        let pair = |rest: &[u8]| {
            let (i, at) = id(rest)?;
            let at = at + rest[at..].strip_prefix(b",").map(|_| 1)?;
            let (j, width) = id(&rest[at..])?;
            let end = at + width;
            let line_break = match &rest[end..] {
                [] => 0,
                [b'\n', ..] => 1,
                [b'\r', b'\n', ..] => 2,
                _ => return None,
            };
            Some(((i, j), end + line_break))
        };
        let Some((edge, used)) = pair(rest) else {
            let message = format!("expected two node ids as in 12,345, found `{}`", shown(first_line(rest)));
            return Err(Wrong { line: pairs.len(), message });
        };
        pairs.push(edge);
        rest = &rest[used..];
    }
    let count = pairs.len();
    Ok((pairs, count))
}

/// One integer per line, from 0 to `most`; with `missing`, `nan` and nothing stand for `u32::MAX`.
///
/// # Errors
/// The first line of another form.
pub fn integers(block: &[u8], most: u32, missing: bool) -> std::result::Result<(Vec<u32>, usize), Wrong> {
    let mut values = Vec::with_capacity(block.len() / 4);
    for line in lines(block) {
        let value = match id(line) {
            Some((value, used)) if value <= most && (used == line.len() || &line[used..] == b".0") => Some(value),
            None if missing && matches!(line, b"nan" | b"NaN" | b"") => Some(u32::MAX),
            _ => None,
        };
        let Some(value) = value else {
            let message = format!("expected an integer from 0 to {most}, found `{}`", shown(line));
            return Err(Wrong { line: values.len(), message });
        };
        values.push(value);
    }
    let count = values.len();
    Ok((values, count))
}

/// Rows of `cols` numbers, separated by commas.
///
/// # Errors
/// The first line of another form, or with a number that is not finite.
pub fn rows(block: &[u8], cols: usize) -> std::result::Result<(Vec<f32>, usize), Wrong> {
    let mut values = Vec::with_capacity(block.len() / 8);
    let mut count = 0;
    for line in lines(block) {
        let before = values.len();
        for field in line.split(|&byte| byte == b',') {
            let number = std::str::from_utf8(field).ok().and_then(|text| text.trim().parse::<f32>().ok());
            let Some(number) = number.filter(|number| number.is_finite()) else {
                let message = format!("expected finite numbers, found `{}`", shown(field));
                return Err(Wrong { line: count, message });
            };
            values.push(number);
        }
        if values.len() - before != cols {
            let read = values.len() - before;
            return Err(Wrong { line: count, message: format!("expected {cols} numbers, found {read}") });
        }
        count += 1;
    }
    Ok((values, count))
}

/// A number at the front, and how many bytes it takes.
#[inline]
fn id(text: &[u8]) -> Option<(u32, usize)> {
    let (mut value, mut at) = (0u64, 0);
    while let Some(digit) = text.get(at).map(|byte| byte.wrapping_sub(b'0')).filter(|&digit| digit < 10) {
        value = value * 10 + u64::from(digit);
        at += 1;
        if at > 10 {
            return None;
        }
    }
    (at > 0 && value <= u64::from(u32::MAX)).then_some((value as u32, at))
}

fn first_line(text: &[u8]) -> &[u8] {
    text.split(|&byte| byte == b'\n').next().unwrap_or_default()
}

/// A piece of a file, fit for a message.
pub fn shown(text: &[u8]) -> String {
    let text: String = String::from_utf8_lossy(&text[..text.len().min(4 * SHOWN)]).chars().take(SHOWN).collect();
    text.escape_debug().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_whatever_the_line_ends() {
        assert_eq!(pairs(b"0,1\n12,4294967295\r\n7,8").unwrap(), (vec![(0, 1), (12, u32::MAX), (7, 8)], 3));
        assert_eq!(integers(b"3\n0\r\n5", 5, false).unwrap(), (vec![3, 0, 5], 3));
        assert_eq!(integers(b"3\nnan\n1.0\n", 5, true).unwrap(), (vec![3, u32::MAX, 1], 3));
        assert_eq!(rows(b"1,-2.5e-3\n0.1, 4\n", 2).unwrap(), (vec![1.0, -2.5e-3, 0.1, 4.0], 2));
        assert_eq!(pairs(b"").unwrap(), (vec![], 0));
    }

    #[test]
    fn a_bad_line_is_named() {
        for bad in ["1;2\n", "1,\n", ",2\n", "1,2,3\n", "1,-2\n", "\n", "a,b\n", "1,4294967296\n", "1,99999999999999\n"]
        {
            let wrong = pairs(format!("0,0\n{bad}").as_bytes()).unwrap_err();
            assert!(wrong.line == 1 && wrong.message.contains("two node ids"), "{bad:?}: {wrong:?}");
        }
        assert_eq!(integers(b"1\n6\n", 5, false).unwrap_err().line, 1);
        assert!(integers(b"nan\n", 5, false).is_err());
        assert!(rows(b"1,2\n1\n", 2).unwrap_err().message.contains("expected 2 numbers, found 1"));
        for bad in ["nan", "inf", "", "1e99", "x"] {
            assert!(rows(format!("{bad},1\n").as_bytes(), 2).is_err(), "{bad}");
        }
    }

    #[test]
    fn blocks_are_whole_lines() {
        let text: Vec<u8> = (0..2_000_000).flat_map(|i| format!("{i}\n").into_bytes()).collect();
        let (mut reader, mut carried, mut all) = (&text[..], Vec::new(), Vec::new());
        while let Some(block) = next_block(&mut reader, &mut carried).unwrap() {
            assert!(block.ends_with(b"\n"));
            all.extend(block);
        }
        assert!(all == text);
        let endless = vec![b'1'; 2 * BLOCK];
        assert!(next_block(&mut &endless[..], &mut Vec::new()).is_err());
    }
}

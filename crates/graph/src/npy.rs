//! numpy's `.npy` arrays: a header that promises a type and a shape, then the elements.
//!
//! A header may promise anything, so it is held against the bytes that are there before anything is allocated.
//! Little-endian arrays in C order; [`Npy`] borrows the bytes (of a file, an archive member or a memory map).

use crate::error::{Error, Result, one_line};
use half::f16;
use std::path::Path;

/// numpy's own limits.
const MOST_DIMENSIONS: usize = 64;
const LONGEST_HEADER: usize = 10_000;

/// Type of the elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Element {
    Bool,
    I8,
    I16,
    I32,
    I64,
    U8,
    U16,
    U32,
    U64,
    F16,
    F32,
    F64,
}

impl Element {
    const ALL: [Element; 12] = [
        Element::Bool,
        Element::I8,
        Element::I16,
        Element::I32,
        Element::I64,
        Element::U8,
        Element::U16,
        Element::U32,
        Element::U64,
        Element::F16,
        Element::F32,
        Element::F64,
    ];

    /// Whether numpy means this type by `descr`; the order of bytes of a single one does not matter.
    fn is_called(self, descr: &str) -> bool {
        match descr.strip_prefix(['<', '|', '=', '>']) {
            Some(kind) if self.bytes() == 1 => self.code()[1..] == *kind,
            Some(kind) if !descr.starts_with('>') => self.code()[1..] == *kind,
            _ => false,
        }
    }

    /// Bytes of one element.
    pub fn bytes(self) -> usize {
        match self {
            Element::Bool | Element::I8 | Element::U8 => 1,
            Element::I16 | Element::U16 | Element::F16 => 2,
            Element::I32 | Element::U32 | Element::F32 => 4,
            Element::I64 | Element::U64 | Element::F64 => 8,
        }
    }

    /// As numpy writes it.
    pub fn code(self) -> &'static str {
        match self {
            Element::Bool => "|b1",
            Element::I8 => "|i1",
            Element::I16 => "<i2",
            Element::I32 => "<i4",
            Element::I64 => "<i8",
            Element::U8 => "|u1",
            Element::U16 => "<u2",
            Element::U32 => "<u4",
            Element::U64 => "<u8",
            Element::F16 => "<f2",
            Element::F32 => "<f4",
            Element::F64 => "<f8",
        }
    }
}

/// An array whose header has been checked against its bytes.
#[derive(Clone, Debug)]
pub struct Npy<'a> {
    /// Sides, outermost first.
    pub shape: Vec<usize>,
    /// How `data` is read.
    pub element: Element,
    /// The elements, exactly as many as `shape` says.
    pub data: &'a [u8],
    /// Where `data` starts in the bytes that were parsed.
    pub offset: usize,
}

impl<'a> Npy<'a> {
    /// Reads the header of `bytes`; `origin` names them in errors.
    ///
    /// # Errors
    /// Not an array, one of another type or order, or fewer elements than promised.
    pub fn parse(bytes: &'a [u8], origin: &Path) -> Result<Npy<'a>> {
        let refused = |found: String| Error::file(origin, format!("expected a .npy array, found {found}"));
        let (text, rest) = split_header(bytes).ok_or_else(|| refused("no .npy header".into()))?;
        let header = Header::parse(text).ok_or_else(|| refused(format!("the header `{}`", one_line(text))))?;
        let Some(element) = Element::ALL.into_iter().find(|element| element.is_called(header.descr)) else {
            let found = one_line(header.descr);
            return Err(refused(format!("type {found}; save little-endian numbers, as array.astype(numpy.float32)")));
        };
        let Header { fortran_order, shape, .. } = header;
        if fortran_order && shape.len() > 1 {
            return Err(refused("column-major order; save numpy.ascontiguousarray(array)".into()));
        }
        let promised = shape.iter().try_fold(element.bytes(), |product: usize, &side| product.checked_mul(side));
        let Some(promised) = promised.filter(|&promised| promised <= rest.len()) else {
            return Err(refused(format!("a truncated file: shape {shape:?} does not fit {} bytes", rest.len())));
        };
        let offset = bytes.len() - rest.len();
        Ok(Npy { shape, element, data: &rest[..promised], offset })
    }

    /// Elements, the product of `shape`.
    pub fn len(&self) -> usize {
        self.data.len() / self.element.bytes()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.data.is_empty()
    }

    /// Rows x columns, or `None` where there are not two dimensions.
    pub fn matrix(&self) -> Option<(usize, usize)> {
        match self.shape[..] {
            [rows, cols] => Some((rows, cols)),
            _ => None,
        }
    }

    /// All elements as f32, rounded where they are wider; integers (bags of words) will do.
    pub fn floats(&self) -> Vec<f32> {
        match self.element {
            Element::F16 => self.map(|b: [u8; 2]| f16::from_le_bytes(b).to_f32()),
            Element::F32 => self.map(f32::from_le_bytes),
            Element::F64 => self.map(|b: [u8; 8]| f64::from_le_bytes(b) as f32),
            _ => self.integers().unwrap_or_default().into_iter().map(|value| value as f32).collect(),
        }
    }

    /// All elements as f64.
    pub fn doubles(&self) -> Vec<f64> {
        match self.element {
            Element::F64 => self.map(f64::from_le_bytes),
            _ => self.floats().into_iter().map(f64::from).collect(),
        }
    }

    /// All elements as integers; `None` for floats, but for an empty array: numpy makes an empty list one of f64, and
    /// without elements the type says nothing. What exceeds i64 becomes -1, which is valid nowhere here.
    pub fn integers(&self) -> Option<Vec<i64>> {
        Some(match self.element {
            Element::Bool | Element::U8 => self.map(|b: [u8; 1]| i64::from(b[0])),
            Element::I8 => self.map(|b: [u8; 1]| i64::from(b[0] as i8)),
            Element::I16 => self.map(|b| i64::from(i16::from_le_bytes(b))),
            Element::U16 => self.map(|b| i64::from(u16::from_le_bytes(b))),
            Element::I32 => self.map(|b| i64::from(i32::from_le_bytes(b))),
            Element::U32 => self.map(|b| i64::from(u32::from_le_bytes(b))),
            Element::I64 => self.map(i64::from_le_bytes),
            Element::U64 => self.map(|b| i64::try_from(u64::from_le_bytes(b)).unwrap_or(-1)),
            Element::F16 | Element::F32 | Element::F64 if self.is_empty() => Vec::new(),
            Element::F16 | Element::F32 | Element::F64 => return None,
        })
    }

    /// Some of the elements as an array of one dimension; none where there are none.
    pub fn part(&self, elements: std::ops::Range<usize>) -> Npy<'a> {
        let bytes = self.element.bytes();
        let end = elements.end.min(self.len());
        let start = elements.start.min(end);
        let (data, offset) = (&self.data[start * bytes..end * bytes], self.offset + start * bytes);
        Npy { shape: vec![end - start], element: self.element, data, offset }
    }

    fn map<const BYTES: usize, T>(&self, convert: impl Fn([u8; BYTES]) -> T) -> Vec<T> {
        self.data.as_chunks().0.iter().map(|&bytes| convert(bytes)).collect()
    }
}

/// What a header says: a Python dictionary of three entries, in any order.
struct Header<'a> {
    descr: &'a str,
    fortran_order: bool,
    shape: Vec<usize>,
}

impl<'a> Header<'a> {
    /// Reads exactly what numpy writes for plain arrays; anything else is `None`.
    fn parse(text: &'a str) -> Option<Header<'a>> {
        let mut rest = text.trim().strip_prefix('{')?.strip_suffix('}')?.trim();
        let (mut descr, mut fortran_order, mut shape) = (None, None, None);
        while !rest.is_empty() {
            let (key, after) = quoted(rest)?;
            rest = after.trim_start().strip_prefix(':')?.trim_start();
            match key {
                "descr" => (descr, rest) = quoted(rest).map(|(word, after)| (Some(word), after))?,
                "fortran_order" => {
                    let (value, after) = match rest.strip_prefix("True") {
                        Some(after) => (true, after),
                        None => (false, rest.strip_prefix("False")?),
                    };
                    (fortran_order, rest) = (Some(value), after);
                }
                "shape" => {
                    let (sides, after) = rest.strip_prefix('(')?.split_once(')')?;
                    (shape, rest) = (Some(tuple(sides)?), after);
                }
                _ => return None,
            }
            rest = rest.trim_start();
            rest = if rest.is_empty() { rest } else { rest.strip_prefix(',')?.trim_start() };
        }
        Some(Header { descr: descr?, fortran_order: fortran_order?, shape: shape? })
    }
}

/// A word in quotes at the front, and what follows it.
fn quoted(text: &str) -> Option<(&str, &str)> {
    let quote = text.chars().next().filter(|c| matches!(c, '\'' | '"'))?;
    text[1..].split_once(quote)
}

/// The sides of a shape: `3, 4` or `3,` or nothing.
fn tuple(text: &str) -> Option<Vec<usize>> {
    let text = text.trim();
    let text = text.strip_suffix(',').unwrap_or(text);
    if text.is_empty() {
        return Some(Vec::new());
    }
    let sides = text.split(',').map(|side| side.trim().parse().ok()).collect::<Option<Vec<usize>>>()?;
    (sides.len() <= MOST_DIMENSIONS).then_some(sides)
}

/// The text of a header, and the bytes behind it.
fn split_header(bytes: &[u8]) -> Option<(&str, &[u8])> {
    let (length, rest) = match bytes.strip_prefix(b"\x93NUMPY")? {
        [1, _, a, b, rest @ ..] => (usize::from(u16::from_le_bytes([*a, *b])), rest),
        [2 | 3, _, a, b, c, d, rest @ ..] => (u32::from_le_bytes([*a, *b, *c, *d]) as usize, rest),
        _ => return None,
    };
    let (text, data) = rest.split_at_checked(length).filter(|_| length <= LONGEST_HEADER)?;
    Some((std::str::from_utf8(text).ok()?, data))
}

/// The header of an array; its elements follow.
pub fn header(element: Element, shape: &[usize]) -> Vec<u8> {
    // numpy aligns the elements to this.
    const ALIGNMENT: usize = 64;
    const MAGIC: &[u8] = b"\x93NUMPY\x01\x00";
    let sides: Vec<String> = shape.iter().map(usize::to_string).collect();
    let tuple = if let [side] = &sides[..] { format!("({side},)") } else { format!("({})", sides.join(", ")) };
    let mut text =
        format!("{{'descr': '{}', 'fortran_order': False, 'shape': {tuple}, }}", element.code()).into_bytes();
    let unpadded = MAGIC.len() + 2 + text.len() + 1;
    text.resize(text.len() + unpadded.next_multiple_of(ALIGNMENT) - unpadded, b' ');
    text.push(b'\n');
    [MAGIC, &(text.len() as u16).to_le_bytes(), &text].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_reads_back_and_elements_are_aligned() {
        for shape in [&[3][..], &[2, 5], &[0], &[1, 1, 4]] {
            let mut bytes = header(Element::F32, shape);
            assert_eq!(bytes.len() % 64, 0);
            let elements: usize = shape.iter().product();
            bytes.extend((0..elements).flat_map(|value| (value as f32).to_le_bytes()));
            let array = Npy::parse(&bytes, Path::new("a.npy")).unwrap();
            assert_eq!((array.shape.as_slice(), array.element), (shape, Element::F32));
            assert_eq!(array.floats(), (0..elements).map(|value| value as f32).collect::<Vec<_>>());
        }
    }

    #[test]
    fn promises_are_held_against_the_bytes() {
        let refused = |bytes: &[u8]| Npy::parse(bytes, Path::new("a.npy")).unwrap_err().to_string();
        assert!(refused(&header(Element::I64, &[1 << 40])).contains("truncated"));
        assert!(refused(&header(Element::I64, &[usize::MAX, usize::MAX])).contains("truncated"));
        assert!(refused(b"not an array").contains("no .npy header"));
        // A header of version 2 may claim four gigabytes.
        assert!(refused(b"\x93NUMPY\x02\x00\xff\xff\xff\xff{'descr'").contains("no .npy header"));
    }

    #[test]
    fn headers_are_read_as_numpy_writes_them_and_no_other_way() {
        let parse = |text: &str| Header::parse(text).map(|h| (h.descr.to_string(), h.fortran_order, h.shape));
        let expected = Some(("<f4".to_string(), false, vec![3, 4]));
        for text in [
            "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }  \n",
            "{\"shape\":(3,4),\"descr\":\"<f4\",\"fortran_order\":False}",
        ] {
            assert_eq!(parse(text), expected, "{text}");
        }
        assert_eq!(parse("{'descr': '|u1', 'fortran_order': True, 'shape': ()}").unwrap().2, Vec::<usize>::new());
        for text in [
            "",
            "{}",
            "{'descr': '<f4'}",
            "{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (3,)}",
            "{'descr': '<f4', 'fortran_order': False, 'shape': (-3,)}",
            "{'descr': '<f4', 'fortran_order': False, 'shape': [3]}",
            "{'descr': '<f4', 'fortran_order': Maybe, 'shape': (3,)}",
            "{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999,)}",
            "{{{{{{{{{{{{{{{{",
            "{'descr': 'é', 'x': 1}",
        ] {
            assert_eq!(parse(text), None, "{text}");
        }
        assert!(Element::F32.is_called("<f4") && Element::U8.is_called("|u1") && Element::I8.is_called(">i1"));
        assert!(!Element::F32.is_called(">f4") && !Element::F32.is_called("f4") && !Element::F32.is_called(""));
    }
}

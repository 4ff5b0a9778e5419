//! numpy's `.npy` arrays: a header that promises a type and a shape, then the elements.
//!
//! A header may promise anything, so it is held against the bytes that are there before anything is allocated.
//! Little-endian arrays in C order; [`Npy`] borrows the bytes (of a file, an archive member or a memory map).

use crate::error::{Error, Result};
use half::f16;
use npyz::{DType, Endianness, NpyHeader, Order, TypeChar};
use std::path::Path;

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
    /// Bytes of one.
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
    /// Type of the elements.
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
        if header_length(bytes).is_none_or(|length| length > bytes.len().min(LONGEST_HEADER)) {
            return Err(refused("no .npy header".into()));
        }
        if header_overflows(bytes) {
            return Err(refused("a shape that no file can hold".into()));
        }
        let mut rest = bytes;
        // Reading the header takes it off the front: what is left are the elements.
        let header = NpyHeader::from_reader(&mut rest).map_err(|error| refused(format!("no .npy header ({error})")))?;
        let (shape, dtype) = (header.shape().to_vec(), header.dtype());
        let element = element(&dtype).ok_or_else(|| {
            refused(format!("type {}; save little-endian numbers, as array.astype(numpy.float32)", dtype.descr()))
        })?;
        if header.order() == Order::Fortran && shape.len() > 1 {
            return Err(refused("column-major order; save numpy.ascontiguousarray(array)".into()));
        }
        let side = |product: usize, &side: &u64| product.checked_mul(usize::try_from(side).ok()?);
        let promised = shape.iter().try_fold(element.bytes(), side).filter(|&promised| promised <= rest.len());
        let Some(promised) = promised else {
            return Err(refused(format!("a truncated file: shape {shape:?} does not fit {} bytes", rest.len())));
        };
        let shape = shape.iter().map(|&side| side as usize).collect();
        Ok(Npy { shape, element, data: &rest[..promised], offset: bytes.len() - rest.len() })
    }

    /// Number of elements.
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

    fn map<const BYTES: usize, T>(&self, convert: impl Fn([u8; BYTES]) -> T) -> Vec<T> {
        self.data.as_chunks().0.iter().map(|&bytes| convert(bytes)).collect()
    }
}

fn element(dtype: &DType) -> Option<Element> {
    let DType::Plain(plain) = dtype else { return None };
    if plain.endianness() == Endianness::Big {
        return None;
    }
    Some(match (plain.type_char(), plain.size_field()) {
        (TypeChar::Bool, 1) => Element::Bool,
        (TypeChar::Int, 1) => Element::I8,
        (TypeChar::Int, 2) => Element::I16,
        (TypeChar::Int, 4) => Element::I32,
        (TypeChar::Int, 8) => Element::I64,
        (TypeChar::Uint, 1) => Element::U8,
        (TypeChar::Uint, 2) => Element::U16,
        (TypeChar::Uint, 4) => Element::U32,
        (TypeChar::Uint, 8) => Element::U64,
        (TypeChar::Float, 2) => Element::F16,
        (TypeChar::Float, 4) => Element::F32,
        (TypeChar::Float, 8) => Element::F64,
        _ => return None,
    })
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

/// Of any array that numpy writes, by far.
const LONGEST_HEADER: usize = 1 << 16;

/// Bytes a header says it has: the reader makes room for them before it looks.
fn header_length(bytes: &[u8]) -> Option<usize> {
    match bytes {
        [0x93, b'N', b'U', b'M', b'P', b'Y', 1, _, low, high, ..] => Some(usize::from(*low) | usize::from(*high) << 8),
        [0x93, b'N', b'U', b'M', b'P', b'Y', 2 | 3, _, length @ ..] => {
            Some(u32::from_le_bytes(*length.first_chunk()?) as usize)
        }
        _ => None,
    }
}

/// Whether the product of the numbers in a header overflows; the header reader does not expect that.
fn header_overflows(bytes: &[u8]) -> bool {
    let text = String::from_utf8_lossy(&bytes[..bytes.len().min(LONGEST_HEADER)]);
    let tuple =
        |rest: &str| rest.split_once('(').and_then(|(_, rest)| rest.split_once(')')).map(|(s, _)| s.to_string());
    let Some(shape) = text.split_once("shape").and_then(|(_, rest)| tuple(rest)) else { return false };
    let sides = shape.split(',').map(str::trim).filter(|side| !side.is_empty());
    // Sixteen bytes an element at most.
    let product = |product: u64, side: Option<u64>| product.checked_mul(side?.max(1));
    sides.map(|side| side.parse().ok()).try_fold(16, product).is_none()
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
        assert!(refused(&header(Element::I64, &[usize::MAX, usize::MAX])).contains("no file can hold"));
        assert!(refused(b"not an array").contains("no .npy header"));
    }
}

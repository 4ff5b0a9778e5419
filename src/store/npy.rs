//! One `.npy` file to or from a vector, with the conversions a store allows.

use crate::error::{Error, Result};
use crate::files;
use npyz::{DType, NpyFile, NpyHeader, Order, TypeChar, WriterBuilder};
use std::path::Path;

/// An array as read: shape and elements.
pub struct Array<T> {
    pub shape: Vec<usize>,
    pub values: Vec<T>,
    /// Whether the file holds booleans.
    pub boolean: bool,
}

/// Reads numbers as f32; integers (bags of words) will do.
pub fn floats(path: &Path) -> Result<Array<f32>> {
    read(path, "f32 or f64 numbers; save array.astype(numpy.float32)", |file, kind, size| match (kind, size) {
        (TypeChar::Float, 4) => file.into_vec::<f32>(),
        (TypeChar::Float, 8) => Ok(file.into_vec::<f64>()?.into_iter().map(|v| v as f32).collect()),
        _ => Ok(whole(file, kind, size)?.into_iter().map(|v| v as f32).collect()),
    })
}

/// Reads integers of any width, and booleans.
pub fn integers(path: &Path) -> Result<Array<i64>> {
    read(path, "integers; save array.astype(numpy.int64)", whole)
}

fn whole(file: NpyFile<&[u8]>, kind: TypeChar, size: u64) -> std::io::Result<Vec<i64>> {
    match (kind, size) {
        (TypeChar::Bool, 1) => Ok(widen(file.into_vec::<bool>()?)),
        (TypeChar::Int, 8) => file.into_vec::<i64>(),
        (TypeChar::Int, 4) => Ok(widen(file.into_vec::<i32>()?)),
        (TypeChar::Int, 2) => Ok(widen(file.into_vec::<i16>()?)),
        (TypeChar::Int, 1) => Ok(widen(file.into_vec::<i8>()?)),
        (TypeChar::Uint, 4) => Ok(widen(file.into_vec::<u32>()?)),
        (TypeChar::Uint, 2) => Ok(widen(file.into_vec::<u16>()?)),
        (TypeChar::Uint, 1) => Ok(widen(file.into_vec::<u8>()?)),
        // Beyond i64 nothing here is valid, and -1 is refused wherever it matters.
        (TypeChar::Uint, 8) => {
            Ok(file.into_vec::<u64>()?.into_iter().map(|v| i64::try_from(v).unwrap_or(-1)).collect())
        }
        _ => Err(std::io::Error::other("unsupported type")),
    }
}

/// Writes an array.
pub fn write<T: npyz::Serialize + npyz::AutoSerialize>(path: &Path, shape: &[usize], values: &[T]) -> Result<()> {
    let mut bytes = Vec::new();
    let shape: Vec<u64> = shape.iter().map(|&side| side as u64).collect();
    let written = (npyz::WriteOptions::new().default_dtype().shape(&shape).writer(&mut bytes).begin_nd()).and_then(
        |mut writer| {
            writer.extend(values)?;
            writer.finish()
        },
    );
    written.map_err(Error::io("encode", path))?;
    files::write_atomic(path, &bytes)
}

/// Whether the product of the numbers in a header overflows; the header reader does not expect that.
fn header_overflows(bytes: &[u8]) -> bool {
    const HEADER: usize = 1 << 16;
    let text = String::from_utf8_lossy(&bytes[..bytes.len().min(HEADER)]);
    let tuple =
        |rest: &str| rest.split_once('(').and_then(|(_, rest)| rest.split_once(')')).map(|(s, _)| s.to_string());
    let Some(shape) = text.split_once("shape").and_then(|(_, rest)| tuple(rest)) else { return false };
    let sides = shape.split(',').map(str::trim).filter(|side| !side.is_empty());
    // Sixteen bytes an element at most.
    let product = |product: u64, side: Option<u64>| product.checked_mul(side?.max(1));
    sides.map(|side| side.parse().ok()).try_fold(16, product).is_none()
}

fn widen<S: Into<i64>>(values: Vec<S>) -> Vec<i64> {
    values.into_iter().map(Into::into).collect()
}

fn read<T>(
    path: &Path,
    expected: &str,
    convert: impl FnOnce(NpyFile<&[u8]>, TypeChar, u64) -> std::io::Result<Vec<T>>,
) -> Result<Array<T>> {
    let bytes = files::read(path)?;
    let refused = |found: String| Error::file(path, format!("expected a .npy array of {expected}, found {found}"));
    if header_overflows(&bytes) {
        return Err(refused("a shape that no file can hold".into()));
    }
    let mut content = &bytes[..];
    // Reading the header takes it off the front: what is left are the elements.
    let header = NpyHeader::from_reader(&mut content).map_err(|error| refused(format!("no .npy header ({error})")))?;
    let (shape, dtype) = (header.shape().to_vec(), header.dtype());
    let DType::Plain(kind) = &dtype else { return Err(refused(format!("type {}", dtype.descr()))) };
    let (kind, size) = (kind.type_char(), kind.size_field());
    if header.order() == Order::Fortran && shape.len() > 1 {
        return Err(refused("column-major order; save numpy.ascontiguousarray(array)".into()));
    }
    // A header may promise anything: check it against the bytes that are there before allocating.
    let promised = shape.iter().chain([&size]).try_fold(1u64, |product, &side| product.checked_mul(side));
    if promised.is_none_or(|promised| promised > content.len() as u64) {
        return Err(refused(format!("a truncated file: shape {shape:?} does not fit {} bytes", content.len())));
    }
    if promised == Some(0) {
        // numpy makes an empty list an array of f64; without elements the type says nothing.
        let shape = shape.iter().map(|&side| side as usize).collect();
        return Ok(Array { shape, values: Vec::new(), boolean: false });
    }
    let values = convert(NpyFile::with_header(header, content), kind, size)
        .map_err(|error| refused(format!("type {} ({error})", dtype.descr())))?;
    let shape = shape.iter().map(|&side| side as usize).collect();
    Ok(Array { shape, values, boolean: kind == TypeChar::Bool })
}

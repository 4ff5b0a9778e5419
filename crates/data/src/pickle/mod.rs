//! Safe reader for the Python pickles of the Planetoid datasets (`ind.cora.x` and its kin).
//!
//! Sits below the dataset loaders: bytes in, a plain [`Value`] tree out; nothing in the file is ever executed. A pickle
//! is a program for a small stack machine, so reading takes two steps: `machine` runs the opcodes into a flat arena
//! (`node`), `numpy` turns the arena into values.
//!
//! Invariant: whatever the input, [`read`] does not panic, and its time and memory are bounded by a fixed multiple of
//! the input's length.

mod escapes;
mod machine;
mod node;
mod numpy;
#[cfg(test)]
mod tests;

use std::fmt;

/// What a pickle may hold here.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// `None`.
    None,
    /// `bool`.
    Bool(bool),
    /// `int` or `long`; one that needs more than 64 bits is refused.
    Int(i64),
    /// `float`.
    Float(f64),
    /// Python 3 `bytes`, and every Python 2 `str`.
    Bytes(Vec<u8>),
    /// Python 3 `str`, Python 2 `unicode`.
    Text(String),
    /// `list`.
    List(Vec<Value>),
    /// `tuple`.
    Tuple(Vec<Value>),
    /// `dict` or `collections.defaultdict(list)`, in the order of the file. Keys are `Int`, `Bytes` or `Text`, and distinct.
    Dict(Vec<(Value, Value)>),
    /// `numpy.ndarray`.
    Array(Array),
    /// `scipy.sparse.csr_matrix`.
    Csr(CsrMatrix),
}

/// A numpy array, row-major whatever the order in the file. `data` holds exactly the product of
/// `shape` numbers (so a single dimension is backed by bytes only if no other one is 0).
#[derive(Clone, Debug, PartialEq)]
pub struct Array {
    /// Sides, outermost first; empty for a single number.
    pub shape: Vec<usize>,
    /// As many numbers as the sides say.
    pub data: Numbers,
}

/// The numbers of an array, in the type they were stored in.
#[derive(Clone, Debug, PartialEq)]
pub enum Numbers {
    /// `bool`.
    Bool(Vec<bool>),
    /// `uint8`.
    U8(Vec<u8>),
    /// `int32`.
    I32(Vec<i32>),
    /// `int64`.
    I64(Vec<i64>),
    /// `float32`.
    F32(Vec<f32>),
    /// `float64`.
    F64(Vec<f64>),
}

impl Numbers {
    /// Nearest `f32` of each number: wide integers and doubles are rounded, huge doubles become
    /// infinite.
    pub fn to_f32(&self) -> Vec<f32> {
        match self {
            Numbers::Bool(values) => values.iter().map(|&value| f32::from(value)).collect(),
            Numbers::U8(values) => values.iter().map(|&value| f32::from(value)).collect(),
            Numbers::I32(values) => values.iter().map(|&value| value as f32).collect(),
            Numbers::I64(values) => values.iter().map(|&value| value as f32).collect(),
            Numbers::F32(values) => values.clone(),
            Numbers::F64(values) => values.iter().map(|&value| value as f32).collect(),
        }
    }

    /// Exact integers, or `None` if any number is not one (a fraction, NaN, out of range).
    pub fn to_i64(&self) -> Option<Vec<i64>> {
        match self {
            Numbers::Bool(values) => Some(values.iter().map(|&value| value.into()).collect()),
            Numbers::U8(values) => Some(values.iter().map(|&value| value.into()).collect()),
            Numbers::I32(values) => Some(values.iter().map(|&value| value.into()).collect()),
            Numbers::I64(values) => Some(values.clone()),
            Numbers::F32(values) => values.iter().map(|&value| exact(value.into())).collect(),
            Numbers::F64(values) => values.iter().map(|&value| exact(value)).collect(),
        }
    }
}

fn exact(value: f64) -> Option<i64> {
    // Half-open: -2^63 is an i64, 2^63 is not, and the double nearest to i64::MAX is 2^63.
    let in_range = (-(2f64.powi(63))..2f64.powi(63)).contains(&value);
    (in_range && value.fract() == 0.0).then_some(value as i64)
}

/// A scipy matrix in compressed sparse row form.
///
/// Checked: `indptr` has `rows + 1` monotone entries from 0 to the number of stored values, and
/// each index is in `0..cols`. Columns within a row may be unsorted or repeated (repeats add up,
/// as in scipy). `cols` is the file's bare claim, backed by no bytes: bound it before making
/// anything dense.
#[derive(Clone, Debug, PartialEq)]
pub struct CsrMatrix {
    /// One less than `indptr` is long.
    pub rows: usize,
    /// What the file claims; indices are below it.
    pub cols: usize,
    /// Row `r` has the entries `indptr[r]..indptr[r + 1]`.
    pub indptr: Vec<i64>,
    /// Column of each entry.
    pub indices: Vec<i64>,
    /// Value of each entry, rounded to `f32` if stored in another type.
    pub data: Vec<f32>,
}

/// Why a pickle was refused, and where: at the opcode at fault, or at the one that made the object at fault.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PickleError {
    /// Byte offset into the input.
    pub offset: usize,
    /// What is wrong there.
    pub message: String,
}

impl fmt::Display for PickleError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "pickle, byte {}: {}", self.offset, self.message)
    }
}

impl std::error::Error for PickleError {}

type Result<T> = std::result::Result<T, PickleError>;

/// Reads one whole pickle of protocol 0 to 4. Refuses anything but plain data, numpy arrays and scipy CSR matrices, and
/// any byte after the end.
pub fn read(bytes: &[u8]) -> Result<Value> {
    let (arena, root) = machine::run(bytes)?;
    numpy::interpret(&arena, root, bytes.len())
}

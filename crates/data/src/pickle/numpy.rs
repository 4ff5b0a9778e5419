//! From the arena to values: plain data, numpy arrays, scipy matrices.
//!
//! Second half of [`super::read`], and the only part that knows numpy and scipy.
//!
//! Invariant: every copy out of the arena is paid from a budget proportional to the input before it is made, so a
//! pickle that repeats shared values ("billion laughs") is refused, not expanded.

use super::node::{Entry, Global, Id, Node};
use super::{Array, CsrMatrix, Numbers, PickleError, Result, Value};
use std::borrow::Cow;
use std::collections::HashSet;

/// Nesting of lists, tuples and dicts; the datasets need 2.
const MAX_DEPTH: usize = 64;
/// Numpy's own limit.
const MAX_DIMENSIONS: usize = 64;
/// Values and bytes of output per byte of input. Without sharing it is about 1: each value has its own opcode.
const MAX_EXPANSION: usize = 4;
/// Lets a tiny pickle share a few values although its length earns it next to nothing.
const MIN_BUDGET: usize = 1024;

/// Converts the node `root` and all it refers to.
pub(super) fn interpret(arena: &[Entry<'_>], root: Id, input_length: usize) -> Result<Value> {
    let budget = input_length.saturating_mul(MAX_EXPANSION).max(MIN_BUDGET);
    Reader { arena, open: vec![false; arena.len()], budget }.value(root, 0)
}

struct Reader<'arena, 'input> {
    arena: &'arena [Entry<'input>],
    /// Nodes whose conversion is under way: meeting one again is a cycle.
    open: Vec<bool>,
    /// Values and bytes that may still be made.
    budget: usize,
}

impl<'arena, 'input> Reader<'arena, 'input> {
    fn value(&mut self, id: Id, depth: usize) -> Result<Value> {
        if self.open[id] {
            return self.fail(id, "a value contains itself");
        }
        if depth > MAX_DEPTH {
            return self.fail(id, format!("values are nested deeper than {MAX_DEPTH}"));
        }
        self.open[id] = true;
        self.pay(id, 1)?;
        let value = match self.node(id) {
            Node::None => Value::None,
            Node::Bool(value) => Value::Bool(*value),
            Node::Int(value) => Value::Int(*value),
            Node::Float(value) => Value::Float(*value),
            Node::Bytes(_) => Value::Bytes(self.bytes(id)?.into_owned()),
            Node::Text(text) => {
                self.pay(id, text.len())?;
                Value::Text(text.to_string())
            }
            Node::List(items) => Value::List(self.values(id, items, depth)?),
            Node::Tuple(items) => Value::Tuple(self.values(id, items, depth)?),
            Node::Dict(items) => self.dict(id, items, depth)?,
            Node::Object { global: Global::Encode | Global::Bytes, .. } => Value::Bytes(self.bytes(id)?.into_owned()),
            Node::Object { global: Global::Reconstruct, .. } => Value::Array(self.array(id)?),
            Node::Object { global: Global::CsrMatrix, .. } => Value::Csr(self.csr(id)?),
            Node::Object { global, .. } | Node::Global(global) => {
                return self.fail(id, format!("a bare {global:?} is no data"));
            }
        };
        self.open[id] = false;
        Ok(value)
    }

    fn values(&mut self, id: Id, items: &[Id], depth: usize) -> Result<Vec<Value>> {
        // Checked ahead of the allocation; each item pays for itself.
        self.can_pay(id, items.len())?;
        let mut values = Vec::with_capacity(items.len());
        for &item in items {
            values.push(self.value(item, depth + 1)?);
        }
        Ok(values)
    }

    fn dict(&mut self, id: Id, items: &[(Id, Id)], depth: usize) -> Result<Value> {
        self.can_pay(id, items.len())?;
        let mut pairs = Vec::with_capacity(items.len());
        for &(key, value) in items {
            pairs.push((self.value(key, depth + 1)?, self.value(value, depth + 1)?));
        }
        // No pickler writes a key twice; to pick one of two values would hide a broken file.
        let mut seen = HashSet::with_capacity(pairs.len());
        for (&(node, _), (key, _)) in items.iter().zip(&pairs) {
            let (kind, number, bytes) = match key {
                Value::Int(number) => (0, *number, &[][..]),
                Value::Bytes(bytes) => (1, 0, bytes.as_slice()),
                Value::Text(text) => (2, 0, text.as_bytes()),
                _ => return self.fail(node, "a dict key is neither integer, bytes nor text"),
            };
            if !seen.insert((kind, number, bytes)) {
                return self.fail(id, "a dict has the same key twice");
            }
        }
        Ok(Value::Dict(pairs))
    }

    /// Bytes in either spelling, already paid for.
    fn bytes(&mut self, id: Id) -> Result<Cow<'arena, [u8]>> {
        match *self.node(id) {
            Node::Bytes(ref bytes) => {
                self.pay(id, bytes.len())?;
                Ok(Cow::Borrowed(bytes))
            }
            Node::Object { global: Global::Bytes, .. } => Ok(Cow::Borrowed(&[])),
            Node::Object { global: Global::Encode, arguments, .. } => {
                let &[text, encoding] = self.tuple(arguments)? else {
                    return self.fail(id, "bytes are not written as text and encoding");
                };
                let (Node::Text(text), Some(b"latin1")) = (self.node(text), self.name(encoding)) else {
                    return self.fail(id, "bytes are written in an encoding other than latin1");
                };
                self.pay(id, text.len())?;
                let encoded = text.chars().map(|character| u8::try_from(u32::from(character)));
                match encoded.collect() {
                    Ok(bytes) => Ok(Cow::Owned(bytes)),
                    Err(_) => self.fail(id, "bytes are written as text beyond latin1"),
                }
            }
            _ => self.fail(id, "bytes are expected here"),
        }
    }

    fn array(&mut self, id: Id) -> Result<Array> {
        let Node::Object { global: Global::Reconstruct, arguments, state: Some(state) } = *self.node(id) else {
            return self.fail(id, "an array with its content is expected here");
        };
        match self.tuple(arguments)? {
            &[class, _, _] if matches!(self.node(class), Node::Global(Global::NdArray)) => {}
            _ => return self.fail(id, "only a plain ndarray can be reconstructed"),
        }
        let &[version, shape, dtype, fortran, content] = self.tuple(state)? else {
            return self.fail(id, "the state of an array does not have five parts");
        };
        let (Node::Int(1), &Node::Bool(fortran)) = (self.node(version), self.node(fortran)) else {
            return self.fail(id, "the state of an array is not of version 1");
        };
        let sizes = self.tuple(shape)?;
        if sizes.len() > MAX_DIMENSIONS {
            return self.fail(id, "an array has too many dimensions");
        }
        self.pay(id, sizes.len())?;
        let shape = sizes.iter().map(|&size| self.size(size)).collect::<Result<Vec<_>>>()?;
        let (code, big_endian) = self.dtype(dtype)?;
        let width = match code {
            b"b1" | b"u1" => 1,
            b"i4" | b"f4" => 4,
            b"i8" | b"f8" => 8,
            _ => {
                let shown = code.get(..8).unwrap_or(code).escape_ascii();
                return self.fail(dtype, format!("numpy type '{shown}' is not read here"));
            }
        };
        let needed = shape.iter().try_fold(width, |size: usize, &side| size.checked_mul(side));
        let mut content = self.bytes(content)?;
        if needed != Some(content.len()) {
            let length = content.len();
            return self.fail(id, format!("{length} bytes do not fill an array of {shape:?}"));
        }
        if fortran {
            content = Cow::Owned(row_major(&content, &shape, width));
        }
        let data = match code {
            b"b1" => Numbers::Bool(content.iter().map(|&byte| byte != 0).collect()),
            b"u1" => Numbers::U8(content.into_owned()),
            b"i4" => Numbers::I32(decode(&content, big_endian, i32::from_le_bytes)),
            b"i8" => Numbers::I64(decode(&content, big_endian, i64::from_le_bytes)),
            b"f4" => Numbers::F32(decode(&content, big_endian, f32::from_le_bytes)),
            _ => Numbers::F64(decode(&content, big_endian, f64::from_le_bytes)),
        };
        Ok(Array { shape, data })
    }

    /// The type code such as `f4`, and whether the bytes are big-endian.
    fn dtype(&self, id: Id) -> Result<(&'arena [u8], bool)> {
        let Node::Object { global: Global::Dtype, arguments, state: Some(state) } = *self.node(id) else {
            return self.fail(id, "a numpy type with its state is expected here");
        };
        let (&[code, ..], &[_, order, ..]) = (self.tuple(arguments)?, self.tuple(state)?) else {
            return self.fail(id, "a numpy type has too few parts");
        };
        // '=' would mean the order of whichever machine wrote the file.
        match (self.name(code), self.name(order)) {
            (Some(code), Some(b"<")) | (Some(code @ (b"b1" | b"u1")), Some(b"|")) => Ok((code, false)),
            (Some(code), Some(b">")) => Ok((code, true)),
            _ => self.fail(id, "a numpy type has no known byte order"),
        }
    }

    fn csr(&mut self, id: Id) -> Result<CsrMatrix> {
        let Node::Object { state: Some(state), .. } = *self.node(id) else {
            return self.fail(id, "a sparse matrix has no state");
        };
        let Node::Dict(items) = self.node(state) else {
            return self.fail(id, "the state of a sparse matrix is no dict");
        };
        self.pay(id, items.len())?;
        let (mut shape, mut indptr, mut indices, mut data) = (None, None, None, None);
        for &(key, value) in items {
            match self.name(key) {
                Some(b"_shape" | b"shape") => shape = Some(value),
                Some(b"indptr") => indptr = Some(value),
                Some(b"indices") => indices = Some(value),
                Some(b"data") => data = Some(value),
                // Caches and print settings.
                _ => {}
            }
        }
        let (Some(shape), Some(indptr), Some(indices), Some(data)) = (shape, indptr, indices, data) else {
            return self.fail(id, "a sparse matrix lacks its shape, indptr, indices or data");
        };
        let &[rows, cols] = self.tuple(shape)? else {
            return self.fail(id, "a sparse matrix does not have two dimensions");
        };
        let (rows, cols) = (self.size(rows)?, self.size(cols)?);
        let (indptr, indices) = (self.integers(indptr)?, self.integers(indices)?);
        let data = self.flat(data)?.to_f32();

        if indptr.len().checked_sub(1) != Some(rows) || indices.len() != data.len() {
            return self.fail(id, "the parts of a sparse matrix disagree in length");
        }
        let ends = (indptr.first().copied(), indptr.last().map(|&end| usize::try_from(end)));
        if ends != (Some(0), Some(Ok(data.len()))) || !indptr.is_sorted() {
            return self.fail(id, "the indptr of a sparse matrix does not rise from 0 to its end");
        }
        if indices.iter().any(|&index| usize::try_from(index).map_or(true, |index| index >= cols)) {
            return self.fail(id, "a column index of a sparse matrix is out of range");
        }
        Ok(CsrMatrix { rows, cols, indptr, indices, data })
    }

    fn flat(&mut self, id: Id) -> Result<Numbers> {
        let array = self.array(id)?;
        if array.shape.len() != 1 {
            return self.fail(id, "a part of a sparse matrix is not one-dimensional");
        }
        Ok(array.data)
    }

    fn integers(&mut self, id: Id) -> Result<Vec<i64>> {
        match self.flat(id)? {
            Numbers::I64(values) => Ok(values),
            Numbers::I32(values) => Ok(values.into_iter().map(i64::from).collect()),
            _ => self.fail(id, "the indices of a sparse matrix are not integers"),
        }
    }

    fn size(&self, id: Id) -> Result<usize> {
        let size = match self.node(id) {
            Node::Int(size) => usize::try_from(*size).ok(),
            _ => None,
        };
        size.map_or_else(|| self.fail(id, "a dimension is not a natural number"), Ok)
    }

    fn tuple(&self, id: Id) -> Result<&'arena [Id]> {
        match self.node(id) {
            Node::Tuple(items) => Ok(items),
            _ => self.fail(id, "a tuple is expected here"),
        }
    }

    /// A Python 2 or Python 3 `str`.
    fn name(&self, id: Id) -> Option<&'arena [u8]> {
        match self.node(id) {
            Node::Bytes(bytes) => Some(bytes),
            Node::Text(text) => Some(text.as_bytes()),
            _ => None,
        }
    }

    fn node(&self, id: Id) -> &'arena Node<'input> {
        &self.arena[id].node
    }

    fn pay(&mut self, id: Id, cost: usize) -> Result<()> {
        self.can_pay(id, cost)?;
        self.budget -= cost;
        Ok(())
    }

    fn can_pay(&self, id: Id, cost: usize) -> Result<()> {
        if cost > self.budget {
            return self.fail(id, "shared values would expand far beyond the size of the file");
        }
        Ok(())
    }

    fn fail<T>(&self, id: Id, message: impl Into<String>) -> Result<T> {
        Err(PickleError { offset: self.arena[id].offset, message: message.into() })
    }
}

/// Column-major content reordered; `content` holds exactly the items of `shape`.
fn row_major(content: &[u8], shape: &[usize], width: usize) -> Vec<u8> {
    let mut ordered = Vec::with_capacity(content.len());
    let mut position = vec![0; shape.len()];
    while ordered.len() < content.len() {
        // Horner's rule over the sides: the first index varies fastest in the source.
        let item = position.iter().zip(shape).rev().fold(0, |sum, (&at, &side)| sum * side + at);
        ordered.extend_from_slice(&content[item * width..][..width]);
        for (at, &side) in position.iter_mut().zip(shape).rev() {
            *at += 1;
            if *at < side {
                break;
            }
            *at = 0;
        }
    }
    ordered
}

fn decode<const N: usize, T>(content: &[u8], big_endian: bool, from: fn([u8; N]) -> T) -> Vec<T> {
    let (items, _) = content.as_chunks();
    let ordered = |&(mut item): &[u8; N]| {
        if big_endian {
            item.reverse();
        }
        from(item)
    };
    items.iter().map(ordered).collect()
}

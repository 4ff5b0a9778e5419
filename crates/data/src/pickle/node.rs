//! The arena between the two halves of [`super::read`], and the globals that a pickle may name.
//!
//! Invariant: a node refers to others only by [`Id`]. Sharing and cycles in the file are thus plain data here, and
//! dropping an arena does not recurse.

use std::borrow::Cow;

/// Index into the arena. Only the machine makes one, when it adds an entry, and entries are never removed: it is
/// always in bounds.
pub(super) type Id = usize;

pub(super) struct Entry<'input> {
    /// The opcode that made the node, for messages.
    pub offset: usize,
    pub node: Node<'input>,
}

/// A list that is memoised while empty and filled later is one entry: every reference sees its final state.
pub(super) enum Node<'input> {
    None,
    Bool(bool),
    Int(i64),
    Float(f64),
    Bytes(Cow<'input, [u8]>),
    Text(Cow<'input, str>),
    List(Vec<Id>),
    Tuple(Vec<Id>),
    Dict(Vec<(Id, Id)>),
    Global(Global),
    /// A call that is noted down, never made.
    Object {
        global: Global,
        arguments: Id,
        state: Option<Id>,
    },
}

/// Everything a pickle may import.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Global {
    Reconstruct,
    NdArray,
    Dtype,
    CsrMatrix,
    DefaultDict,
    List,
    /// How Python 3 writes bytes up to protocol 2: as latin-1 text to be encoded on loading.
    Encode,
    /// Likewise, for empty bytes.
    Bytes,
}

impl Global {
    /// The whole allow-list: names as Python 2 and older numpy and scipy wrote them, then the modern ones.
    pub fn find(module: &str, name: &str) -> Option<Global> {
        Some(match (module, name) {
            ("numpy.core.multiarray" | "numpy._core.multiarray", "_reconstruct") => Global::Reconstruct,
            ("numpy", "ndarray") => Global::NdArray,
            ("numpy", "dtype") => Global::Dtype,
            ("scipy.sparse.csr" | "scipy.sparse._csr", "csr_matrix") => Global::CsrMatrix,
            ("collections", "defaultdict") => Global::DefaultDict,
            ("__builtin__" | "builtins", "list") => Global::List,
            ("_codecs", "encode") => Global::Encode,
            ("__builtin__" | "builtins", "bytes") => Global::Bytes,
            _ => return None,
        })
    }
}

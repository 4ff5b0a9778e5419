//! The pickle stack machine: opcodes in, an arena of nodes out.
//!
//! First half of [`super::read`]. Calls of globals are checked against a list and noted down, never made.
//!
//! Invariant: no opcode copies through a reference. Values refer to each other by [`Id`], so the arena stays within
//! a fixed multiple of the input however often the memo is used.

use super::escapes::{unescape, unquote};
use super::node::{Entry, Global, Id, Node};
use super::{PickleError, Result};
use std::collections::HashMap;

/// Text of the input that is quoted in a message is cut here.
const MAX_QUOTED: usize = 80;

/// Runs a whole pickle; the id is that of the value it leaves.
pub(super) fn run(input: &[u8]) -> Result<(Vec<Entry<'_>>, Id)> {
    let mut machine = Machine {
        rest: input,
        offset: 0,
        arena: Vec::new(),
        stack: Vec::new(),
        marks: Vec::new(),
        memo: HashMap::new(),
    };
    loop {
        machine.offset = input.len() - machine.rest.len();
        let [opcode] = machine.take()?;
        if opcode == b'.' {
            break;
        }
        match machine.literal(opcode)? {
            Some(node) => machine.push(node),
            None => machine.step(opcode)?,
        }
    }
    if !machine.rest.is_empty() {
        let count = machine.rest.len();
        return machine.fail(format!("{count} bytes follow the end of the pickle"));
    }
    match (machine.stack.as_slice(), machine.marks.as_slice()) {
        (&[root], []) => Ok((machine.arena, root)),
        _ => machine.fail("the pickle does not end with exactly one value"),
    }
}

struct Machine<'input> {
    rest: &'input [u8],
    /// Where the current opcode starts.
    offset: usize,
    arena: Vec<Entry<'input>>,
    stack: Vec<Id>,
    /// Stack heights. `pop` does not go below the last one, so each stays within the stack.
    marks: Vec<usize>,
    /// A map: the file chooses the keys, and in a vector it would thereby choose an allocation.
    memo: HashMap<u64, Id>,
}

impl<'input> Machine<'input> {
    /// The node of an opcode that pushes a value made from nothing but its own bytes.
    fn literal(&mut self, opcode: u8) -> Result<Option<Node<'input>>> {
        Ok(Some(match opcode {
            b'N' => Node::None,        // NONE
            0x88 => Node::Bool(true),  // NEWTRUE
            0x89 => Node::Bool(false), // NEWFALSE
            // INT, which up to protocol 1 also spells the booleans.
            b'I' => match self.line()? {
                "00" => Node::Bool(false),
                "01" => Node::Bool(true),
                digits => Node::Int(self.parse(digits)?),
            },
            // LONG
            b'L' => {
                let line = self.line()?;
                Node::Int(self.parse(line.strip_suffix('L').unwrap_or(line))?)
            }
            b'J' => Node::Int(i32::from_le_bytes(self.take()?).into()), // BININT
            b'K' => Node::Int(u8::from_le_bytes(self.take()?).into()),  // BININT1
            b'M' => Node::Int(u16::from_le_bytes(self.take()?).into()), // BININT2
            // LONG1: two's complement of any width.
            0x8a => {
                let digits = self.sized::<1>()?;
                let negative = digits.last().is_some_and(|&byte| byte >= 0x80);
                let mut wide = [if negative { 0xff } else { 0 }; 8];
                match wide.get_mut(..digits.len()) {
                    Some(low) => low.copy_from_slice(digits),
                    None => return self.fail("an integer is wider than 64 bits"),
                }
                Node::Int(i64::from_le_bytes(wide))
            }
            // FLOAT
            b'F' => {
                let line = self.line()?;
                Node::Float(self.parse(line)?)
            }
            b'G' => Node::Float(f64::from_be_bytes(self.take()?)), // BINFLOAT
            // STRING
            b'S' => match unquote(self.line()?) {
                Some(bytes) => Node::Bytes(bytes.into()),
                None => return self.fail("malformed quoted string"),
            },
            b'U' | b'C' => Node::Bytes(self.sized::<1>()?.into()), // SHORT_BINSTRING, -BYTES
            b'T' | b'B' => Node::Bytes(self.sized::<4>()?.into()), // BINSTRING, BINBYTES
            0x8e => Node::Bytes(self.sized::<8>()?.into()),        // BINBYTES8
            // UNICODE
            b'V' => match unescape(self.raw_line()?) {
                Some(text) => Node::Text(text.into()),
                None => return self.fail("malformed escape in a text"),
            },
            0x8c => self.text::<1>()?,       // SHORT_BINUNICODE
            b'X' => self.text::<4>()?,       // BINUNICODE
            0x8d => self.text::<8>()?,       // BINUNICODE8
            b']' => Node::List(Vec::new()),  // EMPTY_LIST
            b')' => Node::Tuple(Vec::new()), // EMPTY_TUPLE
            b'}' => Node::Dict(Vec::new()),  // EMPTY_DICT
            // GLOBAL
            b'c' => {
                let (module, name) = (self.line()?, self.line()?);
                Node::Global(self.global(module, name)?)
            }
            _ => return Ok(None),
        }))
    }

    /// All other opcodes: those that work on the stack, the marks or the memo.
    fn step(&mut self, opcode: u8) -> Result<()> {
        match opcode {
            // PROTO
            0x80 => match self.take()? {
                [0..=4] => {}
                [version] => return self.fail(format!("protocol {version} is not read here")),
            },
            // FRAME only helps readers that buffer; a length that cannot be true is still an error.
            0x95 => {
                let length = u64::from_le_bytes(self.take()?);
                if length > self.rest.len() as u64 {
                    return self.fail(format!("a frame of {length} bytes runs past the end"));
                }
            }
            b'(' => self.marks.push(self.stack.len()), // MARK
            // TUPLE
            b't' => {
                let items = self.pop_to_mark()?;
                self.push(Node::Tuple(items));
            }
            // TUPLE1, TUPLE2, TUPLE3
            0x85..=0x87 => {
                let mut items = Vec::with_capacity(3);
                for _ in 0x85..=opcode {
                    items.push(self.pop()?);
                }
                items.reverse();
                self.push(Node::Tuple(items));
            }
            // LIST
            b'l' => {
                let items = self.pop_to_mark()?;
                self.push(Node::List(items));
            }
            // DICT
            b'd' => {
                let items = self.pop_to_mark()?;
                self.push(Node::Dict(Vec::new()));
                self.set_items(&items)?;
            }
            // APPEND, APPENDS
            b'a' => {
                let item = self.pop()?;
                self.append(&[item])?;
            }
            b'e' => {
                let items = self.pop_to_mark()?;
                self.append(&items)?;
            }
            // SETITEM, SETITEMS
            b's' => {
                let value = self.pop()?;
                let key = self.pop()?;
                self.set_items(&[key, value])?;
            }
            b'u' => {
                let items = self.pop_to_mark()?;
                self.set_items(&items)?;
            }
            // PUT, BINPUT, LONG_BINPUT, MEMOIZE
            b'p' | b'q' | b'r' | 0x94 => {
                let key = self.memo_key(opcode)?;
                let top = self.top()?;
                self.memo.insert(key, top);
            }
            // GET, BINGET, LONG_BINGET
            b'g' | b'h' | b'j' => {
                let key = self.memo_key(opcode)?;
                match self.memo.get(&key) {
                    Some(&id) => self.stack.push(id),
                    None => return self.fail(format!("memo {key} is read before it is written")),
                }
            }
            // STACK_GLOBAL
            0x93 => {
                let (name, module) = (self.pop()?, self.pop()?);
                let global = match (self.node(module), self.node(name)) {
                    (Node::Text(module), Node::Text(name)) => self.global(module, name)?,
                    _ => return self.fail("the name of a global is not text"),
                };
                self.push(Node::Global(global));
            }
            // REDUCE, NEWOBJ, BUILD
            b'R' | 0x81 => self.call(opcode)?,
            b'b' => {
                let value = self.pop()?;
                let target = self.top()?;
                match &mut self.arena[target].node {
                    Node::Object { state: state @ None, .. } => *state = Some(value),
                    _ => return self.fail("state is given to a value that takes none"),
                }
            }
            _ => {
                let shown = char::from(opcode).escape_default();
                return self.fail(format!("opcode {opcode:#04x} ('{shown}') is not read here"));
            }
        }
        Ok(())
    }

    fn call(&mut self, opcode: u8) -> Result<()> {
        let (arguments, callable) = (self.pop()?, self.pop()?);
        let (Node::Global(global), Node::Tuple(items)) = (self.node(callable), self.node(arguments)) else {
            return self.fail("a call of something that is no global, or without a tuple");
        };
        let (global, state) = (*global, None);
        let node = match (global, opcode, items.as_slice()) {
            (Global::DefaultDict, b'R', []) => Node::Dict(Vec::new()),
            (Global::DefaultDict, b'R', &[factory]) if matches!(self.node(factory), Node::Global(Global::List)) => {
                Node::Dict(Vec::new())
            }
            (Global::Reconstruct | Global::Dtype | Global::Encode, b'R', _)
            | (Global::Bytes, b'R', [])
            | (Global::CsrMatrix, 0x81, []) => Node::Object { global, arguments, state },
            _ => return self.fail(format!("{global:?} is not called like this")),
        };
        self.push(node);
        Ok(())
    }

    fn global(&self, module: &str, name: &str) -> Result<Global> {
        if let Some(global) = Global::find(module, name) {
            return Ok(global);
        }
        let full = format!("{module}.{name}");
        let shown: String = full.escape_debug().take(MAX_QUOTED).collect();
        self.fail(format!("global {shown} is not allowed"))
    }

    fn append(&mut self, items: &[Id]) -> Result<()> {
        let target = self.top()?;
        match &mut self.arena[target].node {
            Node::List(list) => list.extend_from_slice(items),
            _ => return self.fail("an item is appended to a value that is no list"),
        }
        Ok(())
    }

    fn set_items(&mut self, items: &[Id]) -> Result<()> {
        let target = self.top()?;
        match (&mut self.arena[target].node, items.as_chunks()) {
            (Node::Dict(dict), (pairs, [])) => {
                dict.extend(pairs.iter().map(|&[key, value]| (key, value)));
            }
            (Node::Dict(_), _) => return self.fail("a dict key has no value"),
            _ => return self.fail("an item is set in a value that is no dict"),
        }
        Ok(())
    }

    fn memo_key(&mut self, opcode: u8) -> Result<u64> {
        match opcode {
            b'p' | b'g' => {
                let line = self.line()?;
                self.parse(line)
            }
            b'q' | b'h' => Ok(u8::from_le_bytes(self.take()?).into()),
            b'r' | b'j' => Ok(u32::from_le_bytes(self.take()?).into()),
            _ => Ok(self.memo.len() as u64),
        }
    }

    fn push(&mut self, node: Node<'input>) {
        self.stack.push(self.arena.len());
        self.arena.push(Entry { offset: self.offset, node });
    }

    fn top(&self) -> Result<Id> {
        let floor = self.marks.last().copied().unwrap_or(0);
        match self.stack.last() {
            Some(&id) if self.stack.len() > floor => Ok(id),
            _ => self.fail("an opcode needs a value and the stack has none"),
        }
    }

    fn pop(&mut self) -> Result<Id> {
        let id = self.top()?;
        self.stack.pop();
        Ok(id)
    }

    fn pop_to_mark(&mut self) -> Result<Vec<Id>> {
        match self.marks.pop() {
            Some(height) => Ok(self.stack.drain(height..).collect()),
            None => self.fail("an opcode needs a mark and there is none"),
        }
    }

    fn node(&self, id: Id) -> &Node<'input> {
        &self.arena[id].node
    }

    fn take<const N: usize>(&mut self) -> Result<[u8; N]> {
        let Some((&head, rest)) = self.rest.split_first_chunk() else {
            return self.fail("the pickle is cut short");
        };
        self.rest = rest;
        Ok(head)
    }

    /// Bytes after a little-endian length that itself takes `N <= 8` bytes.
    fn sized<const N: usize>(&mut self) -> Result<&'input [u8]> {
        let digits: [u8; N] = self.take()?;
        let length = digits.iter().rev().fold(0, |sum, &byte| sum << 8 | u64::from(byte));
        let split = usize::try_from(length).ok().and_then(|at| self.rest.split_at_checked(at));
        let Some((head, rest)) = split else {
            let left = self.rest.len();
            return self.fail(format!("{length} bytes are announced, {left} are left"));
        };
        self.rest = rest;
        Ok(head)
    }

    fn text<const N: usize>(&mut self) -> Result<Node<'input>> {
        match std::str::from_utf8(self.sized::<N>()?) {
            Ok(text) => Ok(Node::Text(text.into())),
            Err(_) => self.fail("text is not UTF-8"),
        }
    }

    fn raw_line(&mut self) -> Result<&'input [u8]> {
        let Some(end) = self.rest.iter().position(|&byte| byte == b'\n') else {
            return self.fail("the pickle is cut short within a line");
        };
        let line = &self.rest[..end];
        self.rest = &self.rest[end + 1..];
        Ok(line)
    }

    fn line(&mut self) -> Result<&'input str> {
        match std::str::from_utf8(self.raw_line()?) {
            Ok(line) => Ok(line),
            Err(_) => self.fail("a line is not UTF-8"),
        }
    }

    fn parse<T: std::str::FromStr>(&self, digits: &str) -> Result<T> {
        match digits.parse() {
            Ok(number) => Ok(number),
            Err(_) => self.fail("malformed number"),
        }
    }

    fn fail<T>(&self, message: impl Into<String>) -> Result<T> {
        Err(PickleError { offset: self.offset, message: message.into() })
    }
}

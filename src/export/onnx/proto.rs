//! The few messages of ONNX that a scorer is made of, written as bytes.
//!
//! ONNX files are protocol buffers: a field is its number and kind, then its value. Numbers of fields are those of `onnx.proto`
//! and never change. Only writing is here, so nothing has to be checked. Invariant: tensors are little-endian `raw_data`.

/// A message under way.
#[derive(Clone, Debug, Default)]
pub struct Message(Vec<u8>);

/// Of the value behind a field's number.
const VARINT: u64 = 0;
const LENGTH: u64 = 2;

impl Message {
    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }

    /// A whole number; negative ones take ten bytes, as int64 has it.
    pub fn number(mut self, field: u64, value: i64) -> Message {
        self.varint(field << 3 | VARINT);
        self.varint(value as u64);
        self
    }

    /// Bytes, a text or a message within this one.
    pub fn bytes(mut self, field: u64, value: &[u8]) -> Message {
        self.varint(field << 3 | LENGTH);
        self.varint(value.len() as u64);
        self.0.extend_from_slice(value);
        self
    }

    pub fn text(self, field: u64, value: &str) -> Message {
        self.bytes(field, value.as_bytes())
    }

    pub fn message(self, field: u64, value: &Message) -> Message {
        self.bytes(field, &value.0)
    }

    fn each(self, field: u64, values: &[Message]) -> Message {
        values.iter().fold(self, |all, value| all.message(field, value))
    }

    pub fn into_bytes(self) -> Vec<u8> {
        self.0
    }
}

/// Kinds of elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Float = 1,
    Int = 7,
    Double = 11,
}

/// Numbers of one kind.
pub enum Values<'a> {
    Ints(&'a [i64]),
    Doubles(&'a [f64]),
    /// Bytes, each 0 or 1.
    Bools(&'a [bool]),
}

/// A TensorProto; no name where it is the value of an attribute.
pub fn tensor(name: &str, shape: &[usize], values: &Values<'_>) -> Message {
    let (kind, raw): (i64, Vec<u8>) = match values {
        Values::Ints(values) => (Kind::Int as i64, values.iter().flat_map(|value| value.to_le_bytes()).collect()),
        Values::Doubles(values) => (Kind::Double as i64, values.iter().flat_map(|value| value.to_le_bytes()).collect()),
        Values::Bools(values) => (9, values.iter().map(|&value| u8::from(value)).collect()),
    };
    let dims = shape.iter().fold(Message::default(), |all, &size| all.number(1, size as i64));
    dims.number(2, kind).text(8, name).bytes(9, &raw)
}

/// What an operator is told beside its inputs.
pub enum Attribute {
    Int(&'static str, i64),
    Text(&'static str, &'static str),
    Tensor(&'static str, Message),
    Graph(&'static str, Message),
}

impl Attribute {
    fn message(&self) -> Message {
        let named = |name: &str| Message::default().text(1, name);
        match self {
            Attribute::Int(name, value) => named(name).number(3, *value).number(20, 2),
            Attribute::Text(name, value) => named(name).text(4, value).number(20, 3),
            Attribute::Tensor(name, value) => named(name).message(5, value).number(20, 4),
            Attribute::Graph(name, value) => named(name).message(6, value).number(20, 5),
        }
    }
}

/// A size of an input or output: known, or by a name.
pub enum Size {
    Is(usize),
    Called(&'static str),
}

/// A ValueInfoProto.
fn value(name: &str, kind: Kind, shape: &[Size]) -> Message {
    let dims = shape.iter().fold(Message::default(), |all, size| {
        let size = match size {
            Size::Is(size) => Message::default().number(1, *size as i64),
            Size::Called(name) => Message::default().text(2, name),
        };
        all.message(1, &size)
    });
    let tensor = Message::default().number(1, kind as i64).message(2, &dims);
    Message::default().text(1, name).message(2, &Message::default().message(1, &tensor))
}

/// A graph of operators under way; every value has the name that it is made under.
#[derive(Default)]
pub struct Graph {
    nodes: Vec<Message>,
    constants: Vec<Message>,
    inputs: Vec<Message>,
    outputs: Vec<Message>,
}

impl Graph {
    /// Adds an operator whose one output is called `name`; gives the name back.
    pub fn op(&mut self, name: &str, operator: &str, inputs: &[&str], attributes: &[Attribute]) -> String {
        let node = inputs.iter().fold(Message::default(), |node, input| node.text(1, input));
        let node = node.text(2, name).text(3, name).text(4, operator);
        let attributes: Vec<Message> = attributes.iter().map(Attribute::message).collect();
        self.nodes.push(node.each(5, &attributes));
        name.to_string()
    }

    pub fn constant(&mut self, name: &str, shape: &[usize], values: &Values<'_>) -> String {
        self.constants.push(tensor(name, shape, values));
        name.to_string()
    }

    pub fn doubles(&mut self, name: &str, shape: &[usize], values: &[f64]) -> String {
        self.constant(name, shape, &Values::Doubles(values))
    }

    pub fn ints(&mut self, name: &str, values: &[i64]) -> String {
        self.constant(name, &[values.len()], &Values::Ints(values))
    }

    pub fn input(&mut self, name: &str, kind: Kind, shape: &[Size]) -> String {
        self.inputs.push(value(name, kind, shape));
        name.to_string()
    }

    pub fn output(&mut self, name: &str, kind: Kind, shape: &[Size]) {
        self.outputs.push(value(name, kind, shape));
    }

    /// `from` as another kind.
    pub fn cast(&mut self, name: &str, from: &str, kind: Kind) -> String {
        self.op(name, "Cast", &[from], &[Attribute::Int("to", kind as i64)])
    }

    /// The GraphProto.
    pub fn finish(&self, name: &str) -> Message {
        let named = Message::default().each(1, &self.nodes).text(2, name);
        named.each(5, &self.constants).each(11, &self.inputs).each(12, &self.outputs)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_bytes_as_protocol_buffers_have_them() {
        // The examples of the encoding's own description.
        assert_eq!(Message::default().number(1, 150).into_bytes(), [0x08, 0x96, 0x01]);
        assert_eq!(Message::default().text(2, "testing").into_bytes(), b"\x12\x07testing");
        let inner = Message::default().number(1, 150);
        assert_eq!(Message::default().message(3, &inner).into_bytes(), [0x1a, 0x03, 0x08, 0x96, 0x01]);
        let minus = Message::default().number(1, -2).into_bytes();
        assert_eq!((minus.len(), minus[1], minus[10]), (11, 0xfe, 0x01));
    }
}

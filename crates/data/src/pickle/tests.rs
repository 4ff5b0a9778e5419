//! Pickles by hand: every spelling of every value, refusals, and programs made to grow.

use super::*;

/// `numpy.array([[1, 2], [-3, 0.5]], dtype="f4")` in the form of numpy 2, protocol 4.
const PROTOCOL_4: &[u8] =
    b"\x80\x04\x95\x9b\x00\x00\x00\x00\x00\x00\x00\x8c\x16numpy._core.multiarray\x94\x8c\x0c_reconstruct\x94\
    \x93\x94\x8c\x05numpy\x94\x8c\x07ndarray\x94\x93\x94K\x00\x85\x94C\x01b\x94\x87\x94R\x94(K\x01K\x02K\
    \x02\x86\x94h\x03\x8c\x05dtype\x94\x93\x94\x8c\x02f4\x94\x89\x88\x87\x94R\x94(K\x03\x8c\x01<\x94NNNJ\
    \xff\xff\xff\xffJ\xff\xff\xff\xffK\x00t\x94b\x89C\x10\x00\x00\x80?\x00\x00\x00@\x00\x00@\xc0\x00\x00\
    \x00?\x94t\x94b.";

/// An ndarray as Python 2 writes it; sides below 256.
fn array(shape: &[u8], code: &[u8; 2], order: u8, fortran: bool, content: &[u8]) -> Vec<u8> {
    let mut bytes = b"cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\0\x85U\x01b\x87R(K\x01(".to_vec();
    bytes.extend(shape.iter().flat_map(|&side| [b'K', side]));
    bytes.extend_from_slice(b"tcnumpy\ndtype\nU\x02");
    bytes.extend_from_slice(code);
    bytes.extend_from_slice(b"K\0K\x01\x87R(K\x03U\x01");
    bytes.push(order);
    bytes.extend_from_slice(b"NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\0tb");
    bytes.push(if fortran { 0x88 } else { 0x89 });
    bytes.push(b'T');
    bytes.extend_from_slice(&(content.len() as u32).to_le_bytes());
    bytes.extend_from_slice(content);
    bytes.extend_from_slice(b"tb");
    bytes
}

fn integers(values: &[i32]) -> Vec<u8> {
    let content: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
    array(&[values.len() as u8], b"i4", b'<', false, &content)
}

fn csr(rows: u8, cols: u8, indptr: &[i32], indices: &[i32], data: &[f32]) -> Vec<u8> {
    let content: Vec<u8> = data.iter().flat_map(|value| value.to_le_bytes()).collect();
    let mut bytes = b"\x80\x02cscipy.sparse.csr\ncsr_matrix\nq\x01)\x81q\x02}q\x03(U\x06_shapeK".to_vec();
    bytes.extend_from_slice(&[rows, b'K', cols, 0x86]);
    bytes.extend_from_slice(b"U\x06indptr");
    bytes.extend(integers(indptr));
    bytes.extend_from_slice(b"U\x07indices");
    bytes.extend(integers(indices));
    bytes.extend_from_slice(b"U\x08maxprintK2U\x04data");
    bytes.extend(array(&[data.len() as u8], b"f4", b'<', false, &content));
    bytes.extend_from_slice(b"ub.");
    bytes
}

fn graph() -> Vec<u8> {
    b"\x80\x02ccollections\ndefaultdict\nq\x01c__builtin__\nlist\nq\x02\x85Rq\x03(K\0]q\x04(K\x01M\0\x01eK\x01]q\x05K\0au."
        .to_vec()
}

fn stop(mut bytes: Vec<u8>) -> Vec<u8> {
    bytes.push(b'.');
    bytes
}

fn refusal(bytes: &[u8]) -> PickleError {
    read(bytes).expect_err("must be refused")
}

#[track_caller]
fn assert_refused(bytes: &[u8], reason: &str) {
    let error = refusal(bytes);
    assert!(error.message.contains(reason), "{error}");
}

#[test]
fn plain_values_of_every_protocol() {
    let expected = Value::List(vec![
        Value::None,
        Value::Bool(true),
        Value::Int(-2),
        Value::Int(1 << 40),
        Value::Float(1.5),
        Value::Text("é\n".into()),
        Value::Tuple(vec![Value::Int(7)]),
    ]);
    let protocol_0 = b"(lp0\nNaI01\naI-2\naL1099511627776L\naF1.5\naV\xe9\\u000a\np1\na(I7\ntp2\na.";
    let protocol_2 = b"\x80\x02]q\0(N\x88J\xfe\xff\xff\xff\x8a\x06\0\0\0\0\0\x01G\x3f\xf8\0\0\0\0\0\0\
        X\x03\0\0\0\xc3\xa9\nq\x01K\x07\x85q\x02e.";
    let protocol_4 = b"\x80\x04\x95\x26\0\0\0\0\0\0\0]\x94(N\x88J\xfe\xff\xff\xff\x8a\x06\0\0\0\0\0\x01\
        G\x3f\xf8\0\0\0\0\0\0\x8c\x03\xc3\xa9\n\x94K\x07\x85\x94e.";
    assert_eq!(read(protocol_0), Ok(expected.clone()));
    assert_eq!(read(protocol_2), Ok(expected.clone()));
    assert_eq!(read(protocol_4), Ok(expected));
}

#[test]
fn bytes_in_every_spelling() {
    let expected = Ok(Value::Bytes(b"a'\xff".to_vec()));
    assert_eq!(read(b"S\"a'\\xff\"\n."), expected);
    assert_eq!(read(b"U\x03a'\xff."), expected);
    assert_eq!(read(b"\x80\x03C\x03a'\xff."), expected);
    assert_eq!(read(b"\x80\x04\x8e\x03\0\0\0\0\0\0\0a'\xff."), expected);
    assert_eq!(read(b"\x80\x02c_codecs\nencode\nX\x04\0\0\0a'\xc3\xbfX\x06\0\0\0latin1\x86R."), expected);
    assert_eq!(read(b"\x80\x02c__builtin__\nbytes\n)R."), Ok(Value::Bytes(Vec::new())));
    assert_refused(b"\x80\x02c_codecs\nencode\nX\x01\0\0\0aX\x05\0\0\0utf-8\x86R.", "latin1");
}

#[test]
fn graph_of_lists() {
    let adjacency = |neighbours: &[i64]| Value::List(neighbours.iter().map(|&id| Value::Int(id)).collect());
    let expected = vec![(Value::Int(0), adjacency(&[1, 256])), (Value::Int(1), adjacency(&[0]))];
    assert_eq!(read(&graph()), Ok(Value::Dict(expected)));
}

#[test]
fn a_list_filled_after_it_was_memoised_is_seen_filled() {
    let filled = Value::List(vec![Value::Int(5)]);
    assert_eq!(read(b"(]q\0h\0K\x05at."), Ok(Value::Tuple(vec![filled.clone(), filled])));
}

#[test]
fn arrays_of_either_order_of_items_and_bytes() {
    let row_major = Array { shape: vec![2, 3], data: Numbers::I32(vec![1, 2, 3, 4, 5, 6]) };
    let little: Vec<u8> = [1i32, 2, 3, 4, 5, 6].iter().flat_map(|value| value.to_le_bytes()).collect();
    let fortran: Vec<u8> = [1i32, 4, 2, 5, 3, 6].iter().flat_map(|value| value.to_be_bytes()).collect();
    assert_eq!(read(&stop(array(&[2, 3], b"i4", b'<', false, &little))), Ok(Value::Array(row_major.clone())));
    assert_eq!(read(&stop(array(&[2, 3], b"i4", b'>', true, &fortran))), Ok(Value::Array(row_major)));

    let flags = Array { shape: vec![2], data: Numbers::Bool(vec![true, false]) };
    assert_eq!(read(&stop(array(&[2], b"b1", b'|', false, &[1, 0]))), Ok(Value::Array(flags)));
    let single = Array { shape: vec![], data: Numbers::F64(vec![0.5]) };
    let half = 0.5f64.to_le_bytes();
    assert_eq!(read(&stop(array(&[], b"f8", b'<', true, &half))), Ok(Value::Array(single)));
}

#[test]
fn array_written_by_modern_numpy_in_protocol_4() {
    let data = Numbers::F32(vec![1.0, 2.0, -3.0, 0.5]);
    assert_eq!(read(PROTOCOL_4), Ok(Value::Array(Array { shape: vec![2, 2], data })));
}

#[test]
fn arrays_that_do_not_add_up_are_refused() {
    assert_refused(&stop(array(&[2, 3], b"i4", b'<', false, &[0; 20])), "do not fill");
    // The product of the sides overflows: 255^16 > 2^64.
    assert_refused(&stop(array(&[255; 16], b"u1", b'|', false, &[0; 8])), "do not fill");
    assert_refused(&stop(array(&[1; 65], b"u1", b'|', false, &[0])), "dimensions");
    assert_refused(&stop(array(&[1], b"O8", b'|', false, &[0; 8])), "byte order");
    assert_refused(&stop(array(&[1], b"c8", b'<', false, &[0; 8])), "'c8'");
    assert_refused(&stop(array(&[1], b"i4", b'=', false, &[0; 4])), "byte order");
}

#[test]
fn sparse_matrix() {
    let expected =
        CsrMatrix { rows: 2, cols: 3, indptr: vec![0, 1, 3], indices: vec![2, 0, 1], data: vec![1.0, 0.5, -2.0] };
    assert_eq!(read(&csr(2, 3, &[0, 1, 3], &[2, 0, 1], &[1.0, 0.5, -2.0])), Ok(Value::Csr(expected)));
    assert!(read(&csr(0, 0, &[0], &[], &[])).is_ok());
}

#[test]
fn sparse_matrices_that_do_not_add_up_are_refused() {
    assert_refused(&csr(3, 3, &[0, 1, 3], &[2, 0, 1], &[1.0; 3]), "length");
    assert_refused(&csr(0, 3, &[], &[], &[]), "length");
    assert_refused(&csr(2, 3, &[0, 1, 3], &[2, 0, 1], &[1.0; 2]), "length");
    assert_refused(&csr(2, 3, &[1, 1, 3], &[2, 0, 1], &[1.0; 3]), "indptr");
    assert_refused(&csr(2, 3, &[0, 1, 2], &[2, 0, 1], &[1.0; 3]), "indptr");
    assert_refused(&csr(3, 3, &[0, 3, 1, 3], &[2, 0, 1], &[1.0; 3]), "indptr");
    assert_refused(&csr(2, 3, &[0, 1, 3], &[3, 0, 1], &[1.0; 3]), "column");
    assert_refused(&csr(2, 3, &[0, 1, 3], &[-1, 0, 1], &[1.0; 3]), "column");
}

#[test]
fn a_forbidden_global_is_named() {
    let expected = PickleError { offset: 2, message: "global posix.system is not allowed".into() };
    assert_eq!(refusal(b"\x80\x02cposix\nsystem\nU\x02id\x85R."), expected);
    assert_eq!(expected.to_string(), "pickle, byte 2: global posix.system is not allowed");
    let stacked = refusal(b"\x80\x04\x8c\x05posix\x94\x8c\x06system\x94\x93.");
    assert_eq!(stacked, PickleError { offset: 19, ..expected });
    let long = [&b"c"[..], &[b'm'; 10_000], b"\nname\n."].concat();
    assert!(refusal(&long).message.len() < 200);
}

#[test]
fn misuse_of_what_is_allowed_is_refused() {
    assert_refused(b"c__builtin__\nlist\n.", "bare List");
    assert_refused(b"c__builtin__\nlist\n)R.", "not called like this");
    assert_refused(b"ccollections\ndefaultdict\ncnumpy\ndtype\n\x85R.", "not called like this");
    assert_refused(b"cscipy.sparse.csr\ncsr_matrix\n)\x81.", "no state");
    assert_refused(b"]}b.", "takes none");
    assert_refused(b"(i.", "opcode 0x69 ('i')");
    assert_refused(b"\x80\x05N.", "protocol 5");
    assert_refused(b"N.N", "follow the end");
    assert_refused(b"NN.", "exactly one");
    assert_refused(b"(N.", "exactly one");
    assert_refused(b"h\x07.", "memo 7");
    assert_refused(b"\x8a\x09\0\0\0\0\0\0\0\0\x01.", "64 bits");
    assert_refused(b"T\xff\xff\xff\xffabc", "announced");
    assert_refused(b"}(K\x01NK\x01Nu.", "same key twice");
    assert_refused(b"}()Nu.", "dict key");
    assert_refused(b"}(Nu.", "no value");
    // A pop must not reach below the mark.
    assert_refused(b"]N(\x86.", "stack");
}

#[test]
fn every_truncation_is_refused() {
    for whole in [graph(), csr(1, 2, &[0, 1], &[1], &[1.0]), PROTOCOL_4.to_vec()] {
        assert!(read(&whole).is_ok());
        for length in 0..whole.len() {
            assert!(read(&whole[..length]).is_err(), "{length} bytes");
        }
    }
}

#[test]
fn random_changes_never_panic() {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut random = |bound: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 16) as usize % bound
    };
    // Opcodes and digits of the originals are likelier to get far than arbitrary bytes.
    for original in [graph(), csr(2, 3, &[0, 1, 3], &[2, 0, 1], &[1.0; 3]), PROTOCOL_4.to_vec()] {
        for _ in 0..20_000 {
            let mut bytes = original.clone();
            for _ in 0..=random(3) {
                let at = random(bytes.len());
                match random(4) {
                    0 => bytes[at] = random(256) as u8,
                    1 => bytes[at] = original[random(original.len())],
                    2 => bytes.insert(at, original[random(original.len())]),
                    _ => drop(bytes.remove(at)),
                }
            }
            // Either answer is fine; only a panic, or a refusal that points outside, is not.
            if let Err(error) = read(&bytes) {
                assert!(error.offset <= bytes.len());
            }
        }
    }
}

#[test]
fn billion_laughs_are_refused() {
    let bomb = |head: Vec<u8>, charge: &[u8], times| [head, charge.repeat(times), b"t.".to_vec()].concat();
    // In depth: each tuple holds the one before it eight times, 8^40 values from 800 bytes.
    let tuples = bomb(b"(Nq\0".to_vec(), b"(h\0h\0h\0h\0h\0h\0h\0h\0tq\0", 40);
    // In width: something large, a thousand times.
    let text = [&b"(X\x10\x27\0\0"[..], &[b'a'; 10_000], b"q\0"].concat();
    let encoded = [&b"(c_codecs\nencode\nq\x01X\x10\x27\0\0"[..], &[b'a'; 10_000], b"U\x06latin1\x86q\0R"].concat();
    let bytes = [b"(".to_vec(), array(&[250], b"u1", b'|', false, &[0; 250]), b"q\0".to_vec()].concat();
    for bytes in [tuples, bomb(text, b"h\0", 1000), bomb(encoded, b"h\x01h\0R", 1000), bomb(bytes, b"h\0", 1000)] {
        assert_refused(&bytes, "expand");
    }
}

#[test]
fn cycles_and_deep_nesting_are_refused() {
    assert_refused(b"]q\0h\0a.", "contains itself");
    assert_refused(b"}q\0K\x01h\0s.", "contains itself");
    assert_refused(b"]q\0h\0\x85a.", "contains itself");
    let deep = [vec![b']'; 100_000], vec![b'a'; 99_999]].concat();
    assert_refused(&stop(deep), "nested deeper");
}

#[test]
fn numbers_convert() {
    assert_eq!(Numbers::I64(vec![-1, 3]).to_f32(), [-1.0, 3.0]);
    assert_eq!(Numbers::Bool(vec![true, false]).to_f32(), [1.0, 0.0]);
    assert_eq!(Numbers::F64(vec![-(2f64.powi(63)), 3.0]).to_i64(), Some(vec![i64::MIN, 3]));
    assert_eq!(Numbers::F64(vec![2f64.powi(63)]).to_i64(), None);
    assert_eq!(Numbers::F32(vec![0.5]).to_i64(), None);
    assert_eq!(Numbers::F32(vec![f32::NAN]).to_i64(), None);
}

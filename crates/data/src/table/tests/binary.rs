//! numpy, Parquet and gzip files.

use super::*;
use crate::table::Scoring;
use ::parquet::basic::Compression;
use ::parquet::data_type::{BoolType, ByteArray, ByteArrayType, DoubleType, Int32Type, Int64Type};
use ::parquet::file::properties::WriterProperties;
use ::parquet::file::writer::SerializedFileWriter;
use ::parquet::schema::parser::parse_message_type;
use harmonia_graph::dataset::{ColumnKind, Level, Schema, TableColumn};
use harmonia_graph::npy::{Element, header};
use std::io::Write;
use std::sync::Arc;

pub(super) fn npy_file(element: Element, shape: &[usize], values: &[i64]) -> Vec<u8> {
    let mut bytes = header(element, shape);
    for &value in values {
        match element {
            Element::F32 => bytes.extend((value as f32).to_le_bytes()),
            Element::Bool => bytes.push(value as u8),
            _ => bytes.extend(value.to_le_bytes()),
        }
    }
    bytes
}

pub(super) fn npz_file(members: &[(&str, Vec<u8>)]) -> Vec<u8> {
    let mut writer = zip::ZipWriter::new(std::io::Cursor::new(Vec::new()));
    for (name, bytes) in members {
        let options = zip::write::SimpleFileOptions::default().compression_method(zip::CompressionMethod::Deflated);
        writer.start_file(format!("{name}.npy"), options).unwrap();
        writer.write_all(bytes).unwrap();
    }
    writer.finish().unwrap().into_inner()
}

/// [[0, 2, 0], [1, 0, 0], [0, 0, 3]] as scipy saves it.
pub(super) fn csr_members() -> Vec<(&'static str, Vec<u8>)> {
    let format = b"\x93NUMPY\x01\x00\x46\x00{'descr': '|S3', 'fortran_order': False, 'shape': (), }              \ncsr";
    vec![
        ("indices", npy_file(Element::I64, &[3], &[1, 0, 2])),
        ("indptr", npy_file(Element::I64, &[4], &[0, 1, 2, 3])),
        ("format", format.to_vec()),
        ("shape", npy_file(Element::I64, &[2], &[3, 3])),
        ("data", npy_file(Element::F32, &[3], &[2, 1, 3])),
    ]
}

fn read(files: &[(&str, &[u8])]) -> harmonia_graph::Result<Dataset> {
    load("own", &options(&directory(files)))
}

fn message(files: &[(&str, &[u8])]) -> String {
    read(files).unwrap_err().to_string()
}

const LABELS: (&str, &[u8]) = ("labels.csv", b"0\n1\n0\n");

#[test]
fn arrays_of_numpy() {
    let features = npy_file(Element::F32, &[3, 2], &[1, 2, 3, 4, 5, 6]);
    let edges = npy_file(Element::I64, &[2, 3], &[0, 1, 2, 1, 2, 0]);
    let mask = npy_file(Element::Bool, &[3], &[1, 0, 1]);
    let labels = npy_file(Element::I64, &[3], &[1, 0, -1]);
    let train = npy_file(Element::I64, &[1], &[1]);
    let dataset = read(&[
        ("features.npy", &features),
        ("edges.npy", &edges),
        ("labels.npy", &labels),
        ("train.npy", &train),
        ("test.npy", &npy_file(Element::Bool, &[3], &[1, 0, 0])),
    ])
    .unwrap();
    assert_eq!((dataset.features.rows, dataset.features.cols, dataset.features.dense()[5]), (3, 2, 6.0));
    assert_eq!((dataset.labels.clone(), &dataset.split), (classes(&[1, 0, UNLABELLED], 2), &split(&[1], &[], &[0])));
    assert_eq!((dataset.graph.directed_edges(), &dataset.feature_names[0][..]), (6, "feature 0"));

    let bits = npy_file(Element::I64, &[3, 2], &[1, 1, 0, 1, 0, 0]);
    let nodes = npz_file(&[("x", features.clone()), ("y", bits), ("train_mask", mask)]);
    let weighted = npz_file(&[
        ("edges", npy_file(Element::I64, &[3, 2], &[0, 1, 1, 2, 2, 0])),
        ("weights", npy_file(Element::F32, &[3], &[4, 5, 6])),
    ]);
    let dataset = read(&[("nodes.npz", &nodes), ("edges.npz", &weighted)]).unwrap();
    assert_eq!(dataset.labels, Labels::Multi { bits: vec![1, 1, 0, 1, 0, 0], width: 2 });
    assert_eq!((&dataset.split.train[..], neighbours(&dataset, 0)), (&[0, 2][..], vec![(1, 4.0), (2, 6.0)]));
}

#[test]
fn sparse_matrices_of_scipy() {
    let matrix = npz_file(&csr_members());
    let dataset = read(&[("features.npz", &matrix), LABELS, ("edges.csv", b"0,1\n1,2\n")]).unwrap();
    assert_eq!(*dataset.features.dense(), [0.0, 2.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0, 3.0]);
    // The same matrix as edges: (0, 1) and (1, 0) add up where the graph is undirected.
    let mut options = options(&directory(&[]));
    let root = directory(&[("edges.npz", &matrix), ("features.csv", b"1\n2\n3\n"), LABELS]);
    options.directory = root.path().to_path_buf();
    let undirected = load("own", &options).unwrap();
    assert_eq!((neighbours(&undirected, 0), neighbours(&undirected, 2)), (vec![(1, 3.0)], vec![(2, 3.0)]));
    options.directed = true;
    assert_eq!(neighbours(&load("own", &options).unwrap(), 0), [(1, 2.0)]);

    let mut members = csr_members();
    members[3].1 = npy_file(Element::I64, &[2], &[3, 1 << 31]);
    let refused = message(&[("features.npz", &npz_file(&members)), LABELS, ("edges.csv", b"0,1\n")]);
    assert!(refused.contains("1 to 1048576 features, found 2147483648"), "{refused}");
    let mut members = csr_members();
    members[1].1 = npy_file(Element::I64, &[4], &[0, 2, 1, 3]);
    let refused = message(&[("features.npz", &npz_file(&members)), LABELS, ("edges.csv", b"0,1\n")]);
    assert!(refused.contains("expected indptr to rise over 3 rows"), "{refused}");
    let mut members = csr_members();
    let at = members[2].1.len() - 1;
    members[2].1[at] = b'c';
    let refused = message(&[("features.npz", &npz_file(&members)), LABELS, ("edges.csv", b"0,1\n")]);
    assert!(refused.contains("expected layout csr, found `csc`; save matrix.tocsr()"), "{refused}");
}

#[test]
fn bad_arrays_are_named_by_file_row_and_reason() {
    let features = ("features.csv", &b"1\n2\n3\n"[..]);
    let edges = |bytes: &[u8]| message(&[features, LABELS, ("edges.npy", bytes)]);
    let refusal = edges(&npy_file(Element::I64, &[3, 2], &[0, 1, 1, 9, 2, -1]));
    assert!(refusal.contains("edges.npy: row 1: edge expected a node id from 0 to 2"), "{refusal}");
    assert!(
        refusal.ends_with("found `9` (and 1 more bad row) (to leave such rows out, set drop_bad_rows = true)"),
        "{refusal}"
    );
    assert!(edges(&npy_file(Element::I64, &[2, 2], &[0, 1, 1, 2])).contains("2 x 2"));
    assert!(edges(&npy_file(Element::F32, &[1, 2], &[0, 1])).contains("expected integer ids, found F32"));
    let archive = npz_file(&[("edge", npy_file(Element::I64, &[1, 2], &[0, 1]))]);
    let refusal = message(&[features, LABELS, ("edges.npz", &archive)]);
    assert!(refusal.contains("edges.npz: array `edge`") && refusal.contains("did you mean `edges`?"), "{refusal}");

    let mut infinite = npy_file(Element::F32, &[3, 2], &[1, 2, 3, 4, 5, 6]);
    let end = infinite.len();
    infinite[end - 4..].copy_from_slice(&f32::INFINITY.to_le_bytes());
    let refusal = message(&[("features.npy", &infinite), LABELS, ("edges.csv", b"0,1\n")]);
    assert!(refusal.contains("features.npy: row 2: column 1: expected a finite 32-bit number, found inf"), "{refusal}");
    // What is not a number is a gap.
    let mut gaps = infinite;
    gaps[end - 4..].copy_from_slice(&f32::NAN.to_le_bytes());
    let dataset = read(&[("features.npy", &gaps), LABELS, ("edges.csv", b"0,1\n")]).unwrap();
    assert_eq!(dataset.feature_names, ["feature 0", "feature 1", "feature 1 is missing"]);
    assert_eq!(*dataset.features.dense(), [1.0, 2.0, 0.0, 3.0, 4.0, 0.0, 5.0, 2.0, 1.0]);
    let signs = npy_file(Element::I64, &[3], &[1, -1, 1]);
    let refusal = message(&[features, ("labels.npy", &signs), ("edges.csv", b"0,1\n")]);
    assert!(refusal.contains("labels.npy: labels of -1 mean \"no label\""), "{refusal}");
}

#[test]
fn gzip_is_unpacked_and_bounded() {
    let pack = |bytes: &[u8]| {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    };
    // Two members in one file, as `cat a.gz b.gz` makes.
    let packed = [pack(b"source,target\n0,1\n"), pack(b"1,2\n")].concat();
    let nodes = ("nodes.csv", NODES.1.as_bytes());
    assert_eq!(read(&[nodes, ("edges.csv.gz", &packed)]).unwrap().graph.directed_edges(), 4);
    let cut = &packed[..packed.len() - 6];
    assert!(message(&[nodes, ("edges.csv.gz", cut)]).contains("edges.csv.gz: expected gzip, found damage"));
    assert!(message(&[nodes, ("edges.csv.gz", b"0,1\n")]).contains("expected gzip"));
}

/// Three nodes: optional integers, floats, yes/no, words and labels, in two row groups.
pub(super) fn parquet_file() -> Vec<u8> {
    parquet_of(Compression::SNAPPY, &[0, 1, 2])
}

fn parquet_of(compression: Compression, labels: &[i64]) -> Vec<u8> {
    let schema = "message nodes { required int32 age; optional double size; required boolean ok;
                  required binary kind (STRING); optional int64 label; }";
    let properties = WriterProperties::builder().set_compression(compression).build();
    let schema = Arc::new(parse_message_type(schema).unwrap());
    let mut writer = SerializedFileWriter::new(Vec::new(), schema, Arc::new(properties)).unwrap();
    for rows in [0..2, 2..3] {
        let mut group = writer.next_row_group().unwrap();
        for at in 0..5 {
            let mut column = group.next_column().unwrap().unwrap();
            let levels = vec![1i16; rows.len()];
            let words = ["b", "a", "b"].map(ByteArray::from);
            match at {
                0 => column.typed::<Int32Type>().write_batch(&[7, -8, 9][rows.clone()], None, None),
                1 => column.typed::<DoubleType>().write_batch(&[0.5, 1.5, 2.5][rows.clone()], Some(&levels), None),
                2 => column.typed::<BoolType>().write_batch(&[true, false, true][rows.clone()], None, None),
                3 => column.typed::<ByteArrayType>().write_batch(&words[rows.clone()], None, None),
                _ => {
                    let there: Vec<i64> = labels[rows.clone()].iter().copied().filter(|&label| label >= 0).collect();
                    let levels: Vec<i16> = labels[rows.clone()].iter().map(|&label| i16::from(label >= 0)).collect();
                    column.typed::<Int64Type>().write_batch(&there, Some(&levels), None)
                }
            }
            .unwrap();
            column.close().unwrap();
        }
        group.close().unwrap();
    }
    writer.into_inner().unwrap()
}

#[test]
fn parquet_in_every_codec() {
    use ::parquet::basic::{GzipLevel, ZstdLevel};
    let codecs = [
        Compression::UNCOMPRESSED,
        Compression::SNAPPY,
        Compression::GZIP(GzipLevel::default()),
        Compression::ZSTD(ZstdLevel::default()),
        Compression::LZ4_RAW,
    ];
    for codec in codecs {
        let nodes = parquet_of(codec, &[1, -1, 0]);
        let dataset = read(&[("nodes.parquet", &nodes), ("edges.csv", b"0,1\n1,2\n")]).unwrap();
        assert_eq!(dataset.feature_names, ["age", "size", "ok", "kind=a", "kind=b"]);
        assert_eq!(
            *dataset.features.dense(),
            [7.0, 0.5, 1.0, 0.0, 1.0, -8.0, 1.5, 0.0, 1.0, 0.0, 9.0, 2.5, 1.0, 0.0, 1.0]
        );
        assert_eq!(dataset.labels, classes(&[1, UNLABELLED, 0], 2));
    }
}

fn parquet_edges(schema: &str, values: &[i64]) -> Vec<u8> {
    let schema = Arc::new(parse_message_type(schema).unwrap());
    let mut writer = SerializedFileWriter::new(Vec::new(), schema, Default::default()).unwrap();
    let mut group = writer.next_row_group().unwrap();
    while let Some(mut column) = group.next_column().unwrap() {
        let levels = vec![1i16; values.len()];
        let repeats = vec![0i16; values.len()];
        column.typed::<Int64Type>().write_batch(values, Some(&levels), Some(&repeats)).unwrap();
        column.close().unwrap();
    }
    group.close().unwrap();
    writer.into_inner().unwrap()
}

#[test]
fn parquet_faults_are_named_by_file_row_and_reason() {
    let nodes = ("nodes.csv", NODES.1.as_bytes());
    let edges = |schema: &str, values: &[i64]| message(&[nodes, ("edges.parquet", &parquet_edges(schema, values))]);
    let refusal = edges("message e { required int64 src; required int64 dst; }", &[0, 1, 5]);
    assert!(refusal.contains("edges.parquet: row 2: edge expected a node id from 0 to 2"), "{refusal}");
    let refusal = edges("message e { repeated int64 source; required int64 target; }", &[0]);
    assert!(refusal.contains("column `source`: expected a flat column, found a nested one"), "{refusal}");
    let refusal = edges("message e { required int64 source (TIMESTAMP_MILLIS); required int64 target; }", &[0]);
    assert!(
        refusal.contains("edges.parquet: column `source`: expected integers, floats, yes/no or text, found"),
        "{refusal}"
    );
    assert!(refusal.contains("TIMESTAMP"), "{refusal}");
    assert!(
        message(&[nodes, ("edges.parquet", b"PAR1 nothing PAR1")]).contains("edges.parquet: expected a Parquet table")
    );
}

/// What a model with these columns says of files.
fn scored(columns: &[(&str, ColumnKind)], files: &[(&str, &[u8])]) -> harmonia_graph::Result<Dataset> {
    let column = |&(name, kind): &(&str, ColumnKind)| {
        let worded = matches!(kind, ColumnKind::Category | ColumnKind::Ordered);
        let values = if worded { vec!["a".to_string(), "b".to_string()] } else { Vec::new() };
        TableColumn { kind, values, ..TableColumn::number(name) }
    };
    let schema = Schema { columns: columns.iter().map(column).collect() };
    let class_names = vec!["no".into(), "yes".into()];
    let model = Some(Scoring { schema: schema.into(), level: Level::Node, class_names });
    load("new", &Options { model, ..options(&directory(files)) })
}

#[test]
fn a_column_of_another_type_than_the_model_knows_is_refused_in_parquet_and_arrays() {
    use ColumnKind::{Boolean, Category, Date, Number, Ordered};
    let (nodes, edges) = (parquet_of(Compression::SNAPPY, &[-1, -1, -1]), ("edges.csv", &b"0,1\n"[..]));
    let files = [("nodes.parquet", &nodes[..]), edges];
    let known = [("age", Number), ("size", Number), ("ok", Boolean), ("kind", Category)];
    assert_eq!(scored(&known, &files).unwrap().features.dense()[..5], [7.0, 0.5, 1.0, 0.0, 1.0]);
    // All of them at once.
    let message = scored(&[("age", Date), ("size", Boolean), ("ok", Date), ("kind", Number)], &files).unwrap_err();
    let message = message.to_string();
    for part in [
        "column `age`: row 0: expected a date such as 2026-11-18, found `7`",
        "column `size`: row 0: expected true or false, or 1 or 0, found 0.5 (and 2 more cells)",
        "column `ok`: row 0: expected a date such as 2026-11-18, found `1`",
        "column `kind`: row 0: expected a number, found `b`",
    ] {
        assert!(message.contains(part), "no {part:?} in {message}");
    }
    let days = parquet_edges("message n { required int64 day (TIMESTAMP_MILLIS); }", &[86_400_000, 0]);
    let files = [("nodes.parquet", &days[..]), edges];
    assert_eq!(*scored(&[("day", Date)], &files).unwrap().features.dense(), [1.0, 0.0]);
    for (kind, expected) in [(Number, "a number"), (Boolean, "a number"), (Category, "a word"), (Ordered, "a word")] {
        let message = scored(&[("day", kind)], &files).unwrap_err().to_string();
        assert!(message.contains(&format!("column `day`: row 0: expected {expected}, found a date")), "{message}");
    }
    // Numbers of an array are no places among the values of a category.
    let array = npy_file(Element::F32, &[2, 1], &[1, 0]);
    let files = [("features.npy", &array[..]), ("feature_names.txt", &b"kind\n"[..]), edges];
    let message = scored(&[("kind", Category)], &files).unwrap_err().to_string();
    assert!(message.contains("expected words in `kind`, found an array of numbers"), "{message}");
}

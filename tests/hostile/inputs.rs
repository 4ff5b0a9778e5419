//! Small sound inputs of every format, made here, and the containers they come in.

use flate2::Compression;
use flate2::write::GzEncoder;
use harmonia::dataset::{Dataset, Features, Labels, Level, NodeOrder};
use harmonia::graph::{Direction, Graph, Split};
use harmonia::npy::{self, Element};
use std::io::{Cursor, Write};
use std::path::Path;
use std::sync::LazyLock;
use zip::write::SimpleFileOptions;

/// Names, with `/` between folders, and contents.
pub type Tree = Vec<(String, Vec<u8>)>;

fn tree(files: &[(&str, &str)]) -> Tree {
    files.iter().map(|&(name, text)| (name.to_string(), text.as_bytes().to_vec())).collect()
}

/// Texts of an OGB archive, not yet compressed.
pub fn ogb() -> Tree {
    tree(&[
        ("tiny/raw/edge.csv.gz", "0,1\n1,2\n2,3\n3,4\n4,5\n5,0\n"),
        ("tiny/raw/node-feat.csv.gz", "0.5,-1\n1,2\n-0.25,3e-2\n4,4\n5,0\n0,6\n"),
        ("tiny/raw/node-label.csv.gz", "0\n1\n2\nnan\n1\n0\n"),
        ("tiny/raw/num-node-list.csv.gz", "6\n"),
        ("tiny/raw/num-edge-list.csv.gz", "6\n"),
        ("tiny/split/time/train.csv.gz", "0\n1\n"),
        ("tiny/split/time/valid.csv.gz", "2\n4\n"),
        ("tiny/split/time/test.csv.gz", "5\n"),
        ("tiny/mapping/labelidx2class.csv.gz", "label idx,class\n0,maths\n1,\"physics, old\"\n2,art\n"),
    ])
}

/// A TUDataset of three graphs; AIDS is read by rules of its own.
pub fn tudataset(name: &str) -> Tree {
    let parts = [
        ("A", "1, 2\n2, 1\n2, 3\n3, 2\n4, 5\n5, 4\n"),
        ("graph_indicator", "1\n1\n1\n2\n2\n3\n"),
        ("graph_labels", "1\n-1\n1\n"),
        ("node_labels", "0\n2\n1\n0\n0\n0\n"),
        ("node_attributes", "0.5, 1\n-1e-3, 2\n3, 4\n5, 6\n7, 8\n9, 10\n"),
    ];
    parts.iter().map(|(part, text)| (format!("{name}/{name}_{part}.txt"), text.as_bytes().to_vec())).collect()
}

/// A table of molecules.
pub fn smiles() -> Vec<u8> {
    b"Drug_ID,Drug,Y\n1,CC(=O)Oc1ccccc1C(=O)O,0\n2,\"C[N+](C)(C)CCO\",1\n3,[13CH4],1\n4,F/C=C\\F,0\n5,N[C@@H](C)C(=O)O,1\n\
      6,C1CC2CC1CC2,0\n7,[Na+].[Cl-],1\n8,c1cc2c(cc1)[nH]c1ccccc12,nan\n"
        .to_vec()
}

/// A user's tables.
pub fn tables() -> Tree {
    tree(&[
        ("edges.csv", "source,target,weight\na,b,1\nb,c,0.5\nc,d,2\n"),
        (
            "nodes.csv",
            "id,size,colour,label,split\na,1,red,yes,train\nb,2,\"blue, dark\",no,valid\nc,-3,red,yes,test\nd,4,red,,\n",
        ),
    ])
}

/// The same as Parquet and numpy arrays.
pub fn packed_tables() -> Tree {
    let ids = floats(&[4, 2], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0]);
    vec![
        ("edges.parquet".into(), parquet(&[("source", &[0, 1, 2]), ("target", &[1, 2, 3])])),
        ("features.npy".into(), ids),
        ("labels.parquet".into(), parquet(&[("label", &[0, 1, 0, 1])])),
    ]
}

fn parquet(columns: &[(&str, &[i64])]) -> Vec<u8> {
    use parquet::data_type::Int64Type;
    use parquet::file::writer::SerializedFileWriter;
    let fields: String = columns.iter().map(|(name, _)| format!("required int64 {name};")).collect();
    let schema = parquet::schema::parser::parse_message_type(&format!("message table {{ {fields} }}")).unwrap();
    let mut bytes = Vec::new();
    let mut writer = SerializedFileWriter::new(&mut bytes, schema.into(), Default::default()).unwrap();
    let mut group = writer.next_row_group().unwrap();
    for (_, values) in columns {
        let mut column = group.next_column().unwrap().unwrap();
        column.typed::<Int64Type>().write_batch(values, None, None).unwrap();
        column.close().unwrap();
    }
    group.close().unwrap();
    writer.close().unwrap();
    bytes
}

/// The files of IGB.
pub fn igb() -> Tree {
    vec![
        (
            "igb/processed/paper/node_feat.npy".into(),
            floats(&[5, 2], &[0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0]),
        ),
        ("igb/processed/paper/node_label_19.npy".into(), floats(&[5], &[0.0, 1.0, 2.0, 1.0, 0.0])),
        ("igb/processed/paper__cites__paper/edge_index.npy".into(), integers(&[4, 2], &[0, 1, 1, 2, 2, 3, 3, 4])),
    ]
}

/// The arrays of a heterophilous graph, as they lie in its .npz.
pub fn arrays() -> Tree {
    let mask = |values: &[u8]| [npy::header(Element::Bool, &[2, 4]), values.to_vec()].concat();
    vec![
        ("edges.npy".into(), integers(&[3, 2], &[0, 1, 1, 2, 2, 3])),
        ("node_features.npy".into(), floats(&[4, 2], &[0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0])),
        ("node_labels.npy".into(), integers(&[4], &[0, 1, 1, 0])),
        ("test_masks.npy".into(), mask(&[0, 0, 1, 0, 0, 0, 0, 1])),
        ("train_masks.npy".into(), mask(&[1, 1, 0, 0, 1, 0, 1, 0])),
        ("val_masks.npy".into(), mask(&[0, 0, 0, 1, 0, 1, 0, 0])),
    ]
}

pub fn floats(shape: &[usize], values: &[f32]) -> Vec<u8> {
    [npy::header(Element::F32, shape), values.iter().flat_map(|value| value.to_le_bytes()).collect()].concat()
}

pub fn integers(shape: &[usize], values: &[i64]) -> Vec<u8> {
    [npy::header(Element::I64, shape), values.iter().flat_map(|value| value.to_le_bytes()).collect()].concat()
}

/// Pickles of the kinds that Planetoid has: an array, a sparse matrix, a graph.
pub fn pickles() -> [Vec<u8>; 3] {
    let array = |side: u8, code: &str, content: &[u8]| {
        let start: &[u8] = b"cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\0\x85U\x01b\x87R(K\x01(K";
        let kind: &[u8] = b"K\0K\x01\x87R(K\x03U\x01<NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\0tb\x89U";
        let length = [content.len() as u8];
        [start, &[side], b"tcnumpy\ndtype\nU\x02", code.as_bytes(), kind, &length, content, b"tb"].concat()
    };
    let ints = |values: &[i32]| {
        array(values.len() as u8, "i4", &values.iter().flat_map(|value| value.to_le_bytes()).collect::<Vec<u8>>())
    };
    let values = array(3, "f4", &[0, 0, 128, 63, 0, 0, 0, 64, 0, 0, 64, 64]);
    let csr = [
        &b"\x80\x02cscipy.sparse.csr\ncsr_matrix\nq\x01)\x81q\x02}q\x03(U\x06_shapeK\x02K\x04\x86U\x06indptr"[..],
        &ints(&[0, 1, 3]),
        b"U\x07indices",
        &ints(&[3, 0, 2]),
        b"U\x04data",
        &values,
        b"ub.",
    ];
    let graph = b"\x80\x02ccollections\ndefaultdict\nq\x01c__builtin__\nlist\nq\x02\x85Rq\x03(K\0]q\x04(K\x01M\0\x01e\
                  K\x01]q\x05K\0au.";
    [[&values[..], b"."].concat(), csr.concat(), graph.to_vec()]
}

/// The files of a store. 0: one weighted graph with several splits and names; 1: graphs with sparse features;
/// 2: nodes with one split and features in half precision.
pub fn store(kind: usize) -> Tree {
    // Written once: a store is synchronised to disk, which takes longer than any test of it.
    static STORES: LazyLock<[Tree; 3]> = LazyLock::new(|| [0, 1, 2].map(written));
    STORES[kind].clone()
}

fn written(kind: usize) -> Tree {
    let scratch = super::verdict::Scratch::new();
    let path = scratch.path("store");
    harmonia::store::write(&dataset(kind), &path).unwrap();
    let mut files: Tree = (std::fs::read_dir(&path).unwrap())
        .map(|entry| entry.unwrap())
        .map(|entry| (entry.file_name().into_string().unwrap(), std::fs::read(entry.path()).unwrap()))
        .collect();
    files.sort();
    files
}

fn dataset(kind: usize) -> Dataset {
    let graph = |weights: Option<&[f32]>| {
        Graph::from_edges(5, &[(0, 1), (1, 2), (3, 4)], weights, Direction::Undirected).unwrap()
    };
    let features = Features::new(5, 2, (0..10).map(|value| value as f32 / 4.0).collect()).unwrap();
    let labels = Labels::Classes { ids: vec![0, 1, 2, 0, 1], classes: 3 };
    let split = |train: &[u32], valid: &[u32]| Split { train: train.into(), valid: valid.into(), test: vec![4] };
    match kind {
        0 => {
            let graph = graph(Some(&[0.5, 2.0, 1.0]));
            let mut dataset = Dataset::nodes("splits", graph, features, labels, Split::default()).unwrap();
            dataset.own_splits = vec![split(&[0, 1], &[2]), split(&[3], &[])];
            dataset.feature_names = vec!["size".into(), "age".into()];
            dataset.node_names = ["a", "b", "c", "d", "e"].map(String::from).to_vec();
            dataset.node_order = Some(NodeOrder { method: "degree".into(), original: vec![3, 0, 4, 1, 2].into() });
            dataset
        }
        1 => {
            let mut values = vec![0.0; 5 * 40];
            (values[3], values[39], values[199]) = (1.5, -2.0, 7.0);
            let features = Features::new(5, 40, values).unwrap().compact();
            let labels = Labels::Multi { bits: vec![1, 0, 1, 1], width: 2 };
            let level = Level::Graph;
            Dataset::new("graphs", graph(None), vec![0, 3, 5], features, labels, level, Split::default()).unwrap()
        }
        _ => {
            let features = features.halved().unwrap();
            Dataset::nodes("nodes", graph(None), features, labels, split(&[0, 1], &[2])).unwrap()
        }
    }
}

/// Writes the files of a tree below `directory`.
pub fn write(directory: &Path, tree: &Tree) {
    for (name, bytes) in tree {
        let path = directory.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, bytes).unwrap();
    }
}

/// The same files, each compressed.
pub fn compressed(mut tree: Tree) -> Tree {
    tree.iter_mut().for_each(|(_, bytes)| *bytes = gzipped(bytes));
    tree
}

pub fn gzipped(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

pub fn zipped(tree: &Tree) -> Vec<u8> {
    let mut zip = zip::ZipWriter::new(Cursor::new(Vec::new()));
    for (name, bytes) in tree {
        zip.start_file(name.as_str(), SimpleFileOptions::default()).unwrap();
        zip.write_all(bytes).unwrap();
    }
    zip.finish().unwrap().into_inner()
}

pub fn tarred(tree: &Tree) -> Vec<u8> {
    let mut tar = tar::Builder::new(Vec::new());
    for (name, bytes) in tree {
        add(&mut tar, name, tar::EntryType::Regular, bytes);
    }
    tar.into_inner().unwrap()
}

/// Adds a member under a name that a careful writer would refuse.
pub fn add(tar: &mut tar::Builder<Vec<u8>>, name: &str, kind: tar::EntryType, bytes: &[u8]) {
    let mut header = tar::Header::new_ustar();
    header.as_mut_bytes()[..name.len()].copy_from_slice(name.as_bytes());
    header.set_entry_type(kind);
    header.set_mode(0o644);
    header.set_size(bytes.len() as u64);
    header.set_cksum();
    tar.append(&header, bytes).unwrap();
}

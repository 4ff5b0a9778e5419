//! The heterophilous graphs of Platonov et al. (Tolokers and its siblings): one `<name>.npz` a dataset.
//!
//! Arrays: node_features (n x d), node_labels (n), edges (E x 2) (one row per undirected edge), and train_masks,
//! val_masks, test_masks (splits x n). All splits are kept; the first one is in use.

use crate::conversion::{self, Common, Converted, only};
use crate::npz::Npz;
use harmonia_graph::dataset::{Dataset, Features, Labels};
use harmonia_graph::error::{Error, Result};
use harmonia_graph::graph::{Direction, EdgeList, Graph, Split};
use harmonia_graph::npy::Npy;
use harmonia_graph::watch::Watch;
use std::path::{Path, PathBuf};

/// Converts an `.npz`, or the only one in a directory, into a store.
///
/// # Errors
/// As [`load`], or the store cannot be written; nothing is left behind.
pub fn convert(input: &Path, target: &Path, common: &Common, watch: &Watch) -> Result<Converted> {
    let dataset = load(&common.name, &only(input, "npz")?)?;
    conversion::write(dataset, target, common, watch)
}

/// Reads `name` from `path`: the .npz itself, its folder, the dataset's folder, or the folder of all datasets.
///
/// # Errors
/// The file is missing or damaged, or its arrays do not fit together.
pub fn load(name: &str, path: &Path) -> Result<Dataset> {
    let npz = Npz::open(&find(name, path)?)?;
    let features = features(&npz)?;
    let nodes = features.rows;
    let labels = labels(&npz, nodes)?;
    let graph = Graph::from_edges(nodes, &edges(&npz, nodes)?, None, Direction::Undirected)?;
    let splits = splits(&npz, nodes)?;
    let first = splits.first().cloned().unwrap_or_default();
    let mut dataset = Dataset::nodes(&name.to_lowercase(), graph, features, labels, first)
        .map_err(|error| Error::file(npz.path(), error.to_string()))?;
    dataset.own_splits = splits;
    Ok(dataset)
}

fn find(name: &str, path: &Path) -> Result<PathBuf> {
    if !path.is_dir() {
        return Ok(path.to_path_buf());
    }
    let lower = name.to_lowercase();
    // "Roman-empire" is kept as roman_empire.npz.
    let file = format!("{}.npz", lower.replace(['-', ' '], "_"));
    let folders = ["", "raw", name, &lower, &format!("{name}/raw"), &format!("{lower}/raw")].map(|f| path.join(f));
    let existing = folders.iter().map(|folder| folder.join(&file)).find(|candidate| candidate.is_file());
    existing.ok_or_else(|| {
        Error::file(path, format!("expected {file} here or in {name}/raw, found none; give its path or directory"))
    })
}

fn features(npz: &Npz) -> Result<Features> {
    let bytes = npz.array("node_features")?;
    let array = Npy::parse(&bytes, &npz.location("node_features"))?;
    let Some((rows, cols)) = array.matrix() else {
        return Err(shape(npz, "node_features", "[nodes, features]", &array));
    };
    Features::new(rows, cols, array.floats())
}

fn labels(npz: &Npz, nodes: usize) -> Result<Labels> {
    let bytes = npz.array("node_labels")?;
    let array = Npy::parse(&bytes, &npz.location("node_labels"))?;
    if array.shape != [nodes] {
        return Err(shape(npz, "node_labels", &format!("[{nodes}], one per node"), &array));
    }
    let ids = integers(npz, "node_labels", &array)?;
    // More classes than nodes are a damaged file, and names are made for each class.
    let outside = |id: &i64| !(0..nodes.max(2) as i64).contains(id);
    if let Some((node, id)) = ids.iter().enumerate().find(|(_, id)| outside(id)) {
        return Err(Error::file(
            &npz.location("node_labels"),
            format!("label of node {node} is {id}: expected classes counted from 0"),
        ));
    }
    let classes = ids.iter().max().map_or(0, |&last| last as usize + 1);
    Ok(Labels::Classes { ids: ids.into_iter().map(|id| id as u32).collect(), classes })
}

fn edges(npz: &Npz, nodes: usize) -> Result<Vec<(u32, u32)>> {
    const PART: usize = 1 << 16;
    let bytes = npz.array("edges")?;
    let array = Npy::parse(&bytes, &npz.location("edges"))?;
    if !matches!(array.matrix(), Some((_, 2))) {
        return Err(shape(npz, "edges", "[edges, 2]", &array));
    }
    integers(npz, "edges", &array.part(0..1))?;
    let mut edges = EdgeList::default();
    // A part at a time: a small archive may repeat an edge without end.
    for first in (0..array.len()).step_by(PART) {
        let ends = integers(npz, "edges", &array.part(first..first + PART))?;
        if let Some(at) = ends.iter().position(|id| !(0..nodes as i64).contains(id)) {
            let id = ends.get(at).copied().unwrap_or_default();
            let message = format!("row {} has node id {id}: there are {nodes} nodes", (first + at) / 2);
            return Err(Error::file(&npz.location("edges"), message));
        }
        ends.as_chunks::<2>().0.iter().for_each(|&[i, j]| edges.push(i as u32, j as u32));
    }
    Ok(edges.into_pairs())
}

fn splits(npz: &Npz, nodes: usize) -> Result<Vec<Split>> {
    let part = |name| masks(npz, name, nodes);
    let (train, valid, test) = (part("train_masks")?, part("val_masks")?, part("test_masks")?);
    if train.len() != valid.len() || train.len() != test.len() {
        let message = format!(
            "expected as many splits in each, found {} train_masks, {} val_masks and {} test_masks",
            train.len(),
            valid.len(),
            test.len()
        );
        return Err(Error::file(npz.path(), message));
    }
    let whole = train.into_iter().zip(valid).zip(test).map(|((train, valid), test)| Split { train, valid, test });
    let checked = |(number, split): (usize, Split)| match split.check(nodes) {
        Ok(()) => Ok(split),
        Err(error) => Err(Error::file(npz.path(), format!("split {number}: {error}"))),
    };
    whole.enumerate().map(checked).collect()
}

/// Node ids of each row of a 0/1 matrix.
fn masks(npz: &Npz, name: &str, nodes: usize) -> Result<Vec<Vec<u32>>> {
    let bytes = npz.array(name)?;
    let array = Npy::parse(&bytes, &npz.location(name))?;
    if !matches!(array.matrix(), Some((_, width)) if width == nodes && width > 0) {
        return Err(shape(npz, name, &format!("[splits, {nodes}]"), &array));
    }
    let values = integers(npz, name, &array)?;
    if let Some(at) = values.iter().position(|&value| value != 0 && value != 1) {
        return Err(Error::file(&npz.location(name), format!("row {}: expected a mask of 0 and 1", at / nodes)));
    }
    let ones = |row: &[i64]| (0..).zip(row).filter(|&(_, &value)| value == 1).map(|(node, _)| node).collect();
    Ok(values.chunks_exact(nodes).map(ones).collect())
}

fn integers(npz: &Npz, name: &str, array: &Npy<'_>) -> Result<Vec<i64>> {
    let no_integers =
        || Error::file(&npz.location(name), format!("expected whole numbers, found {}", array.element.code()));
    array.integers().ok_or_else(no_integers)
}

fn shape(npz: &Npz, name: &str, expected: &str, array: &Npy<'_>) -> Error {
    Error::file(&npz.location(name), format!("expected shape {expected}, found {:?}", array.shape))
}

#[cfg(test)]
mod tests {
    use super::*;
    use harmonia_graph::npy::{Element, header};
    use proptest::prelude::*;
    use std::io::Write;

    type Arrays = Vec<(&'static str, Element, Vec<usize>, Vec<u8>)>;

    fn floats(values: &[f32]) -> Vec<u8> {
        values.iter().flat_map(|value| value.to_le_bytes()).collect()
    }

    fn longs(values: &[i64]) -> Vec<u8> {
        values.iter().flat_map(|value| value.to_le_bytes()).collect()
    }

    /// A path of four nodes, two splits.
    fn small() -> Arrays {
        let b = Element::Bool;
        vec![
            ("node_features", Element::F32, vec![4, 2], floats(&[1., 2., 3., 4., 5., 6., 7., 8.])),
            ("node_labels", Element::I64, vec![4], longs(&[0, 1, 1, 0])),
            ("edges", Element::I64, vec![3, 2], longs(&[0, 1, 1, 2, 2, 3])),
            ("train_masks", b, vec![2, 4], vec![1, 1, 0, 0, 0, 0, 1, 1]),
            ("val_masks", b, vec![2, 4], vec![0, 0, 1, 0, 1, 0, 0, 0]),
            ("test_masks", b, vec![2, 4], vec![0, 0, 0, 1, 0, 1, 0, 0]),
        ]
    }

    fn npz(arrays: &Arrays) -> Vec<u8> {
        let mut writer = zip::ZipWriter::new(std::io::Cursor::new(Vec::new()));
        for (name, element, shape, data) in arrays {
            writer.start_file(format!("{name}.npy"), zip::write::SimpleFileOptions::default()).unwrap();
            writer.write_all(&header(*element, shape)).unwrap();
            writer.write_all(data).unwrap();
        }
        writer.finish().unwrap().into_inner()
    }

    fn read(bytes: &[u8]) -> Result<Dataset> {
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join("small_one.npz"), bytes).unwrap();
        load("Small-one", directory.path())
    }

    #[test]
    fn a_path_of_four_nodes() {
        let dataset = read(&npz(&small())).unwrap();
        assert_eq!((dataset.graph.nodes(), dataset.graph.directed_edges()), (4, 6));
        assert_eq!(*dataset.features.dense(), [1., 2., 3., 4., 5., 6., 7., 8.]);
        assert_eq!(dataset.labels, Labels::Classes { ids: vec![0, 1, 1, 0], classes: 2 });
        assert_eq!(dataset.split, Split { train: vec![0, 1], valid: vec![2], test: vec![3] });
        assert_eq!(dataset.own_splits[1], Split { train: vec![2, 3], valid: vec![0], test: vec![1] });
        assert_eq!(dataset.own_splits.len(), 2);
    }

    #[test]
    fn misfits_name_the_array() {
        type Change = fn(&mut Arrays);
        let cases: [(Change, &str); 10] = [
            (|a| a[1].3 = longs(&[0, 1, -1, 0]), "node_labels.npy: label of node 2 is -1"),
            (|a| a[1].3 = longs(&[0, 1, 1 << 40, 0]), "node_labels.npy: label of node 2 is 1099511627776"),
            (|a| a[2].3 = longs(&[0, 1, 1, 4, 2, 3]), "edges.npy: row 1 has node id 4: there are 4 nodes"),
            (|a| a[2].2 = vec![2, 3], "edges.npy: expected shape [edges, 2], found [2, 3]"),
            (|a| a[3].2 = vec![4, 2], "train_masks.npy: expected shape [splits, 4], found [4, 2]"),
            (|a| a[4].3[2] = 7, "val_masks.npy: row 0: expected a mask of 0 and 1"),
            (|a| a[4].3[0] = 1, "split 0: unit 0 is in the train split and in the validation split"),
            (|a| a[3].3 = vec![1, 1, 0, 0, 0, 0, 0, 0], "split 1: the train split is empty"),
            (|a| a[0].3 = floats(&[1., f32::NAN, 3., 4., 5., 6., 7., 8.]), "feature 1 of node 0 is NaN"),
            (|a| drop(a.remove(2)), "small_one.npz: expected an array `edges`, found node_features, node_labels"),
        ];
        for (change, expected) in cases {
            let mut arrays = small();
            change(&mut arrays);
            let message = read(&npz(&arrays)).unwrap_err().to_string();
            assert!(message.contains(expected), "{message}\nexpected {expected}");
        }
        let text = load("Tolokers", tempfile::tempdir().unwrap().path()).unwrap_err().to_string();
        assert!(text.contains("expected tolokers.npz here"), "{text}");
    }

    #[test]
    fn tolokers_is_as_published() {
        let data = crate::download::test_support::data_folder();
        if !data.join("Tolokers").is_dir() {
            println!("skipped: no Tolokers in {}", data.display());
            return;
        }
        let dataset = load("Tolokers", &data).unwrap();
        assert_eq!((dataset.graph.nodes(), dataset.graph.directed_edges()), (11_758, 1_038_000));
        let Labels::Classes { ids, classes } = &dataset.labels else { panic!("classes") };
        assert_eq!((dataset.features.cols, *classes), (10, 2));
        assert_eq!(ids.iter().filter(|&&id| id == 0).count(), 9192);
        assert_eq!(dataset.own_splits.len(), 10);
        assert_eq!(dataset.split, dataset.own_splits[0]);
        let split = &dataset.split;
        assert_eq!((split.train.len(), split.valid.len(), split.test.len()), (5879, 2939, 2940));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(300))]

        #[test]
        fn damaged_arrays_never_panic(array in 0usize..6, at: u16, byte: u8, side in 0usize..2, length in 0usize..9) {
            let mut arrays = small();
            let (_, _, shape, data) = &mut arrays[array];
            let data_length = data.len();
            data[usize::from(at) % data_length] = byte;
            let sides = shape.len();
            shape[side % sides] = length;
            let _ = read(&npz(&arrays));
            let mut bytes = npz(&small());
            let length = bytes.len();
            bytes[usize::from(at) % length] = byte;
            let _ = read(&bytes);
        }
    }
}

//! Writes the layout of IGB: `processed/paper/node_feat.npy` (n x d, f32), `processed/paper/node_label_19.npy` (n, f32)
//! and `processed/paper__cites__paper/edge_index.npy` (rows x 2, i64).
//!
//! Upstream stores labels as f32 and its loader casts them to integers; so do we. The 19 in the name is that of
//! upstream's task and stays whatever the number of classes. There is no split: the loader takes 60 / 20 / 20 by id.
//! Invariant: the folder `processed` appears when all of it is written.

use super::{Tables, beside, blocks};
use harmonia_graph::error::{Error, Result};
use harmonia_graph::npy::{self, Element};
use harmonia_graph::watch::Watch;
use std::fs::File;
use std::io::Write;
use std::ops::Range;
use std::path::Path;

/// Bytes of a block, about.
const BLOCK_BYTES: usize = 1 << 20;

/// Writes `processed` into `directory`, which is made where it is missing.
///
/// # Errors
/// Tables that do not fit together, `processed` is there already, or the disk is full; nothing is left behind.
pub fn write(directory: &Path, tables: &Tables, watch: &Watch) -> Result<()> {
    tables.check()?;
    beside::folder(directory, "processed", |folder| {
        let place = directory.join("processed");
        let paper = Folder::create(folder, &place, "paper")?;
        let cites = Folder::create(folder, &place, "paper__cites__paper")?;

        let (nodes, features) = (tables.nodes(), tables.features);
        let feature_rows = |rows: Range<usize>| {
            let mut row = vec![0f32; features];
            let mut bytes = Vec::with_capacity(4 * features * rows.len());
            for i in rows {
                tables.fill(i, &mut row)?;
                bytes.extend(row.iter().flat_map(|value| value.to_le_bytes()));
            }
            Ok(bytes)
        };
        paper.array("node_feat.npy", Element::F32, &[nodes, features], feature_rows, watch)?;
        let label_rows = |rows: Range<usize>| {
            Ok(tables.labels[rows].iter().flat_map(|&label| (label as f32).to_le_bytes()).collect())
        };
        paper.array("node_label_19.npy", Element::F32, &[nodes], label_rows, watch)?;
        let edge_rows = |rows: Range<usize>| {
            let ends = tables.edges[rows].iter().flat_map(|&(i, j)| [i64::from(i), i64::from(j)]);
            Ok(ends.flat_map(i64::to_le_bytes).collect())
        };
        cites.array("edge_index.npy", Element::I64, &[tables.edges.len(), 2], edge_rows, watch)
    })
}

/// A folder being written, and where it will be: errors name the latter.
struct Folder {
    unfinished: std::path::PathBuf,
    place: std::path::PathBuf,
}

impl Folder {
    fn create(unfinished: &Path, place: &Path, name: &str) -> Result<Folder> {
        let folder = Folder { unfinished: unfinished.join(name), place: place.join(name) };
        std::fs::create_dir(&folder.unfinished).map_err(Error::io("create directory", &folder.place))?;
        Ok(folder)
    }

    fn array(
        &self,
        name: &str,
        element: Element,
        shape: &[usize],
        make: impl Fn(Range<usize>) -> Result<Vec<u8>> + Sync,
        watch: &Watch,
    ) -> Result<()> {
        let place = self.place.join(name);
        let rows = shape.first().copied().unwrap_or(0);
        let row_bytes = element.bytes() * shape.iter().skip(1).product::<usize>();
        let mut file = File::create(self.unfinished.join(name)).map_err(Error::io("write", &place))?;
        file.write_all(&npy::header(element, shape)).map_err(Error::io("write", &place))?;
        blocks::in_order(rows, BLOCK_BYTES / row_bytes.max(1), watch.stop(), make, |bytes, done| {
            file.write_all(&bytes).map_err(Error::io("write", &place))?;
            watch.progress(name, done as u64, rows as u64);
            Ok(())
        })?;
        file.sync_all().map_err(Error::io("write", &place))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use harmonia_graph::graph::Split;
    use harmonia_graph::npy::Npy;
    use harmonia_graph::stop::Stop;
    use harmonia_graph::watch::Report;
    use std::cell::RefCell;

    fn split() -> Split {
        Split { train: vec![0], valid: vec![1], test: vec![2] }
    }

    #[test]
    fn arrays_read_back_as_the_tables() {
        let root = tempfile::tempdir().unwrap();
        let split = split();
        let tables = Tables {
            edges: &[(0, 1), (2, 1)],
            features: 2,
            feature_row: &|i, row| row.copy_from_slice(&[i as f32, -0.5]),
            labels: &[0, 18, 4],
            classes: 19,
            split: &split,
        };
        let told = RefCell::new(Vec::new());
        let tell = |report: Report<'_>| {
            if let Report::Progress(name, done, total) = report {
                told.borrow_mut().push((name.to_string(), done, total));
            }
        };
        write(&root.path().join("small"), &tables, &Watch::new(&tell, Stop::new())).unwrap();
        assert_eq!(told.borrow().last(), Some(&("edge_index.npy".to_string(), 2, 2)));

        let read = |name: &str| std::fs::read(root.path().join("small/processed").join(name)).unwrap();
        let path = Path::new("a.npy");
        let bytes = read("paper/node_feat.npy");
        let array = Npy::parse(&bytes, path).unwrap();
        assert_eq!((array.matrix(), array.element), (Some((3, 2)), Element::F32));
        assert_eq!(array.floats(), [0.0, -0.5, 1.0, -0.5, 2.0, -0.5]);
        let bytes = read("paper/node_label_19.npy");
        let array = Npy::parse(&bytes, path).unwrap();
        assert_eq!((array.shape.as_slice(), array.element), (&[3][..], Element::F32));
        assert_eq!(array.floats(), [0.0, 18.0, 4.0]);
        let bytes = read("paper__cites__paper/edge_index.npy");
        let array = Npy::parse(&bytes, path).unwrap();
        assert_eq!((array.matrix(), array.element), (Some((2, 2)), Element::I64));
        assert_eq!(array.integers().unwrap(), [0, 1, 2, 1]);
        // Nothing after the elements, and no temporary folder.
        assert_eq!(bytes.len(), array.offset + 32);
        assert_eq!(std::fs::read_dir(root.path().join("small")).unwrap().count(), 1);
    }

    #[test]
    fn many_blocks_keep_their_order() {
        let root = tempfile::tempdir().unwrap();
        let split = split();
        let labels: Vec<u32> = (0..700_000).map(|i| i % 5).collect();
        let edges: Vec<(u32, u32)> = (0..300_000).map(|row| (row, row / 2)).collect();
        let tables = Tables {
            edges: &edges,
            features: 3,
            feature_row: &|i, row| row.fill(i as f32),
            labels: &labels,
            classes: 5,
            split: &split,
        };
        write(root.path(), &tables, &Watch::silent()).unwrap();
        let bytes = std::fs::read(root.path().join("processed/paper/node_feat.npy")).unwrap();
        let values = Npy::parse(&bytes, Path::new("a.npy")).unwrap().floats();
        assert!(values.chunks_exact(3).enumerate().all(|(i, row)| row == [i as f32; 3]));
        let bytes = std::fs::read(root.path().join("processed/paper__cites__paper/edge_index.npy")).unwrap();
        let ends = Npy::parse(&bytes, Path::new("a.npy")).unwrap().integers().unwrap();
        assert!(ends.chunks_exact(2).zip(&edges).all(|(row, &(i, j))| row == [i64::from(i), i64::from(j)]));
    }

    #[test]
    fn bad_tables_are_refused_before_anything_is_made() {
        let root = tempfile::tempdir().unwrap();
        let split = split();
        let good = Tables {
            edges: &[(0, 1)],
            features: 1,
            feature_row: &|_, row| row.fill(1.0),
            labels: &[0, 1, 0],
            classes: 2,
            split: &split,
        };
        let beyond = Split { test: vec![3], ..split.clone() };
        let cases = [
            (Tables { edges: &[(0, 1), (1, 3)], ..good }, "edge 1 is (1, 3): node ids must be below 3"),
            (Tables { labels: &[0, 2, 0], ..good }, "label of node 1 is 2: labels must be in 0..2"),
            (Tables { split: &beyond, ..good }, "test split has id 3"),
            (Tables { labels: &[], ..good }, "nothing to write: 0 nodes"),
            (Tables { feature_row: &|i, row| row.fill(1.0 / i as f32), ..good }, "feature 0 of node 0 is inf"),
        ];
        for (tables, expected) in cases {
            let message = write(&root.path().join("out"), &tables, &Watch::silent()).unwrap_err().to_string();
            assert!(message.contains(expected), "{message}");
            assert_eq!(std::fs::read_dir(root.path()).unwrap().count(), 0, "{expected}");
        }
    }
}

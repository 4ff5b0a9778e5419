//! numpy files as tables: `.npy`, `.npz`, and the sparse matrices scipy saves.
//!
//! Labels and id lists become one-column [`Table`]s, so that what follows need not know where they came from.
//! Invariant: sizes are held against the bytes that are there before anything is made of them.

use super::column::{Column, Faults, Places, Table, Texts, Values};
use crate::npz::Npz;
use harmonia_graph::dataset::{self, Features, SparseRows};
use harmonia_graph::error::{Error, Result, suggestion};
use harmonia_graph::npy::{Element, Npy};
use std::path::Path;

/// A scipy matrix in compressed rows, checked.
pub(super) struct Sparse {
    pub(super) rows: usize,
    pub(super) cols: usize,
    pub(super) starts: Vec<usize>,
    pub(super) indices: Vec<u32>,
    pub(super) data: Vec<f32>,
}

impl Sparse {
    /// Whether the archive is one that scipy.sparse.save_npz wrote.
    pub(super) fn is_in(npz: &Npz) -> bool {
        npz.contains("format") && npz.contains("data") && npz.contains("shape")
    }

    /// # Errors
    /// Another layout than csr, or parts that do not fit together.
    pub(super) fn read(npz: &mut Npz, path: &Path) -> Result<Sparse> {
        let refused = |reason: String| Error::file(path, format!("sparse matrix: {reason}"));
        let layout = layout(&npz.array("format")?);
        if layout != "csr" {
            let found = super::column::shortened(&layout);
            return Err(refused(format!("expected layout csr, found `{found}`; save matrix.tocsr()")));
        }
        let shape = integers(npz, path, "shape")?;
        let side = |side: &i64| usize::try_from(*side).ok().filter(|&side| side <= u32::MAX as usize);
        let sides: Option<Vec<usize>> = shape.iter().map(side).collect();
        let Some([rows, cols]) = sides.as_deref() else {
            return Err(refused(format!("expected a shape of two sides, found {shape:?}")));
        };
        let (starts, columns) = (integers(npz, path, "indptr")?, integers(npz, path, "indices")?);
        let data = npz.array("data")?;
        let data = Npy::parse(&data, path)?.floats();
        let rising = starts.first() == Some(&0) && starts.is_sorted() && starts.last() == Some(&(columns.len() as i64));
        if starts.len() != rows + 1 || !rising || data.len() != columns.len() {
            return Err(refused(format!(
                "expected indptr to rise over {rows} rows to the {} indices, with as much data; found {} entries and {} \
                 values",
                columns.len(),
                starts.len(),
                data.len()
            )));
        }
        let column = |&column: &i64| u32::try_from(column).ok().filter(|&column| (column as usize) < *cols);
        let Some(indices) = columns.iter().map(column).collect::<Option<Vec<u32>>>() else {
            return Err(refused(format!("expected indices below {cols}, found others")));
        };
        let starts = starts.into_iter().map(|start| start as usize).collect();
        Ok(Sparse { rows: *rows, cols: *cols, starts, indices, data })
    }

    /// The entries of each row.
    pub(super) fn rows(&self) -> impl Iterator<Item = impl Iterator<Item = (u32, f32)> + '_> + '_ {
        self.starts.windows(2).map(|ends| {
            let range = ends.first().copied().unwrap_or(0)..ends.last().copied().unwrap_or(0);
            let (columns, data) = (self.indices.get(range.clone()), self.data.get(range));
            columns.unwrap_or(&[]).iter().copied().zip(data.unwrap_or(&[]).iter().copied())
        })
    }

    fn features(&self) -> Result<Features> {
        let sparse = SparseRows::collect(self.rows().map(Iterator::collect));
        Features::held(self.rows, self.cols, dataset::Values::Sparse(sparse))
    }
}

/// The word in a `format` member: bytes or wide characters behind the header.
fn layout(member: &[u8]) -> String {
    let header = member.get(8..10).map_or(0, |length| 10 + usize::from(length[0]) + 256 * usize::from(length[1]));
    let word = member.get(header..).unwrap_or(&[]);
    word.iter().filter(|&&byte| byte != 0).take(16).map(|&byte| char::from(byte)).collect()
}

/// What a `nodes.npz` or `features.npz` holds.
pub(super) struct Arrays {
    pub(super) features: Option<Features>,
    pub(super) labels: Option<Table>,
    pub(super) graph: Option<Table>,
    /// Train, valid and test ids.
    pub(super) lists: [Option<Table>; 3],
}

/// Names an array may have, by meaning.
const MEANINGS: [(&str, &[&str]); 6] = [
    ("features", &["features", "x"]),
    ("labels", &["labels", "y"]),
    ("graph", &["graph", "batch"]),
    ("train", &["train", "train_mask"]),
    ("valid", &["valid", "val", "valid_mask", "val_mask"]),
    ("test", &["test", "test_mask"]),
];

/// Reads every array of a `.npz` of nodes.
///
/// # Errors
/// An array of unknown name, two of one meaning, or one that is not what its name says.
pub(super) fn nodes(path: &Path, regression: bool) -> Result<Arrays> {
    let mut npz = Npz::open(path)?;
    if Sparse::is_in(&npz) {
        let features = finite(Sparse::read(&mut npz, path)?.features()?, path)?;
        return Ok(Arrays { features: Some(features), labels: None, graph: None, lists: [None, None, None] });
    }
    let known = || MEANINGS.iter().flat_map(|(_, names)| names.iter().copied());
    if let Some(unknown) = npz.names().find(|name| !known().any(|known| known == *name)) {
        let message = format!(
            "array `{}`: expected {}{}",
            super::column::shortened(unknown),
            known().collect::<Vec<_>>().join(", "),
            suggestion(unknown, known())
        );
        return Err(Error::file(path, message));
    }
    let member = |meaning: &str| -> Result<Option<Vec<u8>>> {
        let names = MEANINGS.iter().find(|(name, _)| *name == meaning).map_or(&[][..], |(_, names)| names);
        let there: Vec<&&str> = names.iter().filter(|name| npz.contains(name)).collect();
        match there[..] {
            [] => Ok(None),
            [name] => npz.array(name).map(Some),
            _ => Err(Error::file(path, format!("arrays {there:?} mean the same: keep one"))),
        }
    };
    let one = |bytes: Option<Vec<u8>>, read: fn(&Npy<'_>, &Path) -> Result<Table>| {
        bytes.map(|bytes| read(&Npy::parse(&bytes, path)?, path)).transpose()
    };
    let features = member("features")?.map(|bytes| matrix(&Npy::parse(&bytes, path)?, path)).transpose()?;
    Ok(Arrays {
        features,
        labels: one(
            member("labels")?,
            match regression {
                true => |array, path| labels(array, path, true),
                false => |array, path| labels(array, path, false),
            },
        )?,
        graph: one(member("graph")?, |array, path| ids(array, path, "graph"))?,
        lists: [
            one(member("train")?, |array, path| ids(array, path, "id"))?,
            one(member("valid")?, |array, path| ids(array, path, "id"))?,
            one(member("test")?, |array, path| ids(array, path, "id"))?,
        ],
    })
}

/// Nodes x features; one dimension is one feature.
///
/// # Errors
/// More dimensions, or an infinite value.
pub(super) fn matrix(array: &Npy<'_>, path: &Path) -> Result<Features> {
    let (rows, cols) = match array.shape[..] {
        [rows] => (rows, 1),
        [rows, cols] => (rows, cols),
        _ => return Err(Error::file(path, format!("expected nodes x features, found shape {:?}", array.shape))),
    };
    finite(Features::new(rows, cols, array.floats())?, path)
}

/// Refuses infinite numbers; NaN is a gap, but not among the entries of a sparse matrix.
fn finite(features: Features, path: &Path) -> Result<Features> {
    let x = match features.values() {
        dataset::Values::Dense(x) => x,
        _ => {
            features.check().map_err(|error| Error::file(path, error.to_string()))?;
            return Ok(features);
        }
    };
    let bad = |value: &&f32| value.is_infinite();
    let Some(at) = x.iter().position(|value| value.is_infinite()) else { return Ok(features) };
    let (row, column) = (at / features.cols.max(1), at % features.cols.max(1));
    let in_column = x.iter().skip(column).step_by(features.cols.max(1)).filter(bad).count();
    let message = format!(
        "row {row}: column {column}: expected a finite 32-bit number, found {}; the column has {in_column} such rows: \
         fill or drop them",
        x.get(at).unwrap_or(&f32::NAN)
    );
    Err(Error::file(path, message))
}

/// Labels: one dimension is one class per row, two are 0/1 for each class; -1 and nan are "no label". Or numbers to be
/// fitted, one column per output; nan is "not known".
///
/// # Errors
/// Another shape, or -1 where it may as well be a class.
pub(super) fn labels(array: &Npy<'_>, path: &Path, regression: bool) -> Result<Table> {
    let (rows, width) = match array.shape[..] {
        [rows] => (rows, 1),
        [rows, width] if width > 0 => (rows, width),
        _ => {
            let found = &array.shape;
            return Err(Error::file(
                path,
                format!("expected one label per row, or rows x classes; found shape {found:?}"),
            ));
        }
    };
    let values: Vec<f64> = match array.integers() {
        Some(values) => values.into_iter().map(|value| value as f64).collect(),
        None => array.floats().into_iter().map(f64::from).collect(),
    };
    if !regression && width == 1 && values.contains(&-1.0) && !values.contains(&0.0) {
        let message = "labels of -1 mean \"no label\" here, and there is no class 0: save classes from 0";
        return Err(Error::file(path, message));
    }
    let column = |class: usize| {
        let cells = values.iter().skip(class).step_by(width);
        if regression {
            let mut texts = Texts::default();
            cells.for_each(|value| texts.push(&if value.is_nan() { String::new() } else { value.to_string() }));
            return Values::Texts(texts);
        }
        if width > 1 || cells.clone().all(|value| value.fract() == 0.0 && *value >= 0.0 && *value < 1e15) {
            // 0.5 stays no integer: the caller sees that it is neither 0 nor 1.
            let whole = |value: &f64| if value.fract() == 0.0 { *value as i64 } else { i64::MIN };
            return Values::Integers(cells.map(whole).collect());
        }
        let mut texts = Texts::default();
        cells.for_each(|value| {
            texts.push(&if value.is_nan() || *value == -1.0 { String::new() } else { value.to_string() });
        });
        Values::Texts(texts)
    };
    let word = if regression { "target" } else { "class" };
    let name = |class| if width == 1 { "label".to_string() } else { format!("label:{word} {class}") };
    let columns = (0..width).map(|class| Column { name: name(class), values: column(class) }).collect();
    Ok(Table { path: path.to_path_buf(), rows, columns, places: Places::default() })
}

/// Ids, or a yes/no mask over all rows.
///
/// # Errors
/// Not one dimension of integers.
pub(super) fn ids(array: &Npy<'_>, path: &Path, name: &str) -> Result<Table> {
    let values = if array.shape.len() == 1 { array.integers() } else { None };
    let Some(mut values) = values else {
        let message = format!("expected one dimension of integers, found {:?} of {:?}", array.shape, array.element);
        return Err(Error::file(path, message));
    };
    if array.element == Element::Bool {
        values = values.iter().enumerate().filter(|(_, yes)| **yes != 0).map(|(row, _)| row as i64).collect();
    }
    let rows = values.len();
    let columns = vec![Column { name: name.to_string(), values: Values::Integers(values) }];
    Ok(Table { path: path.to_path_buf(), rows, columns, places: Places::default() })
}

/// Calls `edge(row, source, target)` for the edges of an array of rows or columns of two, until it has seen enough. A part at
/// a time: a small archive may hold hundreds of megabytes of them.
///
/// # Errors
/// Another shape, no integers, or 2 x 2, which may be either.
pub(super) fn each_edge(array: &Npy<'_>, path: &Path, mut edge: impl FnMut(usize, i64, i64) -> bool) -> Result<()> {
    const PART: usize = 1 << 16;
    let no_integers = || {
        Error::file(path, format!("expected integer ids, found {:?}; save edges.astype(numpy.int64)", array.element))
    };
    let integers = |elements: std::ops::Range<usize>| array.part(elements).integers().ok_or_else(no_integers);
    integers(0..1)?;
    let (count, in_rows) = match array.shape[..] {
        [2, 2] => {
            return Err(Error::file(path, "a 2 x 2 array may be edges in rows or in columns; save the edges as text"));
        }
        [count, 2] => (count, true),
        [2, count] => (count, false),
        _ => return Err(Error::file(path, format!("expected edges x 2 or 2 x edges, found shape {:?}", array.shape))),
    };
    for first in (0..count).step_by(PART) {
        let rows = first..(first + PART).min(count);
        let (sources, targets) = match in_rows {
            true => {
                let both = integers(2 * rows.start..2 * rows.end)?;
                both.as_chunks::<2>().0.iter().map(|&[source, target]| (source, target)).unzip()
            }
            false => (integers(rows.clone())?, integers(count + rows.start..count + rows.end)?),
        };
        for (row, (&source, &target)) in rows.zip(sources.iter().zip(&targets)) {
            if !edge(row, source, target) {
                return Ok(());
            }
        }
    }
    Ok(())
}

/// Integers of one dimension.
///
/// # Errors
/// No such array, or another type or shape.
pub(super) fn integers(npz: &mut Npz, path: &Path, name: &str) -> Result<Vec<i64>> {
    let bytes = npz.array(name)?;
    let array = Npy::parse(&bytes, path)?;
    array.integers().filter(|_| array.shape.len() == 1).ok_or_else(|| {
        let (shape, element) = (&array.shape, array.element);
        Error::file(path, format!("array `{name}`: expected one dimension of integers, found {shape:?} of {element:?}"))
    })
}

/// Refuses rows that are not as many as there are nodes or graphs.
///
/// # Errors
/// The counts differ.
pub(super) fn same_rows(path: &Path, rows: usize, what: &str, expected: usize) -> Result<()> {
    let mut faults = Faults::new(path);
    if rows != expected {
        faults.add(|| format!("expected one row for each of the {expected} {what}s, found {rows}"));
    }
    faults.finish()
}

//! What a store is made of beside its edges, one function per part: from its files to what a dataset holds. Sizes and types
//! are checked here, and every entry of labels and splits; entries of features and ids when the dataset is read.

use super::map::MappedArray;
use super::{Meta, PARTS};
use crate::array::Array;
use crate::dataset::{Features, Labels, SparseRows, UNLABELLED, UnitWeights, Values, is_weight};
use crate::error::{Error, Result, one_line};
use crate::graph::Split;
use crate::npy::Element;
use std::path::Path;

/// X, dense or sparse, in the type it is stored in.
pub(super) fn features(directory: &Path, meta: &Meta, nodes: usize) -> Result<Features> {
    let file = |name: &str| directory.join(name);
    if file("features_ptr.npy").exists() {
        if file("features.npy").exists() {
            return Err(Error::file(
                &file("features.npy"),
                "stands beside features_ptr.npy: keep one form of features",
            ));
        }
        let sparse = SparseRows {
            row_ptr: MappedArray::open(&file("features_ptr.npy"))?.offsets()?,
            col_idx: MappedArray::open(&file("features_idx.npy"))?.ids()?,
            values: MappedArray::open(&file("features_val.npy"))?.floats()?,
        };
        let wide = || sparse.col_idx.iter().max().map_or(0, |&last| last as usize + 1);
        // The shape of a sparse matrix is in no array: `counts` has it, else the last column that occurs.
        let cols = meta.counts.map_or_else(wide, |counts| counts.features);
        let in_file = |error: Error| Error::file(&file("features_ptr.npy"), error.to_string());
        return Features::held(nodes, cols, Values::Sparse(sparse)).map_err(in_file);
    }
    let path = file("features.npy");
    let array = MappedArray::open(&path)?;
    let [rows, cols] = array.shape[..] else {
        return Err(Error::file(&path, format!("expected nodes x features, found shape {:?}", array.shape)));
    };
    let values = match array.halves() {
        Some(halves) => Values::Half(halves),
        None => Values::Dense(array.floats()?),
    };
    Features::held(rows, cols, values).map_err(|error| Error::file(&path, error.to_string()))
}

/// Classes, several labels per unit, or numbers, as `meta` says.
pub(super) fn labels(path: &Path, meta: &Meta, units: usize) -> Result<Labels> {
    let array = MappedArray::open(path)?;
    if meta.regression {
        return targets(&array, path, meta, units);
    }
    let expected = if meta.multi_label { vec![units, meta.classes] } else { vec![units] };
    if array.shape != expected && !(expected.len() == 1 && array.shape == [units, 1]) {
        let message = format!(
            "expected labels of shape {expected:?}, found {:?}; one-hot labels are saved as labels.argmax(1), several \
             labels a unit need \"multi_label\": true",
            array.shape
        );
        return Err(Error::file(path, message));
    }
    let values = array.integers()?;
    let width = if meta.multi_label { meta.classes.max(1) } else { 1 };
    let wrong = |at: usize, expected: &str| {
        let (unit, value) = (at / width, values[at]);
        Err(Error::file(path, format!("label of unit {unit} is {value}: labels must be {expected}")))
    };
    if meta.multi_label {
        return match values.iter().position(|value| !(0..=1).contains(value)) {
            Some(at) => wrong(at, "0 or 1"),
            None => Ok(Labels::Multi { bits: values.iter().map(|&bit| bit as u8).collect(), width: meta.classes }),
        };
    }
    let classes = i64::try_from(meta.classes).unwrap_or(i64::MAX).min(i64::from(u32::MAX) - 1);
    match values.iter().position(|value| !(-1..classes).contains(value)) {
        Some(at) => wrong(at, &format!("0 to {}, or -1 for none (\"classes\": {classes})", classes - 1)),
        None => {
            // Only -1 fails the conversion.
            let ids = values.iter().map(|&value| u32::try_from(value).unwrap_or(UNLABELLED)).collect();
            Ok(Labels::Classes { ids, classes: meta.classes })
        }
    }
}

/// Numbers to be fitted: one column per output.
fn targets(array: &MappedArray, path: &Path, meta: &Meta, units: usize) -> Result<Labels> {
    let width = meta.classes;
    if array.shape != [units, width] && !(width == 1 && array.shape == [units]) {
        let message = format!(
            "expected targets of shape [{units}, {width}] (\"regression\": true, \"classes\": {width}), found {:?}",
            array.shape
        );
        return Err(Error::file(path, message));
    }
    let values = array.floats()?.to_vec();
    Ok(Labels::Values { values, width })
}

/// How much each unit counts while a model is fitted, where the store says so.
pub(super) fn unit_weights(path: &Path, meta: &Meta, units: usize) -> Result<Option<UnitWeights>> {
    match (path.exists(), &meta.weights) {
        (false, None) => return Ok(None),
        (false, Some(column)) => {
            let message = format!("is missing: meta.json names it (\"weights\": \"{}\")", one_line(column));
            return Err(Error::file(path, message));
        }
        (true, _) => {}
    }
    let array = MappedArray::open(path)?;
    if array.shape != [units] {
        return Err(Error::file(path, format!("expected a weight for each of {units} units, found {:?}", array.shape)));
    }
    let values = array.floats()?.to_vec();
    if let Some(unit) = values.iter().position(|&weight| !is_weight(weight)) {
        let message = format!("the weight of unit {unit} is {}: expected a number above 0", values[unit]);
        return Err(Error::file(path, message));
    }
    Ok(Some(UnitWeights { column: meta.weights.clone().unwrap_or_else(|| "weight".into()), values }))
}

/// Numbers of the nodes in the source, one per node, where they were reordered.
pub(super) fn node_order(path: &Path, meta: &Meta, nodes: usize) -> Result<Option<Array<u32>>> {
    match (path.exists(), &meta.node_order) {
        (false, None) => return Ok(None),
        (false, Some(method)) => {
            let message = format!(
                "is missing: meta.json says that nodes were reordered (\"node_order\": \"{}\")",
                one_line(method)
            );
            return Err(Error::file(path, message));
        }
        (true, _) => {}
    }
    let original = MappedArray::open(path)?.ids()?;
    if original.len() != nodes {
        let message = format!("expected a number for each of the {nodes} nodes, found {}", original.len());
        return Err(Error::file(path, message));
    }
    Ok(Some(original))
}

/// The splits of a store: one in three files, several in one, or none.
pub(super) fn splits(directory: &Path, units: usize) -> Result<Vec<Split>> {
    let names = ["train.npy", "valid.npy", "test.npy"];
    let path = directory.join("splits.npy");
    if path.exists() {
        if let Some(other) = names.iter().find(|name| directory.join(name).exists()) {
            return Err(Error::file(&directory.join(other), "stands beside splits.npy: keep one form of splits"));
        }
        let array = MappedArray::open(&path)?;
        let [count, found] = array.shape[..] else {
            return Err(Error::file(&path, format!("expected splits x units, found shape {:?}", array.shape)));
        };
        // Without units, any number of splits would fit no bytes at all.
        if found != units || units == 0 {
            return Err(Error::file(&path, format!("expected {units} units a split, found {found}")));
        }
        let codes = array.integers()?;
        if let Some(at) = codes.iter().position(|code| !(0..=3).contains(code)) {
            let message = format!("unit {} of split {} is {}: expected 0 to 3", at % units, at / units, codes[at]);
            return Err(Error::file(&path, message));
        }
        let part = |row: &[i64], part: u8| {
            (0..units as u32).filter(|&unit| row[unit as usize] == i64::from(part)).collect::<Vec<u32>>()
        };
        let split =
            |row: &[i64]| Split { train: part(row, PARTS[0]), valid: part(row, PARTS[1]), test: part(row, PARTS[2]) };
        return Ok((0..count).map(|s| split(&codes[s * units..(s + 1) * units])).collect());
    }
    if names.iter().all(|name| !directory.join(name).exists()) {
        return Ok(Vec::new());
    }
    let ids = |name: &str| -> Result<Vec<u32>> {
        let path = directory.join(name);
        let array = MappedArray::open(&path)?;
        if array.element == Element::Bool && !array.is_empty() {
            return Err(Error::file(&path, "expected ids, found a boolean mask; save numpy.flatnonzero(mask)"));
        }
        let ids: Array<u32> = array.ids()?;
        Ok(ids.to_vec())
    };
    Ok(vec![Split { train: ids(names[0])?, valid: ids(names[1])?, test: ids(names[2])? }])
}

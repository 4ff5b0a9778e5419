//! Named tensors in a safetensors file, plus one JSON document as its metadata.

use crate::architecture::Layout;
use crate::real::Real;
use harmonia_graph::error::{Error, Result};
use harmonia_graph::files;
use safetensors::tensor::TensorView;
use safetensors::{Dtype, SafeTensors};
use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};

/// Key of our JSON document in the file's metadata; a single key keeps files byte-reproducible.
const METADATA_KEY: &str = "harmonia";

/// One tensor. f64 holds every f32 exactly, so reading and writing back changes no bit.
#[derive(Clone, Debug, PartialEq)]
pub struct TensorData {
    /// Row-major shape.
    pub shape: Vec<usize>,
    /// As many as the shape says; f32 or f64 in the file.
    pub values: Vec<f64>,
}

/// The content of a checkpoint file.
#[derive(Clone, Debug)]
pub struct Checkpoint {
    /// Where it was read from, for messages.
    pub path: PathBuf,
    /// Tensors by name.
    pub tensors: BTreeMap<String, TensorData>,
    /// The JSON document, if the file has one.
    pub metadata: Option<String>,
}

impl Checkpoint {
    /// Reads f32 and f64 tensors.
    ///
    /// # Errors
    /// The file is missing, damaged or holds another element type.
    pub fn read(path: &Path) -> Result<Checkpoint> {
        let bytes = files::read(path)?;
        let damaged = |reason| {
            Error::file(path, format!("expected a complete safetensors file, found: {reason}; write it again"))
        };
        let (_, header) = SafeTensors::read_metadata(&bytes).map_err(damaged)?;
        let file = SafeTensors::deserialize(&bytes).map_err(damaged)?;
        let mut tensors = BTreeMap::new();
        for (name, view) in file.tensors() {
            let values = match view.dtype() {
                Dtype::F32 => (view.data().as_chunks().0.iter()).map(|b| f64::from(f32::from_le_bytes(*b))).collect(),
                Dtype::F64 => view.data().as_chunks().0.iter().map(|b| f64::from_le_bytes(*b)).collect(),
                other => return Err(Error::file(path, format!("tensor `{name}` is {other:?}; expected F32 or F64"))),
            };
            tensors.insert(name, TensorData { shape: view.shape().to_vec(), values });
        }
        let metadata = header.metadata().as_ref().and_then(|map| map.get(METADATA_KEY)).cloned();
        Ok(Checkpoint { path: path.to_path_buf(), tensors, metadata })
    }

    /// Writes tensors atomically as `T`.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn write<T: Real>(
        path: &Path,
        tensors: Vec<(String, Vec<usize>, &[T])>,
        metadata: Option<String>,
    ) -> Result<()> {
        let bytes: Vec<(String, Vec<usize>, Vec<u8>)> =
            tensors.into_iter().map(|(name, shape, values)| (name, shape, T::write_le(values))).collect();
        let failed = |reason| Error::file(path, format!("cannot encode tensors: {reason}"));
        let views = bytes
            .iter()
            .map(|(name, shape, data)| Ok((name, TensorView::new(T::DTYPE, shape.clone(), data)?)))
            .collect::<std::result::Result<Vec<_>, _>>()
            .map_err(failed)?;
        let metadata = metadata.map(|text| HashMap::from([(METADATA_KEY.to_string(), text)]));
        files::write_atomic(path, &safetensors::serialize(views, metadata).map_err(failed)?)
    }

    /// Numbers of all tensors.
    pub fn elements(&self) -> usize {
        self.tensors.values().map(|tensor| tensor.values.len()).sum()
    }

    /// A tensor of a given shape.
    ///
    /// # Errors
    /// It is missing or has another shape.
    pub fn tensor(&self, name: &str, shape: &[usize]) -> Result<&[f64]> {
        let Some(tensor) = self.tensors.get(name) else {
            return Err(Error::file(&self.path, format!("has no tensor `{name}`; expected one of shape {shape:?}")));
        };
        if tensor.shape != shape {
            return Err(Error::file(
                &self.path,
                format!(
                    "tensor `{name}` has shape {:?}, expected {shape:?}; use the same dataset and model settings \
                     (preset and model.*) it was made with",
                    tensor.shape
                ),
            ));
        }
        Ok(&tensor.values)
    }

    /// All parameters of a layout; names may carry a prefix. The file may hold other tensors too.
    ///
    /// # Errors
    /// A tensor is missing, has another shape, or holds a value that is not finite.
    pub fn parameters<T: Real>(&self, layout: &Layout, prefix: &str) -> Result<Vec<T>> {
        let mut parameters = vec![T::zero(); layout.len()];
        for tensor in layout.tensors() {
            let name = format!("{prefix}{}", tensor.name);
            let values = self.tensor(&name, &tensor.shape)?;
            if let Some(at) = values.iter().position(|&value| !T::from_f64(value).is_finite()) {
                return Err(Error::file(
                    &self.path,
                    format!("element {at} of tensor `{name}` is {}; parameters must be finite", values[at]),
                ));
            }
            for (to, &from) in parameters[tensor.range.clone()].iter_mut().zip(values) {
                *to = T::from_f64(from);
            }
        }
        Ok(parameters)
    }

    /// (name, shape, values) of every parameter, names prefixed.
    pub fn named<'a, T>(layout: &Layout, values: &'a [T], prefix: &str) -> Vec<(String, Vec<usize>, &'a [T])> {
        (layout.tensors().iter())
            .map(|tensor| (format!("{prefix}{}", tensor.name), tensor.shape.clone(), &values[tensor.range.clone()]))
            .collect()
    }
}

//! Files of a store in memory without reading them, and their arrays in the types we compute with.

#![allow(unsafe_code)]

use super::lost;
use crate::array::Array;
use crate::error::{Error, Result};
use crate::files;
use crate::npy::{Element, Npy};
use bytemuck::Pod;
use memmap2::Mmap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A `.npy` file, mapped, its header checked against its length.
pub struct MappedArray {
    path: PathBuf,
    map: Arc<Mmap>,
    /// Sides, outermost first.
    pub shape: Vec<usize>,
    /// As stored; what is read as another type is converted.
    pub element: Element,
    offset: usize,
}

impl MappedArray {
    /// Maps a file.
    ///
    /// # Errors
    /// Missing, unreadable, not an array, shorter or longer than its header says.
    pub fn open(path: &Path) -> Result<MappedArray> {
        let map = Arc::new(map(path)?);
        let array = Npy::parse(&map, path)?;
        let (shape, element, offset, end) =
            (array.shape.clone(), array.element, array.offset, array.offset + array.data.len());
        if end != map.len() {
            let extra = map.len() - end;
            return Err(Error::file(path, format!("holds {extra} bytes more than the array its header describes")));
        }
        Ok(MappedArray { path: path.to_path_buf(), map, shape, element, offset })
    }

    /// The array, to convert its elements.
    ///
    /// # Errors
    /// None in practice: the header was read before.
    pub fn npy(&self) -> Result<Npy<'_>> {
        Npy::parse(&self.map, &self.path)
    }

    /// Elements, the product of `shape`.
    pub fn len(&self) -> usize {
        self.shape.iter().product()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn view<T: Pod>(&self) -> Option<Array<T>> {
        Array::mapped(Arc::clone(&self.map), self.offset, self.len())
    }

    /// One dimension, or an error that says how many there are.
    ///
    /// # Errors
    /// Another number of dimensions.
    pub fn one_dimension(&self) -> Result<()> {
        match self.shape[..] {
            [_] => Ok(()),
            _ => Err(Error::file(&self.path, format!("expected one dimension, found shape {:?}", self.shape))),
        }
    }

    /// Integers, none of them negative: mapped where the file holds 64-bit ones. Negative ones that are mapped show
    /// as huge ones, which no check lets pass.
    ///
    /// # Errors
    /// Not integers, several dimensions, or a negative one.
    pub fn offsets(&self) -> Result<Array<u64>> {
        self.one_dimension()?;
        match self.element {
            Element::U64 | Element::I64 if !self.is_empty() => self.view().ok_or_else(|| self.misaligned()),
            _ => Ok(self.unsigned(i64::MAX as u64)?.into()),
        }
    }

    /// Node or column numbers: mapped where the file holds 32-bit ones.
    ///
    /// # Errors
    /// Not integers, several dimensions, or one that does not fit 32 bits.
    pub fn ids(&self) -> Result<Array<u32>> {
        self.one_dimension()?;
        match self.element {
            Element::U32 | Element::I32 if !self.is_empty() => self.view().ok_or_else(|| self.misaligned()),
            _ => Ok(self.unsigned(u64::from(u32::MAX))?.into_iter().map(|id| id as u32).collect()),
        }
    }

    /// Numbers as f32: mapped where the file holds them so.
    ///
    /// # Errors
    /// None but a damaged map.
    pub fn floats(&self) -> Result<Array<f32>> {
        match self.element {
            Element::F32 if !self.is_empty() => self.view().ok_or_else(|| self.misaligned()),
            Element::F64 => {
                let array = self.npy()?;
                let values = array.floats();
                match values.iter().position(|value| value.is_infinite()) {
                    // Infinite in the file itself is said where values are checked.
                    Some(at) if array.doubles()[at].is_finite() => {
                        let value = array.doubles()[at];
                        let message =
                            format!("element {at} is {value:e}, beyond the range of single precision; rescale it");
                        Err(Error::file(&self.path, message))
                    }
                    _ => Ok(values.into()),
                }
            }
            _ => Ok(self.npy()?.floats().into()),
        }
    }

    /// Two-byte integers without a sign, mapped; `None` for other types.
    pub fn words(&self) -> Option<Array<u16>> {
        (self.element == Element::U16 && !self.is_empty()).then(|| self.view()).flatten()
    }

    /// Bytes, mapped; `None` for other types.
    pub fn bytes(&self) -> Option<Array<u8>> {
        (self.element == Element::U8 && !self.is_empty()).then(|| self.view()).flatten()
    }

    /// Half-precision numbers, mapped; `None` for other types.
    pub fn halves(&self) -> Option<Array<half::f16>> {
        (self.element == Element::F16 && !self.is_empty()).then(|| self.view()).flatten()
    }

    /// Integers of any width.
    ///
    /// # Errors
    /// Floats.
    pub fn integers(&self) -> Result<Vec<i64>> {
        self.npy()?.integers().ok_or_else(|| {
            let found = self.element.code();
            let message =
                format!("expected a .npy array of integers, found type {found}; save array.astype(numpy.int64)");
            Error::file(&self.path, message)
        })
    }

    /// Integers from 0 to `most`, in one dimension.
    ///
    /// # Errors
    /// Anything else.
    pub fn unsigned(&self, most: u64) -> Result<Vec<u64>> {
        self.one_dimension()?;
        (self.integers()?.into_iter().enumerate())
            .map(|(at, value)| {
                u64::try_from(value).ok().filter(|&value| value <= most).ok_or_else(|| {
                    Error::file(&self.path, format!("entry {at} is {value}: expected an integer from 0 to {most}"))
                })
            })
            .collect()
    }

    fn misaligned(&self) -> Error {
        Error::file(&self.path, "its elements are not aligned; save it again with numpy.save")
    }
}

/// Maps a whole file.
///
/// # Errors
/// It is missing or unreadable.
pub fn map(path: &Path) -> Result<Mmap> {
    let file = files::open(path)?;
    // SAFETY: a map is only sound while nobody changes the file. A store is written elsewhere and renamed into place, and
    // nothing of ours writes into one; a program that does so in spite of that changes numbers under our feet, as it
    // would with any program that maps files (one that is cut short is named, see `lost`). Every number taken from a map is checked before it is used as an index.
    let map = unsafe { Mmap::map(&file) }.map_err(Error::io("map", path))?;
    lost::remember(path, &map);
    Ok(map)
}

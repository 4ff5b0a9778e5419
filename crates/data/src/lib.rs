//! Where datasets come from: the known ones by name, files of any format, generators.
//!
//! A known name goes through [`obtain`]: located or fetched ([`catalogue`], [`locate`], [`download`]), converted to a
//! store ([`formats`], one reader per format), and opened. [`named()`] does all of it, for stores by path as well.
//!
//! Bottom up: [`pickle`], [`archive`], [`npz`], [`text`], `tarball`; [`conversion`]; one module per format; [`formats`];
//! [`catalogue`], [`locate`], [`download`], [`obtain`]; [`generate`] and [`synthetic`] beside them. All dependencies on
//! formats and networks are here, and none of the engine's modules imports this crate.

pub mod archive;
pub mod catalogue;
pub mod conversion;
pub mod download;
pub mod formats;
pub mod frame;
pub mod generate;
pub mod heterophilous;
pub mod igb;
pub mod locate;
pub mod named;
pub mod npz;
pub mod obtain;
pub mod ogb;
pub mod pickle;
pub mod planetoid;
pub mod smiles;
pub mod statistics;
pub mod synthetic;
pub mod table;
mod tarball;
pub mod text;
pub mod tudataset;

pub use locate::DATA_VARIABLE;
pub use named::{is_here, is_store, named};

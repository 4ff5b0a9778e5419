//! Trains HARMONIA, a graph model whose prediction is a plain sum over features, source nodes and walk
//! lengths:
//!
//! ```text
//! logit(i, class) = beta + sum_k sum_j sum_t  w[k,class] * theta[t,k] * (M^t)[i,j] * f_k(x[j,k])
//! ```
//!
//! f_k is a response of one feature, mixed from a few small expert networks; M is the random walk on the graph.
//!
//! # A tour
//!
//! - [`graph`] and [`datasets`]: what a task is, and where tasks come from; [`store`] keeps one on disk.
//! - [`batch`]: the part of a dataset one step sees.
//! - [`device`]: the arithmetic, one method an op: native on the CPU in [`device::cpu`], as CUDA kernels in
//!   [`device::launcher`], which run on a GPU ([`device::cuda`]) or, to test them, on the CPU ([`device::host`]).
//! - [`knots`]: experts and responses as the exact lists of lines they are made of, and gradients through those lists.
//! - [`model`]: parameters, the pass forward and backward written once over the device, checkpoints, [`fit`].
//! - [`train`]: epochs, early stopping, metrics, run directories. [`config`] and [`presets`] hold the settings.
//! - [`diagnose`]: what a graph lets hop weights say: identifiability, conditioning, horizon, spectral response.
//! - [`explain`]: predictions as the sums they are, importances, shapes. [`diagnose`]: what a graph lets hop weights mean.
//! - [`experiments`]: what a model found again of a known generator, and what it loses without features. [`report`]: a page
//!   about a run.
//! - [`cli`]: the binaries.
//!
//! # Train on your own arrays
//!
//! ```
//! use harmonia::config::Config;
//! use harmonia::datasets::{Dataset, Features, Labels};
//! use harmonia::graph::{Direction, Graph, Split};
//!
//! # fn main() -> harmonia::Result<()> {
//! let graph = Graph::from_edges(4, &[(0, 1), (1, 2), (2, 3)], None, Direction::Undirected)?;
//! let features = Features::new(4, 1, vec![-1.0, -0.5, 0.5, 1.0])?;
//! let labels = Labels::Classes { ids: vec![0, 0, 1, 1], classes: 2 };
//! let split = Split { train: vec![0, 3], valid: vec![1, 2], test: vec![] };
//! let dataset = Dataset::nodes("path", graph, features, labels, split)?;
//!
//! let mut config = Config::default();
//! config.train.epochs = 20;
//! let model = harmonia::fit(&dataset, &config)?;
//! assert_eq!(model.predict(&dataset)?.len(), 4);
//! # Ok(())
//! # }
//! ```

pub mod array;
pub mod batch;
pub mod cli;
pub mod config;
pub mod datasets;
pub mod device;
pub mod diagnose;
pub mod error;
pub mod experiments;
pub mod explain;
pub mod files;
pub mod graph;
pub mod interrupt;
pub mod knots;
pub mod model;
pub mod npy;
pub mod presets;
pub mod report;
pub mod seed;
pub mod store;
pub mod train;
mod units;

pub use error::{Error, Result};
pub use model::{FittedModel, fit};

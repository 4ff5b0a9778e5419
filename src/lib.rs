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
//! From the bottom up; nothing imports what comes after it (`tests/layers.rs` checks it, `ARCHITECTURE.md` draws it).
//!
//! - [`harmonia_graph`]: arrays, files, graphs, [datasets](harmonia_graph::dataset) and their stores. `harmonia_data`
//!   (feature `data`): readers, downloads, generators.
//! - [`architecture`], [`config`]: the sizes of a model and where each parameter is; every setting. [`loss`]: what is
//!   minimised and how predictions are scored, one file per loss. [`plan`], [`batch`]: which of the exact ways a step is
//!   computed, and the part of a dataset it sees.
//! - [`team`]: several processes that train one model, and what of a step is whose.
//! - [`knots`]: experts and responses as the exact lists of lines they are made of, and gradients through those lists.
//! - [`device`]: the arithmetic, one method per op: native on the CPU in [`device::cpu`], as CUDA kernels in
//!   [`device::launcher`], which run on a GPU ([`device::cuda`]) or, to test them, on the CPU ([`device::host`]).
//! - [`model`]: parameters, the pass forward and backward written once over the device, checkpoints.
//! - [`train`]: epochs, early stopping, [`fit`].
//! - [`explain`]: predictions as the sums they are, importances, shapes. [`diagnose`]: what a graph lets hop weights mean:
//!   identifiability, conditioning, horizon, spectral response.
//!
//! With the feature `runs`, what the commands and the Python package are made of: [`settings`] in layers and presets, [`recovery`]
//! of a known generator, [`runs`] on disk, [`answers`] about them, the [`report`] page, [`session`]s of several runs. With the
//! feature `program` (default), [`studies`] and [`cli`].
//!
//! # Train on your own arrays
//!
//! ```
//! use harmonia::config::Config;
//! use harmonia::dataset::{Dataset, Features, Labels};
//! use harmonia::device::Machine;
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
//! let machine = Machine::open("auto", config.engine)?;
//! let model = harmonia::fit(&dataset, &config, &machine, &harmonia::Stop::new())?;
//! assert_eq!(model.predict(&dataset)?.len(), 4);
//! # Ok(())
//! # }
//! ```

#[cfg(feature = "runs")]
pub mod answers;
pub mod architecture;
pub mod batch;
#[cfg(feature = "program")]
pub mod cli;
pub mod config;
pub mod device;
pub mod diagnose;
pub mod explain;
#[cfg(feature = "runs")]
pub mod export;
pub mod knots;
pub mod loss;
pub mod model;
pub mod plan;
pub mod real;
#[cfg(feature = "runs")]
pub mod recovery;
#[cfg(feature = "runs")]
pub mod report;
#[cfg(feature = "runs")]
pub mod runs;
#[cfg(feature = "runs")]
pub mod session;
#[cfg(feature = "runs")]
pub mod settings;
#[cfg(feature = "program")]
pub mod studies;
pub mod tabulate;
pub mod team;
pub mod train;

#[cfg(feature = "data")]
pub use harmonia_data as data;
pub use harmonia_graph::{
    Error, Result, Stop, array, dataset, error, files, graph, memory, npy, seed, stop, store, units, walk_table, watch,
};
pub use model::FittedModel;
pub use train::fit;

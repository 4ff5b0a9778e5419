//! A batch made ready for the CPU ops.

use super::chunks;
use super::pairs::KnownPairs;
use super::shared_walk::CpuHalo;
use super::shells::KnownShells;
use crate::batch::{Batch, Reach, TableRows};
use crate::device::no_walk;
use crate::loss::{Objective, Targets};
use crate::plan::Plan;
use crate::real::Real;
use crate::team::Halo;
use half::f16;
use harmonia_graph::array::Array;
use harmonia_graph::dataset::{Features, Level, SparseRows, Values};
use harmonia_graph::error::{Error, Result};
use harmonia_graph::graph::{Csr, Transition};
use rayon::prelude::*;
use std::cmp::Ordering;
use std::sync::{Arc, OnceLock};

/// Values of a feature that count as few: as many networks are evaluated instead of finding all pieces of one.
const FEW_VALUES: usize = 8;

/// Walk, features, offsets and targets of a batch.
pub struct CpuInputs<T> {
    /// n: rows of X and of every state.
    pub nodes: usize,
    /// How nodes reach the logits.
    pub reach: CpuReach<T>,
    /// X.
    pub features: InputFeatures,
    /// First node of each graph and the end.
    pub graph_ptr: Vec<usize>,
    /// What logits belong to.
    pub level: Level,
    /// Which loss scores the logits.
    pub objective: Objective,
    /// L.
    pub outputs: usize,
    /// See [`Batch::targets`].
    pub targets: Targets,
    /// See [`Batch::weights`].
    pub weights: Option<Vec<f32>>,
    /// Units the loss is a mean over.
    pub units: usize,
    /// Whether other processes have the rest of the batch.
    pub is_part: bool,
    /// Of models that weigh pairs of nodes: the walk probabilities of those that were looked at.
    pub pairs: KnownPairs<T>,
    /// Of models of distances: the shells of those that were looked at.
    pub shells: KnownShells,
    values: OnceLock<Arc<Vec<Vec<T>>>>,
}

/// Values of a column before and after dropout of inputs, increasing; none where they are not few.
fn with_dropped<T: Real>(few: &[T], scale: T) -> Vec<T> {
    if few.is_empty() {
        return Vec::new();
    }
    let mut all: Vec<T> = few.iter().flat_map(|&value| [value, value * scale]).chain([T::zero()]).collect();
    all.sort_unstable_by(|a, b| a.partial_cmp(b).unwrap_or(Ordering::Equal));
    all.dedup();
    all
}

/// How nodes reach the logits.
pub enum CpuReach<T> {
    /// Hop by hop.
    Walk(CpuWalk<T>),
    /// v_t of every node, n x T.
    Weights(Vec<T>),
    /// Rows of a table, and of graphs the size of each.
    Table(TableRows, Vec<T>),
}

/// The walk, cut into stretches of rows with nearly the same number of entries.
pub struct CpuWalk<T> {
    transition: Arc<Transition>,
    /// 1 / degree of each node.
    pub inverse_degree: Vec<T>,
    chunks: Vec<usize>,
    /// The same for A^T, where it is another matrix.
    transposed_chunks: Option<Vec<usize>>,
    /// What hops read of nodes that other processes have.
    pub halo: Option<CpuHalo>,
}

impl<T: Real> CpuWalk<T> {
    fn new(transition: &Arc<Transition>, halo: Option<&Arc<Halo>>) -> Result<Self> {
        transition.matrix().check_columns(transition.nodes() + halo.map_or(0, |halo| halo.others()))?;
        Ok(CpuWalk {
            halo: halo.map(|halo| CpuHalo::new(halo, transition.matrix(), transition.transposed())),
            inverse_degree: transition.degree().iter().map(|&degree| T::from_f64(1.0 / degree)).collect(),
            chunks: chunks::balanced(&transition.matrix().row_ptr, chunks::WALK_ENTRIES),
            transposed_chunks: (!transition.is_symmetric())
                .then(|| chunks::balanced(&transition.transposed().row_ptr, chunks::WALK_ENTRIES)),
            transition: Arc::clone(transition),
        })
    }

    /// A and the bounds of its stretches.
    pub fn matrix(&self) -> (&Csr, &[usize]) {
        (self.transition.matrix(), &self.chunks)
    }

    /// A^T and the bounds of its stretches.
    pub fn transposed(&self) -> (&Csr, &[usize]) {
        (self.transition.transposed(), self.transposed_chunks.as_ref().unwrap_or(&self.chunks))
    }

    /// Row sums of A.
    pub fn degree(&self) -> &[f64] {
        self.transition.degree()
    }
}

/// X as the ops read it.
pub enum InputFeatures {
    /// Row-major.
    Dense(Array<f32>),
    /// Row-major in half precision, widened as it is read.
    Half(Array<f16>),
    /// Non-zeros only.
    Sparse(Box<SparseColumns>),
}

/// Non-zeros of X by rows and by columns. An entry's place is where it stands column by column.
pub struct SparseColumns {
    /// The rows as they are held.
    pub by_rows: SparseRows,
    /// Place of each entry of the rows.
    pub places: Vec<u32>,
    /// First place of each column, and the end.
    pub col_ptr: Vec<usize>,
    /// The same in the type offsets of matrices have.
    pub offsets: Vec<u64>,
    /// Row of each place.
    pub rows: Vec<u32>,
    /// Value of each place.
    pub values: Vec<f32>,
    /// Stretches of rows with nearly the same number of entries.
    pub row_chunks: Vec<usize>,
    /// Stretches of columns with nearly the same number of entries.
    pub col_chunks: Vec<usize>,
}

impl<T: Real> CpuInputs<T> {
    /// Prepares a batch.
    pub fn new(batch: &Batch, plan: Plan) -> Result<Self> {
        Ok(CpuInputs {
            nodes: batch.nodes(),
            reach: match &batch.reach {
                Reach::Walk(transition) => {
                    let halo = batch.part.as_ref().and_then(|part| part.halo.as_ref());
                    CpuReach::Walk(CpuWalk::new(transition, halo)?)
                }
                Reach::Weights(weights) => {
                    CpuReach::Weights(weights.values().iter().map(|&value| T::from_f64(value)).collect())
                }
                Reach::Table(table) => {
                    let sizes = table.table.contents.sizes.as_ref();
                    let sizes =
                        sizes.map(|sizes| table.rows.iter().map(|&row| T::from_f32(sizes[row as usize])).collect());
                    CpuReach::Table(table.clone(), sizes.unwrap_or_default())
                }
            },
            features: InputFeatures::new(&batch.features, plan.sparse)?,
            graph_ptr: batch.graph_ptr.clone(),
            level: batch.level,
            objective: batch.objective,
            outputs: batch.outputs,
            targets: batch.targets.clone(),
            weights: batch.weights.clone(),
            units: batch.counted(),
            is_part: batch.part.is_some(),
            pairs: KnownPairs::default(),
            shells: KnownShells::default(),
            values: OnceLock::new(),
        })
    }

    /// The walk matrix, for ops that step along edges.
    ///
    /// # Errors
    /// The batch has weights of nodes instead.
    pub fn walk(&self) -> Result<&CpuWalk<T>> {
        match &self.reach {
            CpuReach::Walk(walk) => Ok(walk),
            CpuReach::Weights(_) | CpuReach::Table(..) => Err(no_walk()),
        }
    }

    /// Rows of a table, and of graphs the size of each.
    ///
    /// # Errors
    /// The batch was not made from a table.
    pub fn table(&self) -> Result<(&TableRows, &[T])> {
        match &self.reach {
            CpuReach::Table(table, sizes) => Ok((table, sizes)),
            _ => Err(Error::Device("this batch was not made from a table of walks".into())),
        }
    }

    /// The values of the first of so many copies of each column, increasing, where they are few; else none. Of sparse features zero is
    /// one of them. With `scale`, also what dropout of inputs makes of them: zero, and values times that.
    pub fn few_values(&self, copies: usize, scale: Option<T>) -> Arc<Vec<Vec<T>>> {
        let of_column = |values: &mut dyn Iterator<Item = f32>| {
            let mut few: Vec<f32> = Vec::new();
            for value in values {
                if let Err(place) = few.binary_search_by(|known| known.partial_cmp(&value).unwrap_or(Ordering::Equal)) {
                    if few.len() == FEW_VALUES {
                        return Vec::new();
                    }
                    few.insert(place, value);
                }
            }
            few.into_iter().map(T::from_f32).collect()
        };
        let all = |columns: usize, column: &(dyn Fn(usize) -> Vec<T> + Sync)| -> Vec<Vec<T>> {
            (0..columns / copies).into_par_iter().map(|at| column(at * copies)).collect()
        };
        let found = self.values.get_or_init(|| {
            let of_rows = |length: usize| length / self.nodes.max(1);
            Arc::new(match &self.features {
                InputFeatures::Dense(x) => {
                    let cols = of_rows(x.len());
                    all(cols, &|k| of_column(&mut x[k..].iter().step_by(cols).copied()))
                }
                InputFeatures::Half(x) => {
                    let cols = of_rows(x.len());
                    all(cols, &|k| of_column(&mut x[k..].iter().step_by(cols).map(|value| value.to_f32())))
                }
                InputFeatures::Sparse(x) => all(x.col_ptr.len() - 1, &|k| {
                    let values = &x.values[x.col_ptr[k]..x.col_ptr[k + 1]];
                    of_column(&mut std::iter::once(0.0).chain(values.iter().copied()))
                }),
            })
        });
        match scale {
            None => Arc::clone(found),
            Some(scale) => Arc::new(found.iter().map(|few| with_dropped(few, scale)).collect()),
        }
    }

    /// X of a batch that holds every entry as f32, rows x d.
    ///
    /// # Errors
    /// It holds X otherwise: not one from a table.
    pub fn dense_features(&self) -> Result<&[f32]> {
        match &self.features {
            InputFeatures::Dense(x) => Ok(x),
            _ => Err(Error::Device("the features of a batch from a table of walks are dense".into())),
        }
    }

    /// Rows of X whose inputs may be dropped one by one; those behind them are points of a grid and ends of walks.
    pub fn maskable(&self) -> usize {
        match &self.reach {
            CpuReach::Table(table, _) => table.own(),
            _ => self.nodes,
        }
    }
}

impl InputFeatures {
    fn new(features: &Features, sparse: bool) -> Result<InputFeatures> {
        Ok(match features.values() {
            Values::Dense(values) => InputFeatures::Dense(values.clone()),
            Values::Half(values) => InputFeatures::Half(values.clone()),
            Values::Sparse(rows) if sparse => InputFeatures::Sparse(Box::new(SparseColumns::new(rows, features.cols)?)),
            Values::Sparse(_) => InputFeatures::Dense(features.dense().into_owned().into()),
        })
    }

    /// `X[first..,k]`, as many as there are places; `cols` is d. Not for sparse features.
    #[inline(always)]
    pub fn load<T: Real>(&self, k: usize, first: usize, cols: usize, column: &mut [T]) {
        let places = column.iter_mut();
        match self {
            InputFeatures::Dense(x) => {
                let x = &x[first * cols + k..];
                places.zip(x.iter().step_by(cols)).for_each(|(to, &value)| *to = T::from_f32(value));
            }
            InputFeatures::Half(x) => {
                let x = &x[first * cols + k..];
                places.zip(x.iter().step_by(cols)).for_each(|(to, value)| *to = T::from_f32(value.to_f32()));
            }
            InputFeatures::Sparse(_) => {}
        }
    }
}

impl SparseColumns {
    fn new(by_rows: &SparseRows, cols: usize) -> Result<SparseColumns> {
        let (row_ptr, col_idx, from) = (&by_rows.row_ptr[..], &by_rows.col_idx[..], &by_rows.values[..]);
        if u32::try_from(from.len()).is_err() {
            return Err(Error::Data(format!(
                "{} non-zero features are more than the sparse path can number; set engine.sparse = off",
                from.len()
            )));
        }
        let mut col_ptr = vec![0usize; cols + 1];
        col_idx.iter().for_each(|&k| col_ptr[k as usize + 1] += 1);
        (1..=cols).for_each(|k| col_ptr[k] += col_ptr[k - 1]);
        let mut next = col_ptr.clone();
        let (mut rows, mut values) = (vec![0; from.len()], vec![0.0; from.len()]);
        let mut places = vec![0; from.len()];
        for (i, range) in row_ptr.windows(2).enumerate() {
            for e in range[0] as usize..range[1] as usize {
                let place = &mut next[col_idx[e] as usize];
                (rows[*place], values[*place], places[e]) = (i as u32, from[e], *place as u32);
                *place += 1;
            }
        }
        let offsets: Vec<u64> = col_ptr.iter().map(|&place| place as u64).collect();
        Ok(SparseColumns {
            row_chunks: chunks::balanced(row_ptr, chunks::FEATURE_ENTRIES),
            col_chunks: chunks::balanced(&offsets, chunks::FEATURE_ENTRIES),
            offsets,
            by_rows: by_rows.clone(),
            places,
            col_ptr,
            rows,
            values,
        })
    }
}

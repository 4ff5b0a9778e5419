//! Structural features: columns to the right of X that say where a node stands in its graph, chosen by name.
//!
//! M = D^-1 A leaves degrees out of every prediction; these columns bring them, and other counts, back as features like all
//! others. They follow from graph, walk and X alone, not from labels or splits. A [`Structure`] is what a model remembers
//! of them, so that other data get the same columns. Invariant: a dataset that has them says so ([`Dataset::structure`]),
//! so that they are never added twice.

mod columns;
mod counts;
#[cfg(test)]
mod tests;
mod word;

pub use word::StructureWord;

use super::{Dataset, Features, Schema};
use crate::error::{Error, Result};
use crate::graph::{Graph, Walk};
use columns::{beside, copied, each_nonzero};
use counts::{degrees, returns, triangles};
use serde::{Deserialize, Serialize};
use std::collections::HashSet;
use std::sync::Arc;

/// Columns that `label-by-degree` may add.
const MOST_COLUMNS: usize = 20_000;
/// See [`Structure::LAST_BUCKET`].
const LAST_BUCKET: usize = 6;
/// Added to a probability before its logarithm is taken.
const LEAST_RETURN: f64 = 1e-6;
const BUCKETS: usize = LAST_BUCKET + 1;

/// Which columns are added to the features of a dataset; kept with the model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Structure {
    /// In the order of their columns.
    words: Vec<StructureWord>,
    /// The walk that returns are of.
    walk: Walk,
    /// Columns of X that were there before.
    features: usize,
    /// (column of X, bucket of degrees) of the columns of `label-by-degree`, increasing.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    kept: Vec<(u32, u8)>,
    /// What the copies of every column are for, where there are several: they stand side by side.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    copies: Vec<String>,
}

/// Columns of one word, computed.
enum Part {
    /// A value for every node, column by column.
    Columns(Vec<Vec<f32>>),
    /// Column of every (column of X, bucket), where it was kept.
    ByDegree(Vec<Option<u32>>),
}

impl Structure {
    /// Settles which columns a dataset gets: of `label-by-degree` those that are not zero everywhere.
    ///
    /// # Errors
    /// The dataset has structural features already, or would get too many columns.
    pub fn of(dataset: &Dataset, walk: Walk, words: &[StructureWord]) -> Result<Structure> {
        if dataset.structure.is_some() {
            return Err(Error::Data(format!("{} has structural features already", dataset.name)));
        }
        let features = dataset.features.cols;
        let kept = match words.contains(&StructureWord::LabelByDegree) {
            true => occurring(&dataset.features, &degrees(&dataset.graph)),
            false => Vec::new(),
        };
        if kept.len() > MOST_COLUMNS {
            return Err(Error::Config(format!(
                "data.structure: label-by-degree would add {} columns to the {features} features of {}, at most \
                 {MOST_COLUMNS} are possible; it is meant for a few one-hot columns: leave it out",
                kept.len(),
                dataset.name
            )));
        }
        Ok(Structure { words: words.to_vec(), walk, features, kept, copies: Vec::new() })
    }

    /// The same, with as many copies of every column, one for each class of the dataset; 1: no copies.
    pub fn copied(self, dataset: &Dataset, copies: usize) -> Structure {
        let name = |class: usize| dataset.class_names.get(class).cloned().unwrap_or_else(|| format!("class {class}"));
        Structure { copies: if copies > 1 { (0..copies).map(name).collect() } else { Vec::new() }, ..self }
    }

    /// The dataset with these columns; as it is where it has them.
    ///
    /// # Errors
    /// It has other features than the dataset that the columns were settled by, or other structural ones.
    pub fn append(&self, dataset: &Dataset) -> Result<Dataset> {
        match &dataset.structure {
            Some(known) if known == self => return Ok(dataset.clone()),
            Some(_) => {
                return Err(Error::Data(format!("{} has other structural features than the model", dataset.name)));
            }
            None => {}
        }
        let (own, found) = (self.features, dataset.features.cols);
        if own != found {
            return Err(Error::Data(format!("the model reads {own} features, {} has {found}", dataset.name)));
        }
        let degrees = degrees(&dataset.graph);
        let parts = self.words.iter().map(|&word| self.part(word, &dataset.graph, &degrees));
        let parts: Vec<Part> = parts.collect::<Result<_>>()?;
        let (x, kept) = (&dataset.features, self.kept.len());
        let mut features = beside(x, self.added(), &|i, entry| {
            let mut first = 0;
            for part in &parts {
                match part {
                    Part::Columns(columns) => {
                        columns.iter().enumerate().for_each(|(at, column)| entry(first + at, column[i]));
                        first += columns.len();
                    }
                    Part::ByDegree(places) => {
                        let bucket = bucket(degrees[i]);
                        each_nonzero(x, i, |k, value| {
                            if let Some(at) = places[k * BUCKETS + bucket] {
                                entry(first + at as usize, value);
                            }
                        });
                        first += kept;
                    }
                }
            }
        })?;
        if kept > 0 {
            features = features.compact();
        }
        if !self.copies.is_empty() {
            features = copied(&features, self.copies.len())?;
        }
        Ok(Dataset {
            features: Arc::new(features),
            feature_names: self.names(&dataset.feature_names),
            structure: Some(self.clone()),
            // The generator knows nothing of these columns.
            truth: None,
            ..dataset.clone()
        })
    }

    fn part(&self, word: StructureWord, graph: &Graph, degrees: &[u64]) -> Result<Part> {
        let each = |value: &dyn Fn(u64) -> f64| degrees.iter().map(|&degree| value(degree) as f32).collect();
        Ok(match word {
            StructureWord::Degree => Part::Columns(vec![each(&|degree| degree as f64)]),
            StructureWord::LogDegree => Part::Columns(vec![each(&|degree| (degree as f64).ln_1p())]),
            StructureWord::Returns => Part::Columns(returns(graph, self.walk).into()),
            StructureWord::LogReturns => {
                let log =
                    |column: Vec<f32>| column.into_iter().map(|p| (f64::from(p) + LEAST_RETURN).ln() as f32).collect();
                Part::Columns(returns(graph, self.walk).map(log).into())
            }
            StructureWord::Triangles => {
                let counts = triangles(graph)?.into_iter();
                Part::Columns(vec![counts.map(|count| (count as f64).ln_1p() as f32).collect()])
            }
            StructureWord::Bias => Part::Columns(vec![vec![1.0; degrees.len()]]),
            StructureWord::LabelByDegree => {
                let mut places = vec![None; self.features * BUCKETS];
                for (at, &(k, bucket)) in self.kept.iter().enumerate() {
                    // A model file may say anything.
                    let place = (usize::from(bucket) < BUCKETS)
                        .then(|| places.get_mut(k as usize * BUCKETS + usize::from(bucket)))
                        .flatten();
                    *place.ok_or_else(|| {
                        Error::Data(format!("the model has a structural feature of column {k}, which does not exist"))
                    })? = Some(at as u32);
                }
                Part::ByDegree(places)
            }
        })
    }

    /// Columns of X before.
    pub fn features(&self) -> usize {
        self.features
    }

    /// Nodes with this many neighbours or more are taken together.
    pub const LAST_BUCKET: usize = LAST_BUCKET;

    /// What was asked for, in the order of columns.
    pub fn asked(&self) -> impl Iterator<Item = StructureWord> + '_ {
        self.words.iter().copied()
    }

    /// (column of X, bucket of degrees) of each column of `label-by-degree`.
    pub fn kept(&self) -> impl Iterator<Item = (usize, usize)> + '_ {
        self.kept.iter().map(|&(k, bucket)| (k as usize, usize::from(bucket)))
    }

    /// Columns of X behind; none where there would be too many to count.
    pub fn columns(&self) -> Option<usize> {
        self.features.checked_add(self.added())?.checked_mul(self.copies())
    }

    /// Names of the columns of X before, from those of all behind.
    pub fn own_names(&self, all: &[String]) -> Vec<String> {
        let of = self.copies.first().map(|copy| format!(" [{copy}]"));
        let own = all.iter().step_by(self.copies()).take(self.features);
        own.map(|name| of.as_ref().and_then(|of| name.strip_suffix(of.as_str())).unwrap_or(name).to_string()).collect()
    }

    /// Copies of every column.
    pub fn copies(&self) -> usize {
        self.copies.len().max(1)
    }

    /// Number of columns that are added, without copies.
    pub fn added(&self) -> usize {
        let columns = |word: &StructureWord| match word {
            StructureWord::Returns | StructureWord::LogReturns => 3,
            StructureWord::LabelByDegree => self.kept.len(),
            _ => 1,
        };
        self.words.iter().map(columns).sum()
    }

    /// Whether a column depends on the edges of the graph.
    pub fn reads_edges(&self) -> bool {
        self.words.iter().any(|&word| word != StructureWord::Bias)
    }

    /// The words, separated by commas.
    pub fn words(&self) -> String {
        self.words.iter().map(|word| word.name()).collect::<Vec<_>>().join(", ")
    }

    /// Names of all columns, those of X first.
    pub fn names(&self, own: &[String]) -> Vec<String> {
        let mut names: Vec<String> = (0..self.features).map(|k| feature_name(own, k)).collect();
        let taken: HashSet<&String> = own.iter().collect();
        let added = self.words.iter().flat_map(|&word| self.names_of(word, own));
        let added = added.map(|name| if taken.contains(&name) { format!("{name} (structure)") } else { name });
        names.extend(added.collect::<Vec<_>>());
        if self.copies.is_empty() {
            return names;
        }
        let copies = |name: &String| self.copies.iter().map(|copy| format!("{name} [{copy}]")).collect::<Vec<_>>();
        names.iter().flat_map(copies).collect()
    }

    fn names_of(&self, word: StructureWord, own: &[String]) -> Vec<String> {
        match word {
            StructureWord::Degree => vec!["degree".into()],
            StructureWord::LogDegree => vec!["log(1 + degree)".into()],
            StructureWord::Returns => (2..5).map(|steps| format!("returns in {steps} steps")).collect(),
            StructureWord::LogReturns => (2..5).map(|steps| format!("log of returns in {steps} steps")).collect(),
            StructureWord::Triangles => vec!["log(1 + triangles)".into()],
            StructureWord::Bias => vec!["one per node".into()],
            StructureWord::LabelByDegree => {
                let name = |&(k, bucket): &(u32, u8)| {
                    let name = feature_name(own, k as usize);
                    match usize::from(bucket) {
                        0 => format!("{name} with no neighbours"),
                        1 => format!("{name} with 1 neighbour"),
                        LAST_BUCKET.. => format!("{name} with {LAST_BUCKET} or more neighbours"),
                        degree => format!("{name} with {degree} neighbours"),
                    }
                };
                self.kept.iter().map(name).collect()
            }
        }
    }
}

impl Dataset {
    /// Copies of every column.
    pub fn copies(&self) -> usize {
        self.structure.as_ref().map_or(1, Structure::copies)
    }

    /// The columns of its table that features are shown by: of copies, every one is a feature for itself.
    pub fn shown_schema(&self) -> Option<&Schema> {
        self.schema.as_deref().filter(|_| self.copies() == 1)
    }

    /// Columns of X that are its own, with their copies; they come first.
    pub fn own_columns(&self) -> usize {
        self.own_features() * self.copies()
    }

    /// Columns of X that are its own, before structural ones and without copies.
    pub fn own_features(&self) -> usize {
        self.structure.as_ref().map_or(self.features.cols, Structure::features)
    }
}

fn feature_name(own: &[String], k: usize) -> String {
    own.get(k).cloned().unwrap_or_else(|| format!("feature {k}"))
}

fn bucket(degree: u64) -> usize {
    degree.min(LAST_BUCKET as u64) as usize
}

/// Every (column of X, bucket of degrees) with a value that is not zero, increasing.
fn occurring(features: &Features, degrees: &[u64]) -> Vec<(u32, u8)> {
    let mut occurs = vec![false; features.cols * BUCKETS];
    for (i, &degree) in degrees.iter().enumerate() {
        each_nonzero(features, i, |k, _| occurs[k * BUCKETS + bucket(degree)] = true);
    }
    let places = occurs.iter().enumerate().filter(|(_, occurs)| **occurs);
    places.map(|(place, _)| ((place / BUCKETS) as u32, (place % BUCKETS) as u8)).collect()
}

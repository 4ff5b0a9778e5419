//! Labels from a known additive teacher, the kind of model that is trained here.
//!
//! ```text
//! z[i, k]         = standardised( M^hop_k response_k(x[., k]) )[i]         k over the informative columns
//! score[i, class] = sum_k W[class, k] z[i, k]
//! label[i]        = argmax_class score[i, class] + temperature * Gumbel[i, class]
//! ```
//!
//! `W[class, k]` is what response_k makes of the mean of community `class`, less the average over communities; columns
//! of hop 0 count [`LOCAL_WEIGHT`] of that, and every class has weights of length 1. So class and community go
//! together, and labels are draws from softmax(score / temperature): on average no model does better than the teacher.
//! The temperature is the one at which the teacher is right on [`TEACHER_ACCURACY`] of the nodes. Invariant: every
//! class occurs.

use super::features::{HOPS, Informative};
use super::walk::{self, WIDTH};
use super::{Generator, INFORMATIVE};
use harmonia_graph::error::{Error, Result};
use harmonia_graph::graph::Graph;
use harmonia_graph::seed::{Purpose, Stream};
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

/// Share of nodes on which the noise does not change the teacher's answer.
pub const TEACHER_ACCURACY: f64 = 0.85;

/// Weight of the columns of hop 0 against the others: a node's own value is noisier than an average over neighbours,
/// and a teacher that leaned on it as much could do without the graph.
pub(super) const LOCAL_WEIGHT: f64 = 0.5;

// The columns of one hop are carried together.
const _: () = assert!(INFORMATIVE.div_ceil(HOPS) <= WIDTH);

/// What the teacher makes of a feature.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum TeacherResponse {
    /// x
    #[serde(rename = "x")]
    Linear,
    /// tanh(2x)
    #[serde(rename = "tanh(2x)")]
    Tanh,
    /// x^2 - 1
    #[serde(rename = "x^2-1")]
    Square,
}

impl TeacherResponse {
    /// All of them.
    pub const ALL: [TeacherResponse; 3] = [TeacherResponse::Linear, TeacherResponse::Tanh, TeacherResponse::Square];

    /// The response at `x`.
    pub fn at(self, x: f64) -> f64 {
        match self {
            TeacherResponse::Linear => x,
            TeacherResponse::Tanh => (2.0 * x).tanh(),
            TeacherResponse::Square => x * x - 1.0,
        }
    }
}

/// How the labels depend on one column.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TrueColumn {
    /// Which column of X.
    pub feature: usize,
    /// The one walk order at which it matters.
    pub hop: usize,
    /// Through which response.
    pub response: TeacherResponse,
}

/// What a model should find: these columns matter, at these hops, and no others.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Truth {
    /// Informative columns by feature index.
    pub columns: Vec<TrueColumn>,
}

/// Labels and the facts behind them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Planted {
    /// Class of each node. Not part of the serialised facts: labels are data.
    #[serde(skip)]
    pub labels: Vec<u32>,
    /// What the labels depend on.
    pub truth: Truth,
    /// Scale of the noise on the scores.
    pub temperature: f64,
    /// Accuracy of the noise-free teacher, on average the best there is.
    pub teacher_accuracy: f64,
    /// Accuracy of the teacher when it may only use columns of hop 0: what the graph is not needed for.
    pub local_accuracy: f64,
    /// Share of the most frequent class: what can be had without any input.
    pub majority_share: f64,
    /// Share of edge rows that repeat another.
    pub duplicate_share: f64,
}

/// Standardised columns of one hop, n x columns.
pub(super) struct Group {
    columns: usize,
    values: Vec<f32>,
}

impl Group {
    /// z of a node.
    pub(super) fn row(&self, i: usize) -> &[f32] {
        &self.values[i * self.columns..(i + 1) * self.columns]
    }
}

/// The teacher's view of one node.
struct Answer {
    class: u32,
    /// Class by the columns of hop 0 alone.
    local_class: u32,
    /// Largest temperature that leaves `class` the label.
    flips_above: f64,
}

impl Generator {
    /// Labels on `graph`, which is the one built from [`Generator::edges`].
    ///
    /// # Errors
    /// A graph of another size, or one with weights.
    pub fn labels(&self, graph: &Graph) -> Result<Planted> {
        let entries = self.check_graph(graph)?;
        let nodes = self.shape.nodes;
        let teacher = Teacher { generator: self, groups: self.groups(graph), weights: self.weights() };
        let answers: Vec<Answer> =
            (0..nodes).into_par_iter().map_init(Workings::default, |workings, i| teacher.answer(i, workings)).collect();
        let temperature = temperature(&answers);
        let mut labels: Vec<u32> = (answers.par_iter().enumerate())
            .map_init(Workings::default, |workings, (i, answer)| {
                if temperature <= answer.flips_above { answer.class } else { teacher.label(i, temperature, workings) }
            })
            .collect();
        teacher.let_every_class_occur(&mut labels);

        let share = |count: usize| count as f64 / nodes as f64;
        let right = |class: fn(&Answer) -> u32| {
            share(answers.iter().zip(&labels).filter(|&(answer, &label)| class(answer) == label).count())
        };
        let column = |&Informative { feature, hop, response, .. }: &Informative| TrueColumn { feature, hop, response };
        Ok(Planted {
            truth: Truth { columns: self.informative.iter().map(column).collect() },
            temperature,
            teacher_accuracy: right(|answer| answer.class),
            local_accuracy: right(|answer| answer.local_class),
            majority_share: share(counts(&labels, self.shape.classes).into_iter().max().unwrap_or(0)),
            duplicate_share: 1.0 - graph.directed_edges() as f64 / entries.max(1) as f64,
            labels,
        })
    }

    /// Entries that the generated graph may have at most.
    ///
    /// # Errors
    /// It is another graph.
    pub(super) fn check_graph(&self, graph: &Graph) -> Result<usize> {
        let (nodes, rows) = (self.shape.nodes, self.shape.edge_rows);
        // An undirected row is entered both ways; repeats merge.
        let entries = if self.shape.directed { rows } else { 2 * rows };
        if graph.nodes() != nodes || graph.directed_edges() > entries || graph.adjacency().weights.is_some() {
            return Err(Error::Data(format!(
                "expected the generated graph of {nodes} nodes and at most {entries} entries without weights, found \
                 one of {} nodes and {} entries",
                graph.nodes(),
                graph.directed_edges()
            )));
        }
        Ok(entries)
    }

    fn columns_of(&self, hop: usize) -> impl Iterator<Item = &Informative> {
        self.informative.iter().filter(move |column| column.hop == hop)
    }

    /// z, hop by hop.
    pub(super) fn groups(&self, graph: &Graph) -> Vec<Group> {
        let nodes = self.shape.nodes;
        let mut scratch = Vec::new();
        (0..HOPS)
            .map(|hop| {
                let columns: Vec<&Informative> = self.columns_of(hop).collect();
                let width = columns.len();
                let mut values = vec![0f32; nodes * width];
                if width == 0 {
                    return Group { columns: width, values };
                }
                values.par_chunks_exact_mut(width).enumerate().for_each(|(i, row)| {
                    for (value, column) in row.iter_mut().zip(&columns) {
                        *value = column.response.at(f64::from(self.informative_value(i, column))) as f32;
                    }
                });
                for _ in 0..hop {
                    scratch.resize(values.len(), 0.0);
                    walk::step(&mut scratch, &values, graph, width);
                    std::mem::swap(&mut values, &mut scratch);
                }
                walk::standardise(&mut values, width);
                Group { columns: width, values }
            })
            .collect()
    }

    /// W, classes x informative columns in the order of [`Generator::groups`].
    fn weights(&self) -> Vec<f64> {
        let classes = self.shape.classes;
        let columns: Vec<&Informative> = (0..HOPS).flat_map(|hop| self.columns_of(hop)).collect();
        let at_mean = |column: &Informative, class| column.response.at(column.mean(class));
        let average: Vec<f64> = (columns.iter())
            .map(|column| (0..classes).map(|class| at_mean(column, class)).sum::<f64>() / classes as f64)
            .collect();
        let mut weights = Vec::with_capacity(classes * columns.len());
        for class in 0..classes {
            let weight = |(column, mean): (&&Informative, &f64)| {
                (at_mean(column, class) - mean) * if column.hop == 0 { LOCAL_WEIGHT } else { 1.0 }
            };
            let row: Vec<f64> = columns.iter().zip(&average).map(weight).collect();
            let length = row.iter().map(|weight| weight * weight).sum::<f64>().sqrt();
            weights.extend(row.iter().map(|weight| if length > 0.0 { weight / length } else { 0.0 }));
        }
        weights
    }
}

/// The temperature that leaves the teacher right on the share of nodes it should be right on.
fn temperature(answers: &[Answer]) -> f64 {
    let mut flips: Vec<f64> = answers.iter().map(|answer| answer.flips_above).collect();
    let wrong = ((1.0 - TEACHER_ACCURACY) * flips.len() as f64) as usize;
    if wrong >= flips.len() {
        return 0.0;
    }
    let (_, &mut limit, _) = flips.select_nth_unstable_by(wrong, f64::total_cmp);
    if limit.is_finite() { limit } else { 1.0 }
}

fn counts(labels: &[u32], classes: usize) -> Vec<usize> {
    let mut counts = vec![0; classes];
    labels.iter().for_each(|&label| counts[label as usize] += 1);
    counts
}

/// First of the largest.
fn argmax(values: impl Iterator<Item = f64>) -> usize {
    let best = |best: (usize, f64), next: (usize, f64)| if next.1 > best.1 { next } else { best };
    values.enumerate().fold((0, f64::NEG_INFINITY), best).0
}

struct Teacher<'a> {
    generator: &'a Generator,
    groups: Vec<Group>,
    weights: Vec<f64>,
}

/// What the teacher works out for one node; kept from node to node to save allocations.
#[derive(Default)]
struct Workings {
    /// z, columns of hop 0 first.
    row: Vec<f64>,
    /// Of each class.
    scores: Vec<f64>,
    /// Of each class.
    gumbels: Vec<f64>,
}

impl Teacher<'_> {
    /// Fills z and the scores of node `i`.
    fn score(&self, i: usize, workings: &mut Workings) {
        let Workings { row, scores, .. } = workings;
        row.clear();
        for group in &self.groups {
            row.extend(group.row(i).iter().map(|&value| f64::from(value)));
        }
        scores.clear();
        scores.extend(self.weights.chunks_exact(row.len()).map(|weights| dot(weights, row)));
    }

    /// Fills the noise of node `i`.
    fn draw(&self, i: usize, workings: &mut Workings) {
        let stream = Stream::new(self.generator.seed, Purpose::GenerateLabels, 0);
        let classes = self.generator.shape.classes as u64;
        let pairs = classes.div_ceil(2);
        // Away from 0, whose logarithm is not a number to go on with.
        let gumbel = |uniform: f64| -(-uniform.max(f64::EPSILON).ln()).ln();
        let numbers = (i as u64 * pairs..(i as u64 + 1) * pairs).map(|pair| stream.uniform_pair(pair));
        workings.gumbels.clear();
        workings.gumbels.extend(numbers.flat_map(|(a, b)| [a, b]).take(classes as usize).map(gumbel));
    }

    fn answer(&self, i: usize, workings: &mut Workings) -> Answer {
        self.score(i, workings);
        self.draw(i, workings);
        let Workings { row, scores, gumbels } = workings;
        let class = argmax(scores.iter().copied());
        let local = &row[..self.groups.first().map_or(0, |group| group.columns)];
        let local_class = argmax(self.weights.chunks_exact(row.len()).map(|weights| dot(weights, local)));
        // The label leaves `class` where score + temperature x Gumbel of another class gets ahead.
        let (score, gumbel) = (scores[class], gumbels[class]);
        let flips_above = (scores.iter().zip(gumbels))
            .filter(|(_, other_gumbel)| **other_gumbel > gumbel)
            .map(|(other, other_gumbel)| (score - other) / (*other_gumbel - gumbel))
            .fold(f64::INFINITY, f64::min);
        Answer { class: class as u32, local_class: local_class as u32, flips_above }
    }

    fn label(&self, i: usize, temperature: f64, workings: &mut Workings) -> u32 {
        self.score(i, workings);
        self.draw(i, workings);
        let noisy = workings.scores.iter().zip(&workings.gumbels).map(|(score, gumbel)| score + temperature * gumbel);
        argmax(noisy) as u32
    }

    /// A class nobody has (in tiny datasets) goes to the node closest to it, of those whose class has others.
    fn let_every_class_occur(&self, labels: &mut [u32]) {
        let mut counts = counts(labels, self.generator.shape.classes);
        let mut workings = Workings::default();
        for missing in 0..counts.len() {
            if counts[missing] > 0 {
                continue;
            }
            let mut closest = None;
            for i in (0..labels.len()).filter(|&i| counts[labels[i] as usize] > 1) {
                self.score(i, &mut workings);
                let score = workings.scores[missing];
                if closest.is_none_or(|(best, _)| score > best) {
                    closest = Some((score, i));
                }
            }
            if let Some((_, i)) = closest {
                counts[labels[i] as usize] -= 1;
                counts[missing] = 1;
                labels[i] = missing as u32;
            }
        }
    }
}

/// Over the shorter of the two.
fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

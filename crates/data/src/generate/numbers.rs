//! Numbers from the same teacher as the classes: a task to be fitted instead of told apart.
//!
//! ```text
//! score[i]  = sum_k u_k z[i, k]           z as in `teacher`, u_k = +-1, half of that for columns of hop 0; variance 1
//! target[i] = CENTRE + SPREAD (sqrt(TEACHER_R2) score[i] + sqrt(1 - TEACHER_R2) noise[i])
//! ```
//!
//! The centre and the spread are far from 0 and 1 on purpose: a program that forgets the units of the target shows it.

use super::Generator;
use super::teacher::{Group, LOCAL_WEIGHT};
use harmonia_graph::error::Result;
use harmonia_graph::graph::Graph;
use harmonia_graph::seed::{Purpose, Stream};
use rayon::prelude::*;

/// Share of the variance that the noise-free teacher explains; on average no model explains more.
pub const TEACHER_R2: f64 = 0.85;
/// Mean of the targets.
pub const CENTRE: f64 = 50.0;
/// Their standard deviation.
pub const SPREAD: f64 = 12.0;

impl Generator {
    /// A number for every node of `graph`, which is the one built from [`Generator::edges`].
    ///
    /// # Errors
    /// A graph of another size, or one with weights.
    pub fn numbers(&self, graph: &Graph) -> Result<Vec<f32>> {
        self.check_graph(graph)?;
        let groups = self.groups(graph);
        let mut scores: Vec<f64> = (0..graph.nodes()).into_par_iter().map(|i| score(&groups, i)).collect();
        let count = scores.len().max(1) as f64;
        let mean = scores.iter().sum::<f64>() / count;
        let deviation = (scores.iter().map(|score| (score - mean).powi(2)).sum::<f64>() / count).sqrt();
        let scale = if deviation > 0.0 { 1.0 / deviation } else { 0.0 };
        scores.par_iter_mut().for_each(|score| *score = (*score - mean) * scale);
        let noise = Stream::new(self.seed(), Purpose::GenerateLabels, 1);
        let target = |(i, score): (usize, &f64)| {
            let signal = TEACHER_R2.sqrt() * score + (1.0 - TEACHER_R2).sqrt() * noise.normal(i as u64);
            (CENTRE + SPREAD * signal) as f32
        };
        Ok(scores.par_iter().enumerate().map(target).collect())
    }
}

fn score(groups: &[Group], i: usize) -> f64 {
    let mut sign = 1.0;
    let mut sum = 0.0;
    for (hop, group) in groups.iter().enumerate() {
        for &value in group.row(i) {
            sum += sign * if hop == 0 { LOCAL_WEIGHT } else { 1.0 } * f64::from(value);
            sign = -sign;
        }
    }
    sum
}

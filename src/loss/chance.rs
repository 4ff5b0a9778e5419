//! What a model that always predicts the same would get: early stopping does not count before training beats it.

use super::Scores;
use harmonia_graph::dataset::Labels;

/// Scores of the best constant prediction.
#[derive(Clone, Debug, PartialEq)]
pub struct Chance {
    /// Its training loss.
    pub train_loss: f64,
    /// Its scores on the validation units.
    pub valid: Scores,
}

/// Of classes: always the frequencies of the training units.
pub(super) fn of_frequencies(labels: &Labels, train: &[u32], valid: &[u32]) -> Chance {
    let columns: Vec<Vec<f64>> = match labels.class_ids() {
        Some(_) => vec![frequencies(labels, train, 0, labels.names())],
        None => (0..labels.outputs()).map(|c| frequencies(labels, train, c, 2)).collect(),
    };
    let loss = |units: &[u32]| {
        let sum: f64 = (units.iter())
            .flat_map(|&unit| labels.codes(unit as usize).zip(&columns))
            .map(|(code, column)| -column[code as usize].max(1e-12).ln())
            .sum();
        sum / units.len().max(1) as f64
    };
    let guesses: Vec<usize> = columns.iter().map(|column| largest(column)).collect();
    let hits: usize = (valid.iter())
        .map(|&unit| labels.codes(unit as usize).zip(&guesses).filter(|&(code, &g)| code as usize == g).count())
        .sum();
    // On the validation units, always naming their own largest class is the better guess.
    let own = match labels.class_ids() {
        Some(_) => frequencies(labels, valid, 0, labels.names()).into_iter().fold(0.0, f64::max),
        None => 0.0,
    };
    let accuracy = hits as f64 / (valid.len().max(1) * columns.len()) as f64;
    let scores = [("accuracy", Some(accuracy.max(own))), ("roc_auc", Some(0.5)), ("nll", Some(loss(valid)))];
    Chance { train_loss: loss(train), valid: Scores::new(scores) }
}

fn frequencies(labels: &Labels, units: &[u32], column: usize, classes: usize) -> Vec<f64> {
    let mut counts = vec![0.0; classes];
    for &unit in units {
        if let Some(code) = labels.codes(unit as usize).nth(column) {
            counts[code as usize] += 1.0 / units.len() as f64;
        }
    }
    counts
}

fn largest(values: &[f64]) -> usize {
    values.iter().enumerate().fold(0, |best, (i, &value)| if value > values[best] { i } else { best })
}

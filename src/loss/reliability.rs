//! Reliability: among predictions that are made with some confidence, how many are right.
//!
//! Confidence is the probability of the predicted class: of a binary task the larger of p and 1 - p, and of several labels
//! each is a prediction of its own. Confidences fall into 15 bins of equal width. The expected calibration error is the
//! mean over predictions of |accuracy - mean confidence| of their bin.

use super::{Objective, Scored};
use serde::{Deserialize, Serialize};

/// Bins from confidence 0 to 1.
const BINS: usize = 15;

/// One prediction of a class.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Guess {
    /// Probability of the predicted class.
    pub confidence: f64,
    /// The predicted class; of a label, 0 or 1.
    pub predicted: usize,
    /// The true class, likewise.
    pub truth: usize,
}

/// Predictions of similar confidence.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Bin {
    /// Mean confidence; none of an empty bin.
    pub confidence: Option<f64>,
    /// Share that is right.
    pub accuracy: Option<f64>,
    /// How many there are.
    pub count: usize,
}

/// How far probabilities can be trusted.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Reliability {
    /// Expected calibration error.
    pub ece: f64,
    /// By confidence, from 0 to 1 in equal steps.
    pub bins: Vec<Bin>,
}

/// Of the parts of a run that say something about other data.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Reliabilities {
    /// Test units; none where there are none.
    pub test: Option<Reliability>,
    /// Validation units, which calibration is fitted on.
    pub validation: Option<Reliability>,
}

impl Reliability {
    /// Of predictions; none of none.
    pub fn of(guesses: &[Guess]) -> Option<Reliability> {
        // Count, sum of confidences, right ones.
        let mut sums = [(0usize, 0.0f64, 0usize); BINS];
        for guess in guesses {
            let bin = &mut sums[((guess.confidence * BINS as f64) as usize).min(BINS - 1)];
            *bin = (bin.0 + 1, bin.1 + guess.confidence, bin.2 + usize::from(guess.predicted == guess.truth));
        }
        let ece: f64 = sums.iter().map(|&(_, confidence, right)| (right as f64 - confidence).abs()).sum();
        let mean = |sum: f64, count: usize| (count > 0).then(|| sum / count as f64);
        let bin = |&(count, confidence, right): &(usize, f64, usize)| Bin {
            confidence: mean(confidence, count),
            accuracy: mean(right as f64, count),
            count,
        };
        let reliability = Reliability { ece: ece / guesses.len() as f64, bins: sums.iter().map(bin).collect() };
        (!guesses.is_empty()).then_some(reliability)
    }
}

/// The class that all of several predictions name although the labels have more.
pub fn only_class(guesses: &[Guess]) -> Option<usize> {
    let (first, others) = guesses.split_first()?;
    let same = others.iter().all(|guess| guess.predicted == first.predicted);
    (same && others.iter().any(|guess| guess.truth != first.truth)).then_some(first.predicted)
}

impl Objective {
    /// Reliability of the predictions of some units; none of numbers.
    pub fn reliability(self, scored: &Scored<'_>) -> Option<Reliability> {
        Reliability::of(&self.guesses(scored))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use harmonia_graph::dataset::Labels;
    use harmonia_graph::seed::{Purpose, Stream};

    /// Bin by bin, prediction by prediction, from the definition.
    fn slow(guesses: &[Guess]) -> (f64, Vec<usize>) {
        let (mut ece, mut counts) = (0.0, Vec::new());
        for bin in 0..BINS {
            let (low, high) = (bin as f64 / BINS as f64, (bin + 1) as f64 / BINS as f64);
            let inside: Vec<&Guess> = (guesses.iter())
                .filter(|guess| guess.confidence >= low && (guess.confidence < high || bin + 1 == BINS))
                .collect();
            counts.push(inside.len());
            if inside.is_empty() {
                continue;
            }
            let size = inside.len() as f64;
            let accuracy = inside.iter().filter(|guess| guess.predicted == guess.truth).count() as f64 / size;
            let confidence = inside.iter().map(|guess| guess.confidence).sum::<f64>() / size;
            ece += size / guesses.len() as f64 * (accuracy - confidence).abs();
        }
        (ece, counts)
    }

    #[test]
    fn it_is_that_of_the_definition() {
        let mut rng = Stream::new(5, Purpose::Noise, 0).rng();
        for (labels, outputs) in [
            (Labels::Classes { ids: (0..200).map(|_| (4.0 * rng.uniform()) as _).collect(), classes: 4 }, 4),
            (Labels::Classes { ids: (0..200).map(|_| (2.0 * rng.uniform()) as _).collect(), classes: 2 }, 1),
            (Labels::Multi { bits: (0..600).map(|_| (2.0 * rng.uniform()) as _).collect(), width: 3 }, 3),
        ] {
            let units: Vec<u32> = (0..200).collect();
            let logits: Vec<f32> = (0..200 * outputs).map(|_| (8.0 * rng.uniform() - 4.0) as f32).collect();
            let objective = Objective::of(&labels);
            let scored = Scored { labels: &labels, units: &units, logits: &logits, scaling: None };
            let guesses = objective.guesses(&scored);
            let reliability = objective.reliability(&scored).unwrap();
            let (ece, counts) = slow(&guesses);
            assert!((reliability.ece - ece).abs() < 1e-12, "{} {ece}", reliability.ece);
            assert_eq!(reliability.bins.iter().map(|bin| bin.count).collect::<Vec<_>>(), counts);
            // What is right by these guesses is what the accuracy counts.
            let right = guesses.iter().filter(|guess| guess.predicted == guess.truth).count();
            let accuracy = objective.score(&scored).get("accuracy").unwrap();
            assert!((right as f64 / guesses.len() as f64 - accuracy).abs() < 1e-12);
        }
    }

    #[test]
    fn by_hand() {
        let guess = |confidence, right: bool| Guess { confidence, predicted: 1, truth: usize::from(right) };
        let reliability = Reliability::of(&[guess(1.0, true), guess(1.0, false), guess(0.5, true)]).unwrap();
        assert!((reliability.ece - (2.0 * 0.5 + 0.5) / 3.0).abs() < 1e-12, "{}", reliability.ece);
        assert_eq!(reliability.bins[14], Bin { confidence: Some(1.0), accuracy: Some(0.5), count: 2 });
        assert_eq!((reliability.bins[7].count, reliability.bins[0]), (1, Bin::default()));
        assert_eq!(Reliability::of(&[]), None);
        let values = Labels::Values { values: vec![0.5], width: 1 };
        let scored = Scored { labels: &values, units: &[0], logits: &[0.1], scaling: None };
        assert_eq!(Objective::Squared.reliability(&scored), None);
    }

    #[test]
    fn one_class_is_noticed_only_where_there_are_more() {
        let guess = |predicted, truth| Guess { confidence: 0.9, predicted, truth };
        assert_eq!(only_class(&[guess(1, 0), guess(1, 1)]), Some(1));
        assert_eq!(only_class(&[guess(1, 1), guess(1, 1)]), None);
        assert_eq!(only_class(&[guess(0, 0), guess(1, 0), guess(1, 1)]), None);
        assert_eq!(only_class(&[]), None);
    }
}

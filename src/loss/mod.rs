//! What is minimised, how outputs become predictions, and how those are scored: one file per loss.
//!
//! A loss is a type that implements [`Loss`], in a file of its own, and one line of the list below; its kernel is a file
//! `kernels/loss_*.cuh` and one line of `kernels/loss.cu`. [`Objective`] names one at run time, and `on_loss!` runs code
//! that is written over the trait for the one it names.

mod calibration;
mod chance;
mod constant;
mod details;
pub mod metrics;
mod ranking;
mod reliability;
mod scores;
mod sigmoid;
mod softmax;
mod squared;
mod targets;
mod weighted;

pub use calibration::{Calibration, Line};
pub use chance::Chance;
pub use details::{Details, DetailsOfParts, Threshold};
pub use reliability::{Bin, Guess, Reliabilities, Reliability, only_class};
pub use scores::{ScoreKind, Scored, Scores};
pub use sigmoid::Sigmoid;
pub use softmax::Softmax;
pub use squared::Squared;
pub use targets::{Target, TargetScaling, Targets};
pub use weighted::WEIGHTED_LOSS;

use crate::real::Real;
use harmonia_graph::dataset::Labels;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A loss over the targets of a batch.
pub trait Loss {
    /// What one logit, or one row of logits, is held against.
    type Target: Target;
    /// Name of the kernel that computes it.
    const KERNEL: &'static str;
    /// Its scores, in the order they are shown.
    const SCORES: &'static [ScoreKind];
    /// The one of them that is the mean loss itself.
    const LOSS: &'static str;
    /// Whether outputs are numbers in the units of the target, not logits of classes.
    const REGRESSION: bool = false;

    /// Whether labels are of the kind it is made for; the first loss that fits is taken where none is asked for.
    fn fits(labels: &Labels) -> bool;

    /// Targets of a row of logits.
    fn width(outputs: usize) -> usize {
        outputs
    }

    /// Writes the targets of a unit.
    fn target(to: &mut [Self::Target], labels: &Labels, unit: usize, scaling: Option<&TargetScaling>);

    /// Loss of one row, and its gradient by the logits; neither is divided by the number of targets yet.
    fn row<T: Real>(d_row: &mut [T], row: &[T], targets: &[Self::Target]) -> f64;

    /// Turns the logits of a unit into what is predicted: probabilities, or numbers.
    fn predict(row: &mut [f64]);

    /// Scores of some units, at least one.
    fn score(scored: &Scored<'_>) -> Scores;

    /// What the best constant prediction would get.
    fn chance(labels: &Labels, train: &[u32], valid: &[u32], scaling: Option<&TargetScaling>) -> Chance;

    /// Every class that is predicted, with its probability; nothing where numbers are.
    fn guesses(_: &Scored<'_>) -> Vec<Guess> {
        Vec::new()
    }

    /// What makes probabilities of logits trustworthy; nothing where there are none. `weights`: how often each unit counts.
    fn line(_: &Scored<'_>, weights: &[f64]) -> Option<Line> {
        let _ = weights;
        None
    }
}

// The first argument is a dollar sign: a macro that writes a macro has no other way to say one.
macro_rules! losses {
    ($d:tt $($(#[$about:meta])* $loss:ident, $name:literal;)*) => {
        /// The loss a task trains with.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
        #[serde(rename_all = "lowercase")]
        pub enum Objective {
            $($(#[$about])* $loss,)*
        }

        impl Objective {
            /// Every loss, in the order in which they are tried for labels.
            pub const ALL: &[Objective] = &[$(Objective::$loss),*];

            /// As in checkpoints and in `train.loss`.
            pub fn name(self) -> &'static str {
                match self {
                    $(Objective::$loss => $name,)*
                }
            }
        }

        macro_rules! on_loss {
            ($d objective:expr, $d L:ident => $d work:expr) => {
                match $d objective {
                    $($crate::loss::Objective::$loss => {
                        type $d L = $crate::loss::$loss;
                        $d work
                    })*
                }
            };
        }
    };
}

losses! { $
    /// Softmax cross-entropy over the outputs.
    Softmax, "softmax";
    /// Sigmoid cross-entropy on each output (binary and multi-label), summed over the outputs of a unit.
    Sigmoid, "sigmoid";
    /// Squared error of standardised targets, summed over the outputs of a unit.
    Squared, "squared";
}
pub(crate) use on_loss;

impl Objective {
    /// The loss that fits labels: the first of the list.
    pub fn of(labels: &Labels) -> Objective {
        // Every kind of labels has its loss: `every_kind_of_labels_has_its_loss`.
        Objective::ALL.iter().copied().find(|objective| objective.fits(labels)).unwrap_or(Objective::Sigmoid)
    }

    /// Whether labels are of the kind it is made for.
    pub fn fits(self, labels: &Labels) -> bool {
        on_loss!(self, L => L::fits(labels))
    }

    /// Name of its kernel.
    pub fn kernel(self) -> &'static str {
        on_loss!(self, L => L::KERNEL)
    }

    /// Its scores, in the order they are shown.
    pub fn scores(self) -> &'static [ScoreKind] {
        on_loss!(self, L => L::SCORES)
    }

    /// The score that is the mean loss itself.
    pub fn loss_score(self) -> &'static ScoreKind {
        let name = on_loss!(self, L => L::LOSS);
        let scores = self.scores();
        scores.iter().find(|kind| kind.name == name).unwrap_or(&scores[0])
    }

    /// Targets of a row of logits.
    pub fn width(self, outputs: usize) -> usize {
        on_loss!(self, L => L::width(outputs))
    }

    /// Targets of a batch: one row per row of the logits, filled where a unit is a target.
    pub fn targets(
        self,
        labels: &Labels,
        rows: usize,
        units: &[(u32, u32)],
        scaling: Option<&TargetScaling>,
    ) -> Targets {
        let width = self.width(labels.outputs());
        on_loss!(self, L => {
            let mut targets = vec![<L as Loss>::Target::ABSENT; rows * width];
            for &(row, unit) in units {
                L::target(&mut targets[row as usize * width..][..width], labels, unit as usize, scaling);
            }
            Target::wrap(targets)
        })
    }

    /// Turns the logits of a unit into what is predicted: probabilities, or numbers.
    pub fn predict(self, row: &mut [f64]) {
        on_loss!(self, L => L::predict(row));
    }

    /// Scores of some units; without any, every score is undefined.
    pub fn score(self, scored: &Scored<'_>) -> Scores {
        match scored.units.is_empty() {
            true => Scores::undefined(self),
            false => on_loss!(self, L => L::score(scored)),
        }
    }

    /// What the best constant prediction would get.
    pub fn chance(self, labels: &Labels, train: &[u32], valid: &[u32], scaling: Option<&TargetScaling>) -> Chance {
        on_loss!(self, L => L::chance(labels, train, valid, scaling))
    }

    /// Every class that is predicted, with its probability; nothing of a regression.
    pub fn guesses(self, scored: &Scored<'_>) -> Vec<Guess> {
        on_loss!(self, L => L::guesses(scored))
    }

    fn line(self, scored: &Scored<'_>, weights: &[f64]) -> Option<Line> {
        on_loss!(self, L => L::line(scored, weights))
    }

    /// Whether outputs are numbers in the units of the target, not logits of classes.
    pub fn is_regression(self) -> bool {
        on_loss!(self, L => L::REGRESSION)
    }

    /// The score of a name; where it has none of that name, its loss.
    pub fn score_kind(self, name: &str) -> &'static ScoreKind {
        self.scores().iter().find(|kind| kind.name == name).unwrap_or(self.loss_score())
    }
}

/// `train.loss`: a loss by name, or the one that fits the labels.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LossChoice {
    /// `auto`: the first that fits the labels.
    #[default]
    Auto,
    /// The one that is named.
    Named(Objective),
}

impl Serialize for LossChoice {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            LossChoice::Auto => serializer.serialize_str("auto"),
            LossChoice::Named(objective) => objective.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for LossChoice {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<LossChoice, D::Error> {
        let word = String::deserialize(deserializer)?;
        let named = Objective::ALL.iter().copied().find(|objective| objective.name() == word);
        match (word.as_str(), named) {
            ("auto", _) => Ok(LossChoice::Auto),
            (_, Some(objective)) => Ok(LossChoice::Named(objective)),
            (_, None) => {
                let names: Vec<&str> = Objective::ALL.iter().map(|objective| objective.name()).collect();
                let expected = format!("train.loss is `{word}`; expected auto, {}", names.join(", "));
                Err(serde::de::Error::custom(expected))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_labels_has_its_loss() {
        let classes = |classes| Labels::Classes { ids: vec![0, 1], classes };
        assert_eq!(Objective::of(&classes(2)), Objective::Sigmoid);
        assert_eq!(Objective::of(&classes(3)), Objective::Softmax);
        assert_eq!(Objective::of(&Labels::Multi { bits: vec![0, 1], width: 2 }), Objective::Sigmoid);
        assert_eq!(Objective::of(&Labels::Values { values: vec![0.5], width: 1 }), Objective::Squared);
    }

    #[test]
    fn names_are_those_of_checkpoints() {
        for &objective in Objective::ALL {
            assert_eq!(serde_json::to_value(objective).unwrap(), objective.name());
            assert!(objective.scores().iter().any(|kind| kind.name == objective.loss_score().name));
        }
        let read = |text: &str| serde_json::from_str::<LossChoice>(text);
        assert_eq!(read("\"auto\"").unwrap(), LossChoice::Auto);
        assert_eq!(read("\"squared\"").unwrap(), LossChoice::Named(Objective::Squared));
        assert!(read("\"huge\"").unwrap_err().to_string().contains("expected auto, softmax"));
    }
}

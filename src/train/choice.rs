//! What a run settles by its own validation units before it begins: of several numbers of `train.smoothness` the one whose training
//! ends with the best score, the one that chooses epochs too.
//!
//! Each is a whole training with the seed, the split and the settings of the run, so that the run itself is the best of them once
//! more, to the bit. Test units are not looked at.

use super::{Prepared, Trainer, honesty};
use crate::config::{Config, Smoothness};
use crate::device::Device;
use crate::loss::ScoreKind;
use crate::tabulate::Tables;
use crate::team::any;
use harmonia_graph::error::{Error, Result};
use harmonia_graph::stop::Stop;
use harmonia_graph::watch::Watch;
use rayon::prelude::*;

/// What was chosen of what.
#[derive(Clone, Debug, PartialEq)]
pub struct Choice {
    /// The number that is best.
    pub smoothness: f64,
    /// Every number, and the validation score of its best epoch; none where training diverged.
    pub tried: Vec<(f64, Option<f64>)>,
    /// Which score.
    score: &'static ScoreKind,
}

impl Choice {
    /// For people, in a line.
    pub fn line(&self) -> String {
        let shown = |score: &Option<f64>| score.map_or_else(|| "diverged".into(), |score| self.score.show(score));
        let tried: Vec<String> =
            self.tried.iter().map(|(strength, score)| format!("{strength}: {}", shown(score))).collect();
        format!(
            "train.smoothness = {}, the best of {} by {} of the validation units ({})",
            self.smoothness,
            self.tried.len(),
            self.score.label,
            tried.join(", ")
        )
    }
}

/// The settings of a run with what its validation units have chosen, and that choice; none where there is nothing to choose. Without
/// validation units, the first is taken.
///
/// # Errors
/// All trainings diverged, a stop was asked for, or the device failed.
pub fn settle<D: Device<Real = f32>>(
    device: &D,
    run: &Prepared,
    config: &Config,
    (tables, stop): (&Tables, &Stop),
) -> Result<Option<(Config, Choice)>> {
    let choices = config.train.smoothness.choices();
    if choices.len() < 2 {
        return Ok(None);
    }
    let with = |strength: f64| {
        let mut settled = config.clone();
        settled.train.smoothness = Smoothness::from(strength);
        settled
    };
    let one = |&strength: &f64| score(device, run, &with(strength), (tables, stop));
    // Results do not depend on threads.
    let scores: Vec<Result<Scored>> = match run.is_small(device, config) {
        true => choices.par_iter().map(one).collect(),
        false => choices.iter().map(one).collect(),
    };
    let (mut tried, mut best, mut diverged) = (Vec::new(), None, None);
    for (&strength, score) in choices.iter().zip(scores) {
        match score {
            Ok(scored) => {
                if best.is_none_or(|(_, merit)| scored.merit() > merit) {
                    best = Some((strength, scored.merit()));
                }
                tried.push((strength, Some(scored)));
            }
            Err(error @ Error::Diverged(_)) => {
                tried.push((strength, None));
                diverged = Some(error);
            }
            Err(error) => return Err(error),
        }
    }
    let score = tried.iter().find_map(|(_, scored)| scored.as_ref().map(|scored| scored.kind));
    match (best, score, diverged) {
        (Some((smoothness, _)), Some(score), _) => {
            let tried = tried.into_iter().map(|(strength, scored)| (strength, scored.map(|scored| scored.value)));
            let choice = Choice { smoothness, tried: tried.collect(), score };
            Ok(Some((with(smoothness), choice)))
        }
        (_, _, Some(diverged)) => Err(diverged),
        _ => Err(Error::Internal("there was nothing to choose from".into())),
    }
}

/// The number of settings in which nothing is left to choose.
///
/// # Errors
/// Something is.
pub fn settled(config: &Config) -> Result<f64> {
    config.train.smoothness.settled().ok_or_else(|| {
        let message = "train.smoothness is a list; expected one number here, because nothing is chosen by validation";
        Error::Config(message.into())
    })
}

/// The validation score of the best epoch of a training.
struct Scored {
    kind: &'static ScoreKind,
    value: f64,
}

impl Scored {
    fn merit(&self) -> f64 {
        self.kind.merit(self.value)
    }
}

fn score<D: Device<Real = f32>>(
    device: &D,
    run: &Prepared,
    config: &Config,
    (tables, stop): (&Tables, &Stop),
) -> Result<Scored> {
    let mut trainer = Trainer::new(device, run, config, None)?;
    let watch = Watch::new(&|_| (), stop.clone());
    while !trainer.finished() {
        // Of several processes all stop, or none.
        if run.share.as_ref().map_or(Ok(stop.asked()), |share| any(&*share.team, stop.asked()))? {
            return Err(Error::Cancelled);
        }
        trainer.epoch()?;
        honesty::look(&mut trainer, run, config, tables, &watch)?;
    }
    let (kind, value) = trainer.best_score();
    Ok(Scored { kind, value })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::loss::Objective;

    #[test]
    fn a_choice_is_a_line() {
        let score = Objective::Sigmoid.loss_score();
        let choice =
            Choice { smoothness: 0.01, tried: vec![(0.0, Some(0.45946)), (0.01, Some(0.4537)), (1e9, None)], score };
        assert_eq!(
            choice.line(),
            format!(
                "train.smoothness = 0.01, the best of 3 by {} of the validation units (0: 0.4595, 0.01: 0.4537, \
                 1000000000: diverged)",
                score.label
            )
        );
    }
}

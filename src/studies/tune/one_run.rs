//! One run of a search, in memory: what it trains on, and how it is measured.

use super::Tuning;
use super::search::{Job, Measured, Round};
use crate::device::Device;
use crate::loss::{Scores, TargetScaling};
use crate::tabulate::Tables;
use crate::train::{Prepared, Trainer, choice};
use harmonia_graph::dataset::{Dataset, SplitRule};
use harmonia_graph::error::{Error, Result};
use std::collections::HashSet;
use std::time::Instant;

impl<D: Device<Real = f32>> Tuning<'_, D> {
    /// Trains, and scores what settings are compared by; with `test`, the test units too, and what a constant gets there. Settings under which it diverges, or
    /// that do not fit the data or the device, count as worst.
    pub(super) fn train(&self, job: &Job, test: bool) -> Result<(Measured, Option<[Scores; 2]>)> {
        let mut config = self.trials[job.trial].config.clone();
        config.train.epochs = config.train.epochs.div_ceil(job.divisor);
        let Round { mut name, valid } = job.round;
        let held_out = match name.fold {
            Some(fold) if self.inner > 1 && !test => {
                let apart = with_part_held_out(self.whole, [config.run.folds, fold, valid], name.seed)?;
                (config.run.folds, name.fold) = (0, None);
                Some(apart)
            }
            _ => None,
        };
        let start = Instant::now();
        let epochs = config.train.epochs;
        let failed = |why: Error| Measured {
            validation: Scores::default(),
            best_epoch: 0,
            epochs,
            seconds: start.elapsed().as_secs_f64(),
            failed: Some(why.to_string()),
        };
        let prepared = Prepared::new(held_out.as_ref().unwrap_or(self.whole), &config, name)
            .and_then(|run| run.memory(self.device, &config).check(self.device).map(|_| run));
        let run = match prepared {
            Ok(run) => run,
            // The starting settings have been tried before.
            Err(error @ (Error::Data(_) | Error::Config(_) | Error::Device(_))) => return Ok((failed(error), None)),
            Err(error) => return Err(error),
        };
        // The recipe itself may leave a choice to validation.
        let config = match choice::settle(self.device, &run, &config, (&Tables::default(), self.stop)) {
            Ok(settled) => settled.map_or(config, |(config, _)| config),
            Err(error @ (Error::Config(_) | Error::Diverged(_))) => return Ok((failed(error), None)),
            Err(error) => return Err(error),
        };
        let mut trainer = match Trainer::new(self.device, &run, &config, None) {
            Ok(trainer) => trainer,
            Err(error @ Error::Config(_)) => return Ok((failed(error), None)),
            Err(error) => return Err(error),
        };
        while !trainer.finished() {
            match trainer.epoch() {
                Ok(_) => {}
                Err(error @ Error::Diverged(_)) => return Ok((failed(error), None)),
                Err(error) => return Err(error),
            }
            if !trainer.finished() {
                self.stop.check()?;
            }
        }
        if config.train.calibrate {
            trainer.calibrate()?;
        }
        let measured = Measured {
            validation: trainer.score(if held_out.is_some() {
                &run.dataset.split.test
            } else {
                &run.dataset.split.valid
            })?,
            best_epoch: trainer.progress().stopping.best_epoch.map_or(0, |epoch| epoch + 1),
            epochs: config.train.epochs,
            seconds: start.elapsed().as_secs_f64(),
            failed: None,
        };
        if !test {
            return Ok((measured, None));
        }
        let (labels, split) = (&run.dataset.labels, &run.dataset.split);
        let scaling = TargetScaling::of(labels, &split.train);
        let constant = run.objective.constant_scores(labels, &split.train, &split.test, scaling.as_ref());
        Ok((measured, Some([trainer.score(&split.test)?, constant])))
    }
}

/// A fold whose `valid`-th part validates, with the part after that one held out of training to compare settings by: it is
/// `test` of the split. The part that tests the fold is in none of the three.
fn with_part_held_out(whole: &Dataset, [folds, fold, valid]: [usize; 3], seed: u64) -> Result<Dataset> {
    let split = |valid: usize| {
        let mut dataset = Dataset { own_splits: Vec::new(), ..whole.clone() };
        SplitRule::Fold { folds, fold, valid }.apply(&mut dataset, seed)?;
        Ok::<_, Error>(dataset)
    };
    let comparing: HashSet<u32> = split(valid % (folds - 1) + 1)?.split.valid.into_iter().collect();
    let mut dataset = split(valid)?;
    dataset.split.test = comparing.iter().copied().collect();
    dataset.split.test.sort_unstable();
    dataset.split.train.retain(|unit| !comparing.contains(unit));
    Ok(dataset)
}

#[cfg(test)]
mod tests {
    use super::*;
    use harmonia_graph::dataset::{Features, Labels, Level};
    use harmonia_graph::graph::{Direction, Graph, Split};

    #[test]
    fn what_compares_settings_neither_trains_nor_validates_nor_tests() {
        let graph = Graph::from_edges(50, &[], None, Direction::Undirected).unwrap();
        let labels = Labels::Classes { ids: (0..50).map(|unit| unit % 2).collect(), classes: 2 };
        let features = Features::new(50, 1, vec![1.0; 50]).unwrap();
        let whole =
            Dataset::new("d", graph, (0..=50).collect(), features, labels, Level::Graph, Split::default()).unwrap();
        for valid in 1..5 {
            let mut fold = whole.clone();
            SplitRule::Fold { folds: 5, fold: 3, valid }.apply(&mut fold, 7).unwrap();
            let apart = with_part_held_out(&whole, [5, 3, valid], 7).unwrap().split;
            assert_eq!(apart.valid, fold.split.valid);
            let mut all = [apart.train, apart.valid, apart.test.clone()].concat();
            all.extend(&fold.split.test);
            all.sort_unstable();
            assert_eq!(all, (0..50).collect::<Vec<u32>>());
            assert_eq!(apart.test.len(), 10);
        }
    }
}

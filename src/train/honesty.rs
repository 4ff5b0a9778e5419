//! Whether a table of walks says the truth, and a finer one, or more walks to correct it, where it does not.
//!
//! What a table says of the validation units is held against the whole graph now and then, so seldom that it costs some eighth of
//! the time, and more often in the beginning of a long training, when responses bend most. Deterministic: when, and what follows,
//! depends on sizes and numbers alone, so that a run that is resumed goes the same way.

use super::trainer::Which;
use super::{Prepared, Trainer};
use crate::config::Config;
use crate::device::Device;
use crate::plan::{DatasetSizes, Plan};
use crate::tabulate::{TablePlan, Tables};
use harmonia_graph::error::Result;
use harmonia_graph::watch::Watch;

/// Share of the validation loss that a table may be off.
pub const MOST_OFF: f64 = 0.01;
/// A look at the whole graph is taken once epochs from the table have cost so many times as much.
const PATIENCE: f64 = 8.0;

/// Looks at the whole graph where it is time to, and goes over to what comes nearer where the table in use is off by more than
/// [`MOST_OFF`]. What was done, for people.
///
/// # Errors
/// The device failed, a stop was asked for, or a disk is full.
pub fn look<D: Device<Real = f32>>(
    trainer: &mut Trainer<'_, D>,
    run: &Prepared,
    config: &Config,
    tables: &Tables,
    watch: &Watch<'_>,
) -> Result<Option<String>> {
    let Some(plan) = current(trainer, run) else { return Ok(None) };
    let epochs = trainer.progress().epoch;
    let due = || is_due(epochs, config.train.epochs, interval(&plan, run, config));
    if plan.grid.is_exact() || trainer.finished() || !due() {
        return Ok(None);
    }
    let Some(losses) = trainer.table_losses(Which::Current)?.filter(|losses| losses.gap() > MOST_OFF) else {
        return Ok(None);
    };
    let off = format!(
        "epoch {epochs}: validation loss {:.4} by the table of {} points, {:.4} on the whole graph",
        losses.tabulated, plan.points, losses.exact
    );
    let Some(better) = plan.better(config, &run.dataset) else { return Ok(Some(off)) };
    trainer.replace_table(tables.table(&run.dataset, config.walk, &better, watch)?, &better)?;
    let what = match better.walks {
        0 => format!("{} points", better.points),
        1 => "a walk of each node to correct them".into(),
        walks => format!("{walks} walks of each node to correct them"),
    };
    Ok(Some(format!("{off}; going on with {what}")))
}

/// The table of a run that had gone over to a finer one before it was interrupted.
///
/// # Errors
/// As [`look`].
pub fn restore<D: Device<Real = f32>>(
    trainer: &mut Trainer<'_, D>,
    run: &Prepared,
    config: &Config,
    tables: &Tables,
    watch: &Watch<'_>,
) -> Result<()> {
    let Some(plan) = run.tabulation.plan() else { return Ok(()) };
    let (points, walks) = in_use(trainer, plan);
    if points != plan.points {
        let plan = TablePlan { walks, ..plan.finer(config, &run.dataset, points) };
        trainer.replace_table(tables.table(&run.dataset, config.walk, &plan, watch)?, &plan)?;
    }
    Ok(())
}

/// The plan of the table in use.
fn current<D: Device<Real = f32>>(trainer: &Trainer<'_, D>, run: &Prepared) -> Option<TablePlan> {
    let (plan, table) = (run.tabulation.plan()?, trainer.table()?);
    let (points, walks) = in_use(trainer, plan);
    let bits = table.blocks().first().map_or(plan.bits, |block| block.cells.bits());
    Some(TablePlan { points, walks, bits, grid: table.grid.clone(), ..plan.clone() })
}

/// Points and walks, which may be more than planned.
fn in_use<D: Device<Real = f32>>(trainer: &Trainer<'_, D>, plan: &TablePlan) -> (usize, usize) {
    let progress = trainer.progress();
    (progress.table_points.unwrap_or(plan.points), progress.table_walks.unwrap_or(plan.walks))
}

/// Whether a look comes after so many epochs of all: after every interval, and before the first at its half, its quarter and so on,
/// where the training is so long that these are of no account.
fn is_due(epochs: usize, all: usize, interval: usize) -> bool {
    let early = interval.ilog2() as usize;
    let halved = || (1..=early).any(|times| interval >> times == epochs);
    epochs.is_multiple_of(interval) || (all >= interval.saturating_mul(early) && halved())
}

/// Epochs between looks.
fn interval(plan: &TablePlan, run: &Prepared, config: &Config) -> usize {
    let whole = Plan::cost(run.plan.space, config.engine, DatasetSizes::of(&run.dataset), &run.layout).total();
    (PATIENCE * whole / 2.0 / plan.epoch_bytes(&run.dataset).max(1.0)).ceil().clamp(1.0, 1e9) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looks_come_early_where_a_training_is_long() {
        let looks = |all: usize, interval: usize| -> Vec<usize> {
            (1..all).filter(|&epochs| is_due(epochs, all, interval)).collect()
        };
        assert_eq!(looks(170, 33), [1, 2, 4, 8, 16, 33, 66, 99, 132, 165]);
        // Each of them costs as much as several epochs: a short training has none.
        assert_eq!(looks(100, 33), [33, 66, 99]);
        assert_eq!(looks(4, 88), [] as [usize; 0]);
        assert_eq!(looks(4, 1), [1, 2, 3]);
    }
}

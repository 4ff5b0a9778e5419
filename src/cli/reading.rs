//! What commands that read a trained run share: the flags, opening it, and tables for people.

use super::data::{AccessFlags, DirectoryFlag};
use super::signals::{self, catch_interrupts};
use super::{voice, watch};
use crate::cli::threads::with_threads;
use crate::config::{Config, Data};
use crate::runs::{ReadModel, TrainedRun, is_gone, is_here, load_dataset, members};
use clap::{Args, ValueEnum};
use harmonia_graph::error::{Error, Result, one_line};
use harmonia_graph::watch::Watch;
use std::path::{Path, PathBuf};

/// The run and where its data are.
#[derive(Args, Clone, Debug)]
pub struct RunArgument {
    /// Run directory, as harmonia-train makes it
    #[arg(value_name = "RUN")]
    pub run: PathBuf,
    #[command(flatten)]
    pub directory: DirectoryFlag,
    #[command(flatten)]
    pub access: AccessFlags,
    /// Threads (0: one per core)
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub threads: usize,
}

/// What is taken off every response.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Centre {
    /// Its mean over all nodes; the constants are added to the intercept
    Mean,
    /// Nothing: terms are those of the formula, constants included
    None,
}

impl Centre {
    /// c_k of every feature.
    pub fn of(self, run: &TrainedRun) -> Result<Vec<f64>> {
        match self {
            Centre::Mean => run.centres(),
            Centre::None => Ok(vec![0.0; run.factors.features()]),
        }
    }

    pub fn name(self) -> &'static str {
        match self {
            Centre::Mean => "mean",
            Centre::None => "none",
        }
    }
}

impl RunArgument {
    /// Works with the threads asked for, and stops on Ctrl-C.
    pub fn with<R: Send>(&self, work: impl FnOnce() -> Result<R> + Send) -> Result<R> {
        catch_interrupts()?;
        with_threads(self.threads, work)?
    }

    /// The directory of the one run, or of the first of several, having said so.
    pub fn first_member(&self) -> Result<PathBuf> {
        let mut all = members(&self.run)?;
        if all.len() > 1 {
            let (count, first) = (all.len(), all[0].display());
            voice::note(format_args!("{} holds {count} models; reading {first}", self.run.display()));
        }
        Ok(all.swap_remove(0))
    }

    /// The one run, or the first of several, having said so.
    pub fn first(&self) -> Result<TrainedRun> {
        self.open(&self.first_member()?)
    }

    /// Every model of the run.
    pub fn all(&self) -> Result<Vec<TrainedRun>> {
        members(&self.run)?.iter().map(|path| self.open(path)).collect()
    }

    /// Every model of the run without its data; these are looked at where something is not known and they are here. `importance`: whether
    /// that is asked for.
    pub fn models(&self, importance: bool) -> Result<Vec<ReadModel>> {
        let watch = Watch::new(&|_| (), signals::stop());
        let mut all = members(&self.run)?.iter().map(|path| ReadModel::open(path)).collect::<Result<Vec<_>>>()?;
        for model in all.iter_mut().filter(|model| model.lacks(importance)) {
            match self.has_data(&model.saved.config) {
                true => model.complete(&self.open(&model.path)?, importance, &watch)?,
                false => voice::note(format_args!(
                    "the data of {} are not here, and the run does not say all that is shown of them elsewhere",
                    model.path.display()
                )),
            }
        }
        Ok(all)
    }

    /// Whether the data that a run names are here.
    pub fn has_data(&self, config: &Config) -> bool {
        is_here(&self.data_of(config))
    }

    fn data_of(&self, config: &Config) -> Data {
        let mut data = config.data.clone();
        if let Some(directory) = &self.directory.data_dir {
            data.dir = directory.display().to_string();
        }
        data
    }

    pub fn open(&self, path: &Path) -> Result<TrainedRun> {
        let run = self.opened(path)?;
        if let Some(changed) = &run.changed {
            voice::note(changed);
        }
        if run.summary.is_none() {
            voice::note(format_args!("{} is not complete; reading its best epoch so far", path.display()));
        }
        Ok(run)
    }

    fn opened(&self, path: &Path) -> Result<TrainedRun> {
        TrainedRun::open(path, |config| {
            let data = self.data_of(config);
            check_not_gone(&data)?;
            watch::with(&self.access.access(), |context| load_dataset(&data, context))
        })
    }
}

/// Refuses data of training that are not there any more.
///
/// # Errors
/// They are gone.
pub fn check_not_gone(data: &Data) -> Result<()> {
    match is_gone(data) {
        true => Err(Error::Config(format!(
            "the data of training ({}) are not here: bring them back, or name others, as in `harmonia predict RUN DATA` and \
             `harmonia explain RUN --data DATA`",
            one_line(&data.dataset)
        ))),
        false => Ok(()),
    }
}

/// Rows of cells as aligned text: the first `left` columns to the left, the others to the right.
pub fn table(rows: &[Vec<String>], left: usize) -> String {
    let width = |text: &str| text.chars().count();
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let widths: Vec<usize> = (0..columns)
        .map(|at| rows.iter().filter_map(|row| row.get(at)).map(|cell| width(cell)).max().unwrap_or(0))
        .collect();
    let mut out = String::new();
    for row in rows {
        let mut line = String::new();
        for (at, cell) in row.iter().enumerate() {
            let padding = " ".repeat(widths[at] - width(cell));
            line += &if at < left { format!("{cell}{padding}  ") } else { format!("{padding}{cell}  ") };
        }
        out += &format!("  {}\n", line.trim_end());
    }
    out
}

/// A number for a table: few digits, fixed point where that reads well.
pub fn number(value: f64) -> String {
    match value.abs() {
        0.0 => "0".into(),
        size if !(1e-4..1e6).contains(&size) => format!("{value:.3e}"),
        _ => format!("{value:.4}"),
    }
}

/// How the numbers of a column are written, all alike: at least four decimals, and so many that the largest shows five
/// digits. None: as powers of ten.
#[derive(Clone, Copy)]
pub struct Decimals(Option<usize>);

impl Decimals {
    /// For a column of these numbers.
    pub fn of(values: impl IntoIterator<Item = f64>) -> Decimals {
        let largest = values.into_iter().fold(0.0, |largest: f64, value| largest.max(value.abs()));
        Decimals(match largest {
            0.0 => Some(4),
            size if !(1e-5..1e6).contains(&size) => None,
            size => Some((4 - size.log10().floor() as i32).max(4) as usize),
        })
    }

    /// The same decimals, or where there are none those of other numbers.
    pub fn or(self, values: impl IntoIterator<Item = f64>) -> Decimals {
        if self.0.is_some() { self } else { Decimals::of(values) }
    }

    /// A number with these decimals.
    pub fn show(&self, value: f64) -> String {
        match self.0 {
            // Adding zero: nobody wants to read -0.0000.
            Some(decimals) => {
                let scale = 10f64.powi(decimals as i32);
                format!("{:.decimals$}", (value * scale).round() / scale + 0.0)
            }
            None => format!("{:.3e}", value + 0.0),
        }
    }

    /// A change, with its sign.
    pub fn signed(&self, value: f64) -> String {
        let shown = self.show(value);
        let is_zero = shown.bytes().all(|byte| matches!(byte, b'0' | b'.' | b'e'));
        if value > 0.0 && !is_zero { format!("+{shown}") } else { shown }
    }
}

/// A name for a table: one line, not too long.
pub fn short(name: &str) -> String {
    const MOST: usize = 40;
    let name: String = name.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    match name.chars().count() > MOST {
        true => name.chars().take(MOST - 1).chain(['…']).collect(),
        false => name,
    }
}

#[cfg(test)]
mod tests {
    use super::Decimals;

    #[test]
    fn a_column_shows_five_digits_of_its_largest_number() {
        let shown = |column: &[f64]| {
            let decimals = Decimals::of(column.iter().copied());
            column.iter().map(|&value| decimals.signed(value)).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(shown(&[]), "");
        assert_eq!(shown(&[0.0, -0.0]), "0.0000 0.0000");
        assert_eq!(shown(&[12345.678, -1e-9, 1e-9]), "+12345.6780 0.0000 0.0000");
        assert_eq!(shown(&[0.05, -0.0001234]), "+0.050000 -0.000123");
        assert_eq!(shown(&[9.99996, 0.5]), "+10.0000 +0.5000");
        assert_eq!(shown(&[1e-5, -2e-6]), "+0.000010000 -0.000002000");
        assert_eq!(shown(&[9e-6, 0.0, -0.0]), "+9.000e-6 0.000e0 0.000e0");
        assert_eq!(shown(&[-1e6, 1.5]), "-1.000e6 +1.500e0");
        assert_eq!(shown(&[f64::INFINITY, f64::NAN]), "+inf NaN");
    }
}

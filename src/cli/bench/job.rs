//! What one child process is asked to do, and what it answers.
//!
//! The program starts itself once per measurement, so that the peak of memory is that of the measurement alone. A job
//! comes as a line of JSON on standard input, the answer goes as a line of JSON to standard output. The end of
//! standard input is a request to stop: it comes when the parent asks for it, and also when the parent is no more.

use super::{accuracy, epochs, graphs};
use crate::cli::signals;
use crate::cli::threads::with_threads;
use crate::cli::{say, watch};
use crate::config::Config;
use harmonia_data::generate::made::{self, Keep, Made};
use harmonia_data::generate::{Generator, GraphShape};
use harmonia_graph::error::{Error, Result};
use serde::{Deserialize, Serialize};
use std::io::{BufRead, Read};
use std::path::{Path, PathBuf};

/// Seed of generated data.
pub const SEED: u64 = 0;

/// What a child process is asked to do.
#[derive(Debug, Serialize, Deserialize)]
pub enum Job {
    /// Make a store.
    Generate { name: String, shape: GraphShape, out: PathBuf, threads: usize },
    /// Time epochs on a store.
    Epochs(epochs::EpochsJob),
    /// Train on a store until it is as good as it gets; a table of walks is made anew.
    Accuracy { config: Config, fresh: bool },
    /// Cross-validate on a store.
    Graphs { config: Config },
}

/// The child: does the job on standard input.
pub fn run() -> Result<()> {
    let mut line = String::new();
    let input = Path::new("standard input");
    std::io::stdin().lock().read_line(&mut line).map_err(Error::io("read", input))?;
    let job: Job = serde_json::from_str(&line)
        .map_err(|error| Error::file(input, format!("is not a job: {error}; --child is for harmonia bench itself")))?;
    std::thread::spawn(|| {
        let _ = std::io::stdin().lock().read_to_end(&mut Vec::new());
        signals::stop().ask();
    });
    let answer = match job {
        Job::Generate { name, shape, out, threads } => {
            with_threads(threads, || generate(&name, shape, &out))??;
            serde_json::Value::Null
        }
        Job::Epochs(job) => {
            let threads = job.config.run.threads;
            json(with_threads(threads, || epochs::measure(&job))??)?
        }
        Job::Accuracy { config, fresh } => {
            json(with_threads(config.run.threads, || accuracy::measure(&config, fresh))??)?
        }
        Job::Graphs { config } => json(with_threads(config.run.threads, || graphs::measure(&config))??)?,
    };
    say(&format!("{answer}\n"))
}

fn json(answer: impl Serialize) -> Result<serde_json::Value> {
    serde_json::to_value(answer).map_err(|error| Error::Config(format!("cannot write the answer: {error}")))
}

fn generate(name: &str, shape: GraphShape, out: &Path) -> Result<()> {
    watch::with(&Default::default(), |context| {
        let made = Made::new(Generator::new(shape, SEED)?, false, &context.watch)?;
        made::write_store(made, name, out, Keep::default(), &context.watch)
    })
}

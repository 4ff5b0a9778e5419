//! `harmonia data fetch`.

use super::{AccessFlags, DirectoryFlag};
use crate::cli::{say, watch};
use clap::Args;
use harmonia_data::{catalogue, locate, obtain};
use harmonia_graph::error::Result;

#[derive(Args)]
pub struct Arguments {
    /// Names of datasets, as in harmonia data list
    #[arg(required = true, value_name = "NAME")]
    names: Vec<String>,
    #[command(flatten)]
    directory: DirectoryFlag,
    #[command(flatten)]
    access: AccessFlags,
}

pub fn run(arguments: &Arguments) -> Result<()> {
    // All names before the first download.
    let entries = arguments.names.iter().map(|name| catalogue::named(name)).collect::<Result<Vec<_>>>()?;
    let directory = locate::data_directory(arguments.directory.data_dir.as_deref())?;
    for entry in entries {
        watch::with(&arguments.access.access(), |context| obtain::fetch(entry, &directory, context))?;
        let place = locate::find_raw(entry, &directory).map_or(directory.clone(), |raw| raw.path);
        say(&format!("{}: {}\n", entry.name, place.display()))?;
    }
    Ok(())
}

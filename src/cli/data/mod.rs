//! `harmonia data`: known datasets, downloads, stores.

mod convert;
mod fetch;
mod generate;
mod info;
mod list;

use crate::datasets::download::Access;
use crate::error::Result;
use clap::{Args, Subcommand};
use std::path::PathBuf;

pub const EXAMPLES: &str = "\
Examples:
  harmonia data list
      every known dataset, and which of them are here
  harmonia data fetch ogbn-arxiv --yes
      download without asking; a broken download goes on where it stopped
  harmonia data convert my-graph/ --format table --out my-store
      your own tables; then: harmonia-train --dataset my-store
  harmonia data info cora
      counts, degrees, components, classes, features, splits
  harmonia data generate --like ogbn-products --scale 0.1 --out tenth
      made-up data of a known shape, with a known answer";

#[derive(Args)]
pub struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Every known dataset: task, size, licence, source, and whether it is here
    List(list::Arguments),
    /// Download the raw files of a dataset
    Fetch(fetch::Arguments),
    /// Make a store of raw files or of your own tables
    Convert(convert::Arguments),
    /// Show what a store or a known dataset holds
    Info(info::Arguments),
    /// Make data of the shape of a known dataset, with planted classes and a known answer
    Generate(generate::Arguments),
}

/// Where datasets are, and how they may be fetched.
#[derive(Args, Clone, Debug, Default)]
pub struct AccessFlags {
    /// Download without asking
    #[arg(long)]
    pub yes: bool,
    /// Never touch the network
    #[arg(long)]
    pub offline: bool,
    /// Download from URL/<Folder>/<file> instead of the publisher's address
    #[arg(long, value_name = "URL")]
    pub mirror: Option<String>,
}

impl AccessFlags {
    pub fn access(&self) -> Access {
        Access { offline: self.offline, yes: self.yes, mirror: self.mirror.clone() }
    }
}

/// `--data-dir`, as every command has it.
#[derive(Args, Clone, Debug, Default)]
pub struct DirectoryFlag {
    /// Directory of datasets [default: $HARMONIA_DATA, or the user's cache directory]
    #[arg(long, value_name = "DIR")]
    pub data_dir: Option<PathBuf>,
}

pub fn run(arguments: Arguments) -> Result<()> {
    super::catch_interrupts()?;
    match arguments.command {
        Command::List(arguments) => list::run(&arguments),
        Command::Fetch(arguments) => fetch::run(&arguments),
        Command::Convert(arguments) => convert::run(&arguments),
        Command::Info(arguments) => info::run(&arguments),
        Command::Generate(arguments) => generate::run(&arguments),
    }
}

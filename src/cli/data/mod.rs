//! `harmonia data`: known datasets, downloads, stores.

mod convert;
mod fetch;
mod generate;
mod info;
mod list;
mod partition;
mod tables;

use clap::{Args, Subcommand, ValueEnum};
use harmonia_data::download::Access;
use harmonia_graph::error::Result;
use harmonia_graph::graph::Reorder;
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
      made-up data of a known shape, with a known answer
  harmonia data convert products.zip --format ogb --out products --reorder
      nodes renumbered by communities: faster training on large graphs
  harmonia data partition products --parts 4 --method metis --out products.parts
      nodes divided among four processes, few edges between them";

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
    /// Divide the nodes of a store into parts, for several processes
    Partition(partition::Arguments),
    /// Show the tables of walks that are kept beside a store, or remove them
    Tables(tables::Arguments),
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

/// `--reorder`, as the commands that make a store have it.
#[derive(Args, Clone, Copy, Debug, Default)]
pub struct ReorderFlag {
    /// Renumber nodes so that neighbours lie close together, which makes training on large graphs faster; without a
    /// METHOD: communities. The store keeps the original numbers [default: none]
    #[arg(long, value_name = "METHOD", num_args = 0..=1, default_missing_value = "communities")]
    reorder: Option<ReorderMethod>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum ReorderMethod {
    /// As the source has them
    None,
    /// Hubs first
    Degree,
    /// Breadth first, component by component
    Bfs,
    /// By communities found by label propagation, hubs first in each
    Communities,
}

impl ReorderFlag {
    pub fn method(self) -> Option<Reorder> {
        match self.reorder? {
            ReorderMethod::None => None,
            ReorderMethod::Degree => Some(Reorder::Degree),
            ReorderMethod::Bfs => Some(Reorder::Breadth),
            ReorderMethod::Communities => Some(Reorder::Communities),
        }
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
    super::signals::catch_interrupts()?;
    match arguments.command {
        Command::List(arguments) => list::run(&arguments),
        Command::Fetch(arguments) => fetch::run(&arguments),
        Command::Convert(arguments) => convert::run(&arguments),
        Command::Info(arguments) => info::run(&arguments),
        Command::Generate(arguments) => generate::run(&arguments),
        Command::Partition(arguments) => partition::run(&arguments),
        Command::Tables(arguments) => tables::run(&arguments),
    }
}

//! `harmonia data convert`.

use crate::cli::units::{bytes, thousands};
use crate::cli::{machine, say, watch};
use crate::datasets::catalogue::Format;
use crate::datasets::convert::{self, Options};
use crate::datasets::{obtain, smiles, tudataset};
use crate::error::{Error, Result};
use crate::store::Store;
use clap::{Args, ValueEnum};
use std::path::{Path, PathBuf};
use std::time::Instant;

#[derive(Args)]
pub struct Arguments {
    /// Archive, file or directory to read
    #[arg(value_name = "ARCHIVE_OR_DIR")]
    input: PathBuf,
    /// ogb, planetoid, tudataset, heterophilous, igb, smiles or table
    #[arg(long, value_name = "FORMAT")]
    format: String,
    /// Directory to make
    #[arg(long, value_name = "STORE")]
    out: PathBuf,
    /// Name of the dataset [default: from the file]
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// Enter every edge both ways (the default for tables, and for ogbn-products)
    #[arg(long)]
    undirected: bool,
    /// Keep the direction of the edges
    #[arg(long, conflicts_with = "undirected")]
    directed: bool,
    /// Keep dense features in half precision: half the size, 11 bits
    #[arg(long)]
    f16: bool,
    /// TUDataset: what becomes of node labels and attributes
    #[arg(long, value_name = "WHICH", default_value = "default")]
    features: Columns,
    /// SMILES: column of the molecules [default: guessed from its name]
    #[arg(long, value_name = "COLUMN")]
    smiles_column: Option<String>,
    /// SMILES: column of the labels [default: guessed from its name]
    #[arg(long, value_name = "COLUMN")]
    label_column: Option<String>,
    /// Threads (0: one a core)
    #[arg(long, value_name = "N", default_value_t = 0)]
    threads: usize,
}

#[derive(Clone, Copy, ValueEnum)]
enum Columns {
    /// As the paper counts them
    Default,
    /// One-hot labels
    Labels,
    /// Attributes
    Attributes,
    /// Both
    Both,
}

pub fn run(arguments: &Arguments) -> Result<()> {
    let format: Format = arguments.format.parse()?;
    if arguments.out.exists() {
        return Err(Error::file(&arguments.out, "already exists; remove it or choose another --out"));
    }
    let options = Options {
        name: arguments.name.clone().unwrap_or_default(),
        undirected: !arguments.directed && (arguments.undirected || undirected_by_default(format, arguments)),
        half: arguments.f16,
        node_features: match arguments.features {
            Columns::Default => tudataset::NodeFeatures::Default,
            Columns::Labels => tudataset::NodeFeatures::Labels,
            Columns::Attributes => tudataset::NodeFeatures::Attributes,
            Columns::Both => tudataset::NodeFeatures::Both,
        },
        columns: smiles::Columns { smiles: arguments.smiles_column.clone(), label: arguments.label_column.clone() },
        source: None,
    };
    let start = Instant::now();
    let converted = machine::with_threads(arguments.threads, || {
        watch::with(&Default::default(), |context| {
            convert::convert(format, &arguments.input, &arguments.out, &options, &context.watch)
        })
    })??;
    obtain::report_skipped(&converted.skipped, &|line| eprintln!("note: {line}"));
    say(&format!("{}, {:.1} s\n", described(&arguments.out)?, start.elapsed().as_secs_f64()))
}

fn undirected_by_default(format: Format, arguments: &Arguments) -> bool {
    let name = arguments.name.clone().unwrap_or_else(|| {
        arguments.input.file_stem().map_or(String::new(), |stem| stem.to_string_lossy().into_owned())
    });
    format == Format::Table || (format == Format::Ogb && name.to_lowercase().ends_with("products"))
}

/// One line about a store.
pub fn described(path: &Path) -> Result<String> {
    let store = Store::open(path)?;
    let size: u64 = std::fs::read_dir(path)
        .map_err(Error::io("read", path))?
        .flatten()
        .filter_map(|entry| entry.metadata().ok())
        .map(|data| data.len())
        .sum();
    let counts = store.counts();
    Ok(format!(
        "{}: {} nodes, {} directed edges, {} features, {} classes, {}",
        path.display(),
        thousands(counts.nodes as u64),
        thousands(counts.directed_edges as u64),
        thousands(counts.features as u64),
        store.meta.classes,
        bytes(size)
    ))
}

//! `harmonia data convert`.

use super::ReorderFlag;
use crate::cli::threads::with_threads;
use crate::cli::{new_data, roles, say, voice, watch};
use clap::{Args, ValueEnum};
use harmonia_data::conversion::Common;
use harmonia_data::formats::{self, ConversionOptions, Format};
use harmonia_data::{obtain, ogb, smiles, table, tudataset};
use harmonia_graph::dataset::{ColumnKind, TableColumn};
use harmonia_graph::error::{Error, Result};
use harmonia_graph::store::Store;
use harmonia_graph::units::{bytes, thousands};
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
    #[command(flatten)]
    reorder: ReorderFlag,
    /// TUDataset: what becomes of node labels and attributes
    #[arg(long, value_name = "WHICH", default_value = "default")]
    features: TuFeatures,
    /// SMILES: column of the molecules [default: guessed from its name]
    #[arg(long, value_name = "COLUMN")]
    smiles_column: Option<String>,
    /// SMILES: column of the labels [default: guessed from its name]
    #[arg(long, value_name = "COLUMN")]
    label_column: Option<String>,
    /// Table: a file by its role, as in edges=links.csv; may be repeated
    #[arg(long, value_name = "ROLE=FILE")]
    table: Vec<String>,
    /// Table: a column by its role, as in source=from; may be repeated
    #[arg(long, value_name = "ROLE=NAME")]
    column: Vec<String>,
    /// Table: labels are numbers to be fitted, not classes; label:<name> columns are several targets
    #[arg(long)]
    regression: bool,
    /// Table: a column of weights, beside the labels: how much each node or graph counts while a model is fitted. It is no feature
    #[arg(long, value_name = "COLUMN")]
    weights: Option<String>,
    /// Table: a column to leave out; may be repeated
    #[arg(long, value_name = "NAME")]
    ignore: Vec<String>,
    /// Table: what a column of features is, as in zip=category: number, boolean, date, category or ordered; may be repeated
    #[arg(long, value_name = "NAME=KIND")]
    kind: Vec<String>,
    /// Table: columns of dates, the same as --kind NAME=date
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    dates: Vec<String>,
    /// Table: of two classes, the one that counts as positive
    #[arg(long, value_name = "CLASS")]
    positive: Option<String>,
    /// Table: split the nodes by this column of dates or numbers, which is no feature then
    #[arg(long, value_name = "NAME", requires_all = ["valid_from", "test_from"])]
    split_by: Option<String>,
    /// Table: the first value of the validation part; what comes before trains
    #[arg(long, value_name = "VALUE", requires = "split_by")]
    valid_from: Option<String>,
    /// Table: the first value of the test part
    #[arg(long, value_name = "VALUE", requires = "split_by")]
    test_from: Option<String>,
    /// Table: leave out rows of edges that are wrong (unknown nodes, weights that are not > 0), and count them
    #[arg(long)]
    drop_bad_rows: bool,
    /// Table: only edges with this value in this column, as in kind=follows
    #[arg(long, value_name = "NAME=VALUE")]
    relation: Option<String>,
    /// Threads (0: one per core)
    #[arg(long, value_name = "N", default_value_t = 0)]
    threads: usize,
}

#[derive(Clone, Copy, ValueEnum)]
enum TuFeatures {
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
    if arguments.directed && !matches!(format, Format::Ogb | Format::Igb | Format::Table) {
        return Err(Error::Config(format!("--directed: edges of the format {format} have no direction")));
    }
    if arguments.regression && format != Format::Table {
        return Err(Error::Config(format!(
            "--regression: labels of the format {format} are classes; tables may hold numbers"
        )));
    }
    if let (Some(flag), true) = (only_of_tables(arguments), format != Format::Table) {
        return Err(Error::Config(format!("{flag} is for tables (--format table), not for the format {format}")));
    }
    if arguments.out.exists() {
        return Err(Error::file(&arguments.out, "already exists; remove it or choose another --out"));
    }
    let options = ConversionOptions {
        common: Common {
            name: arguments.name.clone().unwrap_or_default(),
            undirected: !arguments.directed
                && (arguments.undirected || undirected_by_default(format, &arguments.input)),
            half: arguments.f16,
            reorder: arguments.reorder.method(),
            ..Common::default()
        },
        node_features: match arguments.features {
            TuFeatures::Default => tudataset::NodeFeatures::Default,
            TuFeatures::Labels => tudataset::NodeFeatures::Labels,
            TuFeatures::Attributes => tudataset::NodeFeatures::Attributes,
            TuFeatures::Both => tudataset::NodeFeatures::Both,
        },
        tables: tables(arguments)?,
        columns: smiles::SmilesColumns {
            smiles: arguments.smiles_column.clone(),
            label: arguments.label_column.clone(),
        },
        ..ConversionOptions::default()
    };
    let start = Instant::now();
    let converted = with_threads(arguments.threads, || {
        watch::with(&Default::default(), |context| {
            formats::convert(format, &arguments.input, &arguments.out, &options, &context.watch)
        })
    })??;
    obtain::report_skipped(&converted.skipped, &|line| voice::note(line));
    converted.notes.iter().for_each(voice::note);
    say(&format!("{}, {:.1} s\n", described(&arguments.out)?, start.elapsed().as_secs_f64()))
}

/// A flag that only tables have.
fn only_of_tables(arguments: &Arguments) -> Option<&'static str> {
    let given = [
        ("--kind", !arguments.kind.is_empty()),
        ("--dates", !arguments.dates.is_empty()),
        ("--positive", arguments.positive.is_some()),
        ("--weights", arguments.weights.is_some()),
        ("--split-by", arguments.split_by.is_some()),
        ("--drop-bad-rows", arguments.drop_bad_rows),
        ("--relation", arguments.relation.is_some()),
    ];
    given.into_iter().find(|(_, given)| *given).map(|(flag, _)| flag)
}

/// Files and columns of tables that are not called as the format has it.
fn tables(arguments: &Arguments) -> Result<table::Options> {
    let mut options = table::Options::default();
    options.columns.ignore.clone_from(&arguments.ignore);
    options.columns.regression = arguments.regression;
    options.columns.unit_weight.clone_from(&arguments.weights);
    options.kinds = kinds(arguments)?;
    options.positive.clone_from(&arguments.positive);
    options.drop_bad_rows = arguments.drop_bad_rows;
    if let (Some(column), Some(valid_from), Some(test_from)) =
        (&arguments.split_by, &arguments.valid_from, &arguments.test_from)
    {
        let [column, valid_from, test_from] = [column, valid_from, test_from].map(String::clone);
        options.split_by = Some(table::SplitBy { column, valid_from, test_from });
    }
    options.relation = arguments.relation.as_deref().map(new_data::relation).transpose()?;
    roles::files(&mut options, &arguments.table)?;
    roles::columns(&mut options.columns, &arguments.column)?;
    Ok(options)
}

/// What columns are, by flags.
fn kinds(arguments: &Arguments) -> Result<Vec<TableColumn>> {
    let dates =
        arguments.dates.iter().map(|name| Ok(TableColumn { kind: ColumnKind::Date, ..TableColumn::number(name) }));
    let said = arguments.kind.iter().map(|word| {
        let (name, kind) = word.rsplit_once('=').unwrap_or((word, ""));
        let kind = table::kind(kind).map_err(|what| Error::Config(format!("--kind {word}: {what}")))?;
        Ok(TableColumn { kind, ..TableColumn::number(name) })
    });
    dates.chain(said).collect()
}

fn undirected_by_default(format: Format, input: &Path) -> bool {
    format == Format::Table || (format == Format::Ogb && ogb::adds_inverse_edges(input))
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
        "{}: {} nodes, {} directed edges{}, {} features, {} {}, {}",
        path.display(),
        thousands(counts.nodes as u64),
        thousands(counts.directed_edges as u64),
        if store.meta.symmetric == Some(true) { " (every edge both ways)" } else { "" },
        thousands(counts.features as u64),
        store.meta.classes,
        match (store.meta.regression, store.meta.classes) {
            (false, _) => "classes",
            (true, 1) => "target",
            (true, _) => "targets",
        },
        bytes(size)
    ))
}

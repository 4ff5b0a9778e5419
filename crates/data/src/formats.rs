//! The formats of raw files, and which reader converts each to a store.
//!
//! A format is one module with a `convert`, and one line here.

use crate::conversion::{Common, Converted, stamp};
use crate::{heterophilous, igb, ogb, planetoid, smiles, table, tudataset};
use harmonia_graph::error::{Error, Result, suggestion};
use harmonia_graph::store::Source;
use harmonia_graph::watch::Watch;
use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// Settings of a conversion: those all formats share, and what each asks beside them.
#[derive(Clone, Debug, Default)]
pub struct ConversionOptions {
    /// Name, direction, precision, order.
    pub common: Common,
    /// TUDataset: which columns.
    pub node_features: tudataset::NodeFeatures,
    /// SMILES: which columns.
    pub columns: smiles::SmilesColumns,
    /// Tables: which files and columns.
    pub tables: table::Options,
    /// Files that are read, where the caller knows them; else the input, or the files directly in it.
    pub files: Vec<PathBuf>,
}

impl ConversionOptions {
    /// For `meta.json`: a store made with other settings is not the same store.
    pub(crate) fn words(&self) -> String {
        let mut words = Vec::new();
        words.extend(self.common.undirected.then(|| "undirected".to_string()));
        words.extend(self.common.half.then(|| "f16".to_string()));
        words.extend(self.common.reorder.map(|method| format!("reorder {}", method.name())));
        if self.node_features != tudataset::NodeFeatures::Default {
            words.push(format!("features {:?}", self.node_features).to_lowercase());
        }
        for (what, column) in [("smiles", &self.columns.smiles), ("label", &self.columns.label)] {
            words.extend(column.as_ref().map(|column| format!("{what} column {column}")));
        }
        words.extend(self.tables.columns.regression.then(|| "regression".to_string()));
        words.join(", ")
    }
}

macro_rules! formats {
    ($($(#[$about:meta])* $format:ident, $name:literal => |$input:ident, $target:ident, $options:ident, $watch:ident| $convert:expr;)*) => {
        /// How the raw files of a dataset are laid out, that is which reader reads them.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Format {
            $($(#[$about])* $format,)*
        }

        impl Format {
            /// Every format.
            pub const ALL: &[Format] = &[$(Format::$format),*];

            /// As people write it.
            pub fn name(self) -> &'static str {
                match self {
                    $(Format::$format => $name,)*
                }
            }

            fn read(self, input: &Path, target: &Path, options: &ConversionOptions, watch: &Watch) -> Result<Converted> {
                match self {
                    $(Format::$format => {
                        let ($input, $target, $options, $watch) = (input, target, options, watch);
                        $convert
                    })*
                }
            }
        }
    };
}

formats! {
    /// Open Graph Benchmark: `raw/edge.csv.gz`, `split/*/train.csv.gz` and so on, in a zip or a directory.
    Ogb, "ogb" => |input, target, options, watch| ogb::convert(input, target, &options.common, watch);
    /// Planetoid: the pickles `ind.<name>.*`.
    Planetoid, "planetoid" => |input, target, options, watch| planetoid::convert(input, target, &options.common, watch);
    /// TUDataset: `<NAME>_A.txt` and so on, in a zip or a directory.
    TuDataset, "tudataset" => |input, target, options, watch| {
        tudataset::convert(input, target, &options.common, options.node_features, watch)
    };
    /// Heterophilous graphs: one `.npz` with masks.
    Heterophilous, "heterophilous" => |input, target, options, watch| heterophilous::convert(input, target, &options.common, watch);
    /// Illinois Graph Benchmark: `.npy` arrays in a tar or a directory.
    Igb, "igb" => |input, target, options, watch| igb::convert(input, target, &options.common, watch);
    /// A table of molecules, one SMILES string per row.
    Smiles, "smiles" => |input, target, options, watch| smiles::convert(input, target, &options.common, &options.columns, watch);
    /// A user's own tables.
    Table, "table" => |input, target, options, watch| table::convert(input, target, &options.common, &options.tables, watch);
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Format {
    type Err = Error;

    fn from_str(word: &str) -> Result<Format> {
        Format::ALL.iter().copied().find(|format| format.name().eq_ignore_ascii_case(word)).ok_or_else(|| {
            let names: Vec<&str> = Format::ALL.iter().map(|format| format.name()).collect();
            Error::Config(format!(
                "there is no format `{word}`{}\nknown formats: {}",
                suggestion(word, names.iter().copied()),
                names.join(", ")
            ))
        })
    }
}

/// Converts `input` into a store at `target`.
///
/// # Errors
/// Input that is missing, damaged or of another format; nothing is left behind.
pub fn convert(
    format: Format,
    input: &Path,
    target: &Path,
    options: &ConversionOptions,
    watch: &Watch,
) -> Result<Converted> {
    if !input.exists() {
        return Err(Error::file(input, "there is no such file or directory to convert"));
    }
    let mut options = options.clone();
    if options.common.name.is_empty() {
        options.common.name = name_of(input);
    }
    options.common.source = Some(source(format, input, &options)?);
    format.read(input, target, &options, watch)
}

/// A name for data that came without one.
fn name_of(input: &Path) -> String {
    let absolute = std::path::absolute(input).unwrap_or_else(|_| input.to_path_buf());
    let raw = |path: &&Path| path.file_name().is_some_and(|name| !name.eq_ignore_ascii_case("raw"));
    let stem =
        absolute.ancestors().find(raw).and_then(|path| if path.is_dir() { path.file_name() } else { path.file_stem() });
    stem.map_or("data".into(), |stem| stem.to_string_lossy().to_lowercase())
}

/// Files by size and time: enough to notice that they were replaced.
fn source(format: Format, input: &Path, options: &ConversionOptions) -> Result<Source> {
    let files: Vec<PathBuf> = match input.is_dir() {
        _ if !options.files.is_empty() => options.files.clone(),
        false => vec![input.to_path_buf()],
        true => {
            let entries = std::fs::read_dir(input).map_err(Error::io("read", input))?;
            entries.flatten().map(|entry| entry.path()).collect()
        }
    };
    let mut files = files.iter().filter(|path| path.is_file()).map(|path| stamp(path)).collect::<Result<Vec<_>>>()?;
    files.sort();
    Ok(Source { format: format.name().into(), options: options.words(), files })
}

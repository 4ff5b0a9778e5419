//! Tables of molecules as SMILES strings (hERG-Karim and any CSV or TSV like it): one graph per row.
//!
//! Nodes are the heavy atoms, edges the bonds, X the 65 columns of [`FEATURE_NAMES`]. A row whose SMILES cannot be
//! read is left out and reported as [`Skipped`]; the order of the others is that of the file, whatever the number of
//! threads.

mod features;
mod molecule;
mod table;
#[cfg(test)]
mod tests;

use crate::conversion::{self, Common, Converted, only};
pub use features::{FEATURE_NAMES, FEATURES};
use harmonia_graph::dataset::{Dataset, Features, Labels, Level};
use harmonia_graph::error::{Error, Result, one_line};
use harmonia_graph::files;
use harmonia_graph::graph::{Direction, Graph, Split};
use harmonia_graph::watch::Watch;
use molecule::Molecule;
use rayon::prelude::*;
use std::path::{Path, PathBuf};

/// More distinct labels than this are taken for measurements, not classes.
const MOST_CLASSES: usize = 1000;

/// Which columns to read; a name that is not given is guessed from the header.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SmilesColumns {
    /// Column of SMILES strings; guessed: smiles, Drug or molecule.
    pub smiles: Option<String>,
    /// Column of labels; guessed: Y, label, target or activity.
    pub label: Option<String>,
}

/// A row that was left out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Skipped {
    /// Line of the file, counted from 1; the header is line 1.
    pub line: usize,
    /// What was to be read.
    pub smiles: String,
    /// Why it could not be.
    pub reason: String,
}

/// Converts a table of molecules, by itself or the only one in a directory, into a store.
///
/// # Errors
/// As [`load`], or the store cannot be written; nothing is left behind.
pub fn convert(
    input: &Path,
    target: &Path,
    common: &Common,
    columns: &SmilesColumns,
    watch: &Watch,
) -> Result<Converted> {
    let (dataset, skipped) = load(&common.name, &molecules(input)?, columns)?;
    conversion::write(dataset, target, common, watch)?;
    let place = |row: &Skipped| format!("{}: line {}: `{}`: {}", input.display(), row.line, row.smiles, row.reason);
    Ok(Converted { skipped: skipped.iter().map(place).collect(), ..Converted::default() })
}

/// Reads a table of molecules. Tabs separate fields in `.tab` and `.tsv` files, commas in `.csv`; elsewhere the first
/// line decides. Distinct labels, sorted as numbers, become classes.
///
/// # Errors
/// The file is missing or not such a table, a label is not a number, there are fewer than two classes, or no row can
/// be read.
pub fn load(name: &str, path: &Path, columns: &SmilesColumns) -> Result<(Dataset, Vec<Skipped>)> {
    let rows = table::read(path, &files::read(path)?, columns)?;
    let parsed: Vec<std::result::Result<Molecule, String>> = rows
        .par_iter()
        .map(|row| if row.label.is_some() { Molecule::parse(&row.smiles) } else { Err("no label".into()) })
        .collect();
    let (mut kept, mut skipped) = (Vec::new(), Vec::new());
    for (row, molecule) in rows.into_iter().zip(parsed) {
        match (molecule, row.label) {
            (Ok(molecule), Some(label)) => kept.push((molecule, label)),
            (molecule, _) => {
                let reason = molecule.err().unwrap_or_default();
                skipped.push(Skipped { line: row.line, smiles: row.smiles, reason });
            }
        }
    }
    if kept.is_empty() {
        let first =
            skipped.first().map_or(String::new(), |row| format!("; line {}: {}", row.line, one_line(&row.reason)));
        let message =
            format!("expected molecules as SMILES strings, none of {} rows can be read{first}", skipped.len());
        return Err(Error::file(path, message));
    }
    Ok((assemble(name, path, kept)?, skipped))
}

/// A table of molecules, by itself or in a directory.
fn molecules(input: &Path) -> Result<PathBuf> {
    ["tab", "tsv", "csv"]
        .iter()
        .find_map(|ending| only(input, ending).ok())
        .ok_or_else(|| Error::file(input, "expected one table of molecules (.csv, .tsv or .tab) in it; name the file"))
}

fn assemble(name: &str, path: &Path, molecules: Vec<(Molecule, f64)>) -> Result<Dataset> {
    let (labels, class_names) = classes(path, &molecules)?;
    let nodes = molecules.iter().map(|(molecule, _)| molecule.atoms.len()).sum();
    let mut values = Vec::with_capacity(nodes * FEATURES);
    let (mut edges, mut graph_ptr) = (Vec::new(), vec![0]);
    let mut first = 0usize;
    for (molecule, _) in &molecules {
        values.extend(molecule.atoms.iter().flatten().map(|&value| f32::from(value)));
        let offset = u32::try_from(first)
            .map_err(|_| Error::file(path, format!("more than {} atoms; split the file", u32::MAX)))?;
        edges.extend(molecule.bonds.iter().map(|&(i, j)| (offset.saturating_add(i), offset.saturating_add(j))));
        first += molecule.atoms.len();
        graph_ptr.push(first);
    }
    let graph = Graph::from_edges(nodes, &edges, None, Direction::Undirected)?;
    let features = Features::new(nodes, FEATURES, values)?;
    let mut dataset = Dataset::new(name, graph, graph_ptr, features, labels, Level::Graph, Split::default())?;
    dataset.feature_names = FEATURE_NAMES.map(String::from).to_vec();
    dataset.class_names = class_names;
    Ok(dataset)
}

fn classes(path: &Path, molecules: &[(Molecule, f64)]) -> Result<(Labels, Vec<String>)> {
    let mut distinct: Vec<f64> = molecules.iter().map(|&(_, label)| label).collect();
    distinct.sort_by(f64::total_cmp);
    distinct.dedup();
    if let Some(number) = distinct.iter().find(|label| label.fract() != 0.0) {
        let message = format!(
            "expected classes, found the label {number}; this program classifies, it does not fit numbers: sort them into \
             classes first, or name another column (set label_column = NAME)"
        );
        return Err(Error::file(path, message));
    }
    if !(2..=MOST_CLASSES).contains(&distinct.len()) {
        let message = format!(
            "expected 2 to {MOST_CLASSES} classes, found {} distinct labels in the rows that can be read; name the \
             column of class labels",
            distinct.len()
        );
        return Err(Error::file(path, message));
    }
    let ids = molecules.iter().map(|(_, label)| distinct.partition_point(|other| other < label) as u32).collect();
    let names = distinct.iter().map(|label| format!("label {label}")).collect();
    Ok((Labels::Classes { ids, classes: distinct.len() }, names))
}

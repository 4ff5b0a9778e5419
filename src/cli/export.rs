//! `harmonia export`: a model as a file that works without this program.

use super::output::OutputFile;
use super::reading::RunArgument;
use super::voice;
use crate::export;
use crate::runs::SavedModel;
use clap::{Args, ValueEnum};
use harmonia_graph::error::Result;
use std::path::PathBuf;

pub const EXAMPLES: &str = "\
Examples:
  harmonia export runs/customers-1 --format python --out score.py
      a program of one file: python score.py nodes.csv edges.csv > predictions.csv (numpy and scipy)
  harmonia export runs/customers-1 --format sql --out score.sql
      a script over tables nodes and edges: sqlite3 -bail customers.db < score.sql
  harmonia export runs/customers-1 --format onnx --out model.onnx
      onnxruntime.InferenceSession('model.onnx').run(None, {'x': x, 'edge_index': edges, 'edge_weight': weights})
  harmonia export runs/customers-1 --format json --out model.json
      every number of the sum: responses as knots, hop weights, readout, columns";

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    /// Every number of the model
    Json,
    /// A scorer of one file, for numpy and scipy
    Python,
    /// A script for SQLite over tables nodes and edges
    Sql,
    /// A graph for onnxruntime: x, edge_index, edge_weight and batch as PyTorch Geometric has them
    Onnx,
}

#[derive(Args)]
pub struct Arguments {
    #[command(flatten)]
    run: RunArgument,
    /// What to make of it
    #[arg(long, value_enum)]
    format: Format,
    /// File to write; - is standard output
    #[arg(long, value_name = "FILE", default_value = "-")]
    out: PathBuf,
}

pub fn run(arguments: &Arguments) -> Result<()> {
    let ending = match arguments.format {
        Format::Json => "json",
        Format::Python => "py",
        Format::Sql => "sql",
        Format::Onnx => "onnx",
    };
    let out = OutputFile::new("--out", &arguments.out, &[ending])?;
    let saved = SavedModel::open(&arguments.run.first_member()?)?;
    out.write_bytes(&match arguments.format {
        Format::Json => format!("{}\n", export::to_json(&saved)?).into_bytes(),
        Format::Python => export::to_python(&saved)?.into_bytes(),
        Format::Sql => export::to_sql(&saved)?.into_bytes(),
        Format::Onnx => export::to_onnx(&saved)?,
    })?;
    if !out.is_stdout() {
        voice::line(format_args!("written to {}", arguments.out.display()));
    }
    Ok(())
}

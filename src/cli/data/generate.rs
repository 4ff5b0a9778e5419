//! `harmonia data generate`.

use super::ReorderFlag;
use super::convert::described;
use crate::cli::threads::with_threads;
use crate::cli::{say, watch};
use clap::Args;
use harmonia_data::generate::made::{self, Keep, Made};
use harmonia_data::generate::numbers::TEACHER_R2;
use harmonia_data::generate::ogb_archive::{self, ArchiveNames};
use harmonia_data::generate::{self, Generator, GraphShape, igb_layout};
use harmonia_graph::error::{Error, Result, suggestion};
use std::path::PathBuf;
use std::time::Instant;

#[derive(Args)]
pub struct Arguments {
    /// Dataset whose shape to take: ogbn-products, ogbn-arxiv, igb-small, cora, citeseer or tolokers
    #[arg(long, value_name = "NAME")]
    like: String,
    /// Times its nodes and edges
    #[arg(long, value_name = "FACTOR", default_value_t = 1.0, allow_negative_numbers = true)]
    scale: f64,
    /// Other sizes than its own
    #[command(flatten)]
    sizes: Sizes,
    /// Seed of everything random
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u64,
    /// Store directory to make
    #[arg(long, value_name = "STORE", required_unless_present_any = ["as_ogb", "as_igb"])]
    out: Option<PathBuf>,
    /// Write the layout of the Open Graph Benchmark, as a zip
    #[arg(long, value_name = "FILE.zip")]
    as_ogb: Option<PathBuf>,
    /// Write the layout of the Illinois Graph Benchmark, as a directory
    #[arg(long, value_name = "DIR")]
    as_igb: Option<PathBuf>,
    /// Numbers to be fitted instead of classes (of --out)
    #[arg(long, conflicts_with_all = ["as_ogb", "as_igb"])]
    regression: bool,
    /// Keep features in half precision (of --out)
    #[arg(long)]
    f16: bool,
    #[command(flatten)]
    reorder: ReorderFlag,
    /// Threads (0: one per core); the data do not depend on it
    #[arg(long, value_name = "N", default_value_t = 0)]
    threads: usize,
}

/// What differs from the shape that was named.
#[derive(Args)]
struct Sizes {
    /// Nodes, instead of those of the shape
    #[arg(long, value_name = "N")]
    nodes: Option<usize>,
    /// Rows of the list of edges, instead of those of the shape
    #[arg(long, value_name = "N")]
    edges: Option<usize>,
    /// Features, instead of those of the shape
    #[arg(long, value_name = "D")]
    features: Option<usize>,
    /// Classes, instead of those of the shape
    #[arg(long, value_name = "L")]
    classes: Option<usize>,
    /// Nodes to train, validate and test on, instead of those of the shape, for example 400000/50000/50000
    #[arg(long, value_name = "A/B/C", value_parser = split)]
    split: Option<[usize; 3]>,
}

fn split(text: &str) -> std::result::Result<[usize; 3], String> {
    let counts: Option<Vec<usize>> = text.split('/').map(|count| count.parse().ok()).collect();
    let three = counts.and_then(|counts| <[usize; 3]>::try_from(counts).ok());
    three.ok_or_else(|| "expected three counts, for example 400000/50000/50000".into())
}

impl Sizes {
    fn over(&self, shape: GraphShape) -> GraphShape {
        let [train, valid, test] = self.split.unwrap_or([shape.train, shape.valid, shape.test]);
        GraphShape {
            nodes: self.nodes.unwrap_or(shape.nodes),
            edge_rows: self.edges.unwrap_or(shape.edge_rows),
            features: self.features.unwrap_or(shape.features),
            classes: self.classes.unwrap_or(shape.classes),
            train,
            valid,
            test,
            ..shape
        }
    }
}

pub fn run(arguments: &Arguments) -> Result<()> {
    let Some(shape) = generate::like(&arguments.like) else {
        let known = generate::KNOWN;
        return Err(Error::Config(format!(
            "--like {}: there is no such shape{}\nknown shapes: {}",
            arguments.like,
            suggestion(&arguments.like, known),
            known.join(", ")
        )));
    };
    let shape = arguments.sizes.over(shape.scaled(arguments.scale)?);
    shape.check()?;
    for path in [&arguments.out, &arguments.as_ogb, &arguments.as_igb].into_iter().flatten() {
        if path.exists() {
            return Err(Error::file(path, "already exists; remove it or choose another place"));
        }
    }
    if arguments.out.is_none() && arguments.reorder.method().is_some() {
        return Err(Error::Config("--reorder: only a store keeps the original numbers of its nodes; add --out".into()));
    }
    let start = Instant::now();
    let accuracy = with_threads(arguments.threads, || write(arguments, Generator::new(shape, arguments.seed)?))??;
    for path in [&arguments.as_ogb, &arguments.as_igb].into_iter().flatten() {
        say(&format!("{}\n", path.display()))?;
    }
    if let Some(out) = &arguments.out {
        say(&format!("{}\n", described(out)?))?;
    }
    let teacher = match arguments.regression {
        true => format!("the teacher behind the numbers has an R2 of {TEACHER_R2}"),
        false => format!("the teacher behind the labels is right {:.1} % of the time", 100.0 * accuracy),
    };
    say(&format!("{teacher}; {:.1} s\n", start.elapsed().as_secs_f64()))
}

fn write(arguments: &Arguments, generator: Generator) -> Result<f64> {
    watch::with(&Default::default(), |context| {
        let watch = &context.watch;
        // Edges are kept as a list only where a writer of another layout needs them.
        let keep = arguments.as_ogb.is_some() || arguments.as_igb.is_some();
        let made = Made::new(generator, keep, watch)?;
        if let Some(path) = &arguments.as_ogb {
            made.with_tables(|tables| ogb_archive::write(path, &ArchiveNames::of(&arguments.like), tables, watch))?;
        }
        if let Some(path) = &arguments.as_igb {
            made.with_tables(|tables| igb_layout::write(path, tables, watch))?;
        }
        let accuracy = made.planted().teacher_accuracy;
        if let Some(out) = &arguments.out {
            let name = format!("like-{}", arguments.like.to_lowercase());
            let keep =
                Keep { half: arguments.f16, reorder: arguments.reorder.method(), regression: arguments.regression };
            made::write_store(made, &name, out, keep, watch)?;
        }
        Ok(accuracy)
    })
}

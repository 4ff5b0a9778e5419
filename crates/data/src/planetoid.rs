//! Planetoid: Cora and CiteSeer in the files of the public split, `ind.<name>.{x,tx,allx,y,ty,ally,graph,test.index}`.
//!
//! allx holds every node but the test nodes, tx the test nodes in the order of test.index; the graph is a dictionary
//! of neighbour lists. CiteSeer leaves out test ids without features: they stay as zero rows that are in no split.
//! Public split: the labelled rows x train, the next 500 validate, the listed test ids test.

use crate::conversion::{self, Common, Converted};
use crate::pickle::{self, Value};
use harmonia_graph::dataset::{Dataset, Features, Labels, SparseRows, UNLABELLED, Values};
use harmonia_graph::error::{Error, Result};
use harmonia_graph::files;
use harmonia_graph::graph::{Direction, Graph, Split};
use harmonia_graph::watch::Watch;
use std::path::{Path, PathBuf};

const VALIDATION_NODES: usize = 500;
/// Larger than any Planetoid file by far; a damaged file must not make us allocate without bound.
const MAX_VALUES: usize = 1 << 28;

/// Converts the files of a directory into a store.
///
/// # Errors
/// As [`load`], or the store cannot be written; nothing is left behind.
pub fn convert(input: &Path, target: &Path, common: &Common, watch: &Watch) -> Result<Converted> {
    let dataset = load(&files_name(input, &common.name), input)?;
    conversion::write(dataset, target, common, watch)
}

/// Reads the files of `name` ("Cora" or "CiteSeer") below `directory`, which may be the folder of the files, the
/// dataset's folder, or the folder of all datasets.
///
/// # Errors
/// A file is missing, damaged, or does not fit the others.
pub fn load(name: &str, directory: &Path) -> Result<Dataset> {
    let files = PlanetoidFiles::find(name, directory)?;
    let (x, allx, tx) = (files.matrix("x")?, files.matrix("allx")?, files.matrix("tx")?);
    let (y, ally, ty) = (files.one_hot("y")?, files.one_hot("ally")?, files.one_hot("ty")?);
    let test = files.test_index()?;

    let fits = [
        ("x", x.cols, "allx", allx.cols),
        ("tx", tx.cols, "allx", allx.cols),
        ("y", y.classes.len(), "x", x.rows),
        ("ally", ally.classes.len(), "allx", allx.rows),
        ("ty", ty.classes.len(), "tx", tx.rows),
        ("test.index", test.len(), "tx", tx.rows),
        ("ty", ty.width, "ally", ally.width),
        ("y", y.width, "ally", ally.width),
    ];
    if let Some((a, found, b, expected)) = fits.into_iter().find(|(_, a, _, b)| a != b) {
        return Err(Error::file(&files.path(a), format!("size {found} does not fit {expected} of ind.*.{b}")));
    }
    let nodes = test.iter().max().map_or(0, |&last| last + 1).max(allx.rows);
    if nodes.checked_mul(allx.cols).is_none_or(|values| values > MAX_VALUES) {
        return Err(Error::file(&files.path("test.index"), format!("{nodes} nodes are more than this format holds")));
    }
    if test.iter().any(|&id| id < allx.rows) || nodes > allx.rows + 2 * tx.rows {
        return Err(Error::file(
            &files.path("test.index"),
            format!("test ids must follow the {} rows of allx without large gaps", allx.rows),
        ));
    }

    // Test rows are stored in the order of test.index; everything else is in node order.
    let mut rows = vec![Vec::new(); nodes];
    let mut ids = vec![UNLABELLED; nodes];
    allx.scatter(&mut rows, |row| row);
    tx.scatter(&mut rows, |row| test[row]);
    ids[..allx.rows].copy_from_slice(&ally.classes);
    test.iter().zip(&ty.classes).for_each(|(&node, &class)| ids[node] = class);

    let (train, valid_end) = (x.rows, x.rows + VALIDATION_NODES);
    if valid_end > allx.rows {
        let message =
            format!("{} rows cannot hold {train} training and {VALIDATION_NODES} validation nodes", allx.rows);
        return Err(Error::file(&files.path("allx"), message));
    }
    let split = Split {
        train: (0..train as u32).collect(),
        valid: (train as u32..valid_end as u32).collect(),
        test: test.iter().map(|&id| id as u32).collect(),
    };
    let graph = Graph::from_edges(nodes, &files.edges(nodes)?, None, Direction::Undirected)?;
    let features = Features::held(nodes, allx.cols, Values::Sparse(SparseRows::collect(rows)))?;
    let labels = Labels::Classes { ids, classes: ally.width };
    let mut dataset = Dataset::nodes(&name.to_lowercase(), graph, features, labels, split)?;
    dataset.feature_names = (0..allx.cols).map(|k| format!("word {k}")).collect();
    Ok(dataset)
}

/// Planetoid files carry the name of the dataset: `ind.cora.allx`. The wished name if there are such files of it or
/// none at all, so that the reader says what is missing.
fn files_name(input: &Path, wished: &str) -> String {
    let folders = [input.to_path_buf(), input.join("raw")];
    let entries = folders.iter().flat_map(|folder| std::fs::read_dir(folder).into_iter().flatten().flatten());
    let files = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
    let names: Vec<String> =
        files.filter_map(|file| Some(file.strip_prefix("ind.")?.strip_suffix(".allx")?.to_string())).collect();
    match &names[..] {
        [name] if !name.eq_ignore_ascii_case(wished) => name.clone(),
        _ => wished.to_string(),
    }
}

/// The eight files of one dataset.
struct PlanetoidFiles {
    directory: PathBuf,
    prefix: String,
}

struct OneHot {
    classes: Vec<u32>,
    width: usize,
}

impl pickle::CsrMatrix {
    fn scatter(&self, rows: &mut [Vec<(u32, f32)>], node: impl Fn(usize) -> usize) {
        for row in 0..self.rows {
            let entries = self.indptr[row] as usize..self.indptr[row + 1] as usize;
            let columns = self.indices[entries.clone()].iter().map(|&column| column as u32);
            rows[node(row)].extend(columns.zip(self.data[entries].iter().copied()));
        }
    }
}

impl PlanetoidFiles {
    fn find(name: &str, directory: &Path) -> Result<PlanetoidFiles> {
        let prefix = format!("ind.{}", name.to_lowercase());
        let lower = name.to_lowercase();
        let folders =
            ["", "raw", name, &lower, &format!("{name}/raw"), &format!("{lower}/raw")].map(|f| directory.join(f));
        for directory in &folders {
            if directory.join(format!("{prefix}.allx")).is_file() {
                return Ok(PlanetoidFiles { directory: directory.clone(), prefix });
            }
        }
        if !directory.is_dir() {
            return Err(Error::file(directory, "expected a directory of Planetoid files (ind.*.allx and so on)"));
        }
        Err(Error::file(
            directory,
            format!(
                "expected the Planetoid files {prefix}.x, .tx, .allx, .y, .ty, .ally, .graph and .test.index here or in \
                 {name}/raw; found no {prefix}.allx"
            ),
        ))
    }

    fn path(&self, part: &str) -> PathBuf {
        self.directory.join(format!("{}.{part}", self.prefix))
    }

    fn pickle(&self, part: &str) -> Result<Value> {
        let path = self.path(part);
        pickle::read(&files::read(&path)?).map_err(|error| {
            Error::file(&path, format!("{error}; expected a Planetoid pickle, fetch the file again if it is damaged"))
        })
    }

    fn matrix(&self, part: &str) -> Result<pickle::CsrMatrix> {
        match self.pickle(part)? {
            Value::Csr(matrix) => Ok(matrix),
            other => Err(self.unexpected(part, "a sparse matrix", &other)),
        }
    }

    fn one_hot(&self, part: &str) -> Result<OneHot> {
        let (width, numbers) = match self.pickle(part)? {
            Value::Array(pickle::Array { shape, data }) if shape.len() == 2 && shape[1] > 0 => {
                (shape[1], data.to_f32())
            }
            other => return Err(self.unexpected(part, "a two-dimensional array of labels", &other)),
        };
        let classes = (numbers.chunks_exact(width).enumerate())
            .map(|(row, hot)| {
                hot.iter().position(|&value| value == 1.0).map(|class| class as u32).ok_or_else(|| {
                    Error::file(&self.path(part), format!("row {row} has no 1: expected one-hot labels"))
                })
            })
            .collect::<Result<_>>()?;
        Ok(OneHot { classes, width })
    }

    fn test_index(&self) -> Result<Vec<usize>> {
        let path = self.path("test.index");
        (files::read_text(&path)?.lines().enumerate())
            .filter(|(_, line)| !line.trim().is_empty())
            .map(|(number, line)| {
                line.trim().parse().ok().filter(|&id| id < u32::MAX as usize).ok_or_else(|| {
                    Error::file(&path, format!("line {}: expected a node id, found `{line}`", number + 1))
                })
            })
            .collect()
    }

    fn edges(&self, nodes: usize) -> Result<Vec<(u32, u32)>> {
        let wrong = |value: &Value| self.unexpected("graph", "a dictionary from node id to a list of node ids", value);
        let id = |value: &Value| match value {
            Value::Int(id) if (0..nodes as i64).contains(id) => Ok(*id as u32),
            Value::Int(id) => Err(Error::file(&self.path("graph"), format!("node id {id}: there are {nodes} nodes"))),
            other => Err(wrong(other)),
        };
        let entries = match self.pickle("graph")? {
            Value::Dict(entries) => entries,
            other => return Err(wrong(&other)),
        };
        let mut edges = Vec::new();
        for (node, neighbours) in &entries {
            let Value::List(neighbours) = neighbours else { return Err(wrong(neighbours)) };
            let i = id(node)?;
            for neighbour in neighbours {
                let j = id(neighbour)?;
                // A self-loop is no citation; the published edge counts leave them out.
                if i != j {
                    edges.push((i, j));
                }
            }
        }
        Ok(edges)
    }

    fn unexpected(&self, part: &str, expected: &str, found: &Value) -> Error {
        let text: String = format!("{found:?}").chars().take(60).collect();
        Error::file(&self.path(part), format!("expected {expected}, found {text}"))
    }
}

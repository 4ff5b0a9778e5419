//! Writes a node task as OGB ships it: a zip of gzipped tables without headers.
//!
//! ```text
//! <folder>/RELEASE_v1.txt
//! <folder>/raw/{edge, node-feat, node-label, num-node-list, num-edge-list}.csv.gz
//! <folder>/split/<scheme>/{train, valid, test}.csv.gz
//! <folder>/mapping/labelidx2<what>.csv.gz
//! ```
//!
//! Text is made and compressed in blocks, in parallel; every block is a gzip member of its own, and the members of a
//! table follow each other, which gzip defines to be the joined text. The zip stores them as they are. Invariant: the
//! same tables give the same bytes, and floats are written in the shortest form that parses back to the same bits.

use super::{Tables, beside, blocks};
use flate2::Compression;
use flate2::write::GzEncoder;
use harmonia_graph::error::{Error, Result};
use harmonia_graph::watch::Watch;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::ops::Range;
use std::path::Path;
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipWriter};

/// Bytes of text in a block, about: large enough that a gzip member costs nothing, small enough to hold many.
const BLOCK_BYTES: usize = 1 << 20;
/// Of text; guesses that decide how many rows make a block.
const FLOAT_BYTES: usize = 8;
const ROW_BYTES: usize = 16;
/// The fastest level: the text is mostly random digits, which more effort hardly makes smaller.
const LEVEL: u32 = 1;

/// Names inside the archive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArchiveNames {
    /// Top folder: `products` for ogbn-products.
    pub folder: String,
    /// How the dataset is split: `sales_ranking`, `time`, `random`.
    pub scheme: String,
    /// What a class is, in the name of the file that lists them: `productcategory`.
    pub class_file: String,
    /// And in its header: `product category`.
    pub class_title: String,
}

impl ArchiveNames {
    /// Names as those of the dataset `name`; a dataset OGB does not have gets its own name and a random split.
    pub fn of(name: &str) -> ArchiveNames {
        let names = |folder: &str, scheme: &str, class_file: &str, class_title: &str| ArchiveNames {
            folder: folder.to_string(),
            scheme: scheme.to_string(),
            class_file: class_file.to_string(),
            class_title: class_title.to_string(),
        };
        match name.to_ascii_lowercase().as_str() {
            "ogbn-products" => names("products", "sales_ranking", "productcategory", "product category"),
            // The spelling is upstream's.
            "ogbn-arxiv" => names("arxiv", "time", "arxivcategeory", "arxiv category"),
            other => names(other, "random", "class", "class"),
        }
    }

    /// The names become paths when the archive is unpacked: they may not lead anywhere else.
    fn check(&self) -> Result<()> {
        for (what, name) in [("folder", &self.folder), ("scheme", &self.scheme), ("class file", &self.class_file)] {
            let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
            if name.is_empty() || name.starts_with('.') || !name.chars().all(plain) {
                return Err(Error::Config(format!(
                    "`{}` cannot be a {what} of an archive: use letters, digits, - and _",
                    name.escape_default()
                )));
            }
        }
        Ok(())
    }
}

/// Writes the archive to `path`, over what was there.
///
/// # Errors
/// Tables that do not fit together, names that are no file names, or a full disk; nothing is left behind.
pub fn write(path: &Path, names: &ArchiveNames, tables: &Tables, watch: &Watch) -> Result<()> {
    names.check()?;
    tables.check()?;
    beside::file(path, |file| {
        let zip = ZipWriter::new(BufWriter::with_capacity(BLOCK_BYTES, file));
        let mut archive = Archive { zip, path, names, watch };
        if let Err(error) = archive.all(tables) {
            // Dropping it would try to write the end of the archive, and complain on stderr when that fails as well.
            std::mem::forget(archive);
            return Err(error);
        }
        let written = archive.zip.finish().map_err(|error| zip_error(path, error))?;
        written.into_inner().map_err(|error| Error::io("write", path)(error.into_error()))?;
        Ok(())
    })
}

struct Archive<'a> {
    zip: ZipWriter<BufWriter<&'a mut File>>,
    path: &'a Path,
    names: &'a ArchiveNames,
    watch: &'a Watch<'a>,
}

impl Archive<'_> {
    fn all(&mut self, tables: &Tables) -> Result<()> {
        let (nodes, features) = (tables.nodes(), tables.features);
        self.start("RELEASE_v1.txt")?;
        self.put(format!("# {}, written by harmonia in the layout of OGB\n\n### v1\n", self.names.folder).as_bytes())?;

        self.table("raw/edge.csv.gz", tables.edges.len(), BLOCK_BYTES / ROW_BYTES, |rows, text| {
            let mut digits = itoa::Buffer::new();
            for &(i, j) in &tables.edges[rows] {
                text.extend_from_slice(digits.format(i).as_bytes());
                text.push(b',');
                text.extend_from_slice(digits.format(j).as_bytes());
                text.push(b'\n');
            }
            Ok(())
        })?;
        self.table("raw/node-feat.csv.gz", nodes, BLOCK_BYTES / FLOAT_BYTES / features, |rows, text| {
            let mut values = vec![0f32; features];
            let mut digits = zmij::Buffer::new();
            for i in rows {
                tables.fill(i, &mut values)?;
                for &value in &values {
                    text.extend_from_slice(digits.format_finite(value).as_bytes());
                    text.push(b',');
                }
                // The comma after the last value ends the row instead.
                text.pop();
                text.push(b'\n');
            }
            Ok(())
        })?;
        self.integers("raw/node-label.csv.gz", tables.labels)?;
        self.integers("raw/num-node-list.csv.gz", &[nodes as u64])?;
        self.integers("raw/num-edge-list.csv.gz", &[tables.edges.len() as u64])?;

        let split = tables.split;
        for (part, ids) in [("train", &split.train), ("valid", &split.valid), ("test", &split.test)] {
            self.integers(&format!("split/{}/{part}.csv.gz", self.names.scheme), ids)?;
        }
        let title = self.names.class_title.clone();
        self.table(
            &format!("mapping/labelidx2{}.csv.gz", self.names.class_file),
            tables.classes,
            usize::MAX,
            |rows, text| {
                text.extend_from_slice(format!("label idx,{title}\n").as_bytes());
                rows.for_each(|class| text.extend_from_slice(format!("{class},class {class}\n").as_bytes()));
                Ok(())
            },
        )
    }

    /// A table of one column of whole numbers.
    fn integers<T: itoa::Integer + Copy + Sync>(&mut self, member: &str, values: &[T]) -> Result<()> {
        self.table(member, values.len(), BLOCK_BYTES / ROW_BYTES, |rows, text| {
            let mut digits = itoa::Buffer::new();
            for &value in &values[rows] {
                text.extend_from_slice(digits.format(value).as_bytes());
                text.push(b'\n');
            }
            Ok(())
        })
    }

    /// A gzipped table whose rows `append` writes as text.
    fn table(
        &mut self,
        member: &str,
        rows: usize,
        block_rows: usize,
        append: impl Fn(Range<usize>, &mut Vec<u8>) -> Result<()> + Sync,
    ) -> Result<()> {
        self.start(member)?;
        let path = self.path;
        let compressed = |rows: Range<usize>| {
            let mut text = Vec::with_capacity(BLOCK_BYTES);
            append(rows, &mut text)?;
            let mut encoder = GzEncoder::new(Vec::with_capacity(text.len() / 2), Compression::new(LEVEL));
            encoder.write_all(&text).and_then(|()| encoder.finish()).map_err(Error::io("compress", path))
        };
        let watch = self.watch;
        blocks::in_order(rows, block_rows.min(rows), watch.stop(), compressed, |bytes, done| {
            self.put(&bytes)?;
            watch.progress(member, done as u64, rows as u64);
            Ok(())
        })
    }

    fn start(&mut self, member: &str) -> Result<()> {
        // Sizes are not known beforehand and may exceed 4 GiB.
        let options = SimpleFileOptions::default()
            .compression_method(CompressionMethod::Stored)
            .large_file(true)
            .unix_permissions(0o644);
        let name = format!("{}/{member}", self.names.folder);
        self.zip.start_file(name, options).map_err(|error| zip_error(self.path, error))
    }

    fn put(&mut self, bytes: &[u8]) -> Result<()> {
        self.zip.write_all(bytes).map_err(Error::io("write", self.path))
    }
}

fn zip_error(path: &Path, error: zip::result::ZipError) -> Error {
    let source = match error {
        zip::result::ZipError::Io(source) => source,
        other => std::io::Error::other(other.to_string()),
    };
    Error::io("write", path)(source)
}

#[cfg(test)]
mod tests;

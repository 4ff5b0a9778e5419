//! The data of a case as a store on disk: a known dataset, or one that is generated once and kept.

use super::case::Source;
use super::child::{self, Answer};
use super::job::{Job, SEED};
use crate::cli::{voice, watch};
use harmonia_data::download::Access;
use harmonia_data::generate::GraphShape;
use harmonia_data::{catalogue, obtain};
use harmonia_graph::error::{Error, Result};
use harmonia_graph::files;
use harmonia_graph::store::Store;
use serde_json::json;
use std::path::{Path, PathBuf};

/// Where stores are looked for and made.
pub struct Stores<'a> {
    /// Directory of generated ones; none: in the user's cache.
    pub work: Option<&'a Path>,
    /// Directory of known datasets.
    pub data: Option<&'a Path>,
    /// Whether and how datasets may be fetched.
    pub access: Access,
    /// Threads of the generator.
    pub threads: usize,
}

impl Stores<'_> {
    /// The store of a source. It is made by another process: this one stays small, because what it has resident when
    /// it starts a peer would count in the peer's peak.
    ///
    /// # Errors
    /// No such data, or something else in their place. A generator that fails is an answer.
    pub fn of(&self, source: Source) -> Result<Answer<PathBuf>> {
        match (source, source.shape()?) {
            (_, Some(shape)) => self.made(shape),
            (Source::Known(name), None) => self.known(name).map(Ok),
            (Source::Like(..) | Source::Made(_), None) => Err(Error::Config("a made dataset has a shape".into())),
        }
    }

    /// The store of a known dataset, fetched and converted if need be.
    ///
    /// # Errors
    /// It cannot be had.
    pub fn known(&self, name: &str) -> Result<PathBuf> {
        let Some(entry) = catalogue::find(name) else {
            return Err(Error::Config(format!("there is no dataset `{name}`")));
        };
        watch::with(&self.access, |context| obtain::store_of(entry, self.data, context))
    }

    /// The store of a generated dataset.
    ///
    /// # Errors
    /// Something else is in its place.
    pub fn made(&self, shape: GraphShape) -> Result<Answer<PathBuf>> {
        let directory = match self.work {
            Some(work) => work.to_path_buf(),
            None => harmonia_graph::cache::cache_directory().map(|cache| cache.join("bench")).ok_or_else(|| {
                Error::Config(
                    "no directory for generated data: there is no home directory; give one with --work".into(),
                )
            })?,
        };
        let GraphShape { nodes, edge_rows, features, classes, .. } = shape;
        let name = format!("bench-{nodes}-{edge_rows}-{features}-{classes}");
        let out = directory.join(&name);
        if out.exists() {
            let meta = Store::open(&out)?.meta;
            let made = meta.generator.unwrap_or_default();
            if made["like"] != json!(shape) || made["seed"] != json!(SEED) {
                let message = "is not a store that harmonia bench made; move it away or give another --work";
                return Err(Error::file(&out, message));
            }
            return Ok(Ok(out));
        }
        files::check_directory(&directory)?;
        std::fs::create_dir_all(&directory).map_err(Error::io("create directory", &directory))?;
        voice::line(format_args!("generating {}", out.display()));
        let job = Job::Generate { name, shape, out: out.clone(), threads: self.threads };
        Ok(child::job::<()>(&job)?.map(|()| out))
    }
}

//! A dataset by name: found or fetched, converted once, opened from its store ever after.
//!
//! Raw files and the store lie beside each other, `<data directory>/<Folder>/raw` and `.../store`; where that cannot be
//! written, the store goes to the user's cache directory. A store whose raw files have changed is made anew. A lock keeps
//! two processes from converting the same dataset at once: the second waits and finds it done.

use crate::catalogue::Entry;
use crate::conversion::{Common, stamp};
use crate::download::{self, Access, FileCheck};
use crate::formats::{self, ConversionOptions};
use crate::locate::{self, Raw};
use harmonia_graph::cache::cache_directory;
use harmonia_graph::dataset::Dataset;
use harmonia_graph::error::{Error, Result};
use harmonia_graph::files;
use harmonia_graph::lock;
use harmonia_graph::stop::Stop;
use harmonia_graph::store::{self, Store};
use harmonia_graph::watch::Watch;
use std::fs::File;
use std::io::{BufReader, IsTerminal, Read};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

/// What the caller hears of and decides.
pub struct Context<'a> {
    /// Whether and how files may be fetched.
    pub access: Access,
    /// Progress of downloads.
    pub download: &'a dyn Fn(download::Transfer<'_>),
    /// Progress of conversions.
    pub watch: Watch<'a>,
    /// One line about what was done.
    pub note: &'a dyn Fn(&str),
}

/// The store of a known dataset, made if need be.
///
/// # Errors
/// Files that are neither there nor to be fetched, or that cannot be converted.
pub fn store_of(entry: &Entry, data_directory: Option<&Path>, context: &Context) -> Result<PathBuf> {
    let directory = locate::data_directory(data_directory)?;
    let mut raw = locate::find_raw(entry, &directory);
    if let Some(store) = existing(entry, &directory, raw.as_ref())? {
        tidy(&store);
        return Ok(store);
    }
    if raw.is_none() {
        fetch(entry, &directory, context)?;
        raw = locate::find_raw(entry, &directory);
    }
    let Some(raw) = raw else {
        return Err(Error::file(&directory, format!("the files of {} are not there after fetching them", entry.name)));
    };
    let target = writable_place(entry, &directory, &raw)?;
    let lock = Lock::hold(&target, context)?;
    // Another process may have made it while this one waited.
    if let Some(store) = existing(entry, &directory, Some(&raw))? {
        return Ok(store);
    }
    verify_raw(entry, &directory, context.watch.stop())?;
    let replaced = Replaced::aside(&target)?;
    (context.note)(&format!("converting {} once, to {}", raw.path.display(), target.display()));
    let options = ConversionOptions { files: raw.files.clone(), ..options(entry) };
    let converted = formats::convert(entry.format, &raw.path, &target, &options, &context.watch)?;
    replaced.remove();
    drop(lock);
    report_skipped(&converted.skipped, context.note);
    Ok(target)
}

/// A store that is about to be made anew, put aside; put back when dropped, unless it was removed.
struct Replaced {
    target: PathBuf,
    aside: Option<PathBuf>,
}

impl Replaced {
    /// Moves what is at `target` away, if anything is.
    ///
    /// # Errors
    /// It is no conversion of ours: nothing else is ever removed.
    fn aside(target: &Path) -> Result<Replaced> {
        let aside = aside_path(target);
        if !target.exists() {
            // One that a killed conversion put aside is removed once there is another.
            return Ok(Replaced { target: target.to_path_buf(), aside: Some(aside).filter(|aside| aside.exists()) });
        }
        if !store::is_conversion(target) {
            let message = format!(
                "is in the way of a converted dataset, and is not one that this program made of raw files; move it away, or \
                 set data.dataset = `{}`",
                target.display()
            );
            return Err(Error::file(target, message));
        }
        let _ = std::fs::remove_dir_all(&aside);
        files::rename(target, &aside)?;
        Ok(Replaced { target: target.to_path_buf(), aside: Some(aside) })
    }

    fn remove(mut self) {
        if let Some(aside) = self.aside.take() {
            // Best effort: whoever opens the store next tries again.
            let _ = std::fs::remove_dir_all(aside);
        }
    }
}

impl Drop for Replaced {
    fn drop(&mut self) {
        if let Some(aside) = self.aside.take() {
            let _ = files::rename(&aside, &self.target);
        }
    }
}

/// Where a store waits while another is made in its place: a name that nobody else gives.
fn aside_path(target: &Path) -> PathBuf {
    let name = target.file_name().unwrap_or_default().to_string_lossy();
    target.with_file_name(format!(".{name}.harmonia-replaced"))
}

/// Removes what a conversion that was killed at its very end left beside the store that it made.
fn tidy(store: &Path) {
    let (lock, aside) = (store.with_extension("lock"), aside_path(store));
    if !lock.exists() && !aside.exists() {
        return;
    }
    // Best effort, as all of this: the next one tries again.
    let _ = File::options().create(true).truncate(false).write(true).open(&lock);
    if let Some(_lock) = lock::if_free(&lock) {
        let _ = std::fs::remove_dir_all(aside);
        files::remove_unfinished(files::directory_of(store));
    }
}

/// Says which rows were left out, the first few in full.
pub fn report_skipped(skipped: &[String], note: &dyn Fn(&str)) {
    const SHOWN: usize = 10;
    for row in skipped.iter().take(SHOWN) {
        note(&format!("left out, {row}"));
    }
    if skipped.len() > SHOWN {
        note(&format!("left out, {} more rows", skipped.len() - SHOWN));
    }
}

/// How a known dataset is converted.
pub fn options(entry: &Entry) -> ConversionOptions {
    let common = Common {
        name: entry.name.into(),
        // The benchmark itself adds inverse edges to ogbn-products, and to ogbn-arxiv not.
        undirected: entry.name == "ogbn-products",
        ..Common::default()
    };
    ConversionOptions { common, ..ConversionOptions::default() }
}

/// Holds raw files that are here against what is known of them.
///
/// # Errors
/// One differs; the message says how to get it again.
pub fn verify_raw(entry: &Entry, directory: &Path, stop: &Stop) -> Result<Vec<download::VerifiedFile>> {
    let files = download::verify(entry, directory, stop)?;
    for file in &files {
        if let FileCheck::Differs { what, expected, found } = &file.verdict {
            let message = format!(
                "is not the file that was published: its {what} is {found}, expected {expected}; remove it and fetch \
                 dataset {}, or convert it to a store all the same",
                entry.name
            );
            return Err(Error::file(&file.path, message));
        }
    }
    Ok(files)
}

/// Fetches the raw files of a dataset, having asked. Files that are here are checked instead.
///
/// # Errors
/// No consent, no network, or files that are not what they should be.
pub fn fetch(entry: &Entry, directory: &Path, context: &Context) -> Result<()> {
    if locate::find_raw(entry, directory).is_some() {
        return verify_raw(entry, directory, context.watch.stop()).map(|_| ());
    }
    let terminal = std::io::stdin().is_terminal() && std::io::stderr().is_terminal();
    let mut input = BufReader::new(Answer { received: None, stop: context.watch.stop().clone() });
    let allowed = download::consent(entry, directory, &context.access, &mut input, terminal, &mut std::io::stderr());
    context.watch.check()?;
    if !allowed? {
        return Err(Error::Config(format!("{} was not downloaded", entry.name)));
    }
    download::fetch(entry, directory, &context.access, context.watch.stop(), context.download)?;
    Ok(())
}

/// A line from the terminal that can be interrupted: another thread waits for it.
struct Answer {
    received: Option<Receiver<String>>,
    stop: Stop,
}

impl Read for Answer {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let received = self.received.get_or_insert_with(|| {
            let (sender, received) = channel();
            std::thread::spawn(move || {
                let mut line = String::new();
                // No answer is no consent.
                let _ = std::io::stdin().read_line(&mut line);
                let _ = sender.send(line);
            });
            received
        });
        loop {
            self.stop.check().map_err(|error| std::io::Error::other(error.to_string()))?;
            match received.recv_timeout(Duration::from_millis(50)) {
                Ok(line) => {
                    let bytes = line.len().min(buffer.len());
                    buffer[..bytes].copy_from_slice(&line.as_bytes()[..bytes]);
                    return Ok(bytes);
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return Ok(0),
            }
        }
    }
}

/// A store that is there and as fresh as the raw files, if those are there.
///
/// # Errors
/// There is a damaged store, and no raw files to make it anew from.
pub fn existing(entry: &Entry, directory: &Path, raw: Option<&Raw>) -> Result<Option<PathBuf>> {
    for place in places(entry, directory, raw) {
        match Store::open(&place) {
            Ok(store) if raw.is_none_or(|raw| is_of(&store, entry, raw)) => return Ok(Some(place)),
            Err(error) if raw.is_none() && place.exists() => return Err(made_again(error, &place)),
            _ => {}
        }
    }
    Ok(None)
}

/// Whether a store was made of these very files.
fn is_of(store: &Store, entry: &Entry, raw: &Raw) -> bool {
    let Some(source) = &store.meta.source else { return false };
    let same = |path: &PathBuf| stamp(path).is_ok_and(|stamp| source.files.contains(&stamp));
    source.format == entry.format.name() && source.options == options(entry).words() && raw.files.iter().all(same)
}

fn made_again(error: Error, place: &Path) -> Error {
    match error {
        Error::File { path, message } => {
            Error::File { path, message: format!("{message}; remove {} to have it made again", place.display()) }
        }
        error => error,
    }
}

/// Where the store of a dataset may be, best place first.
fn places(entry: &Entry, directory: &Path, raw: Option<&Raw>) -> Vec<PathBuf> {
    let mut places = Vec::new();
    if let Some(raw) = raw {
        let folder = if raw.path.is_dir() { Some(raw.path.as_path()) } else { raw.path.parent() };
        let is_raw = |folder: &&Path| folder.file_name().is_some_and(|name| name == "raw");
        places.extend(folder.filter(is_raw).and_then(Path::parent).map(|folder| folder.join("store")));
    }
    places.push(directory.join(entry.folder).join("store"));
    places.extend(cache_directory().map(|cache| cache.join(entry.folder).join("store")));
    places
}

fn writable_place(entry: &Entry, directory: &Path, raw: &Raw) -> Result<PathBuf> {
    let places = places(entry, directory, Some(raw));
    let writable = |place: &&PathBuf| {
        let folder = place.parent().unwrap_or(Path::new("."));
        // Not the store itself, which may be there: its lock, which is a file.
        std::fs::create_dir_all(folder).is_ok() && files::check_writable(&place.with_extension("lock")).is_ok()
    };
    places.iter().find(writable).cloned().ok_or_else(|| {
        Error::file(directory, "cannot be written, nor can the user's cache directory: set data.dir = DIR")
    })
}

/// Keeps other processes from making the same store. Removed when dropped, and an empty folder around it, too.
struct Lock {
    path: PathBuf,
    _file: File,
}

impl Lock {
    /// Waits for any other process that is making the same store.
    fn hold(target: &Path, context: &Context) -> Result<Lock> {
        let path = target.with_extension("lock");
        let mut told = false;
        loop {
            // Whoever gave up before may have removed the empty folder with its lock.
            let folder = path.parent().unwrap_or(Path::new("."));
            std::fs::create_dir_all(folder).map_err(Error::io("create directory", folder))?;
            let file = File::create(&path).map_err(Error::io("write", &path))?;
            match file.try_lock() {
                // Whoever held it may have removed it: then others lock another file of that name.
                Ok(()) if files::is_same(&file, &path) => return Ok(Lock { path, _file: file }),
                // A file system without locks: renaming still keeps stores whole.
                Err(std::fs::TryLockError::Error(_)) => return Ok(Lock { path, _file: file }),
                Ok(()) | Err(std::fs::TryLockError::WouldBlock) => {}
            }
            if !told {
                (context.note)(&format!("waiting for another process that is making {}", target.display()));
                told = true;
            }
            context.watch.check()?;
            std::thread::sleep(Duration::from_millis(200));
        }
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        // Best effort. While the file is locked, whoever waits for it finds the store when it goes on.
        let _ = std::fs::remove_file(&self.path);
        let _ = self.path.parent().map(std::fs::remove_dir);
    }
}

/// A known dataset, opened.
///
/// # Errors
/// As [`store_of`], or a damaged store.
pub fn dataset(entry: &Entry, data_directory: Option<&Path>, context: &Context) -> Result<Dataset> {
    let place = store_of(entry, data_directory, context)?;
    store::read(&place).map_err(|error| made_again(error, &place))
}

//! Models and explainers that run in PyTorch Geometric: a process for each job, of a module of the Python package, on a store that is
//! written for it.
//!
//! Invariant: splits, targets and what is asked come from here, scores go through the same code as ours; the store is gone
//! when the process is.

use super::study::Scene;
use harmonia_graph::dataset::Dataset;
use harmonia_graph::error::{Error, Result, one_line};
use harmonia_graph::{files, store};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// The package of modules that answer, and what installs it.
const PACKAGE: &str = "harmonia.peers";
const INSTALL: &str = "pip install 'harmonia[peers]'";
/// Between two looks at a process.
const PAUSE: Duration = Duration::from_millis(50);

/// A Python that has PyTorch Geometric and our package, and where stores for it are.
pub struct Peers {
    python: PathBuf,
    scratch: PathBuf,
}

impl Peers {
    /// Finds out whether this Python has what is needed. Stores are written below `scratch`.
    ///
    /// # Errors
    /// It has not, or its package is of another version.
    pub fn new(python: &Path, scratch: PathBuf) -> Result<Peers> {
        let mut command = Command::new(python);
        let words = format!("import torch, torch_geometric, {PACKAGE}; print(harmonia.__version__)");
        command.args(["-c", &words]).stdin(Stdio::null());
        let answer = command.output().map_err(Error::io("start", python))?;
        let last = |text: &[u8]| {
            let text = String::from_utf8_lossy(text);
            one_line(text.trim_end().lines().last().unwrap_or("no message"))
        };
        if !answer.status.success() {
            return Err(Error::file(
                python,
                format!("cannot run peers ({}): {INSTALL} there, or leave out --peers", last(&answer.stderr)),
            ));
        }
        let (found, ours) = (last(&answer.stdout), env!("CARGO_PKG_VERSION"));
        match found == ours {
            true => Ok(Peers { python: python.to_path_buf(), scratch }),
            false => Err(Error::file(
                python,
                format!("has harmonia {found}, and this program is {ours}: {INSTALL} of that version there"),
            )),
        }
    }

    /// Runs a module on a dataset. `key` names the job; `task` is what the module is asked.
    ///
    /// # Errors
    /// A stop was asked for, the module failed, or the disk is full.
    pub fn ask<R: DeserializeOwned>(
        &self,
        module: &str,
        key: &str,
        dataset: &Dataset,
        task: &impl Serialize,
        scene: &Scene<'_>,
    ) -> Result<R> {
        let place = self.scratch.join(key.replace([' ', '/'], "-"));
        let gone =
            || if place.exists() { fs::remove_dir_all(&place).map_err(Error::io("remove", &place)) } else { Ok(()) };
        gone()?;
        fs::create_dir_all(&place).map_err(Error::io("create directory", &place))?;
        let answer = self.answered(module, &place, dataset, task, scene);
        gone()?;
        answer
    }

    fn answered<R: DeserializeOwned>(
        &self,
        module: &str,
        place: &Path,
        dataset: &Dataset,
        task: &impl Serialize,
        scene: &Scene<'_>,
    ) -> Result<R> {
        let [data, asked, told, said] =
            ["store", "task.json", "answer.json", "stderr.txt"].map(|name| place.join(name));
        store::write(dataset, &data)?;
        let text = serde_json::to_string(task).map_err(|error| Error::file(&asked, error.to_string()))?;
        files::write_atomic(&asked, text.as_bytes())?;
        let errors = fs::File::create(&said).map_err(Error::io("write", &said))?;
        let mut command = Command::new(&self.python);
        command.args(["-m", &format!("{PACKAGE}.{module}")]);
        command.arg("--store").arg(&data).arg("--task").arg(&asked).arg("--out").arg(&told);
        // Jobs run side by side: threads of a process would wait for each other by spinning.
        command.env("OMP_NUM_THREADS", "1").stdin(Stdio::null()).stdout(Stdio::null()).stderr(errors);
        let mut child = Running(command.spawn().map_err(Error::io("start", &self.python))?);
        loop {
            if let Some(status) = child.0.try_wait().map_err(Error::io("wait for", &self.python))? {
                if !status.success() {
                    let said = files::read_text(&said).unwrap_or_default();
                    let last = said.lines().rfind(|line| !line.trim().is_empty()).unwrap_or("no message");
                    return Err(Error::file(
                        &self.python,
                        format!("{PACKAGE}.{module} failed ({status}): {}", one_line(last)),
                    ));
                }
                break;
            }
            scene.stop.check()?;
            std::thread::sleep(PAUSE);
        }
        let text = files::read_text(&told)?;
        serde_json::from_str(&text).map_err(|error| Error::file(&told, format!("is no answer of {module}: {error}")))
    }
}

/// Ends with whoever waits for it.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        // Nothing is left to do where it has ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

//! Models and explainers that run in PyTorch Geometric: a process of `scripts/peers` for each job, on a store that is written for it.
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

/// The scripts, in a checkout.
const SCRIPTS: &str = "scripts/peers";
/// Between two looks at a process.
const PAUSE: Duration = Duration::from_millis(50);

/// A Python that has PyTorch Geometric, and where its scripts and stores are.
pub struct Peers {
    python: PathBuf,
    scripts: PathBuf,
    scratch: PathBuf,
}

impl Peers {
    /// Finds the scripts, and out whether this Python has what they need. Stores are written below `scratch`.
    ///
    /// # Errors
    /// One of them is not there.
    pub fn new(python: &Path, scratch: PathBuf) -> Result<Peers> {
        let scripts = find_scripts()?;
        let mut command = Command::new(python);
        command.args(["-c", "import torch, torch_geometric"]).stdin(Stdio::null());
        let answer = command.output().map_err(Error::io("start", python))?;
        if !answer.status.success() {
            let said = String::from_utf8_lossy(&answer.stderr);
            return Err(Error::file(
                python,
                format!(
                    "has no PyTorch Geometric ({}); install what scripts/peers/requirements.txt lists for it, or leave out --peers",
                    one_line(said.lines().last().unwrap_or("no message"))
                ),
            ));
        }
        Ok(Peers { python: python.to_path_buf(), scripts, scratch })
    }

    /// Runs a script on a dataset. `key` names the job; `task` is what the script is asked.
    ///
    /// # Errors
    /// A stop was asked for, the script failed, or the disk is full.
    pub fn ask<R: DeserializeOwned>(
        &self,
        script: &str,
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
        let answer = self.answered(script, &place, dataset, task, scene);
        gone()?;
        answer
    }

    fn answered<R: DeserializeOwned>(
        &self,
        script: &str,
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
        command.arg(self.scripts.join(script));
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
                        &self.scripts.join(script),
                        format!("failed ({status}): {}", one_line(last)),
                    ));
                }
                break;
            }
            scene.stop.check()?;
            std::thread::sleep(PAUSE);
        }
        let text = files::read_text(&told)?;
        serde_json::from_str(&text).map_err(|error| Error::file(&told, format!("is no answer of {script}: {error}")))
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

/// The scripts in the current directory or the one this program was built in, or above either.
fn find_scripts() -> Result<PathBuf> {
    let starts = [std::env::current_dir().ok(), std::env::current_exe().ok()];
    let mut places = starts.iter().flatten().flat_map(|start| start.ancestors());
    places.find_map(|place| Some(place.join(SCRIPTS)).filter(|scripts| scripts.is_dir())).ok_or_else(|| {
        Error::Config(format!("--peers: there is no {SCRIPTS} here; run harmonia study in a checkout of its sources"))
    })
}

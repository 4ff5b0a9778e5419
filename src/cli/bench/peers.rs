//! The same epochs in PyTorch, by `scripts/peers/torch_epoch.py`, one process per variant, in the same run as ours.
//!
//! A ratio of times means something only if both compute the same: peers start from our parameters without noise, and
//! the loss they find is compared with ours.

use super::child::{self, Answer};
use super::epochs::Measured;
use crate::config::Config;
use harmonia_graph::error::{Error, Result, one_line};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

/// The script, in a checkout.
const SCRIPT: &str = "scripts/peers/torch_epoch.py";
/// Relative difference of two losses that are the same: both are means of thousands of terms in single precision, of
/// sums in other orders.
const SAME_LOSS: f64 = 1e-3;

/// A Python that has torch, and the script it runs.
pub struct Peers {
    python: PathBuf,
    script: PathBuf,
    /// Version of torch.
    pub torch: String,
}

/// A variant that was run.
#[derive(Clone, Debug, Serialize)]
pub struct Peer {
    pub variant: String,
    /// Median epoch.
    pub seconds: Option<f64>,
    /// Its time over ours.
    pub ratio: Option<f64>,
    pub peak_bytes: Option<u64>,
    /// Loss of the parameters we start from.
    pub loss: Option<f64>,
    /// Whether the loss is ours.
    pub same_loss: Option<bool>,
    /// Why there are no numbers.
    pub error: Option<String>,
}

/// What the script prints, as far as we need it.
#[derive(Deserialize)]
struct Printed {
    seconds: f64,
    peak_rss_bytes: u64,
    loss: f64,
}

/// One variant on one store, from the parameters we started from.
pub struct Request<'a> {
    pub store: &'a Path,
    pub config: &'a Config,
    pub parameters: &'a Path,
    pub epochs: usize,
    pub warmup: usize,
    /// Times and loss to hold it against.
    pub ours: &'a Measured,
}

impl Peers {
    /// Finds the script, and out whether this Python has torch.
    ///
    /// # Errors
    /// One of them is not there.
    pub fn new(python: &Path) -> Result<Peers> {
        let script = find_script()?;
        let mut command = Command::new(python);
        command.args(["-c", "import torch; print(torch.__version__)"]);
        command.stdin(Stdio::null()).stderr(Stdio::piped());
        let answer = child::run(command, python, None, Duration::ZERO)?;
        if !answer.status.success() {
            let last = answer.stderr.lines().last().unwrap_or("no message");
            let message = format!(
                "has no PyTorch ({}); install what scripts/peers/requirements.txt lists for it, or leave out --peers",
                one_line(last)
            );
            return Err(Error::file(python, message));
        }
        Ok(Peers { python: python.to_path_buf(), script, torch: answer.stdout.trim().to_string() })
    }

    /// Runs a variant. One that fails is an answer too.
    ///
    /// # Errors
    /// The user asked to stop, or Python cannot be started any more.
    pub fn run(&self, variant: &str, request: &Request) -> Result<Peer> {
        let printed = self.printed(variant, request)?;
        let empty = Peer {
            variant: variant.into(),
            seconds: None,
            ratio: None,
            peak_bytes: None,
            loss: None,
            same_loss: None,
            error: None,
        };
        Ok(match printed {
            Err(error) => Peer { error: Some(error), ..empty },
            Ok(Printed { seconds, peak_rss_bytes, loss }) => Peer {
                seconds: Some(seconds),
                ratio: Some(seconds / request.ours.seconds),
                peak_bytes: Some(peak_rss_bytes),
                loss: Some(loss),
                same_loss: request.ours.loss.map(|ours| (loss - ours).abs() <= SAME_LOSS * ours.abs()),
                ..empty
            },
        })
    }

    fn printed(&self, variant: &str, request: &Request) -> Result<Answer<Printed>> {
        let model = &request.config.model;
        let hidden = model.hidden.iter().map(ToString::to_string).collect::<Vec<_>>().join(",");
        let mut command = Command::new(&self.python);
        command.arg(&self.script).arg("--store").arg(request.store).arg("--parameters").arg(request.parameters);
        command.args(["--no-noise", "--variant", variant, "--hidden", &hidden]);
        for (flag, value) in [
            ("--experts", model.experts),
            ("--active", model.active),
            ("--bases", model.bases),
            ("--embedding", model.embedding),
            ("--hops", model.hops),
            ("--threads", request.ours.threads),
            ("--epochs", request.epochs),
            ("--warmup", request.warmup),
        ] {
            command.args([flag, &value.to_string()]);
        }
        command.stdin(Stdio::null()).stderr(Stdio::piped());
        let answer = child::run(command, &self.python, None, Duration::ZERO)?;
        if !answer.status.success() {
            let last = answer.stderr.lines().rfind(|line| !line.trim().is_empty()).unwrap_or("no message");
            return Ok(Err(child::reason(answer.status, last)));
        }
        let last = answer.stdout.lines().last().unwrap_or_default();
        Ok(serde_json::from_str(last).map_err(|error| format!("printed no result: {error}")))
    }
}

/// The script in the current directory or the one this program was built in, or above either.
fn find_script() -> Result<PathBuf> {
    let starts = [std::env::current_dir().ok(), std::env::current_exe().ok()];
    let mut places = starts.iter().flatten().flat_map(|start| start.ancestors());
    places.find_map(|place| Some(place.join(SCRIPT)).filter(|script| script.is_file())).ok_or_else(|| {
        Error::Config(format!("--peers: there is no {SCRIPT} here; run harmonia bench in a checkout of its sources"))
    })
}

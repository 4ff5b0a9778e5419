//! Starting a process, listening to it, and ending it when the user wants no more.

use super::job::Job;
use crate::cli::signals;
use crate::cli::voice::VoiceFlags;
use harmonia_graph::error::{Error, Result, one_line};
use serde::de::DeserializeOwned;
use std::io::{Read, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How often a process is looked after.
const LOOK: Duration = Duration::from_millis(20);
/// Time a child of ours has to leave nothing half-written behind once it is asked to stop.
const GRACE: Duration = Duration::from_secs(10);

/// An answer, or why there is none.
pub type Answer<T> = std::result::Result<T, String>;

/// Does a job in a process of its own. Its messages go where ours go.
///
/// # Errors
/// The user asked to stop, or the process cannot be started. A job that fails is an answer.
pub fn job<T: DeserializeOwned>(job: &Job) -> Result<Answer<T>> {
    let program = std::env::current_exe().map_err(Error::io("find", Path::new("this program")))?;
    let mut command = Command::new(&program);
    command
        .args(["bench", "--child"])
        .args(VoiceFlags::of_this_process())
        .stdin(Stdio::piped())
        .stderr(Stdio::inherit());
    let text = serde_json::to_string(job).map_err(|error| Error::Config(format!("cannot write a job: {error}")))?;
    let finished = run(command, &program, Some(&text), GRACE)?;
    Ok(match finished.status.success() {
        true => serde_json::from_str(&finished.stdout).map_err(|error| format!("its answer is not readable: {error}")),
        false => Err(reason(finished.status, "its message is above")),
    })
}

/// A process that has ended.
pub struct Finished {
    pub status: ExitStatus,
    pub stdout: String,
    /// Empty unless it was piped.
    pub stderr: String,
}

/// Runs a command to its end, with `input` on its standard input, which is closed after `grace` has begun.
///
/// # Errors
/// The user asked to stop, or it cannot be started.
pub fn run(mut command: Command, program: &Path, input: Option<&str>, grace: Duration) -> Result<Finished> {
    let mut child = command.stdout(Stdio::piped()).spawn().map_err(Error::io("start", program))?;
    let stdout = listen(child.stdout.take());
    let stderr = listen(child.stderr.take());
    let mut stdin = child.stdin.take();
    if let (Some(stdin), Some(input)) = (&mut stdin, input) {
        // One that is gone already says so by its status.
        let _ = writeln!(stdin, "{input}").and_then(|()| stdin.flush());
    }
    let status = wait(&mut child, stdin, grace)?;
    let text = |thread: JoinHandle<String>| thread.join().unwrap_or_default();
    Ok(Finished { status, stdout: text(stdout), stderr: text(stderr) })
}

/// Reads all that comes, beside whatever else happens: a full pipe would stop the process.
fn listen(pipe: Option<impl Read + Send + 'static>) -> JoinHandle<String> {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        if let Some(mut pipe) = pipe {
            let _ = pipe.read_to_end(&mut bytes);
        }
        String::from_utf8_lossy(&bytes).into_owned()
    })
}

fn wait(child: &mut Child, mut stdin: Option<ChildStdin>, grace: Duration) -> Result<ExitStatus> {
    let failed = || Error::io("wait for", Path::new("a process"));
    let mut asked: Option<Instant> = None;
    loop {
        if let Some(status) = child.try_wait().map_err(failed())? {
            // On a terminal the same Ctrl-C has ended the process.
            signals::stop().check()?;
            return Ok(status);
        }
        if signals::stop().asked() {
            drop(stdin.take());
            if asked.get_or_insert_with(Instant::now).elapsed() >= grace {
                let _ = child.kill();
            }
        }
        std::thread::sleep(LOOK);
    }
}

/// Why a process failed, in a few words.
pub fn reason(status: ExitStatus, message: &str) -> String {
    #[cfg(unix)]
    if let Some(signal) = std::os::unix::process::ExitStatusExt::signal(&status) {
        const KILLED: i32 = 9;
        let hint = if signal == KILLED { ", as the system does when memory runs out" } else { "" };
        return format!("killed by signal {signal}{hint}");
    }
    match status.code() {
        Some(code) => format!("exit code {code}: {}", one_line(message)),
        None => one_line(message),
    }
}

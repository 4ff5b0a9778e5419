//! Device and threads.

use crate::config::Engine;
use crate::device::cpu::Cpu;
use crate::device::cuda::{self, Cuda};
use crate::device::host::Host;
use crate::device::launcher::Launcher;
use crate::error::{Error, Result, suggestion};

/// What `--device` takes; `cuda:N` beside them.
pub const DEVICES: [&str; 4] = ["auto", "cpu", "cuda", "host"];

/// A device that was opened, and what there is to say about the choice.
pub enum Machine {
    /// The native CPU device, and why it was chosen where it was not asked for.
    Cpu(Box<Cpu<f32>>, Option<String>),
    /// The kernels on a GPU.
    Cuda(Box<Launcher<Cuda>>),
    /// The kernels on the CPU.
    Host(Launcher<Host>),
}

/// Opens the device of that name.
pub fn open(name: &str, engine: Engine) -> Result<Machine> {
    if name == "auto" {
        return match automatic() {
            Ok(driver) => Ok(on_gpu(driver, engine)),
            Err(reason) => Ok(cpu(engine, Some(format!("computing on the CPU: {reason}")))),
        };
    }
    if let Some(number) = name.strip_prefix("cuda") {
        let number = number.strip_prefix(':').map_or(number.is_empty().then_some(0), |number| number.parse().ok());
        if let Some(number) = number {
            return Ok(on_gpu(Cuda::new(number)?, engine));
        }
    }
    match name {
        "cpu" => Ok(cpu(engine, None)),
        "host" => Ok(Machine::Host(Launcher::new(Host::new()?, engine.states))),
        _ => Err(Error::Config(format!(
            "there is no device `{name}`{}\nuse --device {} (cuda:1 is the second GPU)",
            suggestion(name, DEVICES),
            DEVICES.join(", ")
        ))),
    }
}

/// What `auto` means: the first GPU, or why not.
pub fn automatic() -> std::result::Result<Cuda, String> {
    match cuda::device_count() {
        Ok(0) => Err("the NVIDIA driver finds no CUDA device".into()),
        Ok(_) => Cuda::new(0).map_err(|error| error.to_string()),
        Err(error) => Err(error.to_string()),
    }
}

fn on_gpu(driver: Cuda, engine: Engine) -> Machine {
    Machine::Cuda(Box::new(Launcher::new(driver, engine.states)))
}

fn cpu(engine: Engine, reason: Option<String>) -> Machine {
    Machine::Cpu(Box::new(Cpu::with_states(engine.states)), reason)
}

/// Runs `work` on `threads` threads (0: one a core).
pub fn with_threads<R: Send>(threads: usize, work: impl FnOnce() -> R + Send) -> Result<R> {
    const MOST: usize = 4096;
    if threads > MOST {
        return Err(Error::Config(format!("run.threads is {threads}; expected at most {MOST}")));
    }
    let pool = rayon::ThreadPoolBuilder::new()
        .num_threads(threads)
        .build()
        .map_err(|error| Error::Config(format!("cannot start {threads} threads: {error}")))?;
    Ok(pool.install(work))
}

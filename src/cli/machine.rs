//! Device and threads.

use crate::config::{Engine, States};
use crate::device::cpu::Cpu;
use crate::device::cuda::{self, Cuda};
use crate::device::host::Host;
use crate::device::launcher::Launcher;
use crate::error::{Error, Result, suggestion};

/// What `--device` takes; `cuda:N` beside them.
pub const DEVICES: [&str; 4] = ["auto", "cpu", "cuda", "host"];

/// A device that was opened, and what there is to say about the choice.
pub enum Machine {
    /// The native CPU device, and why it was chosen where that was not asked for.
    Cpu(Cpu<f32>, Option<String>),
    /// The kernels on a GPU.
    Cuda(Box<Launcher<Cuda>>),
    /// The kernels on the CPU.
    Host(Launcher<Host>),
}

/// Opens the device of that name.
pub fn open(name: &str, engine: Engine) -> Result<Machine> {
    if name == "auto" {
        return match automatic() {
            Ok(()) => cuda_device(0, engine),
            Err(reason) => cpu(engine, Some(format!("no GPU: {reason}"))),
        };
    }
    if let Some(number) = name.strip_prefix("cuda") {
        let number = number.strip_prefix(':').map_or(number.is_empty().then_some(0), |number| number.parse().ok());
        if let Some(number) = number {
            return cuda_device(number, engine);
        }
    }
    match name {
        "cpu" => cpu(engine, None),
        "host" => Ok(Machine::Host(Launcher::new(Host::new()?, engine.states))),
        _ => Err(Error::Config(format!(
            "there is no device `{name}`{}\nuse --device {} (cuda:1 is the second GPU)",
            suggestion(name, DEVICES),
            DEVICES.join(", ")
        ))),
    }
}

/// Whether `auto` means the first GPU; if not, why.
pub fn automatic() -> std::result::Result<(), String> {
    match cuda::devices() {
        Ok(devices) if devices.is_empty() => Err("the NVIDIA driver finds no CUDA device".into()),
        Ok(_) => Cuda::new(0).map(drop).map_err(|error| error.to_string()),
        Err(error) => Err(error.to_string()),
    }
}

fn cuda_device(number: usize, engine: Engine) -> Result<Machine> {
    Ok(Machine::Cuda(Box::new(Launcher::new(Cuda::new(number)?, engine.states))))
}

fn cpu(engine: Engine, reason: Option<String>) -> Result<Machine> {
    if engine.states != States::F32 {
        return Err(Error::Config(format!(
            "engine.states is not f32, which only devices that run kernels can store (cuda, host){}",
            reason.map_or(String::new(), |reason| format!("; {reason}"))
        )));
    }
    Ok(Machine::Cpu(Cpu::new(), reason))
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

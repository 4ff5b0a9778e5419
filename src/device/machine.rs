//! A device by its name, opened: `auto`, `cpu`, `cuda`, `cuda:N` or `host`.

use super::cpu::Cpu;
use super::cuda::{self, Cuda};
use super::host::Host;
use super::launcher::Launcher;
use crate::config::Engine;
use crate::team::launched::launched;
use harmonia_graph::error::{Error, Result, suggestion};

/// The names; `cuda:N` beside them.
pub const DEVICES: [&str; 4] = ["auto", "cpu", "cuda", "host"];

/// A device that was opened.
pub enum Machine {
    /// The native CPU device.
    Cpu(Box<Cpu<f32>>),
    /// The kernels on a GPU.
    Cuda(Box<Launcher<Cuda>>),
    /// The kernels on the CPU: for tests, slow.
    Host(Box<Launcher<Host>>),
}

/// Runs code that is written once over [`Device`](super::Device) on whichever device a [`Machine`] is:
/// `on_machine!(machine, device => work(device))`.
#[macro_export]
macro_rules! on_machine {
    ($machine:expr, $device:ident => $work:expr) => {
        match $machine {
            $crate::device::Machine::Cpu($device) => {
                let $device = &**$device;
                $work
            }
            $crate::device::Machine::Cuda($device) => {
                let $device = &**$device;
                $work
            }
            $crate::device::Machine::Host($device) => {
                let $device = &**$device;
                $work
            }
        }
    };
}

impl Machine {
    /// Opens the device of that name.
    ///
    /// # Errors
    /// There is no such device, or it cannot be used: no driver, no compiler at build time, too old a GPU.
    pub fn open(name: &str, engine: Engine) -> Result<Machine> {
        Ok(Machine::chosen(name, engine)?.0)
    }

    /// The same, and why `auto` chose the CPU where it did.
    ///
    /// # Errors
    /// As [`Machine::open`].
    pub fn chosen(name: &str, engine: Engine) -> Result<(Machine, Option<String>)> {
        if name == "auto" {
            return Ok(match automatic() {
                Ok(driver) => (on_gpu(driver, engine), None),
                Err(reason) => (cpu(engine), Some(reason)),
            });
        }
        if let Some(number) = name.strip_prefix("cuda") {
            let number = match number.strip_prefix(':') {
                Some(number) => number.parse().ok(),
                None if number.is_empty() => Some(own_gpu(cuda::device_count()?)),
                None => None,
            };
            if let Some(number) = number {
                return Ok((on_gpu(Cuda::new(number)?, engine), None));
            }
        }
        match name {
            "cpu" => Ok((cpu(engine), None)),
            "host" => Ok((Machine::Host(Box::new(Launcher::new(Host::new()?, engine.states))), None)),
            _ => Err(Error::Config(format!(
                "run.device: there is no device `{name}`{}\nthe devices are {} (cuda:1 is the second GPU)",
                suggestion(name, DEVICES),
                DEVICES.join(", ")
            ))),
        }
    }
}

/// What `auto` means: the first GPU, or one for each of several processes here; or why not.
pub fn automatic() -> std::result::Result<Cuda, String> {
    match cuda::device_count() {
        Ok(0) => Err("the NVIDIA driver finds no CUDA device".into()),
        Ok(count) => Cuda::new(own_gpu(count)).map_err(|error| error.to_string()),
        Err(error) => Err(error.to_string()),
    }
}

/// Which of the GPUs here is this process's, where nobody has said: processes that were started together deal them out.
fn own_gpu(count: usize) -> usize {
    launched().map_or(0, |launched| launched.place % count.max(1))
}

fn on_gpu(driver: Cuda, engine: Engine) -> Machine {
    Machine::Cuda(Box::new(Launcher::new(driver, engine.states)))
}

fn cpu(engine: Engine) -> Machine {
    Machine::Cpu(Box::new(Cpu::with_states(engine.states)))
}

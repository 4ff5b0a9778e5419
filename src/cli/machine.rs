//! The device that a command computes on.

use super::voice;
use crate::config::Config;
use crate::device::Machine;
use harmonia_graph::error::Result;

/// Opens the device of the settings, and says why `auto` chose the CPU where it did. Not everything has kernels: who asked for a GPU
/// hears of it, `auto` just takes the CPU.
///
/// # Errors
/// As [`Machine::chosen`].
pub fn open(config: &Config) -> Result<(Machine, Option<String>)> {
    let device = &config.run.device[..];
    let Some(what) = config.without_kernels().filter(|_| device != "cpu") else {
        return Machine::chosen(device, config.engine);
    };
    if device != "auto" {
        voice::note(format_args!("there are no kernels for {what}: it runs on the CPU, not on {device}"));
    }
    Machine::chosen("cpu", config.engine)
}

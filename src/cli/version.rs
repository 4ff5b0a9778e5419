//! `--version`: what was built, from which commit, and what it can compute on here.

use crate::device::Device;
use crate::device::cpu::Cpu;
use crate::device::cuda;
use crate::device::host::Host;

/// One line, for `-V`.
pub const SHORT: &str = harmonia_commit::VERSION;

/// The lines of `--version`. Asks the driver, so it is not made before it is wanted.
pub fn long(program: &str) -> String {
    let cuda = match cuda::device_count() {
        Ok(0) => "no GPU: the NVIDIA driver finds no CUDA device".into(),
        Ok(1) => "1 GPU".into(),
        Ok(count) => format!("{count} GPUs"),
        Err(error) => error.to_string(),
    };
    let host = match Host::new() {
        Ok(host) => format!("{} kernels compiled", host.kernels().len()),
        Err(error) => format!("no kernels: {error}"),
    };
    let (version, commit) = (env!("CARGO_PKG_VERSION"), harmonia_commit::COMMIT);
    format!("{program} {version}\ncommit {commit}\ncpu: {}\ncuda: {cuda}\nhost: {host}\n", Cpu::<f32>::new().name())
}

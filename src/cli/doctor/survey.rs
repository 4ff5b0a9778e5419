//! `harmonia doctor`: what is here, what is missing, and what `--device auto` makes of it.
//!
//! Every question has an answer on every machine: what cannot be found out is said, and nothing here fails.

use crate::device::Device;
use crate::device::cpu::Cpu;
use crate::device::cuda::{self, Cuda, DeviceInfo, nvrtc};
use crate::device::host::Host;
use harmonia_graph::error::Result;
use serde_json::{Value, json};

/// Version of the C++ compiler that built the kernels for the CPU; empty without one.
const CXX: &str = env!("HARMONIA_CXX_VERSION");

/// Text and JSON.
pub fn output() -> (String, Value) {
    let survey = Survey::new();
    (survey.text(), survey.json())
}

struct Survey {
    processor: String,
    /// Logical cores this process may use.
    cores: usize,
    /// Number of kernels the CPU can run, or why none.
    host: Result<usize>,
    driver: Result<(u32, u32)>,
    devices: Result<Vec<(DeviceInfo, Result<String>)>>,
    nvrtc: Result<(u32, u32)>,
    cublas: Result<()>,
    /// Nothing, or why `--device auto` is the CPU.
    automatic: std::result::Result<(), String>,
}

impl Survey {
    fn new() -> Survey {
        // A device is opened as training would open it: that is the only proof that it works.
        let open = |info: DeviceInfo| {
            let origin = Cuda::new(info.index).map(|device| device.kernel_origin().to_string());
            (info, origin)
        };
        Survey {
            processor: processor(),
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            host: Host::new().map(|host| host.kernels().len()),
            driver: cuda::driver_version(),
            devices: cuda::devices().map(|devices| devices.into_iter().map(open).collect()),
            nvrtc: nvrtc::version(),
            cublas: cuda::cublas(),
            automatic: crate::device::machine::automatic().map(drop),
        }
    }

    fn text(&self) -> String {
        fn answer<T>(result: &Result<T>, text: impl FnOnce(&T) -> String) -> String {
            result.as_ref().map_or_else(ToString::to_string, text)
        }
        let cache = match nvrtc::cache_directory() {
            Some(path) if path.is_dir() => path.display().to_string(),
            Some(path) => format!("{} (made when NVRTC first compiles)", path.display()),
            None => "none: HARMONIA_CACHE, XDG_CACHE_HOME and HOME are not set".into(),
        };
        let automatic = match &self.automatic {
            Ok(()) => "cuda: the first GPU works".into(),
            Err(reason) => format!("cpu: {reason}"),
        };
        let host = |count: &usize| format!("{count} kernels, built by {CXX} (--device host)");
        let mut out = line("harmonia", env!("CARGO_PKG_VERSION"));
        out += &line("CPU", &format!("{}; {} cores; {}", self.processor, self.cores, Cpu::<f32>::new().name()));
        out += &line("kernels on the CPU", &answer(&self.host, host));
        out += &line("kernels for GPUs", &embedded());
        out += &line("CUDA driver", &answer(&self.driver, |(major, minor)| format!("supports CUDA {major}.{minor}")));
        out += &self.gpus();
        out += &line("cuBLAS", &answer(&self.cublas, |()| "found".into()));
        out += &line("NVRTC", &answer(&self.nvrtc, |(major, minor)| format!("{major}.{minor}")));
        out += &line("kernel cache", &cache);
        out + &line("--device auto", &automatic)
    }

    fn gpus(&self) -> String {
        let devices = match &self.devices {
            Ok(devices) if devices.is_empty() => return line("GPUs", "none: the NVIDIA driver finds no CUDA device"),
            Ok(devices) => devices,
            Err(_) if self.driver.is_err() => return line("GPUs", "none without a driver"),
            Err(error) => return line("GPUs", &format!("cannot be listed: {error}")),
        };
        let describe = |(info, origin): &(DeviceInfo, Result<String>)| {
            let kernels = match origin {
                Ok(origin) => format!("kernels from {origin}"),
                Err(error) => format!("cannot be used: {error}"),
            };
            line(&format!("cuda:{}", info.index), &describe(info)) + &line("", &kernels)
        };
        devices.iter().map(describe).collect()
    }

    fn json(&self) -> Value {
        let embedded = cuda::embedded();
        let devices = self.devices.iter().flatten().map(|(info, origin)| {
            json!({
                "index": info.index, "name": info.name,
                "compute_capability": format!("{}.{}", info.capability.0, info.capability.1),
                "memory_bytes": info.memory_total, "memory_free_bytes": info.memory_free,
                "multiprocessors": info.multiprocessors,
                "kernels": origin.as_ref().ok(), "error": message(origin),
            })
        });
        let version = |version: &Result<(u32, u32)>| version.as_ref().ok().map(|(a, b)| format!("{a}.{b}"));
        json!({
            "version": env!("CARGO_PKG_VERSION"),
            "cpu": { "name": self.processor, "cores": self.cores, "threads": self.cores, "device": Cpu::<f32>::new().name() },
            "host": { "kernels": self.host.as_ref().ok(), "compiler": CXX, "error": message(&self.host) },
            "embedded": {
                "fatbin_bytes": embedded.fatbin.len(), "nvcc": embedded.nvcc_version, "archs": embedded.archs,
                "source_bytes": embedded.source.len(),
            },
            "driver": { "cuda": version(&self.driver), "error": message(&self.driver) },
            "devices": devices.collect::<Vec<_>>(), "devices_error": message(&self.devices),
            "cublas": { "found": self.cublas.is_ok(), "error": message(&self.cublas) },
            "nvrtc": { "version": version(&self.nvrtc), "error": message(&self.nvrtc) },
            "cache": nvrtc::cache_directory(),
            "auto": { "device": if self.automatic.is_ok() { "cuda" } else { "cpu" }, "reason": self.automatic.as_ref().err() },
        })
    }
}

/// A label and a text, which goes on below itself where it is long.
fn line(label: &str, text: &str) -> String {
    const LABEL: usize = 20;
    const TEXT: usize = 100;
    let mut out = format!("{label:<LABEL$}");
    let mut used = 0;
    for word in text.split_whitespace() {
        if used > 0 && used + 1 + word.chars().count() > TEXT {
            out += &format!("\n{:LABEL$}", "");
            used = 0;
        }
        if used > 0 {
            out.push(' ');
            used += 1;
        }
        out += word;
        used += word.chars().count();
    }
    out + "\n"
}

fn message<T>(result: &Result<T>) -> Option<String> {
    result.as_ref().err().map(ToString::to_string)
}

/// What the processor calls itself, where the system tells.
fn processor() -> String {
    let text = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let name = text.lines().find_map(|line| line.strip_prefix("model name")?.split_once(':'));
    name.map_or_else(|| std::env::consts::ARCH.to_string(), |(_, name)| name.trim().to_string())
}

/// The forms of the kernels in this binary.
fn embedded() -> String {
    let embedded = cuda::embedded();
    if embedded.fatbin.is_empty() {
        return "source only, compiled by NVRTC on first use (this program was built without nvcc)".into();
    }
    let first = embedded.archs.split(',').next().unwrap_or_default();
    format!(
        "machine code for sm_{} and PTX compute_{first} by nvcc {}; source for NVRTC",
        embedded.archs.replace(',', ", "),
        embedded.nvcc_version
    )
}

fn describe(info: &DeviceInfo) -> String {
    let gibibytes = |bytes: usize| format!("{:.1} GiB", bytes as f64 / (1u64 << 30) as f64);
    format!(
        "{}, compute capability {}.{}, {} multiprocessors, {} of memory, {} free",
        info.name,
        info.capability.0,
        info.capability.1,
        info.multiprocessors,
        gibibytes(info.memory_total),
        info.memory_free.map_or("unknown".into(), gibibytes)
    )
}

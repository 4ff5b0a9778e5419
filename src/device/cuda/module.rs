//! The kernels on the device: which form of them is loaded, and the functions in it.
//!
//! First choice is the fatbin made by nvcc when this program was built. Where it is absent, or holds nothing the device
//! can run, NVRTC compiles the embedded source.

use super::context::{DeviceLimits, Stream};
use super::error::{describe, is_unsuitable_image};
use super::nvrtc;
use crate::device::launcher::Launch;
use cudarc::driver::sys::{self, CUfunction_attribute as Attribute, CUresult};
use harmonia_graph::error::{Error, Result};
use std::collections::HashMap;
use std::ffi::{CString, c_int};
use std::sync::{Arc, Mutex, PoisonError};

#[repr(C, align(64))]
struct Aligned<T: ?Sized>(T);
static FATBIN: &Aligned<[u8]> = &Aligned(*include_bytes!(concat!(env!("OUT_DIR"), "/kernels.fatbin")));

/// What was embedded when this program was built.
#[derive(Clone, Copy, Debug)]
pub struct Embedded {
    /// All kernels as one CUDA source.
    pub source: &'static str,
    /// Machine code and PTX; empty without nvcc.
    pub fatbin: &'static [u8],
    /// CUDA release of nvcc, as in "13.4"; empty without.
    pub nvcc_version: &'static str,
    /// Generations with machine code, as in "80,89"; empty without nvcc.
    pub archs: &'static str,
    /// What ptxas said about registers and memory of each kernel; empty without nvcc.
    pub ptxas_report: &'static str,
}

/// What was embedded when this program was built.
pub fn embedded() -> Embedded {
    Embedded {
        source: include_str!(concat!(env!("OUT_DIR"), "/kernels.cu")),
        fatbin: &FATBIN.0,
        nvcc_version: env!("HARMONIA_NVCC_VERSION"),
        archs: env!("HARMONIA_FATBIN_ARCHS"),
        ptxas_report: include_str!(concat!(env!("OUT_DIR"), "/kernels.ptxas.txt")),
    }
}

/// The first that knows `__grid_constant__`.
const OLDEST_NVRTC: (u32, u32) = (11, 7);

/// Kernels loaded into a context.
pub(super) struct Module {
    stream: Arc<Stream>,
    raw: sys::CUmodule,
    /// For people: where the code came from.
    pub(super) origin: String,
    functions: Mutex<HashMap<&'static str, Function>>,
}

// SAFETY: a module and its functions may be used from any thread with the context current; the map has a lock.
unsafe impl Send for Module {}
// SAFETY: as above.
unsafe impl Sync for Module {}

#[derive(Clone, Copy)]
pub(super) struct Function {
    pub(super) raw: sys::CUfunction,
    max_threads: u32,
    static_shared: usize,
}

impl Module {
    pub(super) fn new(stream: &Arc<Stream>) -> Result<Module> {
        let embedded = embedded();
        let refused = match fatbin_origin(&embedded, stream) {
            Ok(origin) => match load(stream, embedded.fatbin)? {
                Ok(raw) => return Ok(Module::from_raw(stream, raw, origin)),
                Err(code) => format!("the driver refused the kernels built by nvcc {}: {code}", embedded.nvcc_version),
            },
            Err(reason) => reason,
        };
        Module::from_source(stream, embedded.source)
            .map_err(|error| Error::Device(format!("{refused}; they would be compiled here, but {error}")))
    }

    fn from_source(stream: &Arc<Stream>, source: &str) -> Result<Module> {
        let (major, minor) = nvrtc::version()?;
        let (driver_major, driver_minor) = stream.driver_version();
        if (major, minor) < OLDEST_NVRTC {
            let (oldest, and) = OLDEST_NVRTC;
            return Err(Error::Device(format!(
                "NVRTC {major}.{minor} is too old for these kernels: install the libnvrtc of CUDA {oldest}.{and} or newer"
            )));
        }
        if major > driver_major {
            return Err(Error::Device(format!(
                "NVRTC {major}.{minor} is newer than the driver, which supports CUDA {driver_major}.{driver_minor}: update the \
                 driver, or install the libnvrtc of CUDA {driver_major}"
            )));
        }
        let target = nvrtc::target(stream.capability())?;
        let code = nvrtc::cached(source, target, nvrtc::cache_directory().as_deref())?;
        let kept = match (&code.not_kept, code.cached) {
            (Some(reason), _) => format!("not cached: {reason}"),
            (None, true) => "cached".to_string(),
            (None, false) => "compiled now".to_string(),
        };
        match load(stream, &code.image)? {
            Ok(raw) => Ok(Module::from_raw(stream, raw, format!("NVRTC {major}.{minor} {target}, {kept}"))),
            Err(code) => Err(Error::Device(format!(
                "the driver refused what NVRTC {major}.{minor} made: {code}; it supports CUDA \
                 {driver_major}.{driver_minor}: update it, or install a libnvrtc no newer than that"
            ))),
        }
    }

    fn from_raw(stream: &Arc<Stream>, raw: sys::CUmodule, origin: String) -> Module {
        Module { stream: stream.clone(), raw, origin, functions: Mutex::default() }
    }

    /// A kernel by name; looked up once. The context is current.
    pub(super) fn function(&self, kernel: &'static str) -> Result<Function> {
        let mut functions = self.functions.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(function) = functions.get(kernel) {
            return Ok(*function);
        }
        let name = CString::new(kernel).map_err(|_| Error::Device(format!("{kernel:?} is no name of a kernel")))?;
        let mut raw: sys::CUfunction = std::ptr::null_mut();
        // SAFETY: the module is loaded in the current context, and the name ends with a zero.
        let code = unsafe { sys::cuModuleGetFunction(&mut raw, self.raw, name.as_ptr()) };
        self.stream.check(code, format_args!("find kernel `{kernel}` in the module ({})", self.origin))?;
        let attribute = |attribute| {
            let mut value: c_int = 0;
            // SAFETY: the function was just found, and `value` outlives the call.
            let code = unsafe { sys::cuFuncGetAttribute(&mut value, attribute, raw) };
            self.stream.check(code, format_args!("ask for the limits of kernel `{kernel}`"))?;
            Ok(value.unsigned_abs())
        };
        let function = Function {
            raw,
            max_threads: attribute(Attribute::CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK)?,
            static_shared: attribute(Attribute::CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES)? as usize,
        };
        // Beyond 48 KiB only on request; asking for all of it costs nothing until a launch uses it.
        let dynamic = self.stream.limits.shared.saturating_sub(function.static_shared) as c_int;
        let most = Attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
        // SAFETY: the function was just found.
        let code = unsafe { sys::cuFuncSetAttribute(raw, most, dynamic) };
        self.stream.check(code, format_args!("give kernel `{kernel}` {dynamic} bytes of shared memory"))?;
        functions.insert(kernel, function);
        Ok(function)
    }
}

impl Drop for Module {
    fn drop(&mut self) {
        if self.stream.synchronize().is_ok() {
            // SAFETY: loaded once, unloaded once, and no kernel of it is running.
            let _ = unsafe { sys::cuModuleUnload(self.raw) };
        }
    }
}

impl Function {
    /// That a launch is within what the device and this kernel allow.
    pub(super) fn check(&self, launch: &Launch, limits: &DeviceLimits) -> Result<()> {
        let too_much = |what: &str, asked: String, allowed: String| {
            Err(Error::Device(format!(
                "kernel `{}` asks for {what} {asked}; the device allows {allowed}",
                launch.kernel
            )))
        };
        let exceeds = |asked: [u32; 3], most: [u32; 3]| asked.iter().zip(most).any(|(&asked, most)| asked > most);
        if exceeds(launch.grid, limits.grid) {
            return too_much("a grid of", format!("{:?} blocks", launch.grid), format!("{:?}", limits.grid));
        }
        let threads: u64 = launch.block.iter().map(|&size| u64::from(size)).product();
        if exceeds(launch.block, limits.block) || threads > u64::from(self.max_threads) || threads == 0 {
            let allowed = format!("{:?}, and {} in all for this kernel", limits.block, self.max_threads);
            return too_much("blocks of", format!("{:?} threads", launch.block), allowed);
        }
        let shared = launch.shared_bytes as usize + self.static_shared;
        if shared > limits.shared {
            return too_much("shared memory of", format!("{shared} bytes"), format!("{} bytes", limits.shared));
        }
        Ok(())
    }
}

/// Loads an image; the inner error is for one the device or driver cannot use.
fn load(stream: &Stream, image: &[u8]) -> Result<std::result::Result<sys::CUmodule, String>> {
    stream.enter()?;
    let mut raw: sys::CUmodule = std::ptr::null_mut();
    // SAFETY: the context is current. The image is a whole fatbin, or a cubin or PTX with a zero behind it; all three say
    // themselves where they end.
    match unsafe { sys::cuModuleLoadData(&mut raw, image.as_ptr().cast()) } {
        CUresult::CUDA_SUCCESS => Ok(Ok(raw)),
        code if is_unsuitable_image(code) => Ok(Err(describe(code))),
        code => stream.check(code, "load the kernels").map(|()| Ok(raw)),
    }
}

/// What of the fatbin the driver will take, or why it will take nothing.
fn fatbin_origin(embedded: &Embedded, stream: &Stream) -> std::result::Result<String, String> {
    if embedded.fatbin.is_empty() {
        return Err("this program was built without nvcc and holds the kernels as source".to_string());
    }
    let (driver_major, driver_minor) = stream.driver_version();
    let nvcc_major: u32 = embedded.nvcc_version.split('.').next().and_then(|major| major.parse().ok()).unwrap_or(0);
    if nvcc_major > driver_major {
        return Err(format!(
            "the NVIDIA driver supports CUDA {driver_major}.{driver_minor} and these kernels were built with CUDA {}: update \
             the driver, or build with CUDA {driver_major} or without nvcc",
            embedded.nvcc_version
        ));
    }
    Ok(match machine_code(embedded.archs, stream.capability()) {
        Some(arch) => format!("fatbin sm_{arch}"),
        None => format!("PTX compute_{}, compiled by the driver", embedded.archs.split(',').next().unwrap_or_default()),
    })
}

/// The machine code of a list such as "80,86" that a device runs: that of its own major generation, the nearest below.
fn machine_code(archs: &str, (major, minor): (u32, u32)) -> Option<&str> {
    let number = |arch: &str| arch.parse::<u32>().ok();
    let exact = |arch: &str| arch.trim_end_matches(['a', 'f']).parse() == Ok(major * 10 + minor);
    let suits = |arch: &&str| exact(arch) || number(arch).is_some_and(|arch| arch / 10 == major && arch % 10 <= minor);
    archs.split(',').filter(suits).max_by_key(|arch| number(arch.trim_end_matches(['a', 'f'])))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_runs_machine_code_of_its_own_major_generation() {
        let archs = "80,86,90a,100,120";
        assert_eq!(machine_code(archs, (8, 0)), Some("80"));
        assert_eq!(machine_code(archs, (8, 9)), Some("86"));
        assert_eq!(machine_code(archs, (9, 0)), Some("90a"));
        assert_eq!(machine_code(archs, (10, 3)), Some("100"));
        assert_eq!(machine_code(archs, (11, 0)), None);
        assert_eq!(machine_code(archs, (12, 1)), Some("120"));
        assert_eq!(machine_code("", (8, 0)), None);
    }

    #[test]
    fn a_launch_beyond_the_device_names_the_kernel_and_the_sizes() {
        let limits = DeviceLimits { grid: [1000, 10, 10], block: [1024, 1024, 64], shared: 100_000 };
        let function = Function { raw: std::ptr::null_mut(), max_threads: 512, static_shared: 1000 };
        let fits = Launch {
            kernel: "k",
            grid: [1000, 1, 1],
            block: [512, 1, 1],
            shared_bytes: 99_000,
            arguments: std::ptr::null(),
        };
        function.check(&fits, &limits).unwrap();
        let message = |launch: Launch| function.check(&launch, &limits).unwrap_err().to_string();
        assert!(
            message(Launch { grid: [1, 11, 1], ..fits }).contains("kernel `k` asks for a grid of [1, 11, 1] blocks")
        );
        assert!(message(Launch { block: [513, 1, 1], ..fits }).contains("512 in all"));
        assert!(message(Launch { block: [1, 1, 65], ..fits }).contains("[1, 1, 65] threads"));
        assert!(message(Launch { block: [0, 1, 1], ..fits }).contains("[0, 1, 1] threads"));
        assert!(message(Launch { shared_bytes: 99_001, ..fits }).contains("100001 bytes; the device allows 100000"));
    }
}

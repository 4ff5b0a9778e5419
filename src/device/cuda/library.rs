//! Are the CUDA libraries there? cudarc opens them on first use and panics where one, or a function of one, is missing;
//! so everything here asks first, and answers with a message.
//!
//! A library the system's loader does not find is looked for in `HARMONIA_CUDA_LIB` (before the system),
//! then below `CUDA_HOME` and `CUDA_PATH`, then, under cargo, in `.cuda/lib` of the project. It is opened by its path and
//! kept open; cudarc's own request for the same name then gets the open one.

use cudarc::{cublas, driver, nvrtc};
use harmonia_graph::error::{Error, Result};
use libloading::Library;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// All functions of the driver called here. All exist since CUDA 11.2.
const DRIVER: &[&str] = &[
    "cuCtxSetCurrent",
    "cuDeviceGet",
    "cuDeviceGetAttribute",
    "cuDeviceGetCount",
    "cuDeviceGetDefaultMemPool",
    "cuDeviceGetName",
    "cuDevicePrimaryCtxRelease_v2",
    "cuDevicePrimaryCtxRetain",
    "cuDeviceTotalMem_v2",
    "cuDriverGetVersion",
    "cuEventCreate",
    "cuEventDestroy_v2",
    "cuEventElapsedTime",
    "cuEventRecord",
    "cuEventSynchronize",
    "cuFuncGetAttribute",
    "cuFuncSetAttribute",
    "cuGetErrorName",
    "cuGetErrorString",
    "cuInit",
    "cuLaunchKernel",
    "cuMemAllocAsync",
    "cuMemAlloc_v2",
    "cuMemFreeAsync",
    "cuMemFreeHost",
    "cuMemFree_v2",
    "cuMemGetInfo_v2",
    "cuMemHostAlloc",
    "cuMemPoolGetAttribute",
    "cuMemPoolSetAttribute",
    "cuMemPoolTrimTo",
    "cuMemcpyDtoHAsync_v2",
    "cuMemcpyHtoDAsync_v2",
    "cuMemsetD8Async",
    "cuModuleGetFunction",
    "cuModuleLoadData",
    "cuModuleUnload",
    "cuStreamCreate",
    "cuStreamDestroy_v2",
    "cuStreamSynchronize",
];

/// All functions of cuBLAS called here.
const CUBLAS: &[&str] = &[
    "cublasCreate_v2",
    "cublasDestroy_v2",
    "cublasGetStatusName",
    "cublasGetStatusString",
    "cublasSetAtomicsMode",
    "cublasSetMathMode",
    "cublasSetStream_v2",
    "cublasSgemmStridedBatched",
    "cublasSgemm_v2",
];

/// All functions of NVRTC called here.
const NVRTC: &[&str] = &[
    "nvrtcCompileProgram",
    "nvrtcCreateProgram",
    "nvrtcDestroyProgram",
    "nvrtcGetCUBIN",
    "nvrtcGetCUBINSize",
    "nvrtcGetErrorString",
    "nvrtcGetNumSupportedArchs",
    "nvrtcGetPTX",
    "nvrtcGetPTXSize",
    "nvrtcGetProgramLog",
    "nvrtcGetProgramLogSize",
    "nvrtcGetSupportedArchs",
    "nvrtcVersion",
];

/// The driver can be called.
pub(super) fn driver() -> Result<()> {
    static CHECKED: OnceLock<std::result::Result<(), String>> = OnceLock::new();
    let check = || {
        // SAFETY: opening the driver's library runs its initialisation, which has no requirements.
        if !unsafe { driver::sys::is_culib_present() } {
            // SAFETY: as above.
            let reason = unsafe { Library::new("libcuda.so.1") }.err().map(|error| error.to_string());
            let reason =
                reason.filter(|reason| !reason.contains("No such file") && Path::new("/dev/nvidiactl").exists());
            return Err(format!(
                "no NVIDIA driver (libcuda.so.1 was not found{}): install the driver of the GPU, or set run.device = cpu",
                reason.map_or(String::new(), |reason| format!(": {reason}"))
            ));
        }
        // SAFETY: the library is there; symbols are only looked up.
        let missing = |name: &&&str| unsafe { driver::sys::culib().get::<*const ()>(name.as_bytes()) }.is_err();
        match DRIVER.iter().find(missing) {
            Some(name) => {
                Err(format!("the NVIDIA driver is too old (it has no {name}): update it, or set run.device = cpu"))
            }
            None => Ok(()),
        }
    };
    CHECKED.get_or_init(check).clone().map_err(Error::Device)
}

/// Streams can wait for each other; only what is larger than the device needs it.
pub(super) fn wait_event() -> Result<()> {
    const NAME: &str = "cuStreamWaitEvent";
    driver()?;
    // SAFETY: the library is there; the symbol is only looked up.
    match unsafe { driver::sys::culib().get::<*const ()>(NAME.as_bytes()) } {
        Ok(_) => Ok(()),
        Err(_) => {
            Err(Error::Device(format!("the NVIDIA driver has no {NAME}: nothing can be brought beside the work")))
        }
    }
}

/// cuBLAS can be called.
pub(super) fn cublas() -> Result<()> {
    static CHECKED: OnceLock<std::result::Result<(), String>> = OnceLock::new();
    let check = || {
        // SAFETY: see `driver`.
        if !find("cublas", || unsafe { cublas::sys::is_culib_present() }) {
            return Err("libcublas was not found: install the CUDA toolkit, or `pip install nvidia-cublas` and set \
                        HARMONIA_CUDA_LIB to the directory with libcublas.so"
                .to_string());
        }
        // SAFETY: see `driver`.
        let missing = |name: &&&str| unsafe { cublas::sys::culib().get::<*const ()>(name.as_bytes()) }.is_err();
        CUBLAS.iter().find(missing).map_or(Ok(()), |name| Err(format!("libcublas is too old: it has no {name}")))
    };
    CHECKED.get_or_init(check).clone().map_err(Error::Device)
}

/// NVRTC can be called.
pub(super) fn nvrtc() -> Result<()> {
    static CHECKED: OnceLock<std::result::Result<(), String>> = OnceLock::new();
    let check = || {
        // SAFETY: see `driver`.
        if !find("nvrtc", || unsafe { nvrtc::sys::is_culib_present() }) {
            return Err(
                "libnvrtc was not found: install the CUDA toolkit, or `pip install nvidia-cuda-nvrtc` and set \
                        HARMONIA_CUDA_LIB to the directory with libnvrtc.so"
                    .to_string(),
            );
        }
        // SAFETY: see `driver`.
        let missing = |name: &&&str| unsafe { nvrtc::sys::culib().get::<*const ()>(name.as_bytes()) }.is_err();
        NVRTC.iter().find(missing).map_or(Ok(()), |name| Err(format!("libnvrtc is too old: it has no {name}")))
    };
    CHECKED.get_or_init(check).clone().map_err(Error::Device)
}

/// Names of NCCL, which cudarc does not look for: distributions and pip have the numbered one alone.
const NCCL: [&str; 2] = ["libnccl.so.2", "libnccl.so"];

/// NCCL, opened for good.
pub(super) fn nccl() -> Result<&'static Library> {
    static OPENED: OnceLock<Option<Library>> = OnceLock::new();
    let open_it = || {
        let named = directory("HARMONIA_CUDA_LIB").and_then(|named| newest("nccl", &named));
        // SAFETY: NCCL can be opened at any time, and is never closed again.
        let system = || NCCL.iter().find_map(|name| unsafe { Library::new(*name) }.ok());
        named.or_else(system).or_else(|| toolkits().find_map(|place| newest("nccl", &place)))
    };
    OPENED.get_or_init(open_it).as_ref().ok_or_else(|| {
        Error::Device(
            "libnccl.so.2 was not found: install NCCL (Debian: libnccl2), or `pip install nvidia-nccl-cu13` and set \
             HARMONIA_CUDA_LIB to the directory with libnccl.so.2"
                .into(),
        )
    })
}

/// Devices can be told from each other, across processes and whatever numbers they have there.
pub(super) fn uuid() -> Result<()> {
    const NAME: &str = "cuDeviceGetUuid_v2";
    driver()?;
    // SAFETY: the library is there; the symbol is only looked up.
    match unsafe { driver::sys::culib().get::<*const ()>(NAME.as_bytes()) } {
        Ok(_) => Ok(()),
        Err(_) => Err(Error::Device(format!("the NVIDIA driver has no {NAME}: update it"))),
    }
}

/// Whether cudarc will find a library, after opening it from one of our places where that helps.
fn find(stem: &str, present: impl Fn() -> bool) -> bool {
    if let Some(named) = directory("HARMONIA_CUDA_LIB") {
        open(stem, &named);
    }
    if present() {
        return true;
    }
    toolkits().any(|place| open(stem, &place)) && present()
}

fn directory(variable: &str) -> Option<PathBuf> {
    std::env::var_os(variable).map(PathBuf::from)
}

/// Where libraries may be that the system's loader does not find.
fn toolkits() -> impl Iterator<Item = PathBuf> {
    let homes = ["CUDA_HOME", "CUDA_PATH"].into_iter().filter_map(directory);
    let toolkits = homes.flat_map(|home| [home.join("lib64"), home.join("lib")]);
    toolkits.chain(directory("CARGO_MANIFEST_DIR").map(|project| project.join(".cuda/lib")))
}

/// Opens the newest `lib{stem}.so*` of a directory, for good.
fn open(stem: &str, directory: &Path) -> bool {
    newest(stem, directory).map(std::mem::forget).is_some()
}

fn newest(stem: &str, directory: &Path) -> Option<Library> {
    let prefix = format!("lib{stem}.so");
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    let mut paths: Vec<PathBuf> = entries
        .filter(|entry| entry.file_name().to_string_lossy().starts_with(&prefix))
        .map(|entry| entry.path())
        .collect();
    paths.sort();
    // SAFETY: the CUDA libraries can be opened at any time; they are never closed again.
    paths.iter().rev().find_map(|path| unsafe { Library::new(path) }.ok())
}

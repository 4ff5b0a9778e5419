//! What a code of CUDA means to the user: its name and text, what was being done, and what to do.

use cudarc::cublas::sys::{self as cublas, cublasStatus_t};
use cudarc::driver::sys::{self, CUresult};
use harmonia_graph::error::Error;
use std::ffi::{CStr, c_char};
use std::fmt::Display;

/// The error for a failed call of the driver.
pub(super) fn driver_error(code: CUresult, doing: impl Display) -> Error {
    let advice = advice(code);
    let separator = if advice.is_empty() { "" } else { ": " };
    Error::Device(format!("cannot {doing}: {}{separator}{advice}", describe(code)))
}

/// `CUDA_ERROR_ILLEGAL_ADDRESS (an illegal memory access was encountered)`.
pub(super) fn describe(code: CUresult) -> String {
    let mut name: *const c_char = std::ptr::null();
    let mut text: *const c_char = std::ptr::null();
    // SAFETY: both functions were checked to exist (a code can only come from the driver) and set the pointer to a static
    // string or null.
    let (name, text) = unsafe {
        let _ = sys::cuGetErrorName(code, &mut name);
        let _ = sys::cuGetErrorString(code, &mut text);
        (static_text(name), static_text(text))
    };
    format!(
        "{} ({})",
        name.unwrap_or_else(|| format!("{code:?}")),
        text.unwrap_or_else(|| "no description".to_string())
    )
}

/// # Safety
/// Null, or a string that ends with a zero and is never freed.
unsafe fn static_text(text: *const c_char) -> Option<String> {
    // SAFETY: as the caller promises.
    (!text.is_null()).then(|| unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned())
}

fn advice(code: CUresult) -> &'static str {
    use CUresult as C;
    match code {
        C::CUDA_ERROR_NO_DEVICE => "no CUDA device; is one plugged in, and not hidden by CUDA_VISIBLE_DEVICES?",
        C::CUDA_ERROR_STUB_LIBRARY => "the libcuda found is the toolkit's stub; install the driver of the GPU",
        C::CUDA_ERROR_SYSTEM_DRIVER_MISMATCH => "libcuda and the kernel module differ; restart the machine",
        C::CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE => "this GPU cannot use the compatibility libcuda; remove it",
        C::CUDA_ERROR_SYSTEM_NOT_READY => "the driver is still starting; see `nvidia-smi`",
        C::CUDA_ERROR_UNKNOWN => "the driver is not working; see whether `nvidia-smi` does",
        C::CUDA_ERROR_DEVICE_UNAVAILABLE => "another process has the GPU for itself; see `nvidia-smi`",
        C::CUDA_ERROR_ECC_UNCORRECTABLE => "the memory of the GPU is faulty; see `nvidia-smi -q`",
        C::CUDA_ERROR_OUT_OF_MEMORY => "out of memory on the device; other processes may hold some, see `nvidia-smi`",
        _ => "",
    }
}

/// Whether the context is lost: every later call fails with the same code.
pub(super) fn is_sticky(code: CUresult) -> bool {
    use CUresult as C;
    matches!(
        code,
        C::CUDA_ERROR_ILLEGAL_ADDRESS
            | C::CUDA_ERROR_LAUNCH_FAILED
            | C::CUDA_ERROR_LAUNCH_TIMEOUT
            | C::CUDA_ERROR_ASSERT
            | C::CUDA_ERROR_HARDWARE_STACK_ERROR
            | C::CUDA_ERROR_ILLEGAL_INSTRUCTION
            | C::CUDA_ERROR_MISALIGNED_ADDRESS
            | C::CUDA_ERROR_INVALID_ADDRESS_SPACE
            | C::CUDA_ERROR_INVALID_PC
            | C::CUDA_ERROR_ECC_UNCORRECTABLE
            | C::CUDA_ERROR_NVLINK_UNCORRECTABLE
    )
}

/// Whether a module was refused for what it is, so that another form of the kernels may do.
pub(super) fn is_unsuitable_image(code: CUresult) -> bool {
    use CUresult as C;
    matches!(
        code,
        C::CUDA_ERROR_NO_BINARY_FOR_GPU
            | C::CUDA_ERROR_INVALID_IMAGE
            | C::CUDA_ERROR_INVALID_PTX
            | C::CUDA_ERROR_UNSUPPORTED_PTX_VERSION
            | C::CUDA_ERROR_JIT_COMPILER_NOT_FOUND
            | C::CUDA_ERROR_JIT_COMPILATION_DISABLED
            | C::CUDA_ERROR_INVALID_SOURCE
            | C::CUDA_ERROR_NOT_SUPPORTED
    )
}

/// Nothing, or the error for a failed call of cuBLAS.
/// `sync`: each launch is waited for.
pub(super) fn check_cublas(status: cublasStatus_t, sync: bool, doing: impl Display) -> Result<(), Error> {
    use cublasStatus_t as S;
    let advice = match status {
        S::CUBLAS_STATUS_SUCCESS => return Ok(()),
        S::CUBLAS_STATUS_NOT_INITIALIZED => ": is libcublas newer than the driver, or the memory of the GPU full?",
        S::CUBLAS_STATUS_ALLOC_FAILED => ": the memory of the GPU is full; see `nvidia-smi`",
        S::CUBLAS_STATUS_ARCH_MISMATCH => ": this libcublas does not know the GPU; install a newer one",
        S::CUBLAS_STATUS_EXECUTION_FAILED if !sync => {
            ": an earlier kernel may have failed; HARMONIA_CUDA_SYNC=1 shows which"
        }
        _ => "",
    };
    // SAFETY: both functions were checked to exist and return a static string or null.
    let (name, text) = unsafe {
        (static_text(cublas::cublasGetStatusName(status)), static_text(cublas::cublasGetStatusString(status)))
    };
    let (name, text) = (name.unwrap_or_else(|| format!("{status:?}")), text.unwrap_or_default());
    Err(Error::Device(format!("cannot {doing}: {name} ({text}){advice}")))
}

/// `1.5 GiB`.
pub(super) fn gibibytes(bytes: usize) -> String {
    const UNITS: [&str; 4] = ["bytes", "KiB", "MiB", "GiB"];
    let unit = (0..3).find(|&unit| bytes >> (10 * unit) < 1024).unwrap_or(3);
    if unit == 0 {
        format!("{bytes} bytes")
    } else {
        format!("{:.1} {}", bytes as f64 / f64::from(1 << (10 * unit)), UNITS[unit])
    }
}

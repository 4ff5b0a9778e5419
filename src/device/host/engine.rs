//! The C entry points of `kernels/host/engine.cpp`, linked into this binary or found in a shared object.

#![allow(unsafe_code)]

use harmonia_graph::error::{Error, Result};
use libloading::Library;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::path::Path;

type LaunchFn = unsafe extern "C" fn(
    *const c_char,
    *const u32,
    *const u32,
    u32,
    *const c_void,
    u64,
    u32,
    *mut c_char,
    usize,
) -> c_int;
type KernelFn = unsafe extern "C" fn(usize) -> *const c_char;
type AllocatedFn = unsafe extern "C" fn(*const c_void, usize);
type FreedFn = unsafe extern "C" fn(*const c_void);

#[cfg(harmonia_host)]
unsafe extern "C" {
    fn harmonia_host_launch(
        kernel: *const c_char,
        blocks: *const u32,
        threads: *const u32,
        shared_bytes: u32,
        arguments: *const c_void,
        order: u64,
        last_blocks: u32,
        message: *mut c_char,
        message_size: usize,
    ) -> c_int;
    fn harmonia_host_kernel(number: usize) -> *const c_char;
    fn harmonia_host_allocated(address: *const c_void, size: usize);
    fn harmonia_host_freed(address: *const c_void);
}

/// Functions of one build of the engine.
pub(super) struct Engine {
    pub(super) launch: LaunchFn,
    pub(super) allocated: AllocatedFn,
    pub(super) freed: FreedFn,
    kernel: KernelFn,
    /// Keeps the functions mapped.
    _library: Option<Library>,
}

impl Engine {
    /// The engine linked into this binary.
    #[cfg(harmonia_host)]
    pub(super) fn linked() -> Result<Engine> {
        Ok(Engine {
            launch: harmonia_host_launch,
            allocated: harmonia_host_allocated,
            freed: harmonia_host_freed,
            kernel: harmonia_host_kernel,
            _library: None,
        })
    }

    /// There is none.
    #[cfg(not(harmonia_host))]
    pub(super) fn linked() -> Result<Engine> {
        Err(Error::Config(
            "this build cannot run the kernels on the CPU: no C++ compiler was found when it was built; install one \
             (Debian, Ubuntu: apt install g++) and build again"
                .to_string(),
        ))
    }

    /// The engine in a shared object.
    pub(super) fn open(path: &Path) -> Result<Engine> {
        let failed = |error| Error::Device(format!("{}: {error}", path.display()));
        // SAFETY: the caller names a shared object made from `kernels/host`, whose constructors only link kernels into
        // a list; the types are those of its entry points, and the functions live as long as `_library`.
        unsafe {
            let library = Library::new(path).map_err(failed)?;
            Ok(Engine {
                launch: *library.get::<LaunchFn>(c"harmonia_host_launch").map_err(failed)?,
                allocated: *library.get::<AllocatedFn>(c"harmonia_host_allocated").map_err(failed)?,
                freed: *library.get::<FreedFn>(c"harmonia_host_freed").map_err(failed)?,
                kernel: *library.get::<KernelFn>(c"harmonia_host_kernel").map_err(failed)?,
                _library: Some(library),
            })
        }
    }

    /// Names of all kernels, sorted.
    pub(super) fn kernels(&self) -> Vec<String> {
        let mut names: Vec<String> = (0..)
            .map_while(|number| {
                // SAFETY: the engine answers null behind the last kernel, else a string literal.
                let name = unsafe { (self.kernel)(number) };
                // SAFETY: not null, hence a string literal.
                (!name.is_null()).then(|| unsafe { CStr::from_ptr(name) }.to_string_lossy().into_owned())
            })
            .collect();
        names.sort();
        names
    }
}

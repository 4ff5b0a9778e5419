//! The device, its context and the one stream all work goes through.
//!
//! Everything that lives on the device holds an `Arc<Stream>`, so the context goes last. Every entry makes the context
//! current first: any thread may call.

use super::error::{driver_error, is_sticky};
use super::library;
use super::memory::{self, Spare};
use cudarc::driver::sys::{self, CUdevice_attribute as Attribute, CUresult};
use harmonia_graph::error::{Error, Result};
use std::ffi::{CStr, c_char, c_int};
use std::fmt::Display;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// What people, and a choice among devices, need to know of one.
#[derive(Clone, Debug)]
pub struct DeviceInfo {
    /// Its number, as `--device cuda:N` takes it.
    pub index: usize,
    /// As its maker calls it.
    pub name: String,
    /// Compute capability, as in (8, 9).
    pub capability: (u32, u32),
    /// Bytes of memory.
    pub memory_total: usize,
    /// Free bytes of memory, where a context could be made to ask.
    pub memory_free: Option<usize>,
    /// Streaming multiprocessors.
    pub multiprocessors: u32,
    /// Newest CUDA version the driver supports, as in (13, 0).
    pub driver_version: (u32, u32),
}

/// The oldest generation kernels are compiled for and checked on: Turing.
const OLDEST: (u32, u32) = (7, 5);

/// The CUDA devices of this machine.
///
/// # Errors
/// There is no driver or it does not work. No device is an empty list.
pub fn devices() -> Result<Vec<DeviceInfo>> {
    (0..device_count()?).map(|index| Ok(Stream::new(index)?.info())).collect()
}

/// How many CUDA devices this machine has; cheaper than [`devices`].
///
/// # Errors
/// As [`devices`].
pub fn device_count() -> Result<usize> {
    library::driver()?;
    // SAFETY: the driver is there.
    match unsafe { sys::cuInit(0) } {
        CUresult::CUDA_SUCCESS => {}
        CUresult::CUDA_ERROR_NO_DEVICE => return Ok(0),
        code => return Err(driver_error(code, "start the NVIDIA driver")),
    }
    let mut count: c_int = 0;
    // SAFETY: the driver is initialised; `count` outlives the call.
    check(unsafe { sys::cuDeviceGetCount(&mut count) }, "count CUDA devices")?;
    Ok(usize::try_from(count).unwrap_or(0))
}

/// Newest CUDA version the driver supports, as in (13, 0).
///
/// # Errors
/// There is no driver.
pub fn driver_version() -> Result<(u32, u32)> {
    library::driver()?;
    let mut version: c_int = 0;
    // SAFETY: the driver is there, and `version` outlives the call.
    check(unsafe { sys::cuDriverGetVersion(&mut version) }, "ask for the version of the driver")?;
    Ok(((version / 1000) as u32, (version % 1000 / 10) as u32))
}

pub(super) fn check(code: CUresult, doing: impl Display) -> Result<()> {
    if code == CUresult::CUDA_SUCCESS { Ok(()) } else { Err(driver_error(code, doing)) }
}

/// What a launch may ask for.
#[derive(Clone, Copy, Debug)]
pub(super) struct DeviceLimits {
    pub(super) grid: [u32; 3],
    pub(super) block: [u32; 3],
    /// Dynamic and static shared memory of a block, with opt-in.
    pub(super) shared: usize,
}

/// A device with its primary context and a stream.
pub(super) struct Stream {
    device: sys::CUdevice,
    context: sys::CUcontext,
    pub(super) raw: sys::CUstream,
    /// The default memory pool, where the device has pools.
    pub(super) pool: Option<sys::CUmemoryPool>,
    pub(super) limits: DeviceLimits,
    pub(super) name: String,
    index: usize,
    capability: (u32, u32),
    driver_version: (u32, u32),
    multiprocessors: u32,
    last_kernel: Mutex<Option<&'static str>>,
    /// Whether each launch is waited for.
    pub(super) sync: bool,
    /// Whether freed memory is kept for whoever needs as much.
    pub(super) keeps: bool,
    spare: Mutex<Spare>,
}

// SAFETY: handles of a device, its context, stream and pool may be used from any thread that made the context current,
// which `enter` does; the rest is plain data.
unsafe impl Send for Stream {}
// SAFETY: as above; the driver locks for itself.
unsafe impl Sync for Stream {}

impl Stream {
    pub(super) fn new(index: usize) -> Result<Stream> {
        let count = device_count()?;
        if count == 0 {
            return Err(Error::Device(
                "no CUDA device: the NVIDIA driver is there and sees no GPU; check CUDA_VISIBLE_DEVICES, or set run.device = cpu"
                    .to_string(),
            ));
        }
        if index >= count {
            return Err(Error::Device(format!("no CUDA device {index}: this machine has {count}, numbered from 0")));
        }
        let mut version: c_int = 0;
        let mut device: sys::CUdevice = 0;
        let mut context: sys::CUcontext = std::ptr::null_mut();
        // SAFETY: the driver is initialised, `index` is below the count, and all targets outlive the calls.
        unsafe {
            check(sys::cuDriverGetVersion(&mut version), "ask for the version of the driver")?;
            check(sys::cuDeviceGet(&mut device, index as c_int), format_args!("open CUDA device {index}"))?;
            check(sys::cuDevicePrimaryCtxRetain(&mut context, device), format_args!("start CUDA device {index}"))?;
        }
        let sync = std::env::var_os("HARMONIA_CUDA_SYNC").is_some_and(|value| !value.is_empty() && value != "0");
        // From here on Drop gives the context back.
        let mut stream = Stream {
            device,
            context,
            raw: std::ptr::null_mut(),
            pool: None,
            limits: DeviceLimits { grid: [0; 3], block: [0; 3], shared: 0 },
            name: String::new(),
            index,
            capability: (0, 0),
            driver_version: ((version / 1000) as u32, (version % 1000 / 10) as u32),
            multiprocessors: 0,
            last_kernel: Mutex::new(None),
            sync,
            keeps: !sync,
            spare: Mutex::default(),
        };
        stream.describe()?;
        Ok(stream)
    }

    fn describe(&mut self) -> Result<()> {
        use Attribute as A;
        let mut name = [0 as c_char; 256];
        // SAFETY: the device is open; the name is written with its zero into at most 256 bytes.
        check(unsafe { sys::cuDeviceGetName(name.as_mut_ptr(), 256, self.device) }, "ask a CUDA device for its name")?;
        // SAFETY: the driver ended the name with a zero.
        self.name = unsafe { CStr::from_ptr(name.as_ptr()) }.to_string_lossy().into_owned();
        self.capability = (
            self.attribute(A::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?,
            self.attribute(A::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?,
        );
        self.multiprocessors = self.attribute(A::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)?;
        self.limits = DeviceLimits {
            grid: [
                self.attribute(A::CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X)?,
                self.attribute(A::CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y)?,
                self.attribute(A::CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z)?,
            ],
            block: [
                self.attribute(A::CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X)?,
                self.attribute(A::CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y)?,
                self.attribute(A::CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z)?,
            ],
            shared: self.attribute(A::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN)? as usize,
        };
        self.enter()?;
        let flags = sys::CUstream_flags::CU_STREAM_NON_BLOCKING as u32;
        // SAFETY: the context is current.
        check(unsafe { sys::cuStreamCreate(&mut self.raw, flags) }, "make a stream")?;
        if self.attribute(A::CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED)? != 0 {
            let mut pool: sys::CUmemoryPool = std::ptr::null_mut();
            let mut keep = u64::MAX;
            let threshold = sys::CUmemPool_attribute::CU_MEMPOOL_ATTR_RELEASE_THRESHOLD;
            // SAFETY: the device has pools; the attribute is a 64-bit number.
            unsafe {
                check(sys::cuDeviceGetDefaultMemPool(&mut pool, self.device), "ask for the memory pool")?;
                // Freed memory stays in the pool: scratch of every step is then nearly free to allocate.
                check(sys::cuMemPoolSetAttribute(pool, threshold, (&raw mut keep).cast()), "set up the memory pool")?;
            }
            self.pool = Some(pool);
        }
        Ok(())
    }

    fn attribute(&self, attribute: Attribute) -> Result<u32> {
        let mut value: c_int = 0;
        // SAFETY: the device is open and `value` outlives the call.
        check(
            unsafe { sys::cuDeviceGetAttribute(&mut value, attribute, self.device) },
            "ask a CUDA device for its limits",
        )?;
        Ok(u32::try_from(value).unwrap_or(0))
    }

    pub(super) fn info(&self) -> DeviceInfo {
        let mut total: usize = 0;
        // SAFETY: the device is open. On failure the total stays zero.
        let _ = unsafe { sys::cuDeviceTotalMem_v2(&mut total, self.device) };
        DeviceInfo {
            index: self.index,
            name: self.name.clone(),
            capability: self.capability,
            memory_total: total,
            memory_free: self.memory().ok().map(|(free, _)| free),
            multiprocessors: self.multiprocessors,
            driver_version: self.driver_version,
        }
    }

    /// Refuses generations that kernels were never made for, before anything is launched.
    pub(super) fn check_generation(&self) -> Result<()> {
        if self.capability >= OLDEST {
            return Ok(());
        }
        let ((major, minor), (oldest, and)) = (self.capability, OLDEST);
        Err(Error::Device(format!(
            "{} has compute capability {major}.{minor}; the kernels need {oldest}.{and} (Turing) or newer: set run.device = cpu",
            self.name
        )))
    }

    /// What tells the device from all others, whatever number it has in a process.
    pub(super) fn uuid(&self) -> Result<String> {
        library::uuid()?;
        let mut uuid = [0u8; 16];
        // SAFETY: `library::uuid` has seen this function, which writes 16 bytes (cudarc names it otherwise).
        let code = unsafe {
            sys::culib()
                .get::<unsafe extern "C" fn(*mut [u8; 16], sys::CUdevice) -> CUresult>("cuDeviceGetUuid_v2")
                .map(|get| get(&mut uuid, self.device))
                .map_err(|error| Error::Device(format!("cannot tell devices from each other: {error}")))?
        };
        check(code, "tell a CUDA device from others")?;
        Ok(harmonia_graph::files::hex(&uuid))
    }

    pub(super) fn capability(&self) -> (u32, u32) {
        self.capability
    }

    pub(super) fn driver_version(&self) -> (u32, u32) {
        self.driver_version
    }

    /// Makes the context current on this thread.
    pub(super) fn enter(&self) -> Result<()> {
        // SAFETY: the context is alive as long as `self`.
        self.check(unsafe { sys::cuCtxSetCurrent(self.context) }, "use the CUDA device")
    }

    /// Free and total bytes of device memory, counting what the pool keeps unused as free.
    pub(super) fn memory(&self) -> Result<(usize, usize)> {
        self.enter()?;
        let (mut free, mut total) = (0, 0);
        // SAFETY: the context is current.
        self.check(unsafe { sys::cuMemGetInfo_v2(&mut free, &mut total) }, "ask for free memory")?;
        if let Some(pool) = self.pool {
            let amount = |attribute| {
                let mut bytes: u64 = 0;
                // SAFETY: both attributes are 64-bit numbers. On failure the amount stays zero.
                let _ = unsafe { sys::cuMemPoolGetAttribute(pool, attribute, (&raw mut bytes).cast()) };
                bytes as usize
            };
            let reserved = amount(sys::CUmemPool_attribute::CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT);
            free += reserved.saturating_sub(amount(sys::CUmemPool_attribute::CU_MEMPOOL_ATTR_USED_MEM_CURRENT));
        }
        Ok((free + self.spare().bytes, total))
    }

    /// What is kept.
    pub(super) fn spare(&self) -> MutexGuard<'_, Spare> {
        self.spare.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives back what is kept. The context is current.
    pub(super) fn free_spare(&self) {
        self.spare().drain().into_iter().for_each(|address| memory::free(self, address));
    }

    /// Waits for everything asked for so far.
    pub(super) fn synchronize(&self) -> Result<()> {
        self.enter()?;
        // SAFETY: the stream belongs to the current context.
        self.check(unsafe { sys::cuStreamSynchronize(self.raw) }, "finish the work on the device")
    }

    pub(super) fn remember_kernel(&self, kernel: &'static str) {
        *self.last_kernel.lock().unwrap_or_else(PoisonError::into_inner) = Some(kernel);
    }

    /// As [`check`]; a code that a kernel caused says which was launched last.
    pub(super) fn check(&self, code: CUresult, doing: impl Display) -> Result<()> {
        let result = check(code, doing);
        match (result, *self.last_kernel.lock().unwrap_or_else(PoisonError::into_inner)) {
            // All that were launched before it had ended well.
            (Err(Error::Device(message)), Some(kernel)) if is_sticky(code) && self.sync => {
                Err(Error::Device(format!("{message}; it was kernel `{kernel}` that failed")))
            }
            (Err(Error::Device(message)), Some(kernel)) if is_sticky(code) => Err(Error::Device(format!(
                "{message}; the kernel launched last is `{kernel}`: HARMONIA_CUDA_SYNC=1 waits after each and finds the one \
                 that failed"
            ))),
            (result, _) => result,
        }
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        // SAFETY: nothing that uses the stream is left, for all of it holds this in an Arc. Failures have no remedy here.
        unsafe {
            if !self.raw.is_null() && sys::cuCtxSetCurrent(self.context) == CUresult::CUDA_SUCCESS {
                self.free_spare();
                let _ = sys::cuStreamSynchronize(self.raw);
                let _ = sys::cuStreamDestroy_v2(self.raw);
            }
            let _ = sys::cuDevicePrimaryCtxRelease_v2(self.device);
        }
    }
}

//! NVIDIA GPUs: the driver, cuBLAS and NVRTC through cudarc.
//!
//! Nothing of CUDA is needed to build this or to run the rest; all libraries are opened at run time, and what is missing is
//! said in words. One context, one stream: work happens in the order it is asked for, from whichever thread. What is larger than
//! the device comes by a stream of its own (`lane`).
//!
//! `HARMONIA_CUDA_SYNC=1` waits after each launch, so that an error names the kernel that caused it. `HARMONIA_CUDA_TIMES=FILE`
//! waits too, and leaves launches and milliseconds of each kernel there (`scripts/gpu-check.sh` reads them).

#![allow(unsafe_code)] // calls of C

mod blas;
mod context;
mod error;
mod lane;
mod library;
mod memory;
mod module;
mod nccl;
pub mod nvrtc;
mod times;

use crate::device::launcher::{Driver, Fill, Gemm, GemmBatch, Launch};
use crate::device::link::Link;
use crate::team::Team;
use blas::Blas;
pub use context::{DeviceInfo, device_count, devices, driver_version};
use context::{Stream, check};
use cudarc::driver::sys;
use harmonia_graph::error::{Error, Result};
pub use lane::Lane;
use memory::Staging;
pub use memory::{Mailbox, Memory};
use module::Module;
pub use module::{Embedded, embedded};
use nccl::Communicator;
use std::ffi::c_void;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use times::Times;

/// Whether cuBLAS can be called.
///
/// # Errors
/// It was not found or is too old.
pub fn cublas() -> Result<()> {
    library::cublas()
}

/// A CUDA device that runs the kernels.
pub struct Cuda {
    // Each holds the stream, which goes last.
    communicator: OnceLock<Communicator>,
    module: Module,
    blas: Mutex<Blas>,
    staging: Mutex<Staging>,
    stream: Arc<Stream>,
    times: Option<Times>,
}

impl Cuda {
    /// Opens a device and loads the kernels.
    ///
    /// # Errors
    /// There is no driver, no such device, a device older than Turing, no cuBLAS, or no form of the kernels that this driver and device can run.
    pub fn new(device: usize) -> Result<Cuda> {
        let stream = Arc::new(Stream::new(device)?);
        stream.check_generation()?;
        Ok(Cuda {
            communicator: OnceLock::new(),
            module: Module::new(&stream)?,
            blas: Mutex::new(Blas::new(&stream)?),
            staging: Mutex::new(Staging::new(&stream)?),
            stream,
            times: Times::wanted(),
        })
    }

    /// What people need to know of the device.
    pub fn info(&self) -> DeviceInfo {
        self.stream.info()
    }

    /// Where the kernels came from, as in "fatbin sm_89" or "NVRTC 13.4 sm_89, cached".
    pub fn kernel_origin(&self) -> &str {
        &self.module.origin
    }

    /// Waits for everything asked for so far.
    ///
    /// # Errors
    /// Some of it failed.
    pub fn synchronize(&self) -> Result<()> {
        self.waiting(|| self.stream.synchronize())
    }

    /// Waits for the device, and with it for those it is connected with.
    fn waiting<R>(&self, work: impl FnOnce() -> Result<R>) -> Result<R> {
        match self.communicator.get() {
            Some(communicator) => communicator.wait(work),
            None => work(),
        }
    }

    /// Milliseconds the device spends on what `work` asks for.
    ///
    /// # Errors
    /// `work` fails, or the device.
    pub fn time(&self, work: impl FnOnce() -> Result<()>) -> Result<f32> {
        let (begin, end) = (Event::new(&self.stream)?, Event::new(&self.stream)?);
        begin.record()?;
        work()?;
        end.record()?;
        self.stream.synchronize()?;
        let mut milliseconds = 0.0;
        // SAFETY: `library::driver` has seen this function, whose signature never changed (cudarc has its successor only,
        // which older drivers lack). Both events are alive, belong to the current context, and have passed.
        let code = unsafe {
            sys::culib()
                .get::<unsafe extern "C" fn(*mut f32, sys::CUevent, sys::CUevent) -> sys::CUresult>(
                    "cuEventElapsedTime",
                )
                .map(|elapsed| elapsed(&mut milliseconds, begin.raw, end.raw))
                .map_err(|error| Error::Device(format!("cannot take the time: {error}")))?
        };
        self.stream.check(code, "take the time")?;
        Ok(milliseconds)
    }
}

impl Driver for Cuda {
    type Memory = Memory;
    type Mailbox = Mailbox;
    type Lane = Lane;

    fn name(&self) -> String {
        self.stream.name.clone()
    }

    fn shared_limit(&self) -> usize {
        self.stream.limits.shared
    }

    fn free_bytes(&self) -> Result<Option<usize>> {
        Ok(Some(self.stream.memory()?.0))
    }

    fn allocate(&self, bytes: usize) -> Result<Memory> {
        Memory::new(&self.stream, bytes)
    }

    fn address(&self, memory: &Memory) -> u64 {
        memory.address
    }

    fn size(&self, memory: &Memory) -> usize {
        memory.size
    }

    fn write(&self, memory: &mut Memory, bytes: &[u8]) -> Result<()> {
        self.waiting(|| self.staging.lock().unwrap_or_else(PoisonError::into_inner).write(memory, bytes))
    }

    fn read(&self, bytes: &mut [u8], memory: &Memory) -> Result<()> {
        self.waiting(|| memory.read(bytes))
    }

    fn mailbox(&self, bytes: usize) -> Result<Mailbox> {
        Mailbox::new(&self.stream, bytes)
    }

    fn send(&self, mailbox: &mut Mailbox, memory: &Memory, bytes: usize) -> Result<()> {
        mailbox.send(memory, bytes)
    }

    fn receive(&self, bytes: &mut [u8], mailbox: &Mailbox) -> Result<()> {
        self.waiting(|| mailbox.receive(bytes))
    }

    fn lane(&self, bytes: usize) -> Result<Lane> {
        Lane::new(&self.stream, bytes)
    }

    fn place(&self, lane: &Lane, place: usize) -> u64 {
        lane.address(place)
    }

    fn bring(&self, lane: &mut Lane, place: usize, bytes: usize, fill: Fill<'_>) -> Result<()> {
        self.waiting(|| lane.bring(place, bytes, fill))
    }

    fn arrive(&self, lane: &mut Lane, place: usize) -> Result<()> {
        lane.arrive(place)
    }

    fn leave(&self, lane: &mut Lane, place: usize) -> Result<()> {
        lane.leave(place)
    }

    fn clear(&self, memory: &mut Memory) -> Result<()> {
        memory.clear()
    }

    fn link(&self) -> Link {
        match nccl::is_there().and_then(|()| self.stream.uuid()) {
            Ok(uuid) => Link::Device(uuid),
            Err(error) => Link::Lacking(error.to_string()),
        }
    }

    fn connect(&self, team: &dyn Team) -> Result<()> {
        let communicator = Communicator::new(&self.stream, team)?;
        let again = |_| Error::Internal(format!("{} is connected already", self.name()));
        self.communicator.set(communicator).map_err(again)
    }

    fn connected(&self) -> usize {
        self.communicator.get().map_or(1, Communicator::ranks)
    }

    fn gather(&self, all: &mut Memory, mine: &Memory, bytes: usize) -> Result<()> {
        let alone = || Error::Internal(format!("{} is not connected", self.name()));
        let communicator = self.communicator.get().ok_or_else(alone)?;
        self.timed("ncclAllGather", || communicator.all_gather(all, mine, bytes))?;
        self.stream.remember_kernel("ncclAllGather");
        if self.stream.sync { self.synchronize() } else { Ok(()) }
    }

    unsafe fn launch(&self, launch: &Launch) -> Result<()> {
        // SAFETY: as the caller promises.
        self.timed(launch.kernel, || unsafe { self.start(launch) })
    }

    unsafe fn gemm(&self, product: &Gemm) -> Result<()> {
        let batch = GemmBatch { first: *product, count: 1, stride_a: 0, stride_b: 0, stride_c: 0 };
        // SAFETY: as the caller promises.
        unsafe { self.multiply("gemm", &batch) }
    }

    unsafe fn gemm_batch(&self, batch: &GemmBatch) -> Result<()> {
        // SAFETY: as the caller promises.
        unsafe { self.multiply("gemm_batch", batch) }
    }
}

impl Cuda {
    /// Work of one kernel, timed where times are wanted.
    fn timed(&self, kernel: &'static str, work: impl FnOnce() -> Result<()>) -> Result<()> {
        let Some(times) = &self.times else { return work() };
        times.add(kernel, self.time(work)?);
        Ok(())
    }

    /// # Safety
    /// As [`Driver::gemm_batch`].
    unsafe fn multiply(&self, name: &'static str, batch: &GemmBatch) -> Result<()> {
        self.timed(name, || {
            let mut blas = self.blas.lock().unwrap_or_else(PoisonError::into_inner);
            // SAFETY: as the caller promises.
            unsafe { blas.multiply(batch) }
        })?;
        self.stream.remember_kernel("cublasSgemm");
        if self.stream.sync { self.stream.synchronize() } else { Ok(()) }
    }

    /// # Safety
    /// As [`Driver::launch`].
    unsafe fn start(&self, launch: &Launch) -> Result<()> {
        self.stream.enter()?;
        let function = self.module.function(launch.kernel)?;
        function.check(launch, &self.stream.limits)?;
        let ([grid_x, grid_y, grid_z], [block_x, block_y, block_z]) = (launch.grid, launch.block);
        let mut arguments = [launch.arguments.cast_mut()];
        let none = std::ptr::null_mut::<*mut c_void>();
        // SAFETY: sizes are within the limits of device and kernel. The driver copies the one argument, a struct as the caller
        // promises, before it returns; the caller answers for the pointers in it.
        let code = unsafe {
            sys::cuLaunchKernel(
                function.raw,
                grid_x,
                grid_y,
                grid_z,
                block_x,
                block_y,
                block_z,
                launch.shared_bytes,
                self.stream.raw,
                arguments.as_mut_ptr(),
                none,
            )
        };
        // A code that an earlier kernel left behind must name that one.
        self.stream.check(code, format_args!("launch kernel `{}`", launch.kernel))?;
        self.stream.remember_kernel(launch.kernel);
        if self.stream.sync { self.stream.synchronize() } else { Ok(()) }
    }
}

/// A point in the stream.
struct Event<'a> {
    stream: &'a Stream,
    raw: sys::CUevent,
}

impl Event<'_> {
    fn new(stream: &Stream) -> Result<Event<'_>> {
        stream.enter()?;
        let mut raw: sys::CUevent = std::ptr::null_mut();
        // SAFETY: the context is current and `raw` outlives the call.
        check(unsafe { sys::cuEventCreate(&mut raw, 0) }, "make an event")?;
        Ok(Event { stream, raw })
    }

    fn record(&self) -> Result<()> {
        self.stream.enter()?;
        // SAFETY: event and stream are alive and of the current context.
        self.stream.check(unsafe { sys::cuEventRecord(self.raw, self.stream.raw) }, "record an event")
    }
}

impl Drop for Event<'_> {
    fn drop(&mut self) {
        if self.stream.enter().is_ok() {
            // SAFETY: created once, destroyed once.
            let _ = unsafe { sys::cuEventDestroy_v2(self.raw) };
        }
    }
}

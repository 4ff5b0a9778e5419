//! What a machine that runs kernels must offer: memory, copies, launches and GEMM.

use crate::device::link::Link;
use crate::team::Team;
use harmonia_graph::error::{Error, Result};
use std::ffi::c_void;

/// One kernel launch.
#[derive(Clone, Copy, Debug)]
pub struct Launch {
    /// Name of an `extern "C"` kernel.
    pub kernel: &'static str,
    /// Blocks in x, y and z.
    pub grid: [u32; 3],
    /// Threads of a block in x, y and z.
    pub block: [u32; 3],
    /// Bytes of dynamic shared memory.
    pub shared_bytes: u32,
    /// The kernel's only argument: a struct of `kernels/abi.h`.
    pub arguments: *const c_void,
}

/// Row-major C (m x n) = A B + beta C; addresses on the device.
#[derive(Clone, Copy, Debug)]
pub struct Gemm {
    /// Rows of C.
    pub m: usize,
    /// Columns of C.
    pub n: usize,
    /// Columns of A and rows of B, after transposing.
    pub k: usize,
    /// A: m x k, or k x m where transposed.
    pub a: u64,
    /// Whether A is to be read transposed.
    pub transpose_a: bool,
    /// B: k x n, or n x k where transposed.
    pub b: u64,
    /// Whether B is to be read transposed.
    pub transpose_b: bool,
    /// 0 overwrites C, 1 adds to it.
    pub beta: f32,
    /// C.
    pub c: u64,
}

/// Products of the same sizes, of matrices that lie at equal distances.
#[derive(Clone, Copy, Debug)]
pub struct GemmBatch {
    /// The first.
    pub first: Gemm,
    /// How many there are.
    pub count: usize,
    /// Elements from one A to the next.
    pub stride_a: usize,
    /// Elements from one B to the next.
    pub stride_b: usize,
    /// Elements from one C to the next.
    pub stride_c: usize,
}

impl GemmBatch {
    /// One of the products.
    pub fn product(&self, at: usize) -> Gemm {
        let behind = |address: u64, stride: usize| address + (at * stride * size_of::<f32>()) as u64;
        Gemm {
            a: behind(self.first.a, self.stride_a),
            b: behind(self.first.b, self.stride_b),
            c: behind(self.first.c, self.stride_c),
            ..self.first
        }
    }
}

/// Writes the bytes from some place on into page-locked memory.
pub type Fill<'a> = &'a mut dyn FnMut(usize, &mut [u8]);

/// A machine that runs kernels. Everything happens in the order it is asked for (one stream), so that memory may be
/// dropped as soon as the last call that uses it has returned. What a [`Driver::Lane`] brings comes beside it.
pub trait Driver: Send + Sync {
    /// An allocation on the device; dropping it frees it.
    type Memory: Send + Sync;
    /// A place on the host that the device writes to by itself.
    type Mailbox: Send + Sync;
    /// Two places on the device that are filled in turn while the other is worked on.
    type Lane: Send + Sync;

    /// For people: the device's name.
    fn name(&self) -> String;
    /// Most bytes of shared memory a block can have.
    fn shared_limit(&self) -> usize;
    /// Free bytes of device memory, where memory is the device's own.
    fn free_bytes(&self) -> Result<Option<usize>>;
    /// `bytes` bytes, 256-byte aligned, contents undefined. Zero bytes are fine.
    fn allocate(&self, bytes: usize) -> Result<Self::Memory>;
    /// Where an allocation is.
    fn address(&self, memory: &Self::Memory) -> u64;
    /// Its size in bytes.
    fn size(&self, memory: &Self::Memory) -> usize;
    /// Copies `bytes` to the start of an allocation that holds at least as many.
    fn write(&self, memory: &mut Self::Memory, bytes: &[u8]) -> Result<()>;
    /// Copies the start of an allocation that holds at least as many bytes.
    fn read(&self, bytes: &mut [u8], memory: &Self::Memory) -> Result<()>;
    /// A mailbox for so many bytes.
    fn mailbox(&self, bytes: usize) -> Result<Self::Mailbox>;
    /// Sends the start of an allocation to a mailbox that holds at least as many bytes, behind everything that was asked for
    /// so far. Nobody waits; what the mailbox held is gone.
    fn send(&self, mailbox: &mut Self::Mailbox, memory: &Self::Memory, bytes: usize) -> Result<()>;
    /// Waits for what was sent last, and for nothing that was asked for after it; copies its start.
    fn receive(&self, bytes: &mut [u8], mailbox: &Self::Mailbox) -> Result<()>;
    /// A lane with two places of so many bytes each.
    fn lane(&self, bytes: usize) -> Result<Self::Lane>;
    /// Where a place is, 256-byte aligned.
    fn place(&self, lane: &Self::Lane, place: usize) -> u64;
    /// Starts to fill a place with so many bytes: behind the work that was asked for before the place was left, beside all
    /// other work. Nobody waits, but for page-locked memory that is still on its way. Pieces are 256-byte aligned.
    fn bring(&self, lane: &mut Self::Lane, place: usize, bytes: usize, fill: Fill<'_>) -> Result<()>;
    /// Work that is asked for from here on finds the place filled.
    fn arrive(&self, lane: &mut Self::Lane, place: usize) -> Result<()>;
    /// Work that is asked for from here on does not use the place, until it has arrived again.
    fn leave(&self, lane: &mut Self::Lane, place: usize) -> Result<()>;
    /// Zeroes an allocation.
    fn clear(&self, memory: &mut Self::Memory) -> Result<()>;

    /// How this machine could exchange numbers with those of other processes without the host.
    fn link(&self) -> Link {
        Link::Host
    }
    /// Connects with the machines of all processes; each of them has a [`Link::Device`] of its own.
    fn connect(&self, team: &dyn Team) -> Result<()> {
        Err(Error::Internal(format!("{} has nothing that connects it with {} others", self.name(), team.size() - 1)))
    }
    /// Processes whose machines are connected, this one among them: 1 where none are.
    fn connected(&self) -> usize {
        1
    }
    /// Puts the start of an allocation of every connected process into `all`, so many bytes each, in the order of ranks. Every
    /// process asks for it, as work in the order of work; nobody waits.
    fn gather(&self, all: &mut Self::Memory, mine: &Self::Memory, bytes: usize) -> Result<()> {
        let _ = (all, mine);
        Err(Error::Internal(format!("{bytes} bytes for processes that {} is not connected with", self.name())))
    }

    /// Starts a kernel.
    ///
    /// # Safety
    /// `arguments` points to the struct the kernel takes, and all pointers in it are null where the kernel allows it or
    /// addresses of live allocations large enough for what the kernel does with this grid.
    #[allow(unsafe_code)]
    unsafe fn launch(&self, launch: &Launch) -> Result<()>;

    /// Multiplies matrices.
    ///
    /// # Safety
    /// All three matrices lie inside live allocations, and C overlaps neither A nor B.
    #[allow(unsafe_code)]
    unsafe fn gemm(&self, product: &Gemm) -> Result<()>;

    /// Multiplies many: one after the other, where a driver has nothing better.
    ///
    /// # Safety
    /// As [`Driver::gemm`], and no C overlaps another matrix.
    #[allow(unsafe_code)]
    unsafe fn gemm_batch(&self, batch: &GemmBatch) -> Result<()> {
        // SAFETY: as the caller promises.
        (0..batch.count).try_for_each(|at| unsafe { self.gemm(&batch.product(at)) })
    }
}

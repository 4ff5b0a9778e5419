//! A limit on memory, and what happens beyond it: a message and exit code 1, not an abort and not the end of the machine.
//!
//! [`Budget`] is the allocator of the programs. It counts blocks that are large enough to matter; mapped files are not
//! memory of ours and do not count. Everything is written beside its place and renamed, so that ending at any point leaves
//! nothing half-written.

#![allow(unsafe_code)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::io::Write;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// Smaller blocks are not counted: together they are a small part, and counting them would cost time.
const COUNTED: usize = 32 << 10;

static LIVE: AtomicUsize = AtomicUsize::new(0);
/// 0: none.
static LIMIT: AtomicUsize = AtomicUsize::new(0);

/// The system's allocator under a limit.
pub struct Budget;

/// Sets the most bytes that large blocks may have together; 0: no limit.
pub fn limit_to(bytes: usize) {
    LIMIT.store(bytes, Relaxed);
}

/// The limit, where there is one.
pub fn limit() -> Option<usize> {
    Some(LIMIT.load(Relaxed)).filter(|&limit| limit > 0)
}

/// The limit, or else what the machine has: without either nobody knows.
pub fn allowed() -> Option<usize> {
    limit().or_else(of_machine)
}

/// Whether so many bytes more would be allowed.
pub fn fits(bytes: u64) -> bool {
    let live = LIVE.load(Relaxed) as u64;
    allowed().is_none_or(|allowed| live.saturating_add(bytes) <= allowed as u64)
}

/// Bytes of memory that this machine has, or that this process may have of it; `None` where nobody says.
pub fn of_machine() -> Option<usize> {
    static FOUND: OnceLock<Option<usize>> = OnceLock::new();
    *FOUND.get_or_init(machine_says)
}

fn machine_says() -> Option<usize> {
    let read = |path: &str| std::fs::read_to_string(path).ok();
    let meminfo = read("/proc/meminfo")?;
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let total = line.trim().trim_end_matches("kB").trim().parse::<usize>().ok()?.checked_mul(1024)?;
    // Of a container.
    let group = read("/sys/fs/cgroup/memory.max").and_then(|text| text.trim().parse::<usize>().ok());
    Some(group.map_or(total, |group| group.min(total)))
}

/// Says what is missing and ends the process. Nothing here allocates.
#[cold]
fn refuse(bytes: usize) -> ! {
    let live = LIVE.load(Relaxed);
    let mut stderr = std::io::stderr();
    let mebibytes = |bytes: usize| bytes.div_ceil(1 << 20);
    let _ = match limit() {
        Some(limit) => writeln!(
            stderr,
            "error: out of memory: {} MiB more beside {} MiB are beyond the limit of {} MiB",
            mebibytes(bytes),
            mebibytes(live),
            mebibytes(limit)
        ),
        None => writeln!(stderr, "error: out of memory: the system refused {} MiB more", mebibytes(bytes)),
    };
    std::process::exit(1)
}

fn take(bytes: usize) {
    if bytes >= COUNTED {
        let live = LIVE.fetch_add(bytes, Relaxed).saturating_add(bytes);
        let limit = LIMIT.load(Relaxed);
        if limit > 0 && live > limit {
            LIVE.fetch_sub(bytes, Relaxed);
            refuse(bytes);
        }
    }
}

fn give(bytes: usize) {
    if bytes >= COUNTED {
        LIVE.fetch_sub(bytes, Relaxed);
    }
}

fn made(pointer: *mut u8, bytes: usize) -> *mut u8 {
    if pointer.is_null() {
        refuse(bytes);
    }
    pointer
}

// SAFETY: every call is passed on to the system's allocator with the same layout; only counters are kept beside it.
unsafe impl GlobalAlloc for Budget {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        take(layout.size());
        // SAFETY: the caller's promise about `layout` is passed on.
        made(unsafe { System.alloc(layout) }, layout.size())
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        take(layout.size());
        // SAFETY: as above.
        made(unsafe { System.alloc_zeroed(layout) }, layout.size())
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        take(size);
        // SAFETY: the caller's promise about `pointer`, `layout` and `size` is passed on.
        let moved = made(unsafe { System.realloc(pointer, layout, size) }, size);
        give(layout.size());
        moved
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        give(layout.size());
        // SAFETY: the caller's promise about `pointer` and `layout` is passed on.
        unsafe { System.dealloc(pointer, layout) }
    }
}

//! An allocator that counts, so that a test can say how much memory a read took at most.
//!
//! The count is of the whole process: readers use other threads. [`turn`] therefore lets one test work at a time.

#![allow(unsafe_code)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Live bytes at which the allocator refuses: a runaway read must end the test, not the machine.
const MOST: usize = 2 << 30;

struct Counting;

#[global_allocator]
static ALLOCATOR: Counting = Counting;
static LIVE: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);

fn add(bytes: usize) -> bool {
    let live = LIVE.fetch_add(bytes, Relaxed).saturating_add(bytes);
    if live > MOST {
        LIVE.fetch_sub(bytes, Relaxed);
        return false;
    }
    PEAK.fetch_max(live, Relaxed);
    true
}

// SAFETY: every call is passed on to the system's allocator with the same layout; only counters are kept beside it.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promise about `layout` is passed on.
        counted(layout.size(), || unsafe { System.alloc(layout) })
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as above.
        counted(layout.size(), || unsafe { System.alloc_zeroed(layout) })
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: the caller's promise about `pointer`, `layout` and `size` is passed on.
        let moved = counted(size, || unsafe { System.realloc(pointer, layout, size) });
        if !moved.is_null() {
            LIVE.fetch_sub(layout.size(), Relaxed);
        }
        moved
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        LIVE.fetch_sub(layout.size(), Relaxed);
        // SAFETY: the caller's promise about `pointer` and `layout` is passed on.
        unsafe { System.dealloc(pointer, layout) }
    }
}

fn counted(bytes: usize, allocate: impl FnOnce() -> *mut u8) -> *mut u8 {
    if !add(bytes) {
        return std::ptr::null_mut();
    }
    let pointer = allocate();
    if pointer.is_null() {
        LIVE.fetch_sub(bytes, Relaxed);
    }
    pointer
}

/// Waits until no other test is at work. A test that failed does not fail the others.
pub fn turn() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What `work` gives, and the bytes it held at most beyond those that were live before.
pub fn peak_of<T>(work: impl FnOnce() -> T) -> (T, usize) {
    let before = LIVE.load(Relaxed);
    PEAK.store(before, Relaxed);
    let result = work();
    (result, PEAK.load(Relaxed).saturating_sub(before))
}

#[test]
fn the_peak_counts_what_was_freed_again() {
    let _turn = turn();
    let (length, peak) = peak_of(|| vec![1u8; 50 << 20].len());
    // Less by what threads that still end may free of what was live before.
    assert!(length == 50 << 20 && (49 << 20..60 << 20).contains(&peak), "{peak}");
}

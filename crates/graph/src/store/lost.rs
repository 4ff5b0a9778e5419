//! A mapped file that somebody cuts short: reading beyond its new end raises SIGBUS, which names nothing and ends the
//! process. Here the file is named and the process ends with exit code 1.
//!
//! Only programs ask for this: a library has no business with the signals of a process.

#![allow(unsafe_code)]

use std::path::Path;
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering::SeqCst};

/// Files that are remembered; a dataset has about a dozen.
const SLOTS: usize = 512;

struct Slot {
    start: AtomicUsize,
    bytes: AtomicUsize,
    name: AtomicPtr<u8>,
    name_bytes: AtomicUsize,
}

static MAPPED: [Slot; SLOTS] = [const {
    Slot {
        start: AtomicUsize::new(0),
        bytes: AtomicUsize::new(0),
        name: AtomicPtr::new(std::ptr::null_mut()),
        name_bytes: AtomicUsize::new(0),
    }
}; SLOTS];
static NEXT: AtomicUsize = AtomicUsize::new(0);
/// Whether anybody asked; else names are not worth keeping.
static ASKED: AtomicUsize = AtomicUsize::new(0);

/// From now on, names the file and exits with code 1 where a mapped file turns out to have become shorter.
#[cfg(unix)]
pub fn name_lost_files() {
    if ASKED.swap(1, SeqCst) == 1 {
        return;
    }
    // SAFETY: an all-zero sigaction is a valid one; the handler calls nothing but what POSIX allows within one.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        let handler: extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut libc::c_void) = lost;
        action.sa_sigaction = handler as usize;
        action.sa_flags = libc::SA_SIGINFO;
        libc::sigemptyset(&mut action.sa_mask);
        libc::sigaction(libc::SIGBUS, &action, std::ptr::null_mut());
    }
}

/// There is no such signal.
#[cfg(not(unix))]
pub fn name_lost_files() {}

/// Remembers where a file is mapped.
pub(super) fn remember(path: &Path, map: &[u8]) {
    if ASKED.load(SeqCst) == 0 || map.is_empty() {
        return;
    }
    // Never freed: the handler may read it at any time. A process maps a few files.
    let name: &'static [u8] = Box::leak(path.as_os_str().as_encoded_bytes().to_vec().into_boxed_slice());
    let start = map.as_ptr() as usize;
    let known = MAPPED.iter().find(|slot| slot.start.load(SeqCst) == start);
    let slot = known.unwrap_or_else(|| &MAPPED[NEXT.fetch_add(1, SeqCst) % SLOTS]);
    slot.bytes.store(0, SeqCst);
    slot.start.store(start, SeqCst);
    slot.name_bytes.store(name.len(), SeqCst);
    slot.name.store(name.as_ptr().cast_mut(), SeqCst);
    slot.bytes.store(map.len(), SeqCst);
}

#[cfg(unix)]
extern "C" fn lost(signal: libc::c_int, info: *mut libc::siginfo_t, _: *mut libc::c_void) {
    // SAFETY: the system hands a valid siginfo to a handler of SA_SIGINFO; write, _exit and signal may be called here; names
    // are leaked slices whose length was stored before them.
    unsafe {
        let at = (*info).si_addr() as usize;
        let say = |bytes: *const u8, length: usize| {
            let _ = libc::write(2, bytes.cast(), length);
        };
        for slot in &MAPPED {
            let (start, bytes) = (slot.start.load(SeqCst), slot.bytes.load(SeqCst));
            if at >= start && at - start < bytes {
                let (before, after) = (
                    "error: ",
                    ": was cut short or lost while it was being read; put it back, and do not change a store that is in use\n",
                );
                say(before.as_ptr(), before.len());
                say(slot.name.load(SeqCst), slot.name_bytes.load(SeqCst));
                say(after.as_ptr(), after.len());
                libc::_exit(1);
            }
        }
        // Not ours: as if nobody had asked.
        libc::signal(signal, libc::SIG_DFL);
    }
}

#[cfg(all(test, unix))]
mod tests {
    use super::super::map_file;

    const FILE: &str = "HARMONIA_TEST_LOST_FILE";

    /// What the program of the next test does.
    #[test]
    fn child_that_reads_what_was_cut_off() {
        let Some(path) = std::env::var_os(FILE) else { return };
        super::name_lost_files();
        let map = map_file(path.as_ref()).unwrap();
        let file = std::fs::File::options().write(true).open(&path).unwrap();
        file.set_len(10).unwrap();
        assert!(std::hint::black_box(map[100_000]) == 1, "a byte that is no longer there");
    }

    #[test]
    fn a_mapped_file_that_shrinks_is_named_and_ends_with_1() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("features.npy");
        std::fs::write(&path, vec![1; 200_000]).unwrap();
        let mut command = std::process::Command::new(std::env::current_exe().unwrap());
        command.arg("child_that_reads_what_was_cut_off").env(FILE, &path);
        command.env("RUST_TEST_NOCAPTURE", "1").env("RUST_TEST_THREADS", "1");
        let output = command.output().unwrap();
        let message = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{message}");
        assert!(message.contains("features.npy: was cut short"), "{message}");
    }
}

//! Room on a disk, asked for before work that would fill it.

#![allow(unsafe_code)]

use crate::error::{Error, Result};
use crate::units::bytes as shown;
use std::io::{self, ErrorKind};
use std::path::Path;

/// Finds out whether files of so many bytes have room in a directory, before they are made.
///
/// # Errors
/// The disk says that it has less. One that says nothing is tried.
pub fn check_space(directory: &Path, bytes: u64) -> Result<()> {
    match free(directory).filter(|&free| free < bytes) {
        None => Ok(()),
        Some(free) => {
            let message = format!("needs {}, {} are free on this disk", shown(bytes), shown(free));
            Err(Error::io("write into", directory)(io::Error::new(ErrorKind::StorageFull, message)))
        }
    }
}

/// Bytes that this user may still write there.
#[cfg(unix)]
fn free(directory: &Path) -> Option<u64> {
    use std::os::unix::ffi::OsStrExt;
    let path = std::ffi::CString::new(directory.as_os_str().as_bytes()).ok()?;
    // SAFETY: an all-zero statvfs is a valid one; the path ends with a NUL, and both live until the call returns.
    let (status, found) = unsafe {
        let mut found: libc::statvfs = std::mem::zeroed();
        (libc::statvfs(path.as_ptr(), &mut found), found)
    };
    #[allow(clippy::unnecessary_cast)] // 32 bits on some systems
    (status == 0).then(|| (found.f_bavail as u64).saturating_mul(found.f_frsize as u64))
}

#[cfg(not(unix))]
fn free(_: &Path) -> Option<u64> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_than_the_disk_has_is_refused_with_both_figures() {
        let here = std::env::temp_dir();
        check_space(&here, 1).unwrap();
        let error = check_space(&here, u64::MAX).unwrap_err();
        assert!(error.to_string().contains("are free on this disk"), "{error}");
        // Nothing is wrong with what the user asked for.
        assert_eq!(error.exit_code(), 1);
        check_space(Path::new("/there/is/no/such/directory"), u64::MAX).unwrap();
    }
}

//! The commit a build is made from, for `--version`.

/// Short hash of HEAD; "development" in builds that are not for release, which a commit should not make anew; "unknown"
/// where there is no repository, or no git.
pub const COMMIT: &str = env!("HARMONIA_COMMIT");

/// Version and commit, in one line.
pub const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), " (", env!("HARMONIA_COMMIT"), ")");

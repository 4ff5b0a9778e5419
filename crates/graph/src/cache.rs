//! The user's cache directory.

use std::ffi::OsString;
use std::path::PathBuf;

/// Conventions about cache directories.
#[derive(Clone, Copy)]
pub enum Platform {
    /// XDG.
    Unix,
    /// Library/Caches.
    Mac,
    /// LOCALAPPDATA.
    Windows,
}

impl Platform {
    /// Those of this machine.
    pub const HERE: Platform = if cfg!(windows) {
        Platform::Windows
    } else if cfg!(target_os = "macos") {
        Platform::Mac
    } else {
        Platform::Unix
    };
}

/// `harmonia` in the user's cache directory, as the platform has it; `None` where there is no home. Not made.
pub fn cache_directory() -> Option<PathBuf> {
    cache_by(Platform::HERE, &|name| std::env::var_os(name))
}

/// The same on any platform, with any environment.
pub fn cache_by(platform: Platform, variable: &dyn Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    let path = |name: &str| variable(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let cache = match platform {
        Platform::Windows => path("LOCALAPPDATA"),
        Platform::Mac => path("HOME").map(|home| home.join("Library").join("Caches")),
        // The XDG rules say that a relative path is to be ignored.
        Platform::Unix => path("XDG_CACHE_HOME")
            .filter(|path| path.is_absolute())
            .or_else(|| path("HOME").map(|home| home.join(".cache"))),
    };
    cache.map(|cache| cache.join("harmonia"))
}

//! Compiles the embedded kernels on the machine that runs them, and keeps the result on disk.
//!
//! The cache is `HARMONIA_CACHE`, `XDG_CACHE_HOME/harmonia` or `~/.cache/harmonia`. A file's name is a hash of all that
//! decides its content; a damaged file is compiled again.

use super::library;
use cudarc::nvrtc::sys::{self, nvrtcProgram, nvrtcResult};
use harmonia_graph::error::{Error, Result};
use harmonia_graph::files;
use std::ffi::{CStr, CString, c_char, c_int};
use std::path::{Path, PathBuf};

/// As build.rs gives them to nvcc.
const FLAGS: [&str; 2] = ["--std=c++17", "--fmad=true"];
/// Start of a cache file: its format. A checksum of the rest follows.
const MAGIC: &[u8; 16] = b"harmonia-code-1\n";

/// What NVRTC is to make.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// Machine code of a generation, as in `sm_89`.
    Machine(u32),
    /// PTX for a generation NVRTC does not know yet, compiled further by the driver.
    Ptx(u32),
}

impl std::fmt::Display for Target {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Target::Machine(arch) => write!(f, "sm_{arch}"),
            Target::Ptx(arch) => write!(f, "compute_{arch}"),
        }
    }
}

/// Compiled kernels.
#[derive(Clone, Debug)]
pub struct Code {
    /// A cubin or PTX, with a zero at its end.
    pub image: Vec<u8>,
    /// What the compiler had to say: warnings. Empty for code from the cache.
    pub log: String,
    /// Whether it came from the cache.
    pub cached: bool,
    /// Why it could not be kept, where it could not.
    pub not_kept: Option<String>,
}

/// Version of the NVRTC of this machine.
///
/// # Errors
/// There is none.
pub fn version() -> Result<(u32, u32)> {
    library::nvrtc()?;
    let (mut major, mut minor): (c_int, c_int) = (0, 0);
    // SAFETY: the library is there and both numbers outlive the call.
    check(unsafe { sys::nvrtcVersion(&mut major, &mut minor) }, "ask NVRTC for its version")?;
    Ok((major.unsigned_abs(), minor.unsigned_abs()))
}

/// The best that NVRTC can make for a device: machine code, or PTX of the newest generation below it.
///
/// # Errors
/// There is no NVRTC, or it knows only newer generations.
pub fn target(capability: (u32, u32)) -> Result<Target> {
    library::nvrtc()?;
    let mut count: c_int = 0;
    // SAFETY: the library is there and `count` outlives the call.
    check(unsafe { sys::nvrtcGetNumSupportedArchs(&mut count) }, "ask NVRTC what it knows")?;
    let mut known: Vec<c_int> = vec![0; usize::try_from(count).unwrap_or(0)];
    // SAFETY: NVRTC writes as many numbers as it said.
    check(unsafe { sys::nvrtcGetSupportedArchs(known.as_mut_ptr()) }, "ask NVRTC what it knows")?;
    let known: Vec<u32> = known.into_iter().map(c_int::unsigned_abs).collect();
    choose(capability.0 * 10 + capability.1, &known)
}

fn choose(device: u32, known: &[u32]) -> Result<Target> {
    if known.contains(&device) {
        return Ok(Target::Machine(device));
    }
    let below = known.iter().copied().filter(|&arch| arch < device).max();
    below.map(Target::Ptx).ok_or_else(|| {
        Error::Device(format!(
            "the NVRTC of this machine no longer compiles for sm_{device}: install an older libnvrtc"
        ))
    })
}

/// `source` for a target, from the cache where it is there.
///
/// # Errors
/// There is no NVRTC, or it refuses the source; the message holds its log.
pub fn cached(source: &str, target: Target, cache: Option<&Path>) -> Result<Code> {
    let path = match cache {
        Some(cache) => Some(cache.join(file_name(source, target)?)),
        None => None,
    };
    if let Some(image) = path.as_deref().and_then(read_cache) {
        return Ok(Code { image, log: String::new(), cached: true, not_kept: None });
    }
    let mut code = compile(source, target)?;
    if let Some(path) = path {
        // A cache that cannot be written costs time, nothing else.
        code.not_kept = write_cache(&path, &code.image).err().map(|error| error.to_string());
    }
    Ok(code)
}

/// Where compiled kernels are kept.
pub fn cache_directory() -> Option<PathBuf> {
    let variable = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    variable("HARMONIA_CACHE")
        .or_else(|| variable("XDG_CACHE_HOME").map(|base| base.join("harmonia")))
        .or_else(|| variable("HOME").map(|home| home.join(".cache/harmonia")))
}

/// Compiles, whatever the cache holds.
///
/// # Errors
/// As [`cached`].
pub fn compile(source: &str, target: Target) -> Result<Code> {
    library::nvrtc()?;
    let failed = |what: &str| Error::Device(format!("cannot compile the kernels: {what} holds a zero byte"));
    let text = CString::new(source).map_err(|_| failed("the source"))?;
    let options: Vec<CString> = options(target)
        .into_iter()
        .map(|option| CString::new(option).map_err(|_| failed("an option")))
        .collect::<Result<_>>()?;
    let program = Program::new(&text)?;
    let pointers: Vec<*const c_char> = options.iter().map(|option| option.as_ptr()).collect();
    // SAFETY: the program is alive, and so are the options, for the whole call.
    let result = unsafe { sys::nvrtcCompileProgram(program.0, pointers.len() as c_int, pointers.as_ptr()) };
    let log = program.log();
    if result != nvrtcResult::NVRTC_SUCCESS {
        let reason = describe(result);
        return Err(Error::Device(format!("NVRTC cannot compile the kernels for {target}: {reason}\n{log}")));
    }
    Ok(Code { image: program.image(target)?, log, cached: false, not_kept: None })
}

fn options(target: Target) -> Vec<String> {
    let mut options = vec![format!("--gpu-architecture={target}")];
    options.extend(FLAGS.iter().map(ToString::to_string));
    options
}

/// A program of NVRTC; destroyed when dropped.
struct Program(nvrtcProgram);

impl Program {
    fn new(source: &CStr) -> Result<Program> {
        let mut program: nvrtcProgram = std::ptr::null_mut();
        let (none, name) = (std::ptr::null(), c"kernels.cu".as_ptr());
        // SAFETY: NVRTC copies source and name; there are no headers.
        let result = unsafe { sys::nvrtcCreateProgram(&mut program, source.as_ptr(), name, 0, none, none) };
        check(result, "give the kernels to NVRTC")?;
        Ok(Program(program))
    }

    fn log(&self) -> String {
        let mut size = 0;
        // SAFETY: the program is alive and the buffer has the size NVRTC asked for. A missing log is an empty one.
        let bytes = unsafe {
            let _ = sys::nvrtcGetProgramLogSize(self.0, &mut size);
            let mut bytes = vec![0u8; size + 1];
            let _ = sys::nvrtcGetProgramLog(self.0, bytes.as_mut_ptr().cast());
            bytes
        };
        CStr::from_bytes_until_nul(&bytes).map(|log| log.to_string_lossy().trim().to_string()).unwrap_or_default()
    }

    fn image(&self, target: Target) -> Result<Vec<u8>> {
        let mut size = 0;
        let mut bytes;
        // SAFETY: the program is compiled and alive, and the buffer has the size NVRTC asked for.
        unsafe {
            match target {
                Target::Machine(_) => {
                    check(sys::nvrtcGetCUBINSize(self.0, &mut size), "get compiled kernels")?;
                    bytes = vec![0u8; size];
                    check(sys::nvrtcGetCUBIN(self.0, bytes.as_mut_ptr().cast()), "get compiled kernels")?;
                }
                Target::Ptx(_) => {
                    check(sys::nvrtcGetPTXSize(self.0, &mut size), "get compiled kernels")?;
                    bytes = vec![0u8; size];
                    check(sys::nvrtcGetPTX(self.0, bytes.as_mut_ptr().cast()), "get compiled kernels")?;
                }
            }
        }
        bytes.push(0); // PTX has to end with one
        Ok(bytes)
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // SAFETY: created by NVRTC and destroyed once.
        let _ = unsafe { sys::nvrtcDestroyProgram(&mut self.0) };
    }
}

fn check(result: nvrtcResult, doing: &str) -> Result<()> {
    if result == nvrtcResult::NVRTC_SUCCESS {
        return Ok(());
    }
    Err(Error::Device(format!("cannot {doing}: {}", describe(result))))
}

fn describe(result: nvrtcResult) -> String {
    // SAFETY: the function was checked to exist and returns a static string for every code.
    unsafe { CStr::from_ptr(sys::nvrtcGetErrorString(result)) }.to_string_lossy().into_owned()
}

fn file_name(source: &str, target: Target) -> Result<String> {
    let (major, minor) = version()?;
    let key = format!("{major}.{minor} {} {source}", options(target).join(" "));
    Ok(format!("kernels-{target}-{:032x}.bin", hash(key.as_bytes())))
}

/// The image of a cache file; nothing where there is none or it is damaged.
fn read_cache(path: &Path) -> Option<Vec<u8>> {
    let bytes = std::fs::read(path).ok()?;
    let (sum, image) = bytes.strip_prefix(MAGIC)?.split_at_checked(size_of::<u128>())?;
    (!image.is_empty() && hash(image).to_le_bytes() == *sum).then(|| image.to_vec())
}

fn write_cache(path: &Path, image: &[u8]) -> Result<()> {
    if let Some(directory) = path.parent() {
        std::fs::create_dir_all(directory).map_err(Error::io("create directory", directory))?;
    }
    files::write_atomic(path, &[MAGIC.as_slice(), &hash(image).to_le_bytes(), image].concat())
}

/// FNV-1a, 128 bits: names and checksums, not secrets.
fn hash(bytes: &[u8]) -> u128 {
    const PRIME: u128 = 0x0000_0000_0100_0000_0000_0000_0000_013B;
    const BASIS: u128 = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;
    bytes.iter().fold(BASIS, |hash, &byte| (hash ^ u128::from(byte)).wrapping_mul(PRIME))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_are_fnv_1a() {
        assert_eq!(hash(b""), 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d);
        assert_eq!(hash(b"a"), 0xd228_cb69_6f1a_8caf_7891_2b70_4e4a_8964);
    }

    #[test]
    fn a_newer_device_gets_ptx_and_one_too_old_an_error() {
        let known = [75, 80, 86, 89, 90];
        assert_eq!(choose(89, &known).unwrap(), Target::Machine(89));
        assert_eq!(choose(120, &known).unwrap(), Target::Ptx(90));
        assert!(choose(70, &known).unwrap_err().to_string().contains("sm_70"));
    }
}

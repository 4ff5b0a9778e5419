//! Builds kernels as shared objects for `Host::load`: as they are, with our checks, or with the address sanitizer.
//!
//! The result is kept in the target directory under a name made from all that went into it, so that it is built once
//! for all test processes; each builds in a directory of its own and renames, so that they never see half a file.

use std::collections::hash_map::DefaultHasher;
use std::ffi::OsString;
use std::hash::{Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, OnceLock};

/// What is compiled into the kernels.
#[derive(Clone, Copy, Debug, Hash)]
pub enum Build {
    /// Nothing but the kernels.
    Plain,
    /// Bounds, races, unwritten shared memory and undefined behaviour, reported as errors of the launch.
    Checked,
    /// Address and undefined-behaviour sanitizer, which end the process; it needs `LD_PRELOAD` of [`sanitizer`].
    AddressSanitized,
}

/// Flags for everything.
const FLAGS: &[&str] = &[
    "-std=c++17",
    "-Wall",
    "-Wextra",
    "-Wno-unknown-pragmas",
    "-fPIC",
    "-fvisibility=hidden",
    "-ffp-contract=off",
    "-DHARMONIA_HOST",
];

/// Sources of the engine.
const ENGINE: &[&str] = &["engine", "entry", "fiber", "rendezvous"];

/// Sources of the checks.
const CHECKS: &[&str] = &["checks", "module", "shadow", "undefined"];

impl Build {
    /// For the kernels alone. The checked build optimises little: no access may move to where the source has none.
    fn kernel_flags(self) -> &'static [&'static str] {
        match self {
            Build::Plain => &["-O2"],
            Build::Checked => &["-Og", "-g", "-fsanitize=thread,undefined", "-fno-sanitize=vptr"],
            Build::AddressSanitized => {
                &["-O1", "-g", "-fsanitize=address,undefined", "-fno-sanitize=vptr", "-fno-sanitize-recover=all"]
            }
        }
    }

    /// For the engine alone.
    fn engine_flags(self) -> &'static [&'static str] {
        match self {
            Build::Plain => &["-O2"],
            Build::Checked => &["-O2", "-DHARMONIA_CHECKED"],
            Build::AddressSanitized => &["-O2", "-DHARMONIA_ADDRESS_SANITIZER"],
        }
    }

    fn link_flags(self) -> &'static [&'static str] {
        match self {
            Build::Plain | Build::Checked => &[],
            Build::AddressSanitized => &["-fsanitize=address,undefined"],
        }
    }

    fn engine_sources(self) -> Vec<&'static str> {
        match self {
            Build::Checked => [ENGINE, CHECKS].concat(),
            Build::Plain | Build::AddressSanitized => ENGINE.to_vec(),
        }
    }
}

/// The kernels of the crate, checked; none without a C++ compiler.
pub fn checked_kernels() -> Option<PathBuf> {
    static BUILT: OnceLock<Option<PathBuf>> = OnceLock::new();
    BUILT.get_or_init(|| library(Path::new("kernels/all.cu"), Build::Checked)).clone()
}

/// The kernels of the crate with the address sanitizer; none without a C++ compiler or the sanitizer.
pub fn address_sanitized_kernels() -> Option<PathBuf> {
    static BUILT: OnceLock<Option<PathBuf>> = OnceLock::new();
    BUILT
        .get_or_init(|| sanitizer().and_then(|_| library(Path::new("kernels/all.cu"), Build::AddressSanitized)))
        .clone()
}

/// The kernels of a `.cu` file of this repository; none without a C++ compiler, which is said.
pub fn library(kernels: &Path, build: Build) -> Option<PathBuf> {
    let Some(version) = compiler_version() else {
        println!("skipped: no C++ compiler");
        return None;
    };
    let kernels = root().join(kernels);
    let mut hasher = DefaultHasher::new();
    (version, build, FLAGS, build.kernel_flags(), build.engine_flags(), &kernels).hash(&mut hasher);
    hash_sources(&root().join("kernels"), &mut hasher);
    hash_sources(kernels.parent().unwrap(), &mut hasher);
    let stem = kernels.file_stem().unwrap().to_string_lossy().into_owned();
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let _turn = ONE_AT_A_TIME.lock();
    let library = scratch().join(format!("{stem}-{build:?}-{:016x}.so", hasher.finish()));
    if !library.exists() {
        let directory = tempfile::tempdir_in(scratch()).unwrap();
        let unfinished = compile(&kernels, build, directory.path());
        std::fs::rename(unfinished, &library).unwrap();
    }
    Some(library)
}

/// The address sanitizer's library for `LD_PRELOAD`; none where the compiler has no such file.
pub fn sanitizer() -> Option<PathBuf> {
    let output = Command::new(compiler()).arg("-print-file-name=libasan.so").output().ok()?;
    let path = PathBuf::from(String::from_utf8(output.stdout).ok()?.trim());
    path.is_absolute().then_some(path)
}

/// Runs one test of this binary again, under the address sanitizer. What it printed, and whether it succeeded.
pub fn run_sanitized(test: &str, environment: &[(&str, &str)]) -> Option<(bool, String)> {
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", test, "--ignored", "--nocapture", "--test-threads=1"])
        .env("LD_PRELOAD", sanitizer()?)
        .env("ASAN_OPTIONS", "detect_leaks=0:detect_stack_use_after_return=0")
        .env("UBSAN_OPTIONS", "print_stacktrace=1")
        .envs(environment.iter().copied())
        .output()
        .unwrap();
    let text = [output.stdout, output.stderr].concat();
    Some((output.status.success(), String::from_utf8_lossy(&text).into_owned()))
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn scratch() -> &'static Path {
    Path::new(env!("CARGO_TARGET_TMPDIR"))
}

fn compiler() -> OsString {
    std::env::var_os("CXX").unwrap_or_else(|| "c++".into())
}

fn compiler_version() -> Option<Vec<u8>> {
    let output = Command::new(compiler()).arg("--version").output().ok()?;
    output.status.success().then_some(output.stdout)
}

fn hash_sources(directory: &Path, hasher: &mut DefaultHasher) {
    let mut paths: Vec<PathBuf> = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    for path in paths {
        if path.is_dir() {
            hash_sources(&path, hasher);
        } else {
            (&path, std::fs::read(&path).unwrap()).hash(hasher);
        }
    }
}

/// The shared object, in `directory`.
fn compile(kernels: &Path, build: Build, directory: &Path) -> PathBuf {
    let host = root().join("kernels/host");
    let include = format!("-I{}", root().join("kernels").display());
    let mut objects = Vec::new();
    for source in build.engine_sources().into_iter().chain(["kernels"]) {
        let object = directory.join(format!("{source}.o"));
        let mut command = Command::new(compiler());
        command.args(FLAGS).arg(&include);
        if source == "kernels" {
            command.args(build.kernel_flags()).arg(format!("-DHARMONIA_KERNELS=\"{}\"", kernels.display()));
        } else {
            command.args(build.engine_flags());
        }
        run(command.arg("-c").arg(host.join(source).with_extension("cpp")).arg("-o").arg(&object));
        objects.push(object);
    }
    let library = directory.join("kernels.so");
    run(Command::new(compiler()).arg("-shared").args(objects).args(build.link_flags()).arg("-o").arg(&library));
    library
}

/// Runs the compiler, whose warnings count as errors.
fn run(command: &mut Command) {
    let output = command.output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && errors.is_empty(), "{command:?}\n{errors}");
}

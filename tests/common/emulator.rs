//! A GPU for machines without: an emulator of the driver and of cuBLAS that executes the kernels' PTX and checks every access.
//!
//! Its sources are no part of this project: `HARMONIA_PTX_EMULATOR=DIR`, or `../shared/tools/ptx`, where a `build.sh OUT` makes
//! `libcuda.so` and `libcublas.so`; what its cuBLAS lacks is in `tests/emulator/batches.cpp`. Built once, into the target directory.
//! Without sources, or with a GPU, tests skip.

use harmonia::device::cuda::{self, nvrtc};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;

/// Where the kernels come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// The source, compiled by NVRTC.
    Source,
    /// The PTX of the fatbin that nvcc made when this was built.
    Fatbin,
}

/// A built emulator.
pub struct Emulator {
    libraries: PathBuf,
    scratch: tempfile::TempDir,
}

impl Emulator {
    /// None where there is a GPU or no emulator, which is said.
    pub fn found() -> Option<Emulator> {
        if matches!(cuda::device_count(), Ok(1..)) {
            println!("skipped: there is a GPU, no need to emulate one");
            return None;
        }
        let beside = root().join("../shared/tools/ptx");
        let sources = std::env::var_os("HARMONIA_PTX_EMULATOR").map_or(beside, PathBuf::from);
        if !sources.join("build.sh").is_file() {
            println!("skipped: no GPU, and no emulator of one in {} (set HARMONIA_PTX_EMULATOR)", sources.display());
            return None;
        }
        let emulator = Emulator { libraries: build(&sources), scratch: tempfile::tempdir().unwrap() };
        if emulator.kernels().is_empty() {
            println!("skipped: no GPU, and kernels for an emulated one need libnvrtc or nvcc");
            return None;
        }
        Some(emulator)
    }

    /// Forms of the kernels it can run here.
    pub fn kernels(&self) -> Vec<Form> {
        let mut forms = Vec::new();
        if nvrtc_library().is_some() || nvrtc::version().is_ok() {
            forms.push(Form::Source);
        }
        if !cuda::embedded().fatbin.is_empty() && cuobjdump().is_file() {
            forms.push(Form::Fatbin);
        } else {
            println!("skipped in part: built without nvcc, or no cuobjdump: no fatbin to take PTX from");
        }
        forms
    }

    /// A program that finds an emulated GPU.
    pub fn command(&self, program: &Path, form: Form) -> Command {
        let mut command = Command::new(program);
        // Under cargo the loader looks elsewhere first.
        command.env("LD_LIBRARY_PATH", &self.libraries).env("HARMONIA_CACHE", self.scratch("cache"));
        if let Some(directory) = nvrtc_library() {
            command.env("HARMONIA_CUDA_LIB", directory);
        }
        match form {
            // A generation between two that NVRTC knows: it makes PTX of the older one, not machine code.
            Form::Source => command.env("PTXEMU_CAP", "82").env("PTXEMU_REFUSE", "1"),
            Form::Fatbin => command.env("PTXEMU_CAP", "89").env("PTXEMU_CUOBJDUMP", cuobjdump()),
        };
        command
    }

    /// Where its libraries are.
    pub fn libraries(&self) -> &Path {
        &self.libraries
    }

    /// A path of its own.
    pub fn scratch(&self, name: &str) -> PathBuf {
        self.scratch.path().join(name)
    }
}

/// What a summary says of one kernel.
pub struct Launches {
    pub kernel: String,
    pub launches: u64,
    pub blocks: u64,
    /// Turns that accesses to shared memory took, for each that they would take if no two lanes met in a bank; 0 without any.
    pub turns: f64,
}

/// Of the file `PTXEMU_SUMMARY` names: lines of `K kernel launches N blocks N ...`.
pub fn launches(summary: &str) -> Vec<Launches> {
    let number = |words: &[&str], name: &str| -> f64 {
        words.iter().position(|word| *word == name).map_or(0.0, |at| words[at + 1].parse().unwrap())
    };
    let line = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [launches, blocks] = ["launches", "blocks"].map(|name| number(&words, name) as u64);
        Launches { kernel: words[1].to_string(), launches, blocks, turns: number(&words, "sh.wave/ideal") }
    };
    summary.lines().filter(|text| text.starts_with("K ")).map(line).collect()
}

/// Builds, once for all test processes: each in a directory of its own, renamed when it is whole.
fn build(sources: &Path) -> PathBuf {
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let _turn = ONE_AT_A_TIME.lock();
    let batches = root().join("tests/emulator/batches.cpp");
    let files = std::fs::read_dir(sources).unwrap().filter_map(|entry| Some(entry.ok()?.path()));
    let [theirs, ours] = [files.map(|path| changed(&path)).max().unwrap(), changed(&batches)];
    let scratch = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let built = scratch.join(format!("ptx-emulator-{theirs}-{ours}"));
    if !built.is_dir() {
        let unfinished = tempfile::tempdir_in(scratch).unwrap();
        let output = Command::new(sources.join("build.sh")).arg(unfinished.path()).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let cublas = unfinished.path().join("libcublas.so");
        // A link to the emulator, which the compiler would follow.
        std::fs::remove_file(&cublas).unwrap();
        let mut compiler = Command::new("g++");
        compiler.args(["-std=c++20", "-O2", "-shared", "-fPIC", "-o"]).arg(&cublas).arg(&batches);
        assert!(compiler.arg("-L").arg(unfinished.path()).arg("-lcuda").status().unwrap().success());
        // Another process may have been quicker.
        let _ = std::fs::rename(unfinished.keep(), &built);
    }
    built
}

/// When a file was changed, in seconds.
fn changed(path: &Path) -> u64 {
    let time = std::fs::metadata(path).unwrap().modified().unwrap();
    time.duration_since(std::time::UNIX_EPOCH).unwrap().as_secs()
}

fn nvrtc_library() -> Option<PathBuf> {
    let directory = root().join(".cuda/lib");
    directory.is_dir().then_some(directory)
}

fn cuobjdump() -> PathBuf {
    root().join(".cuda/bin/cuobjdump")
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

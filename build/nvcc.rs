//! nvcc: where it is, what it compiles for, and the fatbin.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// GPU generations with machine code in the fatbin, where nvcc knows them: A100, RTX 30, RTX 40 and L4, H100, B200, RTX 50.
/// Any other from compute_80 on runs the PTX.
pub const ARCHS: [&str; 6] = ["80", "86", "89", "90", "100", "120"];
/// The least generation, and the one whose PTX is kept.
pub const BASE_ARCH: &str = "80";
/// Contraction to FMA is on (the host build has it off, so the two differ in the last bits); fast approximations of
/// division, roots and exp are not.
const FLAGS: [&str; 4] = ["-O3", "-std=c++17", "--fmad=true", "-Xptxas=-v"];

/// The compiled kernels. All fields are empty without nvcc.
#[derive(Debug, Default)]
pub struct Fatbin {
    pub bytes: Vec<u8>,
    /// What ptxas said about registers and memory.
    pub report: String,
    /// CUDA release of nvcc, as in "13.4".
    pub version: String,
    /// Generations with machine code.
    pub archs: Vec<String>,
}

/// Finds nvcc: NVCC, CUDA_HOME, CUDA_PATH, `.cuda` in the project (scripts/install-nvcc.sh), PATH. A place that was named
/// and has no nvcc is an error, except CUDA_HOME and CUDA_PATH, which others read too.
pub fn find(variable: &mut dyn FnMut(&str) -> Option<String>, project: &Path) -> Result<Option<PathBuf>, String> {
    match variable("HARMONIA_CUDA").as_deref() {
        Some("off" | "0") => return Ok(None),
        Some("on" | "1") | None => {}
        Some(other) => return Err(format!("HARMONIA_CUDA={other}: expected `on` or `off`")),
    }
    if let Some(nvcc) = variable("NVCC") {
        return Ok(Some(PathBuf::from(nvcc)));
    }
    let executable = format!("nvcc{}", std::env::consts::EXE_SUFFIX);
    let homes = ["CUDA_HOME", "CUDA_PATH"].into_iter().filter_map(|name| variable(name).map(PathBuf::from));
    let mut candidates: Vec<PathBuf> = homes.collect();
    candidates.push(project.join(".cuda"));
    let found = candidates.iter().map(|home| home.join("bin").join(&executable)).find(|path| path.is_file());
    if found.is_some() {
        return Ok(found);
    }
    let path = variable("PATH").unwrap_or_default();
    Ok(std::env::split_paths(&path).map(|directory| directory.join(&executable)).find(|path| path.is_file()))
}

/// Compiles one file that includes all kernels.
pub fn compile(
    nvcc: &Path,
    source: &Path,
    out: &Path,
    variable: &mut dyn FnMut(&str) -> Option<String>,
) -> Result<Fatbin, String> {
    let version = release(&text(run(Command::new(nvcc).arg("--version"))?.stdout))
        .ok_or_else(|| format!("{} --version does not say which CUDA release it is", nvcc.display()))?;
    let known = text(run(Command::new(nvcc).arg("--list-gpu-code"))?.stdout);
    let known: Vec<&str> = known.split_whitespace().filter_map(|code| code.strip_prefix("sm_")).collect();
    let archs = choose_archs(variable("HARMONIA_CUDA_ARCHS").as_deref(), &known)?;

    let fatbin = out.join("kernels.fatbin");
    let mut command = Command::new(nvcc);
    command.arg("--fatbin").arg("-o").arg(&fatbin).args(FLAGS);
    command.arg(format!("--threads={}", jobs()));
    for arch in &archs {
        command.arg(format!("-gencode=arch=compute_{arch},code=sm_{arch}"));
    }
    let base = archs.iter().find(|arch| *arch == BASE_ARCH).or(archs.first()).map_or(BASE_ARCH, String::as_str);
    command.arg(format!("-gencode=arch=compute_{base},code=compute_{base}")).arg(source);
    let output = run(&mut command)?;
    let bytes = std::fs::read(&fatbin).map_err(|error| format!("nvcc left no {}: {error}", fatbin.display()))?;
    // Times would make every build different.
    let report = text(output.stderr)
        .lines()
        .filter(|line| !line.contains("Compile time"))
        .fold(String::new(), |report, line| report + line + "\n");
    Ok(Fatbin { bytes, report, version, archs })
}

/// The generations to compile for: those asked for, else those of `ARCHS` that nvcc knows.
pub fn choose_archs(asked: Option<&str>, known: &[&str]) -> Result<Vec<String>, String> {
    let Some(asked) = asked else {
        let archs: Vec<String> = ARCHS.iter().filter(|arch| known.contains(arch)).map(ToString::to_string).collect();
        return if archs.is_empty() {
            Err(format!("nvcc knows none of sm_{}", ARCHS.join(", sm_")))
        } else {
            Ok(archs)
        };
    };
    let mut archs: Vec<String> = Vec::new();
    for arch in asked.split(',').map(str::trim) {
        let number: u32 = arch.trim_end_matches(['a', 'f']).parse().unwrap_or(0);
        if number < 80 || !known.contains(&arch) {
            return Err(format!(
                "HARMONIA_CUDA_ARCHS={asked}: `{arch}` is not a generation nvcc knows from sm_80 on; \
                 expected numbers such as 80,89 out of {}",
                known.join(", ")
            ));
        }
        if !archs.iter().any(|seen| seen == arch) {
            archs.push(arch.to_string());
        }
    }
    // The PTX is that of the first, so that it serves as many newer ones as it can.
    archs.sort_by_key(|arch| arch.trim_end_matches(['a', 'f']).parse::<u32>().unwrap_or(u32::MAX));
    Ok(archs)
}

/// "13.4" from nvcc's version text.
pub fn release(version: &str) -> Option<String> {
    let after = version.split("release ").nth(1)?;
    Some(after.split(',').next()?.trim().to_string())
}

/// Jobs cargo gives this script.
fn jobs() -> String {
    std::env::var("NUM_JOBS").unwrap_or_else(|_| "1".to_string())
}

/// Runs to success, or fails with all it printed.
fn run(command: &mut Command) -> Result<Output, String> {
    let output = command.output().map_err(|error| {
        format!("cannot run {}: {error}; NVCC names another, HARMONIA_CUDA=off builds without", line(command))
    })?;
    if output.status.success() {
        return Ok(output);
    }
    Err(format!(
        "nvcc failed ({}): {}\n{}{}\nHARMONIA_CUDA=off builds without nvcc; the kernels are then compiled on first use.",
        output.status,
        line(command),
        text(output.stdout),
        text(output.stderr)
    ))
}

fn line(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words.map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
}

fn text(bytes: Vec<u8>) -> String {
    String::from_utf8_lossy(&bytes).into_owned()
}

//! Builds what is not Rust: the GPU kernels, where nvcc is found, and the host kernels, where a C++ compiler is.
//!
//! Left in OUT_DIR and embedded by `src/device/cuda/module.rs`:
//! - `kernels.cu`: all sources as one text, for NVRTC at run time; always there;
//! - `kernels.fatbin`: machine code for several GPU generations, and PTX for newer ones; empty without nvcc;
//! - `kernels.ptxas.txt`: registers and memory of each kernel, as ptxas reports them; empty without nvcc.
//!
//! A missing compiler is fine. A compiler that is there and fails is an error, with its own message.
//!
//! Settings: `NVCC`, `CUDA_HOME`, `CUDA_PATH` say where nvcc is, `HARMONIA_CUDA=off` leaves it out, and
//! `HARMONIA_CUDA_ARCHS="80,89"` names the generations to compile for.

#[path = "build/host.rs"]
mod host;
#[path = "build/nvcc.rs"]
mod nvcc;
#[path = "build/source.rs"]
mod source;

use std::path::Path;

fn main() {
    if let Err(message) = run() {
        eprintln!("{message}");
        std::process::exit(1);
    }
}

fn run() -> Result<(), String> {
    println!("cargo:rustc-check-cfg=cfg(harmonia_host)");
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-changed=build");
    // Not the page of text beside them: a change of it compiles nothing.
    for entry in std::fs::read_dir("kernels").map_err(|error| format!("cannot read kernels: {error}"))? {
        let path = entry.map_err(|error| format!("cannot read kernels: {error}"))?.path();
        if path.extension().is_none_or(|extension| extension != "md") {
            println!("cargo:rerun-if-changed={}", path.display());
        }
    }
    let out = std::env::var("OUT_DIR").map_err(|error| format!("OUT_DIR: {error}"))?;
    let write = |name: &str, bytes: &[u8]| {
        std::fs::write(Path::new(&out).join(name), bytes).map_err(|error| format!("cannot write {name}: {error}"))
    };

    write("kernels.cu", source::inline(Path::new("kernels/all.cu"))?.as_bytes())?;

    let fatbin = match nvcc::find(&mut variable, Path::new("."))? {
        Some(nvcc) => nvcc::compile(&nvcc, Path::new("kernels/all.cu"), Path::new(&out), &mut variable)?,
        None => nvcc::Fatbin::default(),
    };
    write("kernels.fatbin", &fatbin.bytes)?;
    write("kernels.ptxas.txt", fatbin.report.as_bytes())?;
    println!("cargo:rustc-env=HARMONIA_NVCC_VERSION={}", fatbin.version);
    println!("cargo:rustc-env=HARMONIA_FATBIN_ARCHS={}", fatbin.archs.join(","));

    let files = ["engine", "entry", "fiber", "kernels", "rendezvous"].map(|name| format!("kernels/host/{name}.cpp"));
    let compiler = host::compile(&files)?;
    println!("cargo:rustc-env=HARMONIA_CXX_VERSION={}", compiler.unwrap_or_default());
    Ok(())
}

/// An environment variable; cargo runs this script again when it changes.
fn variable(name: &str) -> Option<String> {
    println!("cargo:rerun-if-env-changed={name}");
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

//! The kernels for the CPU: the same sources, compiled by the C++ compiler into a static library.

use std::path::Path;

/// Compiles `files` and sets cfg(harmonia_host). Returns the compiler's version, or nothing where there is no compiler.
pub fn compile(files: &[String]) -> Result<Option<String>, String> {
    if !files.iter().all(|file| Path::new(file).is_file()) {
        return Ok(None);
    }
    let Some(version) = version() else { return Ok(None) };
    let mut build = cc::Build::new();
    build.cpp(true).std("c++17").opt_level(2).define("HARMONIA_HOST", None).files(files);
    build.include("kernels").flag_if_supported("-fvisibility=hidden");
    build.flag_if_supported("-Wno-unknown-pragmas"); // #pragma unroll
    // Products and sums are rounded one by one, as the kernels are written.
    build.flag_if_supported("-ffp-contract=off");
    build.try_compile("harmonia_host").map_err(|error| format!("the C++ compiler failed: {error}"))?;
    println!("cargo:rustc-cfg=harmonia_host");
    Ok(Some(version))
}

/// The first line of what the compiler says about itself; nothing, and no warning, where it cannot be run.
fn version() -> Option<String> {
    let compiler = cc::Build::new().cpp(true).cargo_warnings(false).try_get_compiler().ok()?;
    let output = compiler.to_command().arg("--version").output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    Some(text.lines().next().unwrap_or_default().trim().to_string())
}

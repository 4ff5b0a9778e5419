//! The parts of build.rs, without whole builds: where nvcc is looked for, what becomes of its failures, and the one source
//! made of all kernels.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // a test may stop at the first surprise

#[allow(dead_code)]
#[path = "../build/nvcc.rs"]
mod nvcc;
#[path = "../build/source.rs"]
mod source;

use std::fs;
use std::path::{Path, PathBuf};

fn find(variables: &[(&str, &str)], project: &Path) -> Result<Option<PathBuf>, String> {
    let value = |name: &str| variables.iter().find(|(key, _)| *key == name).map(|(_, value)| value.to_string());
    nvcc::find(&mut { value }, project)
}

fn executable(directory: &Path, script: &str) -> PathBuf {
    use std::os::unix::fs::PermissionsExt;
    fs::create_dir_all(directory.join("bin")).unwrap();
    let path = directory.join("bin/nvcc");
    fs::write(&path, script).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    path
}

#[test]
fn nvcc_is_found_in_the_order_the_documentation_says() {
    let scratch = tempfile::tempdir().unwrap();
    let root = scratch.path();
    let (home, path, local) = (root.join("home"), root.join("path"), root.join(".cuda"));
    let (home_text, path_text) = (home.to_str().unwrap(), format!("{}:/nowhere", path.join("bin").display()));
    let all = [("CUDA_HOME", home_text), ("PATH", path_text.as_str())];

    assert_eq!(find(&all, root), Ok(None));
    let on_path = executable(&path, "");
    assert_eq!(find(&all, root), Ok(Some(on_path)));
    let in_project = executable(&local, "");
    assert_eq!(find(&all, root), Ok(Some(in_project)));
    let in_home = executable(&home, "");
    assert_eq!(find(&all, root), Ok(Some(in_home)));
    let named = [("NVCC", "my-nvcc"), all[0], all[1]];
    assert_eq!(find(&named, root), Ok(Some(PathBuf::from("my-nvcc"))));
    assert_eq!(find(&[("HARMONIA_CUDA", "off"), named[0]], root), Ok(None));
    assert!(find(&[("HARMONIA_CUDA", "maybe")], root).unwrap_err().contains("maybe"));
}

#[test]
fn a_failing_nvcc_is_an_error_with_its_own_message() {
    let scratch = tempfile::tempdir().unwrap();
    let compile = |nvcc: &Path| nvcc::compile(nvcc, Path::new("kernels/all.cu"), scratch.path(), &mut |_| None);
    assert!(compile(Path::new("/bin/false")).unwrap_err().contains("/bin/false --version"));
    assert!(compile(Path::new("/no/such/nvcc")).unwrap_err().contains("cannot run /no/such/nvcc"));
    let script = "#!/bin/sh\ncase $1 in\n--version) echo 'release 13.4, V13.4.92';;\n--list-gpu-code) echo sm_80 sm_89;;\n\
                  *) echo 'all.cu(3): error: no such thing' >&2; exit 2;;\nesac\n";
    let message = compile(&executable(scratch.path(), script)).unwrap_err();
    assert!(message.contains("all.cu(3): error: no such thing"), "{message}");
    assert!(message.contains("HARMONIA_CUDA=off"), "{message}");
}

#[test]
fn nvcc_makes_code_for_the_generations_asked_for() {
    let variable = |name: &str| std::env::var(name).ok();
    let Some(compiler) = nvcc::find(&mut { variable }, Path::new(".")).unwrap() else {
        println!("skipped: nvcc is not installed (scripts/install-nvcc.sh puts one into .cuda)");
        return;
    };
    let scratch = tempfile::tempdir().unwrap();
    let mut archs = |name: &str| (name == "HARMONIA_CUDA_ARCHS").then(|| "80,89".to_string());
    let fatbin = nvcc::compile(&compiler, Path::new("kernels/all.cu"), scratch.path(), &mut archs).unwrap();
    assert_eq!(fatbin.archs, ["80", "89"]);
    assert!(!fatbin.bytes.is_empty());
    for arch in ["sm_80", "sm_89"] {
        assert!(fatbin.report.contains(&format!("for '{arch}'")), "{}", fatbin.report);
    }
    assert!(!fatbin.report.contains("warning"), "{}", fatbin.report);
}

#[test]
fn generations_are_those_nvcc_knows_or_those_asked_for() {
    let known = ["75", "80", "86", "89", "90", "90a"];
    assert_eq!(nvcc::choose_archs(None, &known).unwrap(), ["80", "86", "89", "90"]);
    assert_eq!(nvcc::choose_archs(Some("90a, 80,80"), &known).unwrap(), ["80", "90a"]);
    for bad in ["75", "sm_80", "100", "", "80;89"] {
        let message = nvcc::choose_archs(Some(bad), &known).unwrap_err();
        assert!(message.contains(&format!("HARMONIA_CUDA_ARCHS={bad}")), "{message}");
    }
    assert!(nvcc::choose_archs(None, &["50"]).is_err());
    assert_eq!(nvcc::release("Cuda compilation tools, release 13.4, V13.4.92").as_deref(), Some("13.4"));
    assert_eq!(nvcc::release("gcc 12"), None);
}

#[test]
fn includes_are_inlined_once_and_lines_keep_their_numbers() {
    let scratch = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| fs::write(scratch.path().join(name), text).unwrap();
    fs::create_dir(scratch.path().join("sub")).unwrap();
    write("all.cu", "#include \"sub/a.cuh\"\n#include \"once.cuh\"\n#include <cstdio>\nint last;\n");
    write(
        "sub/a.cuh",
        "#  include \"../once.cuh\"\n#ifdef HARMONIA_HOST\n#include \"absent.h\"\n#else\nint device;\n#endif\n",
    );
    write(
        "once.cuh",
        "#pragma once\nint once;\n#ifndef HARMONIA_HOST\nint kept;\n#if X\n#else\nint too;\n#endif\n#else\nint host;\n#endif\n",
    );
    let text = source::inline(&scratch.path().join("all.cu")).unwrap();
    let code: Vec<&str> = text.lines().filter(|line| !line.is_empty() && !line.starts_with("#line")).collect();
    assert_eq!(
        code,
        [
            "int once;",
            "int kept;",
            "#if X",
            "#else",
            "int too;",
            "#endif",
            "int device;",
            "#include <cstdio>",
            "int last;"
        ]
    );
    // `int device;` is line 5 of its file, counted from the marker before it.
    let before = &text[..text.find("int device;").unwrap()];
    let marker = before.rfind("#line").unwrap();
    let first: usize = before[marker + 6..].split(' ').next().unwrap().parse().unwrap();
    assert_eq!(first + before[marker..].matches('\n').count() - 1, 5);

    write("loop.cu", "#include \"loop.cu\"\n");
    assert!(source::inline(&scratch.path().join("loop.cu")).unwrap_err().contains("includes itself"));
    write("gone.cu", "#include \"gone.cuh\"\n");
    assert!(source::inline(&scratch.path().join("gone.cu")).unwrap_err().contains("gone.cuh"));
}

//! `src/device/launcher/abi.rs` is what bindgen makes of `kernels/abi.h`. It is committed, so that building needs no
//! libclang; this test makes it again in memory and fails where the two differ. To renew the file:
//!
//! ```text
//! HARMONIA_RENEW_ABI=1 cargo test --test abi
//! ```
//!
//! libclang comes from LIBCLANG_PATH, from `.cuda/lib` (`scripts/install-nvcc.sh`) or from the system.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // a test may stop at the first surprise

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

const HEADER: &str = "kernels/abi.h";
const GENERATED: &str = "src/device/launcher/abi.rs";

const PREAMBLE: &str = r"//! What Rust and the kernels agree on. Made from kernels/abi.h by bindgen: do not edit.
//!
//! To renew: HARMONIA_RENEW_ABI=1 cargo test --test abi
#![allow(missing_docs, rustdoc::all)]

";

#[test]
fn the_generated_abi_is_current() {
    let local = Path::new(".cuda/lib");
    if std::env::var_os("LIBCLANG_PATH").is_none() && local.join("libclang.so").exists() {
        // SAFETY: the only test of this binary, and no thread it started reads the environment.
        #[allow(unsafe_code)]
        unsafe {
            std::env::set_var("LIBCLANG_PATH", local);
        }
    }
    // bindgen panics where it finds no libclang; quietly, for a skipped test is no failure.
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    let found = std::panic::catch_unwind(bindgen::clang_version);
    std::panic::set_hook(hook);
    if found.is_err() {
        println!("skipped: libclang is not installed (scripts/install-nvcc.sh puts one into .cuda)");
        return;
    }

    let fresh = doc_comments(&rustfmt(&format!("{PREAMBLE}{}", tidy(&bindings()))));
    if std::env::var_os("HARMONIA_RENEW_ABI").is_some() {
        std::fs::write(GENERATED, &fresh).unwrap();
        println!("wrote {GENERATED}");
        return;
    }
    let committed = std::fs::read_to_string(GENERATED).unwrap_or_default();
    let different =
        committed.lines().chain([""]).zip(fresh.lines().chain([""])).find(|(committed, fresh)| committed != fresh);
    assert!(
        committed == fresh,
        "{GENERATED} does not match {HEADER}; renew it with `HARMONIA_RENEW_ABI=1 cargo test --test abi`\n\
         first difference (committed, expected): {different:?}"
    );
}

fn bindings() -> String {
    bindgen::Builder::default()
        .header(HEADER)
        // libclang from a wheel has no <stdint.h>; the header brings its own types where NVRTC reads it.
        .clang_arg("-D__CUDACC_RTC__")
        .clang_arg("-fparse-all-comments")
        .default_enum_style(bindgen::EnumVariation::Consts)
        .prepend_enum_name(false)
        .derive_debug(true)
        .derive_copy(true)
        .blocklist_type("u?int(32|64)_t")
        .use_core()
        .disable_header_comment()
        .formatter(bindgen::Formatter::None)
        .generate()
        .unwrap()
        .to_string()
}

/// Keeps size and alignment of every struct as assertions and drops those of single fields; makes constants plain u32.
fn tidy(bindings: &str) -> String {
    let kept = |statement: &&str| {
        !statement.trim_start().starts_with(r#"["Offset of field"#) && !statement.contains("pub type _bindgen_ty_")
    };
    let mut text = bindings.split(';').filter(kept).collect::<Vec<_>>().join(";");
    while let Some(start) = text.find("_bindgen_ty_") {
        let end = text[start..].find([' ', ';', '=']).map_or(text.len(), |length| start + length);
        text.replace_range(start..end, "u32");
    }
    text
}

/// `#[doc = " text"]` as `/// text`.
fn doc_comments(source: &str) -> String {
    let lines = source.lines().map(|line| {
        let Some((indent, text)) = line.split_once("#[doc = \"") else { return format!("{line}\n") };
        let text = text.trim_end_matches("\"]").replace("\\\"", "\"");
        text.split("\\n").map(|text| format!("{indent}///{}\n", text.trim_end())).collect()
    });
    lines.collect::<Vec<_>>().concat()
}

fn rustfmt(source: &str) -> String {
    let mut child = Command::new("rustfmt")
        .args(["--edition", "2024", "--emit", "stdout", "--config-path", "rustfmt.toml"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("rustfmt, from `rustup component add rustfmt`");
    child.stdin.take().unwrap().write_all(source.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "rustfmt failed");
    String::from_utf8(output.stdout).unwrap()
}

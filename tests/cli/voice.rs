//! What the commands say about themselves, and how: help, manual, version, completions, quiet, colours.

use super::program::{Scratch, small_dataset, stdout_of};
use serde_json::Value;
#[test]
fn help_names_every_flag_of_the_contract() {
    let scratch = Scratch::new();
    let text = scratch.train_ok(&["--help"]);
    for flag in [
        "--dataset",
        "--preset",
        "--config",
        "--set",
        "--seed",
        "--seeds",
        "--epochs",
        "--device",
        "--threads",
        "--out",
        "--resume",
        "--dry-run",
        "--json",
        "--data-index",
        "--data-dir",
        "--folds",
        "--repeats",
        "--undirected",
        "--normalise",
        "--yes",
        "--offline",
        "--mirror",
    ] {
        assert!(text.contains(flag), "{flag}");
    }
    let same = stdout_of(&scratch.run("harmonia", &["train", "--help"]), &["train", "--help"]);
    assert!(same.contains("--resume") && same.contains("Exit codes"));
}

#[test]
fn a_closed_pipe_is_no_failure() {
    let scratch = Scratch::new();
    let binary = env!("CARGO_BIN_EXE_harmonia-train");
    let script = format!("set -o pipefail; '{binary}' --dry-run | head -n 1");
    let output = std::process::Command::new("bash").args(["-c", &script]).output().unwrap();
    let message = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && message.is_empty(), "{message}");
    assert!(scratch.entries().is_empty());
}

#[test]
fn quiet_says_nothing_but_errors() {
    let scratch = Scratch::new();
    harmonia::store::write(&small_dataset(), &scratch.path("s")).unwrap();
    // The session of a store without enough training has notes and progress to tell.
    let common = ["--dataset", "s", "--epochs", "1", "--json"];
    let spoken = |output: std::process::Output| {
        assert!(serde_json::from_slice::<Value>(&output.stdout).unwrap()["run_dir"].is_string());
        String::from_utf8(output.stderr).unwrap()
    };
    let normal = spoken(scratch.train(&common));
    assert!(normal.contains("writing to") && normal.contains("note: ") && normal.contains("best epoch"), "{normal}");
    assert_eq!(spoken(scratch.train(&[&["-q"], &common[..]].concat())), "");
    assert_eq!(spoken(scratch.run("harmonia", &[&["train"], &common[..], &["--quiet"]].concat())), "");
    assert_eq!(spoken(scratch.run("harmonia", &[&["-q", "train"], &common[..]].concat())), "");
    scratch.refused("harmonia-train", &["-q", "--set", "train.epoch=3"], &["error: ", "train.epochs"]);
    scratch.refused("harmonia-train", &["-q", "-v"], &["--quiet", "--verbose"]);
    assert!(scratch.harmonia_ok(&["data", "list", "--verbose"]).contains("cora"));
}

#[test]
fn all_that_commands_say_on_stderr_goes_through_one_place() {
    fn look(directory: &std::path::Path) {
        for entry in std::fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                look(&path);
            } else if !path.ends_with("voice.rs") {
                let text = std::fs::read_to_string(&path).unwrap();
                assert!(!text.contains("eprint"), "{} does not ask voice.rs", path.display());
            }
        }
    }
    look(&std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src/cli"));
}

#[test]
fn errors_are_coloured_like_those_of_the_parser_and_only_where_they_may_be() {
    let scratch = Scratch::new();
    let said = |arguments: &[&str], variables: &[(&str, &str)]| {
        let mut command = scratch.command("harmonia-train", arguments);
        command.env_remove("NO_COLOR").env_remove("CLICOLOR_FORCE").envs(variables.iter().copied());
        String::from_utf8(command.output().unwrap().stderr).unwrap()
    };
    let forced = ("CLICOLOR_FORCE", "1");
    let colour = |arguments: &[&str]| said(arguments, &[forced]).split("error:").next().unwrap().to_string();
    let ours = ["--preset", "none"];
    assert!(colour(&ours).starts_with('\x1b') && colour(&ours) == colour(&["--none"]), "{:?}", colour(&ours));
    // Neither in a pipe, nor where colours are not wanted.
    for variables in [&[][..], &[forced, ("NO_COLOR", "1")]] {
        let message = said(&ours, variables);
        assert!(message.starts_with("error: there is no preset"), "{message:?}");
    }
}

#[test]
fn completions_know_commands_and_flags() {
    let scratch = Scratch::new();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let text = scratch.harmonia_ok(&["completions", shell]);
        for part in ["remove-retrain", "offline", "quiet"] {
            assert!(text.contains(part), "no {part} for {shell}");
        }
        assert!(scratch.harmonia_ok(&["completions", shell, "--of", "harmonia-train"]).contains("resume"));
    }
    scratch.refused("harmonia", &["completions", "bahs"], &["bahs", "bash"]);
}

#[test]
fn the_manual_has_one_page_per_command() {
    let scratch = Scratch::new();
    scratch.harmonia_ok(&["man", "share/man1"]);
    // Again, over what is there.
    let said = scratch.harmonia_ok(&["man", "share/man1"]);
    let pages = std::fs::read_dir(scratch.path("share/man1")).unwrap();
    let names: Vec<String> = pages.map(|page| page.unwrap().file_name().to_string_lossy().into_owned()).collect();
    assert!(said.starts_with(&format!("{} pages", names.len())), "{said}");
    for page in ["harmonia.1", "harmonia-train.1", "harmonia-data.1", "harmonia-data-convert.1", "harmonia-explain.1"] {
        assert!(names.iter().any(|name| name == page), "no {page} in {names:?}");
    }
    assert!(names.iter().all(|name| name.ends_with(".1") && !name.contains("help")), "{names:?}");
    let page = std::fs::read_to_string(scratch.path("share/man1/harmonia-data-convert.1")).unwrap();
    assert!(page.contains(".TH") && page.contains("label\\-column"), "{page}");
    scratch.write("file", "in the way");
    scratch.refused("harmonia", &["man", "file"], &["file: is a file; expected a directory"]);
}

#[test]
fn the_version_says_commit_and_devices() {
    let scratch = Scratch::new();
    for binary in ["harmonia", "harmonia-train"] {
        let text = stdout_of(&scratch.run(binary, &["--version"]), &["--version"]);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], format!("{binary} {}", env!("CARGO_PKG_VERSION")));
        let commit = lines[1].strip_prefix("commit ").unwrap();
        let is_hash = commit.len() >= 7 && commit.bytes().all(|byte| byte.is_ascii_hexdigit());
        // Test binaries are development builds, unless they are built for release.
        assert!(["development", "unknown"].contains(&commit) || is_hash, "{commit}");
        for (line, device) in lines[2..].iter().zip(["cpu: ", "cuda: ", "host: "]) {
            assert!(line.starts_with(device) && line.len() > device.len(), "{text}");
        }
        assert_eq!(lines.len(), 5, "{text}");
        let short = stdout_of(&scratch.run(binary, &["-V"]), &["-V"]);
        assert_eq!(short, format!("{} ({commit})\n", lines[0]));
    }
}

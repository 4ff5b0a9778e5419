//! `deny.toml` holds everywhere, also where cargo-deny is not installed: licences, sources, banned crates and duplicates.

#![allow(clippy::unwrap_used, clippy::panic, missing_docs)]

use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

fn read(file: &str) -> toml::Table {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(file);
    std::fs::read_to_string(path).unwrap().parse().unwrap()
}

/// (name, version, source) of everything in Cargo.lock.
fn locked() -> Vec<(String, String, Option<String>)> {
    let lock = read("Cargo.lock");
    let text = |package: &toml::Value, key: &str| package.get(key).and_then(|value| value.as_str()).map(String::from);
    (lock["package"].as_array().unwrap().iter())
        .map(|package| (text(package, "name").unwrap(), text(package, "version").unwrap(), text(package, "source")))
        .collect()
}

fn words(table: &toml::Value, key: &str) -> Vec<String> {
    let text = |value: &toml::Value| match value {
        toml::Value::String(text) => text.clone(),
        other => other["crate"].as_str().unwrap().to_string(),
    };
    table[key].as_array().unwrap().iter().map(text).collect()
}

#[test]
fn everything_comes_from_the_registry_with_a_checksum() {
    let deny = read("deny.toml");
    let registries = words(&deny["sources"], "allow-registry");
    for (name, version, source) in locked() {
        let known = source.as_ref().is_none_or(|source| {
            source.strip_prefix("registry+").is_some_and(|source| registries.iter().any(|known| known == source))
        });
        assert!(known, "{name} {version} comes from {source:?}");
    }
    let lock = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.lock")).unwrap();
    assert_eq!(lock.matches("source = ").count(), lock.matches("checksum = ").count());
}

#[test]
fn no_crate_is_banned_and_every_second_version_is_a_decision() {
    let deny = read("deny.toml");
    let (banned, skipped) = (words(&deny["bans"], "deny"), words(&deny["bans"], "skip"));
    let mut versions: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for (name, version, _) in locked() {
        assert!(!banned.contains(&name), "{name} is banned");
        versions.entry(name).or_default().insert(version);
    }
    let is_skipped = |name: &str, version: &str| {
        skipped
            .iter()
            .filter_map(|skip| skip.split_once('@'))
            .any(|(known, prefix)| known == name && (version == prefix || version.starts_with(&format!("{prefix}."))))
    };
    for (name, versions) in &versions {
        let counted: Vec<&String> = versions.iter().filter(|version| !is_skipped(name, version)).collect();
        assert!(counted.len() <= 1, "{name} has versions {counted:?}: use one, or say why not in deny.toml");
    }
    for skip in &skipped {
        let (name, prefix) = skip.split_once('@').unwrap();
        let used = versions.get(name).is_some_and(|found| {
            found.len() > 1 && found.iter().any(|version| version.starts_with(&format!("{prefix}.")))
        });
        assert!(used, "deny.toml skips {skip}, which is no longer a second version");
    }
}

#[test]
fn every_licence_is_one_that_we_have_agreed_to() {
    let mut cargo = Command::new(env!("CARGO"));
    let target = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
    cargo.args(["metadata", "--offline", "--locked", "--format-version", "1", "--filter-platform", &target]);
    let output = cargo.current_dir(env!("CARGO_MANIFEST_DIR")).output().unwrap();
    if !output.status.success() {
        println!("skipped: cargo metadata needs every crate of this platform here");
        return;
    }
    let metadata: Value = serde_json::from_slice(&output.stdout).unwrap();
    let allowed = words(&read("deny.toml")["licenses"], "allow");
    let packages = metadata["packages"].as_array().unwrap();
    assert!(packages.len() > 100);
    for package in packages {
        let licence = package["license"].as_str().unwrap_or("");
        assert!(agrees(licence, &allowed), "{} is licensed {licence:?}: see deny.toml", package["name"]);
    }
}

/// Whether a licence expression can be satisfied: any of those joined by OR, all of those joined by AND.
fn agrees(expression: &str, allowed: &[String]) -> bool {
    let expression = expression.replace('/', " OR ").replace(['(', ')'], " ");
    expression
        .split(" AND ")
        .all(|part| part.split(" OR ").any(|licence| allowed.iter().any(|known| known == licence.trim())))
}

#[test]
fn licences_are_read_as_they_are_meant() {
    let allowed = ["MIT".to_string(), "ISC".to_string(), "Unicode-3.0".to_string()];
    for fine in ["MIT", "MIT OR GPL-3.0", "GPL-3.0/MIT", "ISC AND MIT", "(MIT OR Apache-2.0) AND Unicode-3.0"] {
        assert!(agrees(fine, &allowed), "{fine}");
    }
    for wrong in ["", "GPL-3.0", "MIT AND GPL-3.0", "Apache-2.0 OR GPL-3.0"] {
        assert!(!agrees(wrong, &allowed), "{wrong}");
    }
}

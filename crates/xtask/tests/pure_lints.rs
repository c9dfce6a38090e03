//! Checks the lints that keep the core pure: a planted package uses everything that the
//! `clippy.toml` of the pure crates bans, and clippy must report each use as an error.

use std::collections::BTreeSet;
use std::env;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The bans that do not apply to `stdx`: its chunks are shared between threads, which their tests
/// start.
const BANS_WITHOUT_STDX: [&str; 2] = ["std::thread::scope", "std::thread::spawn"];

#[test]
fn every_ban_fires() {
    let bans = bans("wire");
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("pure_lints");
    fs::create_dir_all(folder.join("src")).unwrap();
    fs::copy(clippy_toml("wire"), folder.join("clippy.toml")).unwrap();
    let manifest = "[package]\nname = \"planted\"\nedition = \"2024\"\n\n[workspace]\n";
    fs::write(folder.join("Cargo.toml"), manifest).unwrap();
    let mut planted = String::from("//! Planted.\n");
    for (index, ban) in bans.iter().enumerate() {
        let name = ban.rsplit("::").next().unwrap();
        let _ = if name.starts_with(char::is_uppercase) {
            writeln!(planted, "pub use {ban} as Type{index};")
        } else {
            writeln!(planted, "pub fn function_{index}() {{ let _ = {ban}{}; }}", call(ban))
        };
    }
    fs::write(folder.join("src/lib.rs"), planted).unwrap();

    let output = Command::new(env!("CARGO"))
        .args(["clippy", "--quiet", "--offline", "--message-format=short", "--", "-D", "warnings"])
        .current_dir(&folder)
        .env("CARGO_TARGET_DIR", folder.join("target"))
        .output()
        .unwrap();
    let report = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success(), "{report}");
    let silent: Vec<_> = bans
        .iter()
        .filter(|ban| {
            let named = format!("`{ban}`");
            !report.lines().any(|line| line.contains("error") && line.contains(&named))
        })
        .collect();
    assert!(silent.is_empty(), "no error for {silent:?} in\n{report}");
}

#[test]
fn the_pure_crates_have_the_same_bans() {
    let mut expected = bans("wire");
    assert!(expected.len() > 40);
    assert_eq!(bans("log"), expected);
    assert_eq!(bans("broker"), expected);
    for ban in BANS_WITHOUT_STDX {
        assert!(expected.remove(ban), "{ban}");
    }
    assert_eq!(bans("stdx"), expected);
}

/// The banned methods and types in a crate's `clippy.toml`.
fn bans(package: &str) -> BTreeSet<String> {
    let table: toml::Table = fs::read_to_string(clippy_toml(package)).unwrap().parse().unwrap();
    ["disallowed-methods", "disallowed-types"]
        .iter()
        .flat_map(|list| table[*list].as_array().unwrap())
        .map(|ban| ban["path"].as_str().unwrap().to_owned())
        .collect()
}

fn clippy_toml(package: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(package).join("clippy.toml")
}

/// Type arguments of the generic functions, so that they can be named without a call.
fn call(function: &str) -> &'static str {
    match function {
        "std::fs::copy" | "std::fs::rename" | "std::fs::write" => "::<&str, &str>",
        "std::env::set_var" => "::<&str, &str>",
        "std::env::var" | "std::env::var_os" => "::<&str>",
        "std::thread::spawn" => "::<fn(), ()>",
        "std::thread::scope" => "::<fn(&std::thread::Scope<'_, '_>), ()>",
        _ if function.starts_with("std::fs::") => "::<&str>",
        _ => "",
    }
}

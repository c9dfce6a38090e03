//! The interpreters of Python on this machine: those of the path, and those of pyenv.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Command;
use std::{env, fs};

use anyhow::{Result, bail};

/// The oldest minor version of Python 3 that the SDK runs with.
const MINOR_MIN: u32 = 10;
/// No newer one is looked for.
const MINOR_MAX: u32 = 30;
/// Prints the minor version; fails without what `python -m venv` needs.
const PROBE: &str = "import sys, ensurepip, venv; print(sys.version_info[1])";

/// An interpreter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Python {
    /// 10 for Python 3.10.
    pub minor: u32,
    /// Its program.
    pub program: PathBuf,
}

/// The oldest and the newest interpreter, which may be the same one.
pub fn oldest_and_newest() -> Result<(Python, Python)> {
    let found = found();
    match (found.first_key_value(), found.last_key_value()) {
        (Some((_, oldest)), Some((_, newest))) => Ok((oldest.clone(), newest.clone())),
        _ => bail!("Python 3.{MINOR_MIN} or newer, with venv, is not installed"),
    }
}

/// One interpreter of each minor version, the first one found.
fn found() -> BTreeMap<u32, Python> {
    let mut found = BTreeMap::new();
    for program in candidates() {
        if let Some(minor) = minor_of(&program).filter(|minor| *minor >= MINOR_MIN) {
            found.entry(minor).or_insert(Python { minor, program });
        }
    }
    found
}

fn candidates() -> Vec<PathBuf> {
    let mut candidates = vec![PathBuf::from("python3")];
    let minors = MINOR_MIN..=MINOR_MAX;
    candidates.extend(minors.map(|minor| PathBuf::from(format!("python3.{minor}"))));
    let root = env::var_os("PYENV_ROOT").map(PathBuf::from);
    let root = root.or_else(|| env::home_dir().map(|home| home.join(".pyenv")));
    let versions = root.and_then(|root| fs::read_dir(root.join("versions")).ok());
    let versions = versions.into_iter().flatten().flatten();
    candidates.extend(versions.map(|version| version.path().join("bin/python3")));
    candidates
}

/// The minor version of a program that works.
fn minor_of(program: &PathBuf) -> Option<u32> {
    let output = Command::new(program).args(["-c", PROBE]).output().ok()?;
    let text = String::from_utf8(output.stdout).ok().filter(|_| output.status.success())?;
    text.trim().parse().ok()
}

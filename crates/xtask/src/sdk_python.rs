//! The tests of the Python SDK, with the oldest and the newest Python of this machine. Its tools
//! come from PyPI, in the versions and with the hashes of the committed lists, into the target
//! folder.

use std::path::PathBuf;
use std::process::Command;

use anyhow::Result;

use crate::programs;
use crate::pythons::{self, Python};
use crate::setup::python_packages_with;
use crate::shell::{self, Workspace};
use crate::tally::Tally;

const SDK: &str = "sdk/python";
/// The newest packages, and the tools.
const NEWEST: &str = "sdk/python/requirements-dev.txt";
/// The oldest version of each dependency, and what the tests of the client need.
const OLDEST: &str = "sdk/python/requirements-oldest.txt";

/// Builds the server and the player of scenarios, and runs every test of the SDK.
pub fn check(workspace: &Workspace) -> Result<Tally> {
    programs::release(workspace)?;
    programs::test(workspace)?;
    let (oldest, newest) = pythons::oldest_and_newest()?;
    let mut tests = Command::new(environment(workspace, &newest, NEWEST)?);
    tests.arg("scripts/test.py").current_dir(workspace.root.join(SDK));
    if oldest != newest {
        tests.arg("--also").arg(environment(workspace, &oldest, OLDEST)?);
    }
    tests.env("CRORE_SPEC", workspace.root.join("spec"));
    tests.env("CRORE_SERVER", workspace.target.join("release/crore"));
    tests.env("CRORE_SCRIPT", workspace.target.join("debug/crore-script"));
    shell::run_tests(&mut tests)
}

/// Python with the packages of the tests.
pub fn python(workspace: &Workspace) -> Result<PathBuf> {
    let (_, newest) = pythons::oldest_and_newest()?;
    environment(workspace, &newest, NEWEST)
}

fn environment(workspace: &Workspace, python: &Python, list: &str) -> Result<PathBuf> {
    let name = format!("sdk-python-3.{}", python.minor);
    python_packages_with(workspace, &python.program, &name, list)?;
    Ok(workspace.foreign().join(name).join("bin/python"))
}

//! The tests of the Python SDK: its tools come from PyPI, in the versions and with the hashes of
//! the committed list, into the target folder.

use std::path::PathBuf;
use std::process::Command;

use anyhow::Result;

use crate::setup::python_packages;
use crate::shell::{self, Workspace};
use crate::tally::Tally;

const SDK: &str = "sdk/python";
const PACKAGES: &str = "sdk-python";

/// Builds the server and the player of scenarios, and runs every test of the SDK.
pub fn check(workspace: &Workspace) -> Result<Tally> {
    shell::run(&mut workspace.cargo(&["build", "--locked", "--release", "-p", "crore"]))?;
    shell::run(&mut workspace.cargo(&["build", "--locked", "-p", "script"]))?;
    let mut tests = Command::new(python(workspace)?);
    tests.arg("scripts/test.py").current_dir(workspace.root.join(SDK));
    tests.env("CRORE_SPEC", workspace.root.join("spec"));
    tests.env("CRORE_SERVER", workspace.target.join("release/crore"));
    tests.env("CRORE_SCRIPT", workspace.target.join("debug/crore-script"));
    shell::run_tests(&mut tests)
}

/// Python with the packages of the tests.
pub fn python(workspace: &Workspace) -> Result<PathBuf> {
    python_packages(workspace, PACKAGES, "sdk/python/requirements-dev.txt")?;
    Ok(workspace.foreign().join(PACKAGES).join("bin/python"))
}

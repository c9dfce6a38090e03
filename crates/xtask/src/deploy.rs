//! The step `deploy`: the Helm chart renders to valid objects, and the compose file is one. Helm
//! and Docker's reader of compose files are built from `tests/deploy/go.mod`, which pins them; the
//! schemas of Kubernetes come from PyPI.

use std::fs;
use std::path::PathBuf;

use anyhow::Result;

use crate::programs;
use crate::sdk_go::{self, Go};
use crate::setup::{once, python_packages};
use crate::shell::{self, Workspace};
use crate::tally::Tally;

/// Helm needs this.
pub const GO: Go = Go {
    version: "1.26.8",
    sha256: "30c2b1bf7dcc88d3eb0a1364e47ddd9128edb3110a30e8a0ef61cd5856b31de7",
};

/// Builds the tools once, and runs the checks.
pub fn check(workspace: &Workspace) -> Result<Tally> {
    programs::test(workspace)?;
    python_packages(workspace, "deploy-python", "tests/deploy/requirements.txt")?;
    let tools = tools(workspace)?;
    let mut tests = workspace.command(&["python3", "tests/deploy/check.py"]);
    let python = workspace.foreign().join("deploy-python/bin");
    tests.env("PATH", shell::path_with(&python)?);
    tests.env("CRORE_HELM", tools.join("helm"));
    tests.env("CRORE_COMPOSE", tools.join("compose"));
    tests.env("CRORE_SERVER", workspace.target.join("debug/crore"));
    shell::run_tests(&mut tests)
}

/// Builds `helm` and `compose`, about two minutes of one core; returns their folder.
fn tools(workspace: &Workspace) -> Result<PathBuf> {
    let lists = workspace.root.join("tests/deploy");
    let folder = workspace.foreign().join("deploy-tools");
    let key = fs::read_to_string(lists.join("go.sum"))?
        + &fs::read_to_string(lists.join("compose/main.go"))?
        + GO.version;
    once(&folder, &key, || {
        let packages = ["build", "-ldflags=-s -w", "-trimpath", "-o"];
        let mut build = sdk_go::command_of(workspace, &GO, &packages)?;
        build.arg(&folder).args(["helm.sh/helm/v3/cmd/helm", "./compose"]);
        shell::run(build.current_dir(&lists))
    })?;
    Ok(folder)
}

//! The step `asyncapi`: AsyncAPI's own parser accepts `spec/asyncapi.json`, which has the frames of
//! the test vectors and the codes beside it, and accepts each vector in JSON.

use std::fs;

use anyhow::Result;

use crate::setup::once;
use crate::shell::{self, Workspace};
use crate::tally::Tally;

/// Installs the parser in the versions of the lock file, and runs the check with Node.
pub fn check(workspace: &Workspace) -> Result<Tally> {
    let lists = workspace.root.join("tests/asyncapi");
    let folder = workspace.foreign().join("asyncapi");
    let lock = fs::read_to_string(lists.join("package-lock.json"))?;
    once(&folder, &lock, || {
        for file in ["package.json", "package-lock.json"] {
            fs::copy(lists.join(file), folder.join(file))?;
        }
        let arguments = ["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund"];
        shell::run(workspace.command(&arguments).current_dir(&folder))
    })?;
    let mut node = workspace.command(&["node", "check.cjs"]);
    node.arg(workspace.root.join("spec")).current_dir(&lists);
    node.env("NODE_PATH", folder.join("node_modules"));
    shell::run_tests(&mut node)
}

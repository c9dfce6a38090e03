//! Clients of every SDK against one node under faults (`tests/src/fleet/README.md`): builds the
//! drivers and runs the harness.

use anyhow::Result;

use crate::shell::{self, Workspace};
use crate::tally::Tally;
use crate::{programs, sdk_go, sdk_java, sdk_js, sdk_python};

/// Few clients, and each fault once.
pub fn check(workspace: &Workspace) -> Result<Tally> {
    run(workspace, &["--clients", "20", "--seeds", "2"])
}

/// Many clients, several orders of the faults, and each fault twice.
pub fn check_long(workspace: &Workspace) -> Result<Tally> {
    run(workspace, &["--clients", "100", "--seeds", "1,2,3", "--rounds", "16"])
}

fn run(workspace: &Workspace, arguments: &[&str]) -> Result<Tally> {
    programs::release(workspace)?;
    let drivers = [
        go(workspace)?,
        java(workspace)?,
        javascript(workspace)?,
        python(workspace, "python", "fleet.py")?,
        python(workspace, "python-blocking", "fleet_sync.py")?,
        rust(workspace)?,
    ];
    let mut run = programs::runner(workspace, "sdk_fleet");
    shell::run_tests(run.args(arguments).args(drivers))
}

fn go(workspace: &Workspace) -> Result<String> {
    let driver = workspace.target.join("fleet/go").to_string_lossy().into_owned();
    shell::run(&mut sdk_go::command(workspace, &["build", "-o", &driver, "./internal/fleet"])?)?;
    Ok(format!("go={driver}"))
}

fn java(workspace: &Workspace) -> Result<String> {
    let class_path = sdk_java::class_path(workspace)?;
    Ok(format!("java=java -cp {class_path} io.crore.fleet.Fleet"))
}

fn javascript(workspace: &Workspace) -> Result<String> {
    shell::run(&mut sdk_js::node(workspace, "scripts/build.mjs")?)?;
    let node = sdk_js::node(workspace, "")?.get_program().to_string_lossy().into_owned();
    let script = workspace.root.join("sdk/js/test/fleet.mjs");
    Ok(format!("js={node} {}", script.display()))
}

fn python(workspace: &Workspace, name: &str, script: &str) -> Result<String> {
    let python = sdk_python::python(workspace)?;
    let script = workspace.root.join("sdk/python/tests").join(script);
    Ok(format!("{name}={} {}", python.display(), script.display()))
}

fn rust(workspace: &Workspace) -> Result<String> {
    programs::test(workspace)?;
    Ok(format!("rust={}", workspace.target.join("debug/examples/fleet").display()))
}

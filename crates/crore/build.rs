//! Records the commit and the compiler for `crore version`. No network; without git the commit is
//! left out. The names do not begin with `CRORE_`: `cargo run` hands them to the program, which
//! would take them for options.

use std::path::Path;
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    // Each commit, checkout and reset appends to this file. A missing file would rerun this script
    // at every build.
    if let Some(log) = output("git", &["rev-parse", "--git-path", "logs/HEAD"])
        && Path::new(&log).exists()
    {
        println!("cargo::rerun-if-changed={log}");
    }
    if let Some(commit) = output("git", &["rev-parse", "--short=12", "HEAD"]) {
        println!("cargo::rustc-env=BUILD_COMMIT={commit}");
    }
    let compiler = std::env::var("RUSTC").unwrap_or_else(|_| "rustc".into());
    if let Some(version) = output(&compiler, &["--version"]) {
        println!("cargo::rustc-env=BUILD_COMPILER={version}");
    }
}

fn output(program: &str, arguments: &[&str]) -> Option<String> {
    let output = Command::new(program).args(arguments).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    (output.status.success() && !text.trim().is_empty()).then(|| text.trim().to_owned())
}

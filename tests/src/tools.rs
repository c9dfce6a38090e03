//! Paths of the programs that the tests start.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The server's binary: `CRORE_BINARY`, or the release build of this workspace.
pub fn crore() -> Command {
    let built = || target().join("release/crore");
    let binary = env::var_os("CRORE_BINARY").map_or_else(built, PathBuf::from);
    let mut command = Command::new(existing(binary, "cargo build --release -p crore"));
    // It reads variables with this prefix as options, and refuses unknown ones.
    command.env_remove("CRORE_BINARY");
    command
}

/// The server's binary with switches for tests, which a release does not have:
/// `CRORE_SWITCHED_BINARY`, or the workspace's build with debug assertions.
pub fn switched_crore() -> Command {
    let variable = "CRORE_SWITCHED_BINARY";
    let built = || target().join("debug/crore");
    let binary = env::var_os(variable).map_or_else(built, PathBuf::from);
    let remedy = "cargo build --profile test -p crore";
    let mut command = Command::new(existing(binary, remedy));
    command.env_remove(variable);
    command
}

/// Runs a script of `tests/clients` with Node; it may `require` the installed packages.
pub fn node(script: &str, arguments: &[&str]) -> Command {
    let packages = existing(foreign("npm/node_modules"), SETUP);
    let mut command = Command::new("node");
    command.env("NODE_PATH", packages).arg(client(script)).args(arguments);
    command
}

/// Runs a script of `tests/clients` with Python and the installed packages.
pub fn python(script: &str, arguments: &[&str]) -> Command {
    let mut command = Command::new(existing(foreign("python/bin/python"), SETUP));
    command.arg(client(script)).args(arguments);
    command
}

/// Prometheus's checker.
pub fn promtool() -> Command {
    Command::new(existing(foreign("promtool/usr/bin/promtool"), SETUP))
}

/// The Prometheus server.
pub fn prometheus() -> Command {
    Command::new(existing(foreign("promtool/usr/bin/prometheus"), SETUP))
}

/// The proxy nginx.
pub fn nginx() -> Command {
    Command::new(existing(foreign("proxies/usr/sbin/nginx"), SETUP))
}

/// The proxy Caddy.
pub fn caddy() -> Command {
    Command::new(existing(foreign("proxies/usr/bin/caddy"), SETUP))
}

/// schemathesis, which generates requests from an OpenAPI document.
pub fn schemathesis() -> Command {
    Command::new(existing(foreign("schemathesis/bin/schemathesis"), SETUP))
}

/// Autobahn's `wstest`.
pub fn wstest() -> Command {
    let mut command = Command::new(existing(foreign("autobahn/python2.7"), SETUP));
    let start = Path::new(env!("CARGO_MANIFEST_DIR")).join("autobahn/wstest.py");
    command.args(["-W", "ignore"]).arg(start).arg(foreign("autobahn/site"));
    command
}

/// A folder for files that programs keep between runs.
pub fn cache(name: &str) -> PathBuf {
    foreign(name)
}

/// A folder for reports, kept between runs.
pub fn reports(name: &str) -> PathBuf {
    target().join("reports").join(name)
}

const SETUP: &str = "cargo xtask setup";

fn client(script: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("clients").join(script)
}

fn foreign(path: &str) -> PathBuf {
    target().join("foreign").join(path)
}

fn target() -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from)
}

fn existing(path: PathBuf, remedy: &str) -> PathBuf {
    assert!(path.exists(), "{} is missing; run `{remedy}`", path.display());
    path
}

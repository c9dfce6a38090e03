//! The steps of MQTT: foreign clients, kills, and Mosquitto's own broker suite, against the binary.
//!
//! The suite comes from Debian's sources of Mosquitto 2.0.11, by exact hash. `tests/mqtt` has the
//! runners; `tests/mqtt/exceptions.txt` names the tests that are left out, with the reason.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::deploy;
use crate::programs;
use crate::sdk_go;
use crate::setup;
use crate::shell::{self, Workspace};
use crate::steps;
use crate::tally::Tally;

const SOURCES: &str = "mosquitto_2.0.11.orig.tar.gz";
const SHA256: &str = "7b36a7198bce85cf31b132f5c6ee36dcf5dadf86fb768501eb1e11ce95d4f78a";
const MIRRORS: &[&str] = &["http://deb.debian.org/debian", "http://archive.debian.org/debian"];
const CLIENTS: &str = "mqtt-clients";
const NPM_FILES: &[&str] = &["package.json", "package-lock.json"];

/// The folder of the clients.
const LISTS: &str = "tests/mqtt";
/// Versions of MQTT, as programs of `tests/mqtt/sessions.py` take them.
const VERSIONS: [&str; 2] = ["5", "3.1.1"];

/// Arguments of `tests/mqtt/crash.py`: kills, and sessions.
const KILLS: [&str; 2] = ["12", "60"];
const MANY_KILLS: [&str; 2] = ["200", "300"];
const KILLS_OF_NODES: [&str; 2] = ["20", "60"];

/// Runs the clients, some kills, then the suite.
pub fn check(workspace: &Workspace) -> Result<Tally> {
    steps::build(workspace)?;
    let suite = suite(workspace)?;
    let libraries = javascript(workspace)?;
    setup::python_packages(workspace, CLIENTS, "tests/mqtt/requirements.txt")?;
    let crore = workspace.target.join("release/crore");
    let python = workspace.foreign().join(CLIENTS).join("bin/python");
    let mut clients = Command::new(&python);
    clients.arg("tests/mqtt/clients.py").arg(&crore).current_dir(&workspace.root);
    clients.env("MOSQUITTO", "/usr/bin").env("MQTT_JS", libraries);
    let of_clients = shell::run_tests(&mut clients)?;
    let mut broker = Command::new(&python);
    broker.arg("tests/mqtt/mosquitto.py").args(["--jobs", "4"]).arg(suite).arg(&crore);
    let of_suite = shell::run_tests(broker.current_dir(&workspace.root))?;
    Ok(of_clients + kill(workspace, KILLS)? + of_suite)
}

/// Many kills of a node with persistent sessions.
pub fn check_kills(workspace: &Workspace) -> Result<Tally> {
    steps::build(workspace)?;
    setup::python_packages(workspace, CLIENTS, "tests/mqtt/requirements.txt")?;
    kill(workspace, MANY_KILLS)
}

/// Kills of nodes of a cluster, whose sessions continue at the next node.
pub fn check_nodes(workspace: &Workspace) -> Result<Tally> {
    programs::test(workspace)?;
    setup::python_packages(workspace, CLIENTS, "tests/mqtt/requirements.txt")?;
    let mut run = programs::runner(workspace, "cluster");
    run.arg(workspace.foreign().join("kafka")).arg("mqtt");
    run.arg(workspace.foreign().join(CLIENTS).join("bin/python")).args(KILLS_OF_NODES);
    let crore = workspace.target.join("debug/crore");
    shell::run_tests(run.env("CRORE_BINARY", crore).current_dir(&workspace.root))
}

/// Clients in Go, Java and Rust come back to their sessions after a kill of the node.
pub fn check_sessions(workspace: &Workspace) -> Result<Tally> {
    steps::build(workspace)?;
    setup::python_packages(workspace, CLIENTS, "tests/mqtt/requirements.txt")?;
    let programs = [go(workspace)?, java(workspace, "hivemq")?, java(workspace, "paho")?];
    let programs = programs.into_iter().chain([rust(workspace)?]);
    let mut python = Command::new(workspace.foreign().join(CLIENTS).join("bin/python"));
    python.arg("tests/mqtt/sessions.py").arg(workspace.target.join("release/crore"));
    for program in programs {
        python.args(VERSIONS.map(|version| format!("{program} {version}")));
    }
    shell::run_tests(python.current_dir(&workspace.root))
}

/// Eclipse Paho's clients.
fn go(workspace: &Workspace) -> Result<String> {
    let program = workspace.target.join("mqtt/go");
    let mut build = sdk_go::command_of(workspace, &deploy::GO, &["build", "-trimpath", "-o"])?;
    build.arg(&program).arg(".").current_dir(workspace.root.join(LISTS).join("go"));
    shell::run(&mut build)?;
    Ok(program.display().to_string())
}

/// The clients of a library. Java compiles the program when it runs it.
fn java(workspace: &Workspace, library: &str) -> Result<String> {
    let jars = workspace.foreign().join("mqtt-java");
    let place = workspace.root.join(LISTS).join("java");
    setup::once(&jars, &fs::read_to_string(place.join("pom.xml"))?, || {
        let folder = format!("-DoutputDirectory={}", jars.display());
        let packages = workspace.foreign().join("sdk-java");
        let repository = format!("-Dmaven.repo.local={}", packages.display());
        let goal = ["mvn", "-B", "-ntp", "-q", "dependency:copy-dependencies"];
        let mut maven = workspace.command(&goal);
        shell::run(maven.args([folder, repository]).current_dir(&place))
    })
    .context("the jars of MQTT clients")?;
    Ok(format!("java -cp '{}/*' tests/mqtt/java/Sessions.java {library}", jars.display()))
}

/// rumqttc.
fn rust(workspace: &Workspace) -> Result<String> {
    let manifest = format!("{LISTS}/rust/Cargo.toml");
    let folder = workspace.target.join("mqtt/rust");
    let mut build = workspace.cargo(&["build", "--locked", "--manifest-path", &manifest]);
    shell::run(build.env("CARGO_TARGET_DIR", &folder))?;
    Ok(folder.join("debug/sessions").display().to_string())
}

fn kill(workspace: &Workspace, numbers: [&str; 2]) -> Result<Tally> {
    let mut python = Command::new(workspace.foreign().join(CLIENTS).join("bin/python"));
    python.arg("tests/mqtt/crash.py").arg(workspace.target.join("release/crore")).args(numbers);
    shell::run_tests(python.current_dir(&workspace.root))
}

/// The folder of Mosquitto's tests.
fn suite(workspace: &Workspace) -> Result<PathBuf> {
    let folder = workspace.foreign().join("mosquitto");
    setup::once(&folder, SHA256, || {
        let archive = folder.join(SOURCES);
        let fetched = MIRRORS.iter().any(|mirror| {
            let url = format!("{mirror}/pool/main/m/mosquitto/{SOURCES}");
            let mut curl = Command::new("curl");
            curl.args(["--fail", "--silent", "--show-error", "--retry", "3", "--output"]);
            shell::succeeds(curl.arg(&archive).arg(url))
        });
        ensure!(fetched, "no mirror has {SOURCES}");
        let sum = shell::output(Command::new("sha256sum").arg(&archive))?;
        ensure!(sum.starts_with(SHA256), "{SOURCES} has another hash: {sum}");
        let mut tar = Command::new("tar");
        tar.args(["--extract", "--strip-components=1", "--file"]).arg(&archive);
        shell::run(tar.arg("--directory").arg(&folder))
    })
    .context("the sources of Mosquitto")?;
    Ok(folder.join("test"))
}

/// A folder with MQTT.js.
fn javascript(workspace: &Workspace) -> Result<PathBuf> {
    let folder = workspace.foreign().join("mqtt-js");
    let lists = workspace.root.join(LISTS);
    let lock = fs::read_to_string(lists.join(NPM_FILES[1]))?;
    setup::once(&folder, &lock, || {
        for file in NPM_FILES {
            fs::copy(lists.join(file), folder.join(file))?;
        }
        let arguments = ["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund"];
        shell::run(workspace.command(&arguments).current_dir(&folder))
    })
    .context("MQTT.js")?;
    Ok(folder)
}

//! The gate: its steps, their order, and the summary at the end.
//!
//! Invariants: the first step that fails ends the run. The last line of the output is the sum over
//! all runners, `N passed, N failed`; a step without a runner (formatting, lints) counts as one
//! test.

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};

use crate::asyncapi;
use crate::deploy;
use crate::dist;
use crate::engine;
use crate::machine;
use crate::mqtt;
use crate::package;
use crate::sdk_fleet;
use crate::sdk_go;
use crate::sdk_java;
use crate::sdk_js;
use crate::sdk_python;
use crate::shell::Workspace;
use crate::steps;
use crate::tally::Tally;

/// The selected steps.
#[derive(Debug, Default)]
pub struct Selection {
    /// Whether to run the slow suites too.
    pub all: bool,
    /// Runs only this step, slow or not.
    pub only: Option<&'static str>,
}

struct Step {
    name: &'static str,
    about: &'static str,
    /// Runs with `--all` only.
    slow: bool,
    run: fn(&Workspace) -> Result<Tally>,
}

/// Cheap steps first, so that a mistake is reported within seconds.
const STEPS: &[Step] = &[
    step("tools", "what the tests need is installed", steps::tools),
    step("fmt", "the sources are formatted", steps::fmt),
    step("tidy", "house rules of the sources", steps::tidy),
    step("generate", "generated files are up to date", steps::generate),
    step("purity", "the core depends on no I/O crate", steps::purity),
    step("deny", "licences, sources and bans of dependencies", steps::deny),
    step("clippy", "no lint fires, tests included", steps::clippy),
    step("docs", "the documentation builds without a warning", steps::docs),
    step("build", "the release binary builds", steps::build),
    step("test", "tests of the crates", steps::test),
    step("budget", "cost of a message in instructions, calls and allocations", steps::budget),
    step("fuzz", "fuzz corpora replay", steps::fuzz),
    step("sim", "simulation of whole nodes, fixed seeds", steps::sim),
    step("end-to-end", "the binary, driven by independent clients", steps::end_to_end),
    step("autobahn", "WebSocket conformance of /echo", steps::autobahn),
    step("openapi", "requests generated from spec/openapi.json, and their answers", steps::openapi),
    step("mqtt", "MQTT clients of others, kills, and Mosquitto's broker suite", mqtt::check),
    step("asyncapi", "spec/asyncapi.json is valid, as are all vectors by it", asyncapi::check),
    step(
        "dashboards",
        "a real Prometheus scrapes a node: every panel has data, every alert its tests",
        steps::dashboards,
    ),
    step("sdk-java", "the Java SDK: scenarios, a node, JDKs, Android, package", sdk_java::check),
    step("sdk-js", "the TypeScript SDK: scenarios, a node, runtimes, package", sdk_js::check),
    step("sdk-python", "the Python SDK: scenarios, a node, types, package", sdk_python::check),
    step("sdk-go", "the Go SDK: scenarios, a node, races, leaks, package", sdk_go::check),
    step("sdk-fleet", "clients of every SDK under each fault: nothing is lost", sdk_fleet::check),
    step("cluster", "three nodes on three brokers: moves, kills, an outage", engine::check_nodes),
    step("deploy", "the Helm chart and the compose file are valid", deploy::check),
    step("dist", "npm, PyPI, tarball, deb, rpm: built, and tried from the local file", dist::check),
    step("crash", "the binary is killed under load: nothing acknowledged is lost", steps::crash),
    step("units", "systemd accepts the units, and rates their exposure", package::check_units),
    slow(
        "package",
        "the packages of a release, with deb and rpm installed, started, removed (needs root)",
        package::check,
    ),
    slow(
        "systemd",
        "the package under a running systemd: reload, upgrade, watchdog, sockets (needs root)",
        machine::check,
    ),
    slow("sweep", "simulation of whole nodes, many seeds", steps::sweep),
    slow("crashes", "the step `crash` with many kills", steps::crashes),
    slow(
        "engine",
        "the engine on real brokers: kills, elections, losses, TLS and SASL, the demo",
        engine::check,
    ),
    slow("engine-long", "the step `engine` with many killed leaders", engine::check_long),
    slow("cluster-trials", "three nodes on three brokers under each fault", engine::check_trials),
    slow("sdk-java-long", "the step `sdk-java` with 10,000 cycles for leaks", sdk_java::check_long),
    slow("sdk-fleet-long", "the step `sdk-fleet` with 100 clients of each", sdk_fleet::check_long),
    slow("mqtt-sessions", "MQTT clients in Go, Java and Rust over a kill", mqtt::check_sessions),
    slow("mqtt-crash", "MQTT sessions over many kills of the node", mqtt::check_kills),
    slow("mqtt-cluster", "MQTT sessions over kills of a cluster's nodes", mqtt::check_nodes),
    slow("conformance", "WebSocket conformance, all cases of compression too", steps::conformance),
    slow("abuse", "hostile and broken clients against the binary", steps::abuse),
    slow("openapi-long", "the step `openapi` with many examples", steps::openapi_long),
    slow(
        "slow-attacks",
        "slow heads, bodies, readers and ranges, while other clients are served",
        steps::slow_attacks,
    ),
    slow("tls-audit", "testssl on the TLS port: nothing above low", steps::tls_audit),
    slow("privileges", "a node started as root changes its user (needs root)", steps::privileges),
    slow(
        "memory-group",
        "a node in a memory cgroup sheds load in order and is not killed (needs root)",
        steps::memory_group,
    ),
    slow(
        "tcp-memory",
        "the machine's TCP memory is exhausted for all processes (needs root)",
        steps::tcp_memory,
    ),
    slow("cluster-sweep", "simulated clusters, many seeds, with losses too", steps::cluster_sweep),
];

/// Runs the selected steps and prints the summary. Returns whether all passed.
pub fn run(workspace: &Workspace, selection: &Selection) -> bool {
    let mut summary = String::new();
    let mut total = Tally::default();
    let start = Instant::now();
    for step in STEPS.iter().filter(|step| step.is_in(selection)) {
        println!("\n== {}: {}", step.name, step.about);
        let step_start = Instant::now();
        let tally = (step.run)(workspace).unwrap_or_else(|error| {
            println!("error: {error:#}");
            Tally::ONE_FAILED
        });
        total = total + tally;
        let verdict = if tally.failed == 0 { "ok" } else { "FAILED" };
        let took = seconds(step_start.elapsed());
        println!("== {} {verdict} in {took}", step.name);
        let _ = writeln!(summary, "{:<12} {verdict:<8} {took:>9}  {tally}", step.name);
        if tally.failed > 0 {
            println!("\nthe gate stops at the step `{}`", step.name);
            break;
        }
    }
    println!("\n{summary}{:<21} {:>9}\n{total}", "in all", seconds(start.elapsed()));
    total.failed == 0
}

/// The names of all steps, a line for each.
pub fn list() -> String {
    let mut text = String::new();
    for step in STEPS {
        let tier = if step.slow { " (--all)" } else { "" };
        let _ = writeln!(text, "{:<12} {}{tier}", step.name, step.about);
    }
    text
}

/// The step of that name.
pub fn known_step(name: &str) -> Result<&'static str> {
    match STEPS.iter().find(|step| step.name == name) {
        Some(step) => Ok(step.name),
        None => bail!("unknown step {name}; known steps:\n{}", list()),
    }
}

impl Step {
    fn is_in(&self, selection: &Selection) -> bool {
        match selection.only {
            Some(name) => self.name == name,
            None => selection.all || !self.slow,
        }
    }
}

const fn step(
    name: &'static str,
    about: &'static str,
    run: fn(&Workspace) -> Result<Tally>,
) -> Step {
    Step { name, about, slow: false, run }
}

const fn slow(
    name: &'static str,
    about: &'static str,
    run: fn(&Workspace) -> Result<Tally>,
) -> Step {
    Step { name, about, slow: true, run }
}

fn seconds(duration: Duration) -> String {
    format!("{:.1} s", duration.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn selected(selection: &Selection) -> Vec<&'static str> {
        STEPS.iter().filter(|step| step.is_in(selection)).map(|step| step.name).collect()
    }

    #[test]
    fn names_are_unique() {
        let mut names: Vec<_> = STEPS.iter().map(|step| step.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), STEPS.len());
    }

    #[test]
    fn steps_are_selected() {
        let gate = selected(&Selection::default());
        assert!(gate.contains(&"autobahn") && !gate.contains(&"sweep"));
        assert_eq!(selected(&Selection { all: true, only: None }).len(), STEPS.len());
        assert_eq!(selected(&Selection { all: false, only: Some("sweep") }), ["sweep"]);
        assert!(known_step("swep").is_err());
    }
}

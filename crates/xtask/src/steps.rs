//! The steps of the gate.

use std::collections::BTreeSet;
use std::env;
use std::fs;
use std::path::PathBuf;

use anyhow::Result;

use crate::shell::{self, Workspace};
use crate::tally::Tally;
use crate::{budget, generate, programs, setup, tidy as rules};

/// Permitted dependencies of the core, direct and indirect: no I/O, clock, thread or entropy in
/// them.
const PURE_PACKAGES: &[&str] = &[
    // Our own crates.
    "broker",
    "derive",
    "log",
    "stdx",
    "tcp",
    "wire",
    // Data structures.
    "equivalent",
    "hashbrown",
    // Checksums of the durable log, with the processor's instruction.
    "crc-fast",
    "spin",
    // Compression.
    "zlib-rs",
    // Text formats.
    "base64",
    "httparse",
    "itoa",
    "memchr",
    "ryu",
    "serde",
    "serde_core",
    "serde_json",
    "simdutf8",
    "zmij",
    // The handshake's SHA-1; signatures of resume tickets.
    "block-buffer",
    "cfg-if",
    "cpufeatures",
    "crypto-common",
    "digest",
    "generic-array",
    "hmac",
    "sha1",
    "sha2",
    "subtle",
    "typenum",
    "version_check",
    // Procedural macros: they run in the compiler.
    "proc-macro2",
    "quote",
    "serde_derive",
    "syn",
    "unicode-ident",
];

/// Simulated seeds in the gate: enough for every fault to occur, few enough for a minute.
const SIM_SEEDS_GATE: &str = "400";
/// Simulated seeds in the slow tier.
const SIM_SEEDS_SWEEP: &str = "6000";
/// Simulated worlds with clients of MQTT in the gate, the first one and their number, and in the
/// slow tier. The tests of the simulator run those before the gate's.
const MQTT_SEEDS_GATE: [&str; 2] = ["31", "70"];
const MQTT_SEEDS_SWEEP: &str = "4000";
/// Worlds of two stacks of TCP in the gate, and in the slow tier: about fifty a second.
const TCP_SEEDS_GATE: &str = "200";
const TCP_SEEDS_SWEEP: &str = "10000";
/// Simulated clusters in the gate, and in the slow tier.
const CLUSTER_SEEDS_GATE: &str = "60";
const CLUSTER_SEEDS_SWEEP: &str = "3000";
/// Simulated clusters on a compacted topic, in the slow tier.
const CLUSTER_SEEDS_COMPACTED: &str = "300";

/// Kills of the server in the gate, and in the slow tier.
const CRASH_KILLS_GATE: &str = "10";
const CRASH_KILLS_LONG: &str = "60";

pub fn tools(workspace: &Workspace) -> Result<Tally> {
    setup::everything(workspace)?;
    Ok(Tally::ONE_PASSED)
}

pub fn fmt(workspace: &Workspace) -> Result<Tally> {
    shell::run(&mut workspace.cargo(&["fmt", "--all", "--", "--check"]))?;
    let fuzz = ["fmt", "--manifest-path", "fuzz/Cargo.toml", "--", "--check"];
    shell::run(&mut workspace.cargo(&fuzz))?;
    Ok(Tally { passed: 2, failed: 0 })
}

pub fn tidy(workspace: &Workspace) -> Result<Tally> {
    let violations = rules::check(&rules::Tree::load(&workspace.root)?);
    violations.iter().for_each(|violation| println!("{violation}"));
    let failed: BTreeSet<_> = violations.iter().map(|violation| violation.rule).collect();
    Ok(Tally { passed: (rules::RULES.len() - failed.len()) as u64, failed: failed.len() as u64 })
}

pub fn generate(workspace: &Workspace) -> Result<Tally> {
    generate::check(&workspace.root)?;
    Ok(Tally { passed: generate::GENERATORS.len() as u64, failed: 0 })
}

pub fn purity(workspace: &Workspace) -> Result<Tally> {
    let mut tally = Tally::default();
    for package in ["stdx", "wire", "log", "broker", "tcp"] {
        let arguments =
            ["tree", "--locked", "-p", package, "-e", "normal", "--prefix", "none", "-f", "{p}"];
        let tree = shell::output(&mut workspace.cargo(&arguments))?;
        let impure = impure_packages(&tree);
        if impure.is_empty() {
            tally = tally + Tally::ONE_PASSED;
        } else {
            println!("{package} must stay pure, yet depends on {}", impure.join(", "));
            tally = tally + Tally::ONE_FAILED;
        }
    }
    Ok(tally)
}

/// Checks advisories too, if their database exists: the gate does not fetch it, so that its result
/// for the same sources does not change by itself.
pub fn deny(workspace: &Workspace) -> Result<Tally> {
    let program = setup::cargo_deny(workspace)?;
    let program = program.to_string_lossy();
    let mut arguments = vec![&*program, "--locked", "check"];
    let mut checks = vec!["licenses", "sources", "bans"];
    if has_advisories() {
        arguments.push("--disable-fetch");
        checks.push("advisories");
    } else {
        println!("no database of advisories here: `cargo deny fetch db` gets it (CONTRIBUTING.md)");
    }
    arguments.extend(&checks);
    shell::run(&mut workspace.command(&arguments))?;
    Ok(Tally { passed: checks.len() as u64, failed: 0 })
}

/// Whether cargo-deny's database is in cargo's folder.
fn has_advisories() -> bool {
    let home = env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = home.or_else(|| Some(PathBuf::from(env::var_os("HOME")?).join(".cargo")));
    let folders = home.and_then(|home| fs::read_dir(home.join("advisory-dbs")).ok());
    folders.is_some_and(|mut folders| folders.next().is_some())
}

pub fn clippy(workspace: &Workspace) -> Result<Tally> {
    let targets = ["clippy", "--locked", "--profile", "test", "--workspace", "--all-targets"];
    let mut clippy = workspace.cargo(&targets);
    // Tests on real brokers, which only `--all` runs, compile here.
    clippy.args(["--features", "crore/engine,engine/real-brokers", "--", "-D", "warnings"]);
    shell::run(&mut clippy)?;
    Ok(Tally::ONE_PASSED)
}

pub fn docs(workspace: &Workspace) -> Result<Tally> {
    let arguments = ["doc", "--locked", "--profile", "test", "--workspace", "--no-deps"];
    shell::run(workspace.cargo(&arguments).env("RUSTDOCFLAGS", "-D warnings"))?;
    Ok(Tally::ONE_PASSED)
}

pub fn build(workspace: &Workspace) -> Result<Tally> {
    programs::release(workspace)?;
    Ok(Tally::ONE_PASSED)
}

pub fn test(workspace: &Workspace) -> Result<Tally> {
    let arguments = [&["test", "--locked", "--no-fail-fast"], &programs::TESTED[..]].concat();
    shell::run_tests(&mut workspace.cargo(&arguments))
}

/// Runs the tests of the fuzz workspace; they replay the committed corpora.
pub fn fuzz(workspace: &Workspace) -> Result<Tally> {
    let arguments = ["test", "--manifest-path", "fuzz/Cargo.toml", "--no-fail-fast"];
    shell::run_tests(&mut workspace.cargo(&arguments))
}

/// Runs the simulator of the tests: with assertions, and without another build.
pub fn sim(workspace: &Workspace) -> Result<Tally> {
    programs::test(workspace)?;
    let [first, mqtt] = MQTT_SEEDS_GATE;
    Ok(simulate(workspace, &["--seeds", SIM_SEEDS_GATE])?
        + simulate(workspace, &["--mqtt", "--first", first, "--seeds", mqtt])?
        + simulate(workspace, &["--cluster", "--lossless", "--seeds", CLUSTER_SEEDS_GATE])?
        + simulate(workspace, &["--tcp", "--seeds", TCP_SEEDS_GATE])?)
}

pub fn sweep(workspace: &Workspace) -> Result<Tally> {
    programs::test(workspace)?;
    Ok(simulate(workspace, &["--seeds", SIM_SEEDS_SWEEP])?
        + simulate(workspace, &["--mqtt", "--seeds", MQTT_SEEDS_SWEEP])?
        + simulate(workspace, &["--tcp", "--seeds", TCP_SEEDS_SWEEP])?)
}

pub fn cluster_sweep(workspace: &Workspace) -> Result<Tally> {
    programs::test(workspace)?;
    Ok(simulate(workspace, &["--cluster", "--lossless", "--seeds", CLUSTER_SEEDS_SWEEP])?
        + simulate(workspace, &["--cluster", "--seeds", CLUSTER_SEEDS_SWEEP])?
        + simulate(workspace, &["--cluster", "--compacted", "--seeds", CLUSTER_SEEDS_COMPACTED])?)
}

pub fn end_to_end(workspace: &Workspace) -> Result<Tally> {
    programs::release(workspace)?;
    programs::test(workspace)?;
    let arguments = ["test", "--locked", "-p", "end-to-end", "--no-fail-fast"];
    shell::run_tests(&mut workspace.cargo(&arguments))
}

pub fn autobahn(workspace: &Workspace) -> Result<Tally> {
    black_box(workspace, "autobahn", &[])
}

pub fn budget(workspace: &Workspace) -> Result<Tally> {
    budget::check(workspace)
}

pub fn conformance(workspace: &Workspace) -> Result<Tally> {
    black_box(workspace, "autobahn", &["--all"])
}

pub fn crash(workspace: &Workspace) -> Result<Tally> {
    black_box(workspace, "crash", &["--kills", CRASH_KILLS_GATE])
}

pub fn crashes(workspace: &Workspace) -> Result<Tally> {
    black_box(workspace, "crash", &["--kills", CRASH_KILLS_LONG])
}

pub fn abuse(workspace: &Workspace) -> Result<Tally> {
    black_box(workspace, "abuse", &[])
}

pub fn openapi(workspace: &Workspace) -> Result<Tally> {
    black_box(workspace, "openapi", &[])
}

pub fn dashboards(workspace: &Workspace) -> Result<Tally> {
    black_box(workspace, "dashboards", &[])
}

pub fn openapi_long(workspace: &Workspace) -> Result<Tally> {
    black_box(workspace, "openapi", &["--all"])
}

pub fn slow_attacks(workspace: &Workspace) -> Result<Tally> {
    black_box(workspace, "slow_attacks", &[])
}

pub fn tls_audit(workspace: &Workspace) -> Result<Tally> {
    black_box(workspace, "tls_audit", &[])
}

pub fn privileges(workspace: &Workspace) -> Result<Tally> {
    black_box(workspace, "privileges", &[])
}

pub fn memory_group(workspace: &Workspace) -> Result<Tally> {
    black_box(workspace, "memory_group", &[])
}

pub fn tcp_memory(workspace: &Workspace) -> Result<Tally> {
    black_box(workspace, "tcp_memory", &[])
}

/// Runs a separate runner against the built binary; cargo builds only outdated files.
fn black_box(workspace: &Workspace, runner: &str, arguments: &[&str]) -> Result<Tally> {
    programs::release(workspace)?;
    shell::run_tests(programs::runner(workspace, runner).args(arguments))
}

fn simulate(workspace: &Workspace, worlds: &[&str]) -> Result<Tally> {
    let simulator = workspace.target.join("debug/sim");
    shell::run_tests(workspace.command(&[&simulator.to_string_lossy()]).args(worlds))
}

/// The packages in the output of `cargo tree` that [`PURE_PACKAGES`] does not name, without
/// repetition.
fn impure_packages(tree: &str) -> Vec<&str> {
    let named: BTreeSet<&str> =
        tree.lines().filter_map(|line| line.split_whitespace().next()).collect();
    named.into_iter().filter(|name| !PURE_PACKAGES.contains(name)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_impure_package_is_named() {
        let tree = "broker v0.1.0 (crates/broker)\nhashbrown v0.16.0\nlibc v0.2.1\nlibc v0.2.1 (*)\n\nmio v1.2.0\n";
        assert_eq!(impure_packages(tree), ["libc", "mio"]);
        assert!(impure_packages("wire v0.1.0\nstdx v0.1.0\n").is_empty());
    }
}

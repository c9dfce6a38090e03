//! The assessment over captured machines. `small_virtual_machine` was captured with `--capture`;
//! the other two were written after it, with what containers and large servers have otherwise.

use super::assess::Assessment;
use super::finding::{Finding, Verdict};
use super::machine::Machine;
use super::source::Captured;

const SMALL_VIRTUAL_MACHINE: &str = include_str!("fixtures/small_virtual_machine.txt");
const SMALL_CONTAINER: &str = include_str!("fixtures/small_container.txt");
const LARGE_SERVER: &str = include_str!("fixtures/large_server.txt");

fn assess(machine: &str, target: Option<u64>) -> Assessment {
    let machine = Machine::new(Captured::parse(machine));
    Assessment::of(&machine, target, None, machine.network())
}

/// Checks the findings that are not good, each with its word, and the conclusion.
fn check(machine: &str, target: Option<u64>, expected: &str) {
    let assessment = assess(machine, target);
    let mut lines: Vec<String> = assessment
        .findings
        .iter()
        .filter(|finding| finding.verdict != Verdict::Ok)
        .map(|finding| {
            let change = finding.change.as_ref();
            let command = change.map_or(String::new(), |change| format!(" -> {}", change.line()));
            format!("{} {}{command}", finding.verdict.word(), finding.name)
        })
        .collect();
    lines.extend(assessment.conclusion());
    let expected: Vec<&str> = expected.trim().lines().map(str::trim).collect();
    assert_eq!(lines, expected, "\n{}", lines.join("\n"));
}

#[test]
fn a_small_virtual_machine_for_a_million() {
    check(
        SMALL_VIRTUAL_MACHINE,
        Some(1_000_000),
        "
        limits net.ipv4.tcp_mem -> net.ipv4.tcp_mem='500000 666666 1000000'
        limits net.ipv4.tcp_max_syn_backlog -> net.ipv4.tcp_max_syn_backlog=4096
        limits net.core.netdev_max_backlog -> net.core.netdev_max_backlog=10000
        limits net.ipv4.tcp_migrate_req -> net.ipv4.tcp_migrate_req=1
        limits network interface
        Target: 1,000,000 connections.
        This machine can hold 575,796 connections now. The first limit is net.ipv4.tcp_mem.
        After `crore doctor --apply`: 1,000,000. The first limit is then net.ipv4.tcp_mem.
        ",
    );
}

/// Limits of the kernel's sockets are none of the node's own TCP: a million takes a tenth of the
/// memory, and descriptors, watches and socket buffers do not matter.
#[test]
fn own_tcp_needs_memory_and_its_device() {
    let tried = |outcome| format!("=== probe/user_network\neth1, xdp: {outcome}\n");
    let machine = |outcome| format!("{}{SMALL_VIRTUAL_MACHINE}", tried(outcome));
    let allowed = assess(&machine("allowed"), Some(20_000_000));
    assert!(!allowed.is_wanting(), "{:?}", allowed.conclusion());
    let names: Vec<&str> = allowed.findings.iter().map(|finding| finding.name).collect();
    assert_eq!(names[..2], ["own TCP", "memory"]);
    assert!(!names.iter().any(|name| name.contains("open files") || name.contains("tcp")));
    let refused = assess(&machine("refused: cannot attach the program: busy"), Some(1_000));
    assert!(refused.is_wanting());
    let finding = &refused.findings[0];
    assert_eq!((finding.verdict, &finding.value[..]), (Verdict::Bad, "eth1, xdp"));
    assert_eq!(finding.meaning, "cannot attach the program: busy");
    let old = machine("allowed").replace("osrelease\n6.", "osrelease\n5.");
    let kernel = assess(&old, Some(1_000));
    let named = |finding: &&Finding| finding.name == "kernel";
    assert_eq!(kernel.findings.iter().find(named).unwrap().verdict, Verdict::Bad);
}

#[test]
fn the_kernels_table_of_connections_is_small() {
    let entries = |entries: i32| {
        let file = format!("=== /proc/sys/net/ipv4/tcp_ehash_entries\n{entries}\n");
        let assessment = assess(&format!("{file}{SMALL_VIRTUAL_MACHINE}"), Some(1_000_000));
        let named = |finding: &&Finding| finding.name == "net.ipv4.tcp_ehash_entries";
        let finding = assessment.findings.iter().find(named).unwrap();
        (finding.verdict, finding.advice.join(" "))
    };
    let (verdict, advice) = entries(262_144);
    assert_eq!(verdict, Verdict::Limits);
    assert!(advice.contains("`thash_entries=1048576`"), "{advice}");
    assert_eq!(entries(-262_144).0, Verdict::Limits); // shared with the first namespace
    assert_eq!(entries(524_288), (Verdict::Ok, String::new()));
}

#[test]
fn without_io_uring_the_limit_of_open_files_holds() {
    let refused = SMALL_VIRTUAL_MACHINE
        .replace("=== probe/registered_sockets\nallowed", "=== probe/registered_sockets\nrefused");
    check(
        &refused,
        Some(1_000_000),
        "
        limits open files
        limits net.ipv4.tcp_mem -> net.ipv4.tcp_mem='500000 666666 1000000'
        limits net.ipv4.tcp_max_syn_backlog -> net.ipv4.tcp_max_syn_backlog=4096
        limits net.core.netdev_max_backlog -> net.core.netdev_max_backlog=10000
        limits net.ipv4.tcp_migrate_req -> net.ipv4.tcp_migrate_req=1
        limits network interface
        Target: 1,000,000 connections.
        This machine can hold 39,872 connections now. The first limit is open files.
        With all advice below applied: 1,000,000. The first limit is then net.ipv4.tcp_mem.
        ",
    );
}

#[test]
fn a_small_container_for_what_it_can_hold() {
    check(
        SMALL_CONTAINER,
        None,
        "
        limits open files
        bad cgroup pids.max
        bad kernel
        limits private descriptor tables
        limits processors
        limits net.core.somaxconn -> net.core.somaxconn=4096
        limits net.ipv4.tcp_max_syn_backlog -> net.ipv4.tcp_max_syn_backlog=4096
        limits net.ipv4.tcp_migrate_req
        Target: 46,317 connections, the most that the memory can hold.
        This machine can hold 4,032 connections now. The first limit is open files.
        With all advice below applied: 46,317. The first limit is then memory.
        ",
    );
}

#[test]
fn a_large_server_for_ten_million() {
    check(
        LARGE_SERVER,
        Some(10_000_000),
        "
        limits conntrack -> net.netfilter.nf_conntrack_max=11000000
        limits net.ipv4.tcp_max_syn_backlog -> net.ipv4.tcp_max_syn_backlog=4096
        limits net.core.netdev_max_backlog -> net.core.netdev_max_backlog=10000
        limits net.ipv4.tcp_migrate_req -> net.ipv4.tcp_migrate_req=1
        limits transparent huge pages
        limits swap
        limits NUMA nodes
        limits network interface
        Target: 10,000,000 connections.
        This machine can hold 261,732 connections now. The first limit is conntrack.
        After `crore doctor --apply`: 10,000,000. The first limit is then conntrack.
        ",
    );
}

/// A machine that is sound for what most nodes need shows no faults by default, and says the sum
/// first.
#[test]
fn a_sound_machine_looks_sound() {
    let assessment = assess(SMALL_VIRTUAL_MACHINE, None);
    assert_eq!((assessment.target, assessment.is_wanting()), (100_000, false));
    let mut output = Vec::new();
    super::show::assessment(&assessment, &mut output).unwrap();
    let text = String::from_utf8(output).unwrap();
    let first = "Target: 100,000 connections (--target-connections sets another number).\n\
                 This machine can hold 575,796 connections now.";
    assert!(text.starts_with(first), "{text}");
    assert!(!text.contains("BAD") && !text.contains("for ever"), "{text}");
    assert!(text.contains("\nok   fs.nr_open: "), "{text}");
    let wanting = assess(SMALL_VIRTUAL_MACHINE, Some(1_000_000));
    let mut output = Vec::new();
    super::show::assessment(&wanting, &mut output).unwrap();
    let text = String::from_utf8(output).unwrap();
    assert!(text.contains("\nLOW  net.ipv4.tcp_mem: "), "{text}");
    assert!(text.contains("     permanently: `net.ipv4.tcp_mem="), "{text}");
}

/// Whatever is raised must be enough: with all kernel parameters as proposed none of them is a wall
/// any more.
#[test]
fn what_is_proposed_is_enough() {
    for (machine, target) in
        [(SMALL_VIRTUAL_MACHINE, 3_000_000), (SMALL_CONTAINER, 100_000), (LARGE_SERVER, 30_000_000)]
    {
        let assessment = assess(machine, Some(target));
        let mut text = machine.to_owned();
        let mut changed = Vec::new();
        for change in assessment.findings.iter().filter_map(|finding| finding.change.as_ref()) {
            let path = format!("=== /proc/sys/{}\n", change.name.replace('.', "/"));
            // The first of two with one name would be taken.
            let (before, rest) = text.split_once(&path).unwrap();
            let (_, after) = rest.split_once('\n').unwrap();
            text = format!("{before}{path}{}\n{after}", change.to);
            changed.push(change.name);
        }
        assert!(!changed.is_empty());
        let after = assess(&text, Some(target));
        for finding in &after.findings {
            let is_enough = finding.change.is_none();
            // Half of the memory is the most that sockets are given.
            assert!(is_enough || finding.name == "net.ipv4.tcp_mem", "{finding:#?}");
        }
        let now = after.now.unwrap().1;
        assert_eq!(Some(now), assessment.after_apply.map(|(_, connections)| connections));
    }
}

#[test]
fn nothing_is_said_about_what_a_machine_does_not_tell() {
    let assessment = assess("", Some(5));
    assert!(assessment.findings.is_empty() && !assessment.is_wanting());
}

#[test]
fn numbers_of_connections() {
    for (text, number) in [("5", 5), ("250k", 250_000), ("1.5M", 1_500_000), ("1,000", 1_000)] {
        assert_eq!(super::connections(text), Ok(number));
    }
    for text in ["", "k", "-1", "0", "ten", "1e99"] {
        assert!(super::connections(text).is_err(), "{text}");
    }
}

//! `crore doctor` and `crore plan`: on this machine, on one stored in a folder, and beside a
//! running node.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use end_to_end::process::Process;
use end_to_end::server::Server;
use end_to_end::tools::crore;
use serde_json::Value;

/// A folder of one test, removed when dropped.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("crore-{name}-{}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Folder(path)
    }

    fn write(&self, path: &str, text: &str) {
        let path = self.0.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn read(&self, path: &str) -> String {
        fs::read_to_string(self.0.join(path)).unwrap().trim().to_owned()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // Remains are in the temporary folder.
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Runs a command to its end, without a terminal.
fn run(arguments: &[&str]) -> Output {
    let mut command: Command = crore();
    command.args(arguments).stdin(Stdio::null());
    command.output().unwrap()
}

fn json(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"))
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

#[test]
fn this_machine_is_checked() {
    let few = run(&["doctor", "--json", "--target-connections", "10"]);
    let judgement = json(&few);
    assert_eq!(judgement["target_connections"], 10);
    assert_eq!(few.status.code(), Some(i32::from(judgement["wanting"] == true)));
    let names: Vec<&str> = judgement["findings"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|finding| finding["name"].as_str())
        .collect();
    for name in ["open files", "memory", "kernel", "private descriptor tables"] {
        assert!(names.contains(&name), "{name} in {names:?}");
    }
    let many = run(&["doctor", "--target-connections", "9000M"]);
    assert_eq!(many.status.code(), Some(1), "{many:?}");
    let said = String::from_utf8_lossy(&many.stdout);
    assert!(said.contains("Target: 9,000,000,000 connections."), "{said}");
    assert!(said.contains("The first limit is "), "{said}");
}

#[test]
fn changes_are_shown_confirmed_applied_and_undone() {
    let machine = Folder::new("machine");
    machine.write("proc/sys/net/core/somaxconn", "128\n");
    machine.write("proc/sys/net/ipv4/tcp_migrate_req", "0\n");
    machine.write("proc/sys/fs/file-max", "100000\n");
    machine.write("proc/sys/fs/file-nr", "1000\t0\t100000\n");
    let root = text(&machine.0);
    let doctor = ["doctor", "--root", root, "--target-connections", "1M"];

    // Without a person to ask.
    let mut arguments = doctor.to_vec();
    arguments.push("--apply");
    let unasked = run(&arguments);
    assert_eq!(unasked.status.code(), Some(2), "{unasked:?}");
    assert_eq!(machine.read("proc/sys/net/core/somaxconn"), "128");

    arguments.push("--yes");
    let applied = run(&arguments);
    let said = String::from_utf8_lossy(&applied.stdout);
    assert_eq!(applied.status.code(), Some(0), "{said}");
    assert_eq!(machine.read("proc/sys/net/core/somaxconn"), "4096");
    assert_eq!(machine.read("proc/sys/net/ipv4/tcp_migrate_req"), "1");
    let files: u64 = machine.read("proc/sys/fs/file-max").parse().unwrap();
    assert!(files > 1_000_000, "{files}");
    for line in [
        "This machine can hold 79,000 connections now. The first limit is fs.file-max.",
        "done net.core.somaxconn: 4096 (was 128)",
        "  net.core.somaxconn = 4096",
        "  sysctl -w net.core.somaxconn=128",
        "  sysctl -w fs.file-max=100000",
    ] {
        assert!(said.lines().any(|found| found == line), "{line}\n{said}");
    }

    let again = run(&arguments);
    let said = String::from_utf8_lossy(&again.stdout);
    assert_eq!(again.status.code(), Some(0), "{said}");
    assert!(said.contains("There is nothing to apply."), "{said}");
}

#[test]
fn a_captured_machine_is_checked_elsewhere() {
    let folder = Folder::new("captured");
    let file = folder.0.join("machine.txt");
    let here =
        json(&run(&["doctor", "--json", "--target-connections", "1M", "--capture", text(&file)]));
    let there =
        json(&run(&["doctor", "--json", "--target-connections", "1M", "--machine", text(&file)]));
    assert_eq!(here["findings"], there["findings"]);
    let nothing = folder.0.join("nothing.txt");
    fs::write(&nothing, "not a machine").unwrap();
    let output = run(&["doctor", "--machine", text(&nothing)]);
    assert_eq!(output.status.code(), Some(1));
    assert!(
        String::from_utf8_lossy(&output.stderr).contains("contains no captured machine"),
        "{output:?}"
    );
}

#[test]
fn a_running_node_reports_its_memory() {
    let server = Server::start();
    let url = server.operators_url("/");
    let output = run(&["doctor", "--json", "--target-connections", "1", "--admin", &url]);
    let node = &json(&output)["node"];
    let components = node["memory_bytes"].as_object().unwrap();
    let sum: i64 = components.values().map(|bytes| bytes.as_i64().unwrap()).sum();
    assert_eq!(node["proportional_bytes"].as_i64(), Some(sum), "{node}");
    assert!(components["binary"].as_i64() > Some(100_000), "{node}");

    drop(server);
    // Another program may have its port by now; this port has no listener.
    let output = run(&["doctor", "--admin", "http://127.0.0.1:1/"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("no node answers"), "{output:?}");
}

#[test]
fn a_load_is_planned_for_a_machine() {
    let folder = Folder::new("plan");
    folder.write("machine.txt", "=== probe/cores\n12\n");
    let file = folder.0.join("machine.txt");
    let plan = |arguments: &[&str]| {
        let mut all = vec!["plan", "--json", "--machine", text(&file), "--memory", "96GB"];
        all.extend(arguments);
        run(&all)
    };
    let one = plan(&["--connections", "1M", "--rate", "16.8k", "--size", "512"]);
    assert_eq!(one.status.code(), Some(0), "{one:?}");
    let one = json(&one);
    let ten = plan(&["--connections", "10M", "--rate", "168k", "--size", "512", "--tls"]);
    let ten = json(&ten);
    let number = |plan: &Value, name: &str| plan[name].as_f64().unwrap();
    assert!(number(&ten, "user_bytes") > 9.0 * number(&one, "user_bytes"));
    assert!(number(&ten, "out_bits_per_s") > 10.0 * number(&one, "out_bits_per_s"));
    assert!(ten["user"]["tls"].as_f64() > Some(4e9), "{ten}");
    let limits = ten["limits"].as_array().unwrap();
    let names: Vec<&str> = limits.iter().filter_map(|limit| limit["limit"].as_str()).collect();
    assert!(names.contains(&"memory") && names.contains(&"processors"), "{names:?}");

    let too_much = plan(&["--connections", "100M"]);
    assert_eq!(too_much.status.code(), Some(1), "{too_much:?}");
    assert_eq!(run(&["plan"]).status.code(), Some(2));
}

/// `plan --check` reads the output of `bench run`. Their agreement is not tested in a second on a
/// busy machine.
#[test]
fn a_plan_is_compared_with_a_report() {
    let folder = Folder::new("check");
    let mut command = crore();
    // Many messages, so that the processor time is not below the clock's tick.
    command.args(["bench", "run", "c10m", "--clients", "200", "--rate", "5000"]);
    command.args(["--duration", "1s", "--settle", "200ms", "--warm-up", "100ms"]);
    command.args(["--interval", "200ms", "--out", text(&folder.0)]);
    let ended = Process::start(&mut command).end_within(Duration::from_secs(120));
    assert!(ended.status.success(), "{ended:?}");
    let report = folder.0.join("report.json");
    let wide = run(&["plan", "--json", "--check", text(&report), "--within", "1e9"]);
    assert_eq!(wide.status.code(), Some(0), "{wide:?}");
    let rows = json(&wide);
    let rows = rows.as_array().unwrap();
    let figures: Vec<&str> = rows.iter().filter_map(|row| row["figure"].as_str()).collect();
    assert!(figures.contains(&"user space, bytes per connection"), "{figures:?}");
    assert!(figures.contains(&"processor, cores"), "{figures:?}");
    let narrow = run(&["plan", "--check", text(&report), "--within", "1e-9"]);
    assert_eq!(narrow.status.code(), Some(1), "{narrow:?}");
    folder.write("other.json", "{}");
    let other = run(&["plan", "--check", text(&folder.0.join("other.json"))]);
    assert_eq!(other.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&other.stderr).contains("the report lacks"), "{other:?}");
}

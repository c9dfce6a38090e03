//! `crore bench run`: every named workload at its smallest, from the server that it starts to the
//! report that it writes.

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use end_to_end::process::{Ended, Process};
use end_to_end::server::Server;
use end_to_end::tools;
use serde_json::Value;

/// The time limit of a run of a second or two.
const PATIENCE: Duration = Duration::from_secs(120);

/// A directory for reports, removed when dropped.
struct Reports(PathBuf);

impl Reports {
    fn new(name: &str) -> Reports {
        let name: String = name.chars().filter(char::is_ascii_alphanumeric).collect();
        let path =
            std::env::temp_dir().join(format!("crore-reports-{}-{name}", std::process::id()));
        Reports(path)
    }

    /// The report, after a check that the page contains it.
    fn read(&self) -> Value {
        let text = fs::read_to_string(self.0.join("report.json")).expect("a report");
        let page = fs::read_to_string(self.0.join("report.html")).expect("a page");
        assert!(page.starts_with("<!doctype html>"));
        assert!(page.contains(&text.replace('<', "\\u003c")), "the page has the figures");
        serde_json::from_str(&text).expect("JSON")
    }
}

impl Drop for Reports {
    fn drop(&mut self) {
        // Remains are in the temporary folder.
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn command(arguments: &str, out: &Reports) -> Command {
    let mut command = tools::crore();
    command.args(["bench", "run"]).args(arguments.split(' '));
    command.args(["--settle", "200ms", "--warm-up", "100ms", "--interval", "200ms"]);
    command.arg("--out").arg(&out.0);
    command
}

fn run(arguments: &str, out: &Reports) -> Ended {
    Process::start(&mut command(arguments, out)).end_within(PATIENCE)
}

fn number(report: &Value, pointer: &str) -> u64 {
    let value = report.pointer(pointer).and_then(Value::as_f64);
    value.unwrap_or_else(|| panic!("no number {pointer} in {report}")) as u64
}

/// Runs a workload, and checks the common parts of its report.
fn complete(name: &str, arguments: &str) -> Value {
    let out = Reports::new(&arguments.replace(' ', ""));
    let ended = run(&format!("{name} {arguments}"), &out);
    ended.assert_success();
    let report = out.read();
    assert_eq!(report["name"], name);
    assert_eq!(report["trouble"], Value::Null);
    assert_eq!(report["completeness"]["is_complete"], true, "{report}");
    let clients = number(&report, "/plan/size/clients");
    assert_eq!(number(&report, "/connect/connections"), clients);
    assert_eq!(number(&report, "/memory/connections"), clients);
    assert!(!report["samples"].as_array().expect("samples").is_empty());
    report
}

/// Runs a workload with measured messages.
fn measured(name: &str, arguments: &str) -> Value {
    let report = complete(name, &format!("{arguments} --duration 1s"));
    let delivered = number(&report, "/measured/delivered");
    assert!(delivered > 0, "{report}");
    assert_eq!(number(&report, "/measured/latency/count"), delivered);
    assert_eq!(
        number(&report, "/completeness/received"),
        number(&report, "/completeness/expected")
    );
    assert!(number(&report, "/hiccups/late/count") > 0);
    assert!(report["measured"]["distribution"].as_array().is_some_and(|steps| steps.len() > 2));
    report
}

#[test]
fn each_client_may_have_a_topic() {
    let report = measured("c10m", "--clients 60 --rate 100");
    assert_eq!(number(&report, "/measured/sent"), 100);
    assert_eq!(report["published"]["clients"], 10_000_108);
    let rows = report["comparison"].as_array().expect("rows");
    let mean = rows.iter().find(|row| row["what"] == "latency, mean").expect("the mean");
    assert_eq!(mean["published"], 61.0);
    assert!(mean["factor"].is_f64());
    // This workload publishes nothing beyond its size.
    let report = measured("c12m", "--clients 60 --rate 100 --ack none");
    assert_eq!(report["published"]["mean_ms"], Value::Null);
    assert_eq!(report["measured"]["acknowledgement"], Value::Null);
}

#[test]
fn event_streams_are_measured() {
    let report = measured("c10m", "--clients 30 --rate 100 --transport sse --no-pin");
    assert_eq!(report["plan"]["server_cores"], "");
}

#[test]
fn mqtt_is_measured() {
    let report = measured("c10m", "--clients 30 --rate 100 --transport mqtt --no-pin");
    assert_eq!(report["plan"]["transport"], "MQTT 5.0, QoS 1");
    let report = measured(
        "fan-out",
        "--clients 20 --rate 10 --transport mqtt --mqtt-version 3 --qos 0 --ack none",
    );
    assert_eq!(report["plan"]["transport"], "MQTT 3.1.1, QoS 0");
    let report = measured("one-million", "--clients 100 --rate 1 --transport mqtt");
    assert_eq!(number(&report, "/plan/size/topics"), 1);
}

/// Whether this process may make network namespaces; if not, prints that the test is skipped.
fn may_use_own_tcp() -> bool {
    let unshared = Command::new("unshare").args(["--net", "true"]).output().expect("util-linux");
    if !unshared.status.success() {
        println!("skipped: network namespaces need CAP_SYS_ADMIN");
    }
    unshared.status.success()
}

#[test]
fn subscribers_may_use_our_own_tcp() {
    if !may_use_own_tcp() {
        let ended = run("c10m --network user --clients 20", &Reports::new("unprivileged"));
        let text = ended.lines.join("\n");
        assert!(text.contains("--network user needs root"), "{text}");
        return;
    }
    let report = measured("c10m", "--network user --clients 3000 --rate 1000 --connect-rate 2000");
    assert_eq!(report["plan"]["own_tcp"], "xdp-generic");
    assert_eq!(number(&report, "/plan/io_threads"), 2);
    let report =
        measured("c10m", "--network user --device xdp --clients 30 --rate 100 --transport mqtt");
    assert_eq!(report["plan"]["own_tcp"], "xdp");
}

#[test]
fn an_interrupted_run_leaves_no_namespace() {
    if !may_use_own_tcp() {
        return;
    }
    let out = Reports::new("interrupted-namespace");
    let arguments = "c10m --network user --clients 20 --duration 1h";
    let mut process = Process::start(&mut command(arguments, &out));
    process.wait_for("measured span", |line| (line == "-- measure").then_some(()));
    let namespace_of = |process: &str| fs::read_link(format!("/proc/{process}/ns/net")).ok();
    let namespace = namespace_of(&process.id().to_string()).expect("our child can be read");
    assert_ne!(Some(&namespace), namespace_of("self").as_ref());
    let members = || {
        let processes = fs::read_dir("/proc").expect("a folder").filter_map(Result::ok);
        let names = processes.filter_map(|process| process.file_name().into_string().ok());
        names.filter(|process| namespace_of(process).as_ref() == Some(&namespace)).count()
    };
    assert_eq!(members(), 4, "the run, its server and two generators");
    process.signal("INT");
    let ended = process.end_within(PATIENCE);
    assert_eq!(ended.status.code(), Some(1), "{}", ended.lines.join("\n"));
    assert_eq!(members(), 0);
}

#[test]
fn groups_of_clients_are_measured() {
    let report = measured("one-million", "--clients 300 --rate 10");
    assert_eq!(number(&report, "/plan/size/topics"), 3);
    assert_eq!(number(&report, "/measured/delivered"), 1_000);
    let plain = measured("factory", "--plain --clients 40 --rate 20");
    assert_eq!(plain["plan"]["has_tls"], false);
    let report = measured("factory", "--clients 40 --rate 20");
    assert_eq!(report["plan"]["has_tls"], true);
    assert_eq!(report["plan"]["is_once"], true);
    assert_eq!(number(&report, "/completeness/audit/complete"), 40);
    assert_eq!(number(&report, "/completeness/audit/missing_acknowledged"), 0);
}

#[test]
fn echoes_are_measured() {
    let report = measured("echo-100k", "--clients 20 --rate 100");
    assert_eq!(number(&report, "/completeness/sent"), number(&report, "/completeness/received"));
}

#[test]
fn all_clients_may_share_a_topic() {
    let report = measured("fan-out", "--clients 50 --rate 20");
    assert_eq!(number(&report, "/measured/sent"), 20);
    assert_eq!(number(&report, "/measured/last_receiver/count"), 20);
}

#[test]
fn the_sustainable_rate_is_found() {
    // A few messages take less than half a minute on any machine: every step succeeds.
    let arguments = "--clients 20 --rate 4 --find --step 100ms --duration 500ms --p99-max 30s";
    let report = complete("unicast", arguments);
    let steps = report["steps"].as_array().expect("steps");
    assert!(steps.iter().any(|step| step["is_good"] == true), "{report}");
    let sustained = number(&report, "/sustainable_rate");
    let sent = number(&report, "/measured/sent_rate");
    assert!(sent.abs_diff(sustained / 2) <= 4, "{sustained} and {sent}");
}

#[test]
fn connections_are_measured() {
    let report = complete("connect", "--clients 100");
    assert_eq!(report["measured"], Value::Null);
    assert_eq!(number(&report, "/connect/time/count"), 100);
}

#[test]
fn a_return_of_all_clients_is_measured() {
    let report = measured("storm", "--clients 200 --rate 40 --away 500ms");
    assert_eq!(report["storm"]["has_killed_server"], false);
    assert_eq!(number(&report, "/storm/back/count"), 200);
    assert!(number(&report, "/storm/recovered") > 0);
}

#[test]
fn a_return_to_a_killed_server_is_measured() {
    let report = measured("storm", "--clients 200 --rate 40 --away 300ms --server-restarts");
    assert_eq!(report["storm"]["has_killed_server"], true);
    assert_eq!(number(&report, "/storm/back/count"), 200);
    assert_eq!(number(&report, "/completeness/audit/missing_acknowledged"), 0);
}

#[test]
fn an_existing_server_may_be_measured() {
    let server = Server::start();
    let url = server.ws_url("");
    let admin = server.operators_url("");
    let report = measured("c10m", &format!("--clients 20 --rate 50 --url {url} --admin {admin}"));
    assert_eq!(report["plan"]["foreign_url"], url);
    assert!(report["measured"]["server_cpu"].is_f64(), "from its metrics");
    // Without metrics and process the run is the same, but those figures are missing.
    let report = measured("c10m", &format!("--clients 20 --rate 50 --url {url}"));
    assert_eq!(report["measured"]["server_cpu"], Value::Null);
}

#[test]
fn an_incomplete_run_is_reported_and_fails() {
    // Without a history an absent client misses messages.
    let out = Reports::new("incomplete");
    let ended =
        run("storm --clients 100 --rate 40 --away 500ms --duration 500ms --history off", &out);
    assert_eq!(ended.status.code(), Some(1), "{}", ended.lines.join("\n"));
    let is_said = ended.lines.iter().any(|line| line.starts_with("NOT COMPLETE: "));
    assert!(is_said, "{}", ended.lines.join("\n"));
    let report = out.read();
    assert_eq!(report["completeness"]["is_complete"], false);
    assert!(number(&report, "/completeness/gaps") > 0);
}

#[test]
fn an_interrupted_run_leaves_a_report_and_no_process() {
    let out = Reports::new("interrupted");
    let mut process = Process::start(&mut command("c10m --clients 20 --duration 1h", &out));
    process.wait_for("measured span", |line| (line == "-- measure").then_some(()));
    let children = || {
        let path = format!("/proc/{0}/task/{0}/children", process.id());
        let text = fs::read_to_string(path).expect("our child can be read");
        text.split_whitespace().map(str::to_owned).collect::<Vec<_>>()
    };
    let children = children();
    assert_eq!(children.len(), 3, "the server and two generators");
    process.signal("INT");
    let ended = process.end_within(PATIENCE);
    assert_eq!(ended.status.code(), Some(1), "{}", ended.lines.join("\n"));
    for child in children {
        assert!(!fs::exists(format!("/proc/{child}")).expect("a folder"), "{child}");
    }
    let report = out.read();
    assert_eq!(report["trouble"], "the run was interrupted");
    assert_eq!(report["completeness"]["is_complete"], false);
}

#[test]
fn reports_are_compared() {
    let out = [Reports::new("compared-a"), Reports::new("compared-b")];
    for out in &out {
        run("connect --clients 10", out).assert_success();
    }
    let mut command = tools::crore();
    command.args(["bench", "report"]).arg(&out[0].0).arg(out[1].0.join("report.json"));
    let ended = Process::start(&mut command).end();
    ended.assert_success();
    let is_shown = ended.lines.iter().any(|line| line.starts_with("connects /s"));
    assert!(is_shown, "{}", ended.lines.join("\n"));
}

#[test]
fn invalid_arguments_are_refused() {
    let out = Reports::new("refused");
    for (arguments, said) in [
        ("factory --clients 20 --url ws://127.0.0.1:1", "--plain"),
        ("c10m --find", "--find needs the workload unicast"),
        ("c10m --server-restarts", "--server-restarts needs the workload storm"),
        ("storm --transport sse", "storm needs --transport ws"),
        ("factory --transport mqtt", "factory needs --transport ws"),
        ("c10m --server-cores 1000", "is not available"),
        ("c10m --network user --device tun", "--device xdp or xdp-generic"),
        ("factory --network user", "add --plain"),
        ("storm --network user --server-restarts", "needs --network kernel"),
        ("c10m --network user --io-threads 1", "--io-threads 2 or more"),
        ("c10m --url ws://127.0.0.1:1", "refused"),
    ] {
        let ended = run(arguments, &out);
        assert_eq!(ended.status.code(), Some(1), "{arguments}");
        let text = ended.lines.join("\n");
        assert!(text.contains(said), "{arguments}: {text}");
    }
}

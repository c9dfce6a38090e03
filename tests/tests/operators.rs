//! The operators' port: health, metrics as Prometheus reads them, and access.

use std::io::Write;
use std::os::unix::process::ExitStatusExt;
use std::process::Stdio;

use end_to_end::curl::{curl, publish};
use end_to_end::server::Server;
use end_to_end::tools::promtool;

#[test]
fn health_and_readiness_are_reported() {
    let server = Server::start();
    for path in ["/livez", "/readyz", "/healthz"] {
        curl(&[&server.operators_url(path)]).expect(200);
    }
    curl(&[&server.operators_url("/none")]).expect(404);
}

/// A crash leaves none of a node's memory on a disk, unless its operator requests that.
#[test]
fn a_crash_leaves_no_core_dump() {
    let limits = |server: &Server| {
        let path = format!("/proc/{}/limits", server.process.id());
        let text = std::fs::read_to_string(path).expect("our child can be read");
        let line = text.lines().find_map(|line| line.strip_prefix("Max core file size"));
        let words = line.expect("a limit").split_whitespace();
        words.take(2).map(str::to_owned).collect::<Vec<_>>()
    };
    let server = Server::start();
    // A limit of none would not stop a dump through a pipe.
    assert!(matches!(limits(&server)[1].as_str(), "0" | "1"), "{:?}", limits(&server));
    server.process.signal("ABRT");
    let status = server.end().status;
    assert!(status.signal().is_some() && !status.core_dumped(), "{status}");

    let server = Server::with_configuration("[node]\ncore_dumps = true\n");
    let own = std::fs::read_to_string("/proc/self/limits").expect("our own limits");
    let line = own.lines().find_map(|line| line.strip_prefix("Max core file size"));
    let maximum = line.and_then(|line| line.split_whitespace().nth(1)).expect("a limit");
    assert_eq!(limits(&server)[1], maximum);
}

#[test]
fn promtool_accepts_the_metrics() {
    let server = Server::start();
    publish(&server.url("/topics/metered"), "x");
    curl(&[&server.url("/none")]).expect(404);
    let answer = curl(&[&server.operators_url("/metrics")]).expect(200);
    assert!(answer.header("content-type").is_some_and(|media| media.contains("text")));
    let names: Vec<&str> = answer.body.lines().filter(|line| line.starts_with("crore_")).collect();
    assert!(names.len() > 10, "{}", answer.body);
    assert!(!answer.body.contains("metered"), "a metric names a topic");

    let mut check = promtool();
    check.args(["check", "metrics"]);
    let mut check =
        check.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    check.stdin.take().unwrap().write_all(answer.body.as_bytes()).unwrap();
    let output = check.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr) + String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && said.is_empty(), "{said}\nabout\n{}", answer.body);
}

#[test]
fn a_name_that_resolves_to_this_machine_is_refused() {
    let server = Server::start();
    let answer = curl(&["-H", "Host: evil.example", &server.operators_url("/metrics")]);
    assert!((400..500).contains(&answer.status), "{answer:?}");
}

#[test]
fn the_ports_are_separate() {
    let server = Server::start();
    curl(&[&server.url("/metrics")]).expect(404);
    curl(&["-d", "x", &server.operators_url("/topics/a")]).expect(404);
}

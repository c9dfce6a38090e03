//! `crore bench` when its own resources run out: it reports the shortage and the remedy, continues
//! with the rest, uses hardly any processor time, and resumes when there is room again.

use std::process::Command;
use std::time::Instant;

use end_to_end::bench::Bench;
use end_to_end::network::Host;
use end_to_end::process::Process;
use end_to_end::server::{Place, Server};
use end_to_end::tools;
use serde_json::Value;

/// A host with fifty source ports, and a server on it whose operators' port is one of them.
fn host_with_few_ports() -> (Host, Place, Server) {
    let host = Host::new();
    host.run("echo 40000 40049 > /proc/sys/net/ipv4/ip_local_port_range");
    let mut place = Place::new("127.0.0.1:8800");
    let process = place.launch_by(&host.words());
    let server = place.started(process);
    (host, place, server)
}

fn subscribers(host: &Host, server: &Server, more: &[&str]) -> Bench {
    let url = server.ws_url("/crore");
    let arguments = ["sub", "--url", &url, "--topics", "t/{1..10}", "--threads", "1"];
    Bench::start_by(&host.words(), &[&arguments, more].concat())
}

fn live(figures: &Value) -> u64 {
    figures["clients_live"].as_u64().unwrap_or(0)
}

#[test]
fn too_many_clients_for_the_ports_are_refused() {
    let (host, _place, server) = host_with_few_ports();
    let mut bench = subscribers(&host, &server, &["--clients", "100"]);
    bench.wait_for_words("the bound", &["50 clients instead of 100", "--local-addresses"]);
    bench.wait_for("as many as there are ports", |figures| live(figures) == 49);
    // The proposed remedy works.
    let addresses = ["--clients", "100", "--local-addresses", "127.0.{1..2}.1"];
    let mut more = subscribers(&host, &server, &addresses);
    more.wait_for("all of them", |figures| live(figures) == 100);
}

#[test]
fn bench_waits_for_ports_in_use() {
    let (host, _place, server) = host_with_few_ports();
    let mut others = subscribers(&host, &server, &["--clients", "30"]);
    others.wait_for("their clients", |figures| live(figures) == 30);
    let mut bench = subscribers(&host, &server, &["--clients", "40"]);
    bench.wait_for("trouble by name", |figures| {
        let trouble = figures["trouble"].as_str().unwrap_or("");
        trouble.contains("all 50 of net.ipv4.ip_local_port_range are used")
            && trouble.contains("--local-addresses")
    });
    bench.wait_for("as many as there are ports", |figures| live(figures) == 19);
    let (began, cpu) = (Instant::now(), bench.cpu_time());
    bench.wait_for_sum("further attempts", "connects_failed", 10);
    let (elapsed, cpu) = (began.elapsed(), bench.cpu_time() - cpu);
    assert!(cpu * 4 < elapsed, "{cpu:?} of {elapsed:?} is a busy loop");
    // On loopback the port of a closed connection is free again after a second.
    drop(others);
    bench.wait_for("all of them", |figures| live(figures) == 40);
}

/// A container that permits neither separate descriptor tables of threads nor sockets outside them.
#[test]
fn a_shortage_of_descriptors_is_reported() {
    let server = Server::start();
    let url = server.ws_url("/crore");
    let mut command = Command::new("sh");
    command.args([
        "-c",
        "ulimit -n 250 && exec strace -D -f --seccomp-bpf -qq -o /dev/null \
         -e trace=close_range,io_uring_setup -e inject=close_range,io_uring_setup:error=EPERM \"$0\" \"$@\"",
    ]);
    command.arg(tools::crore().get_program());
    command.args(["bench", "sub", "--url", &url, "--clients", "500"]);
    command.args(["--topics", "t/{1..10}", "--threads", "2"]);
    let mut bench = Process::start(command.env_remove("CRORE_BINARY"));
    let clients: u64 = bench.wait_for("the bound", |line| {
        let (clients, why) =
            line.strip_prefix("note: ")?.split_once(" clients instead of 500: ")?;
        why.contains("ulimit -n").then(|| clients.parse().ok())?
    });
    assert!((10..100).contains(&clients), "{clients}");
    bench.wait_for("all that fit", |line| {
        let open = line.split_whitespace().nth(1)?;
        (open == clients.to_string()).then_some(())
    });
    bench.signal("TERM");
    let ended = bench.end();
    let all = format!("{clients} of {clients} open");
    assert!(ended.lines.iter().any(|line| line.contains(&all)), "{ended:?}");
    assert_eq!(ended.status.code(), Some(143), "{ended:?}");
}

/// The limit is lowered while it connects.
#[test]
fn bench_waits_for_descriptors() {
    let server = Server::start();
    let url = server.ws_url("/crore");
    let mut bench = Bench::start(&[
        "sub",
        "--url",
        &url,
        "--clients",
        "300",
        "--topics",
        "t/{1..10}",
        "--threads",
        "1",
        "--connect-rate",
        "50",
    ]);
    // The limit is lowered within the six seconds until all are connected.
    bench.wait_for("some clients", |figures| live(figures) > 20);
    bench.limit_descriptors(Some(30));
    bench.wait_for("trouble by name", |figures| {
        let trouble = figures["trouble"].as_str().unwrap_or("");
        trouble.contains("the descriptor limit of 30 is reached (ulimit -n)")
    });
    let (began, cpu) = (Instant::now(), bench.cpu_time());
    bench.wait_for_sum("further attempts", "connects_failed", 20);
    let (elapsed, cpu) = (began.elapsed(), bench.cpu_time() - cpu);
    assert!(cpu * 4 < elapsed, "{cpu:?} of {elapsed:?} is a busy loop");
    bench.limit_descriptors(None);
    bench.wait_for("all of them", |figures| live(figures) == 300);
}

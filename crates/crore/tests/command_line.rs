//! The built binary: exit codes, the output of each command on stdout and stderr, and the life of
//! `serve`.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// The binary, without what this process's environment could tell it.
fn crore(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_crore"));
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("CRORE_") || name == "NOTIFY_SOCKET" {
            command.env_remove(name);
        }
    }
    command.args(arguments).stdin(Stdio::null());
    command
}

fn run(arguments: &[&str]) -> Output {
    crore(arguments).output().unwrap()
}

fn check(arguments: &[&str], code: i32, output: &str, errors: &str) {
    let ended = run(arguments);
    let said = String::from_utf8_lossy(&ended.stdout);
    let complained = String::from_utf8_lossy(&ended.stderr);
    assert_eq!(ended.status.code(), Some(code), "{arguments:?}\n{said}\n{complained}");
    assert!(said.contains(output), "{arguments:?}\n{said}");
    assert!(complained.contains(errors), "{arguments:?}\n{complained}");
}

#[test]
fn exit_codes() {
    check(&["--help"], 0, "Usage: crore", "");
    check(&["--version"], 0, concat!("crore ", env!("CARGO_PKG_VERSION")), "");
    check(&["version"], 0, concat!("crore ", env!("CARGO_PKG_VERSION")), "");
    check(&["completion", "bash"], 0, "_crore()", "");
    check(&["config", "default"], 0, "# topics_max = ", "");
    check(&["config", "doc"], 0, "| `topics_max` |", "");
    check(&["config", "check"], 0, "ok", "");
    check(&["config", "print", "--io-threads", "3"], 0, "io_threads = 3 # flag --io-threads", "");
    check(&[], 2, "", "Usage: crore");
    check(&["sreve"], 2, "", "serve");
    check(&["serve", "--no-such-flag"], 2, "", "--no-such-flag");
    check(&["serve", "--set", "x"], 2, "", "SECTION.NAME=VALUE");
    check(&["pub", "--url", "ftp://localhost", "a", "b"], 2, "", "scheme");
    check(&["sub", "--url", "", "a"], 2, "", "");
    let unknown =
        "error: flag --set: limits.topic_max: unknown key, did you mean limits.topics_max?";
    check(&["serve", "--set", "limits.topic_max=1"], 78, "", unknown);
    check(&["config", "check", "no-such-file.toml"], 78, "", "cannot read no-such-file.toml");
    let closed = "0.0.0.0:0 can be reached from other machines";
    check(&["serve", "--listen", "0.0.0.0:0"], 78, "", closed);
    check(&["serve", "--io-threads", "0"], 78, "", "flag --io-threads: node.io_threads: 0");
}

#[test]
fn the_environment_is_a_source() {
    let ended = crore(&["config", "print"]).env("CRORE_NODE_NAME", "n1").output().unwrap();
    let said = String::from_utf8_lossy(&ended.stdout);
    assert!(said.contains("name = \"n1\" # environment CRORE_NODE_NAME"), "{said}");
    let ended = crore(&["serve"]).env("CRORE_NODE_NAM", "n1").output().unwrap();
    assert_eq!(ended.status.code(), Some(78));
}

#[test]
fn a_reader_that_has_seen_enough_is_no_failure() {
    let mut child = crore(&["config", "doc"]).stdout(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

#[test]
fn a_port_that_is_taken_is_told() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    check(&["serve", "--listen", &address, "--admin-listen", "127.0.0.1:0"], 1, "", &address);
    check(&["serve", "--listen", "127.0.0.1:0", "--admin-listen", &address], 1, "", &address);
}

/// A running `serve` on free ports.
struct Served {
    child: Child,
    lines: std::io::Lines<BufReader<std::process::ChildStdout>>,
    clients: String,
    operators: String,
}

impl Served {
    fn start(arguments: &[&str]) -> Served {
        Served::start_at("127.0.0.1:0", arguments)
    }

    fn start_at(clients: &str, arguments: &[&str]) -> Served {
        let mut all = vec!["serve", "--listen", clients, "--admin-listen", "127.0.0.1:0"];
        all.extend(arguments);
        let mut child = crore(&all).stdout(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let (mut clients, mut operators) = (String::new(), String::new());
        for line in lines.by_ref() {
            let line = line.unwrap();
            if let Some(address) = line.strip_prefix("listening clients http://") {
                clients = address.into();
            } else if let Some(address) = line.strip_prefix("listening operators http://") {
                operators = address.into();
            } else if line == "ready" {
                break;
            }
        }
        Served { child, lines, clients, operators }
    }

    fn ask(address: &str, request: &str) -> String {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }

    /// Until the operators' port shows it.
    fn wait_for_metric(&self, line: &str) {
        let metrics = "GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
        let began = Instant::now();
        while !Served::ask(&self.operators, metrics).contains(line) {
            assert!(began.elapsed() < Duration::from_secs(60), "{line}");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    fn signal(&self, name: &str) {
        let number = self.child.id().to_string();
        assert!(Command::new("kill").args(["-s", name, &number]).status().unwrap().success());
    }

    fn end(mut self) -> (Option<i32>, Vec<String>) {
        let rest = self.lines.by_ref().map(Result::unwrap).collect();
        (self.child.wait().unwrap().code(), rest)
    }
}

#[test]
fn serve_tells_where_it_listens_and_serves_there() {
    let served = Served::start(&[]);
    let publish = "POST /topics/a HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: 2\r\n\r\nhi";
    let answer = Served::ask(&served.clients, publish);
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    let ready = "GET /readyz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    assert!(Served::ask(&served.operators, ready).starts_with("HTTP/1.1 200 "));
    served.wait_for_metric("\ncrore_messages_appended_total 1\n");
    // The live page may speak to the clients' port, another page may not.
    let origin = |origin: &str| {
        let request = publish.replace("\r\nContent", &format!("\r\nOrigin: {origin}\r\nContent"));
        Served::ask(&served.clients, &request)
    };
    let own = format!("http://{}", served.operators);
    let answer = origin(&own);
    assert!(
        answer.to_lowercase().contains(&format!("access-control-allow-origin: {own}")),
        "{answer}"
    );
    assert!(!origin("http://evil.example").to_lowercase().contains("access-control-allow-origin"));
    served.signal("TERM");
    assert_eq!(served.end().0, Some(0));
}

#[test]
fn signals_end_it_after_a_drain() {
    for (signal, code) in [("TERM", 0), ("INT", 130)] {
        let served = Served::start(&[]);
        served.signal(signal);
        let (found, lines) = served.end();
        assert_eq!(found, Some(code), "{signal}");
        assert!(lines.iter().any(|line| line.contains("drains")), "{lines:?}");
        assert!(lines.iter().any(|line| line.contains("has stopped")), "{lines:?}");
    }
}

/// Manual page and completions are committed for packages.
#[test]
fn what_packages_ship_is_what_the_binary_prints() {
    for (arguments, file) in [
        (&["man"][..], "man/crore.1"),
        (&["completion", "bash"], "completions/crore.bash"),
        (&["completion", "zsh"], "completions/_crore"),
        (&["completion", "fish"], "completions/crore.fish"),
    ] {
        let path = format!("{}/../../deploy/{file}", env!("CARGO_MANIFEST_DIR"));
        let committed = std::fs::read(&path).unwrap_or_default();
        let printed = run(arguments).stdout;
        let words = arguments.join(" ");
        assert!(committed == printed, "run `crore {words} > deploy/{file}`");
    }
}

#[test]
fn a_second_signal_ends_it_at_once() {
    let mut served = Served::start(&["--set", "node.drain_window=1h"]);
    // Somebody is in the middle of a publish, so that the drain lasts.
    let mut stays = TcpStream::connect(&served.clients).unwrap();
    let begun = b"POST /topics/a HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\nunfi";
    stays.write_all(begun).unwrap();
    // A connection that is there, but has not been read, would be taken for an idle one.
    served.wait_for_metric(&format!("\ncrore_received_bytes_total {}\n", begun.len()));
    served.signal("TERM");
    let mut lines = served.lines.by_ref().map(Result::unwrap);
    assert!(lines.any(|line| line.contains("drains")));
    let not_ready = "GET /readyz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    assert!(Served::ask(&served.operators, not_ready).starts_with("HTTP/1.1 503 "));
    let began = Instant::now();
    served.signal("TERM");
    assert_eq!(served.end().0, Some(143));
    assert!(began.elapsed() < Duration::from_secs(60));
}

#[test]
fn json_lines() {
    let mut child = crore(&[
        "serve",
        "--listen",
        "127.0.0.1:0",
        "--admin-listen",
        "127.0.0.1:0",
        "--log-format",
        "json",
    ])
    .stdout(Stdio::piped())
    .spawn()
    .unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    for line in lines {
        let object: serde_json::Value = serde_json::from_str(&line.unwrap()).unwrap();
        assert!(object["time"].as_str().unwrap().ends_with('Z'), "{object}");
        if object["message"] == "ready" {
            break;
        }
    }
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn published_lines_are_heard_and_kept() {
    let mut served = Served::start(&[]);
    let url = format!("ws://{}", served.clients);
    let mut publisher = crore(&["pub", "--url", &url, "--quiet", "--tag", "k=v", "a/b"])
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    publisher.stdin.take().unwrap().write_all(b"one\ntwo\n\nfour").unwrap();
    let code = publisher.wait().unwrap().code();
    assert_eq!(code, Some(0));
    let all = ["one", "two", "", "four"];
    for (arguments, expected) in [
        (&["history", "--json"][..], &all[..]),
        (&["history", "--json", "--reverse", "--limit", "2"], &["four", ""]),
        (&["sub", "--json", "--last", "3", "--count", "3"], &all[1..]),
    ] {
        let mut arguments = arguments.to_vec();
        arguments.extend(["--url", &url, "a/b"]);
        let ended = run(&arguments);
        assert_eq!(ended.status.code(), Some(0), "{ended:?}");
        let messages: Vec<serde_json::Value> = String::from_utf8(ended.stdout)
            .unwrap()
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .filter(|object: &serde_json::Value| object["event"] == "message")
            .collect();
        let data: Vec<&str> =
            messages.iter().map(|object| object["data"].as_str().unwrap()).collect();
        assert_eq!(data, expected, "{arguments:?}");
        assert!(messages.iter().all(|object| object["tags"]["k"] == "v"), "{messages:?}");
    }
    served.child.kill().unwrap();
    served.child.wait().unwrap();
}

#[test]
fn what_history_no_longer_has_is_told() {
    let mut served = Served::start(&[]);
    let url = format!("ws://{}", served.clients);
    check(&["pub", "--url", &url, "a", "kept"], 0, ":1", "");
    // A position of a log that is gone.
    let asked = ["history", "--url", &url, "a", "--since", "1:5"];
    check(&asked, 0, ":1 kept", "gap: a: messages after 1:5 up to");
    let ended = run(&[&asked[..], &["--json"]].concat());
    let said = String::from_utf8(ended.stdout).unwrap();
    let objects: Vec<serde_json::Value> =
        said.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(objects.len(), 2, "{said}");
    assert_eq!(
        (&objects[0]["event"], &objects[0]["from"], &objects[0]["cause"]),
        (&"gap".into(), &"1:5".into(), &"unknown_epoch".into())
    );
    assert_eq!(objects[1]["data"], "kept");
    served.child.kill().unwrap();
    served.child.wait().unwrap();
}

/// The node is killed and restarts with an empty log. Each subscription gets a gap and continues.
#[test]
fn a_node_that_was_killed_is_found_again() {
    // An address that no other test takes, as the port must be free again.
    let mut served = Served::start_at("127.0.77.1:0", &[]);
    let url = format!("ws://{}", served.clients);
    let arguments = ["sub", "--url", &url, "--json", "a/b", "a/+", "quiet"];
    let mut subscriber = crore(&arguments).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(subscriber.stdout.take().unwrap()).lines();
    let mut told = |count: usize, event: &str| -> Vec<serde_json::Value> {
        let mut found = Vec::new();
        while found.len() < count {
            let line = lines.next().unwrap().unwrap();
            let object: serde_json::Value = serde_json::from_str(&line).unwrap();
            if object["event"] == event {
                found.push(object);
            }
        }
        found
    };
    told(3, "subscribed");
    check(&["pub", "--url", &url, "a/b", "before"], 0, "", "");
    let before = told(2, "message");
    served.child.kill().unwrap();
    served.child.wait().unwrap();
    let mut served = Served::start_at(&served.clients, &[]);
    // One for each topic, and one for each partition of the filter.
    let mut gaps: Vec<[String; 3]> = told(2 + 64, "gap")
        .iter()
        .map(|gap| {
            ["filter", "from", "cause"].map(|key| gap[key].as_str().unwrap_or("-").to_owned())
        })
        .collect();
    gaps.sort();
    let last = before[0]["position"].as_str().unwrap();
    let epoch = last.split(':').next().unwrap();
    let of_filter: Vec<[String; 3]> = gaps.drain(..64).collect();
    assert!(of_filter.iter().all(|gap| gap[0] == "a/+" && gap[2] == "unknown_epoch"));
    assert!(of_filter.iter().any(|gap| gap[1] == last));
    assert_eq!(gaps[0], ["a/b", last, "unknown_epoch"]);
    assert_eq!(gaps[1], ["quiet", &format!("{epoch}:0"), "unknown_epoch"]);
    check(&["pub", "--url", &url, "a/b", "after"], 0, "", "");
    assert!(told(2, "message").iter().all(|message| message["data"] == "after"));
    subscriber.kill().unwrap();
    subscriber.wait().unwrap();
    served.child.kill().unwrap();
    served.child.wait().unwrap();
}

/// The whole chain of point 1 of the README, small: a node as a child, subscribers, publishers,
/// figures, summary.
#[test]
fn the_demo_shows_figures_and_ends_with_a_summary() {
    // The default ports are taken, so the demo uses free ones. Another run of this test on the
    // machine could take a default port between the demo's look and its node's start.
    let _default_ports = [8800, 8801].map(|port| TcpListener::bind(("127.0.0.1", port)));
    let mut demo = crore(&["demo", "--clients", "50", "--rate", "100", "--duration", "5m"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(demo.stdout.take().unwrap()).lines().map(Result::unwrap);
    let page = lines.find(|line| line.contains("Live page")).unwrap();
    let operators = page.rsplit("http://").next().unwrap().trim_end_matches('/').to_owned();
    let shown = lines.find(|line| line.contains("50/50") && line.contains("latency min")).unwrap();
    assert!(shown.contains("gaps 0  faults 0"), "{shown}");
    let metrics = "GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    assert!(Served::ask(&operators, metrics).contains("crore_subscriptions 5"));
    let number = demo.id().to_string();
    let children = format!("/proc/{number}/task/{number}/children");
    let children = std::fs::read_to_string(children).unwrap();
    assert_eq!(children.split_whitespace().count(), 1, "{children}");
    assert!(Command::new("kill").args(["-s", "INT", &number]).status().unwrap().success());
    let rest: Vec<String> = lines.collect();
    assert!(
        rest.iter().any(|line| line.contains("Gaps: 0. Lost, repeated or out of order: 0.")),
        "{rest:?}"
    );
    assert_eq!(demo.wait().unwrap().code(), Some(130));
    // The node has ended with the demo.
    let node = format!("/proc/{}", children.trim());
    assert!(!std::fs::exists(node).unwrap());
}

#[test]
fn a_bench_runs_against_a_node() {
    let mut served = Served::start(&[]);
    let url = format!("ws://{}", served.clients);
    let ended = run(&["bench", "pub", "--help"]);
    assert_eq!(ended.status.code(), Some(0));
    let arguments = ["bench", "sub", "--url", &url, "--clients", "20", "--topics", "b/{1..20}"];
    let mut bench = crore(&arguments).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(bench.stdout.take().unwrap()).lines().map(Result::unwrap);
    assert!(lines.next().is_some());
    let number = bench.id().to_string();
    assert!(Command::new("kill").args(["-s", "INT", &number]).status().unwrap().success());
    assert!(lines.count() > 0, "no report");
    assert_eq!(bench.wait().unwrap().code(), Some(130));
    served.child.kill().unwrap();
    served.child.wait().unwrap();
}

#[test]
fn pub_and_history_give_up_on_a_node_that_says_nothing() {
    // The system completes the connect; nothing reads from it.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = &format!("ws://{}", silent.local_addr().unwrap());
    check(
        &["pub", "--url", url, "--timeout", "1", "a", "b"],
        1,
        "",
        &format!("no node answers at {url}: no answer within 1 s"),
    );
    check(
        &["history", "--url", url, "--timeout", "1", "a"],
        1,
        "",
        &format!("no node answers at {url}: no answer within 1 s"),
    );
}

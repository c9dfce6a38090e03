//! The default access of operators, and many connections at their port, which do not block health
//! and metrics.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use end_to_end::curl::{Answer, curl};
use end_to_end::process::{Ended, Process};
use end_to_end::server::{Place, Server};
use end_to_end::tools::crore;

/// A node with defaults, except for its operators' socket, which is in its own folder.
struct Node {
    server: Server,
    socket: PathBuf,
    place: Place,
}

impl Node {
    fn start(more: &str) -> Node {
        let mut place = Place::new("127.0.0.1:0");
        let socket = place.path("o.sock");
        place.configure(&format!("[operators]\nsocket = {socket:?}\n{more}"));
        let server = place.start_by_default();
        Node { server, socket, place }
    }

    fn by_port(&self, path: &str, arguments: &[&str]) -> Answer {
        curl(&[arguments, &[&self.server.operators_url(path)]].concat())
    }

    fn by_socket(&self, path: &str, arguments: &[&str]) -> Answer {
        let socket = self.socket.to_str().expect("a path in UTF-8");
        let url = format!("http://localhost{path}");
        curl(&[&["--unix-socket", socket], arguments, &[&url]].concat())
    }
}

fn run(words: &[&str]) -> Ended {
    Process::start(crore().args(words)).end()
}

#[test]
fn loopback_has_no_rights_by_default() {
    let node = Node::start("");
    for path in ["/livez", "/readyz", "/healthz", "/metrics", "/page.json", "/admin"] {
        node.by_port(path, &[]).expect(200);
    }
    let paths = ["connections", "topics", "rules", "limits", "statistics", "logs", "drain"];
    for path in paths.map(|path| format!("/api/v1/{path}")) {
        node.by_port(&path, &[]).expect_problem(401, "unauthorized");
        node.by_socket(&path, &[]).expect(200);
    }
    let session = node.by_port("/api/v1/session", &[]).expect(200).json();
    assert_eq!(session["may_operate"], false, "{session}");
    // A request passed on by a proxy to the socket has no rights.
    let passed_on = ["-H", "X-Forwarded-For: 192.0.2.1"];
    node.by_socket("/api/v1/topics", &passed_on).expect(401);
    node.by_socket("/api/v1/topics", &["--http1.0"]).expect(401);
    let mode = fs::metadata(&node.socket).expect("the socket").permissions();
    assert_eq!(mode.mode() & 0o777, 0o600);
}

#[test]
fn a_link_logs_one_browser_in() {
    let node = Node::start("");
    let operators = format!("unix:{}", node.socket.display());
    let login = run(&["login", "--operators", &operators]);
    login.assert_success();
    let base = format!("{}/admin#link=", node.server.operators_url(""));
    let secret = login.lines[0].strip_prefix(&base).expect("a link");
    let body = format!("{{\"link\":\"{secret}\"}}");
    let begin = ["-H", "Content-Type: application/json", "-d", &body];
    let begun = node.by_port("/api/v1/session", &begin).expect(204);
    node.by_port("/api/v1/session", &begin).expect_problem(401, "unauthorized");
    let cookie = begun.header("set-cookie").expect("a cookie");
    let cookie = format!("Cookie: {}", cookie.split(';').next().expect("a pair"));
    node.by_port("/api/v1/topics", &["-H", &cookie]).expect(200);
    let own = format!("Origin: {}", node.server.operators_url(""));
    let reload = ["-X", "POST", "-H", "Content-Type: application/json", "-H", &cookie];
    node.by_port("/api/v1/reload", &reload).expect(401);
    node.by_port("/api/v1/reload", &[&reload[..], &["-H", &own]].concat()).expect(200);
}

/// Commands find the socket by the port, or by an argument; it exists in each moment of a live
/// upgrade, replaces the remains of a killed node, and is removed with its node.
#[test]
fn commands_use_the_socket() {
    let mut place = Place::new("127.0.0.1:0");
    let folder = place.path("run");
    let runtime = folder.to_str().expect("a path in UTF-8").to_owned();
    let start = "export RUNTIME_DIRECTORY=\"$1\"; shift; exec \"$@\"";
    let words = ["env", "CRORE_OPERATORS_API_KEY=always", "sh", "-c", start, "sh", &runtime];
    let launched = place.launch_by(&words);
    let server = place.started(launched);
    let port = server.operators.rsplit_once(':').expect("a port").1.to_owned();
    let socket = folder.join(format!("operators-{port}.sock"));
    let ask = |words: &[&str], variable: &str| {
        let mut command = crore();
        command.args(words).env("RUNTIME_DIRECTORY", &folder);
        Process::start(command.env("CRORE_OPERATORS", variable)).end()
    };
    let url = server.operators_url("");
    for words in [&["topic", "list"][..], &["conn", "list"], &["top", "--once"], &["health"]] {
        ask(words, &url).assert_success();
        ask(words, &format!("unix:{}", socket.display())).assert_success();
    }
    // Without a socket, or with another user's: the port requires a key.
    let mut command = crore();
    let refused = Process::start(command.args(["topic", "list", "--operators", &url])).end();
    assert_eq!(refused.status.code(), Some(1), "{refused:?}");
    assert!(refused.lines.join("\n").contains("401"), "{refused:?}");

    let old = server.process.id();
    ask(&["upgrade"], &url).assert_success();
    wait_for_successor(&socket, old);
    let listed = ask(&["topic", "list"], &url);
    listed.assert_success();
    ask(&["drain", "--window", "1s"], &url).assert_success();
    wait_until_gone(&socket);
}

/// Waits until another process listens at the socket. The new process creates the socket after it
/// has become the node.
fn wait_for_successor(socket: &Path, old: u32) {
    let deadline = std::time::Instant::now() + Duration::from_secs(60);
    loop {
        match UnixStream::connect(socket) {
            Ok(stream) => {
                let peer = rustix::net::sockopt::socket_peercred(&stream).expect("the peer");
                if peer.pid.as_raw_nonzero().get().unsigned_abs() != old {
                    return;
                }
            }
            // The old process has ended; its file remains until the new process replaces it.
            Err(error) => assert_eq!(error.kind(), std::io::ErrorKind::ConnectionRefused),
        }
        assert!(std::time::Instant::now() < deadline, "{} is the old one's", socket.display());
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn wait_until_gone(path: &Path) {
    let deadline = std::time::Instant::now() + Duration::from_secs(60);
    while path.exists() {
        assert!(std::time::Instant::now() < deadline, "{} is there", path.display());
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn remains_of_a_killed_node_are_replaced() {
    let mut node = Node::start("");
    node.server.process.signal("KILL");
    drop(node.server);
    assert!(node.socket.exists());
    node.server = node.place.start_by_default();
    node.by_socket("/api/v1/topics", &[]).expect(200);
    // A running node keeps its socket.
    let second = Place::new("127.0.0.1:0");
    second.configure(&format!("[operators]\nsocket = {:?}\n", node.socket));
    let ended = second.launch().end();
    assert_eq!(ended.status.code(), Some(1), "{ended:?}");
    assert!(ended.lines.join("\n").contains("another process"), "{ended:?}");
    node.by_socket("/api/v1/topics", &[]).expect(200);
    node.server.process.signal("TERM");
    node.server.end();
    assert!(!node.socket.exists());
}

/// 1,000 connections with half a head or none: health and metrics are served each time, while these
/// exist.
#[test]
fn half_heads_do_not_block_the_operators_port() {
    let node = Node::start("");
    let mut connections: Vec<TcpStream> = Vec::new();
    for number in 0..1_000 {
        let mut stream = TcpStream::connect(&node.server.operators).expect("room in the backlog");
        if number % 10 != 0 {
            // The server may already have closed it to make room.
            let _ = stream.write_all(b"GET /livez HTTP/1.1\r\nHost: loc");
        }
        connections.push(stream);
    }
    for path in ["/livez", "/readyz", "/healthz", "/metrics"].repeat(5) {
        node.by_port(path, &[]).expect(200);
        node.by_socket(path, &[]).expect(200);
    }
    let files = format!("/proc/{}/fd", node.server.process.id());
    let files = fs::read_dir(files).expect("our child can be read").count();
    assert!(files < 500, "{files} descriptors");
    // The remaining ones are closed in time, without an answer.
    for mut stream in connections {
        stream.set_read_timeout(Some(Duration::from_secs(60))).expect("a timeout");
        let mut rest = Vec::new();
        match stream.read_to_end(&mut rest) {
            Ok(_) => {}
            Err(error) => assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset),
        }
    }
}

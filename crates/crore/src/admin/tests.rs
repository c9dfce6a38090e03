//! The port as a client sees it: real sockets, one request each.

use super::*;
use crate::configuration::{self, Sources, assemble, document};
use crate::logging::{Format, Level, Levels, Log};
use entitlement::notices::Notices;
use entitlement::revocations::Revocations;
use entitlement::{AuthenticatorSettings, TokenAuthenticator};
use node::Node;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Mutex, RwLock};
use std::time::Duration;

struct Port {
    address: SocketAddr,
    is_ready: Arc<AtomicBool>,
    node: SharedNode,
}

/// A node with the default configuration, on free ports.
fn node_of_its_own() -> Node {
    let configuration = configuration::load(&Sources::default()).unwrap();
    let mut options = assemble::node_options(&configuration, 2);
    options.listen = vec!["127.0.0.1:0".parse().unwrap()];
    options.transport.sockets.private_tables = false;
    node::start(options).unwrap()
}

impl Drop for Port {
    fn drop(&mut self) {
        if let Some(node) = self.node.write().unwrap().take() {
            node.stop(Duration::from_secs(60)).unwrap();
        }
    }
}

/// A node that drains when it gets the order, and confirms it.
fn drain() -> draining::Drain {
    let window = Arc::new(Mutex::new(None));
    let begun = Arc::clone(&window);
    draining::Drain {
        begin: Arc::new(move |window_ms| *begun.lock().unwrap() = window_ms.or(Some(5_000))),
        progress: Arc::new(move || {
            let window_ms = *window.lock().unwrap();
            crate::draining::Progress {
                stage: match window_ms {
                    Some(_) => crate::draining::Stage::LeadingAway,
                    None => crate::draining::Stage::Serving,
                },
                window_ms: window_ms.unwrap_or_default(),
                ..Default::default()
            }
        }),
    }
}

impl Port {
    fn open() -> Port {
        Port::open_with(|_| {})
    }

    /// One whose node does something else.
    fn open_with(change: impl FnOnce(&mut Operated)) -> Port {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let is_ready = Arc::new(AtomicBool::new(true));
        let readiness = Arc::clone(&is_ready);
        let node = Arc::new(RwLock::new(Some(node_of_its_own())));
        let mut operated = Operated {
            about: About {
                node_name: "n1".into(),
                clients: vec!["127.0.0.1:8800".parse().unwrap()],
                tls_clients: Vec::new(),
                connections_max: 9,
            },
            access: Access {
                trusts_loopback: true,
                origins: vec!["https://ops.example".into()],
                own_url: format!("http://{address}"),
                sessions: Arc::default(),
                connections_max: 64,
            },
            readiness: Box::new(move || {
                if readiness.load(Ordering::Acquire) {
                    Readiness::Ready
                } else {
                    Readiness::NotReady("draining")
                }
            }),
            metrics: Box::new(|| "# HELP x_total X.\n# TYPE x_total counter\nx_total 1\n".into()),
            revoking: Some(Revoking {
                authenticator: authenticator(),
                data_dir: None,
                changed: Arc::new(|| {}),
                cluster: None,
            }),
            cluster: None,
            logging: logging(),
            drain: drain(),
            node: Arc::clone(&node),
            history: Arc::default(),
            limits: Arc::new(|| {
                document::limits(&configuration::load(&Sources::default()).unwrap())
            }),
            reload: Box::new(reloaded),
            upgrade: Arc::new(|| Err("no upgrade here".into())),
        };
        change(&mut operated);
        let listeners = Listeners { ports: vec![listener], socket: None };
        spawn(listeners, operated).unwrap();
        Port { address, is_ready, node }
    }

    fn ask(&self, line: &str, host: &str) -> String {
        let mut stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        write!(stream, "{line} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }

    fn check(&self, path: &str, status: u16, contains: &str) {
        let answer = self.ask(&format!("GET {path}"), "localhost");
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{path}\n{answer}");
        assert!(answer.contains(contains), "{path}\n{answer}");
        assert!(answer.contains("cache-control: no-store\r\n"), "{path}\n{answer}");
    }
}

fn authenticator() -> Arc<TokenAuthenticator> {
    let (notices, _) = Notices::new();
    let revocations = Revocations::default();
    Arc::new(TokenAuthenticator::new(
        AuthenticatorSettings::default(),
        revocations,
        0,
        None,
        notices,
    ))
}

#[test]
fn health_follows_readiness() {
    let port = Port::open();
    port.check("/livez", 200, "\r\n\r\nalive\n");
    port.check("/readyz", 200, "\r\n\r\nready\n");
    port.check("/healthz", 200, "\"status\":\"ready\"");
    port.is_ready.store(false, Ordering::Release);
    port.check("/livez", 200, "alive");
    port.check("/readyz", 503, "\r\n\r\nnot ready: draining\n");
    port.check("/healthz", 503, "\"status\":\"draining\"");
}

fn logging() -> logs::Logging {
    let log = Log::new(Format::Text, &Levels::new(Level::Info));
    logs::Logging { log, change: Arc::new(move |levels| log.set_levels(levels)) }
}

fn reloaded() -> Result<Reloaded, Faults> {
    Ok(Reloaded {
        changes: vec![crate::configuration::changes::Change {
            key: "node.name".into(),
            old: "\"a\"".into(),
            new: "\"b\"".into(),
            is_in_force: false,
        }],
        certificate: false,
    })
}

#[test]
fn a_reload_needs_a_request_that_no_page_can_make() {
    let port = Port::open();
    let ask = |host: &str| port.ask("POST /api/v1/reload", host);
    assert!(ask("localhost").starts_with("HTTP/1.1 415 "));
    let with_type = "localhost\r\nContent-Type: application/json\r\nContent-Length: 0";
    let answer = ask(with_type);
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    assert!(answer.contains("\"needs_restart\":[\"node.name\"]"), "{answer}");
    let foreign = ask("evil.example\r\nContent-Type: application/json\r\nContent-Length: 0");
    assert!(foreign.starts_with("HTTP/1.1 421 "), "{foreign}");
    for method in ["GET", "OPTIONS"] {
        let answer = port.ask(&format!("{method} /api/v1/reload"), "localhost");
        assert!(answer.starts_with("HTTP/1.1 405 "), "{answer}");
        assert!(answer.contains("\r\nallow: POST\r\n"), "{answer}");
        assert!(answer.contains("\"code\":\"method_not_allowed\""), "{answer}");
    }
}

/// A gate that blocks each caller until it is opened for one of them.
fn gate() -> (impl Fn() + Send + Sync, Receiver<()>, Sender<()>) {
    let (comes, has_come) = channel();
    let (open, is_open) = channel();
    let is_open = Mutex::new(is_open);
    let pass = move || {
        comes.send(()).unwrap();
        // If the test has failed, the sender is gone and the gate never opens.
        let _ = is_open.lock().unwrap().recv();
    };
    (pass, has_come, open)
}

#[test]
fn who_has_to_wait_holds_up_nobody_else() {
    let (pass, has_come, open) = gate();
    let pass = Arc::new(pass);
    let port = Port::open_with(|operated| {
        let [a, b, c, d, e, f] = std::array::from_fn(|_| Arc::clone(&pass));
        operated.reload = Box::new(move || {
            a();
            reloaded()
        });
        operated.metrics = Box::new(move || {
            b();
            String::new()
        });
        operated.readiness = Box::new(move || {
            c();
            Readiness::Ready
        });
        operated.logging.change = Arc::new(move |_| d());
        operated.limits = Arc::new(move || {
            e();
            serde_json::Value::Null
        });
        operated.drain.begin = Arc::new(move |_| f());
    });
    let json = |body: &str| {
        let length = body.len();
        format!(
            "localhost\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}"
        )
    };
    for (line, head) in [
        ("POST /api/v1/reload", json("")),
        ("GET /metrics", "localhost".into()),
        ("GET /readyz", "localhost".into()),
        ("GET /healthz", "localhost".into()),
        ("PUT /api/v1/logging", json(r#"{"levels":{}}"#)),
        ("GET /api/v1/limits", "localhost".into()),
        ("POST /api/v1/drain", json("")),
    ] {
        std::thread::scope(|scope| {
            let answer = scope.spawn(|| port.ask(line, &head));
            has_come.recv().unwrap();
            port.check("/livez", 200, "alive");
            open.send(()).unwrap();
            let answer = answer.join().unwrap();
            assert!(answer.starts_with("HTTP/1.1 20"), "{line}\n{answer}");
        });
    }
}

#[test]
fn what_is_no_number_is_no_revocation() {
    let port = Port::open();
    for id in ["7", "x", "-1", "%ff", "99999999999999999999"] {
        let answer = port.ask(&format!("DELETE /api/v1/revocations/{id}"), "localhost");
        assert!(answer.starts_with("HTTP/1.1 404 "), "{id}\n{answer}");
        assert!(answer.contains("\"code\":\"not_found\""), "{id}\n{answer}");
    }
}

#[test]
fn levels_and_lines() {
    let port = Port::open();
    port.check("/api/v1/logging", 200, "\"access\":\"off\"");
    port.check("/api/v1/logs", 200, "{\"lines\":[],\"next\":0,\"oldest\":1}\n");
    port.check("/api/v1/logs?level=loud", 400, "\"code\":\"bad_request\"");
    let put = |media_type: &str, body: &str| {
        let head = format!(
            "localhost\r\nContent-Type: {media_type}\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        );
        port.ask("PUT /api/v1/logging", &head)
    };
    let body = r#"{"levels":{"access":"info"}}"#;
    assert!(put("text/plain", body).starts_with("HTTP/1.1 415 "));
    assert!(put("application/json", "{}").starts_with("HTTP/1.1 400 "));
    let answer = put("application/json", body);
    assert!(answer.contains("\"access\":\"info\""), "{answer}");
    port.check("/api/v1/logging", 200, "\"access\":\"info\"");
    let told = "\"message\":\"An operator has changed the levels of the log.\"";
    port.check("/api/v1/logs?target=operators", 200, told);
    port.check("/api/v1/logs?after=1", 200, "{\"lines\":[],\"next\":1,\"oldest\":1}\n");
}

#[test]
fn metrics_are_prometheus_text() {
    let port = Port::open();
    port.check("/metrics", 200, "content-type: text/plain; version=0.0.4; charset=utf-8\r\n");
    port.check("/metrics", 200, "\nx_total 1\n");
}

#[test]
fn the_page_comes_with_its_parts_and_a_policy() {
    let port = Port::open();
    port.check("/", 200, "connect-src 'self' ws://127.0.0.1:8800;");
    port.check("/", 200, "<!doctype html>");
    port.check("/page.css", 200, "content-type: text/css");
    port.check("/look.css", 200, "--accent:");
    port.check("/admin/style.css", 200, "content-type: text/css");
    port.check("/admin/", 308, "location: /admin\r\n");
    port.check("/page.js", 200, "content-type: text/javascript");
    port.check("/crore.js", 200, "content-type: text/javascript");
    port.check("/crore.js", 200, "// Generated from sdk/js by ");
    port.check("/page.json", 200, "\"clients\":\"http://127.0.0.1:8800\"");
    port.check("/page.json", 200, "\"node\":\"n1\"");
}

/// The document knows every route of this port, and what it names is there.
#[test]
fn the_document_is_shown() {
    let port = Port::open();
    port.check("/openapi.json", 200, "\"openapi\": \"3.1.0\"");
    let text = port.ask("GET /openapi.json", "localhost");
    let (_, body) = text.split_once("\r\n\r\n").unwrap();
    let document: serde_json::Value = serde_json::from_str(body).unwrap();
    let paths = document["paths"].as_object().unwrap();
    // Paths with required parameters have tests of their own.
    let asks_nothing = |path: &serde_json::Value| {
        let parameters = path["get"]["parameters"].as_array();
        let is_required = |parameter: &serde_json::Value| parameter["required"] == true;
        !parameters.is_some_and(|all| all.iter().any(is_required))
    };
    let of_operators = paths
        .iter()
        .filter(|(_, path)| path["get"]["tags"][0] == "operators" && asks_nothing(path));
    for (path, _) in of_operators {
        let answer = port.ask(&format!("GET {path}"), "localhost");
        // This node is in no cluster.
        let status = if path == "/api/v1/cluster" { 404 } else { 200 };
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{path}\n{answer}");
    }
}

#[test]
fn what_is_not_there() {
    let port = Port::open();
    assert!(port.ask("GET /nothing", "localhost").starts_with("HTTP/1.1 404 "));
    assert!(port.ask("POST /metrics", "localhost").starts_with("HTTP/1.1 405 "));
}

#[test]
fn only_names_of_this_machine_are_answered() {
    let port = Port::open();
    for host in
        ["localhost", "LOCALHOST:8801", "127.0.0.1", "127.1.2.3:8801", "[::1]:8801", "ops.example"]
    {
        assert!(port.ask("GET /livez", host).starts_with("HTTP/1.1 200 "), "{host}");
    }
    for host in ["evil.example", "localhost.evil.example:8801", "10.0.0.1", "[2001:db8::1]", ""] {
        assert!(port.ask("GET /livez", host).starts_with("HTTP/1.1 421 "), "{host}");
    }
}

#[test]
fn without_listeners_nothing_is_served() {
    let operated = Operated {
        about: About {
            node_name: String::new(),
            clients: Vec::new(),
            tls_clients: Vec::new(),
            connections_max: 0,
        },
        access: Access::default(),
        readiness: Box::new(|| Readiness::Ready),
        metrics: Box::new(String::new),
        revoking: None,
        cluster: None,
        logging: logging(),
        drain: drain(),
        node: SharedNode::default(),
        history: Arc::default(),
        limits: Arc::new(|| serde_json::Value::Null),
        reload: Box::new(reloaded),
        upgrade: Arc::new(|| Err("no upgrade here".into())),
    };
    assert!(spawn(Listeners::default(), operated).is_ok());
}

mod inspected;

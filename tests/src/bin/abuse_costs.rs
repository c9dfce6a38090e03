//! Measures the effect of each abuse on others: a well-behaved publisher and subscriber, before and
//! during the abuse; the node's processor time for each refusal; memory. For people:
//! `docs/reliability.md` quotes the table.
//!
//! `abuse_costs [SECONDS]`; the node has the first core for itself, all clients share the others
//! (`taskset`). Abusers do not exceed [`PACE_MAX`], so that the node is the bottleneck of the
//! others.

#![forbid(unsafe_code)]

use std::env;
use std::net::TcpStream;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use end_to_end::raw::Raw;
use end_to_end::served::Served;
use end_to_end::server::{Place, Server};
use end_to_end::tokens::{Issuer, configuration, forged, now_s};
use serde_json::json;

/// The maximum number of all abusers' actions per second.
const PACE_MAX: u64 = 4_000;
/// The duration before the abuse, and of the abuse.
const SECONDS: u64 = 5;

/// An abuser: runs until the end and counts its actions.
type Abuser = fn(&mut Attack<'_>);

/// One abuse.
struct Abuse {
    name: &'static str,
    configuration: &'static str,
    /// Bytes before everything, and header fields of requests, of well-behaved clients.
    healthy: (&'static str, &'static str),
    abuser: Abuser,
}

/// The state of an abuser.
struct Attack<'a> {
    address: &'a str,
    tokens: &'a [String],
    ends: &'a AtomicBool,
    count: &'a AtomicU64,
    began: Instant,
}

const ABUSES: [Abuse; 13] = [
    Abuse {
        name: "connections beyond those of an address",
        configuration: "[limits]\nconnections_per_address_max = 2\n",
        healthy: ("", ""),
        abuser: connects,
    },
    Abuse {
        name: "connects faster than an address may",
        configuration: "[limits]\nconnect_rate_per_address_max = 50\n",
        healthy: ("", ""),
        abuser: connects,
    },
    Abuse {
        name: "connects faster than the node takes them",
        configuration: "[limits]\nconnect_rate_max = 200\n",
        healthy: ("", ""),
        abuser: connects,
    },
    Abuse {
        name: "connections beyond those of a listener",
        configuration: "[listen]\nconnections_max = 2\n",
        healthy: ("", ""),
        abuser: connects,
    },
    Abuse {
        name: "publications, too fast",
        configuration: "[limits]\npublish_rate_max = 200\nerrors_max = \"auto\"\n",
        healthy: ("", ""),
        abuser: |attack| {
            attack.repeat(
                "POST /topics/flood HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\n\r\nx",
            )
        },
    },
    Abuse {
        name: "HTTP requests, too fast",
        configuration: "[http]\nrequests_rate_max = 200\n[limits]\nerrors_max = \"auto\"\n",
        healthy: ("", ""),
        abuser: |attack| attack.repeat("GET /topics/flood HTTP/1.1\r\nHost: localhost\r\n\r\n"),
    },
    Abuse {
        name: "pings, too fast; closed, and again",
        configuration: "[websocket]\nping_rate_max = 20\n",
        healthy: ("", ""),
        abuser: |attack| attack.frames(9, b""),
    },
    Abuse {
        name: "subscriptions to invalid filters, with reconnects",
        configuration: "[limits]\nerrors_max = 50\n",
        healthy: ("", ""),
        abuser: |attack| attack.frames(2, b"\x02\x00\x01\x01\x00\x06a//#/b\x00"),
    },
    Abuse {
        name: "filters beyond those of a session",
        configuration: "[limits]\nfilters_per_session_max = 1\nerrors_max = \"auto\"\n",
        healthy: ("", ""),
        abuser: |attack| attack.frames(2, b"\x02\x00\x01\x01\x00\x03a/+\x00"),
    },
    Abuse {
        name: "PROXY headers that are none",
        configuration: "[listen]\nproxy_protocol = \"required\"\nproxies = [\"127.0.0.1\"]\n",
        healthy: ("PROXY TCP4 192.0.2.1 192.0.2.9 1000 80\r\n", ""),
        abuser: |attack| attack.short("PROXY TCP9 x\r\n"),
    },
    Abuse {
        name: "X-Forwarded-For that is none, and of clients that have too much",
        configuration: "[http]\ntrusted_proxies = [\"127.0.0.1\"]\n[limits]\nconnections_per_address_max = 1\nerrors_max = \"auto\"\n\
                        addresses_exempt = [\"192.0.2.1\"]\n",
        healthy: ("", "X-Forwarded-For: 192.0.2.1\r\n"),
        abuser: |attack| {
            attack.repeat(
                "GET /topics/flood HTTP/1.1\r\nHost: localhost\r\nX-Forwarded-For: \"\r\n\r\n",
            )
        },
    },
    Abuse {
        name: "forged tokens (HS256), each another",
        configuration: TOKENS,
        healthy: ("", ""),
        abuser: shows_tokens,
    },
    Abuse {
        name: "heads that are too long",
        configuration: "",
        healthy: ("", ""),
        abuser: |attack| {
            let head =
                format!("GET / HTTP/1.1\r\nHost: localhost\r\nX: {}\r\n\r\n", "x".repeat(17_000));
            attack.short(&head);
        },
    },
];

/// A placeholder for a configuration with tokens.
const TOKENS: &str = "tokens";

fn main() {
    let seconds = env::args()
        .nth(1)
        .map_or(SECONDS, |word| word.parse().expect("usage: abuse_costs [SECONDS]"));
    let span = Duration::from_secs(seconds);
    clients_elsewhere();
    println!(
        "| abuse | made in a second | processor time of the node, each | median, µs | 99 of 100, µs | slowest, ms | memory |\n\
         |---|---|---|---|---|---|---|"
    );
    for abuse in &ABUSES {
        measure(abuse, span);
    }
}

fn measure(abuse: &Abuse, span: Duration) {
    let mut place = Place::new("127.0.0.1:0");
    let mut fields = abuse.healthy.1.to_owned();
    let mut tokens = Vec::new();
    if abuse.configuration == TOKENS {
        let issuer = Issuer::new(&place, "HS256", "");
        place.configure(&configuration("", &[&issuer]));
        fields = format!("Authorization: Bearer {}\r\n", issuer.token("--all served"));
        tokens = forgeries();
    } else {
        place.configure(abuse.configuration)
    }
    let process = place.launch_by(&["taskset", "-c", "0"]);
    let server = place.started(process);
    let served = Served::begin(&server, abuse.healthy.0.as_bytes(), &fields);
    let quiet = Instant::now();
    thread::sleep(span);
    let memory = server.resident_bytes();
    let (cpu_quiet, began) = (cpu(&server), Instant::now());
    thread::sleep(span);
    let (cpu_before, from) = (cpu(&server), Instant::now());
    let (count, most) = attack(abuse, &server, &tokens, span);
    let (cpu_after, until) = (cpu(&server), Instant::now());
    let all = served.end();
    let before = all.between(quiet, from);
    let during = all.between(from, until);
    // The cost of the well-behaved clients is subtracted.
    let own = cpu_before - cpu_quiet;
    let own = own.mul_f64((until - from).as_secs_f64() / (from - began).as_secs_f64());
    let each = (cpu_after - cpu_before).saturating_sub(own).as_secs_f64() * 1e6 / count as f64;
    println!(
        "| {} | {:.0} | {each:.0} µs | {} → {} | {} → {} | {:.1} → {:.1} | {:+.1} MiB |",
        abuse.name,
        count as f64 / (until - from).as_secs_f64(),
        before.median().as_micros(),
        during.median().as_micros(),
        before.part(99).as_micros(),
        during.part(99).as_micros(),
        before.slowest().as_secs_f64() * 1e3,
        during.slowest().as_secs_f64() * 1e3,
        (most as f64 - memory as f64) / f64::from(1 << 20)
    );
}

/// Runs two abusers for this time; returns the number of their actions, and the node's maximum
/// size.
fn attack(abuse: &Abuse, server: &Server, tokens: &[String], span: Duration) -> (u64, u64) {
    let (ends, count) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let began = Instant::now();
    let mut most = 0;
    thread::scope(|scope| {
        for _ in 0..2 {
            let (ends, count) = (Arc::clone(&ends), Arc::clone(&count));
            let address = server.clients.as_str();
            scope.spawn(move || {
                while !ends.load(Ordering::Acquire) {
                    (abuse.abuser)(&mut Attack {
                        address,
                        tokens,
                        ends: &ends,
                        count: &count,
                        began,
                    });
                }
            });
        }
        while began.elapsed() < span {
            most = most.max(server.resident_bytes());
            thread::sleep(Duration::from_millis(200));
        }
        ends.store(true, Ordering::Release);
    });
    (count.load(Ordering::Relaxed).max(1), most)
}

impl Attack<'_> {
    /// Counts an action. Waits if the pace is too fast; returns whether to continue.
    fn goes_on(&mut self) -> bool {
        let done = self.count.fetch_add(1, Ordering::Relaxed) + 1;
        let due = Duration::from_micros(done * 1_000_000 / PACE_MAX);
        if let Some(early) = due.checked_sub(self.began.elapsed()) {
            thread::sleep(early);
        }
        !self.ends.load(Ordering::Acquire)
    }

    /// Repeats a request on one connection.
    fn repeat(&mut self, request: &str) {
        let mut raw = Raw::connect(self.address);
        loop {
            raw.send(request.as_bytes());
            raw.read_answer();
            if !self.goes_on() {
                return;
            }
        }
    }

    /// Repeats a frame in a session until it is closed.
    fn frames(&mut self, opcode: u8, payload: &[u8]) {
        let mut raw = Raw::web_socket(self.address, "/crore", "crore.v1");
        raw.send_frame(2, b"\x01\x00\x01\x00");
        raw.read_frame();
        loop {
            raw.send_frame(opcode, payload);
            let (answered, _) = raw.read_frame();
            if !self.goes_on() || answered == 8 {
                return;
            }
        }
    }

    /// Sends these bytes on a separate connection.
    fn short(&mut self, bytes: &str) {
        let mut raw = Raw::connect(self.address);
        raw.send(bytes.as_bytes());
        raw.closes_within(Duration::from_secs(1));
        self.goes_on();
    }
}

/// Connects, reads the refusal, and leaves; or leaves without being accepted.
fn connects(attack: &mut Attack<'_>) {
    let address = attack.address.parse().expect("an address");
    if let Ok(stream) = TcpStream::connect_timeout(&address, Duration::from_millis(100)) {
        let _ = stream.set_read_timeout(Some(Duration::from_millis(5)));
        let mut answer = [0; 512];
        let _ = std::io::Read::read(&mut &stream, &mut answer);
    }
    attack.goes_on();
}

/// Presents tokens without a valid signature.
fn shows_tokens(attack: &mut Attack<'_>) {
    let mut raw = Raw::connect(attack.address);
    for token in attack.tokens {
        let request = format!(
            "GET /topics/x HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\n\r\n"
        );
        raw.send(request.as_bytes());
        raw.read_answer();
        if !attack.goes_on() {
            return;
        }
    }
}

/// Tokens of realistic length, signed with the abuser's key.
fn forgeries() -> Vec<String> {
    let claims = |number: u32| {
        json!({
            "sub": format!("user-{number}"), "jti": format!("{number:032x}"), "iat": now_s(), "exp": now_s() + 600,
            "permissions": {"subscribe": ["news/#", "user/{sub}/#"], "publish": ["user/{sub}/out"]},
        })
    };
    let tokens = (0..50).map(|number| forged(&json!({"alg": "HS256"}), &claims(number), &[7; 32]));
    tokens.collect()
}

/// The node's processor time so far.
fn cpu(server: &Server) -> Duration {
    server.process.cpu_time()
}

/// Leaves the first core to the node from now on.
fn clients_elsewhere() {
    let own = std::process::id().to_string();
    let cores = thread::available_parallelism().map_or(2, usize::from);
    let others = format!("1-{}", cores.max(2) - 1);
    let mut taskset = Command::new("taskset");
    let status = taskset.args(["-a", "-c", "-p", &others, &own]).output();
    assert!(status.is_ok_and(|output| output.status.success()), "taskset");
}

//! Connections of a user on the real binary, over all I/O threads: refused clients, unaffected
//! ones, and released slots.

use end_to_end::metrics::Metrics;
use end_to_end::native::{Frame, Native};
use end_to_end::raw::Raw;
use end_to_end::server::Place;
use end_to_end::tools::crore;

const SECRET: &str = "0123456789abcdef0123456789abcdef";
const REFUSED: &str = "crore_limit_refusals_total{limit=\"user_connections\"}";

/// A token of a user, signed with the secret of a place.
fn token(place: &Place, user: &str, further: &[&str]) -> String {
    std::fs::write(place.path("secret"), SECRET).expect("the folder is ours");
    let mut command = crore();
    command
        .args(["token", "gen", "--sub", user, "--all", "#"])
        .args(["--secret-file"])
        .arg(place.path("secret"))
        .args(further);
    let output = command.output().expect("the binary runs");
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).expect("a token is text");
    text.trim().to_owned()
}

/// Requests a page of history with a token; returns the status and the body.
fn ask(raw: &mut Raw, token: &str) -> (u16, String) {
    let head = format!(
        "GET /topics/x HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\n\r\n"
    );
    raw.send(head.as_bytes());
    let head = raw.read_until(b"\r\n\r\n");
    let field = |name: &str| {
        head.lines().find_map(|line| Some(line.to_lowercase().strip_prefix(name)?.to_owned()))
    };
    let length = field("content-length: ").expect("an answer has a length");
    let body = raw.take(length.parse().expect("a number"));
    let status = head.split(' ').nth(1).expect("a status");
    let body = String::from_utf8(body).expect("text");
    (status.parse().expect("a number"), body)
}

#[test]
fn connections_of_a_user_are_limited() {
    let mut place = Place::new("127.0.0.1:0");
    place.configure(&format!(
        "[node]\nio_threads = 2\n[limits]\nconnections_per_user_max = 2\n[entitlement]\nmode = \"tokens\"\nsecret = \"{SECRET}\"\n"
    ));
    let (anna, ben) = (token(&place, "anna", &[]), token(&place, "ben", &[]));
    // Another token of the same user counts with the first.
    let again = token(&place, "anna", &["--jti", "2"]);
    let server = place.start();
    let mut metrics = Metrics::of(&server.operators);
    let connect = || Raw::connect(&server.clients);

    let mut inside: Vec<Raw> = (0..2).map(|_| connect()).collect();
    for (raw, token) in inside.iter_mut().zip([&anna, &again]) {
        assert_eq!(ask(raw, token).0, 200);
    }
    // Many, so that both threads have some.
    for _ in 0..8 {
        let mut raw = connect();
        let (status, body) = ask(&mut raw, &anna);
        assert_eq!(status, 429, "{body}");
        assert!(body.contains("\"code\":\"too_many_connections\""), "{body}");
        // The connection belongs to no user now, and may be used by another one.
        assert_eq!(ask(&mut raw, &ben).0, 200);
        drop(raw);
        metrics.wait_for("crore_connections", |count| count == 2);
    }
    let scrape = metrics.scrape();
    assert_eq!(scrape.number(REFUSED), 8);
    let reached = "crore_limits_hit_total{limit=\"connections_per_user_max\"}";
    assert_eq!(scrape.number(reached), 8);
    // Present connections continue, and one that changes its user releases a slot.
    assert_eq!(ask(&mut inside[0], &again).0, 200);
    let mut waiting = connect();
    assert_eq!(ask(&mut waiting, &anna).0, 429);
    assert_eq!(ask(&mut inside[0], &ben).0, 200);
    assert_eq!(ask(&mut waiting, &anna).0, 200);
    // A session counts from its upgrade on.
    let mut upgrade = connect();
    let head = format!(
        "GET /crore?token={anna} HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nSec-WebSocket-Protocol: crore.v1\r\n\r\n"
    );
    upgrade.send(head.as_bytes());
    let reported = upgrade.read_until(b"\r\n\r\n");
    assert!(reported.starts_with("HTTP/1.1 429 "), "{reported}");
    drop(inside);
    drop(waiting);
    drop(upgrade);
    metrics.wait_for("crore_users", |count| count == 0);
}

#[test]
fn a_token_limits_the_connections_of_its_user() {
    let mut place = Place::new("127.0.0.1:0");
    place.configure(&format!("[entitlement]\nmode = \"tokens\"\nsecret = \"{SECRET}\"\n"));
    let one = token(&place, "anna", &["--connections", "1"]);
    let server = place.start();
    let mut first = Raw::connect(&server.clients);
    assert_eq!(ask(&mut first, &one).0, 200);
    let mut second = Raw::connect(&server.clients);
    assert_eq!(ask(&mut second, &one).0, 429);
    drop(first);
    let mut metrics = Metrics::of(&server.operators);
    metrics.wait_for("crore_users", |count| count == 0);
    assert_eq!(ask(&mut second, &one).0, 200);
}

/// An error code of the protocol.
const TOO_MANY_CONNECTIONS: u64 = 330;

/// Sessions whose first token has no limit count from the renewal that adds one; beyond the limit
/// they continue with their present token.
#[test]
fn a_renewal_brings_the_first_limit() {
    let mut place = Place::new("127.0.0.1:0");
    place.configure(&format!(
        "[node]\nio_threads = 2\n[entitlement]\nmode = \"tokens\"\nsecret = \"{SECRET}\"\n"
    ));
    let unlimited = token(&place, "anna", &["--expires", "never"]);
    let limit = ["--expires", "never", "--connections", "2"];
    let two = token(&place, "anna", &limit);
    let server = place.start();
    let mut metrics = Metrics::of(&server.operators);
    // On any threads: users are counted over all.
    let mut sessions: Vec<Native> =
        (0..4).map(|_| Native::with_token(&server.clients, &unlimited)).collect();
    assert_eq!(metrics.scrape().number("crore_users"), 0);
    let renewed = |request: u64| Frame::Renewed { request, expires_ms: 0 };
    for (session, request) in sessions.iter_mut().zip([1, 2]) {
        session.renew(request, &two);
        assert_eq!(session.next_frame(), renewed(request));
    }
    assert_eq!(metrics.scrape().number("crore_users"), 1);
    for session in &mut sessions[2..] {
        session.renew(3, &two);
        let refused =
            Frame::Error { reference: 1, id: 3, code: TOO_MANY_CONNECTIONS, temporary: true };
        assert_eq!(session.next_frame(), refused);
        session.publish(4, "a", "the old one holds");
        assert_eq!(session.next_frame(), Frame::Published(4));
    }
    let mut further = Raw::connect(&server.clients);
    assert_eq!(ask(&mut further, &two).0, 429);
    assert_eq!(metrics.scrape().number(REFUSED), 3);
    // The third one takes the slot of a closed one.
    drop(sessions.remove(0));
    metrics.wait_for("crore_sessions{protocol=\"native\"}", |count| count == 3);
    sessions[1].renew(5, &two);
    assert_eq!(sessions[1].next_frame(), renewed(5));
    drop(further);
    drop(sessions);
    metrics.wait_for("crore_users", |count| count == 0);
}

//! The end and the renewal of entitlements, on the real binary: expiry with an advance notice,
//! renewal over the live connection, and resume tickets with their client's identity. Revocations:
//! `entitlement_revocations.rs`.

use std::fs;

use end_to_end::curl::curl;
use end_to_end::event_stream::EventStream;
use end_to_end::metrics::Metrics;
use end_to_end::native::{Frame, Native, Opening};
use end_to_end::process::Process;
use end_to_end::server::Server;
use end_to_end::tokens::{now_s, revoke, started};
use end_to_end::tools::crore;
use serde_json::json;

/// The lifetime of a token whose expiry is tested: long enough for the preceding steps on a slow
/// machine.
const LIFETIME_S: u64 = 15;
/// The node's settings: clients receive a notice this long before the expiry.
const SHORT: &str = "leeway = \"0s\"\nnotice_before = \"5s\"\n";
const FORBIDDEN: u64 = 202;
const REVOKED: u64 = 205;

fn assert_subscribed(frame: &Frame) {
    assert!(matches!(frame, Frame::Subscribed { .. }), "{frame:?}");
}

/// The next frame, apart from notices of expiry and positions of filters, which arrive regularly.
fn next(native: &mut Native) -> Frame {
    loop {
        match native.next_frame() {
            Frame::TokenExpires(_) | Frame::CaughtUp(_) => {}
            other => return other,
        }
    }
}

/// Notice in advance, refusals after the expiry, close by the sweep: sessions, event streams, long
/// polls and echoes.
#[test]
fn connections_end_with_their_token() {
    let (_place, issuer, server) = started(SHORT);
    let (expires_s, claims) = (
        now_s() + LIFETIME_S,
        |exp: u64| json!({"sub": "anna", "exp": exp, "permissions": {"all": ["#"]}}),
    );
    let token = issuer.sign(&claims(expires_s));
    let lasting = Native::with_token(&server.clients, &issuer.sign(&claims(expires_s + 600)));
    let mut native = Native::with_token(&server.clients, &token);
    assert_subscribed(&native.subscribe_one(1, "news"));
    let mut events =
        EventStream::open(&server.url(&format!("/topics/news?token={token}")), 1, None);
    let poll = server.url(&format!("/topics/news?wait=60s&token={token}"));
    let poll = std::thread::spawn(move || curl(&[&poll]));
    let mut metrics = Metrics::of(&server.operators);
    let polls = "crore_sessions{protocol=\"long_poll\"}";
    metrics.wait_for(polls, |count| count == 1);

    assert_eq!(native.next_frame(), Frame::TokenExpires(expires_s * 1_000));
    let event = events.next_event();
    assert_eq!(event.name, "crore.token_expires");
    assert!(event.data.contains(&(expires_s * 1_000).to_string()), "{event:?}");
    // Until then everything continues.
    native.publish(2, "elsewhere", "x");
    assert_eq!(native.next_frame(), Frame::Published(2));

    assert_eq!(native.next_frame(), Frame::Closed(3007));
    assert!(now_s() >= expires_s);
    poll.join().expect("an answer").expect_problem(401, "token_expired");
    curl(&[&server.url(&format!("/topics/news?token={token}"))])
        .expect_problem(401, "token_expired");
    let scrape = metrics.wait_for("crore_tokens_expired_total", |count| count == 3);
    assert_eq!(scrape.number("crore_sessions{protocol=\"native\"}"), 1);
    drop(lasting);
}

#[test]
fn a_session_renews_its_token_without_a_reconnect() {
    let (_place, issuer, server) = started("");
    let first = issuer.token("--sub anna --expires 10m --subscribe a --subscribe b/# --publish #");
    let mut native = Native::with_token(&server.clients, &first);
    for (number, filter) in [(1, "a"), (2, "b/1"), (3, "b/+")] {
        assert_subscribed(&native.subscribe_one(number, filter));
    }
    // An invalid token, or one of another client, changes nothing.
    native.renew(4, "x.y.z");
    let answer = next(&mut native);
    assert!(matches!(answer, Frame::Error { reference: 1, id: 4, code: 200, .. }), "{answer:?}");
    native.renew(5, &issuer.token("--sub ben --subscribe #"));
    let answer = next(&mut native);
    assert!(matches!(answer, Frame::Error { id: 5, code: FORBIDDEN, .. }), "{answer:?}");
    native.publish(6, "a", "before");
    assert_eq!(next(&mut native), Frame::Published(6));
    let message = next(&mut native);
    assert!(matches!(message, Frame::Message { subscription: Some(1), .. }), "{message:?}");

    // A token with fewer permissions: subscriptions beyond them end before it is accepted.
    let second = issuer.token("--sub anna --expires never --subscribe a --publish b/#");
    native.renew(7, &second);
    let mut ended = Vec::new();
    loop {
        match next(&mut native) {
            Frame::Unsubscribed { subscription, code: 2000 } => ended.push(subscription),
            Frame::Renewed { request: 7, expires_ms: 0 } => break,
            other => panic!("{other:?}"),
        }
    }
    ended.sort_unstable();
    assert_eq!(ended, [2, 3]);
    native.publish(8, "b/1", "nobody listens");
    assert_eq!(next(&mut native), Frame::Published(8));
    native.publish(9, "a", "x");
    let answer = next(&mut native);
    assert!(matches!(answer, Frame::Error { id: 9, code: FORBIDDEN, .. }), "{answer:?}");
    let mut other = Native::with_token(&server.clients, &first);
    other.publish(1, "a", "after");
    let message = next(&mut native);
    assert!(
        matches!(&message, Frame::Message { subscription: Some(1), payload, .. } if payload == "after"),
        "{message:?}"
    );
    let scrape = Metrics::of(&server.operators).scrape();
    assert_eq!(scrape.number("crore_renewals_total"), 1);
}

/// `crore sub` continues beyond the expiry of its token: the file has another one by then.
#[test]
fn a_token_file_is_read_again() {
    let (place, issuer, server) = started(SHORT);
    let file = place.path("token");
    let exp = now_s() + LIFETIME_S;
    let claims = |exp: u64| json!({"sub": "anna", "exp": exp, "permissions": {"all": ["news"]}});
    let first = issuer.sign(&claims(exp));
    let write = |token: &str| fs::write(&file, token).expect("the folder is ours");
    write(&first);
    let mut command = crore();
    command.args(["sub", "--json", "--url", &server.ws_url(""), "news", "--token-file"]);
    let mut sub = Process::start(command.arg(&file));
    let mut metrics = Metrics::of(&server.operators);
    metrics.wait_for("crore_subscriptions", |count| count == 1);
    // A second client with the same token does not renew it: its close shows that the token has
    // expired.
    let mut beside = Native::with_token(&server.clients, &first);
    let second = issuer.sign(&claims(exp + 3_600));
    write(&second);
    metrics.wait_for("crore_renewals_total", |count| count == 1);
    assert_eq!(next(&mut beside), Frame::Closed(3007));
    let mut publisher = Native::with_token(&server.clients, &second);
    publisher.publish(1, "news", "after the end");
    assert_eq!(publisher.next_frame(), Frame::Published(1));
    sub.wait_for("the message", |line| line.contains("after the end").then_some(()));
    // The first client never disconnected.
    assert_eq!(metrics.scrape().number("crore_connections_accepted_total"), 3);
}

fn ticket_of(native: &mut Native) -> Vec<u8> {
    native.ask_ticket();
    match native.next_frame() {
        Frame::Ticket(ticket) => ticket,
        other => panic!("{other:?}"),
    }
}

fn come_back(server: &Server, ticket: &[u8], token: Option<&str>) -> (Native, Frame) {
    let opening = Opening { ticket: Some((ticket, &[])), token, ..Opening::default() };
    let mut native = Native::open(&server.clients, &opening);
    let first = native.next_frame();
    (native, first)
}

/// A resume needs no token, over a restart too: the ticket contains the client's identity and
/// permissions.
#[test]
fn tickets_contain_the_identity_of_their_client() {
    let (mut place, issuer, server) = started("");
    let token = issuer.token("--sub anna --jti 1 --subscribe user/{sub}/# --publish user/{sub}/#");
    let mut native = Native::with_token(&server.clients, &token);
    assert_subscribed(&native.subscribe_one(1, "user/anna/a"));
    let ticket = ticket_of(&mut native);
    server.process.signal("KILL");
    let _ = server.end();
    let server = place.start();
    let (mut native, welcome) = come_back(&server, &ticket, None);
    assert!(matches!(welcome, Frame::Welcome { resumed: Some(1), .. }), "{welcome:?}");
    while !matches!(native.next_frame(), Frame::Subscribed { .. }) {}
    native.publish(2, "user/ben/a", "x");
    let mut answer = native.next_frame();
    while matches!(answer, Frame::Gap { .. } | Frame::CaughtUp(_)) {
        answer = native.next_frame();
    }
    assert!(matches!(answer, Frame::Error { code: FORBIDDEN, id: 2, .. }), "{answer:?}");
    native.publish(3, "user/anna/a", "mine");
    assert_eq!(native.next_frame(), Frame::Published(3));

    // With the token of another client: the ticket is refused, the token accepted.
    let ben = issuer.token("--sub ben --all #");
    let (mut native, welcome) = come_back(&server, &ticket, Some(&ben));
    assert!(matches!(welcome, Frame::Welcome { resumed: None, .. }), "{welcome:?}");
    let refused = native.next_frame();
    assert!(matches!(refused, Frame::Error { reference: 0, code: 204, .. }), "{refused:?}");

    // With a narrower token of the same client: subscriptions beyond it are refused one by one.
    let narrow = issuer.token("--sub anna --subscribe other");
    let (mut native, welcome) = come_back(&server, &ticket, Some(&narrow));
    assert!(matches!(welcome, Frame::Welcome { .. }), "{welcome:?}");
    let refused = native.next_frame();
    assert!(
        matches!(refused, Frame::Error { reference: 2, id: 1, code: FORBIDDEN, .. }),
        "{refused:?}"
    );

    // The ticket is revoked with its token.
    revoke(&server, "{\"jti\": \"1\"}").expect(201);
    let (mut native, refused) = come_back(&server, &ticket, None);
    assert!(matches!(refused, Frame::Error { code: REVOKED, .. }), "{refused:?}");
    assert_eq!(native.next_frame(), Frame::Closed(3507));
}

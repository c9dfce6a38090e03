//! Revocations on the real binary: immediate for connected and new clients, permanent over `kill
//! -9`, cancellable; and unreadable revocation files.

use std::fs;

use end_to_end::curl::curl;
use end_to_end::event_stream::EventStream;
use end_to_end::metrics::Metrics;
use end_to_end::native::{Frame, Native, Opening};
use end_to_end::process::{Process, with_input};
use end_to_end::server::{Place, Server};
use end_to_end::tokens::{Issuer, configuration, now_s, revoke, started};
use end_to_end::tools::crore;
use serde_json::json;

const REVOKED: u64 = 205;

/// Checks whether a credential counts as revoked.
#[track_caller]
fn assert_revoked(server: &Server, token: &str, is_revoked: bool) {
    let answer = curl(&[&server.url(&format!("/topics/news?token={token}"))]);
    if is_revoked {
        drop(answer.expect_problem(401, "token_revoked"))
    } else {
        drop(answer.expect(200))
    }
}

/// Revocations by `jti`, by `sub`, by time: immediately for live connections and new ones, and over
/// `kill -9`.
#[test]
fn revocations_take_effect_at_once_and_survive_a_kill() {
    let (mut place, issuer, server) = started("");
    let anna = issuer.token("--sub anna --jti 7d1c --all #");
    let other = issuer.token("--sub anna --jti 7d1d --all #");
    let ben = issuer.token("--sub ben --all #");
    let carl = issuer.token("--sub carl --all #");
    let connect = |token: &str| Native::with_token(&server.clients, token);
    let mut sessions = [&anna, &other, &ben, &carl].map(|token| connect(token));
    sessions[0].publish(1, "news", "x");
    assert_eq!(sessions[0].next_frame(), Frame::Published(1));
    let _events = EventStream::open(&server.url(&format!("/topics/news?token={anna}")), 1, None);

    let made = revoke(&server, "{\"jti\": \"7d1c\"}").expect(201).json();
    assert!(made["id"].is_u64(), "{made}");
    assert_eq!(sessions[0].next_frame(), Frame::Closed(3507));
    let scrape = Metrics::of(&server.operators).wait_for("crore_revoked_total", |count| count == 2);
    assert_eq!(scrape.number("crore_revocations"), 1);
    assert_revoked(&server, &anna, true);
    assert_revoked(&server, &other, false);
    // A renewal does not restore it.
    sessions[1].renew(2, &anna);
    let answer = sessions[1].next_frame();
    assert!(matches!(answer, Frame::Error { id: 2, code: REVOKED, .. }), "{answer:?}");
    let mut late =
        Native::open(&server.clients, &Opening { token: Some(&anna), ..Opening::default() });
    assert!(matches!(late.next_frame(), Frame::Error { code: REVOKED, .. }));
    assert_eq!(late.next_frame(), Frame::Closed(3507));

    let mut command = crore();
    command.args(["token", "revoke", "--sub", "ben", "--issued-before"]);
    let until = (now_s() + 60).to_string();
    Process::start(command.args([&until, "--url", &server.operators_url("")]))
        .end()
        .assert_success();
    assert_eq!(sessions[2].next_frame(), Frame::Closed(3507));
    sessions[1].publish(3, "news", "x");
    assert_eq!(sessions[1].next_frame(), Frame::Published(3));

    server.process.signal("KILL");
    let _ = server.end();
    let server = place.start();
    for (token, is_revoked) in [(&anna, true), (&other, false), (&ben, true), (&carl, false)] {
        assert_revoked(&server, token, is_revoked);
    }
    let list = curl(&[&server.operators_url("/api/v1/revocations")]).expect(200).json();
    let all = list["revocations"].as_array().expect("a list");
    assert_eq!(all.len(), 2, "{list}");

    // All tokens.
    let mut carls = Native::with_token(&server.clients, &carl);
    revoke(&server, &format!("{{\"issued_before\": {until}}}")).expect(201);
    assert_eq!(carls.next_frame(), Frame::Closed(3507));
    for token in [&other, &carl] {
        assert_revoked(&server, token, true);
    }
    // Cancelled, also after a restart.
    for revocation in curl(&[&server.operators_url("/api/v1/revocations")]).json()["revocations"]
        .as_array()
        .expect("a list")
    {
        let path = format!("/api/v1/revocations/{}", revocation["id"]);
        curl(&["-X", "DELETE", &server.operators_url(&path)]).expect(204);
    }
    assert_revoked(&server, &carl, false);
    server.process.signal("KILL");
    let _ = server.end();
    assert_revoked(&place.start(), &anna, false);
}

/// An unreadable file of revocations stops the start, whatever the fault.
#[test]
fn unreadable_revocations_stop_the_start() {
    let (place, _, server) = started("");
    revoke(&server, "{\"sub\": \"anna\"}").expect(201);
    server.process.signal("KILL");
    let _ = server.end();
    let file = place.path("data/revocations.json");
    let kept = fs::read(&file).expect("it was kept");
    fs::write(&file, &kept[..kept.len() / 2]).expect("the folder is ours");
    let ended = place.launch().end();
    assert!(!ended.status.success(), "{ended:?}");
    let said = ended.lines.join("\n");
    assert!(said.contains("revocations.json"), "{said}");
}

/// Without a data directory they end with the process, and the start logs that; requests must be
/// JSON.
#[test]
fn revocations_without_a_directory_end_with_the_process() {
    let mut place = Place::new("127.0.0.1:0");
    let issuer = Issuer::new(&place, "HS256", "");
    place.configure(&configuration("", &[&issuer]));
    let server = place.start();
    let token = issuer.token("--sub anna --all #");
    let url = server.operators_url("/api/v1/revocations");
    curl(&["-d", "{\"sub\": \"anna\"}", &url]).expect_problem(415, "unsupported_media_type");
    for body in ["", "{}", "[]", "{\"jti\": 7}", "{\"sub\": \"anna\", \"x\": 1}"] {
        revoke(&server, body).expect_problem(400, "bad_request");
    }
    let long = format!("{{\"sub\": \"{}\"}}", "x".repeat(20_000));
    revoke(&server, &long).expect_problem(413, "body_too_large");
    assert_revoked(&server, &token, false);
    revoke(&server, "{\"sub\": \"anna\"}").expect(201);
    assert_revoked(&server, &token, true);
    // A later token is not affected.
    let later =
        issuer.sign(&json!({"sub": "anna", "iat": now_s() + 4, "permissions": {"all": ["#"]}}));
    assert_revoked(&server, &later, false);
    server.process.signal("TERM");
    let lines = server.end().lines;
    let says = |line: &String| line.to_lowercase().contains("revocations");
    assert!(lines.iter().any(says), "{lines:#?}");
}

/// `crore token check` knows the revocations, too: the same configuration leads to the same file.
#[test]
fn a_check_knows_revocations() {
    let (place, issuer, server) = started("");
    let token = issuer.token("--sub anna --jti 9 --subscribe news/#");
    let check = |expected: (i32, &str)| {
        let mut command = crore();
        command.args(["token", "check", "--config"]).arg(place.path("crore.toml"));
        let output = with_input(&mut command, token.as_bytes());
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert_eq!(output.status.code(), Some(expected.0), "{text}");
        assert!(text.starts_with(expected.1), "{text}");
    };
    check((0, "valid"));
    revoke(&server, "{\"jti\": \"9\"}").expect(201);
    check((1, "refused (token_revoked)"));
}

//! Keys and issuers on the real binary: an operator can end everything signed by a key, and equal
//! subjects of two issuers are two users.

use end_to_end::curl::curl;
use end_to_end::native::{Frame, Native, Opening};
use end_to_end::process::{Process, with_input};
use end_to_end::server::{Place, Server};
use end_to_end::tokens::{Issuer, configuration, revoke};
use end_to_end::tools::crore;
use serde_json::{Value, json};

const UNAUTHORIZED: u64 = 200;
const TICKET_REFUSED: u64 = 204;
const REVOKED: u64 = 205;

fn with_data(place: &Place, rest: &str) -> String {
    format!("[node]\ndata_dir = {:?}\n{rest}", place.path("data"))
}

/// A session with a subscription, and its ticket.
fn session(server: &Server, token: &str) -> (Native, Vec<u8>) {
    let mut native = Native::with_token(&server.clients, token);
    native.subscribe_one(1, "news");
    native.ask_ticket();
    match native.next_frame() {
        Frame::Ticket(ticket) => (native, ticket),
        other => panic!("{other:?}"),
    }
}

/// The answer to a ticket without a token.
fn resumed(server: &Server, ticket: &[u8]) -> (Native, Frame) {
    let opening = Opening { ticket: Some((ticket, &[])), ..Opening::default() };
    let mut native = Native::open(&server.clients, &opening);
    let answer = native.next_frame();
    (native, answer)
}

#[track_caller]
fn assert_resumes(server: &Server, ticket: &[u8]) -> Native {
    let (native, answer) = resumed(server, ticket);
    let is_resumed = matches!(answer, Frame::Welcome { resumed: Some(1), .. });
    assert!(is_resumed, "{answer:?}");
    native
}

/// The ticket may be accepted within the turn, and is then checked against the revocations.
#[track_caller]
fn assert_does_not_resume(server: &Server, ticket: &[u8]) {
    let (mut native, mut answer) = resumed(server, ticket);
    while answer != Frame::Closed(3507) {
        let may_come = matches!(
            answer,
            Frame::Welcome { .. } | Frame::Subscribed { .. } | Frame::Error { code: REVOKED, .. }
        );
        assert!(may_come, "{answer:?}");
        answer = native.next_frame();
    }
}

fn assert_key_revoked(server: &Server, token: &str) {
    let url = server.url(&format!("/topics/news?token={token}"));
    curl(&[&url]).expect_problem(401, "token_revoked");
}

fn reload(server: &mut Server) {
    server.process.skip_lines();
    server.process.signal("HUP");
    server.process.wait_for("the reload", |line| line.contains("was reloaded").then_some(()));
}

/// The key's name in the output of `crore token check`.
fn thumbprint(place: &Place, token: &str) -> String {
    let mut command = crore();
    command.args(["token", "check", "--config"]).arg(place.path("crore.toml"));
    let output = with_input(&mut command, token.as_bytes());
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let key = text.lines().find_map(|line| line.strip_prefix("key "));
    let words = key.expect("the key").split_whitespace();
    words.last().expect("a thumbprint").to_owned()
}

/// The key is stolen, and removed at once; then everything that it signed is ended: sessions,
/// tickets, and tokens after its return; over a live upgrade and a kill.
#[test]
fn everything_signed_by_a_removed_key_can_be_ended() {
    let mut place = Place::new("127.0.0.1:0");
    let stolen = Issuer::new(&place, "EdDSA", "2026-01");
    let nameless = Issuer::new(&place, "HS256", "");
    let good = Issuer::new(&place, "ES256", "2026-02");
    let all = configuration("", &[&stolen, &nameless, &good]);
    place.configure(&with_data(&place, &all));
    let mut server = place.start();
    let tokens = [&stolen, &nameless, &good].map(|by| by.token("--sub anna --all #"));
    let name = thumbprint(&place, &tokens[1]);
    assert!(name.len() == 16 && thumbprint(&place, &tokens[0]).len() == 16);
    let [(mut forged, ticket), (mut other, other_ticket), (mut kept, kept_ticket)] =
        [0, 1, 2].map(|at| session(&server, &tokens[at]));

    place.configure(&with_data(&place, &configuration("", &[&good])));
    reload(&mut server);
    // The connected client stays, and can resume.
    let mut back = assert_resumes(&server, &ticket);
    assert!(matches!(back.next_frame(), Frame::Subscribed { .. }));
    let successor = server.process.upgrade();

    let mut command = crore();
    command.args(["token", "revoke", "--key", "2026-01"]);
    let done = Process::start(command.args(["--url", &server.operators_url("")])).end();
    done.assert_success();
    for session in [&mut forged, &mut back] {
        assert_eq!(session.next_frame(), Frame::Closed(3507));
    }
    assert_does_not_resume(&server, &ticket);
    drop(assert_resumes(&server, &other_ticket));
    let made = revoke(&server, &json!({"kid": name}).to_string()).expect(201);
    assert_eq!(made.json()["kid"], Value::from(name), "{made:?}");
    assert_eq!(other.next_frame(), Frame::Closed(3507));
    assert_does_not_resume(&server, &other_ticket);
    kept.publish(7, "news", "x");
    let frames = [kept.next_frame(), kept.next_frame()];
    assert!(frames.contains(&Frame::Published(7)), "{frames:?}");

    // Another upgrade, a kill, and the keys are configured again: nothing signed by them is valid.
    let successor = successor.upgrade(&mut server.process);
    assert_does_not_resume(&server, &ticket);
    successor.kill(server);
    place.configure(&with_data(&place, &all));
    let server = place.start();
    for ticket in [&ticket, &other_ticket] {
        assert_does_not_resume(&server, ticket);
    }
    for token in &tokens[..2] {
        assert_key_revoked(&server, token);
    }
    drop(assert_resumes(&server, &kept_ticket));
}

/// They share neither the limit of a user's connections, nor tickets, nor revocations; and the key
/// of one issuer is not valid for the other.
#[test]
fn a_subject_of_two_issuers_is_two_users() {
    let mut place = Place::new("127.0.0.1:0");
    let issuers = ["a", "b"].map(|name| Issuer::new(&place, "HS256", name));
    let names = ["https://a.example", "https://b.example"];
    let tables: String = issuers
        .iter()
        .zip(names)
        .map(|(issuer, name)| format!("{}issuer = {name:?}\n", issuer.table()))
        .collect();
    let section = format!("[entitlement]\nmode = \"tokens\"\nissuers = {names:?}\n");
    let limits = "[limits]\nconnections_per_user_max = 1\n";
    place.configure(&with_data(&place, &format!("{limits}{section}{tables}")));
    let server = place.start();
    let token = |key: usize, issuer: usize, id: &str| {
        let flags = format!("--sub anna --all # --issuer {} --jti {id}", names[issuer]);
        issuers[key].token(&flags)
    };
    let (mut of_a, ticket) = session(&server, &token(0, 0, "1"));
    let (mut of_b, _) = session(&server, &token(1, 1, "1"));
    let open = |token: &str, ticket: Option<&[u8]>| {
        let opening = Opening {
            token: Some(token),
            ticket: ticket.map(|ticket| (ticket, &[][..])),
            ..Opening::default()
        };
        Native::open(&server.clients, &opening)
    };
    for (key, issuer) in [(0, 0), (1, 1)] {
        let mut second = open(&token(key, issuer, "2"), None);
        assert!(matches!(second.next_frame(), Frame::Error { .. }));
        assert_eq!(second.next_frame(), Frame::Closed(3009));
    }
    for (key, issuer) in [(0, 1), (1, 0)] {
        let mut forged = open(&token(key, issuer, "3"), None);
        let answer = forged.next_frame();
        let is_refused = matches!(answer, Frame::Error { code: UNAUTHORIZED, .. });
        assert!(is_refused, "{answer:?}");
    }

    revoke(&server, r#"{"sub": "anna", "iss": "https://a.example"}"#).expect(201);
    assert_eq!(of_a.next_frame(), Frame::Closed(3507));
    of_b.publish(9, "news", "still");
    let frames = [of_b.next_frame(), of_b.next_frame()];
    assert!(frames.contains(&Frame::Published(9)), "{frames:?}");
    // Another user cannot use the ticket.
    drop(of_b);
    let mut thief = loop {
        let mut native = open(&token(1, 1, "4"), Some(&ticket));
        match native.next_frame() {
            // The end of the previous session has not arrived there yet.
            Frame::Error { code, .. } if code != TICKET_REFUSED => {}
            Frame::Welcome { resumed: None, .. } => break native,
            other => panic!("{other:?}"),
        }
    };
    let answer = thief.next_frame();
    let is_refused = matches!(answer, Frame::Error { code: TICKET_REFUSED, .. });
    assert!(is_refused, "{answer:?}");
    revoke(&server, r#"{"sub": "anna"}"#).expect(201);
    assert_eq!(thief.next_frame(), Frame::Closed(3507));
}

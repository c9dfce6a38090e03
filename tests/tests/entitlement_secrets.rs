//! Secrets never leave the node: no log line, metric or answer contains any part of a presented
//! credential, whether it is accepted or refused.

use std::fs;

use end_to_end::curl::curl;
use end_to_end::native::{Frame, Native, Opening};
use end_to_end::process::Process;
use end_to_end::raw::Raw;
use end_to_end::server::{Place, Server};
use end_to_end::tokens::{ApiKey, Issuer, configuration};
use end_to_end::tools::crore;
use serde_json::json;

/// The secrets that must not appear anywhere.
#[derive(Default)]
struct Secrets(Vec<String>);

impl Secrets {
    /// Adds the parts of a token: header, claims, signature.
    fn add(&mut self, secret: &str) {
        let parts = secret.split('.').filter(|part| part.len() >= 16);
        self.0.extend(parts.map(str::to_owned));
    }

    #[track_caller]
    fn check(&self, place: &str, text: &str) {
        assert!(!self.0.is_empty());
        for secret in &self.0 {
            // A piece of it would already be a leak.
            let piece = &secret[secret.len() / 2..][..8];
            for part in [secret.as_str(), piece] {
                assert!(!text.contains(part), "{part} in {place}:\n{text}");
            }
        }
    }
}

/// Presents a credential in every place, of valid and invalid requests.
fn show(server: &Server, secrets: &Secrets, credential: &str) {
    let lines = [
        format!("GET /topics/news?token={credential} HTTP/1.1\r\nHost: localhost\r\n\r\n"),
        format!(
            "GET /topics/news HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {credential}\r\n\r\n"
        ),
        format!("GET /topics/news HTTP/1.1\r\nHost: localhost\r\nX-API-Key: {credential}\r\n\r\n"),
        format!("GET /nowhere?token={credential} HTTP/1.1\r\nHost: localhost\r\n\r\n"),
        format!("GET /topics/{credential}/# HTTP/1.1\r\nHost: localhost\r\n\r\n"),
        format!("GET /topics/news?token={credential} HTTP/9.9\r\nHost: localhost\r\n\r\n"),
        format!("{credential} / HTTP/1.1\r\nHost: localhost\r\n\r\n"),
        format!("GET / HTTP/1.1\r\nHost: localhost\r\nAuthorization : Bearer {credential}\r\n\r\n"),
        format!(
            "GET / HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {credential}\r\nX-API-Key: {credential}\r\n\r\n"
        ),
        format!(
            "POST /publish?token={credential} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n\r\n{{]"
        ),
        format!(
            "GET /topics/news?token={credential}&since={credential} HTTP/1.1\r\nHost: localhost\r\n\r\n"
        ),
    ];
    for line in &lines {
        let mut raw = Raw::connect(&server.clients);
        raw.send(line.as_bytes());
        raw.send(b"GET /end HTTP/1.0\r\n\r\n");
        secrets.check("an answer", &raw.read_to_close());
    }
    for (query, fields) in [
        (format!("?token={credential}"), String::new()),
        (String::new(), format!("Authorization: Bearer {credential}\r\n")),
    ] {
        let path = format!("/crore{query}");
        let (raw, head) = Raw::upgrade(&server.clients, &path, "crore.v1", &fields);
        secrets.check("an upgrade's answer", &head);
        drop(raw);
    }
    let opening = Opening { token: Some(credential), ..Opening::default() };
    let mut native = Native::open(&server.clients, &opening);
    if matches!(native.next_frame(), Frame::Welcome { .. }) {
        native.renew(1, credential);
        let _ = native.next_frame();
        native.subscribe_one(2, "a");
    }
    // Malformed frames that contain it.
    let mut raw = Raw::web_socket(&server.clients, "/crore", "crore.v1");
    raw.send_frame(2, &[b"\x7f\x00", credential.as_bytes()].concat());
    let _ = raw.close_code();
}

/// Requests a ticket with a token, and resumes with it.
fn show_ticket(server: &Server, secrets: &mut Secrets, token: &str) {
    // A ticket is as sensitive as a token.
    let mut native = Native::with_token(&server.clients, token);
    native.subscribe_one(1, "news");
    native.ask_ticket();
    let Frame::Ticket(ticket) = native.next_frame() else {
        panic!("a ticket was expected");
    };
    secrets.add(&end_to_end::tokens::base64(&ticket));
    let opening = Opening { ticket: Some((&ticket, &[])), ..Opening::default() };
    assert!(matches!(Native::open(&server.clients, &opening).next_frame(), Frame::Welcome { .. }));
}

/// The printed configuration contains no secret.
fn check_printed(place: &Place, secrets: &Secrets) {
    for arguments in [&["config", "print"][..], &["config", "print", "--json"]] {
        let mut command = crore();
        command.args(arguments).arg("--config");
        let ended = Process::start(command.arg(place.path("crore.toml"))).end();
        ended.assert_success();
        secrets.check("config print", &ended.lines.join("\n"));
    }
}

fn check_with_logs_as(format: &str) {
    let mut place = Place::new("127.0.0.1:0");
    let issuer = Issuer::new(&place, "HS256", "good");
    let foreign = Issuer::new(&place, "ES256", "good");
    let api_key = ApiKey::new("prices", "publish = [\"prices/#\"]");
    let stranger = ApiKey::new("stranger", "");
    let inline = "an inline secret of forty bytes, or more";
    let ticket_key = "0badc0de".repeat(8);
    let tables = format!("secret = \"{inline}\"\n{}", api_key.table);
    let configured = format!(
        "[logging]\nlevel = \"debug\"\nformat = \"{format}\"\n[tickets]\nkeys = [\"{ticket_key}\"]\n{}",
        configuration(&tables, &[&issuer])
    );
    place.configure(&configured);
    let mut server = place.start();

    let mut secrets = Secrets::default();
    let credentials = [
        issuer.token("--sub anna --all #"),
        issuer.token("--sub anna --subscribe other --jti revoked"),
        issuer.sign(&json!({"sub": "anna", "exp": 5, "permissions": {"all": ["#"]}})),
        foreign.token("--sub anna --all #"),
        api_key.key.clone(),
        stranger.key.clone(),
    ];
    let others = [&issuer.secret(), inline, &ticket_key];
    credentials.iter().map(String::as_str).chain(others).for_each(|secret| secrets.add(secret));
    let json = "Content-Type: application/json";
    let revocations = server.operators_url("/api/v1/revocations");
    let body = "{\"jti\": \"revoked\"}";
    curl(&["-H", json, "-d", body, &revocations]).expect(201);
    for credential in &credentials {
        show(&server, &secrets, credential);
    }
    show_ticket(&server, &mut secrets, &credentials[0]);

    // All requests of operators.
    for path in ["/metrics", "/healthz", "/readyz", "/", "/api/v1/revocations"] {
        secrets.check(path, &curl(&[&server.operators_url(path)]).body);
    }
    // Configuration changes, with faults: errors about a secret do not contain it.
    let reload = |expected: u16| {
        let url = server.operators_url("/api/v1/reload");
        let answer = curl(&["-X", "POST", "-H", json, &url]);
        secrets.check("a reload's answer", &answer.body);
        assert_eq!(answer.status, expected, "{answer:?}");
    };
    let other = "another inline secret of forty bytes....";
    place.configure(&configured.replace(inline, other));
    reload(200);
    let short = "too-short-to-be-any-good";
    place.configure(&configured.replace(inline, short));
    reload(422);
    place.configure(&configured.replace(&ticket_key, &ticket_key[..60]));
    reload(422);
    let file = fs::read_to_string(place.path("crore.toml")).expect("the file is ours");
    assert!(file.contains("[entitlement]"));
    let mut changed = Secrets(Vec::new());
    [other, short].iter().for_each(|secret| changed.add(secret));
    place.configure(&configured);
    check_printed(&place, &secrets);
    server.process.signal("HUP");
    server.process.wait_for("the reload", |line| line.contains("was reloaded").then_some(()));
    server.process.signal("TERM");
    let lines = server.end().lines.join("\n");
    assert!(lines.contains("Credentials were refused."), "{lines}");
    secrets.check("the log", &lines);
    changed.check("the log", &lines);
}

#[test]
fn text_logs_contain_no_secret() {
    check_with_logs_as("text");
}

#[test]
fn json_logs_contain_no_secret() {
    check_with_logs_as("json");
}

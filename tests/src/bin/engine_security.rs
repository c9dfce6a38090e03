//! Nodes that reach brokers by TLS and by each mechanism of SASL, and the named faults of those
//! that cannot.
//!
//! `engine_security FOLDER [CASE]`: the folder for Kafka's jars. `CRORE_BINARY` must have the cargo
//! feature `engine`. The last line is `N passed, N failed`.

#![forbid(unsafe_code)]

use std::env;
use std::fs;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::process::ExitCode;
use std::thread;
use std::time::{Duration, Instant};

use brokers::secured::{Listener, PASSWORD, USER};
use brokers::{Kafka, Plan};
use end_to_end::PATIENCE;
use end_to_end::cluster::wait_until_ready;
use end_to_end::curl::{curl, publish};
use end_to_end::secured::{
    configuration, engine_command, login, publish_once_taken, secret, text_of, trust,
};
use end_to_end::server::{Place, Server};
use end_to_end::tokens::{message, now_s};
use serde_json::json;

/// The brokers, and a node that reaches them without TLS and login.
struct World {
    kafka: Kafka,
    plain: Server,
    /// The folder of the plain node.
    _place: Place,
}

type Case = (&'static str, fn(&mut World));

const CASES: &[Case] = &[
    ("each way in serves a node", each_way_in_serves_a_node),
    ("a refused certificate is named", a_refused_certificate_is_named),
    ("refused credentials are named", refused_credentials_are_named),
    ("a missing token is named", a_missing_token_is_named),
    ("a listener of another kind is named", a_listener_of_another_kind_is_named),
    ("a token is read again before it expires", a_token_is_read_again),
];

/// Brokers demand a new token at a token's end, and none lives longer than this.
const TOKEN_LIFE_MAX_MS: &str = "60000";
/// A refusal comes at once; a slow machine is not at once.
const REFUSAL_PATIENCE: Duration = Duration::from_secs(20);

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let Some(folder) = arguments.first() else {
        eprintln!("usage: engine_security FOLDER [CASE]");
        return ExitCode::from(2);
    };
    let only = arguments.get(1);
    let mut world = World::start(Path::new(folder));
    let (mut passed, mut failed) = (0, 0);
    for (name, case) in CASES {
        if only.is_some_and(|only| !name.contains(&**only)) {
            continue;
        }
        let began = Instant::now();
        let ran = catch_unwind(AssertUnwindSafe(|| case(&mut world)));
        let verdict = if ran.is_ok() { "ok" } else { "FAILED" };
        *(if ran.is_ok() { &mut passed } else { &mut failed }) += 1;
        println!("{name} ... {verdict} in {:.1} s", began.elapsed().as_secs_f64());
    }
    println!("{passed} passed, {failed} failed");
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

impl World {
    fn start(folder: &Path) -> World {
        let jars = brokers::fetch(folder).expect("Kafka's jars");
        let life = ("connections.max.reauth.ms".to_owned(), TOKEN_LIFE_MAX_MS.to_owned());
        let plan = Plan { is_secured: true, properties: vec![life], ..Plan::new(1) };
        let kafka = Kafka::start(&jars, &plan).expect("a broker");
        let mut place = place(&configuration(&kafka.bootstrap(), ""));
        let created = engine_command("init", &place.path("crore.toml"));
        let expected =
            "created secured: 2 partitions\ncreated crore.control: the nodes' control topic";
        assert_eq!(text_of(&created).trim(), expected);
        let plain = place.start();
        wait_until_ready(&plain);
        World { kafka, plain, _place: place }
    }

    fn configuration(&self, listener: Listener, lines: &str) -> String {
        configuration(&self.kafka.bootstrap_of(listener), lines)
    }

    /// A node with this configuration and the plain one have the same messages.
    fn assert_serves(&self, way: &str, place: &mut Place) {
        let checked = engine_command("check", &place.path("crore.toml"));
        assert!(checked.status.success(), "{way}: {}", text_of(&checked));
        let node = place.start();
        wait_until_ready(&node);
        let topic = way.replace([' ', ','], "-");
        for (from, to) in [(&node, &self.plain), (&self.plain, &node)] {
            let sent = publish_once_taken(&from.url(&format!("/topics/{topic}")), way);
            wait_for_offset(to, &topic, &sent["offset"]);
        }
        println!("  {way}");
    }

    /// A node with this configuration does not start, and `crore engine check` names the fault,
    /// too.
    fn assert_refused(&self, what: &str, place: &Place, expected: &str) {
        let began = Instant::now();
        let checked = engine_command("check", &place.path("crore.toml"));
        let text = text_of(&checked);
        assert!(!checked.status.success() && text.contains(expected), "{what}: {text}");
        let ended = place.launch().end_within(PATIENCE);
        let lines = ended.lines.join("\n");
        assert!(!ended.status.success() && lines.contains(expected), "{what}: {lines}");
        assert!(!(text + &lines).contains(PASSWORD), "{what}: no line has the password");
        assert!(began.elapsed() < REFUSAL_PATIENCE, "{what}: {:?}", began.elapsed());
        println!("  {what}: {expected}, after {} ms", began.elapsed().as_millis());
    }
}

fn place(text: &str) -> Place {
    let place = Place::new("127.0.0.1:0");
    place.configure(text);
    place
}

fn wait_for_offset(node: &Server, topic: &str, offset: &serde_json::Value) {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let page = curl(&[&node.url(&format!("/topics/{topic}?limit=10"))]).expect(200).json();
        let messages = page["messages"].as_array().expect("a list");
        if messages.iter().any(|message| message["offset"] == *offset) {
            return;
        }
        assert!(Instant::now() < deadline, "no {offset} in {page}");
        thread::sleep(Duration::from_millis(50));
    }
}

fn each_way_in_serves_a_node(world: &mut World) {
    let mut one = place("");
    let tls = trust(&world.kafka, Listener::Tls);
    one.configure(&world.configuration(Listener::Tls, &tls));
    world.assert_serves("TLS", &mut one);
    for mechanism in ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"] {
        let login = login(&one, mechanism, PASSWORD);
        one.configure(&world.configuration(Listener::TlsLogin, &(tls.clone() + &login)));
        world.assert_serves(&format!("TLS, {mechanism}"), &mut one);
    }
    let login = login(&one, "SCRAM-SHA-512", PASSWORD);
    one.configure(&world.configuration(Listener::Login, &login));
    world.assert_serves("SCRAM-SHA-512 without TLS", &mut one);
    let own = Listener::Mutual;
    let (certificate, key) = (
        own.certificate_file(world.kafka.folder()).expect("TLS"),
        own.key_file(world.kafka.folder()).expect("TLS"),
    );
    let own = format!(
        "certificate_file = \"{}\"\nkey_file = \"{}\"\n",
        certificate.display(),
        key.display()
    );
    one.configure(&world.configuration(Listener::Mutual, &(tls.clone() + &own)));
    world.assert_serves("TLS with an own certificate", &mut one);
    let file = secret(&one, "token", &token(300));
    let by_file = with_token_file(&file);
    one.configure(&world.configuration(Listener::TlsLogin, &(tls.clone() + &by_file)));
    world.assert_serves("TLS, a token of a file", &mut one);
    let url = token_server("200 OK", json!({"access_token": token(300), "expires_in": 300}));
    let by_server = with_token_server(&one, &url);
    one.configure(&world.configuration(Listener::TlsLogin, &(tls + &by_server)));
    world.assert_serves("TLS, a token of a server", &mut one);
}

fn a_refused_certificate_is_named(world: &mut World) {
    let check = |what: &str, listener: Listener, lines: &str, expected: &str| {
        let place = place(&world.configuration(listener, lines));
        world.assert_refused(what, &place, expected);
    };
    let trusted = |listener| trust(&world.kafka, listener);
    let expected = "the certificate has expired";
    check("expired", Listener::Expired, &trusted(Listener::Expired), expected);
    let expected = "the certificate has another IP address than the broker";
    check("misnamed", Listener::Misnamed, &trusted(Listener::Misnamed), expected);
    let expected = "the certificate is signed by itself, and is not a trusted one";
    check("unknown", Listener::Tls, &trusted(Listener::Misnamed), expected);
    check("unknown to the system", Listener::Tls, "tls = true\n", expected);
    check("no own certificate", Listener::Mutual, &trusted(Listener::Mutual), "certificate");
    let missing = "tls = true\nca_file = \"/nowhere/ca.pem\"\n";
    check("no file", Listener::Tls, missing, "ca_file: cannot read /nowhere/ca.pem");
}

fn refused_credentials_are_named(world: &mut World) {
    let tls = trust(&world.kafka, Listener::TlsLogin);
    let one = place("");
    for mechanism in ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"] {
        for wrong in ["wrong password", ""] {
            let login = login(&one, mechanism, wrong);
            one.configure(&world.configuration(Listener::TlsLogin, &(tls.clone() + &login)));
            let what = format!("{mechanism}, password '{wrong}'");
            let is_empty = wrong.is_empty();
            let expected = if is_empty { "password_file: empty" } else { "uthentication failed" };
            world.assert_refused(&what, &one, expected);
        }
        let unknown = login(&one, mechanism, PASSWORD)
            .replace(&format!("username = \"{USER}\""), "username = \"nobody\"");
        one.configure(&world.configuration(Listener::TlsLogin, &(tls.clone() + &unknown)));
        world.assert_refused(&format!("{mechanism}, unknown user"), &one, "uthentication failed");
    }
    let lost = login(&one, "PLAIN", PASSWORD).replace("/password\"", "/lost\"");
    one.configure(&world.configuration(Listener::TlsLogin, &(tls + &lost)));
    world.assert_refused("no password file", &one, "[engine] password_file: cannot read");
}

fn a_missing_token_is_named(world: &mut World) {
    let tls = trust(&world.kafka, Listener::TlsLogin);
    let one = place("");
    let check = |what: &str, lines: &str, expected: &str| {
        one.configure(&world.configuration(Listener::TlsLogin, &(tls.clone() + lines)));
        world.assert_refused(what, &one, expected);
    };
    let old = secret(&one, "old", &token(-60));
    check("an expired token", &with_token_file(&old), "has expired");
    let lost = one.path("lost");
    check("no file", &with_token_file(&lost), "[engine] oauth_token_file: cannot read");
    let strange = secret(&one, "strange", "no token at all");
    check("no token", &with_token_file(&strange), "uthentication");
    let refusal = json!({"error": "invalid_client", "error_description": "unknown secret"});
    let url = token_server("401 Unauthorized", refusal);
    check("refused", &with_token_server(&one, &url), "answers 401: unknown secret");
    let closed = "http://127.0.0.1:1/token";
    check("no server", &with_token_server(&one, closed), "cannot connect to 127.0.0.1:1");
}

/// The brokers' answer is not understood as a refusal: the wait ends after `start_timeout`.
fn a_listener_of_another_kind_is_named(world: &mut World) {
    let short = "start_timeout = \"2s\"\n";
    let to_plain = configuration(&world.kafka.bootstrap(), &format!("{short}tls = true\n"));
    let expected = "connecting to a PLAINTEXT broker listener?";
    world.assert_refused("TLS to a plain listener", &place(&to_plain), expected);
    let to_tls = world.configuration(Listener::Tls, short);
    let expected = "Disconnected: connection closed by peer";
    world.assert_refused("plain to a TLS listener", &place(&to_tls), expected);
}

/// Without a new one, the log of a running node names the fault, and it serves on.
fn a_token_is_read_again(world: &mut World) {
    let mut one = place("");
    let life_s = 12;
    let file = secret(&one, "token", &token(life_s));
    let lines = trust(&world.kafka, Listener::TlsLogin) + &with_token_file(&file);
    one.configure(&world.configuration(Listener::TlsLogin, &lines));
    let mut node = one.start();
    wait_until_ready(&node);
    publish_once_taken(&node.url("/topics/renewed"), "first");
    let began = Instant::now();
    let mut renewed = Instant::now();
    let mut sent = 0;
    while began.elapsed() < Duration::from_secs(2 * life_s.unsigned_abs()) {
        if renewed.elapsed() > Duration::from_secs(2) {
            fs::write(&file, token(life_s)).expect("our file");
            renewed = Instant::now();
        }
        publish(&node.url("/topics/renewed"), "x");
        sent += 1;
        thread::sleep(Duration::from_millis(100));
    }
    println!("  {sent} messages by several tokens");
    let file = file.display().to_string();
    node.process.wait_for("a line about the token", |line| {
        (line.contains(&file) && line.contains("has expired")).then_some(())
    });
    assert_eq!(curl(&[&node.url("/topics/renewed?limit=1")]).status, 200);
}

/// A token without a signature, as a broker for tests takes it.
fn token(life_s: i64) -> String {
    let now = now_s().cast_signed();
    let claims = json!({"sub": USER, "iat": now - 100, "exp": now + life_s});
    message(&json!({"alg": "none"}), &claims) + "."
}

fn with_token_file(file: &Path) -> String {
    format!("sasl_mechanism = \"OAUTHBEARER\"\noauth_token_file = \"{}\"\n", file.display())
}

fn with_token_server(place: &Place, url: &str) -> String {
    let file = secret(place, "client-secret", "a secret");
    format!(
        "sasl_mechanism = \"OAUTHBEARER\"\noauth_url = \"{url}\"\noauth_client_id = \"{USER}\"\n\
         oauth_client_secret_file = \"{}\"\noauth_scope = \"kafka\"\n",
        file.display()
    )
}

/// A server with one answer. It serves until the test ends.
fn token_server(status: &'static str, answer: serde_json::Value) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let url = format!("http://{}/token", listener.local_addr().expect("an open socket"));
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let mut request = Vec::new();
            let mut buffer = [0; 4_096];
            while !String::from_utf8_lossy(&request).contains("scope=kafka") {
                match stream.read(&mut buffer) {
                    Ok(0) | Err(_) => break,
                    Ok(count) => request.extend_from_slice(&buffer[..count]),
                }
            }
            let request = String::from_utf8_lossy(&request).to_ascii_lowercase();
            let expected = "authorization: basic y3jvcmu6ysuymhnly3jlda==";
            let is_good = request.starts_with("post /token") && request.contains(expected);
            let (status, body) = if is_good {
                (status, answer.to_string())
            } else {
                ("400 Bad Request", json!({"error": request}).to_string())
            };
            let head = format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\n\r\n", body.len());
            let _ = stream.write_all((head + &body).as_bytes());
        }
    });
    url
}

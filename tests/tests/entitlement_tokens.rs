//! Tokens on the real binary: accepted with every algorithm, refused in every classic forgery, in
//! every place of a request.

use end_to_end::curl::curl;
use end_to_end::metrics::Metrics;
use end_to_end::native::{Frame, Native, Opening};
use end_to_end::raw::Raw;
use end_to_end::server::{Place, Server};
use end_to_end::tokens::{ALGORITHMS, Issuer, base64, configuration, forged, message, now_s};
use serde_json::{Value, json};

/// The refusal of a credential: status and name of the error over HTTP, its number and the close
/// code over WebSocket.
#[derive(Clone, Copy)]
struct Refused {
    name: &'static str,
    number: u64,
    close: u16,
}

const UNAUTHORIZED: Refused = Refused { name: "unauthorized", number: 200, close: 3502 };
const EXPIRED: Refused = Refused { name: "token_expired", number: 201, close: 3007 };

/// A longer credential does not fit into a request's target, which is then refused for that.
const TARGET_BYTES_MAX: usize = 8_192;

/// Presents it in a header and in the query, of a request and of an upgrade, and in HELLO: all must
/// have the same result.
#[track_caller]
fn check(server: &Server, token: &str, expected: Option<Refused>, what: &str) {
    check_one_by_one(server, token, expected, what, || {});
}

/// Presents it in each place; calls `gone` whenever its connection is closed.
#[track_caller]
fn check_one_by_one(
    server: &Server,
    token: &str,
    expected: Option<Refused>,
    what: &str,
    mut gone: impl FnMut(),
) {
    let bearer = format!("Authorization: Bearer {token}\r\n");
    let query = format!("?token={token}");
    for (query, fields) in [("", bearer.as_str()), (query.as_str(), "")] {
        let mut raw = Raw::connect(&server.clients);
        let line =
            format!("GET /topics/news{query} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n");
        raw.send(format!("{line}{fields}\r\n").as_bytes());
        let status = if expected.is_some() { " 401 " } else { " 200 " };
        let answer = raw.read_to_close();
        drop(raw);
        gone();
        if query.len() > TARGET_BYTES_MAX {
            assert!(answer.contains("uri_too_long"), "{what}: {answer}");
            continue;
        }
        check_answer(&answer, status, expected, what);

        let (mut raw, head) =
            Raw::upgrade(&server.clients, &format!("/crore{query}"), "crore.v1", fields);
        if expected.is_none() {
            assert!(head.contains(" 101 "), "{what}: {head}");
        } else {
            raw.send(b"GET / HTTP/1.0\r\n\r\n");
            check_answer(&(head + &raw.read_to_close()), " 401 ", expected, what);
        }
        drop(raw);
        gone();
    }
    let opening = Opening { token: Some(token), ..Opening::default() };
    let mut native = Native::open(&server.clients, &opening);
    match (native.next_frame(), expected) {
        (Frame::Welcome { .. }, None) => {}
        (Frame::Error { code, .. }, Some(refused)) if code == refused.number => {
            assert_eq!(native.next_frame(), Frame::Closed(refused.close), "{what}");
        }
        (other, _) => panic!("{what}: {other:?}"),
    }
    drop(native);
    gone();
}

#[track_caller]
fn check_answer(answer: &str, status: &str, expected: Option<Refused>, what: &str) {
    assert!(answer[..13].contains(status), "{what}: {answer}");
    if let Some(Refused { name, .. }) = expected {
        let code = format!("\"code\":\"{name}\"");
        assert!(answer.contains(&code), "{what}: {answer}");
        assert!(answer.to_lowercase().contains("www-authenticate: bearer"), "{what}: {answer}");
    }
}

/// Several keys are valid at once, with and without IDs; each verifies its own tokens.
#[test]
fn every_algorithm_is_accepted() {
    let mut place = Place::new("127.0.0.1:0");
    let issuers = ALGORITHMS.map(|algorithm| Issuer::new(&place, algorithm, ""));
    let all: Vec<&Issuer> = issuers.iter().collect();
    place.configure(&configuration("", &all));
    let server = place.start();
    let mut metrics = Metrics::of(&server.operators);
    // A thread with a live connection for the same token does not ask again.
    let mut gone = || _ = metrics.wait_for("crore_connections", |count| count == 0);
    for issuer in &issuers {
        let token = issuer.token("--sub anna --history news");
        check_one_by_one(&server, &token, None, issuer.algorithm, &mut gone);
        // Another key of the same algorithm, unknown to the node.
        let foreign = Issuer::new(&place, issuer.algorithm, "foreign");
        let token = foreign.token("--sub anna --history news");
        check(&server, &token, Some(UNAUTHORIZED), issuer.algorithm);
    }
    // Presented five times each, computed once.
    let scrape = metrics.scrape();
    assert_eq!(scrape.number("crore_token_keys"), 9);
    let accepted = "crore_credential_verdicts_total{result=\"accepted\"}";
    assert_eq!(scrape.number(accepted), 45);
    assert_eq!(scrape.number("crore_verified_tokens"), 9);
    assert_eq!(scrape.number("crore_token_cache_hits_total"), 36);
}

/// Keys within the token are ignored; only the node's keys count.
fn claims() -> Value {
    json!({
        "sub": "anna", "iss": "https://id.example", "aud": "crore",
        "iat": now_s(), "exp": now_s() + 600, "permissions": {"all": ["#"]},
    })
}

fn with(changes: &[(&str, Value)]) -> Value {
    let mut claims = claims();
    for (name, value) in changes {
        claims[*name] = value.clone();
    }
    claims
}

#[test]
fn forged_tokens_are_refused() {
    let mut place = Place::new("127.0.0.1:0");
    let good = Issuer::new(&place, "HS256", "good");
    let public = ["RS256", "ES256", "EdDSA"].map(|name| Issuer::new(&place, name, name));
    let all: Vec<&Issuer> = [&good].into_iter().chain(&public).collect();
    place.configure(&configuration("", &all));
    let mut server = place.start();
    check(&server, &good.sign(&claims()), None, "good");

    let tokens = forgeries(&good, &public);
    for (what, token) in &tokens {
        check(&server, token, Some(UNAUTHORIZED), what);
    }
    check(&server, &good.sign(&claims()), None, "good, behind all of these");
    // Logged with a reason and a number, at most every ten seconds.
    server.process.wait_for("refusals in the log", |line| {
        line.contains("Credentials were refused.").then_some(())
    });
    let refused = "crore_credential_verdicts_total{result=\"unauthorized\"}";
    let scrape = Metrics::of(&server.operators).scrape();
    assert!(scrape.number(refused) > 100, "{}", scrape.number(refused));
}

/// Forged tokens, each with a description.
fn forgeries(good: &Issuer, public: &[Issuer]) -> Vec<(String, String)> {
    let secret = good.secret();
    let mut tokens: Vec<(String, String)> = Vec::new();
    let mut add = |what: &str, token: String| {
        tokens.push((format!("{what}: {token:.200}"), token));
    };
    for name in ["none", "None", "nOnE", "NONE", ""] {
        let header = json!({"alg": name, "kid": "good"});
        add(name, format!("{}.", message(&header, &claims())));
        add(name, forged(&header, &claims(), secret.as_bytes()));
    }
    for name in ["HS384", "HS512", "RS256", "ES256", "EdDSA", "hs256"] {
        let header = json!({"alg": name, "kid": "good"});
        add(name, forged(&header, &claims(), secret.as_bytes()));
    }
    for issuer in public {
        let token = issuer.token("--sub anna --all #");
        let (_, body) = token.split_once('.').expect("a token");
        let other = match issuer.algorithm {
            "RS256" => "RS512",
            "ES256" => "ES384",
            _ => "ES256",
        };
        let header = base64(json!({"alg": other, "kid": issuer.kid}).to_string().as_bytes());
        add("another algorithm of its key", format!("{header}.{body}"));
        // Public knowledge, used as a secret.
        let pem = issuer.public_pem();
        for key in [pem.as_str(), pem.trim_end()] {
            for header in [json!({"alg": "HS256"}), json!({"alg": "HS256", "kid": issuer.kid})] {
                add("a public key as secret", forged(&header, &claims(), key.as_bytes()));
            }
        }
    }
    for kid in [
        "/dev/null",
        "../../../../dev/null",
        "good' UNION SELECT 'AAAA",
        "| sleep 9",
        "good\0",
        "Good",
        "",
    ] {
        let header = json!({"alg": "HS256", "kid": kid});
        add(kid, forged(&header, &claims(), b"\0"));
        add(kid, forged(&header, &claims(), secret.as_bytes()));
    }
    for (name, value) in [
        ("jwk", json!({"kty": "oct", "k": base64(b"AAAA")})),
        ("jku", json!("https://evil.example/keys")),
        ("x5u", json!("https://evil.example/chain")),
        ("x5c", json!(["AAAA"])),
    ] {
        let header = json!({"alg": "HS256", name: value});
        add(name, forged(&header, &claims(), b"AAAA"));
    }
    let critical = json!({"alg": "HS256", "kid": "good", "crit": ["exp"]});
    add("crit", forged(&critical, &claims(), secret.as_bytes()));
    let token = good.sign(&claims());
    for length in [1, 10, token.len() / 2, token.len() - 44, token.len() - 1] {
        add("truncated", token[..length].to_owned());
    }
    let huge = with(&[("filler", "x".repeat(9_000).into())]);
    add("huge", good.sign(&huge));
    add("no token", "x".repeat(8_200));
    for ending in ["A", ".", ".A", "="] {
        add("longer", format!("{token}{ending}"));
    }
    tokens
}

#[test]
fn time_issuer_and_audience_are_checked() {
    let mut place = Place::new("127.0.0.1:0");
    let issuer = Issuer::new(&place, "HS256", "");
    let lines = "leeway = \"5s\"\nissuers = [\"https://id.example\"]\naudiences = [\"crore\", \"other\"]\n\
                 token_lifetime_max = \"1h\"\n";
    place.configure(&configuration(lines, &[&issuer]));
    let server = place.start();
    let second = |from_now: i64| json!(now_s() as i64 + from_now);
    let check = |changes: &[(&str, Value)], expected: Option<Refused>| {
        let token = issuer.sign(&with(changes));
        check(&server, &token, expected, &format!("{changes:?}"));
    };
    check(&[], None);
    check(&[("aud", json!(["x", "other"]))], None);
    // Clocks may differ by the leeway; this test takes less than a minute.
    check(&[("iat", second(-60)), ("exp", second(-30))], Some(EXPIRED));
    check(&[("exp", json!(0))], Some(EXPIRED));
    check(&[("nbf", second(60))], Some(UNAUTHORIZED));
    check(&[("iat", second(60)), ("exp", second(120))], Some(UNAUTHORIZED));
    check(&[("iss", json!("https://id.example/"))], Some(UNAUTHORIZED));
    check(&[("iss", json!("https://id.example.evil"))], Some(UNAUTHORIZED));
    check(&[("iss", Value::Null)], Some(UNAUTHORIZED));
    check(&[("aud", json!("core"))], Some(UNAUTHORIZED));
    check(&[("aud", json!([]))], Some(UNAUTHORIZED));
    check(&[("aud", Value::Null)], Some(UNAUTHORIZED));
    check(&[("exp", second(3_700))], Some(UNAUTHORIZED));
    check(&[("exp", Value::Null)], Some(UNAUTHORIZED));
    check(&[("exp", json!("tomorrow"))], Some(UNAUTHORIZED));
    check(&[("permissions", json!({"subscribe": ["a/#/b"]}))], Some(UNAUTHORIZED));
    check(&[("permissions", json!({"subscibe": ["a"]}))], Some(UNAUTHORIZED));
    let many: Vec<String> = (0..257).map(|number| format!("t/{number}")).collect();
    check(&[("permissions", json!({"subscribe": many}))], Some(UNAUTHORIZED));
}

/// A request has one credential: with several it would be ambiguous.
#[test]
fn a_request_needs_exactly_one_credential() {
    let mut place = Place::new("127.0.0.1:0");
    let issuer = Issuer::new(&place, "HS256", "");
    place.configure(&configuration("", &[&issuer]));
    let server = place.start();
    let token = issuer.token("--sub anna --all #");
    let bearer = format!("Authorization: Bearer {token}");
    let url = server.url("/topics/news");
    let both = format!("{url}?token={token}");
    curl(&["-H", &bearer, &both]).expect_problem(400, "malformed_request");
    curl(&[&url]).expect_problem(401, "unauthorized");
    curl(&["-H", "Authorization: Basic YTpi", &url]).expect_problem(401, "unauthorized");
    curl(&["-H", &bearer, &url]).expect(200);
    // An event stream by its header and by the query, the only way in a browser.
    curl(&["-H", "Accept: text/event-stream", &url]).expect_problem(401, "unauthorized");
    for arguments in [vec!["-H", &bearer, &url], vec![&both]] {
        let mut lines = end_to_end::curl::stream(
            &[&["-H", "Accept: text/event-stream"][..], &arguments[..]].concat(),
        );
        lines.wait_for("a stream", |line| line.starts_with("retry:").then_some(()));
    }
    // A session without credentials is refused, and a credential in HELLO takes precedence over the
    // request's.
    let mut nobody = Native::open(&server.clients, &Opening::default());
    assert!(matches!(nobody.next_frame(), Frame::Error { code: 200, .. }));
    assert_eq!(nobody.next_frame(), Frame::Closed(3502));
    let narrow = issuer.token("--sub ben --subscribe other");
    let mut native = Native::open(
        &server.clients,
        &Opening { fields: &format!("{bearer}\r\n"), token: Some(&narrow), ..Opening::default() },
    );
    assert!(matches!(native.next_frame(), Frame::Welcome { .. }));
    let answer = native.subscribe_one(1, "news");
    assert!(matches!(answer, Frame::Error { code: 202, .. }), "{answer:?}");
}

/// `/echo` serves clients with a valid credential.
#[test]
fn echo_requires_a_credential() {
    let mut place = Place::new("127.0.0.1:0");
    let issuer = Issuer::new(&place, "ES256", "");
    place.configure(&configuration("", &[&issuer]));
    let server = place.start();
    let token = issuer.token("--sub anna");
    for path in ["/echo", "/ws/echo"] {
        let (_, head) = Raw::upgrade(&server.clients, path, "", "");
        assert!(head.starts_with("HTTP/1.1 401 "), "{path}: {head}");
        let (_, head) = Raw::upgrade(&server.clients, &format!("{path}?token=x"), "", "");
        assert!(head.starts_with("HTTP/1.1 401 "), "{path}: {head}");
        let (mut raw, head) =
            Raw::upgrade(&server.clients, &format!("{path}?token={token}"), "", "");
        assert!(head.starts_with("HTTP/1.1 101 "), "{path}: {head}");
        raw.send_frame(1, b"hi");
        assert_eq!(raw.read_frame(), (1, b"hi".to_vec()));
    }
}

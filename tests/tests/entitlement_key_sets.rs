//! Key sets of an issuer on the real binary: from a file and from a URL; key IDs, caching,
//! rotation, and failures.

use std::fs;
use std::time::{Duration, Instant};

use end_to_end::PATIENCE;
use end_to_end::curl::{Answer, curl};
use end_to_end::key_set::{KeySet, document};
use end_to_end::metrics::Metrics;
use end_to_end::native::{Frame, Native, Opening};
use end_to_end::server::{Place, Server};
use end_to_end::tokens::{Issuer, configuration};
use serde_json::json;

fn ask(server: &Server, token: &str) -> Answer {
    curl(&[&server.url(&format!("/topics/news?token={token}"))])
}

/// Repeats a request until the keys have arrived; meanwhile the client must retry.
fn until_taken(server: &Server, token: &str) {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let answer = ask(server, token);
        if answer.status == 200 {
            return;
        }
        let answer = answer.expect_problem(503, "not_ready");
        assert!(answer.header("retry-after").is_some(), "{answer:?}");
        assert!(Instant::now() < deadline, "the keys do not come");
    }
}

/// Keys of every kind from a file; a secret in it is skipped; a reload reads it again.
#[test]
fn keys_are_read_from_a_file() {
    let mut place = Place::new("127.0.0.1:0");
    let issuers = ["RS256", "ES256", "ES384", "EdDSA"]
        .map(|algorithm| Issuer::new(&place, algorithm, algorithm));
    let file = place.path("keys.json");
    let all: Vec<&Issuer> = issuers.iter().collect();
    let mut set = document(&all);
    let secret = Issuer::new(&place, "HS256", "secret");
    let symmetric = json!({
        "kty": "oct", "kid": "secret", "alg": "HS256",
        "k": end_to_end::tokens::base64(secret.secret().as_bytes()),
    });
    set["keys"].as_array_mut().expect("a list").push(symmetric);
    fs::write(&file, set.to_string()).expect("the folder is ours");
    place.configure(&configuration(&format!("jwks_file = {file:?}\n"), &[]));
    let mut server = place.start();
    for issuer in &issuers {
        ask(&server, &issuer.token("--sub anna --history news")).expect(200);
    }
    let token = secret.token("--sub anna --history news");
    ask(&server, &token).expect_problem(401, "unauthorized");

    // The file changes, and takes effect at a reload; connected clients stay.
    let (old, new) = (&issuers[1], Issuer::new(&place, "ES256", "new"));
    let mut native = Native::with_token(&server.clients, &old.token("--sub anna --all #"));
    let tokens = [&new, old].map(|issuer| issuer.token("--sub ben --history news"));
    ask(&server, &tokens[0]).expect_problem(401, "unauthorized");
    fs::write(&file, document(&[&new]).to_string()).expect("the folder is ours");
    ask(&server, &tokens[1]).expect(200);
    server.process.signal("HUP");
    server.process.wait_for("the reload", |line| line.contains("was reloaded").then_some(()));
    ask(&server, &tokens[0]).expect(200);
    // Its signature was cached; the signing key is gone.
    ask(&server, &tokens[1]).expect_problem(401, "unauthorized");
    native.publish(1, "news", "still here");
    assert_eq!(native.next_frame(), Frame::Published(1));

    // An invalid file changes nothing.
    fs::write(&file, "{").expect("the folder is ours");
    server.process.signal("HUP");
    server
        .process
        .wait_for("the refusal", |line| line.contains("nothing has changed").then_some(()));
    ask(&server, &tokens[0]).expect(200);
}

/// Fetched once for many requests, again for a token with an unknown key ID, and then the new keys
/// are valid.
#[test]
fn keys_are_fetched_from_a_url() {
    let mut place = Place::new("127.0.0.1:0");
    let [old, new] = ["old", "new"].map(|kid| Issuer::new(&place, "ES256", kid));
    let key_set = KeySet::of(&[&old]);
    let lines = format!(
        "audiences = [\"*\"]\njwks_url = \"{}\"\njwks_refresh = \"1h\"\njwks_refresh_min = \"1s\"\n",
        key_set.url
    );
    place.configure(&configuration(&lines, &[]));
    let began = Instant::now();
    let server = place.start();
    let token = old.token("--sub anna --all #");
    until_taken(&server, &token);
    (0..30).for_each(|number| {
        let token = old.token(&format!("--sub client-{number} --history news"));
        ask(&server, &token).expect(200);
    });
    assert_eq!(key_set.answered_count(), 1);
    let mut native = Native::with_token(&server.clients, &token);

    key_set.publish(&[&new]);
    // After this time an unknown key ID causes another fetch.
    key_set.rests_for(Duration::from_secs(1));
    let other = new.token("--sub ben --history news");
    until_taken(&server, &other);
    ask(&server, &token).expect_problem(401, "unauthorized");
    native.publish(1, "news", "still here");
    assert_eq!(native.next_frame(), Frame::Published(1));

    // Tokens with unknown key IDs cause fetches, but at a limited rate.
    let forged: Vec<String> = (0..8)
        .map(|number| Issuer::new(&place, "ES256", &format!("x{number}")))
        .map(|issuer| issuer.token("--sub eve --all #"))
        .collect();
    for token in forged.iter().cycle().take(80) {
        let status = ask(&server, token).status;
        assert!(matches!(status, 401 | 503), "{status}");
    }
    let asked_max = began.elapsed().as_secs() + 2;
    assert!(key_set.answered_count() <= asked_max, "{}", key_set.answered_count());
    let scrape = Metrics::of(&server.operators).scrape();
    assert_eq!(scrape.number("crore_key_set_fetches_failed_total"), 0);
    assert_eq!(scrape.number("crore_token_keys"), 1);
}

/// Fetched regularly; whatever the issuer's answer, the present keys stay valid.
#[test]
fn keys_survive_failures_of_the_issuer() {
    let mut place = Place::new("127.0.0.1:0");
    let [good, evil] = ["good", "evil"].map(|kid| Issuer::new(&place, "EdDSA", kid));
    let key_set = KeySet::of(&[&good]);
    let elsewhere = KeySet::of(&[&evil]);
    let lines = format!(
        "audiences = [\"*\"]\njwks_url = \"{}\"\njwks_refresh = \"1s\"\njwks_refresh_min = \"1s\"\n",
        key_set.url
    );
    place.configure(&configuration(&lines, &[]));
    let server = place.start();
    let mut metrics = Metrics::of(&server.operators);
    let token = good.token("--sub anna --history news");
    until_taken(&server, &token);
    let failed = "crore_key_set_fetches_failed_total";
    let redirect = format!("302 Found\r\nLocation: {}", elsewhere.url);
    let keys = document(&[&evil]).to_string();
    let huge = format!("{keys}{}", " ".repeat(2 << 20));
    for (status, body) in [
        ("500 Oops", keys.as_str()),
        (redirect.as_str(), ""),
        ("200 OK", "{\"keys\":"),
        ("200 OK", &huge),
    ] {
        let before = metrics.scrape().number(failed);
        key_set.answer(status, body.as_bytes());
        // One fetch may have been in progress.
        metrics.wait_for(failed, |count| count > before + 1);
        ask(&server, &token).expect(200);
    }
    let answer = ask(&server, &evil.token("--sub eve --history news"));
    assert!(matches!(answer.status, 401 | 503), "{answer:?}");
    assert_eq!(elsewhere.answered_count(), 0);

    // It recovers by itself.
    key_set.publish(&[&good, &evil]);
    let count = key_set.answered_count();
    key_set.wait_for(count + 1);
    until_taken(&server, &evil.token("--sub eve --history news"));
    ask(&server, &token).expect(200);
}

/// Before the first keys arrive, refusals are temporary: over HTTP, and in a session.
#[test]
fn refusals_are_temporary_before_the_first_keys() {
    let mut place = Place::new("127.0.0.1:0");
    let issuer = Issuer::new(&place, "ES256", "k");
    let key_set = KeySet::of(&[]);
    key_set.answer("503 Later", b"");
    let lines =
        format!("audiences = [\"*\"]\njwks_url = \"{}\"\njwks_refresh_min = \"1s\"\n", key_set.url);
    place.configure(&configuration(&lines, &[]));
    let server = place.start();
    let token = issuer.token("--sub anna --all #");
    ask(&server, &token).expect_problem(503, "not_ready");
    let opening = Opening { token: Some(&token), ..Opening::default() };
    let mut native = Native::open(&server.clients, &opening);
    let answer = native.next_frame();
    assert!(matches!(answer, Frame::Error { reference: 0, code: 501, .. }), "{answer:?}");
    assert_eq!(native.next_frame(), Frame::Closed(3006));
    let mut metrics = Metrics::of(&server.operators);
    metrics.wait_for("crore_key_set_fetches_failed_total", |count| count > 0);
    // A request without a token does not wait for keys.
    curl(&[&server.url("/topics/news")]).expect_problem(401, "unauthorized");
    key_set.publish(&[&issuer]);
    until_taken(&server, &token);
    let _ = Native::with_token(&server.clients, &token);
}

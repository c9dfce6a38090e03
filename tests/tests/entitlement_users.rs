//! Users with passwords on the real binary: by MQTT and by HTTP, over reloads and a live upgrade.

use end_to_end::curl::{Answer, curl};
use end_to_end::metrics::Metrics;
use end_to_end::raw::Raw;
use end_to_end::server::{Place, Server};
use serde_json::json;

/// Lines of `mosquitto_passwd`. The passwords are `secret` and `s:e$cret`.
const ANNA: &str = "anna:$7$101$bQNogf9Z1MYoZdTe$uImp7gikJiBqWa+r5nZpqAm7GvBdVslmHqIhqEEnHN1O/0vhukJRgr2hWfaWX3XF3iMbLNu0VQ8KCQYRx1QBLg==\n";
const BEN: &str = "ben:$7$101$BjqQFg3jZCaqUxuH$KPX83c28BErKW3LMmBirEoiRVMf5mqk98/ZitS7KZiUND89o5FXXVWxm3kMAUHqzZIesnmiU5BYl8AOxpjBp3w==\n";

const GRANTS: &str = "
[[grant]]
subscribe = [\"news\", \"u/{sub}\"]
publish = [\"u/{sub}\"]
history = [\"#\"]
[[grant]]
user = \"anna\"
publish = [\"news\"]
";

fn place(users: &str) -> Place {
    let place = Place::new("127.0.0.1:0");
    write(&place, users);
    configure(&place, GRANTS);
    place
}

fn write(place: &Place, users: &str) {
    std::fs::write(place.path("users"), users).expect("the folder is ours");
}

fn configure(place: &Place, grants: &str) {
    let file = place.path("users");
    place.configure(&format!(
        "[node]\nio_threads = 2\n[mqtt]\nlisten = \"127.0.0.1:0\"\n[entitlement]\nmode = \"tokens\"\nusers_file = {file:?}\n{grants}"
    ));
}

/// CONNECT of version 3.1.1 with a clean session. Returns the code of CONNACK.
fn connect(server: &Server, user: &str, password: &str) -> (Raw, u8) {
    let mut raw = Raw::connect(&server.clients);
    let mut rest = b"\0\x04MQTT\x04\xc2\0\x3c".to_vec();
    for text in ["", user, password] {
        rest.extend_from_slice(&(text.len() as u16).to_be_bytes());
        rest.extend_from_slice(text.as_bytes());
    }
    raw.send(&[&[0x10, rest.len() as u8], &rest[..]].concat());
    let answer = raw.take(4);
    assert_eq!(answer[..3], [0x20, 2, 0]);
    (raw, answer[3])
}

/// Subscribes with QoS 0; returns the code of SUBACK.
fn subscribe(raw: &mut Raw, filter: &str) -> u8 {
    let length = 5 + filter.len() as u8;
    let packet = [&[0x82, length, 0, 1, 0, filter.len() as u8], filter.as_bytes(), &[0]].concat();
    raw.send(&packet);
    raw.take(5)[4]
}

/// Whether the connection lives: a ping is answered.
fn is_served(raw: &mut Raw) -> bool {
    raw.send(&[0xc0, 0]);
    raw.take(2) == [0xd0, 0]
}

fn publish(server: &Server, user: &str, topic: &str) -> Answer {
    curl(&["-u", user, "-d", "hello", &server.url(&format!("/topics/{topic}"))])
}

#[test]
fn users_have_their_grants_by_every_protocol() {
    let server = place(&format!("{ANNA}{BEN}")).start();
    let (mut ben, code) = connect(&server, "ben", "s:e$cret");
    assert_eq!(code, 0);
    assert_eq!(subscribe(&mut ben, "news"), 0);
    assert_eq!(subscribe(&mut ben, "u/ben"), 0);
    assert_eq!(subscribe(&mut ben, "u/anna"), 0x80);
    for (user, password) in [("ben", "secret"), ("cleo", "secret"), ("ben", ""), ("", "secret")] {
        assert_eq!(connect(&server, user, password).1, 5, "{user} {password}");
    }
    publish(&server, "anna:secret", "news").expect(200);
    assert_eq!(ben.take(13), *b"\x30\x0b\0\x04newshello");
    publish(&server, "anna:secret", "u/ben").expect_problem(403, "forbidden");
    publish(&server, "ben:s:e$cret", "news").expect_problem(403, "forbidden");
    publish(&server, "ben:secret", "u/ben").expect_problem(401, "unauthorized");
    publish(&server, "ben:s:e$cret", "u/ben").expect(200);
    assert_eq!(ben.take(14), *b"\x30\x0c\0\x05u/benhello");
    // A second credential is one too many.
    let url = server.url("/topics/news");
    let both = ["-u", "anna:secret", "-H", "X-API-Key: x", "-d", "hello", &url];
    curl(&both).expect(400);
    let scrape = Metrics::of(&server.operators).scrape();
    assert_eq!(scrape.number("crore_password_users"), 2);
}

#[test]
fn a_reload_ends_changed_users_and_no_others() {
    let mut place = place(&format!("{ANNA}{BEN}"));
    let mut server = place.start();
    let reload = |server: &mut Server| {
        server.process.signal("HUP");
        server.process.wait_for("the reload", |line| {
            line.contains("The configuration was reloaded").then_some(())
        });
    };
    let (mut anna, code_of_anna) = connect(&server, "anna", "secret");
    let (mut ben, code_of_ben) = connect(&server, "ben", "s:e$cret");
    assert_eq!([code_of_anna, code_of_ben], [0, 0]);
    reload(&mut server);
    assert!(is_served(&mut anna) && is_served(&mut ben));
    // The line goes.
    write(&place, ANNA);
    reload(&mut server);
    assert!(ben.closes_within(end_to_end::PATIENCE));
    assert_eq!(connect(&server, "ben", "s:e$cret").1, 5);
    assert!(is_served(&mut anna));
    // A fault changes nothing.
    write(&place, &format!("{ANNA}ben:secret\n"));
    server.process.signal("HUP");
    let fault = server.process.wait_for("the fault", |line| {
        line.contains("The configuration was not reloaded").then(|| line.to_owned())
    });
    assert!(fault.contains("users, line 2: the password is not hashed"), "{fault}");
    assert!(is_served(&mut anna));
    // Another grant, and a new user.
    write(&place, &format!("{ANNA}{BEN}"));
    configure(&place, &GRANTS.replace("user = \"anna\"", "user = \"ben\""));
    reload(&mut server);
    assert!(anna.closes_within(end_to_end::PATIENCE));
    publish(&server, "anna:secret", "news").expect_problem(403, "forbidden");
    publish(&server, "ben:s:e$cret", "news").expect(200);
}

#[test]
fn a_live_upgrade_keeps_users() {
    let mut place = place(ANNA);
    let mut server = place.start();
    let (mut anna, code) = connect(&server, "anna", "secret");
    assert_eq!(code, 0);
    let successor = server.process.upgrade();
    assert!(is_served(&mut anna));
    // Known by its digest: nothing is computed.
    assert_eq!(connect(&server, "anna", "secret").1, 0);
    let scrape = Metrics::of(&server.operators).scrape();
    assert_eq!(scrape.number("crore_password_hashes_total"), 0);
    assert_eq!(connect(&server, "anna", "other").1, 5);
    drop(successor);
}

#[test]
fn a_faulty_file_refuses_the_start() {
    let check = |place: &Place, expected: &str| {
        let ended = place.launch().end();
        assert_eq!(ended.status.code(), Some(78), "{ended:?}");
        let found = ended.lines.iter().any(|line| {
            line.contains("crore.toml:7: entitlement.users_file: ") && line.contains(expected)
        });
        assert!(found, "{expected}: {ended:?}");
    };
    let place = place(&format!("# users\n{ANNA}\nben\n"));
    check(&place, "users, line 4: the line has no colon after the user's name");
    std::fs::remove_file(place.path("users")).expect("it was written");
    check(&place, "users: cannot read it");
    configure(&place, "");
    place.configure("[[grant]]\npublish = [\"#\"]\n");
    let ended = place.launch().end();
    assert_eq!(ended.status.code(), Some(78), "{ended:?}");
}

/// The history of a topic is one of the granted actions.
#[test]
fn users_read_the_history_that_is_granted() {
    let server = place(ANNA).start();
    publish(&server, "anna:secret", "news").expect(200);
    let url = server.url("/topics/news");
    let page = curl(&["-u", "anna:secret", &url]).expect(200).json();
    assert_eq!(page["messages"][0]["data"], json!("hello"), "{page}");
    curl(&[&url]).expect_problem(401, "unauthorized");
}

//! `crore mqtt pub` and `crore mqtt sub`, against a node.

use end_to_end::process::{Ended, Process};
use end_to_end::server::{Place, Server};
use end_to_end::tokens::{Issuer, configuration};
use end_to_end::tools::crore;
use serde_json::{Value, json};

/// A node with MQTT, on every address of clients.
const MQTT: &str = "[mqtt]\nlisten = \"127.0.0.1:0\"\n";

/// The words of a command line; those of the server come last.
fn command(server: &str, arguments: &[&str]) -> Process {
    let mut command = crore();
    Process::start(command.arg("mqtt").args(arguments).args(["--url", server]))
}

fn run(server: &str, arguments: &[&str]) -> Ended {
    command(server, arguments).end()
}

fn publish(server: &str, arguments: &[&str]) {
    run(server, &[&["pub"], arguments].concat()).assert_success();
}

/// A subscriber that is there: it has printed a first message.
fn subscribed(server: &str, topic: &str, arguments: &[&str]) -> Process {
    publish(server, &["-t", topic, "-m", "first", "--retain"]);
    let words = [&["sub", "-t", topic], arguments].concat();
    let mut process = command(server, &words);
    process.wait_for("the retained message", |line| line.contains("first").then_some(()));
    process
}

fn messages(ended: &Ended) -> Vec<&str> {
    let found = ended.lines.iter().filter(|line| !line.starts_with("not connected"));
    found.map(String::as_str).collect()
}

#[test]
fn messages_are_published_and_printed() {
    let server = Server::with_configuration(MQTT);
    let url = format!("mqtt://{}", server.clients);
    for version in ["3", "5"] {
        let of = ["--mqtt-version", version];
        let words = [&["--verbose", "--qos", "2", "--count", "5"][..], &of].concat();
        let subscriber = subscribed(&url, "a/b", &words);
        for qos in ["0", "1", "2"] {
            publish(&url, &[&["-t", "a/b", "-m", qos, "--qos", qos][..], &of].concat());
        }
        publish(&url, &[&["-t", "a/b", "-m", "two\nlines"][..], &of].concat());
        let ended = subscriber.end();
        ended.assert_success();
        let expected = ["a/b first", "a/b 0", "a/b 1", "a/b 2", "a/b two\\nlines"];
        assert_eq!(messages(&ended), expected, "version {version}");
    }
}

#[test]
fn each_line_of_standard_input_is_a_message() {
    let server = Server::with_configuration(MQTT);
    let url = format!("mqtt://{}", server.clients);
    let subscriber = subscribed(&url, "lines", &["--count", "1001"]);
    let text: String = (1..=1_000).map(|number| format!("{number}\n")).collect();
    let mut command = crore();
    command.args(["mqtt", "pub", "-t", "lines", "--qos", "2", "--url", &url]);
    let output = end_to_end::process::with_input(&mut command, text.as_bytes());
    assert!(output.status.success(), "{output:?}");
    let ended = subscriber.end();
    ended.assert_success();
    let expected: Vec<String> = (1..=1_000).map(|number| number.to_string()).collect();
    assert_eq!(messages(&ended)[1..], expected);
}

#[test]
fn objects_have_topic_qos_retain_flag_and_properties() {
    let server = Server::with_configuration(MQTT);
    let url = format!("mqtt://{}", server.clients);
    let subscriber = subscribed(&url, "o/p", &["--json", "--count", "2"]);
    let properties = ["--property", "k=1", "--property", "k=2", "--content-type", "text/plain"];
    publish(&url, &[&["-t", "o/p", "-m", "x"][..], &properties].concat());
    let ended = subscriber.end();
    ended.assert_success();
    let objects: Vec<Value> =
        messages(&ended).iter().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(objects[0]["retain"], true);
    let user = json!([["k", "1"], ["k", "2"]]);
    let properties = json!({ "content_type": "text/plain", "user": user });
    let expected = json!({
        "event": "message", "topic": "o/p", "data": "x", "qos": 1, "retain": false,
        "properties": properties,
    });
    assert_eq!(objects[1], expected);
}

#[test]
fn a_session_keeps_messages_and_ends_when_asked() {
    let server = Server::with_configuration(MQTT);
    let url = format!("mqtt://{}", server.clients);
    for version in ["3", "5"] {
        let lasting = ["--id", version, "--session-expiry", "60s", "--mqtt-version", version];
        let subscriber = subscribed(&url, "kept", &[&["--count", "1"][..], &lasting].concat());
        subscriber.end().assert_success();
        publish(&url, &["-t", "kept", "-m", "second"]);
        let words = [&["sub", "-t", "other", "--count", "1"][..], &lasting].concat();
        let ended = run(&url, &words);
        ended.assert_success();
        assert_eq!(messages(&ended), ["second"], "version {version}");
    }
    publish(&url, &["-t", "kept", "-m", "third"]);
    let lasting = ["--id", "5", "--session-expiry", "60s", "--clean"];
    let words = [&["sub", "-t", "kept", "--count", "1"][..], &lasting].concat();
    assert_eq!(messages(&run(&url, &words)), ["first"], "the retained message only");
}

#[test]
fn a_subscriber_returns_after_a_restart_and_its_will_is_published() {
    let mut place = Place::new("127.0.0.1:0");
    place.configure(MQTT);
    let server = place.start();
    let url = format!("mqtt://{}", server.clients);
    let will = ["--will-topic", "gone", "--will-message", "bye", "--will-qos", "1"];
    let mut subscriber = subscribed(&url, "r", &will);
    let witness = subscribed(&url, "gone", &["--count", "2"]);
    subscriber.signal("KILL");
    let ended = witness.end();
    ended.assert_success();
    assert_eq!(messages(&ended), ["first", "bye"]);
    subscriber = subscribed(&url, "r", &["--count", "2"]);
    server.process.signal("KILL");
    server.end();
    let _server = place.start();
    subscriber.wait_for("a new attempt", |line| line.contains("next attempt in").then_some(()));
    publish(&url, &["-t", "r", "-m", "again", "--retain"]);
    let ended = subscriber.end();
    ended.assert_success();
    assert_eq!(messages(&ended), ["first", "again"]);
}

#[test]
fn refusals_explain_the_remedy() {
    let mut place = Place::new("127.0.0.1:0");
    let issuer = Issuer::new(&place, "HS256", "");
    place.configure(&configuration(MQTT, &[&issuer]));
    let server = place.start();
    let url = format!("mqtt://{}", server.clients);
    let token = place.path("password");
    std::fs::write(&token, issuer.token("--sub anna --subscribe news"))
        .expect("the folder is ours");
    let file = ["--password-file", token.to_str().expect("a path of ours")];
    for (arguments, expected) in [
        (&["sub", "-t", "news"][..], "--password-file FILE or CRORE_MQTT_PASSWORD"),
        (&["pub", "-t", "news", "-m", "x"], "--password-file FILE or CRORE_MQTT_PASSWORD"),
    ] {
        let ended = run(&url, arguments);
        let said = ended.lines.join("\n");
        assert_eq!(ended.status.code(), Some(1), "{said}");
        assert!(said.contains(expected), "{said}");
    }
    for (arguments, expected) in [
        (&["sub", "-t", "other"][..], "other: refused: 0x87 (not authorized)"),
        (&["pub", "-t", "news", "-m", "x"], "message 1: refused: 0x87 (not authorized)"),
    ] {
        let ended = run(&url, &[arguments, &file].concat());
        let said = ended.lines.join("\n");
        assert_eq!(ended.status.code(), Some(1), "{said}");
        assert!(said.contains(expected), "{said}");
    }
}

#[test]
fn a_publisher_fails_at_once_without_a_server() {
    let ended = run("127.0.0.1:1", &["pub", "-t", "a", "-m", "x"]);
    let said = ended.lines.join("\n");
    assert_eq!(ended.status.code(), Some(1), "{said}");
    assert!(said.contains("no server answers at 127.0.0.1:1: connection refused"), "{said}");
    assert!(said.contains("--url or CRORE_MQTT_URL"), "{said}");
}

#[test]
fn tls_protects_both_commands() {
    let mut place = Place::new("127.0.0.1:0");
    let folder = place.path("tls");
    let folder = folder.to_str().expect("a path of ours").to_owned();
    end_to_end::process::assert_success(crore().args(["tls", "self-signed", "--out", &folder]));
    place.configure(&format!(
        "{MQTT}tls_listen = \"127.0.0.1:0\"\n\
         [tls]\nlisten = \"127.0.0.1:0\"\ncertificate_file = \"{folder}/cert.pem\"\n\
         key_file = \"{folder}/key.pem\"\n"
    ));
    let server = place.start();
    let url = format!("mqtts://{}", server.tls_clients);
    let ca = format!("{folder}/cert.pem");
    publish(&url, &["-t", "t", "-m", "secret", "--retain", "--ca", &ca]);
    let ended = run(&url, &["sub", "-t", "t", "--count", "1", "--insecure"]);
    ended.assert_success();
    assert_eq!(messages(&ended), ["secret"]);
    let ended = run(&url, &["pub", "-t", "t", "-m", "x"]);
    assert!(ended.lines.join("\n").contains("TLS:"), "{ended:?}");
}

//! The programs of `docs/tokens.md`, unchanged: each creates a token that a node accepts, and the
//! browser's part receives messages with one.

use std::fs;
use std::path::Path;
use std::process::Command;

use end_to_end::curl::curl;
use end_to_end::metrics::Metrics;
use end_to_end::process::Process;
use end_to_end::server::{Place, Server};
use end_to_end::tools::{cache, crore, node};
use serde_json::json;

/// The first code block in this language.
fn program(language: &str, first_words: &str) -> String {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/tokens.md");
    let page = fs::read_to_string(page).expect("the page");
    let fence = format!("```{language}\n");
    let fences = page.split(&fence).skip(1);
    let mut programs = fences.map(|rest| rest.split("\n```").next().expect("its end"));
    let found = programs.find(|program| program.contains(first_words));
    found.expect(first_words).to_owned()
}

/// A node with the page's configuration, and the secret that it shares with the programs.
fn started() -> (Place, Server) {
    let mut place = Place::new("127.0.0.1:0");
    let secret = place.path("secret");
    let made = crore().args(["token", "key", "--algorithm", "HS256", "-o"]).arg(&secret).status();
    assert!(made.expect("the binary runs").success());
    let page = program("sh", "crore token key");
    let (_, text) = page.split_once("<<'EOF'\n").expect("its configuration");
    let (text, _) = text.split_once("EOF\n").expect("its end");
    let path = format!("{secret:?}");
    place.configure(&text.replace("\"secret\"", &path));
    let server = place.start();
    (place, server)
}

/// The token that a program of the page prints for Anna.
fn token_of(place: &Place, (language, file): (&str, &str), command: &[&str]) -> String {
    fs::write(place.path(file), program(language, file)).expect("the folder is ours");
    let folder = place.path("");
    let mut run = Command::new(command[0]);
    run.args(&command[1..]).args([file, "anna"]);
    // Go keeps its build cache, and does not use the network.
    run.env("GOCACHE", cache("go-cache")).env("GOFLAGS", "-mod=mod").env("GOTOOLCHAIN", "local");
    let output = run.current_dir(folder).output();
    let output = output.unwrap_or_else(|error| panic!("{command:?}: {error}; cargo xtask setup"));
    assert!(output.status.success(), "{file}: {output:?}");
    String::from_utf8(output.stdout).expect("a token is text").trim().to_owned()
}

#[test]
fn each_program_creates_a_token() {
    let (place, server) = started();
    for (program, command) in [
        (("js", "token.mjs"), &["node"][..]),
        (("python", "token_for.py"), &["python3"]),
        (("php", "token.php"), &["php"]),
        (("go", "token.go"), &["go", "run"]),
    ] {
        let token = token_of(&place, program, command);
        let bearer = format!("Authorization: Bearer {token}");
        let ask = |topic: &str, more: &[&str]| {
            let url = server.url(topic);
            curl(&[&["-H", &bearer, &url], more].concat())
        };
        let publish = ["-d", "hello"];
        ask("/topics/chat/anna", &publish).expect(200);
        let refused = ask("/topics/chat/ben", &publish).expect_problem(403, "forbidden");
        let refused = refused.body;
        assert!(refused.contains("not permitted to publish to chat/ben"), "{refused}");
        let stream = "/events?topic=user/anna/%23&topic=user/ben";
        ask(stream, &[]).expect_problem(403, "forbidden");
    }
}

/// npm's `EventSource`, which prints its errors for the message of a failure.
const REPORTING: &str = "
const { EventSource: Plain } = require('eventsource');
globalThis.EventSource = class extends Plain {
  constructor(url) {
    super(url);
    this.addEventListener('open', () => console.log('open'));
    this.addEventListener('error', ({ code, message }) => console.log('error', code, message));
  }
};";

/// npm's `EventSource` replaces the browser's: also after a restart of the node.
#[test]
fn the_browsers_part_receives_messages() {
    let (mut place, server) = started();
    let anna = token_of(&place, ("js", "token.mjs"), &["node"]);
    let text = format!(
        "{}\n{REPORTING}\n\
         const [node, token] = process.argv.slice(2);\n\
         listen(node, ['user/anna/#'], async () => token, (message) => console.log(JSON.stringify(message)));\n",
        program("js", "live.js")
    );
    let script = place.path("listen.cjs");
    fs::write(&script, text).expect("the folder is ours");
    let path = script.to_str().expect("a path of ours");
    let url = server.url("");
    let mut listening = Process::start(&mut node(path, &[&url, &anna]));
    let subscribed = |server: &Server| {
        Metrics::of(&server.operators).wait_for("crore_subscriptions", |count| count == 1);
    };
    let operate = |server: &Server, text: &str| {
        let body = json!({"topic": "user/anna/in", "data": text}).to_string();
        let url = server.operators_url("/api/v1/publish");
        curl(&["-H", "Content-Type: application/json", "-d", &body, &url]).expect(200);
    };
    // Messages before its subscription are not received.
    let heard = |listening: &mut Process, text: &str| {
        let is_it = |line: &str| {
            let is_it = line.contains(&format!("\"data\":\"{text}\""));
            is_it.then_some(())
        };
        listening.wait_for("the message", is_it);
    };
    listening.wait_for("open stream", |line| (line == "open").then_some(()));
    subscribed(&server);
    operate(&server, "first");
    heard(&mut listening, "first");
    server.process.signal("TERM");
    let _ = server.end();
    let server = place.start();
    listening.wait_for("open stream", |line| (line == "open").then_some(()));
    subscribed(&server);
    operate(&server, "second");
    heard(&mut listening, "second");
}

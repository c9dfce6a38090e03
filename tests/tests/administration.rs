//! The administration of a running node: the page in a browser, and `crore conn`, `topic` and
//! `top`.

use std::fs;
use std::time::Duration;

use end_to_end::curl::{curl, publish, stream};
use end_to_end::metrics::Metrics;
use end_to_end::process::{Ended, Process};
use end_to_end::server::{Place, Server};
use end_to_end::tools::{crore, node, reports};
use serde_json::Value;

/// The time limit for a browser to visit all views.
const WALK: Duration = Duration::from_secs(300);

/// A subscriber of `news/one`, and some messages.
fn load(clients: &str) -> Process {
    let mut subscriber = stream(&["-N", &format!("{clients}/events?topic=news/one")]);
    subscriber.wait_for("the stream", |line| line.contains("crore.start").then_some(()));
    for topic in ["a", "b", "c"] {
        publish(&format!("{clients}/topics/prices/{topic}"), "1.5");
    }
    subscriber
}

#[test]
fn every_view_works_in_a_browser() {
    let server = Server::start();
    let _subscriber = load(&server.url(""));
    let pictures = reports("administration");
    fs::create_dir_all(&pictures).expect("the target folder is ours");
    let pictures = pictures.to_str().expect("a path in UTF-8");
    let arguments = [&server.operators_url("/")[..], pictures];
    let page = Process::start(&mut node("administration.cjs", &arguments));
    page.end_within(WALK).assert_success();
}

/// Short addresses lead to a page: `/admin/` to the administration, and `/` of the clients' port to
/// a text about it.
#[test]
fn short_addresses_lead_to_a_page() {
    let server = Server::start();
    let moved = curl(&[&server.operators_url("/admin/")]).expect(308);
    assert_eq!(moved.header("location"), Some("/admin"));
    let text = curl(&[&server.url("/")]).expect(200);
    assert_eq!(text.header("content-type"), Some("text/plain; charset=utf-8"));
    assert!(text.body.contains("/openapi.json"), "{}", text.body);
}

fn run(server: &Server, words: &[&str]) -> Ended {
    let mut command = crore();
    command.args(words).args(["--operators", &server.operators_url("")]);
    Process::start(&mut command).end()
}

fn objects(ended: &Ended) -> Vec<Value> {
    ended.assert_success();
    let parsed = ended.lines.iter().map(|line| serde_json::from_str(line));
    parsed.collect::<Result<_, _>>().expect("one object a line")
}

#[test]
fn the_command_line_shows_connections() {
    let server = Server::start();
    let subscriber = load(&server.url(""));
    let found = objects(&run(&server, &["conn", "list", "--protocol", "events", "--json"]));
    assert_eq!(found.len(), 1);
    let id = found[0]["id"].as_str().expect("a name").to_owned();
    let table = run(&server, &["conn", "list", "--address", "127.0.0.1"]);
    assert!(table.lines[0].starts_with("ID"), "{table:?}");
    assert!(table.lines.iter().any(|line| line.starts_with(&id)), "{table:?}");
    let shown = objects(&run(&server, &["conn", "show", &id, "--json"]));
    assert_eq!(shown[0]["subscribed"][0]["topic"], "news/one");
    run(&server, &["conn", "show", &id]).assert_success();
    run(&server, &["conn", "kick", &id]).assert_success();
    subscriber.end();
    Metrics::of(&server.operators).wait_for("crore_connections", |count| count == 0);
    let again = run(&server, &["conn", "kick", &id]);
    assert_eq!(again.status.code(), Some(1), "{again:?}");
    assert!(again.lines.join("\n").contains("404"), "{again:?}");
}

#[test]
fn the_command_line_shows_topics() {
    let server = Server::start();
    let _subscriber = load(&server.url(""));
    let names = |words: &[&str]| -> Vec<String> {
        let found = objects(&run(&server, words));
        let mut names: Vec<String> = found.iter().map(|topic| topic["topic"].to_string()).collect();
        names.sort();
        names
    };
    let prices = ["\"prices/a\"", "\"prices/b\"", "\"prices/c\""];
    assert_eq!(names(&["topic", "list", "prices/", "--json"]), prices);
    assert_eq!(names(&["topic", "list", "+/b", "--json"]), ["\"prices/b\""]);
    assert_eq!(names(&["topic", "list", "--limit", "2", "--json"]).len(), 2);
    let shown = objects(&run(&server, &["topic", "show", "news/one", "--json"]));
    assert_eq!(shown[0]["subscribers"], 1);
    let table = run(&server, &["topic", "show", "prices/a"]);
    assert!(table.lines.join("\n").contains("records in memory   1, "), "{table:?}");
    assert_eq!(run(&server, &["topic", "show", "none"]).status.code(), Some(1));
}

#[test]
fn top_shows_one_screen() {
    let server = Server::start();
    let _subscriber = load(&server.url(""));
    let screen = run(&server, &["top", "--once"]);
    screen.assert_success();
    assert!(screen.lines.len() <= 24, "{screen:?}");
    assert!(screen.lines.iter().all(|line| line.chars().count() <= 80), "{screen:?}");
    let text = screen.lines.join("\n");
    for expected in ["ready", "connections", "published/s", "memory of messages and clients"] {
        assert!(text.contains(expected), "{expected}\n{text}");
    }
}

/// A node with a public operators' port, and an API key for operators.
struct Elsewhere {
    clients: String,
    operators: String,
    api_key: String,
    _place: Place,
    _process: Process,
}

impl Elsewhere {
    fn start() -> Elsewhere {
        let made = Process::start(crore().args(["token", "key"])).end();
        made.assert_success();
        let (api_key, table) = made.lines.split_first().expect("a key");
        let place = Place::new("127.0.0.1:0");
        place.configure(&format!(
            "[entitlement]\nmode = \"tokens\"\nsecret = \"0123456789abcdef0123456789abcdef\"\n\
             anonymous_subscribe = [\"#\"]\nanonymous_publish = [\"#\"]\n{}\noperate = true\n",
            table.join("\n")
        ));
        let more = "exec \"$0\" \"$@\" --admin-listen 0.0.0.0:0";
        let mut process = place.launch_by(&["sh", "-c", more]);
        let mut address = |prefix: &str| {
            process.wait_for(prefix, |line| {
                Some(line.strip_prefix(prefix)?.trim_end_matches('/').to_owned())
            })
        };
        let clients = address("listening clients http://");
        let port = address("listening operators http://0.0.0.0:");
        process.wait_for("readiness", |line| (line == "ready").then_some(()));
        Elsewhere {
            clients: format!("http://{clients}"),
            operators: format!("http://127.0.0.1:{port}"),
            api_key: api_key.clone(),
            _place: place,
            _process: process,
        }
    }

    /// The status of a request with these curl arguments.
    fn status(&self, path: &str, arguments: &[&str]) -> u16 {
        let url = format!("{}{path}", self.operators);
        curl(&[arguments, &[&url]].concat()).status
    }
}

/// A public operators' port requires a key for everything that shows clients. A browser presents it
/// once, and only pages of this origin may make changes with its cookie.
#[test]
fn a_public_operators_port_requires_a_key() {
    let node = Elsewhere::start();
    for path in [
        "connections",
        "connections/5",
        "connections/5/subscriptions",
        "topics",
        "topic?topic=a",
        "topic/history?topic=a",
        "rules",
        "limits",
        "statistics",
        "statistics/history",
    ] {
        assert_eq!(node.status(&format!("/api/v1/{path}"), &[]), 401, "{path}");
    }
    let bearer = format!("Authorization: Bearer {}", node.api_key);
    assert_eq!(node.status("/api/v1/topics", &["-H", &bearer]), 200);

    let json = ["-H", "Content-Type: application/json"];
    let wrong = [&json[..], &["-d", "{\"api_key\":\"crore_x\"}"]].concat();
    assert_eq!(node.status("/api/v1/session", &wrong), 401);
    let body = format!("{{\"api_key\":\"{}\"}}", node.api_key);
    let url = format!("{}/api/v1/session", node.operators);
    let begun = curl(&[&json[..], &["-d", &body, &url]].concat()).expect(204);
    let field = begun.header("set-cookie").expect("a cookie").to_owned();
    assert!(field.contains("HttpOnly") && field.contains("SameSite=Strict"), "{field}");
    assert!(!field.contains(&node.api_key), "{field}");
    let cookie = format!("Cookie: {}", field.split(';').next().expect("a pair"));
    let with_cookie = ["-H", &cookie[..]];
    assert_eq!(node.status("/api/v1/topics", &with_cookie), 200);

    let message = ["-d", "{\"topic\":\"a\",\"data\":\"x\"}"];
    let publish = |more: &[&str]| {
        let arguments = [&with_cookie[..], &json, &message, more].concat();
        node.status("/api/v1/publish", &arguments)
    };
    let own = format!("Origin: {}", node.operators);
    assert_eq!(publish(&["-H", &own]), 200);
    assert_eq!(publish(&[]), 401);
    assert_eq!(publish(&["-H", "Origin: http://evil.example"]), 401);

    let end = [&with_cookie[..], &["-X", "DELETE"]].concat();
    assert_eq!(node.status("/api/v1/session", &end), 204);
    assert_eq!(node.status("/api/v1/topics", &with_cookie), 401);
}

/// All views behind a login.
#[test]
fn every_view_works_behind_a_login() {
    let elsewhere = Elsewhere::start();
    let _subscriber = load(&elsewhere.clients);
    let url = format!("{}/", elsewhere.operators);
    let mut command = node("administration.cjs", &[&url]);
    command.env("API_KEY", &elsewhere.api_key);
    Process::start(&mut command).end_within(WALK).assert_success();
}

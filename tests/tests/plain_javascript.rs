//! The README's client of `crore.v1.json` in twelve lines of JavaScript works as written, in Node
//! and in a browser, across a kill of the node: it resumes from a log on disk, and reports the gap
//! of a log in memory.

use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use end_to_end::PATIENCE;
use end_to_end::curl::{curl, publish};
use end_to_end::process::Process;
use end_to_end::server::{Place, Server};
use end_to_end::tools::node;

const README: &str = include_str!("../../README.md");
const TOPIC: &str = "/topics/demo/greeting";
/// A browser may take long to start on a busy machine.
const BROWSER: Duration = Duration::from_secs(180);

/// A log on disk.
fn configure_disk(place: &Place) {
    let data = place.path("data");
    place.configure(&format!(
        "[node]\ndata_dir = {data:?}\n[[log]]\nname = \"kept\"\ndurability = \"disk\"\n"
    ));
}

/// A file with the code and the address of this test's node.
fn code(place: &Place, server: &Server) -> PathBuf {
    let blocks = README.split("```js\n").skip(1).filter_map(|rest| rest.split_once("```"));
    let code = blocks.map(|(code, _)| code).find(|code| code.contains("crore.v1.json"));
    let code = code.expect("the README has it");
    assert_eq!(code.lines().count(), 12, "the README promises so many lines");
    let path = place.path("client.js");
    fs::write(&path, code.replace("127.0.0.1:8800", &server.clients)).expect("our folder");
    path
}

/// Starts the code in Node.
fn start_code(place: &Place, server: &Server) -> Process {
    Process::start(&mut node("plain_javascript.cjs", &[&code(place, server).to_string_lossy()]))
}

/// Waits until the client is subscribed; operators see a session in JSON.
fn wait_for_session(server: &Server) {
    let deadline = Instant::now() + PATIENCE;
    let metrics = || curl(&[&server.operators_url("/metrics")]).expect(200).body;
    let is_subscribed = |metrics: &str| {
        metrics.contains("crore_sessions{protocol=\"json\"} 1\n")
            && metrics.contains("\ncrore_subscriptions 1\n")
    };
    while !is_subscribed(&metrics()) {
        assert!(Instant::now() < deadline, "no session in\n{}", metrics());
    }
}

fn wait_for(client: &mut Process, text: &str) {
    client.wait_for(text, |line| (line == text).then_some(()));
}

fn killed(server: Server) {
    server.process.signal("KILL");
    server.end();
}

#[test]
fn twelve_lines_resume_without_a_gap() {
    let mut place = Place::new("127.0.0.1:0");
    configure_disk(&place);
    let server = place.start();
    let mut client = start_code(&place, &server);
    wait_for_session(&server);
    publish(&server.url(TOPIC), "one");
    wait_for(&mut client, "one");
    killed(server);
    let server = place.start();
    publish(&server.url(TOPIC), "two");
    // The next line: no gap came before it.
    let next = client.wait_for("a line", |line| Some(line.to_owned()));
    assert_eq!(next, "two");
    wait_for_session(&server);
    let url = server.operators_url("/api/v1/connections?protocol=json");
    let connections = curl(&[&url]).expect(200).json();
    assert_eq!(connections["connections"][0]["protocol"], "json", "{connections}");
}

#[test]
fn twelve_lines_work_in_a_browser() {
    let mut place = Place::new("127.0.0.1:0");
    configure_disk(&place);
    let server = place.start();
    let path = code(&place, &server);
    let arguments = [&server.url(TOPIC), &*path.to_string_lossy(), "two"];
    let client = Process::start(&mut node("plain_javascript_browser.cjs", &arguments));
    let mut client = client.with_patience(BROWSER);
    wait_for_session(&server);
    publish(&server.url(TOPIC), "one");
    wait_for(&mut client, "one");
    killed(server);
    let server = place.start();
    publish(&server.url(TOPIC), "two");
    let next = client.wait_for("a line", |line| Some(line.to_owned()));
    assert_eq!(next, "two");
}

#[test]
fn twelve_lines_report_a_gap_and_continue() {
    let mut place = Place::new("127.0.0.1:0");
    let server = place.start();
    let mut client = start_code(&place, &server);
    wait_for_session(&server);
    publish(&server.url(TOPIC), "one");
    wait_for(&mut client, "one");
    killed(server);
    let server = place.start();
    let next = client.wait_for("a line", |line| Some(line.to_owned()));
    assert!(next.starts_with("messages are missing: "), "{next}");
    publish(&server.url(TOPIC), "two");
    wait_for(&mut client, "two");
}

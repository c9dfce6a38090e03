//! Live upgrade of a node with logs on disk: acknowledged messages are present, whichever process
//! dies, without a visible effect.

use std::fs;
use std::time::Instant;

use end_to_end::PATIENCE;
use end_to_end::curl::{curl, publish};
use end_to_end::event_stream::EventStream;
use end_to_end::native::{Frame, Native};
use end_to_end::process::Process;
use end_to_end::server::{Place, Server};
use end_to_end::tools::crore;
use end_to_end::upgrading::Flow;
use serde_json::{Value, json};

/// Two logs on disk with little memory, so that most reads come from there; and one in memory.
fn configuration(place: &Place) -> String {
    let log = |name: &str, partitions_count: u32| {
        format!(
            "[[log]]\nname = \"{name}\"\ndurability = \"disk\"\npartitions_count = {partitions_count}\n\
             bytes_max = \"1GiB\"\nage_max = \"1d\"\ncache_bytes = \"64KiB\"\n"
        )
    };
    let rule = |filter: &str, log: &str| {
        format!(
            "[[rule]]\nfilter = \"{filter}\"\nlog = \"{log}\"\nhistory_messages_max = 1000000\n"
        )
    };
    let logs = log("kept", 4) + &log("other", 1) + "[[log]]\nname = \"memory\"\n";
    let rules = rule("#", "kept") + &rule("other/#", "other") + &rule("memory/#", "memory");
    format!(
        "[node]\nio_threads = 2\ndata_dir = \"{}\"\n{logs}{rules}",
        place.path("data").display()
    )
}

fn started() -> (Place, Server) {
    let mut place = Place::new("127.0.0.1:0");
    place.configure(&configuration(&place));
    let server = place.start();
    (place, server)
}

/// The position of a publication, as text.
fn position(published: &Value) -> String {
    let epoch = published["epoch"].as_str().expect("text");
    format!("{epoch}:{}", published["offset"])
}

/// The URL of a topic.
fn url(server: &Server, topic: &str) -> String {
    server.url(&format!("/topics/{topic}"))
}

/// Asserts the messages behind a position, without a gap.
fn assert_follows(
    server: &Server,
    (topic, since): (&str, &str),
    wanted: impl Iterator<Item = String>,
) {
    let mut replay = EventStream::open(&url(server, topic), 1, Some(since));
    for wanted in wanted {
        assert_eq!(replay.next_message().data, wanted, "{topic}");
    }
}

/// The payloads of a flow.
fn flowed(count: u64) -> impl Iterator<Item = String> {
    (0..count).map(|number| number.to_string()).chain(["end".to_owned()])
}

/// Publishes by `crore pub`, with a producer's number.
fn publish_as_producer(server: &Server, sequence: u32) -> Value {
    let mut command = crore();
    command.args(["pub", "--json", "--url", &server.ws_url("")]);
    command.args(["--producer", "p", "--sequence", &sequence.to_string()]);
    let output = command.args(["once/b", "text"]).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    serde_json::from_slice(&output.stdout).unwrap()
}

fn publish_with_key(server: &Server) -> Value {
    let header = "Idempotency-Key: \"first\"";
    let url = url(server, "once/a");
    let answer = curl(&["--data-binary", "text", "--header", header, &url]);
    answer.expect(200).json()
}

/// Messages published by one process that the next one must know.
struct Before {
    key: Value,
    producer: Value,
    /// The position in a topic with more history than memory and sockets hold.
    first: String,
    count: usize,
}

impl Before {
    fn new(place: &Place, server: &Server) -> Before {
        let key = publish_with_key(server);
        let producer = publish_as_producer(server, 7);
        let first = position(&publish(&url(server, "long"), "first"));
        let count = 2_000;
        for start in (0..count).step_by(100) {
            let batch =
                (start..start + 100).map(|number| json!({"topic": "long", "data": long(number)}));
            let batch = json!({"batch": batch.collect::<Vec<_>>()});
            let path = place.path("batch.json");
            fs::write(&path, batch.to_string()).unwrap();
            let data = format!("@{}", path.display());
            let json = "Content-Type: application/json";
            let answer = curl(&["--data-binary", &data, "-H", json, &server.url("/publish")]);
            let answer = answer.expect(200).json();
            let results = answer["results"].as_array().expect("results");
            assert!(results.iter().all(|one| one["error"].is_null()), "{answer}");
        }
        Before { key, producer, first, count }
    }

    /// Checks that all is unchanged, in the same epoch.
    fn check(&self, server: &Server) {
        let again = |before: &Value| {
            let mut again = before.clone();
            again["duplicate"] = true.into();
            again
        };
        assert_eq!(publish_with_key(server), again(&self.key));
        assert_eq!(publish_as_producer(server, 7), again(&self.producer));
        assert_follows(server, ("long", &self.first), (0..self.count).map(long));
    }
}

/// A payload of 16 kilobytes.
fn long(number: usize) -> String {
    format!("{number:016000}")
}

/// Publishers that wait for disks, subscribers, one that does not read and needs messages from the
/// disk: three upgrades in a row, and then a crash.
#[test]
fn connections_and_messages_are_kept() {
    let (mut place, mut server) = started();
    // A client that does not read: its messages fill its socket, and the rest waits on the disk.
    let (mut lagging, _) = Native::connect(&server.clients, None);
    let answer = lagging.subscribe_one(1, "long");
    assert!(matches!(answer, Frame::Subscribed { .. }), "{answer:?}");
    let before = Before::new(&place, &server);
    let topics = ["flow/a", "flow/b", "other/c", "memory/d"];
    let filters = ["flow/a", "+/b", "other/c", "memory/#"];
    let firsts = topics.map(|topic| position(&publish(&url(&server, topic), "before")));
    let flows = topics.iter().zip(filters);
    let flows: Vec<Flow> =
        flows.map(|(topic, filter)| Flow::begin(&server, topic, filter)).collect();
    let more = || flows.iter().for_each(|flow| flow.wait_for_more(50));
    more();
    let mut successor = server.process.upgrade();
    for _ in 0..2 {
        more();
        successor = successor.upgrade(&mut server.process);
    }
    more();
    let counts: Vec<u64> = flows.into_iter().map(Flow::end).collect();
    before.check(&server);
    let owed = ["first".to_owned()].into_iter().chain((0..before.count).map(long));
    for wanted in owed {
        assert_eq!(lagging.next_payload(), wanted);
    }

    let audit = |server: &Server, is_restarted: bool| {
        for ((topic, first), count) in topics.iter().zip(&firsts).zip(&counts) {
            if is_restarted && topic.starts_with("memory") {
                continue;
            }
            assert_follows(server, (topic, first), flowed(*count));
        }
    };
    audit(&server, false);
    successor.kill(server);
    let server = place.start();
    audit(&server, true);
    before.check(&server);
}

/// At whatever point the new process dies before the commit, the old one continues, and appends.
#[test]
fn the_old_process_continues_if_the_new_one_dies() {
    for place_of_death in (1..=12).chain(14..=16) {
        let mut place = Place::new("127.0.0.1:0");
        place.configure(&configuration(&place));
        let process = place.launch_with_failing_upgrade(place_of_death);
        let mut server = place.started(process);
        let first = position(&publish(&url(&server, "flow"), "before"));
        let flow = Flow::begin(&server, "flow", "flow");
        flow.wait_for_more(20);
        server.process.skip_lines();
        server.process.signal("USR2");
        did_not_take_place(&mut server.process, "");
        flow.wait_for_more(20);
        let count = flow.end();
        let audit = |server: &Server| assert_follows(server, ("flow", &first), flowed(count));
        audit(&server);
        server.process.signal("KILL");
        let _ = server.end();
        audit(&place.start());
    }
}

/// Waits until an upgrade has failed, for a reason with these words.
fn did_not_take_place(process: &mut Process, why: &str) {
    process.wait_for("the end of the upgrade", |line| {
        assert!(!line.contains("is the node now"), "{line}");
        (line.contains("The upgrade failed") && line.contains(why)).then_some(())
    });
}

/// After the commit its death is an ordinary crash: acknowledged messages are present.
#[test]
fn the_new_process_dies_after_the_commit() {
    for place_of_death in [13, 17] {
        let mut place = Place::new("127.0.0.1:0");
        place.configure(&configuration(&place));
        let process = place.launch_with_failing_upgrade(place_of_death);
        let mut server = place.started(process);
        let before = Before::new(&place, &server);
        server.process.skip_lines();
        server.process.signal("USR2");
        server.process.wait_for("the commit", |line| {
            line.contains("The new process is the node now").then_some(())
        });
        server.end();
        let server = place.start();
        before.check(&server);
        publish(&url(&server, "long"), "after");
        let wanted = (0..before.count).map(long).chain(["after".to_owned()]);
        assert_follows(&server, ("long", &before.first), wanted);
    }
}

/// A log that cannot be handed over is named, and the node continues to serve.
#[test]
fn a_log_that_cannot_be_handed_over_is_named() {
    let (mut place, mut server) = started();
    let before = Before::new(&place, &server);
    let flow = Flow::begin(&server, "flow", "flow");
    flow.wait_for_more(20);
    let ask = |server: &mut Server, why: &str| {
        server.process.skip_lines();
        server.process.signal("USR2");
        did_not_take_place(&mut server.process, why);
        flow.wait_for_more(20);
    };
    // The new process would use another directory.
    let usual = configuration(&place);
    place.configure(&usual.replace("/data", "/elsewhere"));
    fs::create_dir(place.path("elsewhere")).unwrap();
    ask(&mut server, "/elsewhere/");
    assert_eq!(fs::read_dir(place.path("elsewhere")).unwrap().count(), 0);
    place.configure(&usual);
    flow.end();

    // Its disk is full: it cannot be closed.
    server.process.limit_file_bytes(Some(64));
    server.process.skip_lines();
    server.process.signal("USR2");
    did_not_take_place(&mut server.process, "log \\\"");
    server.process.limit_file_bytes(None);
    // It recovers by itself.
    let deadline = Instant::now() + PATIENCE;
    let ready = server.operators_url("/readyz");
    while curl(&[&ready]).status != 200 {
        assert!(Instant::now() < deadline, "it takes nothing any more");
    }
    let successor = server.process.upgrade();
    before.check(&server);
    successor.kill(server);
    before.check(&place.start());
}

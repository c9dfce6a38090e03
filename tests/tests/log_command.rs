//! `crore log`: its output for a directory that is valid, torn, damaged, in use, or not a log; and
//! the remains after retention.

use std::fs;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use end_to_end::PATIENCE;
use end_to_end::curl::curl;
use end_to_end::process::{Ended, Process};
use end_to_end::server::{Place, Server};
use end_to_end::tools::crore;

/// The size of a payload: a segment of the minimum size holds some fifty of them.
const PAYLOAD_BYTES: usize = 1_000;

fn place_with(log: &str) -> (Place, Server) {
    let mut place = Place::new("127.0.0.1:0");
    configure(&place, log);
    let server = place.start();
    (place, server)
}

fn configure(place: &Place, log: &str) {
    place.configure(&format!(
        "[node]\ndata_dir = \"{}\"\n[limits]\nmessage_bytes_max = \"16KiB\"\n[[log]]\nname = \"kept\"\ndurability = \"disk\"\npartitions_count = 4\n\
         segment_bytes = \"64KiB\"\ncache_bytes = \"64KiB\"\n{log}\n",
        place.path("data").display()
    ));
}

fn directory(place: &Place) -> PathBuf {
    place.path("data/kept")
}

fn payload(number: usize) -> String {
    format!("{number:0PAYLOAD_BYTES$}")
}

/// Publishes messages to `topic` one by one over HTTP; each is a separate batch. Returns the
/// position of the first.
fn publish_many(server: &Server, topic: &str, numbers: std::ops::Range<usize>) -> String {
    let mut first = None;
    for number in numbers {
        let payload = payload(number);
        let answer = end_to_end::curl::publish(&server.url(&format!("/topics/{topic}")), &payload);
        first.get_or_insert(answer);
    }
    let first = first.expect("at least one");
    format!("{}:{}", first["epoch"].as_str().unwrap(), first["offset"])
}

/// A directory with this number of messages, after a clean end of the node.
fn left_in_order(count: usize) -> Place {
    let (place, server) = place_with("age_max = \"1d\"");
    publish_many(&server, "a/b", 0..count);
    server.process.signal("TERM");
    server.end().assert_success();
    place
}

/// Runs `crore log WHAT DIRECTORY` with further arguments.
fn log(what: &str, directory: &Path, arguments: &[&str]) -> Ended {
    let mut command = crore();
    command.args(["log", what]).arg(directory).args(arguments);
    Process::start(&mut command).end()
}

/// The only JSON object of an output.
fn json(ended: &Ended) -> serde_json::Value {
    serde_json::from_str(&ended.lines.join("\n"))
        .unwrap_or_else(|error| panic!("{error}: {ended:?}"))
}

#[track_caller]
fn check(ended: &Ended, code: i32, parts: &[&str]) {
    let said = ended.lines.join("\n");
    assert_eq!(ended.status.code(), Some(code), "{said}");
    for part in parts {
        assert!(said.contains(part), "no \"{part}\" in {said}");
    }
}

/// The segments, oldest first.
fn segments(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).expect("the log's directory");
    let paths = entries.map(|entry| entry.expect("an entry").path());
    let mut segments: Vec<PathBuf> =
        paths.filter(|path| path.extension().is_some_and(|it| it == "log")).collect();
    segments.sort();
    segments
}

/// Every name in the directory with the file's bytes, to detect changes.
fn contents(directory: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let entries = fs::read_dir(directory).expect("the log's directory");
    let mut files: Vec<(PathBuf, Vec<u8>)> = entries
        .map(|entry| entry.expect("an entry").path())
        .map(|path| (path.clone(), fs::read(path).expect("a file")))
        .collect();
    files.sort();
    files
}

#[test]
fn a_valid_log_has_no_fault() {
    let place = left_in_order(120);
    let directory = directory(&place);
    let before = contents(&directory);
    let count = segments(&directory).len();
    assert!(count > 2, "{count}");

    let verified = log("verify", &directory, &[]);
    check(&verified, 0, &[&format!("whole: {count} segments, 120 messages")]);
    let verified = json(&log("verify", &directory, &["--json"]));
    assert_eq!(verified["whole"], true, "{verified}");
    assert_eq!(verified["messages"], 120, "{verified}");
    assert_eq!(verified["findings"], serde_json::json!([]), "{verified}");

    let dumped = log("dump", &directory, &["--json"]);
    dumped.assert_success();
    let objects = dumped.lines.iter().map(|line| {
        serde_json::from_str::<serde_json::Value>(line)
            .unwrap_or_else(|error| panic!("{error}: {line}"))
    });
    let objects: Vec<serde_json::Value> = objects.collect();
    let messages: Vec<_> = objects.iter().filter(|it| it["topic"] == "a/b").collect();
    assert_eq!(messages.len(), 120);
    for (number, message) in messages.iter().enumerate() {
        assert_eq!(message["data"], payload(number), "{message}");
        assert_eq!(message["offset"], number + 1, "{message}");
    }
    let heads = objects.iter().filter(|it| !it["segment"].is_null());
    assert_eq!(heads.count(), count);
    let text = log("dump", &directory, &[]);
    check(&text, 0, &["segment 1: epoch", ":120 a/b 0000"]);

    let stats = json(&log("stats", &directory, &["--json"]));
    assert_eq!(stats["segments"], count, "{stats}");
    assert_eq!(stats["messages"], 120, "{stats}");
    assert_eq!(stats["partitions_count"], 4, "{stats}");
    assert_eq!(stats["partitions"][0]["head"], 120, "{stats}");
    assert_eq!(stats["epochs"].as_array().map(Vec::len), Some(1), "{stats}");
    check(&log("stats", &directory, &[]), 0, &["messages    120", "partitions  4"]);

    assert!(contents(&directory) == before, "it has written something");
}

/// An unfinished batch after a power failure: it was never acknowledged, and counts as no fault.
#[test]
fn a_torn_tail_is_no_damage() {
    let (mut place, server) = place_with("age_max = \"1d\"");
    let first = publish_many(&server, "a/b", 0..20);
    server.process.signal("KILL");
    let _ = server.end();
    let directory = directory(&place);
    let newest = segments(&directory).pop().expect("a segment");
    let whole = fs::read(&newest).unwrap();
    let end = json(&log("stats", &directory, &["--json"]))["bytes"].as_u64().unwrap();
    assert!(whole.len() as u64 >= end, "one segment");
    // The beginning of the previous batch again: one valid record, and half of one.
    let mut torn = whole[..end as usize].to_vec();
    let half = whole[end as usize - 1_500..end as usize - 200].to_vec();
    torn.extend_from_slice(&half);
    fs::write(&newest, &torn).unwrap();

    let before = contents(&directory);
    let verified = log("verify", &directory, &[]);
    let bytes = format!("{} bytes at the end", half.len());
    check(&verified, 0, &["whole: 1 segments, 20 messages", &bytes, "never acknowledged"]);
    let stats = json(&log("stats", &directory, &["--json"]));
    assert_eq!(stats["torn_bytes"], half.len(), "{stats}");
    assert_eq!(stats["messages"], 20, "{stats}");
    let dumped = log("dump", &directory, &[]);
    check(&dumped, 0, &[":20 a/b"]);
    assert!(contents(&directory) == before, "it has written something");

    // The node cuts it and continues.
    let server = place.start();
    let url = server.url(&format!("/topics/a/b?since={first}"));
    let page = curl(&[&url]).expect(200).json();
    assert!(page["gap"].is_null(), "{page}");
    assert_eq!(page["messages"].as_array().map(Vec::len), Some(19), "{page}");
    publish_many(&server, "a/b", 20..21);
    server.process.signal("TERM");
    server.end().assert_success();
    check(&log("verify", &directory, &[]), 0, &["whole: ", " 21 messages"]);
}

/// Changed bits in acknowledged data: found, with exit code 1, at any position.
#[test]
fn flipped_bits_are_found() {
    let place = left_in_order(120);
    let directory = directory(&place);
    let oldest = segments(&directory).remove(0);
    let whole = fs::read(&oldest).unwrap();
    for at in [3, 70, whole.len() / 3, whole.len() / 2] {
        let mut flipped = whole.clone();
        flipped[at] ^= 0x10;
        fs::write(&oldest, &flipped).unwrap();
        let before = contents(&directory);
        let verified = log("verify", &directory, &[]);
        check(&verified, 1, &[]);
        assert!(!verified.lines.is_empty(), "byte {at}: there is no output");
        let dumped = log("dump", &directory, &[]);
        assert!(!dumped.lines.is_empty(), "byte {at}: there is no output");
        assert!(contents(&directory) == before, "it has written something");
    }
    // Within a message: all others are present, and the damage is reported.
    let mut flipped = whole.clone();
    flipped[whole.len() / 2] ^= 0x10;
    fs::write(&oldest, &flipped).unwrap();
    let verified = json(&log("verify", &directory, &["--json"]));
    assert_eq!(verified["whole"], false, "{verified}");
    assert!(!verified["findings"].as_array().unwrap().is_empty(), "{verified}");
    let dumped = log("dump", &directory, &["--json"]);
    dumped.assert_success();
    let count = |key: &str| {
        let is_one = |line: &&String| {
            let object: serde_json::Value = serde_json::from_str(line).expect("JSON");
            !object[key].is_null()
        };
        dumped.lines.iter().filter(is_one).count()
    };
    assert!(count("damage") >= 1, "{:?}", dumped.lines);
    assert!((110..120).contains(&count("topic")), "{}", count("topic"));
    fs::write(&oldest, &whole).unwrap();
    check(&log("verify", &directory, &[]), 0, &["whole: "]);

    // An index is rebuilt from its segment: its damage is reported, and nothing is lost.
    let index = oldest.with_extension("idx");
    let bytes = fs::read(&index).unwrap();
    let mut flipped = bytes.clone();
    flipped[100] ^= 1;
    fs::write(&index, &flipped).unwrap();
    let dumped = log("dump", &directory, &[]);
    check(&dumped, 0, &[":1 a/b", ":120 a/b"]);
}

#[test]
fn a_directory_in_use_can_be_inspected() {
    let (place, server) = place_with("age_max = \"1d\"");
    publish_many(&server, "a/b", 0..5);
    let directory = directory(&place);
    for what in ["verify", "dump", "stats"] {
        let refused = log(what, &directory, &[]);
        check(&refused, 1, &["another process has the log open"]);
    }
    let stats = json(&log("stats", &directory, &["--force", "--json"]));
    assert_eq!(stats["messages"], 5, "{stats}");
    // The command has not affected the node.
    publish_many(&server, "a/b", 5..6);
    server.process.signal("TERM");
    server.end().assert_success();
    check(&log("verify", &directory, &[]), 0, &[" 6 messages"]);
}

#[test]
fn other_directories_are_refused() {
    let place = Place::new("127.0.0.1:0");
    for what in ["verify", "dump", "stats"] {
        check(&log(what, &place.path("nothing"), &[]), 1, &["error: ", "nothing"]);
        assert!(!place.path("nothing").exists(), "it was made");
        check(&log(what, &place.path("crore.toml"), &[]), 1, &["error: "]);
        let folder = place.path(what);
        fs::create_dir(&folder).unwrap();
        check(&log(what, &folder, &[]), 1, &["error: "]);
        fs::write(folder.join("0000000000000001.log"), "nonsense").unwrap();
        check(&log(what, &folder, &[]), 1, &["error: "]);
        fs::write(folder.join("epochs"), [0xff; 300]).unwrap();
        check(&log(what, &folder, &[]), 1, &["error: "]);
        check(&log(what, &folder, &["--no-such-flag"]), 2, &[]);
    }
}

/// Polls the directory until `is_so` holds.
fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < deadline, "{what} takes too long");
        thread::sleep(Duration::from_millis(20));
    }
}

/// The oldest segments are dropped when the log exceeds its size; a returning client receives
/// exactly that gap.
#[test]
fn retention_drops_segments_beyond_the_size() {
    let (mut place, server) = place_with("age_max = \"1d\"\nbytes_max = \"256KiB\"");
    let first = publish_many(&server, "a/b", 0..400);
    let directory = directory(&place);
    let bytes = |directory: &Path| -> u64 {
        let sizes = segments(directory).into_iter();
        sizes.map(|path| fs::metadata(path).map_or(0, |it| it.len())).sum()
    };
    wait_until("dropping segments", || bytes(&directory) <= 256 << 10);
    check_gap_then_newest(&server, &first, 400);
    server.process.signal("KILL");
    let _ = server.end();
    check(&log("verify", &directory, &[]), 0, &["whole: "]);
    let server = place.start();
    check_gap_then_newest(&server, &first, 400);
    publish_many(&server, "a/b", 400..401);
    check_gap_then_newest(&server, &first, 401);
    server.process.signal("TERM");
    server.end().assert_success();
    let stats = json(&log("stats", &directory, &["--json"]));
    let kept = stats["messages"].as_u64().unwrap();
    assert!((100..300).contains(&kept), "{stats}");
    assert!(stats["bytes"].as_u64().unwrap() <= 256 << 10, "{stats}");
}

/// Checks for a gap up to the log's start, then everything to the newest message.
#[track_caller]
fn check_gap_then_newest(server: &Server, since: &str, count: u64) {
    let url = server.url(&format!("/topics/a/b?since={since}&limit=1000"));
    let page = curl(&[&url]).expect(200).json();
    assert_eq!(page["gap"]["reason"], "evicted", "{page}");
    let messages = page["messages"].as_array().expect("a list");
    let offsets: Vec<u64> = messages.iter().filter_map(|it| it["offset"].as_u64()).collect();
    let oldest = page["gap"]["to"].as_u64().expect("a number") + 1;
    let newest = oldest + offsets.len() as u64 - 1;
    assert_eq!(offsets, (oldest..=newest).collect::<Vec<u64>>(), "{page}");
    assert!(newest == count || page["more"] == true, "{page}");
    assert!(!offsets.is_empty(), "{page}");
}

/// Segments whose newest message is too old are dropped, also those from before the start, and the
/// newest one.
#[test]
fn retention_drops_segments_beyond_the_age() {
    let (mut place, server) = place_with("age_max = \"1d\"");
    let first = publish_many(&server, "a/b", 0..150);
    server.process.signal("KILL");
    let _ = server.end();
    let directory = directory(&place);
    let before = segments(&directory);
    // The rule permits a longer history, so missing messages were dropped.
    let rule = "[[rule]]\nfilter = \"#\"\nhistory_age_max = \"1d\"";
    configure(&place, &format!("age_max = \"1s\"\n{rule}"));
    let server = place.start();
    wait_until("dropping segments", || before.iter().all(|segment| !segment.exists()));
    publish_many(&server, "a/b", 150..151);
    let url = server.url(&format!("/topics/a/b?since={first}"));
    let page = curl(&[&url]).expect(200).json();
    assert_eq!(page["gap"]["reason"], "evicted", "{page}");
    server.process.signal("TERM");
    server.end().assert_success();
    check(&log("verify", &directory, &[]), 0, &["whole: "]);
}

/// Messages in the log beyond the rule's limit are missing for another reason.
#[test]
fn messages_too_old_for_the_rule_are_a_gap() {
    let rule = "[[rule]]\nfilter = \"#\"\nhistory_age_max = \"1s\"";
    let (_place, server) = place_with(&format!("age_max = \"1d\"\n{rule}"));
    let first = publish_many(&server, "a/b", 0..3);
    let url = server.url(&format!("/topics/a/b?since={first}"));
    let page = || curl(&[&url]).expect(200).json();
    wait_until("growing old", || page()["messages"] == serde_json::json!([]));
    let page = page();
    assert_eq!(page["gap"]["reason"], "history_limit", "{page}");
    assert_eq!(page["gap"]["to"], 3, "{page}");
}

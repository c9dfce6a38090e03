//! `crore demo --break-it`: subscribers survive an upgrade, a kill and a drain, and the demo
//! reports the results correctly.

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use end_to_end::process::{Ended, Process};
use end_to_end::server::Place;
use end_to_end::tools::crore;

/// Longer than the demo's own time limit.
const PATIENCE: Duration = Duration::from_secs(200);

/// A small demo. Its files are in the place's folder.
fn demo(place: &Place, arguments: &[&str]) -> Command {
    let directory = temporary(place);
    fs::create_dir_all(&directory).expect("the folder is ours");
    let mut command = crore();
    command.env("TMPDIR", directory);
    command.env("RUNTIME_DIRECTORY", place.path("run"));
    command.args(["demo", "--break-it", "--clients", "20", "--rate", "200"]);
    // Many tests share the machine.
    command.args(["--duration", "3m"]).args(arguments);
    command
}

fn temporary(place: &Place) -> PathBuf {
    place.path("tmp")
}

fn assert_nothing_is_left(place: &Place) {
    let left: Vec<_> = fs::read_dir(temporary(place)).expect("a folder").collect();
    assert!(left.is_empty(), "{left:?}");
}

/// The figures of one kind of subscribers in one round.
#[derive(Debug)]
struct Row {
    published: u64,
    received: u64,
    recovered: u64,
    lost: u64,
    reconnects: u64,
    /// The faults behind the figures; empty if there are none.
    faults: String,
}

/// The rows in order: for each round that of the single subscriber, and that of the others.
fn rows(ended: &Ended) -> Vec<Row> {
    let of_kind = |line: &&String| {
        let name = line.trim_start();
        name.starts_with("1 subscriber ") || name.starts_with("20 others ")
    };
    let row = |line: &String| {
        let words: Vec<&str> = line.split_whitespace().skip(2).collect();
        let number = |place: usize| words[place].replace(',', "").parse().expect("a number");
        Row {
            published: number(0),
            received: number(1),
            recovered: number(2),
            lost: number(3),
            reconnects: number(4),
            faults: words[6..].join(" "),
        }
    };
    ended.lines.iter().filter(of_kind).map(row).collect()
}

#[test]
fn subscribers_live_through_every_break() {
    let place = Place::new("127.0.0.1:0");
    let ended = Process::start(&mut demo(&place, &[])).end_within(PATIENCE);
    ended.assert_success();
    let rows = rows(&ended);
    assert_eq!(rows.len(), 6, "{:#?}", ended.lines);
    for row in &rows {
        // Two seconds of messages, all acknowledged.
        assert_eq!((row.published, row.received, row.lost), (400, 400, 0));
        assert!(row.recovered <= row.received, "{row:?}");
        assert_eq!(row.faults, "");
    }
    let reconnects: Vec<u64> = rows.iter().map(|row| row.reconnects).collect();
    assert_eq!(reconnects[..4], [0, 0, 1, 20], "{rows:#?}");
    // A client that reconnects before the node has stopped may be sent away again.
    assert!(reconnects[4] >= 1 && reconnects[5] >= 20, "{rows:#?}");
    assert_nothing_is_left(&place);
}

/// The log of this node is lost with its process: the demo reports that, and fails.
#[test]
fn a_log_in_memory_fails() {
    let place = Place::new("127.0.0.1:0");
    let ended = Process::start(&mut demo(&place, &["--memory-log"])).end_within(PATIENCE);
    assert_eq!(ended.status.code(), Some(1), "{:#?}", ended.lines);
    let rows = rows(&ended);
    assert_eq!(rows.len(), 6, "{:#?}", ended.lines);
    // An upgrade keeps the memory.
    assert_eq!([&*rows[0].faults, &*rows[1].faults], ["", ""]);
    for row in &rows[2..] {
        assert!(row.faults.contains("gaps: "), "{row:?}");
    }
    let said = ended.lines.join("\n");
    let error = "error: the subscribers did not receive every message once and in order";
    assert!(said.contains(error), "{said}");
    assert_nothing_is_left(&place);
}

#[test]
fn ctrl_c_leaves_nothing_behind() {
    let place = Place::new("127.0.0.1:0");
    let mut process = Process::start(&mut demo(&place, &[]));
    // The node is not a child of the demo any more, but its grandchild.
    let node = process.wait_for("a new process", |line| {
        let (_, rest) = line.split_once("Process ")?;
        let (number, _) = rest.split_once(" has replaced process ")?;
        number.parse::<u32>().ok()
    });
    process.signal("INT");
    let ended = process.end_within(PATIENCE);
    assert_eq!(ended.status.code(), Some(130), "{:#?}", ended.lines);
    assert!(!PathBuf::from(format!("/proc/{node}")).exists());
    assert_nothing_is_left(&place);
}

//! Samples in, lines out.

use super::*;

/// A node that is looked at once a second.
struct Watched {
    began: Instant,
    second: u64,
    sockets: Statistics,
    retention_failed: u64,
    retained_lost: u64,
    mirrors_dropped: u64,
    courses: [Course; ALL.len()],
}

impl Watched {
    fn new() -> Watched {
        Watched {
            began: Instant::now(),
            second: 0,
            sockets: Statistics::default(),
            retention_failed: 0,
            retained_lost: 0,
            mirrors_dropped: 0,
            courses: Default::default(),
        }
    }

    /// A second passes, and then a look: the lines as text.
    fn look(&mut self) -> Vec<String> {
        self.second += 1;
        let sample = Sample {
            at: self.began + Duration::from_secs(self.second),
            sockets: self.sockets,
            connections_max: 1_000,
            retention_failed: self.retention_failed,
            retained_lost: self.retained_lost,
            mirrors_dropped: self.mirrors_dropped,
        };
        let lines = look(&mut self.courses, &sample, |shortage| format!("{shortage:?}: all"));
        lines
            .into_iter()
            .map(|line| {
                let fields = line.fields.iter().filter(|(name, _)| *name != "advice");
                let fields: Vec<String> =
                    fields.map(|(name, value)| format!("{name}={value}")).collect();
                format!("{:?} {} {}", line.level, line.sentence, fields.join(" "))
            })
            .collect()
    }
}

const FULL: &str = "Warn New connections wait: a descriptor table is full. limit=Descriptors: all";

#[test]
fn it_begins_goes_on_and_passes() {
    let mut node = Watched::new();
    assert_eq!(node.look(), [""; 0]);
    node.sockets.accept_errors.descriptors += 20;
    assert_eq!(node.look(), [format!("{FULL} count=20")]);
    // Twenty a second for two minutes and a half: a line a minute.
    let mut lines = Vec::new();
    for _ in 0..150 {
        node.sockets.accept_errors.descriptors += 20;
        lines.extend(node.look());
    }
    assert_eq!(
        lines,
        [format!("{FULL} count=1,200 for_s=60"), format!("{FULL} count=1,200 for_s=120"),]
    );
    let lines: Vec<String> = (0..300).flat_map(|_| node.look()).collect();
    assert_eq!(lines, ["Info File descriptors are available again. count=3,020 lasted_s=150"]);
}

#[test]
fn what_comes_and_goes_is_not_told_each_time() {
    let mut node = Watched::new();
    let mut lines = Vec::new();
    for second in 0..600 {
        if second % 10 == 0 {
            node.sockets.starved_writes += 3;
        }
        lines.extend(node.look());
    }
    let warnings = lines.iter().filter(|line| line.starts_with("Warn")).count();
    assert_eq!((warnings, lines.len()), (10, 20), "{lines:#?}");
    // Those in between are counted by the next.
    assert!(lines[2].ends_with("count=18"), "{lines:#?}");
}

#[test]
fn no_room_lasts_until_there_is_some() {
    let mut node = Watched::new();
    node.sockets.accepted = 1_000;
    node.sockets.refused = 1;
    node.sockets.closed = 1;
    let begin = "Warn Connections are refused: there is no room for more. limit=Connections: all";
    assert_eq!(node.look(), [format!("{begin} count=1")]);
    // No client tries for a while, and the node stays full.
    assert!((0..120).all(|_| node.look().is_empty()));
    node.sockets.closed += 1;
    assert_eq!(node.look(), ["Info There is room for connections again. count=1 lasted_s=0"]);
}

#[test]
fn each_shortage_goes_its_own_way() {
    let mut node = Watched::new();
    let errors = &mut node.sockets.accept_errors;
    (errors.descriptors, errors.files, errors.memory) = (1, 1, 1);
    (errors.watches, errors.other) = (1, 1);
    (node.sockets.starved_writes, node.sockets.refused) = (1, 1);
    node.sockets.closed = 1;
    (node.retention_failed, node.retained_lost, node.mirrors_dropped) = (1, 1, 1);
    assert_eq!(node.look().len(), ALL.len());
    let ends: Vec<String> = (0..10).flat_map(|_| node.look()).collect();
    assert_eq!(ends.len(), ALL.len());
    assert!(ends.iter().all(|line| line.starts_with("Info")), "{ends:?}");
}

/// A disk that refuses retention once a second has a line a minute.
#[test]
fn a_disk_that_does_not_let_a_log_forget() {
    let mut node = Watched::new();
    let mut lines = Vec::new();
    for _ in 0..150 {
        node.retention_failed += 1;
        lines.extend(node.look());
    }
    let line = "Warn A log on disk cannot drop old segments: its disk returns errors. limit=Retention: all";
    let counts = ["count=1", "count=60 for_s=60", "count=60 for_s=120"];
    assert_eq!(lines, counts.map(|count| format!("{line} {count}")));
}

//! Logs shortages of resources that connections need, their limits, and their ends.
//!
//! A thread reads the counters of the sockets once a second, which wakes no other thread.
//! Invariant: whatever clients do, each shortage has at most one warning and one end a minute.

mod limits;

use crate::doctor::count;
use crate::logging::{Level, Log};
use limits::Limits;
use net::Statistics;
use node::Node;
use std::io;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, Instant};

/// Time between two reads of the counters.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// Minimum time between two warnings of the same shortage.
const TELL_EVERY: Duration = Duration::from_secs(60);
/// Time without effects after which a shortage has ended.
const QUIET: Duration = Duration::from_secs(5);

/// A resource that can run out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Shortage {
    Connections,
    Descriptors,
    Files,
    Memory,
    Watches,
    TcpMemory,
    Retention,
    Retained,
    Mirrors,
}

const ALL: [Shortage; 9] = [
    Shortage::Connections,
    Shortage::Descriptors,
    Shortage::Files,
    Shortage::Memory,
    Shortage::Watches,
    Shortage::TcpMemory,
    Shortage::Retention,
    Shortage::Retained,
    Shortage::Mirrors,
];

/// The counters at one moment.
#[derive(Clone, Copy, Debug)]
struct Sample {
    at: Instant,
    sockets: Statistics,
    connections_max: u64,
    /// See `node::Troubles`.
    retention_failed: u64,
    retained_lost: u64,
    mirrors_dropped: u64,
}

/// A line to write.
#[derive(PartialEq, Eq, Debug)]
struct Line {
    level: Level,
    sentence: &'static str,
    fields: Vec<(&'static str, String)>,
}

/// The state of one shortage.
#[derive(Clone, Copy, Debug, Default)]
struct Course {
    /// The last value of its counter.
    counted: u64,
    /// The count that no line has reported yet.
    untold: u64,
    /// Time of the last warning.
    told_at: Option<Instant>,
    /// None while there is no shortage.
    going: Option<Going>,
}

#[derive(Clone, Copy, Debug)]
struct Going {
    began: Instant,
    /// Time of the last increase of the counter.
    last: Instant,
    /// The count since its begin.
    count: u64,
    was_told: bool,
}

/// Checks a node once a second, on a thread of its own, until the node has stopped.
///
/// # Errors
/// The system refuses a thread.
pub fn watch(node: Arc<RwLock<Option<Node>>>, log: Log) -> io::Result<()> {
    // Files are opened now: during a shortage of files it would fail.
    let limits = Limits::open();
    let mut courses = [Course::default(); ALL.len()];
    std::thread::Builder::new().name("shortages".into()).spawn(move || {
        while let Some(sample) = sample(&node) {
            for line in look(&mut courses, &sample, |of| limits.text(of, &sample)) {
                let fields: Vec<(&str, &str)> =
                    line.fields.iter().map(|(name, value)| (*name, value.as_str())).collect();
                log.write(line.level, line.sentence, &fields);
            }
            std::thread::sleep(LOOK_EVERY);
        }
    })?;
    Ok(())
}

fn sample(node: &RwLock<Option<Node>>) -> Option<Sample> {
    let node = node.read().unwrap_or_else(PoisonError::into_inner);
    node.as_ref().map(|node| Sample {
        at: Instant::now(),
        sockets: node.sockets(),
        connections_max: node.connections_max(),
        retention_failed: node.troubles().retention_failed(),
        retained_lost: node.troubles().retained_lost(),
        mirrors_dropped: node.troubles().mirrors_dropped(),
    })
}

/// The lines of one check.
fn look(
    courses: &mut [Course; ALL.len()],
    sample: &Sample,
    limit: impl Fn(Shortage) -> String,
) -> Vec<Line> {
    let mut lines = Vec::new();
    for (shortage, course) in ALL.into_iter().zip(courses) {
        course.count(shortage.counter(sample), sample.at);
        lines.extend(course.warning(shortage, sample.at, &limit));
        lines.extend(course.end(shortage, sample));
    }
    lines
}

impl Course {
    fn count(&mut self, counter: u64, now: Instant) {
        let risen = counter.saturating_sub(self.counted);
        self.counted = counter;
        if risen == 0 {
            return;
        }
        self.untold += risen;
        let going =
            self.going.get_or_insert(Going { began: now, last: now, count: 0, was_told: false });
        going.last = now;
        going.count += risen;
    }

    fn warning(
        &mut self,
        shortage: Shortage,
        now: Instant,
        limit: impl Fn(Shortage) -> String,
    ) -> Option<Line> {
        let going = self.going.as_mut()?;
        let is_due = self.told_at.is_none_or(|told| now - told >= TELL_EVERY);
        if self.untold == 0 || !is_due {
            return None;
        }
        let mut fields = vec![("limit", limit(shortage)), ("count", count(self.untold))];
        if going.was_told {
            fields.push(("for_s", (now - going.began).as_secs().to_string()));
        }
        fields.push(("advice", shortage.advice().to_owned()));
        going.was_told = true;
        self.told_at = Some(now);
        self.untold = 0;
        Some(Line { level: Level::Warn, sentence: shortage.warning(), fields })
    }

    fn end(&mut self, shortage: Shortage, sample: &Sample) -> Option<Line> {
        let going = self.going?;
        if sample.at - going.last < QUIET || shortage.lasts(sample) {
            return None;
        }
        self.going = None;
        if !going.was_told {
            // The shortage began and ended within a minute of the last warning: the next one
            // includes its count.
            return None;
        }
        self.untold = 0;
        Some(Line {
            level: Level::Info,
            sentence: shortage.end(),
            fields: vec![
                ("count", count(going.count)),
                ("lasted_s", (going.last - going.began).as_secs().to_string()),
            ],
        })
    }
}

impl Shortage {
    fn counter(self, sample: &Sample) -> u64 {
        let sockets = &sample.sockets;
        match self {
            Shortage::Connections => sockets.refused,
            Shortage::Descriptors => sockets.accept_errors.descriptors,
            Shortage::Files => sockets.accept_errors.files,
            Shortage::Memory => sockets.accept_errors.memory,
            Shortage::Watches => sockets.accept_errors.watches,
            Shortage::TcpMemory => sockets.starved_writes,
            Shortage::Retention => sample.retention_failed,
            Shortage::Retained => sample.retained_lost,
            Shortage::Mirrors => sample.mirrors_dropped,
        }
    }

    /// Whether the shortage persists even without effects.
    fn lasts(self, sample: &Sample) -> bool {
        self == Shortage::Connections && held(&sample.sockets) >= sample.connections_max
    }

    fn warning(self) -> &'static str {
        match self {
            Shortage::Connections => "Connections are refused: there is no room for more.",
            Shortage::Descriptors => "New connections wait: a descriptor table is full.",
            Shortage::Files => {
                "New connections wait: the machine has reached its limit of open files."
            }
            Shortage::Memory => "New connections fail: the system has no memory for them.",
            Shortage::Watches => {
                "Connections are refused: this user has reached the limit of epoll watches."
            }
            Shortage::TcpMemory => {
                "Messages wait: the system has no memory for TCP. The node sends them when memory is available."
            }
            Shortage::Retention => {
                "A log on disk cannot drop old segments: its disk returns errors."
            }
            Shortage::Retained => {
                "Retained messages were lost on disk: their segment expired, and they could not be copied."
            }
            Shortage::Mirrors => {
                "A mirror was dropped, and begins anew: its disk is full, failed or too slow, it is damaged, or the engine has lost messages. Only older history is affected."
            }
        }
    }

    fn end(self) -> &'static str {
        match self {
            Shortage::Connections => "There is room for connections again.",
            Shortage::Descriptors => "File descriptors are available again.",
            Shortage::Files => "Open files of the machine are available again.",
            Shortage::Memory => "Memory for connections is available again.",
            Shortage::Watches => "Epoll watches are available again.",
            Shortage::TcpMemory => "TCP memory is available again.",
            Shortage::Retention => "Logs on disk drop old segments again.",
            Shortage::Retained => "No more retained messages are lost.",
            Shortage::Mirrors => "No more mirrors are dropped.",
        }
    }

    fn advice(self) -> &'static str {
        match self {
            Shortage::Connections | Shortage::Descriptors => {
                "`crore doctor` shows what limits connections, and how to raise the limit"
            }
            Shortage::Files => "`crore doctor` shows how to raise fs.file-max",
            Shortage::Memory => "`crore doctor` shows how much memory connections need",
            Shortage::Watches => "`crore doctor` shows how to raise fs.epoll.max_user_watches",
            Shortage::TcpMemory => "`crore doctor` shows how to raise net.ipv4.tcp_mem",
            Shortage::Mirrors => {
                "see `crore_mirrors_dropped_total`, and the disk of `node.data_dir`"
            }
            Shortage::Retention | Shortage::Retained => {
                "make its files readable and removable, and free space on its disk; `crore log verify` lists damage"
            }
        }
    }
}

/// Connections of all threads. The counters are not read at one moment, so the sum may be slightly
/// off.
fn held(sockets: &Statistics) -> u64 {
    (sockets.accepted + sockets.refused).saturating_sub(sockets.closed)
}

#[cfg(test)]
mod tests;

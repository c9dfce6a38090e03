//! `crore demo --break-it`: breaks the node three times while messages flow, and counts every
//! message.
//!
//! The node is a child process with its log on disk, and so is each of its successors. Two kinds of
//! subscribers exist for the whole run: one of all topics ([`Witness`]), and thousands with one
//! topic each. For each break, the demo publishes a fixed number of messages, each until it is
//! acknowledged, and breaks the node when a third of them has arrived. The round ends when all
//! subscribers have every acknowledged message, or when no more messages arrive: then the rest is
//! lost.

use super::panel::{grouped, time};
use super::server::{Server, Setup};
use super::witness::Witness;
use super::{Arguments, PUBLISHERS, Started, pattern, println};
use crate::commands::operators::{Port, ask_within};
use crate::exit::Ending;
use crate::signals::Signal;
use anyhow::{Context, anyhow};
use bench::engine::{
    Common, Counts, Handle, Publishers, PublishersConfig, Subscribers, SubscribersConfig, Tally,
};
use bench::run::Folder;
use rustix::process::{getpid, set_child_subreaper};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

/// Maximum length of the whole run, unless `--duration` sets another.
const LIMIT: Duration = Duration::from_secs(30);
/// Time for which messages are published in each round.
const ROUND_S: u64 = 2;
/// The break happens when this fraction of a round's messages has arrived.
const BREAK_AFTER: u64 = 3;
/// Time without messages after which no more are expected.
const QUIET: Duration = Duration::from_secs(5);
/// Time between two checks of the figures.
const LOOK: Duration = Duration::from_millis(10);
/// Prefix of the topics of the load.
const FILTER: &str = "load/#";

/// Breaks a node three times, and prints the figures of the messages.
///
/// # Errors
/// A message was lost, repeated or out of order, or a gap was reported; the node cannot be started;
/// or a signal stopped the run.
pub fn run(arguments: &Arguments, signal: Receiver<Signal>) -> Result<(), Ending> {
    let place = Place::new(arguments.memory_log)?;
    // The child may hand over to a new process, which must become a child of this process when the
    // old one ends.
    set_child_subreaper(Some(getpid())).context("cannot observe the node's processes")?;
    let mut run = Run::start(arguments, &place, signal)?;
    let mut rows = Vec::new();
    for (number, kind) in (1..).zip(Break::ALL) {
        let round = run.round(number, kind);
        rows.extend(round.map_err(|halt| halt.ending(run.patience))?);
    }
    println(&format!("\n{}", summary(&rows)))?;
    if rows.iter().all(Row::is_clean) {
        Ok(())
    } else {
        Err(anyhow!("the subscribers did not receive every message once and in order").into())
    }
}

/// A way to break the node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Break {
    Upgrade,
    Kill,
    Drain,
}

impl Break {
    const ALL: [Break; 3] = [Break::Upgrade, Break::Kill, Break::Drain];

    fn title(self) -> &'static str {
        match self {
            Break::Upgrade => {
                "Upgrade in place: a new process takes over the connections and the log."
            }
            Break::Kill => "kill -9: the process dies at once; a new one starts with the log.",
            Break::Drain => {
                "Drain: SIGTERM. The node tells its clients to reconnect, and stops; a new one starts with the log."
            }
        }
    }
}

/// The reason for the early end of a round.
enum Halt {
    Signal(Signal),
    /// The run has exceeded its time.
    Late,
    Failed(Ending),
}

impl<E: Into<Ending>> From<E> for Halt {
    fn from(error: E) -> Halt {
        Halt::Failed(error.into())
    }
}

impl Halt {
    fn ending(self, patience: Duration) -> Ending {
        match self {
            Halt::Signal(signal) => Ending::Signal(signal),
            Halt::Failed(ending) => ending,
            Halt::Late => anyhow!(
                "the run did not end within {} seconds; --duration allows more",
                patience.as_secs()
            )
            .into(),
        }
    }
}

/// A temporary directory with the node's configuration and its log.
struct Place(Folder);

impl Place {
    fn new(is_in_memory: bool) -> Result<Place, Ending> {
        let place = Place(Folder::new().context("cannot create a temporary directory")?);
        let durability = if is_in_memory { "memory" } else { "disk" };
        // One partition, so that the subscriber of all topics sees only one end of a replay.
        let text = format!(
            "[node]\ndrain_window = \"1s\"\n\
             [[log]]\nname = \"demo\"\ndurability = \"{durability}\"\npartitions_count = 1\n\
             [[rule]]\nfilter = \"#\"\nlog = \"demo\"\nhistory_messages_max = 100000\n"
        );
        fs::write(place.configuration(), text)
            .context("cannot write to the temporary directory")?;
        Ok(place)
    }

    fn configuration(&self) -> PathBuf {
        self.0.0.join("crore.toml")
    }

    /// A loopback address of its own for the node. While no process listens there, no other program
    /// gets its port, and a reconnecting client cannot connect to itself.
    fn setup(&self) -> Setup {
        let [_, _, high, low] = std::process::id().to_be_bytes();
        let address = format!("127.{}.{low}.1:0", 64 | high & 63);
        Setup {
            arguments: vec![
                "--config".into(),
                self.configuration().into(),
                "--data-dir".into(),
                self.0.0.join("data").into(),
            ],
            addresses: Some([address.clone(), address]),
        }
    }
}

struct Run {
    // Stop the clients first, so that they do not reconnect while the node stops.
    many: Handle,
    witness: Witness,
    server: Server,
    setup: Setup,
    io_threads: u64,
    clients: u64,
    rate: u64,
    size: usize,
    signal: Receiver<Signal>,
    deadline: Instant,
    patience: Duration,
}

impl Run {
    fn start(
        arguments: &Arguments,
        place: &Place,
        signal: Receiver<Signal>,
    ) -> Result<Run, Ending> {
        let patience = arguments.duration.unwrap_or(LIMIT);
        let deadline = Instant::now() + patience;
        let mut setup = place.setup();
        let Started { server, io_threads, clients, notes } =
            Started::new(arguments.clients, &setup)?;
        // The successors listen at the same addresses.
        setup.addresses = Some([&server.clients, &server.operators].map(|url| authority(url)));
        introduce(arguments, clients, &place.0.0, &server, &notes)?;
        let mut common = Common::new(std::slice::from_ref(&server.clients))?;
        common.connect_rate = arguments.connect_rate as f64;
        let mut run = Run {
            many: Subscribers::start(SubscribersConfig::new(
                common,
                pattern(1, clients)?,
                clients,
            ))?,
            witness: Witness::start(&server.clients, FILTER)?,
            server,
            setup,
            io_threads,
            clients,
            rate: arguments.rate,
            size: arguments.size as usize,
            signal,
            deadline,
            patience,
        };
        let ready = run.wait_until(Run::is_live);
        ready.map_err(|halt| halt.ending(patience))?;
        Ok(run)
    }

    /// Waits until all subscriptions are established, and no replay is running.
    fn is_live(&mut self) -> bool {
        self.witness.is_live()
            && u64::try_from(self.many.total().clients_live).is_ok_and(|live| live >= self.clients)
    }

    /// Publishes, breaks the node, and waits for the published messages. Prints and returns the
    /// figures of both kinds of subscribers.
    fn round(&mut self, number: u32, kind: Break) -> Result<[Row; 2], Halt> {
        println(&format!("\n{number}. {}", kind.title()))?;
        let before = self.many.snapshot().total.messages;
        self.witness.take();
        let count = (self.rate * ROUND_S).max(BREAK_AFTER);
        let mut publishers = self.publish(count)?;
        self.wait_until(|run| run.witness.messages() >= count / BREAK_AFTER)?;
        let told = self.break_node(kind)?;
        self.wait_until(|_| {
            let total = publishers.total();
            total.received + total.refused >= count
        })?;
        let published = publishers.stop().total.received;
        let one = self.settle(published, before)?;
        println(&format!("   {told}\n{}", Row::HEADING))?;
        let rows = [
            Row::new("1 subscriber".into(), published, &one),
            Row::new(
                format!("{} others", grouped(self.clients)),
                published,
                &self.many.snapshot().interval,
            ),
        ];
        for row in &rows {
            println(&row.text())?;
        }
        Ok(rows)
    }

    fn publish(&self, count: u64) -> anyhow::Result<Handle> {
        let common = Common::new(std::slice::from_ref(&self.server.clients))?;
        let topics = pattern(1, self.clients)?;
        let mut config = PublishersConfig::new(common, topics, self.rate as f64);
        config.connections = PUBLISHERS;
        config.load.size = self.size;
        config.load.count = count;
        config.load.exactly_once = true;
        Publishers::start(config)
    }

    /// Breaks the node. Returns a description of the result.
    fn break_node(&mut self, kind: Break) -> Result<String, Halt> {
        let before = self.server.process();
        let told = match kind {
            Break::Upgrade => {
                let port = Port::here(&self.server.operators);
                let left = self.deadline.saturating_duration_since(Instant::now());
                let request = ("POST", "/api/v1/upgrade");
                let body = serde_json::json!({});
                let answer = ask_within(left.max(LOOK), &port, request, Some(&body))?;
                let process = answer["process"].as_u64().unwrap_or(0);
                let process = u32::try_from(process).unwrap_or(0);
                self.server.replaced_by(process)?;
                let frozen_ms = answer["frozen_ms"].as_f64().unwrap_or(0.0);
                format!(" The node paused for {frozen_ms:.1} ms.")
            }
            Break::Kill => {
                self.server.kill()?;
                self.start_again()?;
                String::new()
            }
            Break::Drain => {
                self.server.drain()?;
                let left = self.deadline.saturating_duration_since(Instant::now());
                if !self.server.ends_within(left) {
                    return Err(Halt::Late);
                }
                self.start_again()?;
                String::new()
            }
        };
        let after = self.server.process();
        Ok(format!("Process {after} has replaced process {before}.{told}"))
    }

    fn start_again(&mut self) -> Result<(), Ending> {
        self.server = Server::start(self.io_threads, &self.setup)?;
        Ok(())
    }

    /// Waits until both kinds of subscribers have this number of messages and are live, or no more
    /// arrive. `before` is the number of messages that the many subscribers had before the round.
    /// Returns the figures of the one subscriber.
    fn settle(&mut self, published: u64, before: u64) -> Result<Tally, Halt> {
        let mut newest = (0, Instant::now());
        self.wait_until(|run| {
            let one = run.witness.messages();
            let many = run.many.total().messages - before;
            if one + many != newest.0 {
                newest = (one + many, Instant::now());
            }
            let is_complete = one.min(many) >= published && run.is_live();
            is_complete || newest.1.elapsed() >= QUIET
        })?;
        Ok(self.witness.take())
    }

    fn wait_until(&mut self, mut done: impl FnMut(&mut Run) -> bool) -> Result<(), Halt> {
        while !done(self) {
            if Instant::now() >= self.deadline {
                return Err(Halt::Late);
            }
            match self.signal.recv_timeout(LOOK) {
                Ok(signal) => return Err(Halt::Signal(signal)),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(Halt::from(anyhow!("the signal thread has ended")));
                }
            }
            if self.server.has_ended() {
                return Err(Halt::from(anyhow!("the node stopped unexpectedly")));
            }
        }
        Ok(())
    }
}

/// The figures of one kind of subscribers for one break.
#[derive(Clone, Debug, Default, PartialEq)]
struct Row {
    name: String,
    published: u64,
    counts: Counts,
    /// Time from the scheduled time of a message to its receipt.
    longest_us: f64,
}

impl Row {
    const HEADING: &str =
        "                   published  received  recovered  lost  reconnects  longest pause";

    fn new(name: String, published: u64, tally: &Tally) -> Row {
        let longest_us = tally.latency.digest().max_us;
        Row { name, published, counts: tally.counts, longest_us }
    }

    /// Messages that were acknowledged to the publisher and never received.
    fn lost(&self) -> u64 {
        self.published.saturating_sub(self.counts.messages)
    }

    fn gaps(&self) -> u64 {
        self.counts.gaps + self.counts.skipped
    }

    /// Deliveries that contradict the node's proofs, and payloads that no publisher sent.
    fn unproved(&self) -> u64 {
        self.counts.faults.proof_failed + self.counts.foreign
    }

    fn is_clean(&self) -> bool {
        let faults = &self.counts.faults;
        let wrong = faults.repeated + faults.out_of_order + self.unproved() + self.gaps();
        wrong == 0 && self.published > 0 && self.counts.messages == self.published
    }

    fn text(&self) -> String {
        let mut text = format!(
            "   {:<15}{:>10}{:>10}{:>11}{:>6}{:>12}{:>15}",
            self.name,
            grouped(self.published),
            grouped(self.counts.messages),
            grouped(self.counts.recovered),
            grouped(self.lost()),
            grouped(self.counts.disconnects),
            time(self.longest_us)
        );
        let others = [
            (self.gaps(), "gaps"),
            (self.counts.faults.repeated, "repeated"),
            (self.counts.faults.out_of_order, "out of order"),
            (self.unproved(), "contradicting the node's proof"),
        ];
        for (count, name) in others.into_iter().filter(|(count, _)| *count > 0) {
            text.push_str(&format!("  {name}: {}", grouped(count)));
        }
        text
    }
}

fn summary(rows: &[Row]) -> String {
    let sum = |pick: fn(&Row) -> u64| grouped(rows.iter().map(pick).sum());
    // Both kinds of subscribers have the same messages.
    let published = grouped(rows.iter().step_by(2).map(|row| row.published).sum());
    let longest_us = rows.iter().map(|row| row.longest_us).fold(0.0, f64::max);
    format!(
        "{published} messages published, {} received, {} of them recovered after a reconnect.\n\
         {} lost, {} repeated, {} out of order, {} gaps. The longest pause was {}.",
        sum(|row| row.counts.messages),
        sum(|row| row.counts.recovered),
        sum(Row::lost),
        sum(|row| row.counts.faults.repeated),
        sum(|row| row.counts.faults.out_of_order),
        sum(Row::gaps),
        time(longest_us)
    )
}

fn introduce(
    arguments: &Arguments,
    clients: u64,
    directory: &Path,
    server: &Server,
    notes: &[String],
) -> Result<(), Ending> {
    let log = if arguments.memory_log {
        "in memory".to_owned()
    } else {
        format!("on disk in {}", directory.display())
    };
    println(&format!(
        "A node keeps its log {log}. {} messages per second flow to one subscriber of all topics,\n\
         and to {} others with a topic each. The node is broken three times meanwhile.",
        grouped(arguments.rate),
        grouped(clients)
    ))?;
    for note in server.notices.iter().chain(notes) {
        println(&format!("Note: {note}"))?;
    }
    Ok(())
}

/// `ADDRESS:PORT` of a URL.
fn authority(url: &str) -> String {
    let authority = url.strip_prefix("http://").unwrap_or(url);
    authority.trim_end_matches('/').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_message_less_is_seen() {
        let counts = Counts { messages: 10, ..Counts::default() };
        let mut tally = Tally { counts, ..Tally::default() };
        let row = |published, tally: &Tally| Row::new("1 subscriber".into(), published, tally);
        assert!(row(10, &tally).is_clean());
        assert_eq!(row(11, &tally).lost(), 1);
        assert!(!row(11, &tally).is_clean());
        // More than was acknowledged, and nothing at all, are not as promised either.
        assert!(!row(9, &tally).is_clean());
        assert!(!row(0, &Tally::default()).is_clean());
        for spoil in [
            |tally: &mut Tally| tally.gaps = 1,
            |tally: &mut Tally| tally.skipped = 1,
            |tally: &mut Tally| tally.foreign = 1,
            |tally: &mut Tally| tally.faults.repeated = 1,
            |tally: &mut Tally| tally.faults.out_of_order = 1,
            |tally: &mut Tally| tally.faults.proof_failed = 1,
        ] {
            let mut spoilt = tally.clone();
            spoil(&mut spoilt);
            assert!(!row(10, &spoilt).is_clean());
        }
        tally.disconnects = 1;
        tally.recovered = 3;
        assert!(row(10, &tally).is_clean());
    }

    #[test]
    fn rows_stand_under_their_heading() {
        let row = Row {
            name: "10,000 others".into(),
            published: 6_000,
            counts: Counts {
                messages: 5_999,
                recovered: 812,
                disconnects: 10_000,
                ..Counts::default()
            },
            longest_us: 1_234.0,
        };
        assert_eq!(row.text().len(), Row::HEADING.len());
        let wanted =
            "   10,000 others       6,000     5,999        812     1      10,000         1.23ms";
        assert_eq!(row.text(), wanted);
    }
}

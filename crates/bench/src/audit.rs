//! The audit: the completeness of each stream over a whole run, including restarts of the server
//! and reconnects of the client.
//!
//! Place: beside [`crate::verify`], which checks message by message; this module stores the results
//! by stream, and compares them with the publishers' acknowledged messages ([`Ledger`]). Pure.
//!
//! A stream is *faulty* if a message is missing without an announcement, was repeated, or was out
//! of order. If the server announced the missing messages, it is a stream with gaps.

use std::collections::HashMap;
use std::fmt::Write as _;

use serde::{Deserialize, Serialize};

use crate::verify::Faults;

/// Maximum number of faulty streams that a summary names.
const EXAMPLES_MAX: usize = 10;

/// The acknowledged messages of publishers, by topic. Its file has one line for each topic: topic,
/// number of messages, last sequence number, separated by tabs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ledger {
    entries: HashMap<String, Entry>,
}

/// One topic of a ledger.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Entry {
    /// Number of acknowledged messages.
    pub acknowledged: u64,
    /// The highest sequence number of an acknowledged message.
    pub sequence: u64,
}

impl Ledger {
    /// Adds the content of a file. A topic belongs to one publisher, so its last line counts.
    ///
    /// # Errors
    /// A malformed line, with its number.
    pub fn read(&mut self, text: &str) -> Result<(), String> {
        for (number, line) in (1..).zip(text.lines()) {
            let entry = || {
                let (rest, sequence) = line.rsplit_once('\t')?;
                let (topic, acknowledged) = rest.rsplit_once('\t')?;
                let entry = Entry {
                    acknowledged: acknowledged.parse().ok()?,
                    sequence: sequence.parse().ok()?,
                };
                Some((topic.to_owned(), entry))
            };
            let (topic, entry) =
                entry().ok_or_else(|| format!("line {number} is not a line of a ledger"))?;
            self.entries.insert(topic, entry);
        }
        Ok(())
    }

    /// The text of a file.
    pub fn write(&self) -> String {
        let mut lines: Vec<_> = self.entries.iter().collect();
        lines.sort_unstable_by_key(|(topic, _)| *topic);
        let mut text = String::new();
        for (topic, entry) in lines {
            let _ = writeln!(text, "{topic}\t{}\t{}", entry.acknowledged, entry.sequence);
        }
        text
    }

    /// Adds a topic.
    pub fn insert(&mut self, topic: String, entry: Entry) {
        self.entries.insert(topic, entry);
    }

    /// The entry of a topic.
    pub fn entry(&self, topic: &str) -> Option<Entry> {
        self.entries.get(topic).copied()
    }

    /// Number of messages over all topics.
    pub fn acknowledged(&self) -> u64 {
        self.entries.values().map(|entry| entry.acknowledged).sum()
    }
}

/// The number of a message at its publisher.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counted {
    /// The publisher's number.
    pub publisher: u32,
    /// The message's sequence number on this topic, from 1.
    pub sequence: u64,
}

/// The state of one stream over the whole run.
#[derive(Clone, Debug, Default)]
pub struct Audit {
    faults: Faults,
    /// Number of distinct received messages.
    messages: u64,
    /// The first received sequence number, of any publisher.
    first: u64,
    /// The message with the highest number of the present publisher.
    newest: Counted,
    /// Number of messages in the announced gaps and skips, as far as sequence numbers show.
    announced: u64,
    /// Messages repeated after a gap with a new epoch: the log had lost them.
    again: u64,
    gaps: u32,
    skips: u32,
    /// Whether a gap or skip was announced after the newest message.
    is_open: bool,
    /// Whether the first event was a gap.
    begins_with_gap: bool,
    has_new_epoch: bool,
    has_begun: bool,
}

/// The result of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The server never answered its subscription.
    Unanswered,
    /// No message is missing, repeated or out of order.
    Complete,
    /// Complete except for announced skips.
    Skips,
    /// Complete except for announced gaps.
    Gaps,
    /// Faulty.
    Faulty,
}

impl Audit {
    /// Records the answer to the subscription.
    pub fn begun(&mut self) {
        self.has_begun = true;
    }

    /// Records a message, its number, and its fault, if any.
    pub fn message(&mut self, message: Counted, is_new: bool, faults: &Faults) {
        self.faults += *faults;
        if !is_new {
            return;
        }
        self.messages += 1;
        if self.first == 0 {
            self.first = message.sequence;
        }
        let was_open = std::mem::take(&mut self.is_open);
        if self.newest.publisher != message.publisher {
            self.newest = message;
            return;
        }
        if message.sequence > self.newest.sequence {
            if was_open {
                self.announced += message.sequence - self.newest.sequence - 1;
            }
            self.newest = message;
            self.has_new_epoch = false;
        } else if self.has_new_epoch {
            self.again += 1;
        } else if faults.is_clean() {
            // It arrived before the gap as well; the stream itself checks late messages.
            self.faults.repeated += 1;
        }
    }

    /// Records a fault that concerns no message.
    pub fn fault(&mut self, faults: &Faults) {
        self.faults += *faults;
    }

    /// Records an announced gap.
    pub fn gap(&mut self, has_new_epoch: bool) {
        self.gaps += 1;
        self.has_new_epoch |= has_new_epoch;
        self.open();
    }

    /// Records an announced skip.
    pub fn skip(&mut self) {
        self.skips += 1;
        self.open();
    }

    fn open(&mut self) {
        self.begins_with_gap |= self.messages == 0;
        self.is_open = true;
    }

    /// Whether an acknowledged message is still due; messages announced as missing are not.
    pub fn is_waiting_for(&self, entry: Entry, is_live: bool) -> bool {
        !is_live || (self.newest.sequence < entry.sequence && !self.is_open)
    }

    /// Number of messages that were acknowledged, but neither received nor announced: at the end,
    /// and from the publisher's first one on if the stream began with the oldest.
    /// one on where the stream began with the oldest.
    pub fn missing(&self, entry: Entry, is_from_first: bool) -> u64 {
        let tail = entry.sequence.saturating_sub(self.newest.sequence);
        let tail = if self.is_open { 0 } else { tail };
        let head = self.first.min(entry.sequence).saturating_sub(1);
        let is_head_wanted = is_from_first && !self.begins_with_gap;
        tail + if is_head_wanted { head } else { 0 }
    }

    fn verdict(&self, missing: u64) -> Verdict {
        if !self.faults.is_clean() || missing > 0 {
            Verdict::Faulty
        } else if !self.has_begun {
            Verdict::Unanswered
        } else if self.gaps > 0 {
            Verdict::Gaps
        } else if self.skips > 0 {
            Verdict::Skips
        } else {
            Verdict::Complete
        }
    }
}

/// The results of all streams of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Findings {
    /// Number of streams: topics times clients.
    pub streams: u64,
    /// Streams without missing, repeated or reordered messages.
    pub complete: u64,
    /// Streams that are complete except for announced gaps.
    pub with_gaps: u64,
    /// Streams that are complete except for announced skips.
    pub with_skips: u64,
    /// Faulty streams.
    pub faulty: u64,
    /// Streams whose subscription the server never answered.
    pub unanswered: u64,
    /// Distinct received messages.
    pub messages: u64,
    /// Messages in announced gaps and skips, as far as the publishers' numbers show.
    pub announced: u64,
    /// Messages repeated after a gap with a new epoch.
    pub again: u64,
    /// Messages that were acknowledged to their publisher, but neither received nor announced.
    pub missing_acknowledged: u64,
    /// Acknowledged messages according to the ledger; none without a ledger.
    pub ledger_acknowledged: Option<u64>,
    /// The first faulty streams, in words.
    pub examples: Vec<String>,
}

impl Findings {
    /// Adds a stream. `entry` is the ledger's entry of its topic.
    pub fn add(
        &mut self,
        topic: impl Fn() -> String,
        audit: &Audit,
        entry: Option<Entry>,
        is_from_first: bool,
    ) {
        let missing = entry.map_or(0, |entry| audit.missing(entry, is_from_first));
        self.streams += 1;
        self.messages += audit.messages;
        self.announced += audit.announced;
        self.again += audit.again;
        self.missing_acknowledged += missing;
        let verdict = audit.verdict(missing);
        match verdict {
            Verdict::Complete => self.complete += 1,
            Verdict::Skips => self.with_skips += 1,
            Verdict::Gaps => self.with_gaps += 1,
            Verdict::Faulty => self.faulty += 1,
            Verdict::Unanswered => self.unanswered += 1,
        }
        if verdict == Verdict::Faulty && self.examples.len() < EXAMPLES_MAX {
            let faults = &audit.faults;
            self.examples.push(format!(
                "{}: {} lost, {} repeated, {} out of order, {} failed proofs, {missing} acknowledged missing; {} came, \
                 numbers {} to {}; {} gaps, {} skips",
                topic(),
                faults.lost,
                faults.repeated,
                faults.out_of_order,
                faults.proof_failed,
                audit.messages,
                audit.first,
                audit.newest.sequence,
                audit.gaps,
                audit.skips
            ));
        }
    }

    /// Adds the results of another worker.
    pub fn merge(&mut self, other: Findings) {
        self.streams += other.streams;
        self.complete += other.complete;
        self.with_gaps += other.with_gaps;
        self.with_skips += other.with_skips;
        self.faulty += other.faulty;
        self.unanswered += other.unanswered;
        self.messages += other.messages;
        self.announced += other.announced;
        self.again += other.again;
        self.missing_acknowledged += other.missing_acknowledged;
        self.ledger_acknowledged = self.ledger_acknowledged.or(other.ledger_acknowledged);
        self.examples.extend(other.examples);
        self.examples.truncate(EXAMPLES_MAX);
    }

    /// Whether every stream is complete, or received announcements of everything missing.
    pub fn is_good(&self) -> bool {
        self.faulty == 0 && self.unanswered == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::payload::{Clock, Header};
    use crate::verify::Stream;

    /// An event of a stream, with sequence numbers of one publisher.
    #[derive(Clone, Copy, Debug)]
    enum Step {
        /// Messages, each with `prev` as a correct server gives it.
        Come(u64, u64),
        Gap,
        /// A gap with a new epoch.
        Lost,
        Skip,
    }
    use Step::{Come, Gap, Lost, Skip};

    fn play(steps: &[Step]) -> Audit {
        let (mut stream, mut audit) = (Stream::new(0), Audit::default());
        let (mut epoch, mut offset) = (1, 0);
        let beginning = wire::native::Beginning::default();
        stream.subscribed(0, epoch, &beginning);
        audit.begun();
        for step in steps {
            match *step {
                Come(from, to) => {
                    for sequence in from..=to {
                        let mut faults = Faults::default();
                        assert!(stream.check_proof(offset, offset + 1, &mut faults));
                        offset += 1;
                        let header = Header {
                            clock: Clock::Monotonic,
                            publisher: 5,
                            topic_hash: 0,
                            intended_ns: 0,
                            sequence,
                        };
                        let is_new = stream.check_sequence(&header, &mut faults);
                        let message = Counted { publisher: 5, sequence };
                        audit.message(message, is_new, &faults);
                    }
                }
                Gap | Lost => {
                    let is_lost = matches!(step, Lost);
                    (epoch, offset) = if is_lost { (epoch + 1, 0) } else { (epoch, offset + 9) };
                    stream.gap(epoch, offset);
                    audit.gap(is_lost);
                }
                Skip => {
                    let from = offset;
                    offset += 9;
                    stream.skipped(from, offset, &mut Faults::default());
                    audit.skip();
                }
            }
        }
        audit
    }

    #[test]
    fn verdicts() {
        fn check(steps: &[Step], verdict: Verdict, messages: u64, announced: u64) {
            let audit = play(steps);
            let told = (audit.verdict(0), audit.messages, audit.announced);
            assert_eq!(told, (verdict, messages, announced), "{steps:?}");
        }
        check(&[], Verdict::Complete, 0, 0);
        check(&[Come(4, 9)], Verdict::Complete, 6, 0);
        check(&[Come(1, 3), Come(5, 6)], Verdict::Faulty, 5, 0);
        check(&[Come(1, 3), Come(3, 4)], Verdict::Faulty, 4, 0);
        check(&[Come(1, 3), Gap, Come(7, 8)], Verdict::Gaps, 5, 3);
        check(&[Come(1, 3), Gap, Gap, Come(7, 8)], Verdict::Gaps, 5, 3);
        check(&[Come(1, 3), Gap], Verdict::Gaps, 3, 0);
        check(&[Come(1, 3), Skip, Come(7, 8)], Verdict::Skips, 5, 3);
        check(&[Come(1, 3), Gap, Come(4, 8)], Verdict::Gaps, 8, 0);
        // A message behind a gap that had come before it: only where the log had lost it.
        check(&[Come(1, 3), Gap, Come(3, 8)], Verdict::Faulty, 9, 0);
        check(&[Come(1, 3), Lost, Come(3, 8)], Verdict::Gaps, 9, 0);
        check(&[Come(1, 3), Lost, Come(6, 8), Gap, Come(8, 9)], Verdict::Faulty, 8, 2);
        assert_eq!(Audit::default().verdict(0), Verdict::Unanswered);
    }

    #[test]
    fn acknowledged_messages() {
        /// Acknowledged up to 9: the missing messages of a live stream and of a stream from the
        /// first message, and whether the audit waits for more.
        fn check(steps: &[Step], live: u64, first: u64, is_waiting: bool) {
            let entry = Entry { acknowledged: 9, sequence: 9 };
            let audit = play(steps);
            let missing = (audit.missing(entry, false), audit.missing(entry, true));
            assert_eq!(missing, (live, first), "{steps:?}");
            assert_eq!(audit.is_waiting_for(entry, true), is_waiting, "{steps:?}");
            assert!(audit.is_waiting_for(entry, false));
        }
        check(&[Come(1, 9)], 0, 0, false);
        check(&[Come(1, 12)], 0, 0, false);
        check(&[Come(1, 7)], 2, 2, true);
        check(&[Come(4, 9)], 0, 3, false);
        check(&[], 9, 9, true);
        check(&[Come(1, 7), Gap], 0, 0, false);
        check(&[Gap, Come(4, 9)], 0, 0, false);
        check(&[Gap, Come(4, 7)], 2, 2, true);
    }

    #[test]
    fn ledgers() {
        let mut ledger = Ledger::default();
        ledger.read("a/b\t3\t4\nc d\t1\t1\n").unwrap();
        assert_eq!(ledger.acknowledged(), 4);
        let entry = Entry { acknowledged: 3, sequence: 4 };
        assert_eq!((ledger.entry("a/b"), ledger.entry("x")), (Some(entry), None));
        let mut again = Ledger::default();
        again.read(&ledger.write()).unwrap();
        assert_eq!(again, ledger);
        for wrong in ["a", "a\t1", "a\tx\t1", "a\t1\t", ""] {
            let text = format!("b\t1\t1\n{wrong}\n");
            let said = Ledger::default().read(&text).unwrap_err();
            assert!(said.starts_with("line 2 "), "{said}");
        }
    }

    #[test]
    fn findings() {
        let mut findings = Findings::default();
        let entry = Entry { acknowledged: 3, sequence: 3 };
        for steps in [&[Come(1, 3)][..], &[Come(1, 2)], &[Come(1, 2), Gap]] {
            findings.add(|| "t".to_owned(), &play(steps), Some(entry), true);
        }
        let mut all = Findings::default();
        all.merge(findings);
        assert_eq!((all.streams, all.complete, all.with_gaps, all.faulty), (3, 1, 1, 1));
        assert_eq!((all.messages, all.missing_acknowledged), (7, 1));
        assert!(!all.is_good() && all.examples[0].starts_with("t: 0 lost"));
    }
}

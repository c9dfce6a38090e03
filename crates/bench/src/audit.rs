//! The audit: what became of each stream over a whole run, over restarts of the server and reconnects of the client too.
//!
//! Place: beside [`crate::verify`], which judges message by message; here it is kept for each stream, and held against
//! what publishers were acknowledged ([`Ledger`]). Pure.
//!
//! A stream is *faulty* when a message is missing that nobody announced, came twice, or came out of order. It is not
//! faulty when the server told what is missing: then it is a stream with gaps.

use std::collections::HashMap;
use std::fmt::Write as _;

use serde::{Deserialize, Serialize};

use crate::verify::Faults;

/// Faulty streams that a summary names.
const EXAMPLES_MAX: usize = 10;

/// What publishers were acknowledged, by topic. One line for each in its file: topic, messages, last sequence number,
/// with tabs between them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ledger {
    entries: HashMap<String, Entry>,
}

/// One topic of a ledger.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Entry {
    /// Messages that were acknowledged.
    pub acknowledged: u64,
    /// The highest sequence number among them.
    pub sequence: u64,
}

impl Ledger {
    /// Reads a file's text, in addition to what is there. A topic belongs to one publisher, so the last line of it counts.
    ///
    /// # Errors
    /// A line that is none, with its number.
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

    /// What stands there for a topic.
    pub fn entry(&self, topic: &str) -> Option<Entry> {
        self.entries.get(topic).copied()
    }

    /// Messages over all topics.
    pub fn acknowledged(&self) -> u64 {
        self.entries.values().map(|entry| entry.acknowledged).sum()
    }
}

/// A message, as its publisher counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counted {
    /// Whose count.
    pub publisher: u32,
    /// Its number on this topic, from 1.
    pub sequence: u64,
}

/// What is known of one stream over the whole run.
#[derive(Clone, Debug, Default)]
pub struct Audit {
    faults: Faults,
    /// Different messages received.
    messages: u64,
    /// The first sequence number that came, of any publisher.
    first: u64,
    /// The one with the highest number of the present publisher.
    newest: Counted,
    /// Messages that the announced gaps and skips stood for, as far as numbers tell.
    announced: u64,
    /// Messages that came again behind a gap with a new epoch: the log had lost them.
    again: u64,
    gaps: u32,
    skips: u32,
    /// A gap or skip was announced behind the newest message.
    is_open: bool,
    /// The first thing that came was a gap.
    begins_with_gap: bool,
    has_new_epoch: bool,
    has_begun: bool,
}

/// What a stream was in the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The server never answered its subscription.
    Unanswered,
    /// Nothing is missing, nothing came twice, all in order.
    Complete,
    /// The same but for what was announced as left out on purpose.
    Skips,
    /// The same but for what was announced as a gap.
    Gaps,
    /// Not as promised.
    Faulty,
}

impl Audit {
    /// The subscription was answered.
    pub fn begun(&mut self) {
        self.has_begun = true;
    }

    /// A message, its number, and what was judged wrong with it.
    pub fn message(&mut self, message: Counted, is_new: bool, faults: &Faults) {
        self.faults.add(faults);
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
            // It came before the gap already; one that is late is judged by the stream itself.
            self.faults.repeated += 1;
        }
    }

    /// Something wrong that is about no message.
    pub fn fault(&mut self, faults: &Faults) {
        self.faults.add(faults);
    }

    /// A gap was announced.
    pub fn gap(&mut self, has_new_epoch: bool) {
        self.gaps += 1;
        self.has_new_epoch |= has_new_epoch;
        self.open();
    }

    /// A skip was announced.
    pub fn skip(&mut self) {
        self.skips += 1;
        self.open();
    }

    fn open(&mut self) {
        self.begins_with_gap |= self.messages == 0;
        self.is_open = true;
    }

    /// Whether something acknowledged is still to come; what was announced as missing will not.
    pub fn is_waiting_for(&self, entry: Entry, is_live: bool) -> bool {
        !is_live || (self.newest.sequence < entry.sequence && !self.is_open)
    }

    /// Messages that were acknowledged, did not come, and were not announced: at the end, and from the publisher's first
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

/// All streams of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Findings {
    /// Streams: topics times clients.
    pub streams: u64,
    /// Nothing is missing from them, nothing came twice, all in order.
    pub complete: u64,
    /// Complete but for announced gaps.
    pub with_gaps: u64,
    /// Complete but for announced skips.
    pub with_skips: u64,
    /// Not as promised.
    pub faulty: u64,
    /// The server never answered their subscription.
    pub unanswered: u64,
    /// Different messages received.
    pub messages: u64,
    /// Messages that announced gaps and skips stood for, as far as the publishers' numbers tell.
    pub announced: u64,
    /// Messages that came again behind a gap with a new epoch.
    pub again: u64,
    /// Messages that were acknowledged to their publisher, not received and not announced.
    pub missing_acknowledged: u64,
    /// Messages that the ledger says were acknowledged; none without a ledger.
    pub ledger_acknowledged: Option<u64>,
    /// The first faulty streams, in words.
    pub examples: Vec<String>,
}

impl Findings {
    /// Adds a stream. `entry` is what the ledger says of its topic.
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

    /// Adds those of another worker.
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

    /// Whether every stream is complete, or was told what it misses.
    pub fn is_good(&self) -> bool {
        self.faulty == 0 && self.unanswered == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::payload::{Clock, Header};
    use crate::verify::Stream;

    /// What happens to a stream, by sequence numbers of one publisher.
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
        /// Acknowledged up to 9: what is missing of a live stream, of one from the first message, and whether more is
        /// waited for.
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

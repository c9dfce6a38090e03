//! Planted bugs of the way between engine and home, to check that the cluster's oracle finds them.
//!
//! Place: in the engine's model only; production code does not know them.

use super::life::Entry;
use super::verdict::Verdict;
use broker::engine::{EngineLetter, LineageStart, RunName, Tail, TailRecord};
use broker::mail::PartitionId;
use std::collections::BTreeMap;
use stdx::chunk::Slice;
use stdx::prng::Prng;

/// A planted bug.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Bug {
    /// The tail of the publishing node brings records before they are committed: acknowledged from
    /// the answer to the publication.
    AckFromProduce,
    /// A partition begins with a chain of lineages that have lost nothing.
    ChainIgnored,
    /// The window of a name is counted from its first copy.
    WindowFromFirst,
    /// Offsets without a record are never settled.
    HoleNotPassed,
    /// A copy behind later records of its run counts as a new record.
    ResendAccepted,
    /// A tail that has read lost records continues.
    TruncationPassedOver,
    /// A tail continues in another topic of the same name.
    RecreationPassedOver,
    /// A node that begins does not read what primes the recognition of repetitions.
    PrimedTooLittle,
    /// The tail omits a record.
    LoseRecord,
    /// A retained message that a node writes once more is lost.
    RestorationLost,
    /// A retained message once more counts as a message.
    RestorationDelivered,
    /// Records of other producers are acknowledged as a home's: the name is that of another record.
    WrongName,
}

impl Bug {
    /// All planted bugs.
    pub const ALL: [Bug; 12] = [
        Bug::AckFromProduce,
        Bug::ChainIgnored,
        Bug::WindowFromFirst,
        Bug::HoleNotPassed,
        Bug::ResendAccepted,
        Bug::TruncationPassedOver,
        Bug::RecreationPassedOver,
        Bug::PrimedTooLittle,
        Bug::LoseRecord,
        Bug::RestorationLost,
        Bug::RestorationDelivered,
        Bug::WrongName,
    ];

    /// Whether it takes effect where the engine's topic is compacted.
    pub fn is_of_compaction(self) -> bool {
        matches!(self, Bug::RestorationLost | Bug::RestorationDelivered)
    }
}

/// Applies one planted bug.
pub struct Planted {
    /// The bug.
    pub bug: Option<Bug>,
    random: Prng,
    window_ms: u64,
    /// The time of the first copy of each name, by node.
    firsts: BTreeMap<(usize, PartitionId, RunName), u64>,
    /// The number of times that it took effect.
    pub strikes: u32,
}

impl Planted {
    /// Plants `bug`, or none.
    pub fn new(bug: Option<Bug>, seed: u64, window_ms: u64) -> Planted {
        let random = Prng::new(seed ^ 0xb06);
        Planted { bug, random, window_ms, firsts: BTreeMap::new(), strikes: 0 }
    }

    /// Whether it is this bug, which takes effect now.
    pub fn is(&mut self, bug: Bug) -> bool {
        let is = self.bug == Some(bug);
        self.strikes += u32::from(is);
        is
    }

    /// Changes a letter to a node's home. `entries` are its records, or the newest one before a
    /// partition begins. None: the letter is lost.
    pub fn on_letter(
        &mut self,
        node: usize,
        mut letter: EngineLetter,
        entries: &[Entry],
    ) -> Option<EngineLetter> {
        match &mut letter {
            EngineLetter::Restart(restart) => match self.bug {
                Some(Bug::ChainIgnored) => {
                    self.strikes += 1;
                    let of_lineage = |lineage: u32| {
                        let start = restart.head + 1 + u64::from(lineage);
                        LineageStart { lineage, start }
                    };
                    let present = entries.last().map_or(0, |last| last.lineage);
                    restart.lineages = (0..=present).map(of_lineage).collect();
                }
                Some(Bug::PrimedTooLittle) if restart.primed_through > restart.after => {
                    self.strikes += 1;
                    restart.after = restart.primed_through;
                }
                _ => {}
            },
            EngineLetter::Tail(tail) => {
                self.on_tail(node, tail, entries);
                if self.bug == Some(Bug::HoleNotPassed) {
                    let through = tail.records.last()?.offset;
                    self.strikes += u32::from(through < tail.through);
                    tail.through = through;
                }
            }
            _ => {}
        }
        Some(letter)
    }

    fn on_tail(&mut self, node: usize, tail: &mut Tail, entries: &[Entry]) {
        let partition = tail.partition;
        match self.bug {
            Some(Bug::WindowFromFirst) => {
                for (record, entry) in tail.records.iter_mut().zip(entries) {
                    self.count_from_first((node, partition), record, entry);
                }
            }
            Some(Bug::ResendAccepted) => {
                for (record, entry) in tail.records.iter_mut().zip(entries) {
                    if entry.verdict == Verdict::Copy {
                        self.accept(record);
                    }
                }
            }
            Some(Bug::RestorationDelivered) => {
                for record in &mut tail.records {
                    self.strikes += u32::from(record.restored.take().is_some());
                }
            }
            Some(Bug::LoseRecord) if !tail.records.is_empty() && self.random.chance(0.1) => {
                self.strikes += 1;
                tail.records.pop();
            }
            Some(Bug::WrongName) if tail.records.len() > 1 && self.random.chance(0.3) => {
                let last = tail.records.len() - 1;
                if tail.records[last].name != tail.records[0].name {
                    self.strikes += 1;
                    let name = tail.records[0].name;
                    tail.records[0].name = tail.records[last].name;
                    tail.records[last].name = name;
                }
            }
            _ => {}
        }
    }

    fn count_from_first(
        &mut self,
        (node, partition): (usize, PartitionId),
        record: &mut TailRecord,
        entry: &Entry,
    ) {
        let Some(name) = record.name else {
            return;
        };
        let first = self.firsts.entry((node, partition, name)).or_insert(record.time_ms);
        if *first + self.window_ms < record.time_ms && entry.verdict == Verdict::Copy {
            *first = record.time_ms;
            self.accept(record);
        }
    }

    /// Takes all names from a record, so that it counts as new.
    fn accept(&mut self, record: &mut TailRecord) {
        self.strikes += 1;
        record.name = None;
        record.publication.producer = None;
        record.publication.idempotency_key = Slice::empty();
    }
}

//! The work of the engine's thread: the home of each letter, the progress of each partition, and
//! the continuation of the process before this one.
//!
//! Values in, values out; `engine_thread` runs it on a thread.
//!
//! Invariants: letters of a partition keep their order. A partition that the homes have from the
//! process before this one continues without a `Restart`. With one it begins anew: its home must
//! read all that primes the recognition of repetitions, also what it has read before.

use crate::engine::{EngineStatistics, Tailed};
use broker::engine::{EngineLetter, LineageStart, Restart, Tail};
use broker::mail::{HomeId, PartitionId};
use broker::settings::{Durability, Settings};
use std::collections::BTreeMap;
use stdx::handing::Layout;
use stdx::handing::{Hand, Input};

/// Known lineages of one partition; the oldest are forgotten first, and positions of them are then
/// not valid.
const LINEAGES_MAX: usize = 1_024;

/// Letters to homes.
#[derive(Debug, Default)]
pub struct EngineOutputs {
    /// Letters, in order.
    pub letters: Vec<(HomeId, EngineLetter)>,
}

/// See the module.
#[derive(Debug)]
pub struct EngineWorker {
    homes_count: u16,
    /// Partitions of all logs on the engine.
    partitions: BTreeMap<PartitionId, Progress>,
    restarts: u64,
}

/// One partition.
#[derive(Debug, Default)]
struct Progress {
    /// None before the first letter.
    tailed: Option<Tailed>,
    /// The newest offset when the partition began.
    head: u64,
    is_unavailable: bool,
    /// The homes have it from the process before, and the client does not read it yet.
    is_resuming: bool,
}

/// The layout of a hand-over.
pub(crate) fn layout(layout: &mut Layout) {
    <Vec<Tailed>>::layout(layout);
}

impl EngineWorker {
    /// A worker before the first letter. Homes already have these parts of partitions.
    pub fn new(settings: &Settings, tailed: Vec<Tailed>) -> EngineWorker {
        let on_engine = |log: &&broker::settings::LogSettings| log.durability == Durability::Engine;
        let partitions = settings.logs.iter().filter(on_engine).flat_map(|log| log.partitions());
        let mut partitions: BTreeMap<PartitionId, Progress> =
            partitions.map(|partition| (partition, Progress::default())).collect();
        for tailed in tailed {
            if let Some(progress) = partitions.get_mut(&tailed.partition) {
                progress.tailed = Some(tailed);
                progress.is_resuming = true;
            }
        }
        EngineWorker { homes_count: settings.homes_count, partitions, restarts: 0 }
    }

    /// The parts of partitions that homes have, for the next process.
    pub fn tailed(&self) -> Vec<Tailed> {
        self.partitions.values().filter_map(|progress| progress.tailed.clone()).collect()
    }

    /// Takes the state of the process before this one. None if it is malformed.
    pub fn read_handed(bytes: &[u8]) -> Option<Vec<Tailed>> {
        let mut input = Input::new(bytes);
        <Vec<Tailed>>::take(&mut input).filter(|_| input.left() == 0)
    }

    /// Passes a letter of the client on to its home.
    pub fn take(&mut self, letter: EngineLetter, out: &mut EngineOutputs) {
        let partition = partition_of(&letter);
        let home = HomeId((partition.0 % u32::from(self.homes_count.max(1))) as u16);
        let Some(progress) = self.partitions.get_mut(&partition) else {
            debug_assert!(false, "a partition of no log on the engine");
            return;
        };
        match letter {
            EngineLetter::Restart(restart) => {
                self.restarts += u64::from(progress.tailed.is_some());
                progress.restart(&restart);
                out.letters.push((home, EngineLetter::Restart(restart)));
            }
            EngineLetter::Tail(tail) => {
                progress.read(&tail);
                out.letters.push((home, EngineLetter::Tail(tail)));
            }
            EngineLetter::Available { is_available, .. } => {
                progress.is_unavailable = !is_available;
                // A partition takes publications only when it is read.
                progress.is_resuming &= !is_available;
                out.letters.push((home, letter));
            }
            EngineLetter::Refused { .. } => out.letters.push((home, letter)),
        }
    }

    /// Adds what the worker knows to the client's counts.
    pub fn complete(&self, statistics: &mut EngineStatistics) {
        let count = |is: fn(&Progress) -> bool| {
            self.partitions.values().filter(|progress| is(progress)).count() as u64
        };
        statistics.partitions = self.partitions.len() as u64;
        statistics.partitions_behind = count(Progress::is_behind);
        statistics.partitions_unavailable = count(|progress| progress.is_unavailable);
        statistics.restarts = self.restarts;
    }
}

impl Progress {
    fn is_behind(&self) -> bool {
        let through = self.tailed.as_ref().map_or(0, |tailed| tailed.through);
        self.tailed.is_none() || through < self.head || self.is_resuming
    }

    fn restart(&mut self, restart: &Restart) {
        self.head = restart.head;
        self.is_resuming = false;
        self.tailed = Some(Tailed {
            partition: restart.partition,
            topic_id: restart.topic_id,
            lineages: restart.lineages.clone(),
            through: restart.after,
        });
    }

    fn read(&mut self, tail: &Tail) {
        let Some(tailed) = &mut self.tailed else {
            debug_assert!(false, "the first letter is a restart");
            return;
        };
        self.is_resuming = false;
        for record in &tail.records {
            note(&mut tailed.lineages, record.lineage, record.offset);
        }
        tailed.through = tailed.through.max(tail.through);
    }
}

/// Notes the lineage of a record.
fn note(lineages: &mut Vec<LineageStart>, lineage: u32, offset: u64) {
    if lineages.last().is_none_or(|present| present.lineage < lineage) {
        if lineages.len() >= LINEAGES_MAX {
            lineages.remove(0);
        }
        lineages.push(LineageStart { lineage, start: offset });
    }
}

fn partition_of(letter: &EngineLetter) -> PartitionId {
    match letter {
        EngineLetter::Tail(tail) => tail.partition,
        EngineLetter::Restart(restart) => restart.partition,
        EngineLetter::Refused { partition, .. } | EngineLetter::Available { partition, .. } => {
            *partition
        }
    }
}

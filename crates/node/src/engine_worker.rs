//! The work of the engine's thread: the home of each letter, the progress of each partition, and
//! the continuation of the process before this one.
//!
//! Values in, values out; `engine_thread` runs it on a thread.
//!
//! Invariants: letters of a partition keep their order. A partition that the homes have from the
//! process before this one continues without a `Restart`, as long as the engine's records agree
//! with those that they have; with the first that does not, it begins anew there.

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

/// Letters to homes, and credit that the client gets back because no home will give it.
#[derive(Debug, Default)]
pub struct EngineOutputs {
    /// Letters, in order.
    pub letters: Vec<(HomeId, EngineLetter)>,
    /// Bytes by home.
    pub credits: Vec<(HomeId, u32)>,
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
    /// The homes have more than the client's first letters; see [`Tailed`].
    continuing: Continuing,
}

#[derive(Debug, Default)]
enum Continuing {
    /// The homes have what the client has told.
    #[default]
    No,
    /// The client's first letter is awaited.
    Expected,
    /// The client repeats what the homes have. Its first letter, with the lineages since then.
    Comparing(Restart),
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
                progress.continuing = Continuing::Expected;
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
                if let Some(restart) = progress.begin(restart, &mut self.restarts) {
                    out.letters.push((home, EngineLetter::Restart(restart)));
                }
            }
            EngineLetter::Tail(tail) => {
                let cost = tail.cost();
                let passed = progress.compare(tail, &mut self.restarts);
                let spent = passed.tail.as_ref().map_or(0, Tail::cost);
                if cost > spent {
                    out.credits.push((home, cost - spent));
                }
                let restart = passed.restart.map(EngineLetter::Restart);
                let tail = passed.tail.map(EngineLetter::Tail);
                out.letters.extend(restart.into_iter().chain(tail).map(|letter| (home, letter)));
            }
            EngineLetter::Available { is_available, .. } => {
                progress.is_unavailable = !is_available;
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

/// The part of a tail that a home gets.
#[derive(Default)]
struct Passed {
    restart: Option<Restart>,
    tail: Option<Tail>,
}

impl Progress {
    fn is_behind(&self) -> bool {
        let through = self.tailed.as_ref().map_or(0, |tailed| tailed.through);
        self.tailed.is_none() || through < self.head || self.is_continuing()
    }

    fn is_continuing(&self) -> bool {
        !matches!(self.continuing, Continuing::No)
    }

    /// Begins, or begins anew; returns the letter for the home, unless the homes' records may agree
    /// with those that follow.
    fn begin(&mut self, restart: Restart, restarts: &mut u64) -> Option<Restart> {
        self.head = restart.head;
        if self.is_continuing()
            && self.tailed.as_ref().is_some_and(|tailed| tailed.allows(&restart))
        {
            self.continuing = Continuing::Comparing(restart);
            self.finish_comparing(0);
            return None;
        }
        *restarts += u64::from(self.tailed.is_some());
        self.restart(&restart);
        Some(restart)
    }

    fn restart(&mut self, restart: &Restart) {
        self.continuing = Continuing::No;
        self.tailed = Some(Tailed {
            partition: restart.partition,
            topic_id: restart.topic_id,
            lineages: restart.lineages.clone(),
            through: restart.after,
        });
    }

    /// Leaves out what the homes have; notes the rest.
    fn compare(&mut self, mut tail: Tail, restarts: &mut u64) -> Passed {
        let Some(tailed) = &mut self.tailed else {
            debug_assert!(false, "the first letter is a restart");
            return Passed::default();
        };
        let mut again = None;
        if let Continuing::Comparing(restart) = &mut self.continuing {
            let present = tailed.present();
            let foreign = tail
                .records
                .iter()
                .position(|record| record.offset <= tailed.through && record.lineage > present);
            let known = tail.records.partition_point(|record| record.offset <= tailed.through);
            let repeated = foreign.unwrap_or(known);
            for record in tail.records.drain(..repeated) {
                note(&mut restart.lineages, record.lineage, record.offset);
            }
            if let (Some(_), Some(first)) = (foreign, tail.records.first()) {
                restart.after = first.offset - 1;
                restart.primed_through = restart.primed_through.max(restart.after);
                again = Some(restart.clone());
            }
        }
        if let Some(restart) = &again {
            *restarts += 1;
            self.restart(restart);
        }
        let continues = self.finish_comparing(tail.through);
        let Some(tailed) = self.tailed.as_mut().filter(|_| continues) else {
            return Passed::default();
        };
        if tail.records.is_empty() && tail.through <= tailed.through && again.is_none() {
            return Passed::default(); // the homes have all of it
        }
        for record in &tail.records {
            note(&mut tailed.lineages, record.lineage, record.offset);
        }
        tailed.through = tailed.through.max(tail.through);
        Passed { restart: again, tail: Some(tail) }
    }

    /// Ends the comparison if the client's records have reached those of the homes. False if it
    /// continues.
    fn finish_comparing(&mut self, told: u64) -> bool {
        if let (Continuing::Comparing(restart), Some(tailed)) = (&self.continuing, &self.tailed) {
            if told.max(restart.after) < tailed.through {
                return false;
            }
            self.continuing = Continuing::No;
        }
        true
    }
}

impl Tailed {
    fn present(&self) -> u32 {
        self.lineages.last().map_or(0, |present| present.lineage)
    }

    /// Whether the homes may keep their records when a partition begins so: the topic is the same,
    /// and no lineage has replaced any of these records.
    fn allows(&self, restart: &Restart) -> bool {
        let present = self.present();
        let replaces =
            |lineage: &LineageStart| lineage.lineage > present && lineage.start <= self.through;
        restart.topic_id == self.topic_id
            && restart.after <= self.through
            && restart.head >= self.through
            && !restart.lineages.iter().any(replaces)
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

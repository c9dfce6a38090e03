//! Letters of an engine: dealt with in their order, as many in a turn as it has room for.

use super::super::turn::Turn;
use super::Home;
use crate::engine::{EngineLetter, EngineRequest};
use crate::ids::PartitionId;
use crate::mail::Code;
use crate::now::Now;
use log::Memory;
use std::collections::VecDeque;
use stdx::handing::Hand;
use stdx::memory::vector_bytes;

/// Bytes of tails that a turn deals with, about, by their cost.
const TURN_BYTES_MAX: u64 = 1 << 20;

/// Letters that wait for their turn; the engine's credit bounds them.
#[derive(Debug, Default, Hand)]
pub(in crate::home) struct Letters {
    waiting: VecDeque<EngineLetter>,
    /// Bytes dealt with in this turn.
    bytes: u64,
    /// Credit that is to be given back at the end of the turn.
    credit: u32,
}

/// The state of a partition's tail at this node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TailState {
    /// Numbered over all logs.
    pub partition: PartitionId,
    /// The engine's identity of the topic; none before the partition has begun.
    pub topic_id: Option<u32>,
    /// The newest lineage that a record or the beginning has named.
    pub lineage: u32,
    /// Everything up to this offset is settled: the engine continues behind it.
    pub through: u64,
    /// The tail has passed the records that only prime: the partition is served.
    pub has_begun: bool,
    /// The tail has passed the head of the beginning.
    pub is_caught_up: bool,
    /// Publications of this node that wait for the tail.
    pub pending: usize,
    /// The partition takes publications.
    pub is_available: bool,
    /// The least offset that memory or the mirror may have.
    pub floor: u64,
}

impl Letters {
    /// Whether letters wait for their turn.
    pub fn are_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Bytes of the list.
    pub fn memory_bytes(&self) -> usize {
        vector_bytes::<EngineLetter>(self.waiting.capacity())
    }
}

impl Home {
    /// Deals with a letter of the engine, at once if this turn has room, else in a later one
    /// ([`Home::pump`]). Requests to the engine are in `HomeOutputs::engine`.
    pub fn engine(
        &mut self,
        now: Now,
        letter: EngineLetter,
        memory: &mut dyn Memory,
        out: &mut super::super::HomeOutputs,
    ) {
        self.elapsed.advance(now);
        let turn = &mut Turn { now_ms: now.unix_ms, found: None, memory, out };
        if self.letters.waiting.is_empty() && self.letters.bytes < TURN_BYTES_MAX {
            self.take_letter(letter, turn);
            self.give_engine_credit(turn);
        } else {
            self.letters.waiting.push_back(letter);
        }
    }

    /// The tails of this home's partitions, for readiness and for the engine of a next process.
    pub fn tails(&self) -> impl Iterator<Item = TailState> {
        self.partitions.iter().filter_map(|partition| {
            let engine = partition.engine.as_deref()?;
            Some(TailState {
                partition: partition.id,
                topic_id: engine.began.map(|began| began.topic_id),
                lineage: partition.lineages.present_epoch() as u32,
                through: engine.through,
                has_begun: engine.began.is_some_and(|it| engine.through >= it.primed_through),
                is_caught_up: engine.began.is_some_and(|began| engine.through >= began.head),
                pending: engine.pending.len(),
                is_available: !engine.is_closed(),
                floor: partition.floor(),
            })
        })
    }

    /// A new turn: deals with letters that wait, as far as there is room. True if more wait.
    pub(in crate::home) fn take_letters(&mut self, turn: &mut Turn<'_>) -> bool {
        self.letters.bytes = 0;
        while self.letters.bytes < TURN_BYTES_MAX
            && let Some(letter) = self.letters.waiting.pop_front()
        {
            self.take_letter(letter, turn);
        }
        self.give_engine_credit(turn);
        self.letters.are_waiting()
    }

    fn give_engine_credit(&mut self, turn: &mut Turn<'_>) {
        let bytes = std::mem::take(&mut self.letters.credit);
        if bytes > 0 {
            turn.out.engine.push(EngineRequest::Credit { bytes });
        }
    }

    fn take_letter(&mut self, letter: EngineLetter, turn: &mut Turn<'_>) {
        match letter {
            EngineLetter::Tail(tail) => {
                let cost = tail.cost();
                self.letters.bytes += u64::from(cost);
                self.letters.credit = self.letters.credit.saturating_add(cost);
                if let Some(local) = self.local(tail.partition) {
                    self.take_tail(local, tail, turn);
                }
            }
            EngineLetter::Restart(restart) => {
                if let Some(local) = self.local(restart.partition) {
                    self.restart_partition(local, &restart, turn);
                }
            }
            EngineLetter::Refused { partition, counters, code } => {
                if let Some(local) = self.local(partition) {
                    self.refuse_proposed(local, &counters, code, turn);
                }
            }
            EngineLetter::Available { partition, is_available } => {
                if let Some(local) = self.local(partition)
                    && let Some(engine) = self.engine_of(local)
                {
                    engine.is_available = is_available;
                    if is_available {
                        engine.pending.progressed();
                    }
                }
            }
        }
    }

    /// The engine has refused publications before they were sent: they are not in the log, nor ever
    /// will be.
    fn refuse_proposed(&mut self, local: u32, counters: &[u64], code: Code, turn: &mut Turn<'_>) {
        for counter in counters {
            let engine = self.engine_of(local);
            let Some((publisher, names)) = engine.and_then(|it| it.pending.take(*counter)) else {
                continue; // it has been answered
            };
            if publisher.is_asked() {
                self.dedup.refused(self.elapsed.ms, &names, code);
            }
            self.refuse_publication(publisher, code.into(), turn);
        }
    }
}

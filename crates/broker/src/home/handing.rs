//! Handing a home to the next process: topics, interests, partitions, windows and waiting requests.
//!
//! Between two turns, when its outputs have been taken (see [`stdx::handing`]). The bytes of
//! segments stay in their memory and are opened again there ([`log::Memory::reopen`]); everything
//! else is in the state. Settings go before it, apart.

use super::Home;
use super::engine::EnginePartition;
use super::partitions::HomePartition;
use crate::handing::TakeOverError;
use crate::mail::{HomeId, PartitionId};
use crate::position::Lineages;
use crate::settings::Settings;
use log::{Memory, Partition};
use std::collections::VecDeque;
use std::sync::Arc;
use stdx::handing::{Hand, Input, Layout};

/// The fields of a partition that are handed over beside its log.
type Known = (
    (PartitionId, Lineages, usize, bool),
    (u64, u64, u64, u64),
    Box<[u64]>,
    (VecDeque<u64>, u64, Option<Box<EnginePartition>>),
);

impl Home {
    /// Appends the whole state.
    pub fn hand_over(&self, out: &mut Vec<u8>) {
        let Home {
            settings: _,
            id,
            interests,
            partitions,
            shares,
            retained,
            dedup,
            rates,
            elapsed,
            expiry_ms,
            queue,
            forgetting,
            next_edge,
            scans_ahead,
            clients,
            shared,
            groups,
            reported,
            letters,
            watch,
            ahead,
            statistics,
        } = self;
        id.give(out);
        interests.give(out);
        partitions.len().give(out);
        for partition in partitions {
            partition.give(out);
        }
        shares.give(out);
        retained.give(out);
        dedup.give(out);
        rates.give(out);
        elapsed.give(out);
        expiry_ms.give(out);
        queue.give(out);
        forgetting.give(out);
        next_edge.give(out);
        scans_ahead.give(out);
        clients.give(out);
        shared.give(out);
        groups.give(out);
        reported.give(out);
        letters.give(out);
        watch.give(out);
        ahead.give(out);
        statistics.give(out);
    }

    /// The home that was handed over. `settings` are those that it went by.
    ///
    /// # Errors
    /// The bytes are not its state, or the memory of a segment is not there.
    pub fn take_over(
        settings: Arc<Settings>,
        input: &mut Input<'_>,
        memory: &mut dyn Memory,
    ) -> Result<Home, TakeOverError> {
        let malformed = TakeOverError::Malformed;
        let id = HomeId::take(input).ok_or(malformed)?;
        let interests = Hand::take(input).ok_or(malformed)?;
        let count = usize::take(input).ok_or(malformed)?;
        let mut partitions = Vec::new();
        for _ in 0..count {
            partitions.push(HomePartition::take(input, memory)?);
        }
        let rest = move |input: &mut Input<'_>| {
            Some(Home {
                settings,
                id,
                interests,
                partitions,
                shares: Hand::take(input)?,
                retained: Hand::take(input)?,
                dedup: Hand::take(input)?,
                rates: Hand::take(input)?,
                elapsed: Hand::take(input)?,
                expiry_ms: Hand::take(input)?,
                queue: Hand::take(input)?,
                forgetting: Hand::take(input)?,
                next_edge: Hand::take(input)?,
                scans_ahead: Hand::take(input)?,
                clients: Hand::take(input)?,
                shared: Hand::take(input)?,
                groups: Hand::take(input)?,
                reported: Hand::take(input)?,
                letters: Hand::take(input)?,
                watch: Hand::take(input)?,
                ahead: Hand::take(input)?,
                statistics: Hand::take(input)?,
            })
        };
        rest(input).ok_or(malformed)
    }

    /// Describes the fields that are handed over.
    pub fn layout(layout: &mut Layout) {
        layout.name("Home");
        Partition::layout(layout);
        Known::layout(layout);
        layout.field("interests", |home: &Home| Some(&home.interests));
        layout.field("shares", |home: &Home| Some(&home.shares));
        layout.field("retained", |home: &Home| Some(&home.retained));
        layout.field("dedup", |home: &Home| Some(&home.dedup));
        layout.field("rates", |home: &Home| Some(&home.rates));
        layout.field("elapsed", |home: &Home| Some(&home.elapsed));
        layout.field("expiry_ms", |home: &Home| Some(&home.expiry_ms));
        layout.field("queue", |home: &Home| Some(&home.queue));
        layout.field("forgetting", |home: &Home| Some(&home.forgetting));
        layout.field("next_edge", |home: &Home| Some(&home.next_edge));
        layout.field("scans_ahead", |home: &Home| Some(&home.scans_ahead));
        layout.field("clients", |home: &Home| Some(&home.clients));
        layout.field("shared", |home: &Home| Some(&home.shared));
        layout.field("groups", |home: &Home| Some(&home.groups));
        layout.field("reported", |home: &Home| Some(&home.reported));
        layout.field("letters", |home: &Home| Some(&home.letters));
        layout.field("watch", |home: &Home| Some(&home.watch));
        layout.field("ahead", |home: &Home| Some(&home.ahead));
        layout.field("statistics", |home: &Home| Some(&home.statistics));
    }

    /// The segments of all its partitions, by their names in the port [`Memory`].
    pub fn chunks(&self) -> impl Iterator<Item = (u64, &[u8])> {
        self.partitions.iter().flat_map(|partition| partition.log.chunks())
    }
}

impl HomePartition {
    fn give(&self, out: &mut Vec<u8>) {
        let HomePartition {
            id,
            lineages,
            share,
            log,
            has_disk,
            disk_floor,
            next_staged,
            forgotten_through,
            damaged_through,
            lag_from,
            ages,
            active_since,
            engine,
        } = self;
        id.give(out);
        lineages.give(out);
        (*share, *has_disk).give(out);
        let offsets = (*disk_floor, *next_staged, *forgotten_through, *damaged_through);
        offsets.give(out);
        lag_from.give(out);
        ages.give(out);
        active_since.give(out);
        engine.give(out);
        log.give(out);
    }

    fn take(input: &mut Input<'_>, memory: &mut dyn Memory) -> Result<Self, TakeOverError> {
        let known = Known::take(input).ok_or(TakeOverError::Malformed)?;
        let (numbers, offsets, lag_from, (ages, active_since, engine)) = known;
        let (id, lineages, share, has_disk) = numbers;
        let (disk_floor, next_staged, forgotten_through, damaged_through) = offsets;
        let log = Partition::take(input, memory)?.ok_or(TakeOverError::Malformed)?;
        Ok(HomePartition {
            id,
            lineages,
            share,
            log,
            has_disk,
            disk_floor,
            next_staged,
            forgotten_through,
            damaged_through,
            lag_from,
            ages,
            active_since,
            engine,
        })
    }
}

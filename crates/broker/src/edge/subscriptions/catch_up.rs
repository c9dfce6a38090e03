//! Subscriptions to filters that do not simply take live messages, but are read from the log,
//! partition by partition.
//!
//! A subscription to a filter has a cursor for each partition, and an idle one stores none of them:
//! it takes what the streams bring. Only while it replays or lags in a partition does it have a
//! [`Cursor`] there; live messages of that partition are not for it then. All filters of one event
//! stream are read together, as one member.
//!
//! Invariants:
//! - Of one partition a connection's outbox holds frames for filters in the order of their offsets.
//!   A dropped frame takes everything of its partition behind it along, so the cursor goes back to
//!   the offset before the first one dropped, and nothing is sent again or left out.
//! - A frame without an address is for every subscription of the connection that covers the topic.
//!   It is sent only where none of them catches up in the partition; otherwise each gets a frame of
//!   its own. So exactly the subscriptions that were open when such a frame was queued go back when
//!   it is dropped.
//! - A page answers the question that it repeats (`after`), or is dropped.
//! - The tables hold cursors that catch up or open, at most an entry for each partition and member;
//!   pages under way are bounded for each connection, and so are the cursors ([`Held`]).

use super::cursor::{Cursor, Member, Reader, STREAM, all_of, all_of_connection};
use super::held::Held;
use super::opening::Opening;
use super::reads::{Reads, Turn};
use super::{Slot, Stage, Subscriptions};
use crate::edge::excess::Excess;
use crate::ids::{ConnIndex, SubIndex};
use crate::mail::{FilterPage, HomeId, PageLimits, PartitionId, ReadFilter};
use crate::protocol::flag;
use crate::settings::Settings;
use std::collections::BTreeMap;
use std::ops::Bound;
use stdx::handing::Hand;
use stdx::memory::tree_bytes;

/// Readers of one connection that are examined to know whether one catches up in a partition; more
/// count as yes.
const READERS_LOOKED_AT_MAX: usize = 8;

/// The tables; see the module.
#[derive(Default, Hand)]
pub(super) struct CatchUp {
    cursors: BTreeMap<Member, Cursor>,
    pub reads: Reads,
    pub opening: BTreeMap<Reader, Opening>,
    pub held: Held,
}

/// A page that was asked for: where its frames go, and how far it leads.
pub(crate) struct PageTaken {
    pub reader: Reader,
    pub is_paid: bool,
    /// The start of the next read; none if the page catches up.
    pub rest: Option<Cursor>,
}

impl CatchUp {
    pub fn memory_bytes(&self) -> usize {
        self.held.memory_bytes()
            + self.reads.memory_bytes()
            + tree_bytes(self.opening.len(), size_of::<(Reader, Opening)>())
    }

    /// Whether a reader is read from the log in a partition.
    pub fn has(&self, member: &Member) -> bool {
        self.cursors.contains_key(member)
    }

    fn partitions_of(&self, reader: Reader) -> Vec<PartitionId> {
        self.cursors.range(all_of(reader)).map(|(at, _)| at.2).collect()
    }

    /// A subscription of a stream that has gone waits for no home any more.
    pub fn release_question(&mut self, index: ConnIndex, subscription: SubIndex) {
        if let Some(opening) = self.opening.get_mut(&(index, STREAM)) {
            opening.waiting.retain(|(asked, _)| *asked != subscription);
        }
    }

    /// Sets or takes away a cursor. An error if the connection has no room for another one.
    fn put(
        &mut self,
        at: Member,
        cursor: Option<Cursor>,
        slot: &mut Slot,
        settings: &Settings,
    ) -> Result<(), Excess> {
        let index = at.0;
        if cursor.is_some() && !self.cursors.contains_key(&at) {
            self.held.hold(index, slot.is(flag::DEAD), &settings.limits)?;
        }
        let before = match cursor {
            Some(cursor) => self.cursors.insert(at, cursor),
            None => self.cursors.remove(&at),
        };
        if cursor.is_none() && before.is_some() {
            self.held.let_go(index);
        }
        let log = settings.log_number(at.2);
        self.reads.change(at, log, before, cursor);
        let mut all = self.cursors.range(all_of_connection(index));
        if cursor.is_some() || all.next().is_some() {
            slot.set(flag::CATCHING_UP)
        } else {
            slot.clear(flag::CATCHING_UP)
        }
        Ok(())
    }

    fn remove(&mut self, at: Member, slot: &mut Slot, settings: &Settings) {
        let result = self.put(at, None, slot, settings);
        debug_assert!(result.is_ok(), "only a new cursor needs room");
    }
}

impl Subscriptions {
    /// The connection of a subscription to a filter, and the key of its cursors.
    #[inline]
    pub fn reader_of(&self, subscription: SubIndex) -> Reader {
        let entry = &self.table[subscription.0];
        if entry.is_of_stream() {
            (entry.connection, STREAM)
        } else {
            (entry.connection, subscription)
        }
    }

    /// The subscriptions that a reader stands for, in one stage.
    pub fn filters_of(&self, reader: Reader, slot: &Slot, stage: Stage) -> Vec<SubIndex> {
        let is_wanted = |at: &SubIndex| {
            let entry = &self.table[at.0];
            entry.is_filter() && entry.stage == stage
        };
        match reader.1 {
            STREAM => self.chain(slot.subscriptions).filter(is_wanted).collect(),
            subscription => Some(subscription).filter(is_wanted).into_iter().collect(),
        }
    }

    /// Whether a subscription to a filter is read from the log in a partition. Its slot says by
    /// [`flag::CATCHING_UP`] whether it may be.
    pub fn is_catching_up(&self, subscription: SubIndex, partition: PartitionId) -> bool {
        let (index, reader) = self.reader_of(subscription);
        self.catch_up.has(&(index, reader, partition))
    }

    /// Whether the subscription has to be read again from this place or from before it.
    pub fn is_catching_up_at(
        &self,
        subscription: SubIndex,
        partition: PartitionId,
        after: u64,
    ) -> bool {
        let (index, reader) = self.reader_of(subscription);
        let cursor = self.catch_up.cursors.get(&(index, reader, partition));
        cursor.is_some_and(|cursor| cursor.after <= after)
    }

    /// Whether any filter of an event stream is read from the log.
    pub fn is_stream_catching_up(&self, index: ConnIndex) -> bool {
        self.catch_up.cursors.range(all_of((index, STREAM))).next().is_some()
    }

    /// The cursors of a subscription to a filter, by partition, ascending.
    pub fn cursors_of(&self, subscription: SubIndex) -> Vec<(PartitionId, u64)> {
        let cursors = self.catch_up.cursors.range(all_of(self.reader_of(subscription)));
        cursors.map(|(&(_, _, partition), cursor)| (partition, cursor.after)).collect()
    }

    /// The cursor of a reader in a partition.
    pub fn cursor_of(&self, (index, reader): Reader, partition: PartitionId) -> Option<&Cursor> {
        self.catch_up.cursors.get(&(index, reader, partition))
    }

    /// Whether some subscription to filters of the connection catches up in a partition, or may be.
    pub fn may_be_catching_up(&self, index: ConnIndex, partition: PartitionId) -> bool {
        let cursors = &self.catch_up.cursors;
        let (start, end) = all_of_connection(index).into_inner();
        let mut from = Bound::Included(start);
        for _ in 0..READERS_LOOKED_AT_MAX {
            let Some((&(_, reader, _), _)) = cursors.range((from, Bound::Included(end))).next()
            else {
                return false;
            };
            if cursors.contains_key(&(index, reader, partition)) {
                return true;
            }
            from = Bound::Excluded((index, reader, PartitionId::MAX));
        }
        true
    }

    /// A subscription to a filter is read from the log in a partition from now on, after `after` or
    /// earlier. The place, and whether it did not catch up there before.
    pub fn lag_filter(
        &mut self,
        subscription: SubIndex,
        partition: PartitionId,
        after: u64,
        slot: &mut Slot,
        settings: &Settings,
    ) -> (u64, bool, Result<(), Excess>) {
        let (index, reader) = self.reader_of(subscription);
        let at = (index, reader, partition);
        let before = self.catch_up.cursors.get(&at).copied();
        let cursor = match before {
            Some(before) if before.after <= after => before,
            _ => Cursor {
                after,
                is_reading: false,
                is_paid: before.is_some_and(|before| before.is_paid),
            },
        };
        let result = self.catch_up.put(at, Some(cursor), slot, settings);
        (cursor.after, before.is_none(), result)
    }

    /// The replay that the client asked for begins in a partition.
    pub fn replay_filter(
        &mut self,
        (index, reader): Reader,
        partition: PartitionId,
        after: u64,
        slot: &mut Slot,
        settings: &Settings,
    ) -> Result<(), Excess> {
        let cursor = Cursor { after, is_reading: false, is_paid: true };
        self.catch_up.put((index, reader, partition), Some(cursor), slot, settings)
    }

    /// The connection's subscriptions to filters that are open, with the number of the last message
    /// before.
    pub fn open_filters(&self, slot: &Slot) -> Vec<(u64, SubIndex)> {
        let mut open: Vec<(u64, SubIndex)> = self
            .chain(slot.subscriptions)
            .filter(|&at| self.table[at.0].stage == Stage::ByFilter)
            .map(|at| (self.table[at.0].cursor(), at))
            .collect();
        open.sort_unstable();
        open
    }

    /// The next cursor of a connection and log that waits for a page.
    pub fn next_to_read(&self, index: ConnIndex, log: u16, from: Bound<Turn>) -> Option<Turn> {
        self.catch_up.reads.next(index, log, from)
    }

    /// Whether a connection may ask for no more pages of a log for filters for now.
    pub fn has_all_filter_reads(&self, index: ConnIndex, log: u16) -> bool {
        self.catch_up.reads.is_full(index, log)
    }

    /// Whether the replay that a reader asked for has to wait. It has one page under way, so that
    /// its credit is kept to.
    pub fn is_without_credit(&self, reader: Reader) -> bool {
        let mut cursors = self.catch_up.cursors.range(all_of(reader));
        self.credits.get(reader.1).is_some_and(|credit| {
            credit == 0 || cursors.any(|(_, cursor)| cursor.is_paid && cursor.is_reading)
        })
    }

    /// The next page of a partition, to be asked for; from here on it is under way.
    pub fn read_filter(
        &mut self,
        reader: Reader,
        partition: PartitionId,
        records_max: u32,
        slot: &mut Slot,
        settings: &Settings,
    ) -> Option<(HomeId, ReadFilter)> {
        let at = (reader.0, reader.1, partition);
        let Some(&cursor) = self.catch_up.cursors.get(&at) else {
            debug_assert!(false, "only cursors wait");
            return None;
        };
        let readers = self.filters_of(reader, slot, Stage::ByFilter);
        let Some(&first) = readers.first() else {
            debug_assert!(false, "a cursor belongs to an open subscription");
            self.catch_up.remove(at, slot, settings);
            return None;
        };
        let entries = readers.iter().filter_map(|&at| self.table[at.0].filter());
        let filters = entries
            .filter_map(|at| self.filters.entries.get(at))
            .map(|filter| filter.name.clone())
            .collect();
        let limits = &settings.limits;
        let credit = self.credits.get(reader.1).filter(|_| cursor.is_paid);
        let limits = PageLimits {
            records_max: limits.page_records_max.min(credit.unwrap_or(u32::MAX)).min(records_max),
            bytes_max: limits.page_bytes,
        };
        let mode = self.filter_read_mode(at, slot);
        let reading = Cursor { is_reading: true, ..cursor };
        let result = self.catch_up.put(at, Some(reading), slot, settings);
        debug_assert!(result.is_ok(), "the cursor is there");
        let read = ReadFilter {
            partition,
            filters,
            subscription: self.key(first),
            after: cursor.after,
            mode,
            limits,
        };
        Some((settings.home_of(partition), read))
    }

    /// A page has come: it is read on after it, or live. None if the page was not asked for.
    pub fn take_filter_page(
        &mut self,
        subscription: SubIndex,
        page: &FilterPage,
        slot: &mut Slot,
        settings: &Settings,
    ) -> Option<PageTaken> {
        let reader = self.reader_of(subscription);
        let at = (reader.0, reader.1, page.partition);
        let asked = self.catch_up.cursors.get(&at).copied();
        let asked = asked.filter(|asked| asked.is_reading && asked.after == page.after)?;
        let rest = (!page.caught_up).then_some(Cursor {
            after: page.through,
            is_reading: false,
            is_paid: asked.is_paid,
        });
        let result = self.catch_up.put(at, rest, slot, settings);
        debug_assert!(result.is_ok(), "the cursor is there");
        Some(PageTaken { reader, is_paid: asked.is_paid, rest })
    }

    /// A reader has caught up in a partition: with its last paid cursor, its credit ends.
    pub fn end_filter_replay(&mut self, reader: Reader) {
        let mut others = self.catch_up.cursors.range(all_of(reader));
        if !others.any(|(_, cursor)| cursor.is_paid) {
            self.credits.remove(reader.1);
        }
    }

    /// A reader goes: a subscription to a filter, or a stream.
    pub(super) fn release_reader(&mut self, reader: Reader, slot: &mut Slot, settings: &Settings) {
        self.recovering.release_reader(reader);
        self.catch_up.opening.remove(&reader);
        for partition in self.catch_up.partitions_of(reader) {
            self.catch_up.remove((reader.0, reader.1, partition), slot, settings);
        }
    }

    /// A connection has no subscriptions any more.
    pub fn release_stream(&mut self, index: ConnIndex, slot: &mut Slot, settings: &Settings) {
        self.release_reader((index, STREAM), slot, settings);
    }
}

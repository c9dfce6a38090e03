//! The beginning of a subscription: what its position proves, what it has lost, and whether pages
//! must follow.
//!
//! Three offsets matter. `last` is the topic's newest (or, for a topic without a record, an offset
//! at or above all that it may ever have had); `settled` is how far the stream of (partition, edge)
//! has come: the head, or less when it lags; what the asked position says. A start ends *live* when
//! the topic has no record between its position and `settled`: everything later comes by the
//! stream. Otherwise pages follow.
//!
//! A lagging stream carries all that the log holds after `settled`, whatever history would serve,
//! so a gap never reaches beyond it.
//!
//! Of a log on disk, memory may not hold the record at which a start begins; then the disk is asked
//! for its `prev`, and everything else is found when the answer comes.

use super::Home;
use super::topics::NONE;
use super::turn::Turn;
use super::work::{Asking, BeyondTail, Caller, Found, Question, Step};
use crate::disk::DiskQuery;
use crate::mail::{Code, Gap, GapReason, Grant, PartitionId, Start, Subscribe, ToEdge};
use crate::position::{Better, Position, Standing};
use log::RecordView;
use stdx::chunk::Slice;

impl Found {
    fn is_damaged(self) -> bool {
        match self {
            Found::Nothing => false,
            Found::Prev { damaged, .. } | Found::NothingThrough { damaged, .. } => damaged,
        }
    }
}

/// The result of a start.
#[derive(Debug, Default)]
struct Beginning {
    /// Settled up to here; none: as far as the stream has come.
    after: Option<u64>,
    gap: Option<Gap>,
    retained: Option<Slice>,
}

/// The newest records of a topic that its rule serves, as far as memory knows.
#[derive(Clone, Copy, Debug)]
pub(super) struct Served {
    /// The oldest of them in memory.
    pub oldest: Option<u64>,
    /// The disk has older records, the newest of them here, and they may be served too.
    pub older: Option<u64>,
}

/// A topic, its rule, and the moment.
#[derive(Clone, Copy)]
struct Place {
    now_ms: u64,
    topic: u32,
    rule: u16,
    settled: u64,
    found: Found,
}

/// A start whose first record only the disk can name: the newest `count` of the topic, and those
/// after this offset.
struct OnDisk {
    count: u32,
    after: u64,
}

impl Home {
    pub(super) fn subscribe(
        &mut self,
        from: Caller,
        asked: Subscribe,
        found: Found,
        turn: &mut Turn<'_>,
    ) -> Step {
        if self.is_ahead_of_tail(from, asked.partition, asked.start.positions()) {
            return Step::BeyondTail(BeyondTail::Subscribe(asked));
        }
        let known =
            self.local(asked.partition).ok_or(Code::Internal).and_then(|local| {
                match self.interests.topics.find(&asked.topic, local) {
                    Some(topic) => Ok((local, topic)),
                    None => Ok((local, self.add_topic(&asked.topic, local)?)),
                }
            });
        let Subscribe { partition, rule, subscription, start, .. } = asked;
        let (local, topic) = match known {
            Ok(known) => known,
            Err(code) => return Step::Refuse(ToEdge::Refused { subscription, code }, code),
        };
        self.settle_stream(from.edge, local, turn);
        let place = Place {
            now_ms: turn.now_ms,
            topic,
            rule,
            settled: self.partitions[local as usize].stream_position(usize::from(from.edge)),
            found,
        };
        let beginning = match self.begin(place, partition, start) {
            Ok(beginning) => beginning,
            Err(OnDisk { count, after }) => {
                let through = self.last_of(topic);
                let query = self.start_query(turn.now_ms, topic, rule, count, after);
                let question = Question::Start(asked, through);
                return Step::Ask(Box::new(Asking { local, question, query }));
            }
        };
        let is_resume = matches!(start, Start::Since(_) | Start::SinceEither(..));
        let is_live = match beginning.after {
            None => true,
            Some(after) => self.last_of(topic) <= after && after <= place.settled,
        };
        let was_vacant = self.is_vacant(topic);
        let (index, generation) = self.interests.grant(topic, from.edge);
        if was_vacant {
            self.report_occupied(topic, turn);
        }
        self.statistics.gaps += u64::from(beginning.gap.is_some());
        Step::Done(ToEdge::Granted(Grant {
            subscription,
            index,
            generation,
            partition,
            position: Position {
                epoch: self.partitions[local as usize].lineages.present_epoch(),
                offset: beginning.after.unwrap_or(place.settled),
            },
            replaying: !is_live,
            continued: is_resume && beginning.gap.is_none(),
            gap: beginning.gap,
            retained: beginning.retained,
        }))
    }

    fn begin(
        &self,
        place: Place,
        partition: PartitionId,
        start: Start,
    ) -> Result<Beginning, OnDisk> {
        match start {
            Start::Live => Ok(Beginning::default()),
            Start::AtHead => {
                let local = self.local(partition);
                let head = local.map(|local| self.partitions[local as usize].log.head());
                let after = head.filter(|head| place.settled < *head);
                Ok(Beginning { after, ..Beginning::default() })
            }
            Start::Since(position) => self.begin_since(place, partition, position, position),
            Start::SinceEither(first, other) => self.begin_since(place, partition, first, other),
            Start::Last(count) => self.begin_with_newest(place, count),
            Start::Snapshot => self.begin_with_retained(place),
        }
    }

    /// After the better one of two positions of a client.
    fn begin_since(
        &self,
        place: Place,
        partition: PartitionId,
        first: Position,
        other: Position,
    ) -> Result<Beginning, OnDisk> {
        let Some(local) = self.local(partition) else {
            return self.begin_anew(place, GapReason::UnknownEpoch);
        };
        let known = &self.partitions[local as usize];
        let best = known.lineages.better_of(first, other, known.log.head());
        let Better { position, is_rewound } = best;
        match known.standing(position) {
            Standing::After(offset) if is_rewound => {
                let beginning = self.begin_after(place, offset)?;
                let to = beginning.after.unwrap_or(place.settled);
                let gap = Some(Gap { from: offset, to, reason: known.reason_of_rewind(first) });
                Ok(Beginning { after: Some(to), gap, ..beginning })
            }
            Standing::After(offset) => self.begin_after(place, offset),
            Standing::UnknownEpoch => self.begin_anew(place, GapReason::UnknownEpoch),
            Standing::BeyondHead => self.begin_anew(place, GapReason::BeyondHead),
        }
    }

    /// A known position: complete if and only if nothing of the topic after it is missing from what
    /// is served.
    fn begin_after(&self, place: Place, offset: u64) -> Result<Beginning, OnDisk> {
        let complete = Beginning { after: Some(offset), ..Beginning::default() };
        let Some(entry) = self.interests.topics.get(place.topic) else {
            return Ok(Beginning::default());
        };
        let partition = &self.partitions[entry.partition as usize];
        let reach = partition.reach(entry.last());
        if reach <= offset {
            return Ok(complete);
        }
        let served_prev = self.served_prev(place, u32::MAX, offset)?;
        let missing_through = served_prev.unwrap_or(reach);
        let is_lost = served_prev.is_none() && reach > entry.last();
        let to = missing_through.min(place.settled);
        if to <= offset {
            return Ok(complete);
        }
        let reason = self.reason_of_start(entry.partition, to, is_lost || place.found.is_damaged());
        let gap = Some(Gap { from: offset, to, reason });
        Ok(Beginning { after: Some(to), gap, retained: None })
    }

    /// A position that says nothing about this log: all is a gap up to the oldest served record, or
    /// all of it.
    fn begin_anew(&self, place: Place, reason: GapReason) -> Result<Beginning, OnDisk> {
        let served_prev = self.served_prev(place, u32::MAX, 0)?;
        let to = served_prev.map_or(place.settled, |prev| prev.min(place.settled));
        Ok(Beginning { after: Some(to), gap: Some(Gap { from: 0, to, reason }), retained: None })
    }

    fn begin_with_newest(&self, place: Place, count: u32) -> Result<Beginning, OnDisk> {
        let served_prev = self.served_prev(place, count, 0)?;
        // If a replay follows, its last page reports the loss behind the newest record.
        let gap = match served_prev {
            None if count > 0 => self.lost_of(place.topic),
            _ => None,
        };
        let after = served_prev.or(gap.map(|gap| gap.to));
        Ok(Beginning { after: after.map(|after| after.min(place.settled)), gap, retained: None })
    }

    /// The retained message travels with the grant. Where the stream has not come so far, the
    /// subscription begins behind the message, and what the stream brings before that is left out:
    /// the log may evict the record before the stream gets there.
    fn begin_with_retained(&self, place: Place) -> Result<Beginning, OnDisk> {
        let retained = self.interests.topics.get(place.topic).map_or(NONE, |topic| topic.retained);
        let Some(retained) = self.retained.get(retained) else {
            return self.begin_with_newest(place, 1);
        };
        let offset = RecordView::parse(retained).map_or(0, |record| record.offset());
        Ok(Beginning {
            after: (offset > place.settled).then_some(offset),
            gap: None,
            retained: Some(retained.clone()),
        })
    }

    /// `prev` of the first record of the topic after `after` among the newest `count` that the rule
    /// serves; none if there is none.
    fn served_prev(&self, place: Place, count: u32, after: u64) -> Result<Option<u64>, OnDisk> {
        let served = self.served(place.now_ms, place.topic, place.rule, count);
        let in_memory = |after: u64| {
            served.oldest.and_then(|oldest| self.prev_after(place.topic, after.max(oldest - 1)))
        };
        let after = match place.found {
            // Memory may still have what the disk has dropped since.
            Found::Prev { prev, .. } => {
                return Ok(Some(in_memory(after).map_or(prev, |other| other.min(prev))));
            }
            Found::NothingThrough { through, .. } => match in_memory(after) {
                Some(prev) if prev < through => return Ok(Some(prev)),
                _ => after.max(through),
            },
            Found::Nothing => after,
        };
        if served.older.is_some_and(|older| older > after) {
            return Err(OnDisk { count, after });
        }
        Ok(in_memory(after))
    }

    /// The topic's newest `count` records that the rule serves.
    pub(super) fn served(&self, now_ms: u64, topic: u32, rule: u16, count: u32) -> Served {
        let nothing = Served { oldest: None, older: None };
        let Some(entry) = self.interests.topics.get(topic) else {
            return nothing;
        };
        let (count, not_before_ms) = self.limits_of(now_ms, rule, topic, count);
        if count == 0 {
            return nothing;
        }
        let partition = &self.partitions[entry.partition as usize];
        let start =
            partition.log.newest_of_topic(topic, entry.last(), count as usize, not_before_ms);
        let older = (partition.has_disk && start.all)
            .then(|| match start.oldest {
                Some(oldest) => self.prev_after(topic, oldest - 1).unwrap_or(0),
                None => entry.last(),
            })
            .filter(|older| *older >= partition.disk_floor);
        Served { oldest: start.oldest, older }
    }

    /// Asks the disk for the same.
    pub(super) fn start_query(
        &self,
        now_ms: u64,
        topic: u32,
        rule: u16,
        count: u32,
        after: u64,
    ) -> DiskQuery {
        let (count, not_before_ms) = self.limits_of(now_ms, rule, topic, count);
        DiskQuery::Start {
            topic: self.name_of(topic),
            through: self.last_of(topic),
            count,
            not_before_ms,
            after,
        }
    }

    /// The maximum number of messages, and the minimum time of the oldest, for this rule.
    fn limits_of(&self, now_ms: u64, rule: u16, topic: u32, count: u32) -> (u32, u64) {
        let rule = self.settings.rule_of(rule, || self.interests.topics.name(topic));
        (count.min(rule.history_messages_max), now_ms.saturating_sub(rule.history_age_max_ms))
    }

    /// The records of a topic behind its newest one that damage may have taken away.
    fn lost_of(&self, topic: u32) -> Option<Gap> {
        let entry = self.interests.topics.get(topic)?;
        self.partitions[entry.partition as usize].lost_after(entry.last())
    }

    fn last_of(&self, topic: u32) -> u64 {
        self.interests.topics.get(topic).map_or(0, |topic| topic.last())
    }

    /// The reason why records up to `to` are missing where a replay begins.
    pub(super) fn reason_of_start(&self, local: u32, to: u64, damaged: bool) -> GapReason {
        if damaged && self.partitions[local as usize].keeps(to) {
            GapReason::Damaged
        } else {
            self.reason_of_gap(local, to)
        }
    }

    /// The reason why records up to `to` are missing: if the log still holds them, the rule keeps
    /// them from being served.
    pub(super) fn reason_of_gap(&self, local: u32, to: u64) -> GapReason {
        if to >= self.partitions[local as usize].floor() {
            GapReason::HistoryLimit
        } else {
            GapReason::Evicted
        }
    }
}

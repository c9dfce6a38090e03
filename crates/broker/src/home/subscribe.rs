//! Where a subscription begins: what its position proves, what it has lost, and whether pages must follow.
//!
//! Three offsets matter. `last` is the topic's newest (or, for a topic without a record, an offset at or above all that
//! it may ever have had); `settled` is how far the stream of (partition, edge) has come: the head, or less when it lags;
//! what the asked position says. A start ends *live* when the topic has no record between its position and `settled`:
//! everything later comes by the stream. Otherwise pages follow.
//!
//! A lagging stream carries all that the log holds after `settled`, whatever history would serve, so a gap never
//! reaches beyond it.

use super::topics::NONE;
use super::{Home, HomeOutputs};
use crate::mail::{Code, EdgeId, Gap, GapReason, Letter, PartitionId, Start, SubscriptionKey};
use crate::position::Standing;
use log::{PageLimits, RecordView};
use stdx::chunk::Slice;

/// What a start amounts to.
#[derive(Debug, Default)]
struct Beginning {
    /// Settled up to here; none: as far as the stream has come.
    after: Option<u64>,
    gap: Option<Gap>,
    retained: Option<Slice>,
}

impl Home {
    #[expect(
        clippy::too_many_arguments,
        reason = "the fields of the request and the ports of every handler"
    )]
    pub(super) fn subscribe(
        &mut self,
        now_ms: u64,
        from: EdgeId,
        partition: PartitionId,
        rule: u16,
        name: &Slice,
        subscription: SubscriptionKey,
        start: Start,
        out: &mut HomeOutputs,
    ) {
        let found = self
            .local(partition)
            .ok_or(Code::Internal)
            .and_then(|local| match self.interests.topics.find(name, local) {
                Some(topic) => Ok((local, topic)),
                None => Ok((local, self.add_topic(name, local)?)),
            });
        let (local, topic) = match found {
            Ok(found) => found,
            Err(code) => {
                self.statistics.refused.count(code);
                out.post(from, Letter::Refused { subscription, code });
                return;
            }
        };
        self.settle_stream(from, local, out);
        let settled = self.partitions[local as usize].stream_position(usize::from(from));
        let last = self
            .interests
            .topics
            .get(topic)
            .map_or(0, |topic| topic.last());
        let beginning = match start {
            Start::Live => Beginning::default(),
            Start::Since(position) => {
                let partition = &self.partitions[local as usize];
                match position.standing(partition.epoch, partition.log.head()) {
                    Standing::After(offset) => {
                        self.begin_after(now_ms, topic, rule, offset, settled)
                    }
                    Standing::UnknownEpoch => {
                        self.begin_anew(now_ms, topic, rule, settled, GapReason::UnknownEpoch)
                    }
                    Standing::BeyondHead => {
                        self.begin_anew(now_ms, topic, rule, settled, GapReason::BeyondHead)
                    }
                }
            }
            Start::Last(count) => self.begin_with_newest(now_ms, topic, rule, count, settled),
            Start::Snapshot => self.begin_with_retained(now_ms, topic, rule, settled),
        };
        let is_live = match beginning.after {
            None => true,
            Some(after) => last <= after && after <= settled,
        };
        let (index, generation) = self.interests.grant(topic, from);
        self.statistics.gaps += u64::from(beginning.gap.is_some());
        out.post(
            from,
            Letter::Granted {
                subscription,
                index,
                generation,
                partition,
                epoch: self.partitions[local as usize].epoch,
                through: beginning.after.unwrap_or(settled),
                replaying: !is_live,
                gap: beginning.gap,
                retained: beginning.retained,
            },
        );
    }

    /// A known position: complete if and only if nothing of the topic after it is missing from what is served.
    fn begin_after(
        &self,
        now_ms: u64,
        topic: u32,
        rule: u16,
        offset: u64,
        settled: u64,
    ) -> Beginning {
        let Some(entry) = self.interests.topics.get(topic) else {
            return Beginning::default();
        };
        if entry.last() <= offset {
            return Beginning {
                after: Some(offset),
                ..Beginning::default()
            };
        }
        let served_prev = self.prev_of_served_after(now_ms, topic, rule, offset);
        let missing_through = served_prev.unwrap_or(entry.last());
        let to = missing_through.min(settled);
        if to <= offset {
            return Beginning {
                after: Some(offset),
                ..Beginning::default()
            };
        }
        let reason = self.reason_of_gap(entry.partition, to);
        let gap = Some(Gap {
            from: offset,
            to,
            reason,
        });
        Beginning {
            after: Some(to),
            gap,
            retained: None,
        }
    }

    /// A position that says nothing about this log: all is a gap up to the oldest served record, or all of it.
    fn begin_anew(
        &self,
        now_ms: u64,
        topic: u32,
        rule: u16,
        settled: u64,
        reason: GapReason,
    ) -> Beginning {
        let served_prev = self.prev_of_served_after(now_ms, topic, rule, 0);
        let to = served_prev.map_or(settled, |prev| prev.min(settled));
        Beginning {
            after: Some(to),
            gap: Some(Gap {
                from: 0,
                to,
                reason,
            }),
            retained: None,
        }
    }

    fn begin_with_newest(
        &self,
        now_ms: u64,
        topic: u32,
        rule: u16,
        count: u32,
        settled: u64,
    ) -> Beginning {
        let oldest = self.oldest_served(now_ms, topic, rule, count);
        let served_prev = oldest.and_then(|oldest| self.prev_after(topic, oldest - 1));
        Beginning {
            after: served_prev.map(|prev| prev.min(settled)),
            ..Beginning::default()
        }
    }

    /// The retained message travels with the grant, unless the stream has not come so far and will bring it itself.
    fn begin_with_retained(&self, now_ms: u64, topic: u32, rule: u16, settled: u64) -> Beginning {
        let place = self
            .interests
            .topics
            .get(topic)
            .map_or(NONE, |topic| topic.retained);
        let Some(retained) = self.retained.get(place) else {
            return self.begin_with_newest(now_ms, topic, rule, 1, settled);
        };
        let offset = RecordView::parse(retained).map_or(0, |record| record.offset());
        let retained = Some(retained.clone()).filter(|_| offset <= settled);
        Beginning {
            retained,
            ..Beginning::default()
        }
    }

    /// `prev` of the first record of the topic after `offset` that is present and served by the rule.
    fn prev_of_served_after(&self, now_ms: u64, topic: u32, rule: u16, offset: u64) -> Option<u64> {
        let oldest = self.oldest_served(now_ms, topic, rule, u32::MAX)?;
        self.prev_after(topic, offset.max(oldest - 1))
    }

    /// The offset of the oldest of the topic's newest `count` records that the rule serves.
    pub(super) fn oldest_served(
        &self,
        now_ms: u64,
        topic: u32,
        rule: u16,
        count: u32,
    ) -> Option<u64> {
        let entry = self.interests.topics.get(topic)?;
        let rule = self.settings.rules.get(usize::from(rule))?;
        let count = count.min(rule.history_messages_max);
        if count == 0 {
            return None;
        }
        let not_before_ms = now_ms.saturating_sub(rule.history_age_max_ms);
        let log = &self.partitions[entry.partition as usize].log;
        log.newest_of_topic(topic, entry.last(), count as usize, not_before_ms)
    }

    /// `prev` of the first record of the topic after `offset` that is present.
    fn prev_after(&self, topic: u32, offset: u64) -> Option<u64> {
        let entry = self.interests.topics.get(topic)?;
        let limits = PageLimits {
            records_max: 1,
            bytes_max: 0,
        };
        let log = &self.partitions[entry.partition as usize].log;
        log.read_topic(topic, entry.last(), offset, limits, &mut Vec::new())
            .first_prev
    }

    /// Why records up to `to` are missing: what the log still holds, only the rule can keep from being served.
    pub(super) fn reason_of_gap(&self, local: u32, to: u64) -> GapReason {
        match to >= self.partitions[local as usize].oldest() {
            true => GapReason::HistoryLimit,
            false => GapReason::Evicted,
        }
    }
}

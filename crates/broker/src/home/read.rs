//! Pages: for subscriptions that replay or lag, and of a topic's history.
//!
//! The limits of a rule (`history_messages_max`, `history_age_max_ms`) bound what a *start* and a history request may
//! reach back to. A page for a subscription that has begun is bounded by eviction only: a client that stalled has been
//! promised the stream from its position, and takes all of it that the log still holds.

use super::{Home, HomeOutputs};
use crate::mail::{
    Code, EdgeId, Gap, GapReason, HistoryPage, Letter, PageLimits, PartitionId, ReadMode, Reply,
    SubscriptionKey,
};
use crate::position::{Position, Standing};
use log::{RecordView, TopicPage};
use stdx::chunk::Slice;

/// What of a topic's history is asked for.
#[derive(Clone, Copy, Debug)]
pub(super) struct HistoryQuery {
    pub partition: PartitionId,
    pub rule: u16,
    pub beyond: Option<Position>,
    pub reverse: bool,
    pub limits: PageLimits,
}

/// What of a topic a subscription asks for.
#[derive(Clone, Copy, Debug)]
pub(super) struct ReadQuery {
    pub after: u64,
    pub mode: ReadMode,
    pub limits: PageLimits,
}

impl Home {
    /// A page for a subscription: records after `after`, never beyond what the stream has dealt with. An index that
    /// stands for nothing belongs to a subscription that has gone, and nobody waits.
    pub(super) fn read(
        &mut self,
        from: EdgeId,
        index: u32,
        subscription: SubscriptionKey,
        query: ReadQuery,
        out: &mut HomeOutputs,
    ) {
        self.statistics.pages_read += 1;
        let ReadQuery {
            after,
            mode,
            mut limits,
        } = query;
        let Some((topic, _)) = self.interests.edges[usize::from(from)].indexed(index) else {
            return;
        };
        let Some(entry) = self.interests.topics.get(topic) else {
            return;
        };
        let (local, last) = (entry.partition, entry.last());
        self.settle_stream(from, local, out);
        let settled = self.partitions[local as usize].stream_position(usize::from(from));
        if after > settled {
            // The client knows more than this stream has carried: the edge drops what it has, until the stream has
            // come so far.
            let page = Letter::Page {
                subscription,
                gap: None,
                skipped: None,
                records: Vec::new(),
                through: after,
                caught_up: true,
            };
            out.post(from, page);
            return;
        }
        let newest = match mode {
            ReadMode::Replay => None,
            _ => self.newest_within(local, topic, last, after, settled),
        };
        if mode == ReadMode::Skip {
            let page = Letter::Page {
                subscription,
                gap: None,
                skipped: newest.map(|_| settled),
                records: Vec::new(),
                through: settled,
                caught_up: true,
            };
            out.post(from, page);
            return;
        }
        // The page of the newest record is that of all records behind the one before it.
        let begin = newest.map_or(after, |newest| newest - 1);
        if mode == ReadMode::Newest {
            limits.records_max = 1;
        }
        let mut records = Vec::new();
        let page = self.page(local, topic, last, begin, limits, &mut records);
        let settled_len = records.partition_point(|record| offset_of(record) <= settled);
        let caught_up = mode == ReadMode::Newest || page.complete || settled_len < records.len();
        records.truncate(settled_len);
        let missing = gap_between(after, &page, last, GapReason::Evicted).map(|gap| Gap {
            to: gap.to.min(settled),
            ..gap
        });
        let (gap, skipped) = match mode {
            ReadMode::Newest if !records.is_empty() => (None, missing.map(|gap| gap.to)),
            _ => (missing, None),
        };
        self.statistics.gaps += u64::from(gap.is_some());
        let through = if caught_up { settled } else { page.through };
        out.post(
            from,
            Letter::Page {
                subscription,
                gap,
                skipped,
                records,
                through,
                caught_up,
            },
        );
    }

    /// The topic's newest record after `after` and not beyond `settled`; that of a stream that does not lag may have
    /// been evicted.
    fn newest_within(
        &self,
        local: u32,
        topic: u32,
        last: u64,
        after: u64,
        settled: u64,
    ) -> Option<u64> {
        let newest = match last <= settled {
            true => Some(last),
            false => {
                let limits = log::PageLimits {
                    records_max: 1,
                    bytes_max: 0,
                };
                let log = &self.partitions[local as usize].log;
                let mut records = Vec::new();
                log.read_topic_back(topic, last, settled + 1, limits, &mut records);
                records.first().map(offset_of)
            }
        };
        newest.filter(|&newest| newest > after)
    }

    pub(super) fn history(
        &mut self,
        now_ms: u64,
        from: EdgeId,
        name: &Slice,
        reply: Reply,
        query: HistoryQuery,
        out: &mut HomeOutputs,
    ) {
        self.statistics.histories_read += 1;
        let result = match self.local(query.partition) {
            Some(local) => Ok(self.history_page(now_ms, local, name, query)),
            None => Err(Code::Internal),
        };
        out.post(from, Letter::History { reply, result });
    }

    fn history_page(
        &self,
        now_ms: u64,
        local: u32,
        name: &Slice,
        query: HistoryQuery,
    ) -> HistoryPage {
        let partition = &self.partitions[local as usize];
        let (epoch, head) = (partition.epoch, partition.log.head());
        let standing = query.beyond.map(|position| position.standing(epoch, head));
        let lost = match standing {
            None | Some(Standing::After(_)) => None,
            Some(Standing::UnknownEpoch) => Some(GapReason::UnknownEpoch),
            Some(Standing::BeyondHead) => Some(GapReason::BeyondHead),
        };
        let beyond = match standing {
            Some(Standing::After(offset)) => Some(offset),
            _ => None,
        };
        let topic = self.interests.topics.find(name, local);
        let last = topic
            .and_then(|topic| self.interests.topics.get(topic))
            .map_or(partition.forgotten_through, |topic| topic.last());
        let oldest = topic.and_then(|topic| {
            Some((
                topic,
                self.oldest_served(now_ms, topic, query.rule, u32::MAX)?,
            ))
        });
        let mut records = Vec::new();
        if query.reverse {
            let before = beyond.unwrap_or(u64::MAX);
            let mut more = false;
            if let Some((topic, oldest)) = oldest {
                let limits = log_limits(query.limits);
                partition
                    .log
                    .read_topic_back(topic, last, before, limits, &mut records);
                records.truncate(records.partition_point(|record| offset_of(record) >= oldest));
                more = records
                    .last()
                    .is_some_and(|record| offset_of(record) > oldest);
            }
            let gap = lost.map(|reason| Gap {
                from: 0,
                to: head,
                reason,
            });
            return HistoryPage {
                epoch,
                head,
                gap,
                records,
                more,
                reverse: true,
            };
        }
        let after = beyond.unwrap_or(0);
        let page = match oldest {
            Some((topic, oldest)) => {
                let after = after.max(oldest - 1);
                self.page(local, topic, last, after, query.limits, &mut records)
            }
            None => TopicPage {
                through: after,
                complete: true,
                first_prev: None,
            },
        };
        let gap = match lost {
            Some(reason) => Some(Gap {
                from: 0,
                to: page.first_prev.unwrap_or(head),
                reason,
            }),
            None => beyond.and_then(|after| {
                let gap = gap_between(after, &page, last, GapReason::Evicted)?;
                Some(Gap {
                    reason: self.reason_of_gap(local, gap.to),
                    ..gap
                })
            }),
        };
        HistoryPage {
            epoch,
            head,
            gap,
            records,
            more: !page.complete,
            reverse: false,
        }
    }

    fn page(
        &self,
        local: u32,
        topic: u32,
        last: u64,
        after: u64,
        limits: PageLimits,
        records: &mut Vec<Slice>,
    ) -> TopicPage {
        let log = &self.partitions[local as usize].log;
        log.read_topic(topic, last, after, log_limits(limits), records)
    }
}

/// What lies between `after` and the first record of a page: up to that one's `prev`, or to the topic's last.
fn gap_between(after: u64, page: &TopicPage, last: u64, reason: GapReason) -> Option<Gap> {
    let to = page.first_prev.unwrap_or(last);
    (to > after).then_some(Gap {
        from: after,
        to,
        reason,
    })
}

fn log_limits(limits: PageLimits) -> log::PageLimits {
    log::PageLimits {
        records_max: limits.records_max as usize,
        bytes_max: limits.bytes_max as usize,
    }
}

fn offset_of(record: &Slice) -> u64 {
    RecordView::parse(record).map_or(0, |record| record.offset())
}

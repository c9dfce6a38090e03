//! Long polls: the state of a subscription that ends with its first messages, or with the time.

use super::http::answer::Answer;
use super::http::parameters::DataForm;
use crate::mail::{Gap, HistoryPage, SubscriptionKey};
use crate::notice::{Encoded, Found, Notice, Then};
use crate::position::Position;
use log::RecordView;
use stdx::chunk::Slice;
use stdx::handing::Hand;

/// One long poll.
#[derive(Hand)]
pub(crate) struct Poll {
    /// The latest end; a pair of it and the connection waits in the edge's `polls`.
    pub(crate) deadline_ms: u64,
    /// The time that the client wanted to wait is over, and its home has not said yet what there
    /// is: it answers as soon as that is known. Without this a poll of no time at all would never
    /// bring anything.
    pub(crate) is_over: bool,
    pub(crate) topic: String,
    limit: u32,
    pub(crate) data: DataForm,
    pub(crate) answer: Answer,
    pub(crate) subscription: Option<SubscriptionKey>,
    position: Option<Position>,
    gap: Option<Gap>,
    records: Vec<Slice>,
    /// There are more records than the limit.
    more: bool,
}

impl Poll {
    pub fn new(topic: String, limit: u32, data: DataForm, answer: Answer) -> Poll {
        Poll {
            deadline_ms: 0,
            is_over: false,
            topic,
            limit: limit.max(1),
            data,
            answer,
            subscription: None,
            position: None,
            gap: None,
            records: Vec::new(),
            more: false,
        }
    }

    /// Takes a notice of the subscription. Nothing is written before the poll ends.
    pub fn notice(&mut self, notice: &Notice<'_>) -> Encoded {
        let then = match *notice {
            Notice::Subscribed { grant, .. } => {
                self.position = Some(grant.position);
                self.gap = grant.gap;
                (grant.gap.is_some() || self.is_over) && !grant.replaying
            }
            Notice::Gap { gap, found: Found::InPage, .. } => {
                self.add_gap(gap);
                false
            }
            Notice::CaughtUp { position: through, .. } => {
                if let Some(position) = &mut self.position {
                    position.offset = position.offset.max(through.offset);
                }
                self.gap.is_some() || self.is_over
            }
            Notice::Refused { refusal, .. } => {
                return Encoded::ANSWER.then(Then::Fail(refusal.code));
            }
            Notice::Started { .. }
            | Notice::RetainedSent { .. }
            | Notice::SubscribedFilter { .. }
            | Notice::FiltersStarted { .. }
            | Notice::Failed { .. }
            | Notice::Gap { .. }
            | Notice::LeftOut { .. }
            | Notice::FilterCaughtUp { .. }
            | Notice::Unsubscribed { .. }
            | Notice::Published { .. }
            | Notice::History { .. }
            | Notice::GoAway { .. }
            | Notice::TokenExpires { .. }
            | Notice::Welcome(_)
            | Notice::Ping { .. }
            | Notice::Pong { .. }
            | Notice::TicketIssued { .. }
            | Notice::Renewed { .. } => false,
        };
        Encoded::ANSWER.then(if then { Then::MarkDirty } else { Then::Continue })
    }

    fn add_gap(&mut self, gap: Gap) {
        match &mut self.gap {
            _ if !self.records.is_empty() => {
                // An answer tells of a gap before its first message only: it ends here, and the
                // next begins with this one.
                self.limit = self.records.len() as u32;
                self.more = true;
            }
            Some(known) => known.to = gap.to,
            None => self.gap = Some(gap),
        }
    }

    /// Takes a message.
    pub fn take(&mut self, record: &Slice) {
        if self.records.len() < self.limit as usize {
            self.records.push(record.clone());
        } else {
            self.more = true;
        }
    }

    /// Whether the home has granted the subscription.
    pub fn is_granted(&self) -> bool {
        self.position.is_some()
    }

    /// Whether there is something to answer.
    pub fn has_news(&self) -> bool {
        !self.records.is_empty() || self.gap.is_some()
    }

    /// The answer; none before the subscription is granted. The next poll continues after it.
    pub fn into_page(self, is_live: bool) -> Option<HistoryPage> {
        let position = self.position?;
        let last = self.records.last().and_then(|record| RecordView::parse(record));
        let last = last.map(|view| view.offset());
        Some(HistoryPage {
            epoch: position.epoch,
            head: last.unwrap_or(position.offset),
            gap: self.gap,
            records: self.records,
            more: self.more || !is_live,
            reverse: false,
        })
    }
}

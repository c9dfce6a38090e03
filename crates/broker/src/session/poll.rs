//! Long polls: a subscription that ends with its first messages, or with the time.

use super::State;
use super::http::{Answer, append_page};
use crate::edge::{Edge, Grant, Refusal, flag};
use crate::mail::{Gap, HistoryPage, Start};
use crate::position::Position;
use stdx::chunk::Slice;
use wire::native::ErrorCode;

/// One long poll.
pub(crate) struct Poll {
    /// Tells its deadline from that of an earlier poll.
    number: u32,
    topic: String,
    limit: u32,
    answer: Answer,
    subscription: Option<u32>,
    position: Option<Position>,
    gap: Option<Gap>,
    records: Vec<Slice>,
    /// There are more records than the limit.
    more: bool,
}

impl Poll {
    pub fn new(topic: String, limit: u32, answer: Answer) -> Poll {
        Poll {
            number: 0,
            topic,
            limit: limit.max(1),
            answer,
            subscription: None,
            position: None,
            gap: None,
            records: Vec::new(),
            more: false,
        }
    }
}

impl Edge {
    /// Subscribes and waits. Without a position it waits for the next message.
    pub(super) fn begin_poll(
        &mut self,
        index: u32,
        mut poll: Poll,
        since: Option<Position>,
        wait_ms: u64,
    ) {
        self.slots[index].set(flag::PAUSED);
        poll.number = self.next_serial();
        let start = since.map_or(Start::Live, Start::Since);
        let subscription = self.subscribe_plain(index, &poll.topic, 0, start, false);
        poll.subscription = Some(subscription);
        self.poll_deadline(index, poll.number, wait_ms);
        self.set_state(index, State::Poll(poll));
    }

    pub(super) fn poll_subscribed(&mut self, index: u32, _subscription: u32, grant: &Grant) {
        let Some(State::Poll(poll)) = self.state(index) else {
            return;
        };
        poll.position = Some(grant.position);
        poll.gap = grant.gap;
        if grant.gap.is_some() && !grant.replaying {
            self.touch(index);
        }
    }

    pub(super) fn poll_refused(&mut self, index: u32, refusal: Refusal) {
        let Some(State::Poll(poll)) = self.take_state(index) else {
            return;
        };
        self.answer_fault(index, &poll.answer, &refusal.code.into());
    }

    pub(super) fn poll_gap(&mut self, index: u32, gap: Gap) {
        if let Some(State::Poll(poll)) = self.state(index) {
            poll.gap = poll.gap.or(Some(gap));
        }
    }

    pub(super) fn poll_caught_up(&mut self, index: u32, through: u64) {
        let Some(State::Poll(poll)) = self.state(index) else {
            return;
        };
        if let Some(position) = &mut poll.position {
            position.offset = position.offset.max(through);
        }
        if poll.gap.is_some() {
            self.touch(index);
        }
    }

    /// A message for a connection that may be a long poll.
    pub(crate) fn deliver_to_poll(&mut self, index: u32, record: &Slice) {
        let Some(State::Poll(poll)) = self.state(index) else {
            return;
        };
        if poll.records.len() < poll.limit as usize {
            poll.records.push(record.clone());
        } else {
            poll.more = true;
        }
        // Answered when the turn is over, with all that came in it.
        self.touch(index);
    }

    /// The turn is over: answers if there is something to say.
    pub(crate) fn poll_settled(&mut self, index: u32) {
        if let Some(State::Poll(poll)) = self.state(index)
            && poll.position.is_some()
            && (!poll.records.is_empty() || poll.gap.is_some())
        {
            self.finish_poll(index);
        }
    }

    /// The time is over.
    pub(crate) fn poll_timed_out(&mut self, index: u32, number: u32) {
        match self.state(index) {
            Some(State::Poll(poll)) if poll.number == number && poll.position.is_some() => {
                self.finish_poll(index)
            }
            // The home has not even answered: it is overloaded.
            Some(State::Poll(poll)) if poll.number == number => {
                let answer = poll.answer.clone();
                self.end_poll(index);
                self.answer_fault(index, &answer, &ErrorCode::Overloaded.into());
            }
            _ => {}
        }
    }

    fn finish_poll(&mut self, index: u32) {
        let Some(poll) = self.end_poll(index) else {
            return;
        };
        let Some(position) = poll.position else {
            return;
        };
        let last = poll
            .records
            .last()
            .and_then(|record| log::RecordView::parse(record))
            .map(|view| view.offset());
        let page = HistoryPage {
            epoch: position.epoch,
            head: last.unwrap_or(position.offset),
            gap: poll.gap,
            records: poll.records,
            more: poll.more,
            reverse: false,
        };
        let mut body = Vec::new();
        append_page(&mut body, &poll.topic, &page);
        self.answer_json(index, &poll.answer, 200, &body);
    }

    fn end_poll(&mut self, index: u32) -> Option<Poll> {
        let Some(State::Poll(poll)) = self.take_state(index) else {
            return None;
        };
        if let Some(subscription) = poll.subscription {
            self.unsubscribe(subscription);
        }
        Some(poll)
    }
}

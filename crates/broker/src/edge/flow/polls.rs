//! Long polls: a subscription that ends with its first messages, or with the time.

use crate::edge::Edge;
use crate::ids::ConnIndex;
use crate::mail::{HistoryPage, Start};
use crate::notice::SubscribeTerms;
use crate::position::Position;
use crate::protocol::flag;
use crate::session::State;
use crate::session::http::history::append_page;
use crate::session::poll::Poll;
use crate::settings::LagPolicy;
use stdx::chunk::Slice;
use wire::native::ErrorCode;

/// The time beyond the client's own that a poll waits for its home's answer, in milliseconds. A
/// home needs a turn or a page, in general.
const HOME_PATIENCE_MS: u64 = 2_000;

impl Edge {
    /// Subscribes and waits. Without a position it waits for the next message.
    pub(crate) fn begin_poll(
        &mut self,
        index: ConnIndex,
        mut poll: Poll,
        since: Option<Position>,
        wait_ms: u64,
    ) {
        self.connections.slots[index].set(flag::PAUSED);
        let start = since.map_or(Start::Live, Start::Since);
        // An answer ends with what there is; the next poll asks from there, so that nothing of it
        // can lag.
        let terms =
            SubscribeTerms { policy: Some(LagPolicy::Replay), ..SubscribeTerms::from(start) };
        let subscription = self.subscribe_plain(index, &poll.topic, 0, terms);
        poll.subscription = Some(self.subscriptions.key(subscription));
        poll.deadline_ms = self.now.monotonic_ms + wait_ms;
        self.sessions.begin_poll(poll.deadline_ms, index);
        self.set_state(index, State::Poll(Box::new(poll)));
    }

    /// A message for a connection that may be a long poll.
    pub(crate) fn deliver_to_poll(&mut self, index: ConnIndex, record: &Slice) {
        let Some(State::Poll(poll)) = self.state(index) else {
            return;
        };
        poll.take(record);
        // Answered when the turn is over, with all that came in it.
        self.mark_dirty(index);
    }

    /// Answers the poll if it has messages or is over; the turn has ended.
    pub(crate) fn poll_settled(&mut self, index: ConnIndex) {
        let Some(State::Poll(poll)) = self.state(index) else {
            return;
        };
        let has_news = poll.has_news();
        let (is_granted, is_over) = (poll.is_granted(), poll.is_over);
        let subscription = poll.subscription;
        let is_live = || subscription.is_some_and(|key| self.is_live(key));
        if is_granted && (has_news || is_over && is_live()) {
            self.finish_poll(index);
        }
    }

    /// The time is over, or the node drains.
    pub(crate) fn poll_timed_out(&mut self, index: ConnIndex) {
        let Some(State::Poll(poll)) = self.state(index) else {
            return;
        };
        let (is_granted, is_over) = (poll.is_granted(), poll.is_over);
        let subscription = poll.subscription;
        let is_live = || subscription.is_some_and(|key| self.is_live(key));
        if is_granted && (is_over || is_live()) {
            self.finish_poll(index);
        } else if !is_over {
            self.extend_poll(index);
        } else if let Some(poll) = self.end_poll(index) {
            // The home has not even answered: it is overloaded.
            self.answer_fault(index, &poll.answer, &ErrorCode::Overloaded.into());
        }
    }

    /// Gives the home time to answer.
    fn extend_poll(&mut self, index: ConnIndex) {
        let deadline_ms = self.now.monotonic_ms + HOME_PATIENCE_MS;
        if let Some(State::Poll(poll)) = self.state(index) {
            poll.is_over = true;
            let before_ms = std::mem::replace(&mut poll.deadline_ms, deadline_ms);
            self.sessions.end_poll(before_ms, index);
            self.sessions.begin_poll(deadline_ms, index);
        }
    }

    /// A home has refused the subscription, which ends after this call.
    pub(crate) fn poll_refused(&mut self, index: ConnIndex, code: ErrorCode) {
        if let Some(poll) = self.take_poll(index) {
            self.answer_fault(index, &poll.answer, &code.into());
        }
    }

    /// Ends the poll of a client whose entitlement has ended. False if no poll is there.
    pub(crate) fn poll_ended(&mut self, index: ConnIndex, code: ErrorCode) -> bool {
        let poll = self.end_poll(index);
        if let Some(poll) = &poll {
            self.answer_fault(index, &poll.answer, &code.into());
        }
        poll.is_some()
    }

    fn finish_poll(&mut self, index: ConnIndex) {
        if let Some(at) = self.entitlement_of(index)
            && let Err(code) = self.check_entitlement(at)
        {
            self.poll_ended(index, code);
            return;
        }
        let Some(State::Poll(poll)) = self.state(index) else {
            return;
        };
        let subscription = poll.subscription;
        let is_live = subscription.is_some_and(|key| self.is_live(key));
        let at = subscription.and_then(|key| self.subscriptions.find(key));
        let epoch = at.map(|at| self.subscription_epoch(at));
        let Some(mut poll) = self.end_poll(index) else {
            return;
        };
        let (topic, answer) = (std::mem::take(&mut poll.topic), poll.answer.clone());
        let data = poll.data;
        if let Some(page) = poll.into_page(is_live) {
            let page = HistoryPage { epoch: epoch.unwrap_or(page.epoch), ..page };
            let mut body = Vec::new();
            append_page(&mut body, &topic, &page, data);
            self.answer_json(index, &answer, 200, &body);
        }
    }

    fn end_poll(&mut self, index: ConnIndex) -> Option<Poll> {
        let poll = self.take_poll(index)?;
        if let Some(key) = poll.subscription {
            self.unsubscribe_key(key);
        }
        Some(poll)
    }

    pub(crate) fn is_poll(&self, index: ConnIndex) -> bool {
        let state = self.sessions.get(self.connections.slots[index].state);
        matches!(state, Some(State::Poll(_)))
    }

    fn take_poll(&mut self, index: ConnIndex) -> Option<Poll> {
        if !self.is_poll(index) {
            return None;
        }
        let Some(State::Poll(poll)) = self.take_state(index) else {
            return None;
        };
        self.sessions.end_poll(poll.deadline_ms, index);
        Some(*poll)
    }

    /// The connection of a poll has gone.
    pub(crate) fn release_poll(&mut self, index: ConnIndex) {
        self.take_poll(index);
    }
}

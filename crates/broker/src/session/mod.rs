//! Sessions: each protocol's view of the four ideas. Frames become commands, deliveries become
//! frames.
//!
//! Step 3 of the path and back. Each file is one protocol, as methods of the edge that owns the
//! connection; what the edge has to tell a subscriber goes through the `tell_` functions here,
//! which know who speaks what.

pub(crate) mod credential;
pub(crate) mod cursor;
pub(crate) mod envelope;
pub(crate) mod event_stream;
pub(crate) mod events;
pub(crate) mod fault;
pub(crate) mod greeting;
pub(crate) mod history;
pub(crate) mod http;
pub(crate) mod identity;
pub(crate) mod items;
pub(crate) mod json;
pub(crate) mod native;
mod native_filters;
pub(crate) mod native_notices;
mod native_refusals;
pub(crate) mod once;
pub(crate) mod parameters;
pub(crate) mod poll;
pub(crate) mod positions;
pub(crate) mod publish;
pub(crate) mod renewal;
pub(crate) mod route;
pub(crate) mod ticket;

use crate::ids::{ConnIndex, SubIndex};
pub(crate) use credential::Credential;
pub(crate) use http::refuse_client;
pub(crate) use json::append_message;
pub(crate) use parameters::DataForm;

use crate::edge::{Edge, NONE, Protocol, flag};
use crate::inspect::Answer;
use crate::mail::{Appended, Gap, HistoryPage, PartitionId, PublishRefusal, Reply};
use crate::notice::{Beginning, Grant, LeftOut, Refusal};
use stdx::handing::Hand;
use wire::native::{CloseCode, ErrorCode};

/// What a session keeps while it needs it; an idle connection has none.
#[derive(Hand)]
pub(crate) enum State {
    /// A fragmented WebSocket message is open.
    Assembly(wire::websocket::message::Assembler, Vec<u8>),
    /// An HTTP request's body is on its way.
    Body(Box<http::Body>),
    /// Publications of an HTTP request wait for their acknowledgements.
    Publishing(Box<publish::Publishing>),
    /// An HTTP request waits for a page of history.
    History(Box<history::HistoryWait>),
    /// A long poll.
    Poll(Box<poll::Poll>),
    /// An event stream of several topics.
    Events(Box<event_stream::Events>),
    /// Items of a frame that wait for a later turn.
    Items(items::Items),
    /// What was shown is being judged, or has been.
    Credential(Credential),
}

impl State {
    /// Bytes of the buffer of what is not complete yet, or waits; none without.
    pub fn kept_bytes(&self) -> Option<usize> {
        match self {
            State::Assembly(_, message) => Some(message.capacity()),
            State::Body(body) => Some(body.buffer_bytes()),
            State::Credential(credential) => credential.kept_bytes(),
            State::Items(items) => Some(items.kept_bytes()),
            _ => None,
        }
    }

    /// Whether a message has come in part, or a body is still to come.
    pub fn is_open_unit(&self) -> bool {
        matches!(self, State::Assembly(..) | State::Body(_))
    }

    /// Memory behind it that does not change while it lasts.
    pub fn own_bytes(&self) -> usize {
        match self {
            State::Assembly(..) | State::Items(_) | State::Credential(_) => 0,
            State::Body(body) => size_of_val(&**body),
            State::Publishing(publishing) => size_of_val(&**publishing),
            State::History(wait) => size_of_val(&**wait),
            State::Poll(poll) => size_of_val(&**poll),
            State::Events(events) => size_of_val(&**events) + events.topics_bytes(),
        }
    }
}

impl Edge {
    /// A plain subscription holds.
    pub(crate) fn tell_subscribed(&mut self, subscription: SubIndex, grant: &Grant) {
        let index = self.subscription_connection(subscription);
        match self.connections.slots[index].protocol {
            Protocol::Native => self.native_subscribed(index, subscription, grant),
            Protocol::Events => self.events_subscribed(index, subscription, grant),
            _ => self.poll_subscribed(index, subscription, grant),
        }
        self.settled_for_renewal(index);
    }

    /// Subscriptions to filters hold; one, or all of an event stream.
    pub(crate) fn tell_subscribed_filters(
        &mut self,
        index: ConnIndex,
        subscriptions: &[u32],
        beginnings: &[Beginning],
    ) {
        match self.connections.slots[index].protocol {
            Protocol::Native => {
                for &subscription in subscriptions {
                    self.native_subscribed_filter(index, subscription, beginnings);
                }
            }
            Protocol::Events => self.events_subscribed_filters(index, subscriptions, beginnings),
            _ => {}
        }
        self.settled_for_renewal(index);
    }

    /// Messages of a subscription to a filter cannot be had.
    pub(crate) fn tell_filter_gap(
        &mut self,
        subscription: SubIndex,
        partition: PartitionId,
        gap: Gap,
    ) {
        let index = self.subscription_connection(subscription);
        match self.connections.slots[index].protocol {
            Protocol::Native => self.native_filter_gap(index, subscription, partition, gap),
            Protocol::Events => self.events_filter_gap(subscription, partition, gap),
            _ => {}
        }
    }

    /// A subscription to a filter is live again in a partition.
    pub(crate) fn tell_filter_caught_up(
        &mut self,
        subscription: SubIndex,
        partition: PartitionId,
        through: u64,
    ) {
        let index = self.subscription_connection(subscription);
        match self.connections.slots[index].protocol {
            Protocol::Native => {
                self.native_filter_caught_up(index, subscription, partition, through);
            }
            Protocol::Events => {
                self.events_filter_caught_up(index, subscription, partition, through);
            }
            _ => {}
        }
    }

    /// A subscription is refused; it is forgotten after this call.
    pub(crate) fn tell_refused(&mut self, subscription: SubIndex, refusal: Refusal) {
        let index = self.subscription_connection(subscription);
        match self.connections.slots[index].protocol {
            Protocol::Native => self.native_refused(index, subscription, refusal),
            Protocol::Events => self.events_refused(index, subscription, refusal),
            _ => self.poll_refused(index, refusal),
        }
    }

    /// Messages of a plain subscription cannot be had.
    pub(crate) fn tell_gap(&mut self, subscription: SubIndex, gap: Gap) {
        let index = self.subscription_connection(subscription);
        match self.connections.slots[index].protocol {
            Protocol::Native => self.native_gap(index, subscription, gap),
            Protocol::Events => self.events_gap(index, subscription, gap),
            _ => self.poll_gap(index, gap),
        }
    }

    /// A replay is over; live messages follow. `told` is what the client has settled without being
    /// told.
    pub(crate) fn tell_caught_up(&mut self, subscription: SubIndex, told: u64, through: u64) {
        let index = self.subscription_connection(subscription);
        match self.connections.slots[index].protocol {
            Protocol::Native => self.native_caught_up(index, subscription, told, through),
            Protocol::Events => self.events_caught_up(subscription, told, through),
            _ => self.poll_caught_up(index, through),
        }
    }

    /// Messages of a plain subscription were left out, as its policy says.
    pub(crate) fn tell_left_out(&mut self, subscription: SubIndex, left_out: LeftOut) {
        let index = self.subscription_connection(subscription);
        match self.connections.slots[index].protocol {
            Protocol::Native => self.native_left_out(index, subscription, left_out),
            Protocol::Events => self.events_left_out(index, subscription, left_out),
            _ => {}
        }
    }

    /// The same for one to a filter, in one partition.
    pub(crate) fn tell_filter_left_out(
        &mut self,
        subscription: SubIndex,
        partition: PartitionId,
        left_out: LeftOut,
    ) {
        let index = self.subscription_connection(subscription);
        match self.connections.slots[index].protocol {
            Protocol::Native => {
                self.native_filter_left_out(index, subscription, partition, left_out);
            }
            Protocol::Events => {
                self.events_filter_left_out(subscription, partition, left_out);
            }
            _ => {}
        }
    }

    /// A subscription did not keep up, and ends as its policy says; it is forgotten after this
    /// call.
    pub(crate) fn tell_disconnected(&mut self, subscription: SubIndex) {
        let index = self.subscription_connection(subscription);
        match self.connections.slots[index].protocol {
            Protocol::Native => self.native_disconnected(index, subscription),
            Protocol::Events => self.events_disconnected(index, subscription),
            _ => {}
        }
    }

    /// A home has answered a publish.
    pub(crate) fn publish_answered(
        &mut self,
        reply: Reply,
        result: Result<Appended, PublishRefusal>,
    ) {
        if self.connections.slots.get(reply.connection).is_none() {
            return self.operator_answered(reply, Answer::Published(result));
        }
        let index = reply.connection.index;
        match self.connections.slots[index].protocol {
            Protocol::Native => self.native_published(index, reply.request, result),
            _ => self.http_published(index, reply.request, result),
        }
    }

    /// A home has answered a request for history.
    pub(crate) fn history_answered(
        &mut self,
        reply: Reply,
        result: Result<HistoryPage, ErrorCode>,
    ) {
        if self.connections.slots.get(reply.connection).is_none() {
            return self.operator_answered(reply, Answer::History(result));
        }
        let index = reply.connection.index;
        match self.connections.slots[index].protocol {
            Protocol::Native => self.native_history(index, reply.request, result),
            _ => self.http_history(index, result),
        }
    }

    /// The node drains: the client is led away, to return after so many milliseconds.
    pub(crate) fn send_away(&mut self, index: ConnIndex, return_after_ms: u64) {
        match self.connections.slots[index].protocol {
            Protocol::Native => self.want_to_go_away(index, return_after_ms),
            Protocol::NativeStart | Protocol::Echo => self.close_native(index, CloseCode::Shutdown),
            Protocol::Events => self.events_send_away(index, return_after_ms),
            Protocol::Http if self.is_poll(index) => self.poll_timed_out(index),
            // Between requests there is nothing to say; an answer that is due says `Connection:
            // close`.
            Protocol::Http
                if !self.connections.slots[index].is(flag::PAUSED)
                    && self.connections.slots[index].state == NONE =>
            {
                self.close_idle(index);
            }
            Protocol::Http | Protocol::Free => {}
        }
    }
}

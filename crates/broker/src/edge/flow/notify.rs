//! Notices: what clients are sent beside messages.
//!
//! Step 9 of the path. A notice is made of all facts that a protocol needs, encoded by the session,
//! and queued: privately if it settles nothing, else as a mark, which gives way with the messages
//! before it. Invariant: room for a mark is reserved before its cursor is encoded, because making
//! room may take cursors back.

use crate::edge::Edge;
use crate::edge::outbox::Origin;
use crate::ids::{ConnIndex, NONE, SubIndex};
use crate::inspect::Answer;
use crate::mail::{Appended, Gap, GapReason, HistoryPage, PartitionId, PublishRefusal, Reply};
use crate::notice::{Beginning, Encoded, Found, Grant, LeftOut, Notice, Refusal, Settles, Then};
use crate::position::Position;
use crate::protocol::flag;
use crate::session::encode::Session;
use wire::native::{CloseCode, ErrorCode, UnsubscribeCode};

impl Edge {
    /// A connection as encoders see it.
    #[inline]
    pub(crate) fn session(&mut self, index: ConnIndex) -> Session<'_> {
        let slot = &self.connections.slots[index];
        Session {
            protocol: slot.protocol,
            is_raw: slot.is(flag::RAW),
            state: self.sessions.get_mut(slot.state),
            epochs: &self.links.epochs,
        }
    }

    /// Sends a notice that concerns the connection.
    pub(crate) fn notify(&mut self, index: ConnIndex, notice: &Notice<'_>) {
        self.notify_of(index, SubIndex::NONE, notice);
    }

    /// Sends a notice that concerns a subscription of the connection.
    pub(crate) fn notify_of(
        &mut self,
        index: ConnIndex,
        subscription: SubIndex,
        notice: &Notice<'_>,
    ) {
        if self.connections.slots[index].is(flag::CLOSING) {
            return;
        }
        let mut body = std::mem::take(&mut self.work.scratch);
        body.clear();
        let encoded = self.session(index).encode(notice, &mut body);
        if !body.is_empty() {
            self.queue_frame(index, subscription, &encoded, &body);
        }
        self.work.scratch = body;
        if let Some(code) = notice.error() {
            self.count_notice_error(index, code);
            self.mqtt_refused(index);
        }
        match encoded.then {
            Then::Continue => {}
            Then::MarkDirty => self.mark_dirty(index),
            Then::Close => self.close(index),
            Then::Fail(code) => self.poll_refused(index, code),
        }
    }

    fn queue_frame(
        &mut self,
        index: ConnIndex,
        subscription: SubIndex,
        encoded: &Encoded,
        body: &[u8],
    ) {
        let origin = match encoded.settles {
            Settles::Nothing => {
                if self.send_packed(index, body) {
                    return;
                }
                if !encoded.has_cursor {
                    return self.queue_answer(index, encoded, body);
                }
                Origin::Private
            }
            Settles::Topic { from, position, .. } => {
                let (home, topic) = self.subscription_topic(subscription);
                Origin::Plain { home, index: topic, prev: from, offset: position.offset }
            }
            Settles::Filters { partition, after, .. } => {
                self.origin_of(subscription, partition, after, false)
            }
        };
        let prefix_bytes_max = self.session(index).prefix_bytes_max(encoded, body.len());
        self.reserve(prefix_bytes_max + body.len());
        // If making room for it has cost others their place, the pages that bring those again will
        // settle it anew.
        let is_due = match encoded.settles {
            Settles::Nothing => true,
            Settles::Topic { position, .. } => self.takes_through(subscription, position.offset),
            Settles::Filters { partition, after, .. } => {
                !self.subscriptions.is_catching_up_at(subscription, partition, after)
            }
        };
        if is_due {
            let prefix = self.session(index).prefix(encoded, body.len());
            let place = self.enter_bytes(&[prefix.as_bytes(), body], origin);
            self.push_place(index, place);
        }
    }

    /// An answer settles nothing, so making room for it does not change it.
    #[inline]
    fn queue_answer(&mut self, index: ConnIndex, encoded: &Encoded, body: &[u8]) {
        let prefix = self.session(index).prefix(encoded, body.len());
        let place = self.enter_bytes(&[prefix.as_bytes(), body], Origin::Private);
        self.push_place(index, place);
    }

    /// Counts an error that a client was sent. A client that makes too many faults is closed.
    fn count_notice_error(&mut self, index: ConnIndex, code: ErrorCode) {
        let facts = self.connections.slots[index].facts();
        if facts.is_websocket {
            self.count_error(index, code);
        } else if !facts.answers_requests {
            // Others are counted with the answer to their request.
            self.statistics.errors.count(code);
        }
    }

    /// A plain subscription holds.
    pub(crate) fn notify_subscribed(&mut self, subscription: SubIndex, grant: &Grant) {
        let index = self.subscriptions[subscription].connection;
        let client = self.subscriptions[subscription].client;
        let (home, topic) = self.subscription_topic(subscription);
        let alias = self.alias(home, topic);
        let (position, is_replaying) = (grant.position, grant.replaying);
        self.notify_of(index, subscription, &Notice::Subscribed { client, alias, grant });
        if let Some(gap) = grant.gap {
            let subscribes = self.connections.slots[index].facts().subscribes;
            self.statistics.gaps += u64::from(subscribes);
            let (epoch, found) = (position.epoch, Found::AtStart(position));
            let notice = Notice::Gap { client, epoch, partition: None, gap, found };
            self.notify_of(index, subscription, &notice);
        }
        let notice = Notice::Started { client, position, is_replaying };
        self.notify_of(index, subscription, &notice);
        if let Some(record) = &grant.retained {
            self.deliver_retained(subscription, record);
            let lineage = self.links.epochs.lineage(grant.partition);
            let notice = Notice::RetainedSent { client, position, lineage, is_replaying };
            self.notify_of(index, subscription, &notice);
        }
        self.settled_for_renewal(index);
    }

    /// Subscriptions to filters hold; one, or all of an event stream. The newest comes first.
    pub(crate) fn notify_subscribed_filters(
        &mut self,
        index: ConnIndex,
        subscriptions: &[SubIndex],
        beginnings: &[Beginning],
    ) {
        if self.connections.slots[index].facts().is_mqtt {
            return self.mqtt_filters_subscribed(subscriptions, beginnings);
        }
        // As they were asked for.
        let clients: Vec<u32> = subscriptions
            .iter()
            .rev()
            .map(|&subscription| self.subscriptions[subscription].client)
            .collect();
        let settings = self.settings.clone();
        let absent = self.session(index).begin_filters(&clients, beginnings, &settings);
        let is_whole = beginnings.iter().all(|beginning| beginning.gap.is_none());
        for &client in &clients {
            let is_complete = is_whole && !absent.contains(&client);
            let notice = Notice::SubscribedFilter { client, beginnings, is_complete };
            self.notify(index, &notice);
        }
        let first = clients.first().copied().unwrap_or_default();
        for beginning in beginnings {
            if let Some(gap) = beginning.gap {
                self.notify_beginning(index, first, beginning, gap, false);
            }
        }
        // The client's cursor was made while these were refused: what they matched before the
        // stream's place is unknown.
        for client in absent {
            for beginning in beginnings.iter().filter(|beginning| beginning.through > 0) {
                let gap = Gap { from: 0, to: beginning.through, reason: GapReason::UnknownEpoch };
                self.statistics.gaps += 1;
                self.notify_beginning(index, client, beginning, gap, true);
            }
        }
        // This follows the notice of the gap before it. A replay sends it with its first event.
        let live = beginnings.iter().find(|beginning| !beginning.is_replaying);
        if let (Some(&newest), Some(beginning)) = (subscriptions.first(), live) {
            let (partition, through) = (beginning.partition, beginning.through);
            self.notify_of(index, newest, &Notice::FiltersStarted { partition, through });
        }
        self.settled_for_renewal(index);
    }

    fn notify_beginning(
        &mut self,
        index: ConnIndex,
        client: u32,
        beginning: &Beginning,
        gap: Gap,
        was_refused: bool,
    ) {
        let position = Position { epoch: beginning.epoch, offset: beginning.through };
        let found = if was_refused { Found::AfterRefusal } else { Found::AtStart(position) };
        let partition = Some(beginning.partition);
        let notice = Notice::Gap { client, epoch: beginning.epoch, partition, gap, found };
        self.notify(index, &notice);
    }

    /// A subscription is refused; it ends after this call.
    pub(crate) fn notify_refused(&mut self, subscription: SubIndex, refusal: Refusal) {
        let index = self.subscriptions[subscription].connection;
        let client = self.subscriptions[subscription].client;
        self.notify_of(index, subscription, &Notice::Refused { client, refusal });
    }

    /// A page has found a gap in a topic.
    pub(crate) fn notify_gap(&mut self, subscription: SubIndex, gap: Gap) {
        let index = self.subscriptions[subscription].connection;
        if self.connections.slots[index].facts().is_mqtt {
            let partition = self.subscriptions.partition_of(subscription).unwrap_or_default();
            return self.note_mqtt_gap_of(subscription, partition, gap);
        }
        let client = self.subscriptions[subscription].client;
        let epoch = self.subscription_epoch(subscription);
        let found = Found::InPage;
        let notice = Notice::Gap { client, epoch, partition: None, gap, found };
        self.notify_of(index, subscription, &notice);
    }

    /// A page has found a gap in a partition of a filter.
    pub(crate) fn notify_filter_gap(
        &mut self,
        subscription: SubIndex,
        partition: PartitionId,
        gap: Gap,
    ) {
        let index = self.subscriptions[subscription].connection;
        if self.connections.slots[index].facts().is_mqtt {
            return self.note_mqtt_gap_of(subscription, partition, gap);
        }
        let client = self.subscriptions[subscription].client;
        let epoch = self.links.epochs.of(partition, &self.settings);
        let (partition, found) = (Some(partition), Found::InPage);
        let notice = Notice::Gap { client, epoch, partition, gap, found };
        self.notify_of(index, subscription, &notice);
    }

    /// The policy of a subscription to a topic has left messages out.
    pub(crate) fn notify_left_out(&mut self, subscription: SubIndex, left_out: LeftOut) {
        let index = self.subscriptions[subscription].connection;
        let client = self.subscriptions[subscription].client;
        let epoch = self.subscription_epoch(subscription);
        let lineage = self.subscription_lineage(subscription);
        let notice = Notice::LeftOut { client, epoch, lineage, partition: None, left_out };
        self.notify_of(index, subscription, &notice);
    }

    /// The policy of a subscription to a filter has left messages of a partition out.
    pub(crate) fn notify_filter_left_out(
        &mut self,
        subscription: SubIndex,
        partition: PartitionId,
        left_out: LeftOut,
    ) {
        let index = self.subscriptions[subscription].connection;
        let client = self.subscriptions[subscription].client;
        let epoch = self.links.epochs.of(partition, &self.settings);
        let (partition, lineage) = (Some(partition), None);
        let notice = Notice::LeftOut { client, epoch, lineage, partition, left_out };
        self.notify_of(index, subscription, &notice);
    }

    /// A replay is over; live messages follow. `from` is what the client has settled by the frames
    /// before.
    pub(crate) fn notify_caught_up(&mut self, subscription: SubIndex, from: u64, through: u64) {
        let index = self.subscriptions[subscription].connection;
        self.mqtt_caught_up(index);
        let client = self.subscriptions[subscription].client;
        let position = Position { epoch: self.subscription_epoch(subscription), offset: through };
        let lineage = self.subscription_lineage(subscription);
        let notice = Notice::CaughtUp { client, from, position, lineage };
        self.notify_of(index, subscription, &notice);
    }

    /// A subscription to a filter is live again in a partition.
    pub(crate) fn notify_filter_caught_up(
        &mut self,
        subscription: SubIndex,
        partition: PartitionId,
        through: u64,
    ) {
        let index = self.subscriptions[subscription].connection;
        self.mqtt_caught_up(index);
        let client = self.subscriptions[subscription].client;
        let is_last = !self.subscriptions.is_stream_catching_up(index);
        let epoch = self.links.epochs.of(partition, &self.settings);
        let lineage = self.links.epochs.lineage(partition);
        let notice = Notice::FilterCaughtUp { client, epoch, lineage, partition, through, is_last };
        self.notify_of(index, subscription, &notice);
    }

    /// Notifies the client that a subscription did not keep up; its policy ends it after this call.
    pub(crate) fn notify_disconnected(&mut self, subscription: SubIndex) {
        let index = self.subscriptions[subscription].connection;
        let client = self.subscriptions[subscription].client;
        let code = UnsubscribeCode::SlowConsumer;
        self.notify_of(index, subscription, &Notice::Unsubscribed { client, code });
    }

    /// Encodes how far a subscription to filters is settled; nothing if that is not new. `is_owed`:
    /// the client has missed it before.
    pub(crate) fn encode_positions(
        &mut self,
        index: ConnIndex,
        client: u32,
        settled: &[(PartitionId, u64)],
        is_owed: bool,
    ) -> Vec<u8> {
        let mut bytes = Vec::new();
        let settings = self.settings.clone();
        let mut session = self.session(index);
        session.encode_positions(client, settled, is_owed, &settings, &mut bytes);
        bytes
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
        let index = ConnIndex(reply.connection.index);
        let request = reply.request;
        if self.connections.slots[index].facts().is_mqtt && request == Reply::SESSION_KEPT {
            return self.session_kept(index, result.map(drop).map_err(|refusal| refusal.code));
        }
        let result = result.map(|appended| Appended {
            is_unheard: appended.is_unheard && !self.mqtt.has_sleepers(),
            ..appended
        });
        if self.connections.slots[index].facts().answers_requests {
            self.http_published(index, request, result);
        } else {
            self.notify(index, &Notice::Published { request, result });
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
        let index = ConnIndex(reply.connection.index);
        if self.connections.slots[index].facts().answers_requests {
            self.http_history(index, result);
        } else {
            let request = reply.request;
            self.notify(index, &Notice::History { request, result: &result });
        }
    }

    /// The node drains: the client is to leave, and to return after so many milliseconds.
    pub(crate) fn send_away(&mut self, index: ConnIndex, return_after_ms: u64) {
        let slot = &self.connections.slots[index];
        let facts = slot.facts();
        if facts.is_mqtt {
            self.mqtt_go_away(index, return_after_ms);
        } else if facts.is_session {
            self.want_to_go_away(index, return_after_ms);
        } else if facts.is_websocket {
            self.close_native(index, CloseCode::Shutdown);
        } else if facts.answers_requests {
            // Between requests there is nothing to say; an answer that is due says `Connection:
            // close`.
            let is_between_requests = !slot.is(flag::PAUSED) && slot.state == NONE;
            if self.is_poll(index) {
                self.poll_timed_out(index);
            } else if is_between_requests {
                self.close_idle(index);
            }
        } else if facts.subscribes {
            self.statistics.sent_away += 1;
            let notice = Notice::GoAway { return_after_ms, urls: &[], ticket: None };
            self.notify(index, &notice);
        }
    }

    /// The client is to return later, with a ticket if there is one. It may take its answers first,
    /// and subscribes to nothing more.
    pub(crate) fn native_go_away(
        &mut self,
        index: ConnIndex,
        return_after_ms: u64,
        ticket: Option<&[u8]>,
    ) {
        let settings = self.settings.clone();
        let urls = &self.other_addresses(&settings, index);
        self.notify(index, &Notice::GoAway { return_after_ms, urls, ticket });
        self.statistics.sent_away += 1;
        if self.lets_finish() {
            self.connections.slots[index].set(flag::AWAY);
            self.unsubscribe_all(index);
        } else {
            self.close_native(index, CloseCode::GoingAway)
        }
    }
}

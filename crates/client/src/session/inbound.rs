//! From the server's bytes to events: WebSocket messages, native frames, and their effects on the
//! subscriptions.
//!
//! Place: the inbound half of the session. Pure.

use std::sync::Arc;

use wire::Step;
use wire::native::{
    CaughtUp, ErrorCode, ErrorFrame, FrameError, Gap, GoAway, HistoryPage as PageFrame,
    Message as MessageFrame, Position, Published as PublishedFrame, Reference, Retained,
    ServerFrame, Skipped, Subscribed, SubscribedTo, Unsubscribed, Welcome,
};
use wire::websocket::{Assembler, CloseCode, Event as WebSocketEvent, Kind, Opcode, Role};

use super::event::{
    Answer, Event, GapCause, HistoryGap, HistoryPage, Message, Published, Reason, ServerError,
    SubscriptionId,
};
use super::report::ReportedGap;
use super::{Limits, Phase, ReturnPlan, Session};
use crate::fault::{self, Fault};
use crate::proof::Verdict;

/// The first delay before a refused subscription is requested again; each refusal doubles it, up to
/// the maximum.
const RETRY_MS: u64 = 1_000;
const RETRY_MS_MAX: u64 = 60_000;
/// The lowest unsubscribe code after which the client subscribes again.
const RESUBSCRIBE_CODE: u32 = 2500;

impl Session {
    /// Consumes complete units from the front of `bytes` and returns their length.
    pub(super) fn consume(&mut self, bytes: &mut [u8], now_ms: u64) -> Result<usize, Reason> {
        let mut consumed = 0;
        if self.phase == Phase::Upgrading {
            match self.handshake.finish(bytes)? {
                None => return Ok(0),
                Some((head_bytes, deflate)) => {
                    consumed = head_bytes;
                    self.assembler = Assembler::with_deflate(deflate);
                    self.compression.agreed(deflate);
                }
            }
            self.greet(now_ms);
        }
        while consumed < bytes.len() && self.phase != Phase::Offline {
            let mut assembler = self.assembler;
            let mut assembly = std::mem::take(&mut self.assembly);
            let step = assembler
                .decode(
                    &mut bytes[consumed..],
                    Role::Client,
                    self.settings.message_bytes_max,
                    &mut assembly,
                )
                .map_err(|error| {
                    self.send_close(error.close_code(), "", now_ms);
                    Reason::Protocol(error.to_string())
                })?;
            let result = match step {
                Step::More { .. } => {
                    self.assembly = assembly;
                    break;
                }
                Step::Done { value, consumed: frame_bytes } => {
                    consumed += frame_bytes;
                    match value {
                        WebSocketEvent::Compressed(kind, payload) => {
                            self.compressed(kind, payload, now_ms)
                        }
                        value => self.websocket_event(value, now_ms),
                    }
                }
            };
            self.assembly = if assembler.is_open() { assembly } else { Vec::new() };
            self.assembler = assembler;
            result?;
        }
        Ok(consumed)
    }

    fn compressed(&mut self, kind: Kind, payload: &[u8], now_ms: u64) -> Result<(), Reason> {
        // The message is in the inflater's buffer, so the inflater must not be reachable from the
        // code below.
        let mut inflater = self.compression.take_inflater();
        let result = match inflater.message(kind, payload, self.settings.message_bytes_max) {
            Ok(event) => self.websocket_event(event, now_ms),
            Err(error) => {
                self.send_close(error.close_code(), "", now_ms);
                Err(Reason::Protocol(error.to_string()))
            }
        };
        self.compression.give_inflater(inflater);
        result
    }

    fn websocket_event(&mut self, event: WebSocketEvent<'_>, now_ms: u64) -> Result<(), Reason> {
        match event {
            WebSocketEvent::Fragment | WebSocketEvent::Pong(_) | WebSocketEvent::Compressed(..) => {
                Ok(())
            }
            WebSocketEvent::Ping(payload) => {
                if self.phase != Phase::Closing {
                    self.send_websocket(Opcode::Pong, payload);
                }
                Ok(())
            }
            WebSocketEvent::Close(close) => {
                self.send_close(close.code.unwrap_or(CloseCode::NORMAL), "", now_ms);
                let code = close.code.unwrap_or(CloseCode::NO_STATUS).0;
                Err(Reason::Closed { code, reason: close.reason.to_owned() })
            }
            WebSocketEvent::Text(_) => self.broken("a text message", now_ms),
            WebSocketEvent::Binary(payload) => match ServerFrame::decode(payload) {
                // Nearly all frames are this one: it is not moved once more.
                Ok(ServerFrame::Message(message)) if self.phase == Phase::Ready => {
                    self.message(&message);
                    Ok(())
                }
                Ok(frame) => self.frame(frame, now_ms),
                Err(
                    error @ (FrameError::UnknownFrame(_)
                    | FrameError::UnsupportedFlags(_)
                    | FrameError::UnsupportedVersion(_)
                    | FrameError::UnsupportedOption { .. }),
                ) => {
                    self.send_close(CloseCode::PROTOCOL_ERROR, "", now_ms);
                    Err(Reason::Unsupported(error.to_string()))
                }
                Err(error) => self.broken(&error.to_string(), now_ms),
            },
        }
    }

    fn frame(&mut self, frame: ServerFrame<'_>, now_ms: u64) -> Result<(), Reason> {
        match (self.phase, &frame) {
            (Phase::Closing, _) => return Ok(()),
            (Phase::Greeting, ServerFrame::Welcome(_) | ServerFrame::Error(_))
            | (Phase::Greeting, ServerFrame::GoAway(_)) => {}
            (Phase::Greeting, _) => return self.broken("a frame before WELCOME", now_ms),
            (_, ServerFrame::Welcome(_)) => return self.broken("a second WELCOME", now_ms),
            _ => {}
        }
        match frame {
            ServerFrame::Welcome(welcome) => self.welcome(&welcome, now_ms),
            ServerFrame::Subscribed(subscribed) => self.subscribed(&subscribed),
            ServerFrame::Unsubscribed(unsubscribed) => self.unsubscribed(&unsubscribed, now_ms),
            ServerFrame::Message(message) => self.message(&message),
            ServerFrame::NamedMessage(message) => self.named_message(&message),
            ServerFrame::CaughtUp(caught_up) => self.caught_up(&caught_up),
            ServerFrame::Gap(gap) => self.gap(&gap),
            ServerFrame::Skipped(skipped) => self.skipped(&skipped),
            ServerFrame::Published(published) => self.published(&published),
            ServerFrame::HistoryPage(page) => self.history_page(&page),
            ServerFrame::Error(error) => self.error(&error, now_ms),
            ServerFrame::GoAway(go_away) => self.go_away(&go_away),
            ServerFrame::Ping(token) => {
                let is_wrong = fault::is(Fault::AnswersAnyPing);
                let token = if is_wrong { 1 } else { token };
                self.send(&wire::native::ClientFrame::Pong(token));
            }
            ServerFrame::TicketIssued(issued) => self.ticket_issued(&issued, now_ms),
            ServerFrame::Renewed(renewed) => self.renewed(&renewed, now_ms),
            ServerFrame::TokenExpires(at_ms) => self.token_expires(at_ms, now_ms),
            ServerFrame::Pong(_) => {}
        }
        Ok(())
    }

    fn broken(&mut self, what: &str, now_ms: u64) -> Result<(), Reason> {
        self.send_close(CloseCode::PROTOCOL_ERROR, "", now_ms);
        Err(Reason::Protocol(what.to_owned()))
    }

    fn welcome(&mut self, welcome: &Welcome<'_>, now_ms: u64) {
        self.limits = Limits {
            ping_interval_ms: u64::from(welcome.ping_interval_s) * 1_000,
            message_bytes_max: welcome.message_bytes_max,
        };
        self.set_phase(Phase::Ready, now_ms);
        self.publish_again();
        self.counters.connections += 1;
        self.events.push_back(Event::Connected {
            connection: welcome.connection,
            node: welcome.node.map(str::to_owned),
        });
        self.welcomed_at(welcome.time_ms, now_ms);
        self.welcomed_with(welcome, now_ms);
    }

    fn subscribed(&mut self, frame: &Subscribed<'_>) {
        let id = frame.subscription;
        let by_ticket = self.tickets.brings(id);
        let Some(subscription) = self.subscriptions.get_mut(id) else {
            return self.give_back(id); // unsubscribed meanwhile, or during the absence
        };
        subscription.refusals = 0;
        subscription.retry_at_ms = None;
        let plain = match frame.to {
            SubscribedTo::Topic(plain) => plain,
            SubscribedTo::Filter(partitions) => return self.filter_subscribed(id, partitions),
        };
        let subscription_id = SubscriptionId(id);
        let filter = subscription.filter.clone();
        subscription.was_granted = true;
        subscription.is_granted = true;
        let beginning = plain.beginning;
        let mut through = beginning.through;
        if by_ticket
            && beginning.continued
            && let Some(cursor) = subscription.proof.cursor()
        {
            // The ticket's cursor may be ahead of this one, if the topic has no messages in
            // between: the next frames prove it.
            through.offset = through.offset.min(cursor.offset);
        }
        subscription.proof.subscribed(through, beginning.continued);
        // A gap that is due comes first; the caught-up event follows it.
        let is_gap_due = subscription.proof.is_gap_due();
        subscription.caught_up_due = !beginning.replaying && is_gap_due;
        self.subscriptions.set_alias(id, plain.alias);
        self.events.push_back(Event::Subscribed {
            subscription: subscription_id,
            filter,
            position: Some(beginning.through),
            replaying: beginning.replaying,
        });
        if !beginning.replaying && !is_gap_due {
            self.caught_up(&CaughtUp {
                subscription: id,
                partition: None,
                through: beginning.through.offset,
                lineage: None,
            });
        }
    }

    fn message(&mut self, frame: &MessageFrame<'_>) {
        let Some((id, subscription, verdict)) = self.subscriptions.judge(frame) else {
            self.counters.unexpected += 1;
            return;
        };
        let hole = match verdict {
            Verdict::Duplicate => return self.counters.duplicates += 1,
            Verdict::OutOfOrder => return self.counters.out_of_order += 1,
            Verdict::Next => None,
            Verdict::Hole { from, to } => Some((from, to)),
        };
        let topic = subscription.shared_topic();
        let position = subscription.position();
        let is_caught_up = std::mem::take(&mut subscription.caught_up_due);
        subscription.report.messages += 1;
        if let Some((from, to)) = hole {
            self.report_unannounced(id, from, Position { offset: to, ..position });
        }
        if is_caught_up {
            self.tell_caught_up(id, topic.clone(), position);
        }
        self.counters.messages += 1;
        self.events.push_back(Event::Message(Message {
            subscription: Some(SubscriptionId(id)),
            prev: frame.prev,
            retained: frame.retained == Retained::Yes,
            ..Message::new(topic, position, &frame.attributes, frame.payload)
        }));
    }

    fn caught_up(&mut self, frame: &CaughtUp) {
        if let Some(partition) = frame.partition {
            return self.filter_caught_up(frame, partition);
        }
        let id = frame.subscription;
        let Some(subscription) = self.subscriptions.get_mut(id) else {
            return;
        };
        let hole = subscription.proof.caught_up(frame.through);
        subscription.proof.advance(frame.lineage);
        let filter = subscription.filter.clone();
        let position = subscription.position();
        if let Some((from, to)) = hole {
            let to = Position { offset: to, ..position };
            self.report_unannounced(id, from, to);
        }
        self.tell_caught_up(id, filter, position);
    }

    pub(super) fn tell_caught_up_if_due(&mut self, id: u32) {
        let Some(subscription) = self.subscriptions.get_mut(id) else {
            return;
        };
        if std::mem::take(&mut subscription.caught_up_due) {
            let (filter, position) = (subscription.filter.clone(), subscription.position());
            self.tell_caught_up(id, filter, position);
        }
    }

    fn tell_caught_up(&mut self, id: u32, filter: Arc<str>, position: Position) {
        let complete = self.subscriptions.get(id).is_some_and(|subscription| subscription.complete);
        self.events.push_back(Event::CaughtUp {
            subscription: SubscriptionId(id),
            filter,
            partition: None,
            position,
            complete,
        });
    }

    fn gap(&mut self, frame: &Gap) {
        if let Some(partition) = frame.partition {
            return self.filter_gap(frame, partition);
        }
        let Some(subscription) = self.subscriptions.get_mut(frame.subscription) else {
            return;
        };
        let to = Position { epoch: frame.epoch, offset: frame.to };
        let gap = ReportedGap {
            partition: None,
            from: subscription.proof.gap(to),
            to: Some(to),
            cause: GapCause::Announced(frame.reason),
        };
        self.report_gap(frame.subscription, gap);
        self.tell_caught_up_if_due(frame.subscription);
    }

    fn skipped(&mut self, frame: &Skipped) {
        let Some(subscription) = self.subscriptions.get_mut(frame.subscription) else {
            return;
        };
        let filter = subscription.filter.clone();
        if frame.partition.is_none()
            && let Some((from, to)) = subscription.proof.skipped(frame.from, frame.through)
        {
            let to = Position { offset: to, ..from };
            self.report_unannounced(frame.subscription, from, to);
        }
        if let Some(subscription) = self.subscriptions.get_mut(frame.subscription) {
            subscription.proof.advance(frame.lineage);
        }
        self.filter_skipped(frame);
        if let Some(subscription) = self.subscriptions.get_mut(frame.subscription) {
            subscription.report.skips += 1;
        }
        self.counters.skipped += 1;
        self.events.push_back(Event::Skipped {
            subscription: SubscriptionId(frame.subscription),
            filter,
            partition: frame.partition.map(|of| of.partition),
            from: frame.from,
            through: frame.through,
            reason: frame.reason,
        });
    }

    /// Reports a hole of a topic that the proof found.
    fn report_unannounced(&mut self, id: u32, from: Position, to: Position) {
        let gap = ReportedGap {
            partition: None,
            from: Some(from),
            to: Some(to),
            cause: GapCause::Unannounced,
        };
        self.report_gap(id, gap);
    }

    pub(super) fn report_gap(&mut self, id: u32, gap: ReportedGap) {
        let Some(subscription) = self.subscriptions.get_mut(id) else {
            return;
        };
        subscription.complete = false;
        subscription.report.note_gap(gap);
        self.counters.gaps += 1;
        if fault::is(Fault::SwallowsGaps) {
            return;
        }
        self.events.push_back(Event::Gap {
            subscription: SubscriptionId(id),
            filter: subscription.filter.clone(),
            partition: gap.partition,
            from: gap.from,
            to: gap.to,
            cause: gap.cause,
        });
    }

    fn published(&mut self, frame: &PublishedFrame) {
        let answer = Published { position: frame.position, duplicate: frame.duplicate };
        self.answer(frame.request, Answer::Published(answer));
    }

    fn history_page(&mut self, frame: &PageFrame<'_>) {
        let Some(topic) = self.handshake.take_history(frame.request) else {
            return;
        };
        let messages = frame
            .records
            .iter()
            .map(|record| {
                let position = Position { epoch: frame.epoch, offset: record.offset };
                Message {
                    prev: record.prev,
                    retained: record.retained == Retained::Yes,
                    time_ms: Some(record.time_ms),
                    ..Message::new(topic.clone(), position, &record.attributes, record.payload)
                }
            })
            .collect();
        let page = HistoryPage {
            epoch: frame.epoch,
            head: frame.head,
            more: frame.more,
            gap: frame.gap.map(|gap| HistoryGap { from: gap.from, to: gap.to, reason: gap.reason }),
            messages,
        };
        self.answer(frame.request, Answer::History(page));
    }

    fn error(&mut self, frame: &ErrorFrame<'_>, now_ms: u64) {
        let error = ServerError {
            code: frame.code,
            temporary: frame.temporary,
            message: frame.message.to_owned(),
            restart: frame.restart,
            limit: frame.limit,
        };
        match frame.reference {
            Reference::Connection if self.is_ticket_refusal(&error) => {}
            Reference::Connection => self.events.push_back(Event::Error(error)),
            // A publish without an acknowledgement: there is no waiter, but the error must be
            // reported.
            Reference::Request(0) => self.events.push_back(Event::Error(error)),
            Reference::Request(request)
                if error.temporary && self.publications.put_off(request, now_ms) => {}
            Reference::Request(request) if self.ticket_not_issued(request, &error, now_ms) => {}
            Reference::Request(request) if self.tokens.is_renewal(request) => {
                self.renewal_refused(error);
            }
            Reference::Request(request) => {
                let is_fenced = error.code == u32::from(ErrorCode::ProducerFenced.number());
                if is_fenced && !fault::is(Fault::IgnoresFence) {
                    self.publications.fence(request);
                }
                self.handshake.take_history(request);
                self.answer(request, Answer::Refused(error));
            }
            Reference::Subscription(id) => self.refused(id, error, now_ms),
        }
    }

    fn unsubscribed(&mut self, frame: &Unsubscribed, now_ms: u64) {
        let temporary = frame.code >= RESUBSCRIBE_CODE || fault::is(Fault::RepeatsFinal);
        let error = ServerError {
            code: frame.code,
            temporary,
            message: "the server ended the subscription".to_owned(),
            restart: None,
            limit: None,
        };
        self.refused(frame.subscription, error, now_ms);
    }

    /// Handles a refusal: the subscription is requested again later, or abandoned.
    fn refused(&mut self, id: u32, error: ServerError, now_ms: u64) {
        let Some(subscription) = self.subscriptions.get_mut(id) else {
            return;
        };
        // The ticket contained it, although it was requested as new.
        let already = u32::from(ErrorCode::AlreadySubscribed.number());
        if error.code == already && self.tickets.was_presented() {
            // Its grant is in flight, or the subscription in its place is being unsubscribed.
            if !subscription.is_granted {
                subscription.retry_at_ms = Some(now_ms + RETRY_MS);
            }
            return;
        }
        subscription.is_granted = false;
        let is_of_start = match error.code {
            code if code == u32::from(ErrorCode::UnsupportedStart.number()) => true,
            // The position's partition does not exist any more.
            code if code == u32::from(ErrorCode::PositionUnavailable.number()) => {
                !subscription.fail_on_gap
            }
            _ => false,
        };
        if is_of_start && !subscription.cursors.is_empty() {
            return self.subscribe_filter_blind(id);
        }
        if error.temporary {
            let delay_ms = (RETRY_MS << subscription.refusals.min(6)).min(RETRY_MS_MAX);
            subscription.refusals += 1;
            subscription.retry_at_ms = Some(now_ms + delay_ms);
            subscription.proof.connection_lost();
            if let Some(alias) = subscription.alias {
                self.subscriptions.drop_alias(alias);
            }
            return;
        }
        if let Some(gone) = self.subscriptions.remove(id) {
            self.events.push_back(Event::Unsubscribed {
                subscription: SubscriptionId(id),
                filter: gone.filter,
                error: Some(error),
            });
        }
    }

    fn go_away(&mut self, frame: &GoAway<'_>) {
        let plan = ReturnPlan {
            after_ms: frame.return_after_ms,
            urls: frame.urls.iter().map(str::to_owned).collect(),
        };
        self.events.push_back(Event::GoAway {
            code: frame.code,
            return_after_ms: plan.after_ms,
            urls: plan.urls.clone(),
        });
        self.return_plan = Some((frame.code, plan));
        self.keep_return_ticket(frame);
    }
}

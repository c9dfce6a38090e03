//! From bytes to frames, and from a frame to its effects: on subscriptions (`subscribed`) or
//! answers (`answers`).

use super::{MESSAGE_BYTES_MAX, NativeClient, Plain, Waiting, speech};
use crate::client::Context;
use crate::oracle::Hole;
use wire::codec::Step;
use wire::http::HeadLimits;
use wire::http::response::Response;
use wire::native::{CaughtUp, ClientFrame, Gap, NamedMessage, Position, ServerFrame};
use wire::websocket::Role;
use wire::websocket::message::{Assembler, Event};

impl NativeClient {
    /// Decodes the input. False if the connection is over.
    pub(super) fn understand(&mut self, context: &mut Context<'_>) -> bool {
        let mut input = std::mem::take(&mut self.peer.input);
        let mut consumed = 0;
        let mut goes_on = true;
        if !self.is_open {
            match Response::decode(&input, &mut self.scan, &HeadLimits::default(), "GET") {
                Ok(Step::Done { value, consumed: head }) => {
                    if value.status == 503 && context.plan.drains() {
                        return false;
                    }
                    if let Err(refusal) = self.handshake().check_response(&value) {
                        context.oracle.fail(self.peer.id, format!("handshake refused: {refusal}"));
                        return false;
                    }
                    let is_agreed = self.handshake().check_deflate(&value) == Ok(true);
                    if !self.packing.agreed(is_agreed, context.plan) {
                        context
                            .oracle
                            .fail(self.peer.id, "compression differs from the offer".into());
                    }
                    self.assembler = Assembler::with_deflate(is_agreed);
                    self.is_open = true;
                    consumed = head;
                }
                Ok(Step::More { .. }) => {}
                Err(error) => {
                    context.oracle.fail(self.peer.id, format!("answer to the handshake: {error}"));
                    return false;
                }
            }
        }
        let mut assembly = std::mem::take(&mut self.assembly);
        while self.is_open && goes_on && consumed < input.len() {
            let step = self.assembler.decode(
                &mut input[consumed..],
                Role::Client,
                MESSAGE_BYTES_MAX,
                &mut assembly,
            );
            match step {
                Ok(Step::More { .. }) => break,
                Ok(Step::Done { value, consumed: taken }) => {
                    consumed += taken;
                    goes_on = self.on_any_event(context, value);
                }
                Err(error) => {
                    context.oracle.fail(self.peer.id, format!("not WebSocket: {error}"));
                    goes_on = false;
                }
            }
        }
        self.assembly = assembly;
        input.drain(..consumed);
        self.peer.input = input;
        goes_on
    }

    fn on_any_event(&mut self, context: &mut Context<'_>, event: Event<'_>) -> bool {
        let Event::Compressed(kind, payload) = event else {
            return self.on_event(context, event);
        };
        let mut inflater = self.packing.take_inflater();
        let goes_on = match inflater.message(kind, payload, MESSAGE_BYTES_MAX) {
            Ok(event) => self.on_event(context, event),
            Err(error) => {
                context.oracle.fail(self.peer.id, format!("not a compressed message: {error}"));
                false
            }
        };
        self.packing.give_inflater(inflater);
        goes_on
    }

    pub(super) fn on_event(&mut self, context: &mut Context<'_>, event: Event<'_>) -> bool {
        match event {
            Event::Text(text) if self.speech.is_json => self.on_text(context, text),
            Event::Binary(bytes) if !self.speech.is_json => match ServerFrame::decode(bytes) {
                Ok(frame) => {
                    context.oracle.note(self.peer.id, || format!("<- {}", short(&frame)));
                    self.on_frame(context, frame);
                    true
                }
                Err(error) => {
                    context.oracle.fail(self.peer.id, format!("not a frame: {error}"));
                    false
                }
            },
            Event::Close(close) => {
                let code = close.code.map_or(1005, |code| code.0);
                context.oracle.note(self.peer.id, || format!("<- close {code}"));
                if !client::session::close_code_reconnects(u32::from(code)) {
                    context
                        .oracle
                        .fail(self.peer.id, format!("closed with {code}: {}", close.reason));
                }
                false
            }
            Event::Text(_) | Event::Binary(_) => {
                context.oracle.fail(self.peer.id, "a message in the other form".into());
                false
            }
            _ => true,
        }
    }

    fn on_text(&mut self, context: &mut Context<'_>, text: &str) -> bool {
        let binary = match speech::binary_of(text) {
            Ok(binary) => binary,
            Err(error) => {
                context.oracle.fail(self.peer.id, error);
                return false;
            }
        };
        let Ok(frame) = ServerFrame::decode(&binary) else {
            context.oracle.fail(self.peer.id, format!("not a frame: {text}"));
            return false;
        };
        context.oracle.note(self.peer.id, || format!("<- {} in JSON", short(&frame)));
        let epoch = match self.partition_of(context, &frame) {
            Some(partition) => context.oracle.epoch(partition, self.peer.instance),
            None => 0,
        };
        if !speech::is_exact(text, &frame, epoch) {
            context.oracle.fail(self.peer.id, format!("the text differs from its frame: {text}"));
        }
        self.on_frame(context, frame);
        true
    }

    /// The partition of a frame whose positions have no epoch in the binary form.
    fn partition_of(&self, context: &Context<'_>, frame: &ServerFrame<'_>) -> Option<u32> {
        let (number, partition) = match frame {
            ServerFrame::Message(message) => (*self.aliases.get(&message.alias)?, None),
            ServerFrame::CaughtUp(frame) => (frame.subscription, frame.partition),
            ServerFrame::Skipped(frame) => (frame.subscription, None),
            _ => return None,
        };
        let of_topic = |plain: &Plain| context.plan.partition(plain.run.topic);
        partition.or_else(|| self.plain.get(&number).map(of_topic))
    }

    pub(super) fn on_frame(&mut self, context: &mut Context<'_>, frame: ServerFrame<'_>) {
        let id = self.peer.id;
        if !self.is_welcome && !matches!(frame, ServerFrame::Welcome(_)) {
            return context.oracle.fail(id, format!("before WELCOME: {}", short(&frame)));
        }
        match frame {
            ServerFrame::Welcome(welcome) => {
                self.is_welcome = true;
                self.welcome_ms = context.now_ms;
                context.oracle.events.welcomed(id, welcome.connection);
                self.on_resumed(context, welcome.resumed);
                self.repeat(context);
            }
            ServerFrame::Subscribed(subscribed) => self.on_subscribed(context, subscribed),
            ServerFrame::Unsubscribed(frame) => {
                if frame.code != 0 && !self.on_ended(context, &frame) {
                    return;
                }
                if let Some(plain) = self.plain.remove(&frame.subscription) {
                    self.aliases.retain(|_, number| *number != frame.subscription);
                    context.oracle.keep_run(plain.run);
                } else if let Some(wide) = self.wide.remove(&frame.subscription) {
                    wide.finish(context.oracle);
                } else {
                    context.oracle.fail(id, format!("UNSUBSCRIBED for {}", frame.subscription));
                }
            }
            ServerFrame::Message(message) => self.on_message(context, &message),
            ServerFrame::NamedMessage(message) => self.on_named_message(context, &message),
            ServerFrame::CaughtUp(frame) => self.on_caught_up(context, &frame),
            ServerFrame::Gap(gap) => self.on_gap(context, &gap),
            ServerFrame::Skipped(skipped) => self.on_skipped(context, &skipped),
            ServerFrame::Published(published) => self.on_published(context, &published),
            ServerFrame::HistoryPage(page) => self.on_history(context, &page),
            ServerFrame::Error(error) => self.on_error(context, &error),
            ServerFrame::Ping(token) => self.frame(&ClientFrame::Pong(token)),
            ServerFrame::GoAway(_) if !context.plan.drains() => {
                context.oracle.fail(id, "GO_AWAY without a drain".into());
            }
            ServerFrame::GoAway(frame) => {
                if let Some(bytes) = frame.ticket {
                    self.keep_ticket(bytes);
                }
                self.is_away = true;
            }
            ServerFrame::Pong(_) => {}
            ServerFrame::Renewed(_) | ServerFrame::TokenExpires(_) => {
                let text = "anonymous, but received a token event".to_owned();
                context.oracle.fail(self.peer.id, text);
            }
            ServerFrame::TicketIssued(ticket) => match self.requests.remove(&ticket.request) {
                Some(Waiting::Ticket) => self.keep_ticket(ticket.ticket),
                _ => {
                    context.oracle.fail(id, format!("TICKET_ISSUED for request {}", ticket.request))
                }
            },
        }
    }

    /// Processes NAMED_MESSAGE.
    fn on_named_message(&mut self, context: &mut Context<'_>, message: &NamedMessage<'_>) {
        let id = self.peer.id;
        let Some(topic) = context.plan.topic(message.topic) else {
            return context.oracle.fail(id, format!("unknown topic {}", message.topic));
        };
        let Position { epoch, offset } = message.position;
        let source = self.peer.source();
        let partition = context.plan.partition(topic);
        if epoch != context.oracle.epoch(partition, source.instance) {
            let text = format!("NAMED_MESSAGE of {} names epoch {epoch}", message.topic);
            return context.oracle.fail(id, text);
        }
        let prev = Some(message.prev);
        if context.oracle.delivered(context.plan, source, topic, offset, prev, message.payload) {
            self.on_named(context, topic, message);
        }
    }

    /// Processes CAUGHT_UP.
    fn on_caught_up(&mut self, context: &mut Context<'_>, frame: &CaughtUp) {
        let id = self.peer.id;
        let number = frame.subscription;
        let result = match (self.plain.get_mut(&number), self.wide.get_mut(&number)) {
            (Some(plain), _) => plain.on_caught_up(frame.through),
            (_, Some(wide)) => {
                wide.on_caught_up(frame.partition.unwrap_or(u32::MAX), frame.through)
            }
            _ => Ok(()),
        };
        if let Err(text) = result {
            context.oracle.fail(id, format!("subscription {}: {text}", frame.subscription));
        }
    }

    /// Processes GAP.
    fn on_gap(&mut self, context: &mut Context<'_>, gap: &Gap) {
        let id = self.peer.id;
        let hole = Hole {
            from: gap.from,
            to: gap.to,
            reason: gap.reason.number(),
            told_at: context.oracle.moment,
        };
        let number = gap.subscription;
        let (plain, wide) = (self.plain.get_mut(&number), self.wide.get_mut(&number));
        let partition = match &plain {
            Some(plain) => context.plan.partition(plain.run.topic),
            None => gap.partition.unwrap_or(u32::MAX),
        };
        let epoch = context.oracle.epoch(partition, self.peer.instance);
        let result = match (plain, wide) {
            _ if gap.epoch != epoch => Err(format!("GAP names epoch {}", gap.epoch)),
            (Some(plain), _) => plain.on_gap(hole),
            (_, Some(wide)) => wide.on_gap(partition, hole),
            _ => Ok(()),
        };
        if let Err(text) = result {
            context.oracle.fail(id, format!("subscription {number}: {text}"));
        }
    }
}

/// Formats a frame without its payload.
fn short(frame: &ServerFrame<'_>) -> String {
    match frame {
        ServerFrame::Message(message) => format!(
            "MESSAGE alias {} offset {} prev {} {:?}, {} bytes",
            message.alias,
            message.offset,
            message.prev,
            message.retained,
            message.payload.len()
        ),
        ServerFrame::NamedMessage(message) => format!(
            "NAMED_MESSAGE {} offset {} prev {}",
            message.topic, message.position.offset, message.prev
        ),
        ServerFrame::HistoryPage(page) => {
            let offsets: Vec<u64> = page.records.iter().map(|record| record.offset).collect();
            format!(
                "HISTORY_PAGE {} gap {:?} more {} {offsets:?}",
                page.request, page.gap, page.more
            )
        }
        other => format!("{other:?}"),
    }
}

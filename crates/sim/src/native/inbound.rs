//! What a native client makes of the node's frames.

use super::{MESSAGE_BYTES_MAX, NativeClient, Stage, Todo, Waiting};
use crate::client::Context;
use crate::oracle::{Acknowledged, Hole, Oracle, Refusal, matches};
use wire::codec::Step;
use wire::http::HeadLimits;
use wire::http::response::Response;
use wire::native::{
    ClientFrame, Credit, ErrorCode, ErrorFrame, HistoryPage, Message, NamedMessage, Position,
    Published, Reference, Retained, ServerFrame, Start, Subscribed, SubscribedTo,
};
use wire::websocket::Role;
use wire::websocket::message::Event;

impl NativeClient {
    /// Takes what has come apart. False when the connection is over.
    pub(super) fn understand(&mut self, context: &mut Context<'_>) -> bool {
        let mut input = std::mem::take(&mut self.peer.input);
        let mut consumed = 0;
        let mut goes_on = true;
        if !self.is_open {
            match Response::decode(&input, &mut self.scan, &HeadLimits::default(), "GET") {
                Ok(Step::Done {
                    value,
                    consumed: head,
                }) => {
                    if value.status == 503 && context.plan.drains() {
                        return false;
                    }
                    if let Err(refusal) = self.handshake().check_response(&value) {
                        context
                            .oracle
                            .fail(self.peer.id, format!("handshake refused: {refusal}"));
                        return false;
                    }
                    self.is_open = true;
                    consumed = head;
                }
                Ok(Step::More { .. }) => {}
                Err(error) => {
                    context
                        .oracle
                        .fail(self.peer.id, format!("answer to the handshake: {error}"));
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
                Ok(Step::Done {
                    value,
                    consumed: taken,
                }) => {
                    consumed += taken;
                    goes_on = self.on_event(context, value);
                }
                Err(error) => {
                    context
                        .oracle
                        .fail(self.peer.id, format!("not WebSocket: {error}"));
                    goes_on = false;
                }
            }
        }
        self.assembly = assembly;
        input.drain(..consumed);
        self.peer.input = input;
        goes_on
    }

    pub(super) fn on_event(&mut self, context: &mut Context<'_>, event: Event<'_>) -> bool {
        match event {
            Event::Binary(bytes) => match ServerFrame::decode(bytes) {
                Ok(frame) => {
                    context
                        .oracle
                        .note(self.peer.id, || format!("<- {}", short(&frame)));
                    self.on_frame(context, frame);
                    true
                }
                Err(error) => {
                    context
                        .oracle
                        .fail(self.peer.id, format!("not a frame: {error}"));
                    false
                }
            },
            Event::Close(close) => {
                let code = close.code.map_or(1005, |code| code.0);
                context
                    .oracle
                    .note(self.peer.id, || format!("<- close {code}"));
                if !client::session::close_code_reconnects(u32::from(code)) {
                    context.oracle.fail(
                        self.peer.id,
                        format!("closed with {code}: {}", close.reason),
                    );
                }
                false
            }
            _ => true,
        }
    }

    pub(super) fn on_frame(&mut self, context: &mut Context<'_>, frame: ServerFrame<'_>) {
        let id = self.peer.id;
        if !self.is_welcome && !matches!(frame, ServerFrame::Welcome(_)) {
            return context
                .oracle
                .fail(id, format!("before WELCOME: {}", short(&frame)));
        }
        match frame {
            ServerFrame::Welcome(welcome) => {
                self.is_welcome = true;
                self.welcome_ms = context.now_ms;
                self.on_resumed(context, welcome.resumed);
                self.repeat(context);
            }
            ServerFrame::Subscribed(subscribed) => self.on_subscribed(context, subscribed),
            ServerFrame::Unsubscribed(frame) => {
                if frame.code != 0 && !self.on_ended(context, &frame) {
                    return;
                }
                if let Some(plain) = self.plain.remove(&frame.subscription) {
                    self.aliases
                        .retain(|_, number| *number != frame.subscription);
                    context.oracle.keep_run(plain.run);
                } else if let Some(wide) = self.wide.remove(&frame.subscription) {
                    wide.finish(context.oracle);
                } else {
                    context
                        .oracle
                        .fail(id, format!("UNSUBSCRIBED for {}", frame.subscription));
                }
            }
            ServerFrame::Message(message) => self.on_message(context, &message),
            ServerFrame::NamedMessage(message) => {
                let Some(topic) = context.plan.topic(message.topic) else {
                    return context
                        .oracle
                        .fail(id, format!("unknown topic {}", message.topic));
                };
                let Position { epoch, offset } = message.position;
                let source = self.peer.source();
                let partition = context.plan.partition(topic);
                if epoch != context.oracle.epoch(partition, source.instance) {
                    let text = format!("NAMED_MESSAGE of {} names epoch {epoch}", message.topic);
                    return context.oracle.fail(id, text);
                }
                let prev = Some(message.prev);
                if context.oracle.delivered(
                    context.plan,
                    source,
                    topic,
                    offset,
                    prev,
                    message.payload,
                ) {
                    self.on_named(context, topic, &message);
                }
            }
            ServerFrame::CaughtUp(frame) => {
                let number = frame.subscription;
                let result = match (self.plain.get_mut(&number), self.wide.get_mut(&number)) {
                    (Some(plain), _) => plain.on_caught_up(frame.through),
                    (_, Some(wide)) => {
                        wide.on_caught_up(frame.partition.unwrap_or(u32::MAX), frame.through)
                    }
                    _ => Ok(()),
                };
                if let Err(text) = result {
                    context
                        .oracle
                        .fail(id, format!("subscription {}: {text}", frame.subscription));
                }
            }
            ServerFrame::Gap(gap) => {
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
                    context
                        .oracle
                        .fail(id, format!("subscription {number}: {text}"));
                }
            }
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
            }
            ServerFrame::Pong(_) => {}
            ServerFrame::TicketIssued(ticket) => match self.requests.remove(&ticket.request) {
                Some(Waiting::Ticket) => self.keep_ticket(ticket.ticket),
                _ => context
                    .oracle
                    .fail(id, format!("TICKET_ISSUED for request {}", ticket.request)),
            },
        }
    }

    fn on_message(&mut self, context: &mut Context<'_>, message: &Message<'_>) {
        let id = self.peer.id;
        let Some(number) = self.aliases.get(&message.alias) else {
            return context.oracle.fail(
                id,
                format!("message for alias {}, which is nobody's", message.alias),
            );
        };
        let Some(plain) = self.plain.get_mut(number) else {
            return;
        };
        let topic = plain.run.topic;
        let (offset, prev) = (message.offset, message.prev);
        if !context.oracle.delivered(
            context.plan,
            self.peer.source(),
            topic,
            offset,
            Some(prev),
            message.payload,
        ) {
            return;
        }
        if !plain.has_cursor
            && message.retained == Retained::Yes
            && !plain.has_begun
            && plain.start == Start::Snapshot
        {
            plain.is_snapshot = true;
        }
        if let Err(text) = plain.on_message(offset, prev) {
            let topic = &context.plan.topics[topic];
            context
                .oracle
                .fail(id, format!("subscription {number} to {topic}: {text}"));
        }
        if let Some(credit) = plain.credit
            && plain.stage == Stage::Replaying
        {
            let (number, messages) = (
                *number,
                self.peer.random.between(0, u64::from(credit) * 2) as u32,
            );
            self.frame(&ClientFrame::Credit(Credit {
                subscription: number,
                messages: messages.max(1),
            }));
        }
    }

    fn on_published(&mut self, context: &mut Context<'_>, published: &Published) {
        let id = self.peer.id;
        let Some(Waiting::Publication(publication)) = self.requests.remove(&published.request)
        else {
            return context
                .oracle
                .fail(id, format!("PUBLISHED for request {}", published.request));
        };
        let Position { epoch, offset } = published.position;
        let told = Acknowledged {
            epoch,
            offset,
            is_duplicate: published.duplicate,
        };
        context
            .oracle
            .acknowledged(context.plan, self.peer.source(), publication, told);
        let topic = context.oracle.publications[publication].topic;
        let partition = context.plan.partition(topic);
        let newest = self.acknowledged.entry(partition).or_default();
        // What is on disk already is answered at once, before what still waits for it.
        let is_new = !published.duplicate;
        if is_new && (newest.0 > published.request || newest.1 >= offset) {
            let (request, before) = *newest;
            context.oracle.fail(
                id,
                format!(
                    "request {} stands at {offset}, after request {request} at {before}",
                    published.request
                ),
            );
        }
        if !published.duplicate {
            *newest = (published.request, offset);
        }
        if self.has_visited {
            context.oracle.visited += 1;
        } else if self.is_auditor {
            context.oracle.markers.insert(topic, (epoch, offset));
            self.todo.push_back(Todo::Audit(topic, None));
        }
    }

    pub(super) fn on_subscribed(&mut self, context: &mut Context<'_>, subscribed: Subscribed<'_>) {
        let number = subscribed.subscription;
        if let Some(wide) = self.wide.get_mut(&number) {
            let SubscribedTo::Filter(beginnings) = subscribed.to else {
                let text = format!("SUBSCRIBED for {number} is not to a filter");
                return context.oracle.fail(self.peer.id, text);
            };
            let partitions_count = context.plan.settings.partitions_count();
            let result = wide.on_subscribed(
                context.oracle,
                partitions_count,
                self.peer.instance,
                beginnings,
            );
            if let Err(text) = result {
                context
                    .oracle
                    .fail(self.peer.id, format!("filter {number}: {text}"));
            }
            return;
        }
        let Some(plain) = self.plain.get_mut(&number) else {
            return context
                .oracle
                .fail(self.peer.id, format!("SUBSCRIBED for {number}"));
        };
        let Some(topic) = subscribed.topic() else {
            return context.oracle.fail(
                self.peer.id,
                format!("SUBSCRIBED for {number} without a topic"),
            );
        };
        let partition = context.plan.partition(plain.run.topic);
        let instance = self.peer.instance;
        let beginning = topic.beginning;
        if beginning.through.epoch != context.oracle.epoch(partition, instance) {
            let text = format!("SUBSCRIBED names epoch {}", beginning.through.epoch);
            return context.oracle.fail(self.peer.id, text);
        }
        self.aliases.retain(|_, other| *other != number);
        self.aliases.insert(topic.alias, number);
        let result = plain.on_subscribed(context.oracle, (partition, instance), beginning);
        if let Err(text) = result {
            context
                .oracle
                .fail(self.peer.id, format!("subscription {number}: {text}"));
        }
    }

    /// A message by filter is for the subscription that it names, or for all that cover its topic.
    fn on_named(&mut self, context: &mut Context<'_>, topic: usize, message: &NamedMessage<'_>) {
        let name = &context.plan.topics[topic];
        let partition = context.plan.partition(topic);
        let offset = message.position.offset;
        if message.partition != partition {
            let text = format!("{name} is not of partition {}", message.partition);
            return context.oracle.fail(self.peer.id, text);
        }
        let mut was_wanted = false;
        let mut credits = Vec::new();
        for (number, wide) in &mut self.wide {
            let is_for = match message.subscription {
                Some(only) => only == *number,
                None => wide.is_told,
            };
            if !is_for || !matches(&context.plan.filters[wide.filter], name) {
                continue;
            }
            was_wanted = true;
            if let Some(credit) = wide.credit
                && wide.is_replaying(partition)
            {
                credits.push((*number, credit));
            }
            let is_addressed = message.subscription.is_some();
            if let Err(text) = wide.on_named(topic, partition, offset, is_addressed) {
                let text = format!("filter {number}, {name}: {text}");
                context.oracle.fail(self.peer.id, text);
            }
        }
        if !was_wanted {
            context
                .oracle
                .fail(self.peer.id, format!("no filter matches {name}"));
        }
        for (subscription, credit) in credits {
            let messages = self.peer.random.between(0, u64::from(credit) * 2) as u32;
            self.frame(&ClientFrame::Credit(Credit {
                subscription,
                messages: messages.max(1),
            }));
        }
    }

    pub(super) fn on_history(&mut self, context: &mut Context<'_>, page: &HistoryPage<'_>) {
        let Some(Waiting::History {
            topic,
            reverse,
            position,
            audit,
            asked_at,
        }) = self.requests.remove(&page.request)
        else {
            return context
                .oracle
                .fail(self.peer.id, format!("HISTORY_PAGE for {}", page.request));
        };
        let id = self.peer.id;
        let fail = |oracle: &mut Oracle, text: String| {
            let name = &context.plan.topics[topic];
            oracle.fail(id, format!("history of {name}: {text}"));
        };
        let source = self.peer.source();
        let partition = context.plan.partition(topic);
        let epoch = context.oracle.epoch(partition, source.instance);
        if page.epoch != epoch || page.reverse != reverse {
            fail(
                context.oracle,
                format!("epoch {}, reverse {}", page.epoch, page.reverse),
            );
        }
        // Forward: everything up to here is settled. Reverse: the next one must be at least this.
        let mut settled = position.unwrap_or(0);
        let mut is_bound = position.is_some();
        if let Some(gap) = page.gap {
            settled = if reverse { settled } else { gap.to };
        }
        let mut last = None;
        for record in page.records {
            let (offset, prev) = (record.offset, record.prev);
            if !context.oracle.delivered(
                context.plan,
                source,
                topic,
                offset,
                Some(prev),
                record.payload,
            ) {
                return;
            }
            if reverse {
                if is_bound && offset >= settled {
                    fail(context.oracle, format!("{offset} is not before {settled}"));
                } else if last.is_some() && is_bound && offset < settled_prev(last) {
                    fail(
                        context.oracle,
                        format!("{offset} is not the one before {last:?}"),
                    );
                }
                settled = offset;
            } else {
                if is_bound && prev > settled {
                    fail(
                        context.oracle,
                        format!("{offset} has prev {prev}, but the one before is {settled}"),
                    );
                }
                if is_bound && offset <= settled {
                    fail(context.oracle, format!("{offset} is not after {settled}"));
                }
                settled = offset;
            }
            is_bound = true;
            last = Some((offset, prev));
        }
        if audit {
            let seen: Vec<u64> = page.records.iter().map(|record| record.offset).collect();
            let present = context.oracle.present.entry(topic).or_default();
            present.extend(seen.into_iter().map(|offset| (offset, asked_at)));
            if page.more {
                let position = last.map(|(offset, _)| offset).or(position);
                self.todo.push_back(Todo::Audit(topic, position));
            }
        } else if page.more && page.records.is_empty() {
            fail(context.oracle, "no records, and more".into());
        }
    }

    pub(super) fn on_error(&mut self, context: &mut Context<'_>, error: &ErrorFrame<'_>) {
        let id = self.peer.id;
        let codes = |codes: &[ErrorCode]| {
            codes
                .iter()
                .any(|code| u32::from(code.number()) == error.code)
        };
        let is_bound = codes(&[
            ErrorCode::MemoryFull,
            ErrorCode::LogFull,
            ErrorCode::RetainedFull,
            ErrorCode::MessageTooLarge,
            ErrorCode::TopicsFull,
        ]);
        let refuses = context.plan.disk.refuses();
        let is_unavailable = codes(&[ErrorCode::LogUnavailable, ErrorCode::LogFull]);
        // Retention may have dropped what was not answered, and damage taken it and left what followed it.
        let is_gone = context.oracle.is_flipped || !context.plan.lossless;
        let is_repeat_late = codes(&[ErrorCode::OutOfOrder]) && is_gone;
        match error.reference {
            Reference::Request(request) => match self.requests.remove(&request) {
                Some(Waiting::Publication(publication))
                    if is_unavailable && (refuses || !context.plan.lossless) =>
                {
                    self.on_unavailable(context, publication);
                }
                Some(Waiting::Publication(publication))
                    if is_repeat_late
                        && context.oracle.publications[publication].attempts() > 1 =>
                {
                    let source = self.peer.source();
                    context
                        .oracle
                        .refused(context.plan, source, publication, Refusal::UntilCrash);
                }
                Some(Waiting::History { .. })
                    if is_unavailable && context.plan.disk.refuses_reads() => {}
                Some(Waiting::Publication(publication)) if is_bound && !context.plan.lossless => {
                    let source = self.peer.source();
                    context
                        .oracle
                        .refused(context.plan, source, publication, Refusal::Final);
                }
                None if request == 0 && (is_unavailable || !context.plan.lossless) => {}
                _ => context
                    .oracle
                    .fail(id, format!("request {request}: {}", error.message)),
            },
            Reference::Subscription(number) => {
                if self.wide.contains_key(&number) {
                    let may_end = is_unavailable && context.plan.disk.refuses_reads();
                    return match may_end {
                        true => self.on_filter_ended(context, number),
                        false => context
                            .oracle
                            .fail(id, format!("filter {number}: {}", error.message)),
                    };
                }
                let Some(plain) = self.plain.get_mut(&number) else {
                    // CREDIT for what has ended in the meantime.
                    return;
                };
                match error.restart {
                    Some(restart)
                        if codes(&[ErrorCode::PositionUnavailable]) && plain.fail_on_gap =>
                    {
                        let partition = context.plan.partition(plain.run.topic);
                        let place = (partition, self.peer.instance);
                        plain.refused_from(context.oracle, place, restart);
                        // It says `fail_on_gap` still.
                        self.ticket = None;
                        self.ask_plain(context, number);
                    }
                    _ if is_unavailable && context.plan.disk.refuses_reads() => {
                        // It may come back with its position.
                        plain.stage = Stage::Absent;
                        plain.gap_due = None;
                        self.peer.leave(context, false);
                        self.lost(context);
                    }
                    _ if is_bound && !context.plan.lossless => {
                        if let Some(plain) = self.plain.remove(&number) {
                            context.oracle.keep_run(plain.run);
                        }
                    }
                    _ => context
                        .oracle
                        .fail(id, format!("subscription {number}: {}", error.message)),
                }
            }
            Reference::Connection => context
                .oracle
                .fail(id, format!("connection: {}", error.message)),
        }
    }
}

impl NativeClient {
    /// The log could not be read for a filter: it is asked for again from its cursors, here or on another connection.
    fn on_filter_ended(&mut self, context: &mut Context<'_>, number: u32) {
        let Some(wide) = self.wide.get_mut(&number) else {
            return;
        };
        wide.is_told = false;
        if wide.stage == Stage::Ending {
            wide.finish(context.oracle);
            self.wide.remove(&number);
        } else if self.peer.random.chance(0.7) {
            self.ask_wide(context, number);
        } else {
            self.peer.leave(context, false);
            self.lost(context);
        }
    }
}

fn settled_prev(last: Option<(u64, u64)>) -> u64 {
    last.map_or(0, |(_, prev)| prev)
}

/// A frame without its payload.
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

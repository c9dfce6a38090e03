//! Frames to JSON. A member that has its default (false, an empty list, an absent option) is left
//! out; numbers always stand.

use super::{NUMBER_MAX, members};
use crate::http::head::append_decimal;
use crate::http::problem::append_json_string;
use crate::native::{
    Attributes, Beginning, ClientFrame, ErrorFrame, Gap, GapReason, Hello, History, HistoryPage,
    HistoryRecord, List, Message, NamedMessage, Once, PartitionPosition, Position, Publish,
    Reference, Retained, ServerFrame, Skipped, Start, SubscribeItem, Subscribed, SubscribedTo,
    VERSION, Welcome,
};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;

/// Writes the members of one object.
struct Object<'o> {
    out: &'o mut Vec<u8>,
    is_empty: bool,
}

impl Object<'_> {
    fn write(out: &mut Vec<u8>, members: impl FnOnce(&mut Object<'_>)) {
        out.push(b'{');
        members(&mut Object { out, is_empty: true });
        out.push(b'}');
    }

    /// An object with its type first.
    fn frame(out: &mut Vec<u8>, kind: &str, members: impl FnOnce(&mut Object<'_>)) {
        Object::write(out, |object| {
            object.text("type", kind);
            members(object);
        });
    }

    fn name(&mut self, name: &str) -> &mut Vec<u8> {
        if !self.is_empty {
            self.out.push(b',');
        }
        self.is_empty = false;
        self.out.push(b'"');
        self.out.extend_from_slice(name.as_bytes());
        self.out.extend_from_slice(b"\":");
        self.out
    }

    fn text(&mut self, name: &str, text: &str) {
        append_json_string(self.name(name), text);
    }

    fn some_text(&mut self, name: &str, text: Option<&str>) {
        if let Some(text) = text {
            self.text(name, text);
        }
    }

    fn number(&mut self, name: &str, number: impl Into<u64>) {
        append_number(self.name(name), number.into());
    }

    fn some_number(&mut self, name: &str, number: Option<impl Into<u64>>) {
        if let Some(number) = number {
            self.number(name, number);
        }
    }

    /// A number that is always text, because its values are often large.
    fn decimal(&mut self, name: &str, number: u64) {
        append_text_number(self.name(name), number);
    }

    fn flag(&mut self, name: &str, is_set: bool) {
        if is_set {
            self.name(name).extend_from_slice(b"true");
        }
    }

    fn position(&mut self, name: &str, epoch: u64, offset: u64) {
        let out = self.name(name);
        out.push(b'"');
        append_decimal(out, epoch);
        out.push(b':');
        append_decimal(out, offset);
        out.push(b'"');
    }

    fn some_position(&mut self, name: &str, position: Option<Position>) {
        if let Some(position) = position {
            self.position(name, position.epoch, position.offset);
        }
    }

    /// Bytes as text under the first name if they are UTF-8, else as base64 under the second.
    fn bytes(&mut self, names: (&str, &str), bytes: &[u8]) {
        match simdutf8::basic::from_utf8(bytes) {
            Ok(text) => self.text(names.0, text),
            Err(_) => self.base64(names.1, bytes),
        }
    }

    fn base64(&mut self, name: &str, bytes: &[u8]) {
        let out = self.name(name);
        out.push(b'"');
        out.extend_from_slice(BASE64.encode(bytes).as_bytes());
        out.push(b'"');
    }

    fn list<T>(
        &mut self,
        name: &str,
        elements: impl Iterator<Item = T>,
        mut write: impl FnMut(T, &mut Vec<u8>),
    ) {
        let out = self.name(name);
        out.push(b'[');
        for (count, element) in elements.enumerate() {
            if count > 0 {
                out.push(b',');
            }
            write(element, out);
        }
        out.push(b']');
    }

    fn objects<T>(
        &mut self,
        name: &str,
        elements: impl Iterator<Item = T>,
        mut write: impl FnMut(T, &mut Object<'_>),
    ) {
        self.list(name, elements, |element, out| {
            Object::write(out, |object| write(element, object));
        });
    }

    fn body(&mut self, retained: Retained, attributes: &Attributes<'_>, payload: &[u8]) {
        self.flag("retained", retained == Retained::Yes);
        self.attributes(attributes);
        self.payload(payload);
    }

    fn attributes(&mut self, attributes: &Attributes<'_>) {
        self.some_text("content_type", attributes.content_type);
        if attributes.tags.is_empty() {
            return;
        }
        self.list("tags", attributes.tags.iter(), |tag, out| {
            out.push(b'[');
            append_json_string(out, tag.key);
            out.push(b',');
            append_json_string(out, tag.value);
            out.push(b']');
        });
    }

    fn payload(&mut self, payload: &[u8]) {
        self.bytes(("payload", "payload_base64"), payload);
    }

    /// A range of lost messages of one epoch, and why.
    fn lost(&mut self, epoch: u64, (from, to): (u64, u64), reason: GapReason) {
        self.position("from", epoch, from);
        self.position("to", epoch, to);
        self.text("reason", &members::gap_reason_name(reason));
    }

    fn beginning(&mut self, beginning: &Beginning) {
        let Position { epoch, offset } = beginning.through;
        self.position("through", epoch, offset);
        self.flag("replaying", beginning.replaying);
        self.flag("continued", beginning.continued);
    }
}

fn append_number(out: &mut Vec<u8>, number: u64) {
    if number > NUMBER_MAX {
        append_text_number(out, number);
    } else {
        append_decimal(out, number);
    }
}

fn append_text_number(out: &mut Vec<u8>, number: u64) {
    out.push(b'"');
    append_decimal(out, number);
    out.push(b'"');
}

impl ClientFrame<'_> {
    /// Appends the frame as JSON.
    pub fn encode_json(&self, out: &mut Vec<u8>) {
        match self {
            Self::Hello(hello) => Object::frame(out, "hello", |object| write_hello(hello, object)),
            Self::Subscribe(subscribe) => Object::frame(out, "subscribe", |object| {
                object.objects("items", subscribe.items.iter(), |item, object| {
                    write_item(&item, object);
                });
            }),
            Self::Unsubscribe(unsubscribe) => Object::frame(out, "unsubscribe", |object| {
                let subscriptions = unsubscribe.subscriptions.iter();
                object.list("subscriptions", subscriptions, |subscription, out| {
                    append_number(out, subscription.into());
                });
            }),
            Self::Publish(publish) => {
                Object::frame(out, "publish", |object| write_publish(publish, object));
            }
            Self::History(history) => {
                Object::frame(out, "history", |object| write_history(history, object));
            }
            Self::Credit(credit) => Object::frame(out, "credit", |object| {
                object.number("subscription", credit.subscription);
                object.number("messages", credit.messages);
            }),
            Self::Ping(token) => Object::frame(out, "ping", |object| {
                object.number("token", *token);
            }),
            Self::Pong(token) => Object::frame(out, "pong", |object| {
                object.number("token", *token);
            }),
            Self::Ticket(request) => Object::frame(out, "ticket", |object| {
                object.number("request", *request);
            }),
            Self::Renew(renew) => Object::frame(out, "renew", |object| {
                object.number("request", renew.request);
                object.text("token", renew.token);
            }),
        }
    }
}

fn write_hello(hello: &Hello<'_>, object: &mut Object<'_>) {
    object.number("version", VERSION);
    object.number("ping_interval_s", hello.ping_interval_s);
    object.some_text("token", hello.token);
    object.some_text("name", hello.name);
    if let Some(ticket) = hello.ticket {
        object.base64("ticket", ticket);
    }
    if !hello.cursors.is_empty() {
        object.objects("cursors", hello.cursors.iter(), |cursor, object| {
            object.number("subscription", cursor.subscription);
            object.some_number("partition", cursor.partition);
            object.some_position("position", Some(cursor.position));
        });
    }
}

fn write_item(item: &SubscribeItem<'_>, object: &mut Object<'_>) {
    object.number("subscription", item.subscription);
    let Ok(request) = item.request else {
        // A refused item came from the wire; its text is refused for a reason of the same kind.
        object.text("filter", "?");
        return object.text("!", "");
    };
    object.text("filter", request.filter);
    Object::write(object.name("start"), |object| write_start(request.start, object));
    object.flag("fail_on_gap", request.fail_on_gap);
    object.some_number("replay_credit", request.replay_credit);
    object.some_text("policy", request.policy.map(members::policy_name));
}

fn write_start(start: Start<'_>, object: &mut Object<'_>) {
    match start {
        Start::Live => object.text("kind", "live"),
        Start::Since(position) => {
            object.text("kind", "since");
            object.some_position("position", Some(position));
        }
        Start::Last(count) => {
            object.text("kind", "last");
            object.number("count", count);
        }
        Start::Snapshot => object.text("kind", "snapshot"),
        Start::SinceEach(positions) => {
            object.text("kind", "since_each");
            write_positions(positions, object);
        }
    }
}

fn write_positions(positions: List<'_, PartitionPosition>, object: &mut Object<'_>) {
    object.objects("positions", positions.iter(), |at, object| {
        object.number("partition", at.partition);
        object.some_position("position", Some(at.position));
    });
}

fn write_publish(publish: &Publish<'_>, object: &mut Object<'_>) {
    object.number("request", publish.request);
    object.text("topic", publish.topic);
    object.flag("retain", publish.options.retain);
    match publish.options.once {
        Some(Once::Producer(producer)) => Object::write(object.name("producer"), |object| {
            object.bytes(("id", "id_base64"), producer.id);
            object.number("sequence", producer.sequence);
        }),
        Some(Once::Key(key)) => {
            object.bytes(("idempotency_key", "idempotency_key_base64"), key);
        }
        None => {}
    }
    if let Some(epoch) = publish.options.expected_epoch {
        object.decimal("expected_epoch", epoch);
    }
    object.attributes(&publish.attributes);
    object.payload(publish.payload);
}

fn write_history(history: &History<'_>, object: &mut Object<'_>) {
    object.number("request", history.request);
    object.text("topic", history.topic);
    object.flag("reverse", history.reverse);
    object.some_position("position", history.position);
    object.number("records_max", history.records_max);
    object.number("bytes_max", history.bytes_max);
}

impl ServerFrame<'_> {
    /// Appends the frame as JSON. `epoch` completes the positions of which the frame has only the
    /// offset: those of a subscription to a topic, and of CAUGHT_UP.
    pub fn encode_json(&self, epoch: u64, out: &mut Vec<u8>) {
        match self {
            Self::Welcome(welcome) => {
                Object::frame(out, "welcome", |object| write_welcome(welcome, object));
            }
            Self::Subscribed(subscribed) => {
                Object::frame(out, "subscribed", |object| write_subscribed(subscribed, object));
            }
            Self::Unsubscribed(of) => Object::frame(out, "unsubscribed", |object| {
                object.number("subscription", of.subscription);
                object.number("code", of.code);
            }),
            Self::Message(message) => {
                Object::frame(out, "message", |object| write_message(message, epoch, object));
            }
            Self::NamedMessage(message) => {
                Object::frame(out, "named_message", |object| write_named(message, object));
            }
            Self::CaughtUp(of) => Object::frame(out, "caught_up", |object| {
                object.number("subscription", of.subscription);
                object.some_number("partition", of.partition);
                object.position("through", epoch, of.through);
                object.some_number("lineage", of.lineage.map(u32::from));
            }),
            Self::Gap(gap) => Object::frame(out, "gap", |object| write_gap(gap, object)),
            Self::Skipped(skipped) => {
                Object::frame(out, "skipped", |object| write_skipped(skipped, epoch, object));
            }
            Self::Published(of) => Object::frame(out, "published", |object| {
                object.number("request", of.request);
                object.position("position", of.position.epoch, of.position.offset);
                object.flag("duplicate", of.duplicate);
            }),
            Self::HistoryPage(page) => {
                Object::frame(out, "history_page", |object| write_page(page, object));
            }
            Self::Error(error) => Object::frame(out, "error", |object| write_error(error, object)),
            _ => self.encode_json_of_session(out),
        }
    }

    /// The frames that concern the session as a whole.
    fn encode_json_of_session(&self, out: &mut Vec<u8>) {
        match self {
            Self::GoAway(of) => Object::frame(out, "go_away", |object| {
                object.number("code", of.code);
                object.number("return_after_ms", of.return_after_ms);
                if !of.urls.is_empty() {
                    object.list("urls", of.urls.iter(), |url, out| append_json_string(out, url));
                }
                if let Some(ticket) = of.ticket {
                    object.base64("ticket", ticket);
                }
            }),
            Self::Ping(token) => Object::frame(out, "ping", |object| {
                object.number("token", *token);
            }),
            Self::Pong(token) => Object::frame(out, "pong", |object| {
                object.number("token", *token);
            }),
            Self::TicketIssued(of) => Object::frame(out, "ticket_issued", |object| {
                object.number("request", of.request);
                object.number("expires_ms", of.expires_ms);
                object.base64("ticket", of.ticket);
            }),
            Self::Renewed(of) => Object::frame(out, "renewed", |object| {
                object.number("request", of.request);
                object.number("expires_ms", of.expires_ms);
            }),
            Self::TokenExpires(expires_ms) => Object::frame(out, "token_expires", |object| {
                object.number("expires_ms", *expires_ms);
            }),
            _ => {}
        }
    }
}

fn write_welcome(welcome: &Welcome<'_>, object: &mut Object<'_>) {
    object.number("version", VERSION);
    object.decimal("connection", welcome.connection);
    object.number("ping_interval_s", welcome.ping_interval_s);
    object.number("time_ms", welcome.time_ms);
    object.number("frame_bytes_max", welcome.frame_bytes_max);
    object.number("message_bytes_max", welcome.message_bytes_max);
    let subscriptions_max = welcome.subscriptions_per_session_max;
    object.number("subscriptions_per_session_max", subscriptions_max);
    object.some_text("node", welcome.node);
    object.some_number("resumed", welcome.resumed);
    object.some_number("ticket_lifetime_s", welcome.ticket_lifetime_s);
}

fn write_subscribed(subscribed: &Subscribed<'_>, object: &mut Object<'_>) {
    object.number("subscription", subscribed.subscription);
    match subscribed.to {
        SubscribedTo::Topic(topic) => {
            object.number("alias", topic.alias);
            object.beginning(&topic.beginning);
        }
        SubscribedTo::Filter(partitions) => {
            object.objects("partitions", partitions.iter(), |at, object| {
                object.number("partition", at.partition);
                object.beginning(&at.beginning);
            });
        }
    }
}

fn write_message(message: &Message<'_>, epoch: u64, object: &mut Object<'_>) {
    object.number("alias", message.alias);
    object.position("position", epoch, message.offset);
    object.number("prev", message.prev);
    object.some_number("lineage", message.lineage.map(u32::from));
    object.body(message.retained, &message.attributes, message.payload);
}

fn write_named(message: &NamedMessage<'_>, object: &mut Object<'_>) {
    object.text("topic", message.topic);
    object.number("partition", message.partition);
    object.position("position", message.position.epoch, message.position.offset);
    object.number("prev", message.prev);
    object.some_number("subscription", message.subscription);
    object.some_number("lineage", message.lineage.map(u32::from));
    object.body(message.retained, &message.attributes, message.payload);
}

fn write_gap(gap: &Gap, object: &mut Object<'_>) {
    object.number("subscription", gap.subscription);
    object.some_number("partition", gap.partition);
    object.lost(gap.epoch, (gap.from, gap.to), gap.reason);
}

fn write_skipped(skipped: &Skipped, epoch: u64, object: &mut Object<'_>) {
    object.number("subscription", skipped.subscription);
    object.some_number("partition", skipped.partition.map(|of| of.partition));
    let epoch = skipped.partition.map_or(epoch, |of| of.epoch);
    object.position("from", epoch, skipped.from);
    object.position("through", epoch, skipped.through);
    object.text("reason", &members::skip_reason_name(skipped.reason));
    object.some_number("lineage", skipped.lineage.map(u32::from));
}

fn write_page(page: &HistoryPage<'_>, object: &mut Object<'_>) {
    object.number("request", page.request);
    object.position("head", page.epoch, page.head);
    object.flag("more", page.more);
    object.flag("reverse", page.reverse);
    if let Some(gap) = page.gap {
        Object::write(object.name("gap"), |object| {
            object.lost(page.epoch, (gap.from, gap.to), gap.reason);
        });
    }
    object.objects("records", page.records.iter(), |record, object| {
        write_record(&record, page.epoch, object);
    });
}

fn write_record(record: &HistoryRecord<'_>, epoch: u64, object: &mut Object<'_>) {
    object.position("position", epoch, record.offset);
    object.number("prev", record.prev);
    object.number("time_ms", record.time_ms);
    object.body(record.retained, &record.attributes, record.payload);
}

fn write_error(error: &ErrorFrame<'_>, object: &mut Object<'_>) {
    match error.reference {
        Reference::Connection => {}
        Reference::Request(request) => object.number("request", request),
        Reference::Subscription(subscription) => object.number("subscription", subscription),
    }
    object.number("code", error.code);
    object.flag("temporary", error.temporary);
    object.text("message", error.message);
    object.some_position("restart", error.restart);
    object.some_number("limit", error.limit);
}

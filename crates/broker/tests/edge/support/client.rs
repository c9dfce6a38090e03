//! Clients of scripts: received bytes as text, by the codecs of `wire`. A native client runs the
//! proof of no loss.

use super::mqtt::Peer;
use broker::topic::Filter;
use std::collections::{BTreeMap, VecDeque};
use wire::codec::Step;
use wire::http::event_stream::{EventStreamDecoder, Item};
use wire::http::response::Response;
use wire::http::{BodyDecoder, BodyFraming, BodyPart, HeadLimits, HeadScan};
use wire::native::{
    Attributes, CloseCode as NativeClose, ErrorCode, ErrorFrame, Gap, HistoryPage, List, Message,
    NamedMessage, Reference, Retained, ServerFrame, Skipped, Subscribed, SubscribedTo, Welcome,
    json,
};
use wire::websocket::deflate::Inflater;
use wire::websocket::frame::Role;
use wire::websocket::message::{Assembler, Event};

#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub enum Protocol {
    #[default]
    Http,
    Events,
    Native,
    Echo,
    /// Native frames as JSON, shown as they are.
    Texts,
    /// Lines of text.
    Line,
    Mqtt,
    MqttWebSocket,
}

/// One client; outlives its connection, to be looked at.
#[derive(Default)]
pub struct Client {
    /// The protocol after an answer of 101.
    pub upgrades_to: Protocol,
    protocol: Protocol,
    /// Native frames are JSON; they are shown like the binary ones.
    pub speaks_json: bool,
    /// Compression was agreed.
    takes_packed: bool,
    bytes: Vec<u8>,
    /// Methods of requests that wait for their answers.
    methods: VecDeque<String>,
    events: Option<EventStreamDecoder>,
    last_event_id: String,
    aliases: BTreeMap<u32, Alias>,
    filters: BTreeMap<u32, FilterSubscription>,
    /// The newest resume ticket; a client that connects again has it still.
    pub ticket: Vec<u8>,
    seen: Vec<String>,
    /// Messages in order, since the last line.
    run: Option<Run>,
    pub mqtt: Peer,
    /// Packets of MQTT go in messages of a WebSocket.
    pub is_mqtt_in_websocket: bool,
}

/// A plain subscription, by its alias.
struct Alias {
    subscription: u32,
    through: u64,
}

/// A subscription to a filter, and how far it has come in each partition.
#[derive(Default)]
struct FilterSubscription {
    text: String,
    cursors: BTreeMap<u32, u64>,
}

struct Run {
    lines: Vec<String>,
    subscription: u32,
    first: u64,
    last: u64,
}

/// The number of lines from which messages in order are printed as one line.
const RUN_LINES_MAX: usize = 6;

impl Client {
    /// The connection speaks MQTT from the first byte.
    pub fn begin_mqtt(&mut self) {
        self.protocol = Protocol::Mqtt;
    }

    /// A request was sent.
    pub fn asked(&mut self, method: &str) {
        self.methods.push_back(method.into());
    }

    pub fn closed(&mut self, how: &str) {
        self.end_run();
        if !self.bytes.is_empty() {
            let left = self.bytes.len();
            self.say(format!("{left} bytes of something unfinished"));
        }
        self.bytes.clear();
        self.say(how.into());
    }

    /// The lines since the last call.
    pub fn seen(&mut self) -> Vec<String> {
        self.end_run();
        std::mem::take(&mut self.seen)
    }

    pub fn received(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
        let mut input = std::mem::take(&mut self.bytes);
        let mut at = 0;
        while at < input.len() {
            let used = match self.protocol {
                Protocol::Http => self.http(&input[at..]),
                Protocol::Events => self.event(&input[at..]),
                Protocol::Line => self.line(&input[at..]),
                Protocol::Mqtt => self.mqtt(&input[at..]),
                Protocol::Native | Protocol::Echo | Protocol::Texts | Protocol::MqttWebSocket => {
                    self.websocket(&mut input[at..])
                }
            };
            if used == 0 {
                break;
            }
            at += used;
        }
        input.drain(..at);
        self.bytes = input;
    }

    fn say(&mut self, text: String) {
        self.end_run();
        self.seen.push(text);
    }

    fn end_run(&mut self) {
        let lines = self.mqtt.end_run();
        self.seen.extend(lines);
        let Some(run) = self.run.take() else {
            return;
        };
        if run.lines.len() <= RUN_LINES_MAX {
            self.seen.extend(run.lines);
        } else {
            let count = run.lines.len();
            let Run { subscription, first, last, .. } = run;
            let text = format!("message {subscription} {first}..{last}: {count} in order");
            self.seen.push(text);
        }
    }

    /// One response; returns the bytes used, 0 if it is not complete.
    fn http(&mut self, input: &[u8]) -> usize {
        let method = self.methods.front().cloned().unwrap_or("GET".into());
        let limits = HeadLimits::default();
        let step = Response::decode(input, &mut HeadScan::new(), &limits, &method);
        let Step::Done { value: response, consumed } = step.expect("a response that can be read")
        else {
            return 0;
        };
        let status = response.status;
        let mut text = status.to_string();
        self.takes_packed = response.header("sec-websocket-extensions").is_some();
        for (name, value) in response.fields.iter() {
            let value = String::from_utf8_lossy(value);
            match &*name.to_ascii_lowercase() {
                "content-type" if USUAL_TYPES.contains(&&*value) => {}
                "content-length"
                | "cache-control"
                | "x-content-type-options"
                | "x-accel-buffering"
                | "upgrade"
                | "sec-websocket-accept"
                | "sec-websocket-version"
                | "vary" => {}
                "connection" if value.eq_ignore_ascii_case("upgrade") => {}
                "connection" => text += &format!(" {}", value.to_ascii_lowercase()),
                "sec-websocket-protocol" if self.speaks_json => {
                    let binary = value.strip_suffix(".json").unwrap_or(&value);
                    text += &format!(" {binary}");
                }
                "sec-websocket-protocol" => text += &format!(" {value}"),
                name => text += &format!(" [{name}: {value}]"),
            }
        }
        let is_stream = response.header("content-type") == Some(b"text/event-stream");
        if status != 100 {
            self.methods.pop_front();
        }
        if status == 101 {
            self.protocol = match response.header("upgrade") {
                Some(b"line") => Protocol::Line,
                _ => self.upgrades_to,
            };
        }
        if is_stream {
            self.protocol = Protocol::Events;
            self.events = Some(EventStreamDecoder::new(1 << 24));
            self.say(text + " stream");
            return consumed;
        }
        let Some((body, length)) = body_of(&response, &input[consumed..]) else {
            if status == 101 {
                self.protocol = Protocol::Http;
            }
            if status != 100 {
                self.methods.push_front(method);
            }
            return 0;
        };
        if !body.is_empty() {
            text += " ";
            text += &match (response.header("content-type"), str::from_utf8(&body)) {
                (Some(b"application/problem+json"), Ok(body)) => problem(body),
                (_, Ok(body)) => shortened(body),
                (_, Err(_)) => format!("{body:02x?}"),
            };
        }
        self.say(text);
        consumed + length
    }

    fn mqtt(&mut self, input: &[u8]) -> usize {
        let (lines, used) = self.mqtt.received(input);
        self.seen.extend(lines);
        used
    }

    fn line(&mut self, input: &[u8]) -> usize {
        let Some(end) = input.iter().position(|&byte| byte == b'\n') else {
            return 0;
        };
        self.say(String::from_utf8_lossy(&input[..end]).into());
        end + 1
    }

    fn event(&mut self, input: &[u8]) -> usize {
        let mut events = self.events.take().unwrap();
        let step = events.decode(input).unwrap();
        let (item, used) = step.done().unwrap();
        match item {
            Item::Progress => {}
            Item::Retry(after_ms) => self.say(format!("retry {after_ms}")),
            Item::Comment => self.say("comment".into()),
            Item::Event(event) => {
                let mut text = match event.event {
                    "message" => "event".to_string(),
                    name => format!("event {name}"),
                };
                if event.last_event_id != self.last_event_id {
                    text += &format!(" id {}", event.last_event_id);
                    self.last_event_id = event.last_event_id.into();
                }
                text += &format!(" {}", shortened(event.data));
                self.say(text.trim_end().into());
            }
        }
        if events.last_event_id() != self.last_event_id {
            self.last_event_id = events.last_event_id().into();
            let id = self.last_event_id.clone();
            self.say(format!("id {id}"));
        }
        self.events = Some(events);
        used
    }

    fn websocket(&mut self, input: &mut [u8]) -> usize {
        let mut buffer = Vec::new();
        let mut assembler = Assembler::with_deflate(self.takes_packed);
        let step = assembler.decode(input, Role::Client, 64 << 20, &mut buffer);
        let Step::Done { value, consumed } = step.expect("a WebSocket frame that can be read")
        else {
            return 0;
        };
        let mut inflater = Inflater::new();
        let event = match value {
            Event::Compressed(kind, payload) => {
                self.say("packed".into());
                let event = inflater.message(kind, payload, 64 << 20);
                event.expect("a compressed message that can be read")
            }
            event => event,
        };
        match event {
            Event::Binary(bytes) if self.protocol == Protocol::Native => {
                let frame = ServerFrame::decode(bytes).expect("a native frame that can be read");
                self.native(&frame);
            }
            Event::Text(text) if self.speaks_json && self.protocol == Protocol::Native => {
                let mut bytes = Vec::new();
                json::server::decode(text, &mut bytes).expect("a frame in JSON");
                let frame = ServerFrame::decode(&bytes).expect("a native frame that can be read");
                self.native(&frame);
            }
            Event::Binary(bytes) if self.protocol == Protocol::MqttWebSocket => {
                let mut packets = std::mem::take(&mut self.mqtt.partial);
                packets.extend_from_slice(bytes);
                let mut at = 0;
                while at < packets.len() {
                    match self.mqtt(&packets[at..]) {
                        0 => break,
                        used => at += used,
                    }
                }
                self.mqtt.partial = packets.split_off(at);
            }
            Event::Binary(bytes) => self.say(format!("binary {}", payload(bytes))),
            Event::Text(text) if self.protocol == Protocol::Texts => {
                // The vectors have its members.
                let is_welcome = text.starts_with("{\"type\":\"welcome\",");
                self.say(if is_welcome { "welcome".into() } else { text.into() });
            }
            Event::Text(text) => self.say(format!("text {}", payload(text.as_bytes()))),
            Event::Ping(bytes) => self.say(format!("control ping {}", payload(bytes))),
            Event::Pong(bytes) => self.say(format!("control pong {}", payload(bytes))),
            Event::Close(close) => {
                let text = match close.code.map(|code| code.0) {
                    None => "close".into(),
                    Some(code) => match NativeClose::from_number(u64::from(code)) {
                        Some(native) => format!("close {code} {}", native.name()),
                        None => format!("close {code} {}", close.reason),
                    },
                };
                self.say(text.trim_end().into());
            }
            Event::Fragment | Event::Compressed(..) => panic!("a server does not fragment"),
        }
        consumed
    }

    fn native(&mut self, frame: &ServerFrame<'_>) {
        let text = match frame {
            ServerFrame::Message(message) => return self.message(message),
            ServerFrame::NamedMessage(message) => {
                let subscription = message.subscription;
                let verdict = self.named(message);
                let only = subscription.map_or(String::new(), |number| format!(" for {number}"));
                format!(
                    "named {} {}<{}{} {}{}{}{only}{verdict}",
                    message.topic,
                    message.position.offset,
                    message.prev,
                    mark(message.retained),
                    payload(message.payload),
                    attributes(&message.attributes),
                    lineage(message.lineage)
                )
            }
            ServerFrame::Welcome(welcome) => welcome_text(welcome),
            ServerFrame::Subscribed(subscribed) => self.subscribed(subscribed),
            ServerFrame::Unsubscribed(frame) => {
                self.filters.remove(&frame.subscription);
                format!("unsubscribed {} {}", frame.subscription, frame.code)
            }
            ServerFrame::CaughtUp(frame) => {
                let (number, through) = (frame.subscription, frame.through);
                match frame.partition {
                    None => {
                        self.settle(number, through, false);
                        format!("caught-up {number} through {through}")
                    }
                    Some(partition) => {
                        self.filter_caught_up(number, partition, through);
                        format!("caught-up {number} partition {partition} through {through}")
                    }
                }
            }
            ServerFrame::Gap(gap) => self.gap(gap),
            ServerFrame::Skipped(skipped) => self.skipped(skipped),
            ServerFrame::Published(published) => format!(
                "published {} {}:{}{}",
                published.request,
                published.position.epoch,
                published.position.offset,
                if published.duplicate { " duplicate" } else { "" }
            ),
            ServerFrame::HistoryPage(page) => history(page),
            ServerFrame::Error(error) => error_text(error),
            ServerFrame::GoAway(away) => {
                let ticket = away.ticket.map_or("", |_| " with a ticket");
                self.ticket = away.ticket.unwrap_or(&self.ticket).to_vec();
                let (code, after_ms) = (away.code, away.return_after_ms);
                let urls: String = away.urls.into_iter().map(|url| format!(" {url}")).collect();
                format!("go-away {code} return after {after_ms} ms{ticket}{urls}")
            }
            ServerFrame::Ping(token) => format!("ping {token}"),
            ServerFrame::Pong(token) => format!("pong {token}"),
            ServerFrame::Renewed(it) => {
                format!("renewed {} until {} ms", it.request, it.expires_ms)
            }
            ServerFrame::TokenExpires(at_ms) => format!("token expires at {at_ms} ms"),
            ServerFrame::TicketIssued(issued) => {
                self.ticket = issued.ticket.to_vec();
                format!("ticket {} until {} ms", issued.request, issued.expires_ms)
            }
        };
        self.say(text);
    }

    fn subscribed(&mut self, subscribed: &Subscribed<'_>) -> String {
        let Some(plain) = subscribed.topic() else {
            return self.subscribed_to_filter(subscribed);
        };
        let number = subscribed.subscription;
        let replaying = if plain.beginning.replaying { " replaying" } else { "" };
        let continued = if plain.beginning.continued { " continued" } else { "" };
        let through = plain.beginning.through;
        self.aliases.insert(plain.alias, Alias { subscription: number, through: through.offset });
        let (epoch, offset) = (through.epoch, through.offset);
        format!("subscribed {number} through {epoch}:{offset}{continued}{replaying}")
    }

    /// Checks a message of a topic, and adds it to the run of messages in order.
    fn message(&mut self, message: &Message<'_>) {
        let alias = self.aliases.get_mut(&message.alias).expect("an alias that was named");
        let (offset, prev) = (message.offset, message.prev);
        let verdict = if offset <= alias.through {
            " AGAIN"
        } else if prev > alias.through {
            " LOST"
        } else {
            ""
        };
        alias.through = alias.through.max(offset);
        let subscription = alias.subscription;
        let line = format!(
            "message {subscription} {offset}<{prev}{}{verdict} {}{}{}",
            mark(message.retained),
            payload(message.payload),
            attributes(&message.attributes),
            lineage(message.lineage)
        );
        match &mut self.run {
            Some(run) if run.subscription == subscription && verdict.is_empty() => {
                run.lines.push(line);
                run.last = offset;
            }
            _ if verdict.is_empty() => {
                self.end_run();
                self.run =
                    Some(Run { lines: vec![line], subscription, first: offset, last: offset });
            }
            _ => self.say(line),
        }
    }

    fn skipped(&mut self, skipped: &Skipped) -> String {
        let (number, from, through) = (skipped.subscription, skipped.from, skipped.through);
        let whose = match skipped.partition {
            Some(partition) => format!(" partition {}", partition.partition),
            // Records that the client has not settled before must not be skipped in silence.
            None if self.through(number) < from => " LOST".into(),
            None => String::new(),
        };
        if skipped.partition.is_none() {
            self.settle(number, through, false);
        }
        format!("skipped {number}{whose} {from}..{through} {:?}", skipped.reason)
    }

    /// The offset up to which the subscription is settled.
    fn through(&self, subscription: u32) -> u64 {
        let of = |alias: &&Alias| alias.subscription == subscription;
        self.aliases.values().filter(of).map(|alias| alias.through).max().unwrap_or(0)
    }

    fn gap(&mut self, gap: &Gap) -> String {
        let (number, from, to) = (gap.subscription, gap.from, gap.to);
        match gap.partition {
            None => {
                self.settle(number, to, true);
                format!("gap {number} {from}..{to} {:?}", gap.reason)
            }
            Some(partition) => {
                let verdict = self.settle_filter(number, partition, to);
                let reason = gap.reason;
                format!("gap {number} partition {partition} {from}..{to} {reason:?}{verdict}")
            }
        }
    }

    fn subscribed_to_filter(&mut self, subscribed: &Subscribed<'_>) -> String {
        let number = subscribed.subscription;
        let partitions = match subscribed.to {
            SubscribedTo::Filter(partitions) => partitions,
            SubscribedTo::Topic(_) => List::default(),
        };
        let mut text = format!("subscribed {number} filter");
        let filter = self.filters.entry(number).or_default();
        filter.cursors.clear();
        for at in partitions {
            let (partition, beginning) = (at.partition, at.beginning);
            let through = beginning.through;
            filter.cursors.insert(partition, through.offset);
            if beginning.continued || beginning.replaying {
                let (epoch, offset) = (through.epoch, through.offset);
                text += &format!(", {partition} through {epoch}:{offset}");
            }
            if beginning.continued {
                text += " continued";
            }
            if beginning.replaying {
                text += " replaying";
            }
        }
        text
    }

    /// A message for filters: each of them that it is for has it once and in order.
    fn named(&mut self, message: &NamedMessage<'_>) -> &'static str {
        let mut verdict = " FOR NOBODY";
        for (number, filter) in &mut self.filters {
            let is_for = match message.subscription {
                Some(only) => only == *number,
                None => Filter::parse(&filter.text).unwrap().matches(message.topic),
            };
            if !is_for {
                continue;
            }
            let Some(cursor) = filter.cursors.get_mut(&message.partition) else {
                continue; // not subscribed yet
            };
            if message.position.offset <= *cursor {
                return " AGAIN";
            }
            *cursor = message.position.offset;
            verdict = "";
        }
        verdict
    }

    fn settle_filter(&mut self, number: u32, partition: u32, through: u64) -> &'static str {
        let filter = self.filters.get_mut(&number).expect("a filter's number");
        let cursor = filter.cursors.get_mut(&partition).expect("its partition");
        let is_back = through < *cursor;
        *cursor = through;
        if is_back { " BACK" } else { "" }
    }

    /// CAUGHT_UP of a filter: it may name records that were settled before.
    fn filter_caught_up(&mut self, number: u32, partition: u32, through: u64) {
        let filter = self.filters.get_mut(&number).expect("a filter's number");
        let cursor = filter.cursors.get_mut(&partition).expect("its partition");
        *cursor = through.max(*cursor);
    }

    /// The client has asked for a filter.
    pub fn asked_for(&mut self, number: u32, filter: &str) {
        let filter = FilterSubscription { text: filter.into(), cursors: BTreeMap::new() };
        self.filters.entry(number).or_insert(filter);
    }

    fn settle(&mut self, subscription: u32, through: u64, also_back: bool) {
        // Of several aliases with this number the newest counts; a test does not look at the others
        // again.
        for alias in self.aliases.values_mut() {
            if alias.subscription == subscription {
                let back = if also_back { 0 } else { alias.through };
                alias.through = through.max(back);
            }
        }
    }
}

/// Types of answers that are not printed.
const USUAL_TYPES: [&str; 3] =
    ["application/json", "application/problem+json", "text/event-stream"];

/// The body behind a head and the bytes it takes; none if it is not complete.
fn body_of(response: &Response<'_>, input: &[u8]) -> Option<(Vec<u8>, usize)> {
    if matches!(response.body, BodyFraming::None | BodyFraming::UntilClose) {
        return Some((Vec::new(), 0));
    }
    let mut decoder = BodyDecoder::new(response.body, u64::MAX).unwrap();
    let (mut body, mut at) = (Vec::new(), 0);
    while !decoder.is_end() {
        match decoder.decode(&input[at..]).unwrap() {
            Step::More { .. } => return None,
            Step::Done { value, consumed } => {
                if let BodyPart::Data(data) = value {
                    body.extend_from_slice(data);
                }
                at += consumed;
            }
        }
    }
    Some((body, at))
}

fn problem(body: &str) -> String {
    let problem: serde_json::Value = serde_json::from_str(body).unwrap();
    let code = problem["code"].as_str().unwrap().to_string();
    match problem["epoch"].as_str() {
        Some(epoch) => format!("{code} {epoch}:{}", problem["head"]),
        None => code,
    }
}

fn shortened(text: &str) -> String {
    let text = &text.replace('\n', "|");
    if text.len() <= 400 {
        return text.clone();
    }
    let tail: String = text.chars().skip(text.chars().count() - 60).collect();
    format!("{} bytes to {tail}", text.len())
}

fn payload(bytes: &[u8]) -> String {
    match std::str::from_utf8(bytes) {
        Ok("") => "empty".into(),
        Ok(text) if text.len() <= 24 => text.into(),
        _ => format!("{} bytes", bytes.len()),
    }
}

fn mark(retained: Retained) -> &'static str {
    match retained {
        Retained::Yes => "!",
        Retained::No => "",
    }
}

fn lineage(lineage: Option<u8>) -> String {
    lineage.map_or(String::new(), |lineage| format!(" lineage {lineage}"))
}

fn attributes(attributes: &Attributes<'_>) -> String {
    let mut text = String::new();
    if let Some(content_type) = attributes.content_type {
        text += &format!(" type {content_type}");
    }
    for tag in attributes.tags.iter() {
        text += &format!(" tag {} {}", tag.key, tag.value);
    }
    text
}

fn history(page: &HistoryPage<'_>) -> String {
    let mut text = format!("history {} head {}", page.request, page.head);
    if let Some(gap) = page.gap {
        text += &format!(" gap {}..{} {:?}", gap.from, gap.to, gap.reason);
    }
    let records: Vec<String> = page
        .records
        .iter()
        .map(|record| {
            let (mark, payload) = (mark(record.retained), payload(record.payload));
            format!("{}<{}{mark} {payload}", record.offset, record.prev)
        })
        .collect();
    text += &format!(" [{}]", records.join(", "));
    for (is, name) in [(page.more, " more"), (page.reverse, " reverse")] {
        if is {
            text += name;
        }
    }
    text
}

fn welcome_text(welcome: &Welcome<'_>) -> String {
    let mut text = format!("welcome ping {}s", welcome.ping_interval_s);
    if let Some(count) = welcome.resumed {
        text += &format!(" resumed {count}");
    }
    text
}

fn error_text(error: &ErrorFrame<'_>) -> String {
    let about = match error.reference {
        Reference::Connection => "connection".into(),
        Reference::Request(number) => format!("request {number}"),
        Reference::Subscription(number) => format!("subscription {number}"),
    };
    let code = ErrorCode::from_number(u64::from(error.code)).map_or("unknown", ErrorCode::name);
    let mut text = format!("error {about} {code}");
    if let Some(restart) = error.restart {
        text += &format!(" restart {}:{}", restart.epoch, restart.offset);
    }
    if let Some(limit) = error.limit {
        text += &format!(" limit {limit}");
    }
    text
}

//! Bytes that clients send: from a script's words, by the codecs of `wire`.

use super::client::{Client, Protocol};
use wire::Step;
use wire::http::body::append_chunk;
use wire::http::request::RequestWriter;
use wire::native::{
    Attributes, ClientFrame, Credit, EARLY_FRAME_PREFIX, Hello, History, List, Once,
    PartitionPosition, Policy, Position, Producer, Publish, PublishOptions, Renew, ResumeCursor,
    SUBPROTOCOL, SUBPROTOCOL_JSON, Start, Subscribe, SubscribeItem, SubscribeRequest, Tag,
    Unsubscribe,
};
use wire::websocket::close::{CloseCode, ClosePayload};
use wire::websocket::deflate::Deflater;
use wire::websocket::extension::FIELD;
use wire::websocket::frame::{Frame, Opcode, Role, encode, encode_header};
use wire::websocket::handshake::{ClientHandshake, early_message};
use wire::websocket::mask::mask;

const MASK: Option<[u8; 4]> = Some([1, 2, 3, 4]);

/// The first bytes of a connection.
pub fn opening(words: &[&str], client: &mut Client) -> Vec<u8> {
    let mut out = Vec::new();
    let what = words.first().copied();
    // `packed-` offers compression, and `-9` at the end a window of so many bits.
    let packed = what.and_then(|what| what.strip_prefix("packed-"));
    let (what, bits) = match packed.and_then(|what| what.split_once('-')) {
        Some((what, bits)) => (Some(what), Some(bits)),
        None => (packed.or(what), None),
    };
    let mut offer = "permessage-deflate".to_owned();
    if let Some(bits) = bits {
        offer += "; server_max_window_bits=";
        offer += bits;
    }
    let bearer;
    let mut headers = Vec::new();
    if packed.is_some() {
        headers.push((FIELD, offer.as_str()));
    }
    match words {
        [_, "token", token, ..] => {
            bearer = format!("Bearer {token}");
            headers.push(("Authorization", &bearer));
        }
        [_, "key", key, ..] => headers.push(("X-API-Key", key)),
        _ => {}
    }
    // `early COMMAND | COMMAND` sends the frames of these commands with the handshake.
    let is_json = client.speaks_json || what == Some("json");
    let subprotocol = if is_json { SUBPROTOCOL_JSON } else { SUBPROTOCOL };
    let mut offered = vec![subprotocol.to_owned()];
    if what == Some("early") {
        let commands = words[1..].join(" ");
        offered.extend(commands.split(" | ").map(|command| early_frame(command, client)));
    }
    let mut subprotocols: Vec<&str> = offered.iter().map(String::as_str).collect();
    let target = match what {
        Some("native" | "ws" | "early" | "json") => "/crore",
        Some("echo") => {
            subprotocols.clear();
            "/echo"
        }
        Some("mqtt-ws") => {
            subprotocols = vec!["mqtt"];
            client.is_mqtt_in_websocket = true;
            "/mqtt"
        }
        Some("mqtt") => {
            client.begin_mqtt();
            return out;
        }
        _ => return out,
    };
    let handshake = ClientHandshake {
        host: "h",
        target,
        nonce: [7; 16],
        subprotocols: &subprotocols,
        headers: &headers,
        deflate: false,
    };
    handshake.encode_request(&mut out);
    client.asked("GET");
    client.upgrades_to = upgraded_to(what);
    if what == Some("native") {
        out.extend(bytes_of("hello 0", client));
    }
    out
}

/// The protocol behind the upgrade.
fn upgraded_to(what: Option<&str>) -> Protocol {
    match what {
        Some("echo") => Protocol::Echo,
        Some("json") => Protocol::Texts,
        Some("mqtt-ws") => Protocol::MqttWebSocket,
        _ => Protocol::Native,
    }
}

/// The offer that carries a command's frame; other words stand there unchanged.
fn early_frame(command: &str, client: &mut Client) -> String {
    if let Some(text) = command.strip_prefix("offer ") {
        return text.to_owned();
    }
    let mut bytes = bytes_of(command, client);
    match Frame::decode(&mut bytes, Role::Server, 1 << 20) {
        Ok(Step::Done { value, .. }) => early_message(EARLY_FRAME_PREFIX, value.payload),
        other => panic!("no frame: {other:?}"),
    }
}

/// The command is a request of HTTP.
pub fn is_http(command: &str) -> bool {
    let method = command.split_once(' ').map_or(command, |(method, _)| method);
    method.chars().all(|letter| letter.is_ascii_uppercase())
}

/// The bytes of a command.
pub fn bytes_of(command: &str, client: &mut Client) -> Vec<u8> {
    let words: Vec<&str> = command.split_whitespace().collect();
    let rest = command.split_once(' ').map_or("", |(_, rest)| rest);
    let mut out = Vec::new();
    let frame = |opcode, payload: &[u8]| {
        let mut out = Vec::new();
        encode(&mut out, true, opcode, payload, MASK);
        out
    };
    match words[..] {
        ["raw", ..] => {
            client.asked("GET");
            return unescaped(rest);
        }
        ["bytes", ..] => return hex(rest),
        ["mqtt", ..] => {
            let bytes = client.mqtt.bytes_of(rest);
            return if client.is_mqtt_in_websocket { frame(Opcode::Binary, &bytes) } else { bytes };
        }
        ["frame", ..] => return frame(Opcode::Binary, &hex(rest)),
        ["packed", ..] => return packed(&bytes_of(rest, client)),
        ["text", ..] => return frame(Opcode::Text, &payload_of(rest)),
        ["binary", ..] => return frame(Opcode::Binary, &payload_of(rest)),
        ["control", "ping", data] => return frame(Opcode::Ping, data.as_bytes()),
        ["control", "pong", data] => return frame(Opcode::Pong, data.as_bytes()),
        ["close"] => return frame(Opcode::Close, &[]),
        ["close", code, ref reason @ ..] => {
            let close = ClosePayload::new(CloseCode(code.parse().unwrap()), &reason.join(" "));
            return frame(Opcode::Close, close.as_bytes());
        }
        ["fragments", kind, parts] => {
            let parts: Vec<&str> = parts.split('|').collect();
            for (place, part) in parts.iter().enumerate() {
                let opcode = match (place, kind) {
                    (0, "text") => Opcode::Text,
                    (0, _) => Opcode::Binary,
                    _ => Opcode::Continuation,
                };
                let is_last = place + 1 == parts.len();
                encode(&mut out, is_last, opcode, &payload_of(part), MASK);
            }
            return out;
        }
        ["flood", topic, range, ref how @ ..] => {
            let (first, last) = range.split_once("..").unwrap();
            let (first, last): (u32, u32) = (first.parse().unwrap(), last.parse().unwrap());
            let size = match how {
                ["size", size] => size.parse().unwrap(),
                _ => 0,
            };
            for number in first..=last {
                let payload = format!("{number} {}", "x".repeat(size));
                let sequence = number.to_string();
                let how: &[&str] = match how {
                    ["producer", id] => &["producer", id, &sequence],
                    _ => &[],
                };
                out.extend(bytes_of_publish(0, topic, payload.trim_end().as_bytes(), how));
            }
            return spoken(client, out);
        }
        _ => {}
    }
    if is_http(command) {
        return http(command, client);
    }
    let bytes = native(&words, command, client);
    spoken(client, bytes)
}

/// Native frames in the form that the client speaks.
fn spoken(client: &Client, mut frames: Vec<u8>) -> Vec<u8> {
    if !client.speaks_json {
        return frames;
    }
    let mut out = Vec::new();
    let mut at = 0;
    while at < frames.len() {
        let Ok(Step::Done { value, consumed }) =
            Frame::decode(&mut frames[at..], Role::Server, 64 << 20)
        else {
            panic!("whole frames");
        };
        let mut text = Vec::new();
        ClientFrame::decode(value.payload).unwrap().encode_json(&mut text);
        encode(&mut out, true, Opcode::Text, &text, MASK);
        at += consumed;
    }
    out
}

fn native(words: &[&str], command: &str, client: &mut Client) -> Vec<u8> {
    let number = |word: &str| word.parse::<u32>().unwrap_or_else(|_| panic!("{command}"));
    let position = position_of;
    match words {
        ["hello", "kept", how @ ..] => hello_with(&client.ticket, how),
        ["hello", "token", token, how @ ..] => masked(&ClientFrame::Hello(Hello {
            token: Some(token),
            ticket: matches!(how, ["kept"]).then_some(&client.ticket),
            ..Hello::default()
        })),
        ["renew", request, token] => {
            masked(&ClientFrame::Renew(Renew { request: number(request), token }))
        }
        ["hello", seconds] => masked(&ClientFrame::Hello(Hello {
            ping_interval_s: number(seconds),
            ..Hello::default()
        })),
        ["hello", seconds, "ticket", ticket] => masked(&ClientFrame::Hello(Hello {
            ping_interval_s: number(seconds),
            ticket: Some(ticket.as_bytes()),
            ..Hello::default()
        })),
        ["ticket", request] => masked(&ClientFrame::Ticket(number(request))),
        ["subscribe", ..] => bytes_of_subscribe(command, client),
        ["unsubscribe", subscriptions @ ..] => {
            let subscriptions: Vec<u32> = subscriptions.iter().map(|word| number(word)).collect();
            masked(&ClientFrame::Unsubscribe(Unsubscribe {
                subscriptions: List::from(&subscriptions[..]),
            }))
        }
        ["publish", request, topic, payload, how @ ..] => {
            bytes_of_publish(number(request), topic, &payload_of(payload), how)
        }
        ["history", request, topic, how @ ..] => {
            let after = |name: &str| {
                let place = how.iter().position(|word| *word == name)?;
                how.get(place + 1).copied()
            };
            masked(&ClientFrame::History(History {
                request: number(request),
                topic,
                reverse: how.contains(&"reverse"),
                position: after("since").map(position),
                records_max: after("max").map_or(0, number),
                bytes_max: 0,
            }))
        }
        ["credit", subscription, messages] => masked(&ClientFrame::Credit(Credit {
            subscription: number(subscription),
            messages: number(messages),
        })),
        ["ping", token] => masked(&ClientFrame::Ping(token.parse().unwrap())),
        ["pong", token] => masked(&ClientFrame::Pong(token.parse().unwrap())),
        _ => panic!("no such command: {command}"),
    }
}

/// SUBSCRIBE with the items of a command: `subscribe 1 news since 7:3, 2 x/#`.
fn bytes_of_subscribe(command: &str, client: &mut Client) -> Vec<u8> {
    let items: Vec<(u32, SubscribeRequest<'_>, Vec<PartitionPosition>)> = command
        .split_once(' ')
        .unwrap()
        .1
        .split(',')
        .map(|item| {
            let words: Vec<&str> = item.split_whitespace().collect();
            let number = words[0].parse().unwrap();
            if words[1].contains(['+', '#']) {
                client.asked_for(number, words[1]);
            }
            let (request, each) = subscribe_request(words[1], &words[2..]);
            (number, request, each)
        })
        .collect();
    let items: Vec<SubscribeItem<'_>> = items
        .iter()
        .map(|(number, request, each)| {
            let mut request = *request;
            if !each.is_empty() {
                request.start = Start::SinceEach(each.as_slice().into());
            }
            SubscribeItem::new(*number, request)
        })
        .collect();
    masked(&ClientFrame::Subscribe(Subscribe { items: List::from(&items[..]) }))
}

/// One item's request, and the positions of its partitions.
fn subscribe_request<'a>(
    filter: &'a str,
    mut how: &[&str],
) -> (SubscribeRequest<'a>, Vec<PartitionPosition>) {
    let number = |word: &str| word.parse::<u32>().unwrap();
    let mut request = SubscribeRequest::new(filter, Start::Live);
    let mut each = Vec::new();
    while !how.is_empty() {
        let used = match how {
            ["live", ..] => 1,
            ["snapshot", ..] => {
                request.start = Start::Snapshot;
                1
            }
            ["fail-on-gap", ..] => {
                request.fail_on_gap = true;
                1
            }
            ["since", at, ..] => {
                request.start = Start::Since(position_of(at));
                2
            }
            ["last", count, ..] => {
                request.start = Start::Last(number(count));
                2
            }
            ["policy", policy, ..] => {
                request.policy = match *policy {
                    "replay" => Some(Policy::Replay),
                    "conflate" => Some(Policy::Conflate),
                    "drop" => Some(Policy::Drop),
                    "disconnect" => Some(Policy::Disconnect),
                    _ => panic!("no such policy: {policy}"),
                };
                2
            }
            ["each", partition, at, ..] => {
                let (partition, position) = (number(partition), position_of(at));
                each.push(PartitionPosition { partition, position });
                3
            }
            ["credit", messages, ..] => {
                request.replay_credit = Some(number(messages));
                2
            }
            _ => panic!("no such option: {how:?}"),
        };
        how = &how[used..];
    }
    (request, each)
}

fn bytes_of_publish(request: u32, topic: &str, payload: &[u8], how: &[&str]) -> Vec<u8> {
    let mut content_type = None;
    let mut tags = Vec::new();
    let mut options = PublishOptions::default();
    let mut how = how.iter();
    while let Some(word) = how.next() {
        let mut next = || how.next().copied().unwrap();
        match *word {
            "retain" => options.retain = true,
            "type" => content_type = Some(next()),
            "producer" => {
                let id = next().as_bytes();
                let sequence = next().parse().unwrap();
                options.once = Some(Once::Producer(Producer { id, sequence }));
            }
            "key" => options.once = Some(Once::Key(next().as_bytes())),
            "epoch" => options.expected_epoch = Some(next().parse().unwrap()),
            "tag" => {
                let key = next();
                let value = next();
                tags.push(Tag { key, value });
            }
            _ => panic!("publish {topic} {word}"),
        }
    }
    masked(&ClientFrame::Publish(Publish {
        request,
        topic,
        options,
        attributes: Attributes { content_type, tags: tags.as_slice().into() },
        payload,
    }))
}

/// HELLO with a ticket, changed as the words say.
fn hello_with(ticket: &[u8], mut how: &[&str]) -> Vec<u8> {
    let number = |word: &str| word.parse::<u32>().unwrap();
    let mut ticket = ticket.to_vec();
    let mut cursors = Vec::new();
    while !how.is_empty() {
        how = match how {
            ["flip", at, rest @ ..] => {
                ticket[number(at) as usize] ^= 1;
                rest
            }
            ["cursor", subscription, "in", partition, at, rest @ ..] => {
                cursors.push(ResumeCursor {
                    subscription: number(subscription),
                    partition: Some(number(partition)),
                    position: position_of(at),
                });
                rest
            }
            ["cursor", subscription, at, rest @ ..] => {
                cursors.push(ResumeCursor {
                    subscription: number(subscription),
                    partition: None,
                    position: position_of(at),
                });
                rest
            }
            _ => panic!("{how:?}"),
        };
    }
    masked(&ClientFrame::Hello(Hello {
        ticket: Some(&ticket),
        cursors: List::from(cursors.as_slice()),
        ..Hello::default()
    }))
}

fn position_of(word: &str) -> Position {
    let (epoch, offset) = word.split_once(':').unwrap();
    Position { epoch: epoch.parse().unwrap(), offset: offset.parse().unwrap() }
}

fn masked(frame: &ClientFrame<'_>) -> Vec<u8> {
    let mut bytes = Vec::new();
    frame.encode(&mut bytes);
    let mut out = Vec::new();
    encode(&mut out, true, Opcode::Binary, &bytes, MASK);
    out
}

/// `GET /target [HTTP/1.0] | Name: value > body`.
fn http(command: &str, client: &mut Client) -> Vec<u8> {
    let (head, body) = match (command.split_once(" >> "), command.split_once(" > ")) {
        (Some((head, chunks)), _) => {
            let mut body = Vec::new();
            for chunk in chunks.split('|') {
                append_chunk(&mut body, &payload_of(chunk));
            }
            body.extend_from_slice(b"0\r\n\r\n");
            (head, Some((body, true)))
        }
        (None, Some((head, body))) => (head, Some((payload_of(body), false))),
        (None, None) => (command, None),
    };
    let mut parts = head.split(" | ");
    let line: Vec<&str> = parts.next().unwrap().split_whitespace().collect();
    client.asked(line[0]);
    let mut out = Vec::new();
    let mut writer = RequestWriter::new(&mut out, line[0], line[1], "h");
    for field in parts {
        let (name, value) = field.split_once(": ").unwrap();
        writer = writer.header(name, &String::from_utf8(payload_of(value)).unwrap());
    }
    match body {
        None => writer.finish(),
        Some((body, true)) => {
            writer.finish_chunked();
            out.extend(body);
        }
        Some((body, false)) => writer.finish_with_body(&body),
    }
    if line.get(2) == Some(&"HTTP/1.0") {
        let text = out.iter().map(|byte| char::from(*byte)).collect::<String>();
        out = text.replacen("HTTP/1.1", "HTTP/1.0", 1).bytes().collect();
    }
    out
}

/// `x*100` is a hundred bytes, `hex:00ff` bytes, all else itself.
/// The frames of the input, each compressed.
fn packed(frames: &[u8]) -> Vec<u8> {
    let mut frames = frames.to_vec();
    let mut rest = &mut frames[..];
    let mut out = Vec::new();
    while let Ok(Step::Done { value, consumed }) = Frame::decode(rest, Role::Server, usize::MAX) {
        let mut payload = Vec::new();
        assert!(
            Deflater::new(6).deflate(&[value.payload], &mut payload),
            "it would not get shorter"
        );
        let header = encode_header(value.fin, value.opcode, payload.len(), MASK).compressed();
        out.extend_from_slice(header.as_bytes());
        mask(&mut payload, MASK.unwrap());
        out.extend(payload);
        rest = &mut rest[consumed..];
    }
    out
}

pub fn payload_of(text: &str) -> Vec<u8> {
    if text == "empty" {
        return Vec::new();
    }
    if let Some(bytes) = text.strip_prefix("hex:") {
        return hex(bytes);
    }
    match text.split_once('*') {
        Some((unit, count)) if !unit.is_empty() && count.parse::<usize>().is_ok() => {
            unit.repeat(count.parse().unwrap()).into_bytes()
        }
        _ => text.as_bytes().to_vec(),
    }
}

pub fn hex(text: &str) -> Vec<u8> {
    let repeated = |word: &str| match word.split_once('*') {
        Some((unit, count)) => unit.repeat(count.parse().unwrap()),
        None => word.to_owned(),
    };
    let digits: String = text.split_whitespace().map(repeated).collect();
    (0..digits.len() / 2)
        .map(|at| u8::from_str_radix(&digits[2 * at..2 * at + 2], 16).unwrap())
        .collect()
}

fn unescaped(text: &str) -> Vec<u8> {
    text.replace("\\r", "\r").replace("\\n", "\n").into_bytes()
}

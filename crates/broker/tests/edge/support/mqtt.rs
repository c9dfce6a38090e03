//! Clients of MQTT in scripts: the packets of their commands, and a line for each packet of the
//! node.

use super::request::{hex, payload_of};
use broker::settings::Settings;
use std::collections::BTreeMap;
use std::num::{NonZeroU16, NonZeroU32};
use wire::Step;
use wire::mqtt::{
    Ack, Attempt, Auth, ClientPacket, Connect, Delivery, Disconnect, Limits, List,
    PACKET_BYTES_MAX, PacketId, Properties, Property, Publish, Qos, ReasonCode, RetainHandling,
    Secret, ServerPacket, Subscribe, SubscribeItem, SubscriptionId, Unsubscribe, UserProperty,
    Version, Will,
};

/// A node that serves MQTT.
pub fn on(settings: &mut Settings) {
    settings.mqtt.is_on = true;
}

/// The state of a client of MQTT.
pub struct Peer {
    pub version: Version,
    /// Messages are acknowledged at once, and that is not shown.
    acknowledges: bool,
    /// Acknowledgements on their way to the node.
    pub answers: Vec<u8>,
    /// The number of aliases that the client accepts.
    aliases_max: u16,
    /// Topics by the aliases that the node has given them on this connection.
    aliases: BTreeMap<u16, String>,
    /// The beginning of a packet that came in a message of a WebSocket.
    pub partial: Vec<u8>,
    /// Messages with numbers as payloads, since the last line.
    counted: Vec<Counted>,
}

struct Counted {
    /// Topic and QoS.
    about: String,
    number: u64,
    text: String,
}

/// The greatest number of counted messages of which each has its line.
const RUN_LINES_MAX: usize = 6;

impl Default for Peer {
    fn default() -> Self {
        let version = Version::V5;
        Peer {
            version,
            acknowledges: false,
            answers: Vec::new(),
            aliases_max: 0,
            aliases: BTreeMap::new(),
            partial: Vec::new(),
            counted: Vec::new(),
        }
    }
}

impl Peer {
    /// One packet from the front of the input: the lines that it ends, and its bytes; 0 if it is
    /// not complete.
    pub fn received(&mut self, input: &[u8]) -> (Vec<String>, usize) {
        let step = ServerPacket::decode(self.version, PACKET_BYTES_MAX, input);
        let Step::Done { value: packet, consumed } = step.expect("a packet that can be read")
        else {
            return (Vec::new(), 0);
        };
        if self.acknowledges && self.acknowledge(&packet) {
            return (Vec::new(), consumed);
        }
        let topic = self.topic_of(&packet);
        let text = text_of(&packet, &topic);
        let ServerPacket::Publish(publish) = packet else {
            let mut lines = self.end_run();
            lines.push(text);
            return (lines, consumed);
        };
        let payload = std::str::from_utf8(publish.payload).ok();
        let number = payload.and_then(|text| text.split(' ').next()?.parse().ok());
        let Some(number) = number else {
            let mut lines = self.end_run();
            lines.push(text);
            return (lines, consumed);
        };
        let about = format!("{topic} q{}", publish.delivery.qos() as u8);
        self.counted.push(Counted { about, number, text });
        (Vec::new(), consumed)
    }

    /// The topic of a message, by its alias if the packet has none. An alias that the node has not
    /// given, or that the client does not accept, is a fault.
    fn topic_of(&mut self, packet: &ServerPacket<'_>) -> String {
        let ServerPacket::Publish(publish) = packet else {
            return String::new();
        };
        let Some(alias) = publish.properties.topic_alias() else {
            assert!(!publish.topic.is_empty(), "a message without a topic");
            return publish.topic.to_owned();
        };
        assert!(alias.get() <= self.aliases_max, "alias {alias}");
        if publish.topic.is_empty() {
            return self.aliases.get(&alias.get()).expect("an alias that is known").clone();
        }
        self.aliases.insert(alias.get(), publish.topic.to_owned());
        publish.topic.to_owned()
    }

    /// The lines of counted messages: all, or one for each topic if they are many and in order.
    pub fn end_run(&mut self) -> Vec<String> {
        let counted = std::mem::take(&mut self.counted);
        if counted.len() <= RUN_LINES_MAX {
            return counted.into_iter().map(|message| message.text).collect();
        }
        let mut runs: Vec<(String, Vec<&Counted>)> = Vec::new();
        for message in &counted {
            match runs.iter_mut().find(|(about, _)| *about == message.about) {
                Some((_, run)) => run.push(message),
                None => runs.push((message.about.clone(), vec![message])),
            }
        }
        // The order of topics is that of threads.
        runs.sort_by(|(one, _), (other, _)| one.cmp(other));
        let mut lines = Vec::new();
        for (about, run) in runs {
            let (first, last) = (run[0].number, run[run.len() - 1].number);
            let is_in_order = run.windows(2).all(|pair| pair[0].number + 1 == pair[1].number);
            if is_in_order && run.len() > RUN_LINES_MAX {
                lines.push(format!("publish {about} {first}..{last}: {} in order", run.len()));
            } else {
                lines.extend(run.into_iter().map(|message| message.text.clone()));
            }
        }
        lines
    }

    /// Answers the packet if it belongs to a message. True if the packet is not shown.
    fn acknowledge(&mut self, packet: &ServerPacket<'_>) -> bool {
        let (answer, is_shown) = match packet {
            ServerPacket::Publish(publish) => match publish.delivery {
                Delivery::Zero => return false,
                Delivery::One(it) => (ClientPacket::PubAck(Ack::success(it.packet_id)), true),
                Delivery::Two(it) => (ClientPacket::PubRec(Ack::success(it.packet_id)), true),
            },
            ServerPacket::PubAck(_) | ServerPacket::PubComp(_) => return true,
            ServerPacket::PubRec(ack) => (ClientPacket::PubRel(Ack::success(ack.packet_id)), false),
            ServerPacket::PubRel(ack) => {
                (ClientPacket::PubComp(Ack::success(ack.packet_id)), false)
            }
            _ => return false,
        };
        answer.encode(self.version, &Limits::default(), &mut self.answers).unwrap();
        !is_shown
    }

    /// The packets of commands with `|` between them.
    pub fn bytes_of(&mut self, commands: &str) -> Vec<u8> {
        let mut out = Vec::new();
        for command in commands.split(" | ") {
            self.append(command.trim(), &mut out);
        }
        out
    }

    fn append(&mut self, command: &str, out: &mut Vec<u8>) {
        let (verb, rest) = command.split_once(' ').unwrap_or((command, ""));
        let words: Vec<&str> = rest.split_whitespace().collect();
        match verb {
            "raw" => out.extend(hex(rest)),
            // For packets that come as bytes.
            "version" => self.version = version_of(&words),
            "connect" => self.connect(&words, out),
            "sub" => self.subscribe(rest, out),
            "unsub" => {
                let unsubscribe = Unsubscribe {
                    packet_id: id_of(words[0]),
                    properties: Properties::default(),
                    filters: List::from(&words[1..]),
                };
                self.encode(&ClientPacket::Unsubscribe(unsubscribe), out);
            }
            "pub" => self.publish(&words, out),
            "flood" => {
                let (first, last) = words[2].split_once("..").unwrap();
                let (first, last): (u32, u32) = (first.parse().unwrap(), last.parse().unwrap());
                for number in first..=last {
                    let (number, id) = (number.to_string(), format!("id={number}"));
                    let head = [words[0], words[1], &number, &id];
                    self.publish(&[&head, &words[3..]].concat(), out);
                }
            }
            "puback" => self.encode(&ClientPacket::PubAck(ack_of(&words)), out),
            "pubrec" => self.encode(&ClientPacket::PubRec(ack_of(&words)), out),
            "pubrel" => self.encode(&ClientPacket::PubRel(ack_of(&words)), out),
            "pubcomp" => self.encode(&ClientPacket::PubComp(ack_of(&words)), out),
            "ping" => self.encode(&ClientPacket::PingReq, out),
            "auth" => {
                let data = option(&words, "data").map(|data| Secret(data.as_bytes()));
                let mut properties = vec![];
                let method = option(&words, "method").unwrap_or("crore-jwt");
                properties.push(Property::AuthenticationMethod(method));
                properties.extend(data.map(Property::AuthenticationData));
                let reason = reason_of(words[0]);
                let auth = Auth { reason, properties: Properties::from(&properties[..]) };
                self.encode(&ClientPacket::Auth(auth), out);
            }
            "disconnect" => {
                let expiry = option(&words, "expiry").map(number).map(Property::SessionExpiry);
                let reason = words.first().filter(|word| !word.contains('='));
                let disconnect = Disconnect {
                    reason: reason.map_or(ReasonCode::Success, |word| reason_of(word)),
                    properties: Properties::from(expiry.as_slice()),
                };
                self.encode(&ClientPacket::Disconnect(disconnect), out);
            }
            _ => panic!("no such command: mqtt {command}"),
        }
    }

    fn encode(&self, packet: &ClientPacket<'_>, out: &mut Vec<u8>) {
        packet.encode(self.version, &Limits::default(), out).unwrap();
    }

    fn connect(&mut self, words: &[&str], out: &mut Vec<u8>) {
        self.version = version_of(words);
        self.acknowledges = words.contains(&"acks");
        let is_v5 = self.version == Version::V5;
        let find = |name| option(words, name);
        let mut properties = Vec::new();
        properties.extend(find("expiry").map(number).map(Property::SessionExpiry));
        properties.extend(find("receive").map(non_zero_16).map(Property::ReceiveMaximum));
        properties.extend(find("size").map(non_zero_32).map(Property::MaximumPacketSize));
        let positions = words.contains(&"positions");
        let positions = positions.then_some(UserProperty { name: "crore-positions", value: "1" });
        properties.extend(positions.map(Property::User));
        self.aliases_max = find("aliases").map_or(0, |max| number(max) as u16);
        self.aliases.clear();
        let aliases_max = (self.aliases_max > 0).then_some(self.aliases_max);
        properties.extend(aliases_max.map(Property::TopicAliasMaximum));
        properties.extend(find("method").map(Property::AuthenticationMethod));
        let data = find("data").map(|data| Secret(data.as_bytes()));
        properties.extend(data.map(Property::AuthenticationData));
        let mut of_will = Vec::new();
        of_will.extend(find("will-delay").map(number).map(Property::WillDelay));
        of_will.extend(find("will-expiry").map(number).map(Property::MessageExpiry));
        of_will.extend(find("will-type").map(Property::ContentType));
        of_will.extend(find("will-reply").map(Property::ResponseTopic));
        let will = find("will").map(|will| will.split_once('=').unwrap());
        let payload = will.map_or(Vec::new(), |(_, text)| payload_of(text));
        let password = find("password").map(|password| Secret(password.as_bytes()));
        let client_id = match words.first() {
            Some(&"none") | None => "",
            Some(id) => id,
        };
        let long = "x".repeat(300);
        let client_id = if client_id == "long" { &long } else { client_id };
        let connect = Connect {
            version: self.version,
            clean_start: words.contains(&"clean"),
            keep_alive_s: find("keep").map_or(0, |keep| keep.parse().unwrap()),
            properties: if is_v5 { properties[..].into() } else { Properties::default() },
            client_id,
            will: will.map(|(topic, _)| Will {
                qos: find("will-qos").map_or(Qos::Zero, qos_of),
                retain: words.contains(&"will-retain"),
                topic,
                payload: &payload,
                properties: if is_v5 { of_will[..].into() } else { Properties::default() },
            }),
            user_name: find("user").or(password.map(|_| "user")),
            password,
        };
        self.encode(&ClientPacket::Connect(connect), out);
    }

    fn subscribe(&self, rest: &str, out: &mut Vec<u8>) {
        let (id, items) = rest.split_once(' ').unwrap();
        let words: Vec<&str> = items.split([' ', ',']).collect();
        let identifier = option(&words, "id").map(number).and_then(SubscriptionId::new);
        let mut properties: Vec<_> = identifier.map(Property::SubscriptionId).into_iter().collect();
        let start = items.split_whitespace().find_map(|word| word.strip_prefix("start="));
        let start = start.map(|value| UserProperty { name: "crore-start", value });
        properties.extend(start.map(Property::User));
        let item_of = |item| {
            let words: Vec<&str> = str::split_whitespace(item).collect();
            SubscribeItem {
                filter: words[0],
                qos: qos_of(words[1]),
                no_local: words.contains(&"nl"),
                retain_as_published: words.contains(&"rap"),
                retain_handling: match option(&words, "rh") {
                    Some(handling) => RetainHandling::from_bits(number(handling) as u8).unwrap(),
                    None => RetainHandling::Send,
                },
            }
        };
        let items: Vec<SubscribeItem<'_>> = items.split(", ").map(item_of).collect();
        let subscribe = Subscribe {
            packet_id: id_of(id),
            properties: Properties::from(&properties[..]),
            items: List::from(&items[..]),
        };
        self.encode(&ClientPacket::Subscribe(subscribe), out);
    }

    fn publish(&self, words: &[&str], out: &mut Vec<u8>) {
        let [qos, topic, text, how @ ..] = words else {
            panic!("pub QOS TOPIC TEXT: {words:?}");
        };
        let find = |name| option(how, name);
        let mut properties = Vec::new();
        properties.extend(how.contains(&"text").then_some(Property::PayloadFormat(true)));
        properties.extend(find("expiry").map(number).map(Property::MessageExpiry));
        properties.extend(find("type").map(Property::ContentType));
        properties.extend(find("reply").map(Property::ResponseTopic));
        let correlation = find("correlation").map(str::as_bytes);
        properties.extend(correlation.map(Property::CorrelationData));
        properties.extend(find("alias").map(non_zero_16).map(Property::TopicAlias));
        for tag in how.iter().filter_map(|word| word.strip_prefix("tag=")) {
            let (name, value) = tag.split_once('=').unwrap();
            properties.push(Property::User(UserProperty { name, value }));
        }
        let attempt = || Attempt {
            packet_id: id_of(find("id").expect("an identifier")),
            is_repeat: how.contains(&"dup"),
        };
        let publish = Publish {
            delivery: match *qos {
                "0" => Delivery::Zero,
                "1" => Delivery::One(attempt()),
                _ => Delivery::Two(attempt()),
            },
            retain: how.contains(&"retain"),
            // Without a topic there is an alias.
            topic: if *topic == "-" { "" } else { topic },
            properties: Properties::from(&properties[..]),
            payload: &payload_of(text),
        };
        self.encode(&ClientPacket::Publish(publish), out);
    }
}

fn version_of(words: &[&str]) -> Version {
    match words {
        words if words.contains(&"v3") => Version::V3_1_1,
        words if words.contains(&"v31") => Version::V3_1,
        _ => Version::V5,
    }
}

/// The value of `NAME=VALUE`.
fn option<'a>(words: &[&'a str], name: &str) -> Option<&'a str> {
    words.iter().find_map(|word| word.strip_prefix(name)?.strip_prefix('='))
}

fn number(word: &str) -> u32 {
    match word {
        "ever" => u32::MAX,
        word => word.parse().unwrap(),
    }
}

fn non_zero_16(word: &str) -> NonZeroU16 {
    word.parse().unwrap()
}

fn non_zero_32(word: &str) -> NonZeroU32 {
    word.parse().unwrap()
}

fn id_of(word: &str) -> PacketId {
    PacketId::new(word.parse().unwrap()).expect("an identifier, or `raw`")
}

fn qos_of(word: &str) -> Qos {
    Qos::from_bits(word.parse().unwrap()).unwrap()
}

fn reason_of(word: &str) -> ReasonCode {
    let code = match word.strip_prefix("0x") {
        Some(code) => u8::from_str_radix(code, 16).unwrap(),
        None => word.parse().unwrap(),
    };
    ReasonCode::from_byte(code).unwrap()
}

fn ack_of<'a>(words: &[&str]) -> Ack<'a> {
    let reason = words.get(1).map_or(ReasonCode::Success, |word| reason_of(word));
    Ack { reason, ..Ack::success(id_of(words[0])) }
}

fn text_of(packet: &ServerPacket<'_>, topic: &str) -> String {
    let ack = |name: &str, ack: &Ack<'_>| {
        let properties = properties_text(&ack.properties);
        match ack.reason {
            ReasonCode::Success => format!("{name} {}{properties}", ack.packet_id),
            reason => format!("{name} {} {}{properties}", ack.packet_id, code(reason)),
        }
    };
    let codes = |reasons: List<'_, ReasonCode>| -> String {
        reasons.iter().map(|reason| format!(" {}", code(reason))).collect()
    };
    match packet {
        ServerPacket::ConnAck(connack) => {
            let present = if connack.session_present { " present" } else { "" };
            let properties = properties_text(&connack.properties);
            format!("connack {}{present}{properties}", code(connack.reason))
        }
        ServerPacket::Publish(publish) => publish_text(publish, topic),
        ServerPacket::PubAck(it) => ack("puback", it),
        ServerPacket::PubRec(it) => ack("pubrec", it),
        ServerPacket::PubRel(it) => ack("pubrel", it),
        ServerPacket::PubComp(it) => ack("pubcomp", it),
        ServerPacket::SubAck(it) => format!("suback {}{}", it.packet_id, codes(it.reasons)),
        ServerPacket::UnsubAck(it) => format!("unsuback {}{}", it.packet_id, codes(it.reasons)),
        ServerPacket::PingResp => "pingresp".into(),
        ServerPacket::Disconnect(it) => {
            let properties = properties_text(&it.properties);
            format!("disconnect {}{properties}", code(it.reason))
        }
        ServerPacket::Auth(it) => {
            format!("auth {}{}", code(it.reason), properties_text(&it.properties))
        }
    }
}

fn publish_text(publish: &Publish<'_>, topic: &str) -> String {
    let mut text = format!("publish {topic} q{}", publish.delivery.qos() as u8);
    if let Some(attempt) = publish.delivery.attempt() {
        text += &format!(" id {}", attempt.packet_id);
        text += if attempt.is_repeat { " dup" } else { "" };
    }
    text += if publish.retain { " retain" } else { "" };
    let payload = match std::str::from_utf8(publish.payload) {
        Ok("") => "empty".into(),
        Ok(payload) if payload.len() <= 24 => payload.to_owned(),
        _ => format!("{} bytes", publish.payload.len()),
    };
    text + &format!(" {payload}{}", properties_of(publish.topic, &publish.properties))
}

fn properties_text(properties: &Properties<'_>) -> String {
    properties_of("", properties)
}

/// Properties of a packet with this topic, but those of every CONNACK.
fn properties_of(topic: &str, properties: &Properties<'_>) -> String {
    let text = |property| match property {
        Property::TopicAliasMaximum(16)
        | Property::SharedSubscriptionAvailable(false)
        | Property::ReceiveMaximum(_) => None,
        // In capitals where it stands for the name.
        Property::TopicAlias(number) if topic.is_empty() => Some(format!("ALIAS {number}")),
        Property::TopicAlias(number) => Some(format!("alias {number}")),
        Property::PayloadFormat(_) => Some("text".into()),
        Property::MessageExpiry(seconds) => Some(format!("expiry {seconds}")),
        Property::ContentType(name) => Some(format!("type {name}")),
        Property::ResponseTopic(topic) => Some(format!("reply {topic}")),
        Property::CorrelationData(data) => {
            Some(format!("correlation {}", String::from_utf8_lossy(data)))
        }
        Property::SubscriptionId(id) => Some(format!("id {}", id.get())),
        // The rest depends on the clock.
        Property::AuthenticationMethod(name) => Some(format!("method {name}")),
        Property::AssignedClientId(name) => Some(format!("assigned {}", &name[..5])),
        Property::ServerKeepAlive(seconds) => Some(format!("keep {seconds}")),
        Property::ServerReference(server) => Some(format!("server {server}")),
        Property::User(user) => Some(format!("{}={}", user.name, user.value)),
        other => Some(format!("{other:?}")),
    };
    let texts: Vec<String> = properties.iter().filter_map(text).collect();
    if texts.is_empty() { String::new() } else { format!(" {{{}}}", texts.join(", ")) }
}

fn code(reason: ReasonCode) -> String {
    match reason.byte() {
        code @ ..0x10 => code.to_string(),
        code => format!("0x{code:02x}"),
    }
}

//! `$sys/...` and `$SYS/...`: topics to which only the node itself publishes (`spec/protocol.md`).
//!
//! Place: they are ordinary topics with ordinary records; only the publisher is special. An edge
//! makes the publications, as ordinary requests to the topics' homes. Invariants: wildcards at the
//! beginning of a filter never cover them; events of these topics themselves are not published.

use wire::http::problem::append_json_string;

/// The level that all of them begin with.
pub const ROOT: &str = "$sys";
/// The filter that covers all of them.
pub const FILTER: &str = "$sys/#";
/// The first level of the topics with which programs for other brokers of MQTT are acquainted.
const MQTT_ROOT: &str = "$SYS";
/// The filter that covers all of those.
pub const MQTT_FILTER: &str = "$SYS/#";
/// Gaps of a session of MQTT. Every client may subscribe to it, and gets its own gaps only: no home
/// has messages of it.
pub const OWN_GAPS: &str = "$sys/mine/gap";
/// A session has begun.
pub const CLIENTS_CONNECTED: &str = "$sys/clients/connected";
/// A session is over.
pub const CLIENTS_DISCONNECTED: &str = "$sys/clients/disconnected";
/// A topic has its first subscriber by its name.
pub const TOPICS_OCCUPIED: &str = "$sys/topics/occupied";
/// A topic has lost its last one.
pub const TOPICS_VACATED: &str = "$sys/topics/vacated";

/// A node of the cluster has begun to report itself.
pub const NODES_JOINED: &str = "$sys/nodes/joined";
/// A node of the cluster has stopped, or reports itself no more.
pub const NODES_LEFT: &str = "$sys/nodes/left";

/// The beginning of the topics of MQTT's sessions.
const SESSIONS: &str = "$mqtt/s/";

/// Whether a topic, or a filter's topics, are the node's own.
pub fn is_reserved(name: &str) -> bool {
    is_below(ROOT, name) || is_of_mqtt(name)
}

/// Whether a topic, or a filter's topics, are those with figures for programs of MQTT. Every client
/// may read them that may read anything.
pub fn is_of_mqtt(name: &str) -> bool {
    is_below(MQTT_ROOT, name)
}

fn is_below(root: &str, name: &str) -> bool {
    name.strip_prefix(root).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Whether a client may publish to a topic in spite of [`is_reserved`]: a bridge of Mosquitto
/// reports itself on `$SYS/broker/connection/NAME/state`.
pub fn is_of_bridge(topic: &str) -> bool {
    let name = topic.strip_prefix("$SYS/broker/connection/");
    let name = name.and_then(|rest| rest.strip_suffix("/state"));
    name.is_some_and(|name| !name.is_empty() && !name.contains(['/', '+', '#']))
}

/// A message of the node itself.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OwnMessage {
    /// The topic's name; valid.
    pub topic: Box<str>,
    /// The body.
    pub payload: Box<[u8]>,
    /// The media type of the body.
    pub content_type: &'static str,
    /// The message is the first of its topic with this key; empty for none.
    pub idempotency_key: Box<[u8]>,
    /// Keep it as the topic's retained message; an empty body removes the retained one.
    pub retain: bool,
}

impl OwnMessage {
    /// An event as JSON.
    pub fn json(topic: &str, payload: &[u8]) -> OwnMessage {
        OwnMessage {
            topic: topic.into(),
            payload: payload.into(),
            content_type: "application/json",
            idempotency_key: Box::default(),
            retain: false,
        }
    }

    /// A present value as text, which the topic keeps.
    pub fn value(topic: &str, text: &str) -> OwnMessage {
        OwnMessage {
            content_type: "text/plain",
            retain: true,
            ..OwnMessage::json(topic, text.as_bytes())
        }
    }
}

/// The topic of a session of MQTT, by the name of its client. The name is the rest of the topic,
/// whatever characters it has.
pub fn session_topic(client: &[u8]) -> String {
    let name: String = String::from_utf8_lossy(client)
        .chars()
        .map(|character| match character {
            '+' | '#' | '%' => format!("%{:02x}", character as u32),
            control if control.is_control() => format!("%{:02x}", control as u32),
            other => other.to_string(),
        })
        .collect();
    format!("{SESSIONS}{name}")
}

/// The name of a node's records about its groups. They are no messages: any partition has them.
pub fn groups_topic(node: &str) -> String {
    format!("$groups/{node}")
}

/// The client of a session's topic.
pub fn name_of_session(topic: &str) -> Option<String> {
    let mut name = String::new();
    let mut rest = topic.strip_prefix(SESSIONS)?;
    while let Some((before, after)) = rest.split_once('%') {
        name.push_str(before);
        // U+0080 to U+009F have two digits, too.
        let code = u32::from_str_radix(after.get(..2)?, 16).ok()?;
        name.push(char::from_u32(code)?);
        rest = &after[2..];
    }
    name.push_str(rest);
    Some(name)
}

/// Whether a topic, or a filter's topics, are those of sessions, which no client sees.
pub fn is_of_sessions(name: &str) -> bool {
    name.strip_prefix("$mqtt").is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// The topic of a node's statistics. The node's name is one level, whatever characters it has.
pub fn statistics_topic(node: &str) -> String {
    let is_special =
        |character: char| matches!(character, '/' | '+' | '#') || character.is_control();
    let name = node.replace(is_special, "_");
    format!("{ROOT}/node/{name}/statistics")
}

/// The occupancy of a home's topics: the first subscriber, or the last.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Occupancy {
    /// A topic has its first subscriber by its name.
    Occupied(Box<[u8]>),
    /// A topic has lost its last one.
    Vacated(Box<[u8]>),
    /// More topics changed in a second than the settings permit to report.
    LeftOut {
        /// Topics occupied.
        occupied: u64,
        /// Topics vacated.
        vacated: u64,
    },
}

/// A JSON object that grows by members.
#[derive(Debug)]
pub(crate) struct Object(Vec<u8>);

impl Object {
    /// One with the node's name.
    pub fn of_node(node: &str) -> Object {
        Object(vec![b'{']).text("node", node)
    }

    /// With a text.
    pub fn text(mut self, name: &str, value: &str) -> Object {
        self.begin(name);
        append_json_string(&mut self.0, value);
        self
    }

    /// With a number that JavaScript can hold.
    pub fn number(mut self, name: &str, value: u64) -> Object {
        self.begin(name);
        self.0.extend_from_slice(value.to_string().as_bytes());
        self
    }

    /// The whole.
    pub fn finish(mut self) -> Vec<u8> {
        self.0.push(b'}');
        self.0
    }

    fn begin(&mut self, name: &str) {
        if self.0.len() > 1 {
            self.0.push(b',');
        }
        append_json_string(&mut self.0, name);
        self.0.push(b':');
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topic::TopicName;

    #[test]
    fn reserved_names() {
        for name in ["$sys", "$sys/", "$sys/a", "$sys/#", "$sys/+/b", "$SYS", "$SYS/broker/x"] {
            assert!(is_reserved(name), "{name}");
        }
        for name in ["$system", "$SYSTEM/a", "$Sys/a", "sys/a", "$", "a/$sys", "/$sys", "#"] {
            assert!(!is_reserved(name), "{name}");
        }
    }

    #[test]
    fn bridges_tell_of_their_own_connection_only() {
        assert!(is_of_bridge("$SYS/broker/connection/office.house/state"));
        for name in ["+", "", "a/b", "#"] {
            assert!(!is_of_bridge(&format!("$SYS/broker/connection/{name}/state")), "{name}");
        }
        for topic in ["$SYS/broker/connection/a", "$SYS/broker/uptime", "$sys/a", "a/state"] {
            assert!(!is_of_bridge(topic), "{topic}");
        }
    }

    #[test]
    fn names_of_nodes_are_one_level() {
        assert_eq!(statistics_topic("n1"), "$sys/node/n1/statistics");
        let topic = statistics_topic("a/b+#\u{0}\u{7f}");
        assert_eq!(topic, "$sys/node/a_b____/statistics");
        assert!(TopicName::parse(&topic).is_ok());
    }

    #[test]
    fn objects() {
        let object = Object::of_node("a\"b").number("left_out", 7).text("topic", "x/y");
        let text = String::from_utf8(object.finish()).unwrap();
        assert_eq!(text, "{\"node\":\"a\\\"b\",\"left_out\":7,\"topic\":\"x/y\"}");
    }
}

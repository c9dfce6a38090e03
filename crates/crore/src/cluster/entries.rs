//! Keys and values of the control topic.
//!
//! | key | value |
//! |---|---|
//! | `node/NAME` | a node's report about itself ([`NodeEntry`]), every few seconds |
//! | `log/NAME` | the partitions of a log ([`LogEntry`]): all nodes must agree on them |
//! | `revocation/...` | a revocation ([`RevocationEntry`]); a removed key cancels it |
//! | `tickets` | the tickets that all nodes refuse ([`TicketsEntry`]) |
//!
//! Values are JSON. Readers ignore members that they do not know, because a newer node may write
//! them. Unknown keys are ignored for the same reason.

use broker::engine::{NAMES_MAX, WINDOW_MS};
use broker::settings::LogSettings;
use entitlement::revocations::{Revocation, Revoked};
use entitlement::revoking::Change;
use serde::{Deserialize, Serialize};
use std::fmt;

/// An entry of the control topic: the newest value of a key.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Entry {
    /// The key.
    pub key: String,
    /// The value; none if the key was removed.
    pub value: Option<Vec<u8>>,
    /// The broker's time, in milliseconds since 1970.
    pub time_ms: u64,
}

/// A node's report about itself.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct NodeEntry {
    /// One start of the process: random.
    pub run: String,
    /// The address by which clients reach the node; none if it is not configured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
    /// The version of the program.
    #[serde(default)]
    pub version: String,
    /// Open connections of clients.
    #[serde(default)]
    pub connections: u64,
    /// Messages of the engine that the node has not read.
    #[serde(default)]
    pub lag_records: u64,
    /// Time since a broker has answered the node, in milliseconds.
    #[serde(default)]
    pub silence_ms: u64,
    /// The node sends its clients away.
    #[serde(default)]
    pub is_draining: bool,
}

/// The part of a log that all nodes must have alike: tickets and cursors have partition numbers,
/// and nodes reach the same verdicts only with the same window.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct LogEntry {
    /// The number of its first partition, over all logs.
    pub first_partition: u32,
    /// The number of its partitions.
    pub partitions_count: u32,
    /// The time in which repetitions are recognised, in milliseconds.
    pub window_ms: u64,
    /// The names that a partition recognises.
    pub names_max: u64,
}

/// A revocation. Its tokens are in the key.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct RevocationEntry {
    /// [`Revocation::issued_before_s`].
    pub issued_before: u32,
    /// [`Revocation::ends_s`].
    pub ends: u32,
}

/// The tickets that all nodes refuse.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct TicketsEntry {
    /// Those issued before this time, in milliseconds since 1970.
    pub revoked_before: u64,
}

const NODE: &str = "node/";
const LOG: &str = "log/";
const REVOCATION: &str = "revocation/";
const TICKETS: &str = "tickets";

/// The meaning of an entry.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Meaning {
    /// A node's report; none: it has left.
    Node(String, Option<NodeEntry>),
    /// The partitions of a log.
    Log(String, LogEntry),
    /// A revocation was made, extended or cancelled.
    Revocation(Change),
    /// Tickets were revoked.
    Tickets(TicketsEntry),
}

impl Entry {
    /// The meaning; none if this version does not know the key, or the value is malformed.
    pub fn meaning(&self) -> Option<Meaning> {
        if let Some(name) = self.key.strip_prefix(NODE) {
            let report = self.value.as_deref().map(serde_json::from_slice).transpose().ok()?;
            return Some(Meaning::Node(name.to_owned(), report));
        }
        if let Some(name) = self.key.strip_prefix(LOG) {
            let log = serde_json::from_slice(self.value.as_deref()?).ok()?;
            return Some(Meaning::Log(name.to_owned(), log));
        }
        if self.key == TICKETS {
            let tickets = serde_json::from_slice(self.value.as_deref()?).ok()?;
            return Some(Meaning::Tickets(tickets));
        }
        let revoked = revoked_of(self.key.strip_prefix(REVOCATION)?)?;
        let Some(value) = &self.value else {
            return Some(Meaning::Revocation(Change::Cancelled(revoked)));
        };
        let RevocationEntry { issued_before, ends } = serde_json::from_slice(value).ok()?;
        let change = Change::Revoked { revoked, issued_before_s: issued_before, ends_s: ends };
        Some(Meaning::Revocation(change))
    }
}

impl NodeEntry {
    /// The key and the value.
    pub fn written(&self, name: &str) -> (String, Vec<u8>) {
        (node_key(name), json(self))
    }
}

/// The key of a node.
pub fn node_key(name: &str) -> String {
    format!("{NODE}{name}")
}

impl fmt::Display for LogEntry {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let LogEntry { first_partition, partitions_count, window_ms, names_max } = self;
        write!(
            formatter,
            "{partitions_count} partitions from number {first_partition} on, a window of {window_ms} ms and {names_max} names"
        )
    }
}

impl LogEntry {
    /// The entry that this node's settings make.
    pub fn of(log: &LogSettings) -> LogEntry {
        LogEntry {
            first_partition: log.first_partition.0,
            partitions_count: log.partitions_count,
            window_ms: WINDOW_MS,
            names_max: NAMES_MAX as u64,
        }
    }

    /// The key and the value.
    pub fn written(&self, name: &str) -> (String, Vec<u8>) {
        (format!("{LOG}{name}"), json(self))
    }
}

impl TicketsEntry {
    /// The key and the value.
    pub fn written(&self) -> (String, Vec<u8>) {
        (TICKETS.to_owned(), json(self))
    }
}

/// Key and value of a change; without a value, the key is to be removed.
pub fn written(change: &Change) -> (String, Option<Vec<u8>>) {
    match change {
        Change::Revoked { revoked, issued_before_s, ends_s } => {
            let entry = RevocationEntry { issued_before: *issued_before_s, ends: *ends_s };
            (revocation_key(revoked), Some(json(&entry)))
        }
        Change::Cancelled(revoked) => (revocation_key(revoked), None),
    }
}

/// The change that makes this revocation at another node.
pub fn change_of(revocation: &Revocation) -> Change {
    Change::Revoked {
        revoked: revocation.revoked.clone(),
        issued_before_s: revocation.issued_before_s,
        ends_s: revocation.ends_s,
    }
}

fn revocation_key(revoked: &Revoked) -> String {
    let rest = match revoked {
        Revoked::Token(jti) => format!("jti/{jti}"),
        Revoked::Subject { issuer: None, subject } => format!("sub/{subject}"),
        Revoked::Subject { issuer: Some(issuer), subject } => {
            // No separator is safe: both may have any characters.
            let text = serde_json::Value::from(vec![&**issuer, &**subject]);
            format!("user/{text}")
        }
        Revoked::Key(kid) => format!("kid/{kid}"),
        Revoked::All => "all".to_owned(),
    };
    format!("{REVOCATION}{rest}")
}

fn revoked_of(text: &str) -> Option<Revoked> {
    let revoked = match text.split_once('/') {
        None if text == "all" => Revoked::All,
        Some(("jti", jti)) => Revoked::Token(jti.into()),
        Some(("sub", subject)) => Revoked::subject(subject),
        Some(("kid", kid)) => Revoked::Key(kid.into()),
        Some(("user", user)) => {
            let [issuer, subject]: [String; 2] = serde_json::from_str(user).ok()?;
            Revoked::Subject { issuer: Some(issuer.into()), subject: subject.into() }
        }
        _ => return None,
    };
    revoked.is_named().then_some(revoked)
}

fn json(value: &impl Serialize) -> Vec<u8> {
    // These structures have string keys and finite numbers only.
    serde_json::to_vec(value).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(key: &str, value: Option<&str>) -> Entry {
        Entry { key: key.into(), value: value.map(|it| it.as_bytes().to_vec()), time_ms: 1 }
    }

    #[test]
    fn changes_come_back_as_written() {
        let user = |issuer: Option<&str>, subject: &str| Revoked::Subject {
            issuer: issuer.map(Into::into),
            subject: subject.into(),
        };
        for revoked in [
            Revoked::Token("a/b".into()),
            user(None, "anna/x"),
            user(Some("https://id.example/"), "anna\"]"),
            Revoked::Key("2026-01".into()),
            Revoked::All,
        ] {
            let change =
                Change::Revoked { revoked: revoked.clone(), issued_before_s: 5, ends_s: 9 };
            for change in [change, Change::Cancelled(revoked)] {
                let (key, value) = written(&change);
                let entry = Entry { key, value, time_ms: 1 };
                assert_eq!(entry.meaning(), Some(Meaning::Revocation(change)));
            }
        }
    }

    #[test]
    fn what_is_not_known_has_no_meaning() {
        for (key, value) in [
            ("", None),
            ("later/x", Some("{}")),
            ("node/a", Some("[]")),
            ("node/a", Some("{}")),
            ("log/a", None),
            ("log/a", Some("{\"first_partition\":-1}")),
            ("revocation/", Some("{}")),
            ("revocation/jti/", Some("{\"issued_before\":0,\"ends\":9}")),
            ("revocation/jti/a", Some("{\"issued_before\":0}")),
            ("revocation/user/[\"a\"]", None),
            ("revocation/everyone", None),
            ("tickets", None),
            ("tickets", Some("{\"revoked_before\":-1}")),
            ("tickets/a", Some("{\"revoked_before\":1}")),
        ] {
            assert_eq!(entry(key, value).meaning(), None, "{key}");
        }
    }

    #[test]
    fn a_newer_node_may_write_more() {
        let report = entry("node/a", Some("{\"run\":\"1\",\"moons\":3}")).meaning();
        let expected = NodeEntry { run: "1".into(), ..NodeEntry::default() };
        assert_eq!(report, Some(Meaning::Node("a".into(), Some(expected))));
        assert_eq!(entry("node/a", None).meaning(), Some(Meaning::Node("a".into(), None)));
    }
}

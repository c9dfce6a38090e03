//! Sessions of MQTT: what their clients asked for and received, and its comparison with the log at
//! the end of the world.
//!
//! A PUBLISH packet has no position, so clients report publications, and the offsets come from
//! other clients and from the auditor, who reads all history.

mod groups;
mod judge;
mod wills;

pub use groups::{GroupDelivery, GroupEnd, GroupSpan, MqttGroup};
pub use wills::{Fate, WillEnd};

use super::Source;

/// The claims of all clients of MQTT.
#[derive(Default)]
pub struct MqttModel {
    /// All sessions, each from its begin to its end.
    pub sessions: Vec<MqttSession>,
    /// Groups of shared subscriptions.
    pub groups: Vec<MqttGroup>,
    /// Acknowledged publications: who got the acknowledgement, and the moment.
    pub accepted: Vec<(usize, Source, u64)>,
    /// Wills of accepted connections.
    pub wills: Vec<WillEnd>,
    /// The end of the faults: the moment, and virtual milliseconds.
    pub calm: Option<(u64, u64)>,
    /// The node drains: it ends connections.
    pub is_draining: bool,
    /// The last end of a node, in virtual milliseconds.
    pub died_at_ms: Option<u64>,
    /// Whether messages with QoS 2 stay exactly once over a crash, where session and topic are on
    /// disk.
    pub is_qos2_exact_over_crashes: bool,
    /// Events, so that a sweep shows its coverage.
    pub counts: MqttCounts,
    /// Publications that nodes gave up because a home had no room.
    pub given_up: u64,
}

/// Events of all clients.
#[derive(Clone, Copy, Debug, Default)]
pub struct MqttCounts {
    /// Sessions that continued.
    pub continued: u64,
    /// The part of these whose connection was taken over.
    pub took_over: u64,
    /// Messages with DUP.
    pub repeats: u64,
    /// Messages.
    pub deliveries: u64,
    /// Messages that overlapping filters brought more than once.
    pub overlaps: u64,
    /// Publications with QoS 1 and 2 that were acknowledged.
    pub accepted: u64,
    /// Publications that were sent again.
    pub resent: u64,
    /// Retained messages for new subscriptions.
    pub retained: u64,
    /// Identifiers that a node used again after it had died, while the client waited for PUBREL.
    pub ids_reused: u64,
    /// Messages to members of groups.
    pub shared: u64,
    /// The part of these that another connection had before.
    pub handed_on: u64,
}

/// One session, over all its connections.
#[derive(Clone, Debug, Default)]
pub struct MqttSession {
    /// The client.
    pub client: usize,
    /// Its subscriptions, one for each time that a filter was granted.
    pub subscriptions: Vec<MqttSubscription>,
    /// Its messages with their first and further deliveries, without retained ones.
    pub deliveries: Vec<Delivered>,
    /// The same, of which no order is known.
    pub without_order: Vec<Delivered>,
    /// Retained messages for new subscriptions: the topic, the offset that was known, and the
    /// publication that came.
    pub retained: Vec<(usize, u64, Source, usize)>,
}

/// A granted subscription.
#[derive(Clone, Debug)]
pub struct MqttSubscription {
    /// The filter.
    pub filter: String,
    /// The highest QoS.
    pub qos: u8,
    /// The client's own publications are left out.
    pub is_no_local: bool,
    /// Topics that the client also subscribes to by name, with QoS 0, which then counts.
    pub weakened: Vec<String>,
    /// No other subscription of the client can match the same topics.
    pub is_alone: bool,
    /// The moment of its answer.
    pub since: u64,
    /// The virtual time of its answer, in milliseconds.
    pub since_ms: u64,
    /// The moment of its end; none: it lasted to the end of the world.
    pub until: Option<u64>,
}

/// A delivery.
#[derive(Clone, Copy, Debug)]
pub struct Delivered {
    /// The publication.
    pub publication: usize,
    /// The topic.
    pub topic: usize,
    /// The QoS of the packet.
    pub qos: u8,
    /// The client's connection.
    pub connection: u32,
    /// The node of the connection.
    pub instance: u32,
    /// The session had it before.
    pub is_repeat: bool,
    /// The moment.
    pub moment: u64,
}

impl MqttModel {
    /// Begins a session; returns its number.
    pub fn begin(&mut self, client: usize) -> usize {
        self.sessions.push(MqttSession { client, ..MqttSession::default() });
        self.sessions.len() - 1
    }
}

//! State of a client: of its session, and of one connection.

use super::wills::Will;
use crate::network::LinkId;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use wire::mqtt::PacketId;

/// The client's part of a session.
#[derive(Default)]
pub(super) struct Session {
    /// Its number in the oracle.
    pub number: usize,
    /// Granted subscriptions by filter: their numbers in the oracle.
    pub granted: BTreeMap<String, usize>,
    /// Filters that were ever asked for.
    pub asked: BTreeSet<String>,
    /// Those of the sessions before, which come back if the log lacks the record of this one.
    pub former_asked: BTreeSet<String>,
    /// Publications with QoS 1 and 2 that are not over, in order.
    pub outgoing: VecDeque<Outgoing>,
    /// Identifiers of messages with QoS 2 that the node has not released, and their publications.
    pub received: BTreeMap<u16, usize>,
    /// Publications that came, without retained messages for new subscriptions.
    pub seen: BTreeMap<usize, Seen>,
    /// Publications that came as such.
    pub retained_seen: BTreeSet<usize>,
    last_id: u16,
    /// The connection that began it.
    pub began: u32,
    /// Its first publications are those of a session that the node has lost.
    pub is_republished: bool,
}

/// A publication with QoS 1 or 2 that is not over.
#[derive(Clone, Copy, Debug)]
pub(super) struct Outgoing {
    pub id: PacketId,
    pub publication: usize,
    pub qos: u8,
    /// PUBREC has come.
    pub is_received: bool,
    /// The connection on which it was sent last.
    pub connection: u32,
}

/// The newest delivery of a publication.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seen {
    pub id: Option<u16>,
    pub connection: u32,
    pub instance: u32,
    /// Deliveries without DUP.
    pub times: u32,
    /// The node may have forgotten it since.
    pub is_excused: bool,
}

/// State of one connection.
#[derive(Default)]
pub(super) struct Line {
    /// The connection's number among those of the client.
    pub number: u32,
    /// The client's Receive Maximum.
    pub receive_max: u16,
    /// The node's Receive Maximum.
    pub node_receive_max: u16,
    /// The greatest alias that the node accepts, and topics by alias.
    pub alias_max: u16,
    pub aliases: BTreeMap<u16, usize>,
    /// Identifiers of messages that the client has not acknowledged in full here.
    pub open: BTreeMap<u16, Open>,
    /// Acknowledgements that are due, in order: the time, the packet, and the identifier.
    pub answers: VecDeque<(u64, Answer, PacketId)>,
    /// SUBSCRIBE packets without an answer.
    pub subscribing: BTreeMap<u16, Asked>,
    /// UNSUBSCRIBE packets without an answer.
    pub unsubscribing: BTreeSet<u16>,
    /// Retained messages that are due: the topic, and the known offset.
    pub retained: BTreeMap<usize, u64>,
    /// The offsets that were known when the connection first asked for the retained message of a
    /// topic. Its answer may come late, and also behind the next SUBACK.
    pub first_known: BTreeMap<usize, u64>,
    pub asked_ms: u64,
    /// CONNACK has come.
    pub is_accepted: bool,
    /// The end of the connection for the client.
    pub lost_ms: Option<u64>,
    pub is_clean: bool,
    pub expiry_s: u32,
    /// The will of CONNECT, until CONNACK.
    pub will: Option<Will>,
    pub link: Option<LinkId>,
    /// DISCONNECT is on its way; the moment at which the client has sent it, the lifetime that it
    /// has, and whether that is sure.
    pub is_leaving: bool,
    pub left_at: Option<u64>,
    pub changed_expiry: Option<(u32, bool)>,
    pub withdraws_will: bool,
    /// The client has closed the connection behind DISCONNECT.
    pub has_left: bool,
}

/// A SUBSCRIBE packet.
#[derive(Default)]
pub(super) struct Asked {
    /// Places among the wishes.
    pub wishes: Vec<usize>,
    /// Those that the client has unsubscribed from since: the answer grants nothing that lasts.
    pub ended: BTreeSet<usize>,
    /// Retained messages that are due: the topic, and the known offset.
    pub retained: BTreeMap<usize, u64>,
}

/// An identifier of the node that is in use.
#[derive(Clone, Copy, Debug)]
pub(super) struct Open {
    pub publication: usize,
    /// PUBLISH came on this connection, and not only PUBREL.
    pub is_published: bool,
}

/// An acknowledgement of the client.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Answer {
    /// PUBACK.
    Ack,
    /// PUBREC.
    Received,
    /// PUBCOMP.
    Complete,
}

impl Session {
    /// The next identifier that is not in use, on this connection.
    pub fn next_id(&mut self, line: &Line) -> PacketId {
        loop {
            self.last_id = self.last_id.checked_add(1).unwrap_or(1);
            let id = self.last_id;
            let is_used = self.outgoing.iter().any(|outgoing| outgoing.id.get() == id)
                || line.subscribing.contains_key(&id)
                || line.unsubscribing.contains(&id);
            if let Some(id) = PacketId::new(id).filter(|_| !is_used) {
                return id;
            }
        }
    }

    /// The exchange that is not over; none if all are.
    pub fn waits(&self) -> Option<String> {
        if let Some(outgoing) = self.outgoing.front() {
            return Some(format!("{outgoing:?} is not over"));
        }
        let (id, publication) = self.received.first_key_value()?;
        Some(format!("PUBREL of {id}, publication {publication}, has not come"))
    }
}

impl Line {
    /// The missing answer; none if all have come.
    pub fn waits(&self) -> Option<String> {
        if !self.answers.is_empty() {
            return Some("the client has not acknowledged everything".into());
        }
        if let Some(id) = self.subscribing.keys().chain(&self.unsubscribing).next() {
            return Some(format!("packet {id} has no answer"));
        }
        let (topic, offset) = self.retained.first_key_value()?;
        Some(format!("the retained message of topic {topic}, known at {offset}, has not come"))
    }
}

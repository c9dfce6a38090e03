//! The common part of all clients of MQTT of a worker: CONNECT and its answer, packets, pings.
//!
//! Place: under the subscribers and the publishers. State: a byte for each client.

use std::fmt::Write as _;

use wire::Step;
use wire::mqtt::{
    Ack, ClientPacket, ConnAck, Connect, Disconnect, Limits, Properties, Property, Secret,
    ServerPacket, Version,
};

use super::options::MqttOptions;
use super::pings::Pings;
use crate::engine::protocol::Turn;
use crate::payload::seed_from_entropy;
use crate::tokens::WorkerTokens;

/// The longest packet taken, in bytes.
const PACKET_BYTES_MAX: u32 = 16 * 1024 * 1024;

/// The names of the clients of a run.
#[derive(Clone, Copy, Debug)]
pub(in crate::engine) struct ClientIds {
    /// The random part, which keeps two runs at one server apart.
    run: u32,
}

impl ClientIds {
    pub(in crate::engine) fn new() -> ClientIds {
        ClientIds { run: seed_from_entropy() as u32 }
    }

    fn write(self, client: u64, into: &mut String) {
        into.clear();
        // Writing to a string cannot fail.
        let _ = write!(into, "{:08x}-{client}", self.run);
    }
}

/// The clients of a worker.
pub(in crate::engine) struct Speech {
    pub(super) version: Version,
    keep_alive_s: u16,
    /// The time for which a session outlives its connection; 0: it ends with that.
    session_expiry_s: u32,
    ids: ClientIds,
    shown: WorkerTokens,
    is_open: Vec<bool>,
    pings: Pings,
    id: String,
}

impl Speech {
    /// Up to so many clients, each with what it shows as its password.
    pub(in crate::engine) fn new(
        options: MqttOptions,
        ids: ClientIds,
        shown: WorkerTokens,
        clients: u32,
    ) -> Speech {
        let keep_alive_s = options.keep_alive_s();
        Speech {
            version: options.mqtt_version.codec(),
            keep_alive_s,
            session_expiry_s: options.session_expiry_s(),
            ids,
            shown,
            is_open: Vec::new(),
            pings: Pings::new(clients, keep_alive_s),
            id: String::new(),
        }
    }

    /// Whether sessions outlive their connections.
    pub(super) fn keeps_sessions(&self) -> bool {
        self.session_expiry_s > 0
    }

    /// Sends CONNECT.
    pub(super) fn begin(&mut self, place: u32, turn: &mut Turn<'_>) {
        self.ids.write(self.shown.client(place), &mut self.id);
        let token = self.shown.token(place);
        let expiry = [Property::SessionExpiry(self.session_expiry_s)];
        let has_expiry = self.keeps_sessions() && self.version.has_properties();
        let properties = if has_expiry { expiry[..].into() } else { Properties::default() };
        let connect = Connect {
            version: self.version,
            clean_start: !self.keeps_sessions(),
            keep_alive_s: self.keep_alive_s,
            properties,
            client_id: &self.id,
            will: None,
            // Version 3 has a password only behind a user name.
            user_name: token.map(|_| "bench"),
            password: token.map(|token| Secret(token.as_bytes())),
        };
        send(&ClientPacket::Connect(connect), self.version, place, turn);
    }

    /// The next packet at the front of `bytes` and its length; `None` while it is unfinished.
    pub(super) fn next<'a>(
        &self,
        bytes: &'a [u8],
    ) -> Result<Option<(ServerPacket<'a>, usize)>, String> {
        if bytes.is_empty() {
            return Ok(None);
        }
        match ServerPacket::decode(self.version, PACKET_BYTES_MAX, bytes) {
            Ok(Step::Done { value, consumed }) => Ok(Some((value, consumed))),
            Ok(Step::More { .. }) => Ok(None),
            Err(error) => Err(error.to_string()),
        }
    }

    /// The answer to CONNECT: the client is open.
    pub(super) fn opened(&mut self, place: u32, answer: &ConnAck<'_>) -> Result<(), String> {
        if answer.reason.is_failure() {
            return Err(format!("the server refused the client: {}", answer.reason));
        }
        if let Some(keep_alive_s) = answer.properties.server_keep_alive_s() {
            self.pings.agree(keep_alive_s);
        }
        let len = (place as usize + 1).max(self.is_open.len());
        self.is_open.resize(len, false);
        self.is_open[place as usize] = true;
        Ok(())
    }

    /// The connection is gone.
    pub(super) fn lost(&mut self, place: u32) {
        if let Some(is_open) = self.is_open.get_mut(place as usize) {
            *is_open = false;
        }
    }

    /// The time of the next ping.
    pub(super) fn wake_ns(&self) -> Option<u64> {
        self.pings.wake_ns()
    }

    /// Sends the pings that are due.
    pub(super) fn tick(&mut self, turn: &mut Turn<'_>) {
        let mut count = 0;
        while let Some(place) = self.pings.due(turn.now_ns, count) {
            count += 1;
            if self.is_open.get(place as usize).is_some_and(|is_open| *is_open) {
                send(&ClientPacket::PingReq, self.version, place, turn);
            }
        }
    }

    /// Acknowledges a message of QoS 1.
    pub(super) fn acknowledge(&self, ack: &Ack<'_>, place: u32, turn: &mut Turn<'_>) {
        send(&ClientPacket::PubAck(*ack), self.version, place, turn);
    }
}

/// Appends a packet to the client's output.
pub(super) fn send(packet: &ClientPacket<'_>, version: Version, place: u32, turn: &mut Turn<'_>) {
    if let Err(error) = packet.encode(version, &Limits::default(), turn.to(place)) {
        turn.tally.trouble = Some(format!("cannot encode a packet: {error}"));
    }
}

/// The reason of a connection that the server ends.
pub(super) fn farewell(disconnect: &Disconnect<'_>) -> String {
    format!("the server ended the connection: {}", disconnect.reason)
}

/// The reason of a connection that ends because the server sent such a packet.
pub(super) fn unexpected(packet: &ServerPacket<'_>) -> String {
    let name = match packet {
        ServerPacket::ConnAck(_) => "CONNACK",
        ServerPacket::Publish(_) => "PUBLISH",
        ServerPacket::PubAck(_) => "PUBACK",
        ServerPacket::PubRec(_) => "PUBREC",
        ServerPacket::PubRel(_) => "PUBREL",
        ServerPacket::PubComp(_) => "PUBCOMP",
        ServerPacket::SubAck(_) => "SUBACK",
        ServerPacket::UnsubAck(_) => "UNSUBACK",
        ServerPacket::PingResp => "PINGRESP",
        ServerPacket::Disconnect(_) => "DISCONNECT",
        ServerPacket::Auth(_) => "AUTH",
    };
    format!("the server sent an unexpected {name}")
}

//! Planted bugs of MQTT: in what edges and homes tell each other of sessions, and in packets.
//!
//! The traps are those that other brokers have fallen into.

use super::{Mutation, Saboteur};
use crate::network::LinkId;
use broker::mail::{
    GroupLetter, GroupRequest, Leave, Member, PartitionCursor, Publish, ToEdge, ToHome,
};
use std::collections::{BTreeMap, BTreeSet};
use wire::codec::Step;
use wire::mqtt::{
    Ack, Attempt, ClientPacket, Delivery, Limits, PACKET_BYTES_MAX, PacketId, ReasonCode,
    ServerPacket, Version, announced_version,
};

/// Memory of a saboteur of MQTT.
#[derive(Default)]
pub(super) struct OfMqtt {
    /// Edges where a connection has just lost its name.
    taken_over: BTreeSet<u16>,
    taps: BTreeMap<LinkId, Tap>,
}

/// A connection whose packets are changed.
#[derive(Default)]
struct Tap {
    version: Option<Version>,
    to_node: Vec<u8>,
    to_client: Vec<u8>,
    last_id: Option<PacketId>,
}

impl Saboteur {
    /// Intercepts a letter to an edge.
    pub(super) fn on_mqtt_letter(&mut self, to: u16, letter: &mut ToEdge) {
        match (letter, self.mutation) {
            (ToEdge::TakenOver { .. }, Some(Mutation::LoseWill)) => {
                self.of_mqtt.taken_over.insert(to);
            }
            (ToEdge::RetainedFound(found), Some(Mutation::LackRetained))
                if !found.records.is_empty() && self.strikes() =>
            {
                found.records.pop();
            }
            (ToEdge::Group(GroupLetter::Message(message)), Some(Mutation::LoseShared))
                if self.strikes() =>
            {
                message.member.number = Member::ASLEEP;
            }
            _ => {}
        }
    }

    /// Intercepts a request of an edge.
    pub(super) fn on_mqtt_request(&mut self, from: u16, request: &mut ToHome) {
        match (request, self.mutation) {
            (ToHome::Publish(publish), Some(Mutation::LoseWill)) => self.lose_will(from, publish),
            (ToHome::Claim(claim), Some(Mutation::InheritClean)) if claim.is_clean => {
                self.strikes += 1;
                claim.is_clean = false;
            }
            (ToHome::Group(request), Some(mutation)) => self.on_group_request(request, mutation),
            (ToHome::Leave(Leave { session: Some(session), .. }), Some(mutation)) => match mutation
            {
                Mutation::LoseReleases if session.open.iter().any(|open| open.is_received) => {
                    self.strikes += 1;
                    session.open.retain(|open| !open.is_received);
                }
                Mutation::LoseInflight if !session.open.is_empty() => {
                    self.strikes += 1;
                    session.open.clear();
                }
                Mutation::ForgetReceived if !session.received.is_empty() => {
                    self.strikes += 1;
                    session.received.clear();
                }
                Mutation::InheritExpired if session.expires_ms < u64::MAX => {
                    self.strikes += 1;
                    session.expires_ms = u64::MAX;
                }
                Mutation::CursorAhead => {
                    let own = session.subscriptions.iter_mut();
                    let own = own.flat_map(|it| it.cursors.iter_mut());
                    let all: Vec<&mut PartitionCursor> =
                        own.chain(session.through.iter_mut()).collect();
                    self.strikes += u32::from(!all.is_empty());
                    all.into_iter().for_each(|cursor| cursor.position.offset += 1);
                }
                _ => {}
            },
            _ => {}
        }
    }

    fn on_group_request(&mut self, request: &mut GroupRequest, mutation: Mutation) {
        match (request, mutation) {
            (GroupRequest::Done(done), Mutation::LoseReturned) if done.is_returned => {
                self.strikes += 1;
                done.is_returned = false;
            }
            (GroupRequest::Done(done), Mutation::ForgetDone)
                if !done.is_returned && self.strikes() =>
            {
                done.number = Member::ASLEEP;
            }
            (GroupRequest::Leave(leave), Mutation::ForgetSleeper) if leave.until_ms > 0 => {
                self.strikes += 1;
                leave.until_ms = 0;
            }
            _ => {}
        }
    }

    /// A will has no address for an answer.
    fn lose_will(&mut self, from: u16, publish: &mut Publish) {
        if publish.reply.is_none() && self.of_mqtt.taken_over.remove(&from) {
            self.strikes += 1;
            publish.publication.topic = stdx::chunk::Slice::copy_of(b"$lost");
        }
    }

    /// Whether packets are changed.
    fn taps(&self) -> bool {
        self.mutation.is_some_and(Mutation::changes_packets)
    }

    /// Intercepts bytes of a client; returns those for the node, and those for the client.
    pub(crate) fn on_mqtt_send(&mut self, link: LinkId, bytes: &[u8]) -> (Vec<u8>, Vec<u8>) {
        if !self.taps() {
            return (bytes.to_vec(), Vec::new());
        }
        let mut tap = self.of_mqtt.taps.remove(&link).unwrap_or_default();
        tap.to_node.extend_from_slice(bytes);
        let is_other = tap.version.is_none() && tap.to_node.first() != Some(&0x10);
        if is_other {
            let passed = std::mem::take(&mut tap.to_node);
            return (passed, Vec::new()); // another protocol
        }
        let (mut to_node, mut to_client) = (Vec::new(), Vec::new());
        loop {
            let input = std::mem::take(&mut tap.to_node);
            let Ok(Step::Done { value, consumed }) =
                ClientPacket::decode(tap.version, PACKET_BYTES_MAX, &input)
            else {
                tap.to_node = input;
                break;
            };
            let raw = &input[..consumed];
            tap.version = tap.version.or(announced_version(raw));
            match value {
                ClientPacket::Disconnect(packet)
                    if self.mutation == Some(Mutation::WillAfterDisconnect)
                        && packet.reason == ReasonCode::Success
                        && tap.version == Some(Version::V5)
                        && consumed == 2 =>
                {
                    self.strikes += 1;
                    to_node.extend_from_slice(&[raw[0], 1, ReasonCode::DisconnectWithWill.byte()]);
                }
                ClientPacket::Publish(publish)
                    if self.mutation == Some(Mutation::DupIsKnown)
                        && publish.properties.topic_alias().is_none()
                        && let Delivery::One(Attempt { packet_id, is_repeat: true }) =
                            publish.delivery =>
                {
                    self.strikes += 1;
                    let packet = ServerPacket::PubAck(Ack::success(packet_id));
                    let version = tap.version.unwrap_or(Version::V5);
                    let _ = packet.encode(version, &Limits::default(), &mut to_client);
                }
                _ => to_node.extend_from_slice(raw),
            }
            tap.to_node = input[consumed..].to_vec();
        }
        self.of_mqtt.taps.insert(link, tap);
        (to_node, to_client)
    }

    /// Intercepts bytes of the node.
    pub(crate) fn on_mqtt_write(&mut self, link: LinkId, bytes: Vec<u8>) -> Vec<u8> {
        let Some(mut tap) = self.of_mqtt.taps.remove(&link) else {
            return bytes;
        };
        let Some(version) = tap.version else {
            self.of_mqtt.taps.insert(link, tap);
            return bytes;
        };
        tap.to_client.extend_from_slice(&bytes);
        let mut out = Vec::new();
        loop {
            let input = std::mem::take(&mut tap.to_client);
            let Ok(Step::Done { value, consumed }) =
                ServerPacket::decode(version, PACKET_BYTES_MAX, &input)
            else {
                tap.to_client = input;
                break;
            };
            let changed = self.change_packet(&mut tap.last_id, value);
            match changed {
                Some(packet) => _ = packet.encode(version, &Limits::default(), &mut out),
                None => out.extend_from_slice(&input[..consumed]),
            }
            tap.to_client = input[consumed..].to_vec();
        }
        self.of_mqtt.taps.insert(link, tap);
        out
    }

    /// Another packet for a client; none if it stays.
    fn change_packet<'a>(
        &mut self,
        last_id: &mut Option<PacketId>,
        packet: ServerPacket<'a>,
    ) -> Option<ServerPacket<'a>> {
        match (packet, self.mutation) {
            (ServerPacket::ConnAck(mut connack), Some(Mutation::LieAboutSession))
                if connack.reason == ReasonCode::Success && self.strikes() =>
            {
                connack.session_present = !connack.session_present;
                Some(ServerPacket::ConnAck(connack))
            }
            (ServerPacket::Publish(mut publish), Some(mutation)) => {
                let attempt = publish.delivery.attempt()?;
                let mut changed = attempt;
                match mutation {
                    Mutation::RepeatWithoutDup => changed.is_repeat = false,
                    Mutation::SharedId => {
                        changed.packet_id = last_id.replace(attempt.packet_id)?;
                    }
                    _ => {}
                }
                self.strikes += u32::from(changed != attempt);
                publish.delivery = match publish.delivery {
                    Delivery::Two(_) => Delivery::Two(changed),
                    Delivery::One(_) | Delivery::Zero => Delivery::One(changed),
                };
                (changed != attempt).then_some(ServerPacket::Publish(publish))
            }
            _ => None,
        }
    }
}

//! Publications of MQTT: with QoS 1 where each has an answer, else with QoS 0.
//!
//! Place: under [`crate::engine::publishers`]. A packet identifier is the publication's number,
//! modulo the identifiers that exist; so an answer names its publication.

use wire::mqtt::{
    Ack, Attempt, ClientPacket, Delivery, PacketId, Properties, Publish, ServerPacket,
};

use super::speech::{Speech, farewell, send, unexpected};
use crate::engine::protocol::Turn;
use crate::engine::publishing::{Meaning, Publication, Publishing};

/// Packet identifiers: 1 to 65,535.
const IDS: u32 = u16::MAX as u32;

/// The publishing connections of a worker.
pub(in crate::engine) struct MqttPublishing {
    speech: Speech,
    links: Vec<Link>,
}

/// The state of a connection.
#[derive(Clone, Copy)]
struct Link {
    /// The number of the last publication.
    last_request: u32,
    /// Unanswered publications that the server permits.
    inflight_max: u16,
}

impl Default for Link {
    fn default() -> Link {
        Link { last_request: 0, inflight_max: u16::MAX }
    }
}

impl MqttPublishing {
    pub(in crate::engine) fn new(speech: Speech, connections: u32) -> MqttPublishing {
        MqttPublishing { speech, links: vec![Link::default(); connections as usize] }
    }

    /// An answer to a publication.
    fn answered(&self, place: u32, ack: &Ack<'_>, turn: &mut Turn<'_>) -> Meaning {
        let is_good = !ack.reason.is_failure();
        if !is_good {
            turn.tally.refused += 1;
            turn.tally.trouble = Some(format!("refused: {}", ack.reason));
        }
        let last = self.links[place as usize].last_request;
        Meaning::Answer { request: request_of(ack.packet_id, last), is_good }
    }
}

impl Publishing for MqttPublishing {
    fn begin(&mut self, place: u32, turn: &mut Turn<'_>) {
        self.links[place as usize] = Link::default();
        self.speech.begin(place, turn);
    }

    fn next(
        &mut self,
        place: u32,
        bytes: &mut [u8],
        turn: &mut Turn<'_>,
    ) -> Result<Option<(Meaning, usize)>, String> {
        let Some((packet, length)) = self.speech.next(bytes)? else {
            return Ok(None);
        };
        let meaning = match &packet {
            ServerPacket::ConnAck(answer) => {
                self.speech.opened(place, answer)?;
                if let Some(receive_max) = answer.properties.receive_maximum() {
                    self.links[place as usize].inflight_max = receive_max.get();
                }
                Meaning::Opened
            }
            ServerPacket::PubAck(ack) => self.answered(place, ack, turn),
            ServerPacket::PingResp => Meaning::Nothing,
            ServerPacket::Disconnect(disconnect) => return Err(farewell(disconnect)),
            ServerPacket::Publish(_)
            | ServerPacket::PubRec(_)
            | ServerPacket::PubRel(_)
            | ServerPacket::PubComp(_)
            | ServerPacket::SubAck(_)
            | ServerPacket::UnsubAck(_)
            | ServerPacket::Auth(_) => return Err(unexpected(&packet)),
        };
        Ok(Some((meaning, length)))
    }

    fn lost(&mut self, place: u32) {
        self.speech.lost(place);
    }

    fn publish(&mut self, place: u32, publication: &Publication<'_>, turn: &mut Turn<'_>) {
        let delivery = match id_of(publication.request) {
            None => Delivery::Zero,
            Some(packet_id) => {
                self.links[place as usize].last_request = publication.request;
                Delivery::One(Attempt { packet_id, is_repeat: false })
            }
        };
        let publish = Publish {
            delivery,
            retain: false,
            topic: publication.topic,
            properties: Properties::default(),
            payload: publication.payload,
        };
        send(&ClientPacket::Publish(publish), self.speech.version, place, turn);
    }

    fn inflight_max(&self, place: u32) -> usize {
        usize::from(self.links[place as usize].inflight_max)
    }

    fn wake_ns(&self) -> Option<u64> {
        self.speech.wake_ns()
    }

    fn tick(&mut self, turn: &mut Turn<'_>) {
        self.speech.tick(turn);
    }
}

/// The identifier of a publication; none for number 0, which has no answer.
fn id_of(request: u32) -> Option<PacketId> {
    PacketId::new((request.checked_sub(1)? % IDS + 1) as u16)
}

/// The newest publication with this identifier, if `last` is the newest of all.
fn request_of(id: PacketId, last: u32) -> u32 {
    let newest = id_of(last).map_or(0, |newest| u32::from(newest.get()));
    let back = (newest + IDS - u32::from(id.get())) % IDS;
    last.saturating_sub(back)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identifiers_name_publications() {
        for (request, id) in [(0, 0), (1, 1), (65_535, 65_535), (65_536, 1), (131_071, 1)] {
            assert_eq!(id_of(request).map_or(0, PacketId::get), id, "{request}");
        }
        for last in [1, 2, 300, 65_535, 65_536, 65_600, 200_000] {
            for request in last.max(256) - 255..=last {
                assert_eq!(request_of(id_of(request).unwrap(), last), request, "{request} {last}");
            }
        }
        // An identifier that was never used names no publication.
        assert_eq!(request_of(PacketId::new(9).unwrap(), 3), 0);
    }
}

//! The publications under way of `mqtt pub`, and what their answers mean. Pure.

use std::collections::BTreeMap;
use std::num::NonZeroU16;
use wire::mqtt::{Ack, Attempt, ClientPacket, Delivery, PacketId, Qos, ServerPacket};

/// Publications under way, of a client that wants fewer than the server permits.
const WINDOW_MAX: u16 = 512;

/// The publications under way.
#[derive(Debug)]
pub struct Window {
    room: usize,
    last_id: u16,
    open: BTreeMap<PacketId, Open>,
}

/// One of them: the number of its message, from 1, and its stage.
#[derive(Clone, Copy, Debug)]
struct Open {
    number: u64,
    stage: Stage,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Stage {
    /// PUBLISH with QoS 1 was sent.
    One,
    /// PUBLISH with QoS 2 was sent.
    Two,
    /// PUBREL was sent.
    Released,
}

/// The meaning of a packet.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Answer<'a> {
    /// The packet does not answer a publication.
    None,
    /// The client answers with this packet.
    Reply(ClientPacket<'a>),
    /// The exchange is over.
    Done,
    /// The server refuses the message with this number.
    Refused(u64, Ack<'a>),
}

impl Window {
    /// A window for a server that permits so many.
    pub fn new(receive_max: u16) -> Window {
        Window { room: receive_max.min(WINDOW_MAX).into(), last_id: 0, open: BTreeMap::new() }
    }

    /// Whether another publication may begin.
    pub fn has_room(&self) -> bool {
        self.open.len() < self.room
    }

    /// Number of publications without an answer.
    pub fn len(&self) -> usize {
        self.open.len()
    }

    /// Begins to publish the message with this number.
    pub fn begin(&mut self, number: u64, qos: Qos) -> Delivery {
        let stage = match qos {
            Qos::Zero => return Delivery::Zero,
            Qos::One => Stage::One,
            Qos::Two => Stage::Two,
        };
        let packet_id = self.next_id();
        self.open.insert(packet_id, Open { number, stage });
        let attempt = Attempt { packet_id, is_repeat: false };
        if stage == Stage::One { Delivery::One(attempt) } else { Delivery::Two(attempt) }
    }

    /// An identifier that is not in use. There is room, so one exists.
    fn next_id(&mut self) -> PacketId {
        loop {
            self.last_id = self.last_id.wrapping_add(1);
            if let Some(id) = NonZeroU16::new(self.last_id)
                && !self.open.contains_key(&id)
            {
                return id;
            }
        }
    }

    /// Takes a packet from the server.
    pub fn answer<'a>(&mut self, packet: &ServerPacket<'a>) -> Answer<'a> {
        let (ack, stage) = match packet {
            ServerPacket::PubAck(ack) => (ack, Stage::One),
            ServerPacket::PubRec(ack) => (ack, Stage::Two),
            ServerPacket::PubComp(ack) => (ack, Stage::Released),
            ServerPacket::ConnAck(_)
            | ServerPacket::Publish(_)
            | ServerPacket::PubRel(_)
            | ServerPacket::SubAck(_)
            | ServerPacket::UnsubAck(_)
            | ServerPacket::PingResp
            | ServerPacket::Disconnect(_)
            | ServerPacket::Auth(_) => return Answer::None,
        };
        let Some(open) = self.open.get_mut(&ack.packet_id).filter(|open| open.stage == stage)
        else {
            return Answer::None;
        };
        if ack.reason.is_failure() {
            let number = open.number;
            self.open.remove(&ack.packet_id);
            return Answer::Refused(number, *ack);
        }
        if stage == Stage::Two {
            open.stage = Stage::Released;
            return Answer::Reply(ClientPacket::PubRel(Ack::success(ack.packet_id)));
        }
        self.open.remove(&ack.packet_id);
        Answer::Done
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::mqtt::{Properties, ReasonCode};

    fn ack(id: u16) -> Ack<'static> {
        Ack::success(PacketId::new(id).unwrap())
    }

    #[test]
    fn exchanges_end_with_their_last_packet() {
        let mut window = Window::new(2);
        assert_eq!(window.begin(1, Qos::Zero), Delivery::Zero);
        assert_eq!(window.begin(2, Qos::One).qos(), Qos::One);
        assert_eq!(window.begin(3, Qos::Two).qos(), Qos::Two);
        assert!(!window.has_room());
        assert_eq!(window.answer(&ServerPacket::PubAck(ack(2))), Answer::None);
        assert_eq!(window.answer(&ServerPacket::PubAck(ack(1))), Answer::Done);
        let reply = Answer::Reply(ClientPacket::PubRel(ack(2)));
        assert_eq!(window.answer(&ServerPacket::PubRec(ack(2))), reply);
        assert_eq!(window.answer(&ServerPacket::PubRec(ack(2))), Answer::None);
        assert_eq!(window.answer(&ServerPacket::PubComp(ack(2))), Answer::Done);
        assert_eq!(window.len(), 0);
    }

    #[test]
    fn refusals_name_the_message() {
        let mut window = Window::new(10);
        window.begin(7, Qos::One);
        let refused =
            Ack { reason: ReasonCode::NotAuthorized, properties: Properties::default(), ..ack(1) };
        assert_eq!(window.answer(&ServerPacket::PubAck(refused)), Answer::Refused(7, refused));
        assert_eq!(window.len(), 0);
    }

    #[test]
    fn identifiers_in_use_are_passed_over() {
        let mut window = Window::new(10);
        window.begin(1, Qos::One);
        window.last_id = u16::MAX - 1;
        let id = |delivery: Delivery| delivery.attempt().unwrap().packet_id.get();
        assert_eq!(id(window.begin(2, Qos::One)), u16::MAX);
        assert_eq!(id(window.begin(3, Qos::One)), 2);
    }
}

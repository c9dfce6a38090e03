//! The node's side of MQTT: QoS 0 and 1, topics without wildcards.

use std::sync::atomic::Ordering;

use wire::Step;
use wire::mqtt::{
    Ack, Attempt, ClientPacket, ConnAck, Delivery, Limits, PacketId, Properties, Property, Publish,
    Qos, ReasonCode, ServerPacket, SubAck, Version,
};

use super::support::Node;
use super::{MqttCounts, Plant, delivered};

/// Publications that a client may have under way.
const RECEIVE_MAX: u16 = 2;

/// One connection.
#[derive(Default)]
pub struct Session {
    version: Option<Version>,
    topics: Vec<(String, Qos)>,
    sent: u16,
    /// Messages that the client has acknowledged, and its pings, which are not counted yet.
    acknowledged: usize,
    pings: usize,
}

impl Session {
    /// Delivers and receives; whether a subscription was answered.
    pub fn serve(
        &mut self,
        input: &mut Vec<u8>,
        node: &mut Node,
        plant: Plant,
        seen: &mut usize,
        out: &mut Vec<u8>,
    ) -> bool {
        for index in delivered(node, *seen, plant) {
            let record = node.records[index].clone();
            *seen = (*seen).max(index + 1);
            self.deliver(&record.topic, &record.payload, out);
        }
        let bytes = std::mem::take(input);
        let mut consumed = 0;
        let mut is_subscribed = false;
        loop {
            let step = ClientPacket::decode(self.version, 1 << 20, &bytes[consumed..]).unwrap();
            let Step::Done { value, consumed: length } = step else {
                break;
            };
            consumed += length;
            is_subscribed |= matches!(value, ClientPacket::Subscribe(_));
            self.receive(&value, node, out);
        }
        input.extend_from_slice(&bytes[consumed..]);
        is_subscribed
    }

    /// Adds the counts since the last call.
    pub fn count(&mut self, counts: &MqttCounts) {
        counts.acknowledged.fetch_add(std::mem::take(&mut self.acknowledged), Ordering::AcqRel);
        counts.pings.fetch_add(std::mem::take(&mut self.pings), Ordering::AcqRel);
    }

    fn deliver(&mut self, topic: &str, payload: &[u8], out: &mut Vec<u8>) {
        let Some((_, qos)) = self.topics.iter().find(|(name, _)| name == topic) else {
            return;
        };
        let delivery = match qos {
            Qos::Zero => Delivery::Zero,
            Qos::One | Qos::Two => {
                self.sent += 1;
                let packet_id = PacketId::new(self.sent).unwrap();
                Delivery::One(Attempt { packet_id, is_repeat: false })
            }
        };
        let properties = Properties::default();
        let publish = Publish { delivery, retain: false, topic, properties, payload };
        self.send(&ServerPacket::Publish(publish), out);
    }

    fn receive(&mut self, packet: &ClientPacket<'_>, node: &mut Node, out: &mut Vec<u8>) {
        match packet {
            ClientPacket::Connect(connect) => {
                self.version = Some(connect.version);
                let maximum = [Property::ReceiveMaximum(RECEIVE_MAX.try_into().unwrap())];
                let properties = match connect.version {
                    Version::V5 => maximum[..].into(),
                    Version::V3_1 | Version::V3_1_1 => Properties::default(),
                };
                let reason = ReasonCode::Success;
                let answer = ConnAck { session_present: false, reason, properties };
                self.send(&ServerPacket::ConnAck(answer), out);
            }
            ClientPacket::Subscribe(subscribe) => {
                let mut reasons = Vec::new();
                for item in subscribe.items {
                    self.topics.push((item.filter.to_owned(), item.qos));
                    reasons.push(match item.qos {
                        Qos::Zero => ReasonCode::Success,
                        Qos::One | Qos::Two => ReasonCode::GrantedQos1,
                    });
                }
                let answer = SubAck {
                    packet_id: subscribe.packet_id,
                    properties: Properties::default(),
                    reasons: reasons.as_slice().into(),
                };
                self.send(&ServerPacket::SubAck(answer), out);
            }
            ClientPacket::Publish(publish) => {
                node.publish(publish.topic, publish.payload);
                if let Some(attempt) = publish.delivery.attempt() {
                    self.send(&ServerPacket::PubAck(Ack::success(attempt.packet_id)), out);
                }
            }
            ClientPacket::PubAck(_) => self.acknowledged += 1,
            ClientPacket::PingReq => {
                self.pings += 1;
                self.send(&ServerPacket::PingResp, out);
            }
            ClientPacket::PubRec(_)
            | ClientPacket::PubRel(_)
            | ClientPacket::PubComp(_)
            | ClientPacket::Unsubscribe(_)
            | ClientPacket::Disconnect(_)
            | ClientPacket::Auth(_) => panic!("unexpected: {packet:?}"),
        }
    }

    fn send(&self, packet: &ServerPacket<'_>, out: &mut Vec<u8>) {
        packet.encode(self.version.unwrap(), &Limits::default(), out).unwrap();
    }
}

//! Subscribers of MQTT.
//!
//! Place: a [`Protocol`] of the pool. Messages are judged by the publisher's sequence numbers, as
//! MQTT has no positions. Messages of an absence are lost, unless sessions outlive connections.

use wire::mqtt::{
    Ack, ClientPacket, Delivery, PacketId, Properties, Publish, RetainHandling, ServerPacket,
    SubAck, Subscribe, SubscribeItem,
};

use super::Subscribing;
use super::speech::{Speech, farewell, send, unexpected};
use crate::engine::protocol::{Protocol, Turn};
use crate::engine::subscriptions::Subscriptions;
use crate::payload::topic_hash;

/// Filters of one SUBSCRIBE; names of 255 bytes fit into 9 KiB.
const FILTERS_MAX: u32 = 32;

/// All subscribers of a worker.
pub(in crate::engine) struct MqttSubscribers {
    speech: Speech,
    subscriptions: Subscriptions,
    subscribing: Subscribing,
    /// A topic has a wildcard: its messages belong to no single stream.
    has_wildcards: bool,
}

impl MqttSubscribers {
    pub(in crate::engine) fn new(
        speech: Speech,
        subscriptions: Subscriptions,
        subscribing: Subscribing,
    ) -> MqttSubscribers {
        let has_wildcards = subscriptions.has_wildcards();
        MqttSubscribers { speech, subscriptions, subscribing, has_wildcards }
    }

    /// Whether SUBSCRIBE goes with CONNECT. A session that continues has its subscriptions.
    fn subscribes_early(&self) -> bool {
        self.subscribing.is_early && !self.speech.keeps_sessions()
    }

    /// Sends all subscriptions. The identifier of a SUBSCRIBE counts its packets from 1.
    fn subscribe(&self, place: u32, turn: &mut Turn<'_>) {
        let per_client = self.subscriptions.per_client();
        let handling = if self.speech.version.has_properties() {
            RetainHandling::Omit
        } else {
            RetainHandling::Send
        };
        for first in (0..per_client).step_by(FILTERS_MAX as usize) {
            let numbers = first..per_client.min(first + FILTERS_MAX);
            let names: Vec<String> =
                numbers.map(|number| self.subscriptions.name(place, number)).collect();
            let items: Vec<SubscribeItem<'_>> = names
                .iter()
                .map(|name| SubscribeItem {
                    filter: name,
                    qos: self.subscribing.qos(),
                    no_local: false,
                    retain_as_published: false,
                    retain_handling: handling,
                })
                .collect();
            let subscribe = Subscribe {
                packet_id: packet_id(first / FILTERS_MAX),
                properties: Properties::default(),
                items: items.as_slice().into(),
            };
            send(&ClientPacket::Subscribe(subscribe), self.speech.version, place, turn);
        }
    }

    /// The answer to a SUBSCRIBE: its topics are live.
    fn subscribed(
        &mut self,
        place: u32,
        answer: &SubAck<'_>,
        turn: &mut Turn<'_>,
    ) -> Result<(), String> {
        let first = (u32::from(answer.packet_id.get()) - 1) * FILTERS_MAX;
        for (number, reason) in (first..).zip(answer.reasons.iter()) {
            if number >= self.subscriptions.per_client() {
                return Err("a SUBACK for an unknown subscription".to_owned());
            }
            if reason.is_failure() {
                turn.tally.refused += 1;
                turn.tally.trouble = Some(format!("refused: {reason}"));
            } else {
                self.subscriptions.set_live(place, number, turn);
            }
        }
        Ok(())
    }

    fn message(
        &mut self,
        place: u32,
        publish: &Publish<'_>,
        turn: &mut Turn<'_>,
    ) -> Result<(), String> {
        match publish.delivery {
            Delivery::Zero => {}
            Delivery::One(attempt) => {
                self.speech.acknowledge(&Ack::success(attempt.packet_id), place, turn);
            }
            Delivery::Two(_) => return Err("a message with a higher QoS than asked".to_owned()),
        }
        if publish.retain {
            // It is older than the subscription. Version 3 cannot ask for none.
            return Ok(());
        }
        let mut number = None;
        if !self.has_wildcards {
            // A message of another topic is judged as one of the first, whose it is not.
            let known = self.subscriptions.number_of_hash(place, topic_hash(publish.topic));
            number = Some(known.unwrap_or(0));
        }
        self.subscriptions.received(place, number, publish.payload, turn);
        Ok(())
    }
}

impl Protocol for MqttSubscribers {
    fn begin(&mut self, place: u32, turn: &mut Turn<'_>) {
        self.subscriptions.ensure(place);
        self.speech.begin(place, turn);
        if self.subscribes_early() {
            self.subscribe(place, turn);
        }
    }

    fn receive(
        &mut self,
        place: u32,
        bytes: &mut [u8],
        turn: &mut Turn<'_>,
    ) -> Result<usize, String> {
        let mut consumed = 0;
        while let Some((packet, length)) = self.speech.next(&bytes[consumed..])? {
            consumed += length;
            match &packet {
                ServerPacket::ConnAck(answer) => {
                    self.speech.opened(place, answer)?;
                    turn.opened();
                    if answer.session_present {
                        self.subscriptions.all_live(place, turn);
                    } else if !self.subscribes_early() {
                        self.subscribe(place, turn);
                    }
                }
                ServerPacket::SubAck(answer) => self.subscribed(place, answer, turn)?,
                ServerPacket::Publish(publish) => self.message(place, publish, turn)?,
                ServerPacket::PingResp => {}
                ServerPacket::Disconnect(disconnect) => return Err(farewell(disconnect)),
                ServerPacket::PubAck(_)
                | ServerPacket::PubRec(_)
                | ServerPacket::PubRel(_)
                | ServerPacket::PubComp(_)
                | ServerPacket::UnsubAck(_)
                | ServerPacket::Auth(_) => return Err(unexpected(&packet)),
            }
        }
        Ok(consumed)
    }

    fn lost(&mut self, place: u32, turn: &mut Turn<'_>) {
        self.speech.lost(place);
        self.subscriptions.disconnected(place, turn);
    }

    fn wake_ns(&self) -> Option<u64> {
        self.speech.wake_ns()
    }

    fn tick(&mut self, turn: &mut Turn<'_>) {
        self.speech.tick(turn);
    }

    fn look(&mut self, turn: &mut Turn<'_>) {
        self.subscriptions.look(turn);
    }
}

/// The identifier of a client's SUBSCRIBE, by its number from 0.
fn packet_id(number: u32) -> PacketId {
    let id = u16::try_from(number).unwrap_or(u16::MAX).saturating_add(1);
    PacketId::new(id).unwrap_or(PacketId::MAX)
}

//! MQTT: packets are decoded, and their commands are carried out.
//!
//! Step 3 of the path. `connect` begins a session, `leave` ends it, `subscribe` and `publish` carry
//! out what a client asks for, `deliver` sends it messages. Invariant: whatever a client sends that
//! the specification forbids ends its connection, with the reason code that the specification names
//! where the version has one.

mod again;
mod aliases;
mod authenticate;
mod connect;
mod deliver;
mod ended;
mod gaps;
mod groups;
mod leave;
mod message;
mod positions;
mod publish;
mod record;
mod subscribe;
mod wake;
mod websocket;

use crate::edge::{Edge, End, Progress};
use crate::ids::ConnIndex;
use crate::notice::Notice;
use crate::protocol::{Protocol, flag};
use crate::session::State;
use crate::session::mqtt::Mqtt;
use crate::session::mqtt::encode::{append, disconnect};
use wire::codec::Step;
use wire::mqtt::{ClientPacket, MqttError, PacketType, ReasonCode, ServerPacket, Version};
use wire::websocket::frame::Opcode;

impl Edge {
    /// Whether a connection begins to speak MQTT: then its next input is that of MQTT.
    #[inline]
    pub(crate) fn begins_mqtt(&mut self, index: ConnIndex, input: &[u8]) -> bool {
        let slot = &mut self.connections.slots[index];
        let is_mqtt = self.settings.mqtt.is_on
            && slot.is(flag::STARTING)
            && input.first().is_some_and(|first| !first.is_ascii_alphabetic());
        if is_mqtt {
            slot.protocol = Protocol::MqttStart;
        }
        is_mqtt
    }

    /// One packet from the front of `input`.
    pub(crate) fn mqtt_input(&mut self, index: ConnIndex, input: &[u8]) -> Progress {
        if self.pause_for_room(index) || self.pause_for_release(index, input) {
            return Progress::Stop;
        }
        self.begin_frame();
        let version = self.mqtt_ref(index).map(|mqtt| mqtt.version.0);
        let bytes_max = self.packet_bytes_max(index);
        match ClientPacket::decode(version, bytes_max, input) {
            Ok(Step::More { needed }) => Progress::Needs(needed),
            Ok(Step::Done { value, consumed }) => {
                // The rest of a message of a WebSocket waits while CONNECT has no answer.
                let is_websocket = self.connections.slots[index].facts().is_websocket;
                let packet = if is_websocket { input } else { &input[..consumed] };
                self.mqtt_packet(index, &value, packet);
                self.rest_mqtt(index);
                self.pause_for_log(index);
                Progress::Consumed(consumed)
            }
            Err(error) => {
                self.mqtt_violated(index, input, &error);
                Progress::Stop
            }
        }
    }

    /// Gives back what an idle session does not need.
    fn rest_mqtt(&mut self, index: ConnIndex) {
        if let Some(mqtt) = self.mqtt_of(index) {
            mqtt.rest();
        }
    }

    /// The longest packet that a client may send.
    pub(crate) fn packet_bytes_max(&self, index: ConnIndex) -> u32 {
        let of_frames = self.settings.limits.frame_bytes_max;
        let bytes_max = self.settings.mqtt.packet_bytes_max.unwrap_or(of_frames);
        self.input_bytes_max(index, bytes_max)
    }

    fn mqtt_packet(&mut self, index: ConnIndex, packet: &ClientPacket<'_>, bytes: &[u8]) {
        match packet {
            ClientPacket::Connect(connect) => self.mqtt_connect(index, connect, bytes),
            ClientPacket::Publish(publish) => self.mqtt_publish(index, publish),
            ClientPacket::PubAck(ack) => self.mqtt_acknowledged(index, ack),
            ClientPacket::PubRec(ack) => self.mqtt_received(index, ack),
            ClientPacket::PubRel(ack) => self.mqtt_release(index, ack),
            ClientPacket::PubComp(ack) => self.mqtt_completed(index, ack),
            ClientPacket::Subscribe(packet) => self.mqtt_subscribe(index, packet),
            ClientPacket::Unsubscribe(packet) => self.mqtt_unsubscribe(index, packet),
            ClientPacket::PingReq => {
                if self.take_ping(index) {
                    self.send_mqtt_packet(index, &ServerPacket::PingResp);
                }
            }
            ClientPacket::Disconnect(packet) => {
                if let Err(reason) = self.take_leave(index, packet) {
                    return self.mqtt_disconnect(index, reason);
                }
                self.note_end(index, End::ENDED);
                self.close_mqtt(index);
            }
            ClientPacket::Auth(packet) => self.mqtt_auth(index, packet),
        }
    }

    /// Bytes that are no packet, or not at this place.
    #[cold]
    fn mqtt_violated(&mut self, index: ConnIndex, input: &[u8], error: &MqttError) {
        self.statistics.protocol_errors += 1;
        let is_begun = self.mqtt_ref(index).is_some();
        // A client of an unknown version gets the answer of the nearest one.
        if let (MqttError::UnsupportedLevel(level), false) = (error, is_begun) {
            let version = if *level > 5 { Version::V5 } else { Version::V3_1_1 };
            return self.refuse_connect(index, version, error.reason());
        }
        // Packets of servers, and a second CONNECT, do not come from a client of MQTT.
        let is_no_client =
            matches!(error, MqttError::WrongDirection(_) | MqttError::ConnectRepeated)
                || matches!(error, MqttError::HeaderFlags(_)) && is_of_server(input);
        if is_begun && !is_no_client {
            self.mqtt_disconnect(index, reason_of_violation(input, error));
        } else {
            self.close_mqtt(index);
        }
    }

    /// Ends the session with a reason; a client of version 5 receives it.
    pub(crate) fn mqtt_disconnect(&mut self, index: ConnIndex, reason: ReasonCode) {
        let mut bytes = Vec::new();
        if let Some(mqtt) = self.mqtt_ref(index) {
            disconnect(mqtt, reason, None, &mut bytes);
        }
        self.send_mqtt(index, &bytes);
        self.note_end(index, End::FINISHED);
        self.close_mqtt(index);
    }

    /// The node drains: the client is to connect again, to another node if there is one.
    pub(crate) fn mqtt_go_away(&mut self, index: ConnIndex, return_after_ms: u64) {
        self.statistics.sent_away += 1;
        let settings = self.settings.clone();
        let urls = &self.other_addresses(&settings, index);
        let notice = Notice::GoAway { return_after_ms, urls, ticket: None };
        self.notify(index, &notice);
        if !self.connections.slots[index].is(flag::CLOSING) {
            self.close_mqtt(index); // before CONNACK
        }
    }

    /// Queues the packets in a buffer.
    fn send_mqtt(&mut self, index: ConnIndex, bytes: &[u8]) {
        let slot = &self.connections.slots[index];
        if bytes.is_empty() || slot.is(flag::CLOSING) {
            return;
        }
        if slot.facts().is_websocket {
            self.send_frame(index, Opcode::Binary, bytes);
        } else {
            self.send_private(index, bytes);
        }
    }

    fn send_mqtt_packet(&mut self, index: ConnIndex, packet: &ServerPacket<'_>) {
        let mut bytes = std::mem::take(&mut self.work.attributes);
        bytes.clear();
        if let Some(mqtt) = self.mqtt_ref(index) {
            append(mqtt, packet, &mut bytes);
        }
        self.send_mqtt(index, &bytes);
        self.work.attributes = bytes;
    }

    /// The session of a connection of MQTT, behind CONNECT.
    pub(crate) fn mqtt_of(&mut self, index: ConnIndex) -> Option<&mut Mqtt> {
        match self.state(index) {
            Some(State::Mqtt(mqtt)) => Some(mqtt),
            _ => None,
        }
    }

    pub(crate) fn mqtt_ref(&self, index: ConnIndex) -> Option<&Mqtt> {
        match self.sessions.get(self.connections.slots[index].state) {
            Some(State::Mqtt(mqtt)) => Some(mqtt),
            _ => None,
        }
    }
}

/// Whether only servers send packets of this type.
fn is_of_server(input: &[u8]) -> bool {
    let kind = input.first().map_or(0, |first| first >> 4);
    let kinds =
        [PacketType::ConnAck, PacketType::SubAck, PacketType::UnsubAck, PacketType::PingResp];
    kinds.iter().any(|of_server| *of_server as u8 == kind)
}

/// The reason code of a violation. A fault in the form of SUBSCRIBE or UNSUBSCRIBE is a malformed
/// packet, as in Mosquitto; the specification calls some of these faults a protocol error.
fn reason_of_violation(input: &[u8], error: &MqttError) -> ReasonCode {
    let kind = input.first().map_or(0, |first| first >> 4);
    let is_of_subscriptions =
        kind == PacketType::Subscribe as u8 || kind == PacketType::Unsubscribe as u8;
    let is_of_form = matches!(
        error,
        MqttError::PacketIdZero
            | MqttError::SubscriptionQos
            | MqttError::RetainHandling
            | MqttError::EmptyList
            | MqttError::TopicFilter
            | MqttError::PropertyValue(_)
    );
    if is_of_subscriptions && is_of_form {
        ReasonCode::MalformedPacket
    } else if *error == MqttError::TopicName {
        // Invalid topic name (0x90) is for names that a server does not accept.
        ReasonCode::ProtocolError
    } else {
        error.reason()
    }
}

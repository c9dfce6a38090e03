//! MQTT in binary messages of a WebSocket (MQTT 5.0, section 6). Packets are not aligned to
//! messages: a packet may come in several, and a message may bring several.
//!
//! Invariant: the bytes of a message are dealt with when it has come, but for the beginning of a
//! packet, and for what comes while the connection may not continue; these wait in the session, or
//! before CONNECT in the state of the connection.

use crate::edge::{Edge, Progress};
use crate::ids::ConnIndex;
use crate::protocol::flag;
use crate::session::State;
use crate::session::mqtt::MqttOpening;
use wire::websocket::close::CloseCode;
use wire::websocket::message::Assembler;

/// A connection that may not continue now.
const HOLDS: u32 = flag::PAUSED | flag::CLOSING | flag::CHOKED | flag::HELD;

impl Edge {
    /// Bytes of a binary message, behind those that wait.
    pub(crate) fn mqtt_message(&mut self, index: ConnIndex, bytes: &[u8]) {
        let mut input = self.take_partial(index);
        input.extend_from_slice(bytes);
        let mut at = 0;
        let mut is_held = false;
        while at < input.len() {
            if self.connections.slots[index].is(HOLDS) {
                is_held = true;
                break;
            }
            match self.mqtt_input(index, &input[at..]) {
                Progress::Consumed(used) => at += used,
                Progress::Stop => {
                    is_held = true;
                    break;
                }
                Progress::Needs(_) | Progress::Brought(..) => break,
            }
        }
        if self.connections.slots[index].is(flag::CLOSING | flag::DEAD) {
            return;
        }
        input.drain(..at);
        let bytes_max = self.packet_bytes_max(index) as usize;
        if input.len() > bytes_max.saturating_add(self.settings.limits.frame_bytes_max as usize) {
            return self.mqtt_disconnect(index, wire::mqtt::ReasonCode::PacketTooLarge);
        }
        self.put_partial(index, input, is_held);
    }

    /// Whether bytes wait that can be dealt with as soon as the connection continues.
    pub(crate) fn has_mqtt_rest(&self, index: ConnIndex) -> bool {
        self.mqtt_ref(index).is_some_and(|mqtt| mqtt.busy.is_held)
    }

    /// Continues with bytes that have waited.
    pub(crate) fn continue_mqtt(&mut self, index: ConnIndex) {
        if self.has_mqtt_rest(index) {
            self.mqtt_message(index, &[]);
        }
    }

    fn take_partial(&mut self, index: ConnIndex) -> Vec<u8> {
        match self.state(index) {
            Some(State::Mqtt(mqtt)) => mqtt.busy.get_mut().map_or_else(Vec::new, |busy| {
                busy.is_held = false;
                std::mem::take(&mut busy.partial)
            }),
            Some(State::MqttOpening(opening)) => std::mem::take(&mut opening.partial),
            _ => Vec::new(),
        }
    }

    fn put_partial(&mut self, index: ConnIndex, partial: Vec<u8>, is_held: bool) {
        match self.state(index) {
            Some(State::Mqtt(mqtt)) if partial.is_empty() => mqtt.busy.rest(),
            Some(State::Mqtt(mqtt)) => {
                mqtt.busy.is_held = is_held;
                mqtt.busy.partial = partial;
            }
            Some(State::MqttOpening(opening)) => opening.partial = partial,
            Some(_) => {} // the credential that waits has the rest
            None if partial.is_empty() => {}
            None => {
                let opening = MqttOpening { partial, ..MqttOpening::default() };
                self.set_state(index, State::MqttOpening(Box::new(opening)));
            }
        }
        self.count_buffered(index);
    }

    /// Takes the message that has come in part.
    pub(crate) fn take_mqtt_assembly(&mut self, index: ConnIndex) -> Option<(Assembler, Vec<u8>)> {
        match self.state(index) {
            Some(State::Mqtt(mqtt)) => {
                let busy = mqtt.busy.get_mut()?;
                busy.assembly.take().map(|assembly| *assembly)
            }
            Some(State::MqttOpening(opening)) => opening.assembly.take().map(|assembly| *assembly),
            _ => None,
        }
    }

    /// Keeps a message that has come in part.
    pub(crate) fn put_mqtt_assembly(&mut self, index: ConnIndex, assembly: (Assembler, Vec<u8>)) {
        let assembly = Some(Box::new(assembly));
        match self.state(index) {
            Some(State::Mqtt(mqtt)) => mqtt.busy.assembly = assembly,
            Some(State::MqttOpening(opening)) => opening.assembly = assembly,
            Some(_) => {}
            None => {
                let opening = MqttOpening { assembly, ..MqttOpening::default() };
                self.set_state(index, State::MqttOpening(Box::new(opening)));
            }
        }
    }

    /// The session ends: behind its last packet the WebSocket is closed.
    pub(crate) fn close_mqtt(&mut self, index: ConnIndex) {
        if self.connections.slots[index].facts().is_websocket {
            self.close_websocket(index, CloseCode::NORMAL, "");
        } else {
            self.close(index);
        }
    }
}

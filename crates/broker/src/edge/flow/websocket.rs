//! WebSocket connections: messages to native frames or echoes, control frames, the closing
//! handshake (RFC 6455), compressed messages (RFC 7692).

use crate::edge::{Edge, End, NONE, Progress, flag};
use crate::ids::ConnIndex;
use crate::notice::Notice;
use crate::protocol::{Form, Transport};
use crate::session::State;
use crate::session::mqtt::refusal::disconnect_reason_of;
use wire::codec::Step;
use wire::native::CloseCode as NativeClose;
use wire::websocket::close::{CloseCode, ClosePayload};
use wire::websocket::frame::{Opcode, Role, encode_header};
use wire::websocket::message::{Assembler, Event};

impl Edge {
    /// One WebSocket frame from the front of `input`.
    pub(crate) fn websocket_input(&mut self, index: ConnIndex, input: &mut [u8]) -> Progress {
        let facts = self.connections.slots[index].facts();
        // Before the frame is unmasked in place: it may need a home to have room.
        if facts.is_session && self.pause_for_room(index) {
            return Progress::Stop;
        }
        self.begin_frame();
        let limits = &self.settings.limits;
        let message_bytes_max = if facts.is_mqtt {
            self.packet_bytes_max(index)
        } else if facts.transport == Transport::Echo {
            limits.echo_bytes_max
        } else {
            self.input_bytes_max(index, limits.frame_bytes_max)
        };
        let new = Assembler::with_deflate(self.window_bits(index) != 0);
        let (mut assembler, mut buffer) = match self.connections.slots[index].state {
            NONE => (new, Vec::new()),
            _ if facts.is_mqtt => self.take_mqtt_assembly(index).unwrap_or((new, Vec::new())),
            _ => match self.take_state(index) {
                Some(State::Assembly(assembly)) => *assembly,
                _ => (new, Vec::new()),
            },
        };
        let message_bytes_max = message_bytes_max as usize;
        let step = assembler.decode(input, Role::Server, message_bytes_max, &mut buffer);
        let result = step.and_then(|step| {
            match &step {
                Step::More { .. } => {}
                Step::Done { value: Event::Compressed(kind, payload), .. } => {
                    self.inflate(*kind, payload, message_bytes_max, |edge, event| {
                        edge.websocket_event(index, event);
                    })?
                }
                Step::Done { value, .. } => self.websocket_event(index, *value),
            }
            Ok(step)
        });
        let progress = match result {
            Ok(Step::More { needed }) => Progress::Needs(needed),
            Ok(Step::Done { consumed, .. }) => {
                self.pause_for_log(index);
                if facts.form == Form::Json && !self.work.json_frames.is_empty() {
                    Progress::Brought(consumed, std::mem::take(&mut self.work.json_frames))
                } else {
                    Progress::Consumed(consumed)
                }
            }
            Err(error) => {
                self.statistics.protocol_errors += 1;
                self.close_websocket(index, error.close_code(), &error.to_string());
                Progress::Stop
            }
        };
        if assembler.is_open() && facts.is_mqtt {
            self.put_mqtt_assembly(index, (assembler, buffer));
        } else if assembler.is_open() {
            self.set_state(index, State::Assembly((assembler, buffer).into()));
        }
        progress
    }

    fn websocket_event(&mut self, index: ConnIndex, event: Event<'_>) {
        let facts = self.connections.slots[index].facts();
        let is_echo = facts.transport == Transport::Echo;
        match event {
            // A compressed frame comes here once it is inflated.
            Event::Fragment | Event::Pong(_) | Event::Compressed(..) => {}
            Event::Ping(payload) => {
                if self.take_ping(index) {
                    self.send_frame(index, Opcode::Pong, payload);
                }
            }
            Event::Binary(bytes) if facts.is_mqtt => self.mqtt_message(index, bytes),
            Event::Text(text) if is_echo => self.echo(index, Opcode::Text, text.as_bytes()),
            Event::Binary(bytes) if is_echo => self.echo(index, Opcode::Binary, bytes),
            Event::Text(text) if facts.form == Form::Json => self.json_message(index, text),
            Event::Binary(_) if facts.form == Form::Json => {
                self.statistics.protocol_errors += 1;
                self.close_websocket(
                    index,
                    CloseCode::UNSUPPORTED_DATA,
                    "frames in JSON are text messages",
                );
            }
            Event::Text(_) => {
                self.statistics.protocol_errors += 1;
                let text = if facts.is_mqtt {
                    "packets of MQTT are binary messages"
                } else {
                    "native frames are binary messages"
                };
                self.close_websocket(index, CloseCode::UNSUPPORTED_DATA, text);
            }
            Event::Binary(bytes) => self.native_frame(index, bytes),
            Event::Close(close) => {
                self.note_end(index, End::of_client(close.code.map(|code| code.0)));
                // Section 5.5.1: answered with the code received.
                match close.code {
                    Some(code) => self.close_websocket(index, code, ""),
                    None => {
                        self.note_close(index, None);
                        self.send_frame(index, Opcode::Close, &[]);
                        self.close(index);
                    }
                }
            }
        }
    }

    fn echo(&mut self, index: ConnIndex, opcode: Opcode, message: &[u8]) {
        if !self.send_packed_echo(index, opcode, message) {
            self.send_frame(index, opcode, message);
        }
    }

    /// Queues one whole frame.
    pub(crate) fn send_frame(&mut self, index: ConnIndex, opcode: Opcode, payload: &[u8]) {
        let header = encode_header(true, opcode, payload.len(), None);
        let mut bytes = std::mem::take(&mut self.work.scratch);
        bytes.clear();
        bytes.extend_from_slice(header.as_bytes());
        bytes.extend_from_slice(payload);
        self.send_private(index, &bytes);
        self.work.scratch = bytes;
    }

    /// Begins (or ends) the closing handshake and closes when the frame has left.
    pub(crate) fn close_websocket(&mut self, index: ConnIndex, code: CloseCode, reason: &str) {
        if self.connections.slots[index].is(flag::CLOSING) {
            return;
        }
        self.note_end(index, End::of_node(code.0));
        self.note_close(index, Some(code.0));
        let payload = ClosePayload::new(code, reason);
        self.send_frame(index, Opcode::Close, payload.as_bytes());
        self.close(index);
    }

    /// Closes with one of our own codes.
    pub(crate) fn close_native(&mut self, index: ConnIndex, code: NativeClose) {
        if self.connections.slots[index].facts().is_mqtt {
            return self.mqtt_disconnect(index, disconnect_reason_of(code));
        }
        self.close_websocket(index, CloseCode(code.number()), code.text());
    }

    /// Asks the peer for a sign of life.
    pub(crate) fn send_ping(&mut self, index: ConnIndex) {
        if self.connections.slots[index].facts().is_session {
            // A frame that scripts see, so that a page can distinguish a dead server from a quiet
            // one.
            let token = u64::from(self.now_s());
            self.notify(index, &Notice::Ping { token });
        } else {
            self.send_frame(index, Opcode::Ping, &[]);
        }
    }
}

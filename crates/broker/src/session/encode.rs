//! The way from a notice or a message to the bytes of a session's protocol.
//!
//! Each protocol is a pure function of the notice and of the session's own state. A frame has two
//! parts: the body is encoded first, then the edge makes room for the frame, then the prefix that
//! stands before the body is made, and moves the session's cursor. Making room may take the cursor
//! back, so a prefix made earlier could claim messages that the client never receives.

use super::State;
use super::events::Stream;
use super::{events, native};
use crate::epochs::Epochs;
use crate::mail::PartitionId;
use crate::notice::{Beginning, Encoded, Notice, Settles};
use crate::protocol::Protocol;
use crate::settings::Settings;
use log::RecordView;
use wire::websocket::frame::{EncodedHeader, encode_header, header_len};

/// An encoder's view of one connection.
pub(crate) struct Session<'a> {
    pub protocol: Protocol,
    /// An event stream of one topic, without an envelope.
    pub is_raw: bool,
    pub state: Option<&'a mut State>,
    pub epochs: &'a Epochs,
}

/// The bytes before the body of a frame.
pub(crate) enum Prefix {
    Nothing,
    WebSocket(EncodedHeader),
    Line(String),
}

impl Prefix {
    pub fn as_bytes(&self) -> &[u8] {
        match self {
            Prefix::Nothing => &[],
            Prefix::WebSocket(header) => header.as_bytes(),
            Prefix::Line(line) => line.as_bytes(),
        }
    }
}

impl Session<'_> {
    /// Appends the body of the notice's frame; nothing where the protocol has no frame for it.
    #[inline]
    pub fn encode(&mut self, notice: &Notice<'_>, body: &mut Vec<u8>) -> Encoded {
        let facts = self.protocol.facts();
        if facts.is_mqtt {
            return match &mut self.state {
                Some(State::Mqtt(mqtt)) => super::mqtt::encode::notice(mqtt, notice, body),
                _ => Encoded::ANSWER,
            };
        }
        if facts.is_websocket {
            return native::encode::notice(notice, facts.form, body);
        }
        if facts.has_one_cursor {
            return events::encode::notice(&mut self.stream(), notice, body);
        }
        match &mut self.state {
            Some(State::Poll(poll)) => poll.notice(notice),
            #[cfg(feature = "line-protocol")]
            Some(State::Line(line)) => super::line::encode::notice(line, notice, body),
            _ => Encoded::ANSWER,
        }
    }

    /// Appends a message in the form that is encoded for each subscription, without its prefix. A
    /// message of a filter brings its topic; one of a topic is known by the subscription's number.
    pub fn encode_message(
        &self,
        client: u32,
        topic: Option<&str>,
        epoch: u64,
        view: &RecordView<'_>,
        body: &mut Vec<u8>,
    ) {
        match &self.state {
            Some(State::Events(events)) => {
                let topic = topic.or_else(|| events.topic(client)).unwrap_or_default();
                events::encode::append_envelope(topic, epoch, view, events.data, body);
            }
            #[cfg(feature = "line-protocol")]
            Some(State::Line(line)) => {
                super::line::encode::message(line, client, epoch, view, body);
            }
            _ => {}
        }
    }

    /// Maximum bytes of the prefix of a body.
    pub fn prefix_bytes_max(&self, encoded: &Encoded, body_bytes: usize) -> usize {
        let facts = self.protocol.facts();
        if facts.is_websocket {
            header_len(body_bytes)
        } else if facts.has_one_cursor && encoded.has_cursor {
            events::encode::ID_LINE_BYTES_MAX
        } else {
            0
        }
    }

    /// Moves the session's cursor to what the frame settles, and makes the frame's prefix. Room
    /// for the frame has been made before.
    pub fn prefix(&mut self, encoded: &Encoded, body_bytes: usize) -> Prefix {
        let facts = self.protocol.facts();
        if facts.is_websocket {
            let opcode = facts.form.opcode();
            return Prefix::WebSocket(encode_header(true, opcode, body_bytes, None));
        }
        if !facts.has_one_cursor {
            return Prefix::Nothing;
        }
        let mut stream = self.stream();
        stream.settle(encoded.settles);
        if encoded.has_cursor {
            Prefix::Line(events::encode::id_line(&stream, encoded.settles))
        } else {
            Prefix::Nothing
        }
    }

    /// Appends how far a subscription to filters is settled: a frame for each partition, or the
    /// cursor that holds all of them. Nothing if the client has it already.
    pub fn encode_positions(
        &mut self,
        client: u32,
        settled: &[(PartitionId, u64)],
        is_owed: bool,
        settings: &Settings,
        out: &mut Vec<u8>,
    ) {
        let facts = self.protocol.facts();
        if facts.shares_frames {
            let epochs = self.epochs;
            let epoch_of = |partition| (epochs.of(partition, settings), epochs.lineage(partition));
            native::encode::positions(facts.form, client, settled, &epoch_of, out);
        } else if facts.has_one_cursor {
            events::encode::positions(&mut self.stream(), settled, is_owed, out);
        }
    }

    /// Maximum bytes of the positions of this number of partitions.
    pub fn positions_bytes_max(&self, partitions: usize) -> usize {
        if self.protocol.facts().has_one_cursor {
            events::encode::ID_LINE_BYTES_MAX
        } else {
            partitions * native::encode::position_bytes_max(self.protocol.facts().form)
        }
    }

    /// Filters are granted together. Returns those of which the client's cursor knows nothing.
    pub fn begin_filters(
        &mut self,
        clients: &[u32],
        beginnings: &[Beginning],
        settings: &Settings,
    ) -> Vec<u32> {
        match &mut self.state {
            Some(State::Events(events)) => events.begin_filters(clients, beginnings, settings),
            _ => Vec::new(),
        }
    }

    /// Moves the session's cursor, if it has one, to a queued frame, or back to a dropped one.
    pub fn settle(&mut self, settles: Settles) {
        self.stream().settle(settles);
    }

    fn stream(&mut self) -> Stream<'_> {
        let events = match &mut self.state {
            Some(State::Events(events)) => Some(&mut **events),
            _ => None,
        };
        Stream { is_raw: self.is_raw, events, epochs: self.epochs }
    }
}

//! MQTT 3.1, 3.1.1 and 5.0: the state of a session, and its packets.
//!
//! Steps 3 and 9 of the path. The codec is `wire::mqtt`; `encode` turns notices and messages into
//! packets, and `edge::flow::mqtt` carries out what a client sends. The state here is what the
//! protocol demands beyond subscriptions: open packet identifiers in both directions, the window of
//! the client, the will.
//!
//! Invariants: an identifier is open in one exchange at a time; at most `window` messages with QoS
//! 1 and 2 are open, so that what they take has a bound; a message with an identifier is sent once
//! on a connection.

pub(crate) mod aliases;
pub(crate) mod encode;
pub(crate) mod lean;
pub(crate) mod membership;
pub(crate) mod open;
pub(crate) mod options;
pub(crate) mod refusal;
pub(crate) mod start;
pub(crate) mod subscribing;
mod unreleased;

use crate::ids::SubIndex;
use crate::mail::{SleepingSession, SubscriptionKey, Will};
use aliases::Aliases;
use lean::Lean;
use membership::Membership;
use open::Opened;
use stdx::chunk::Slice;
use stdx::handing::{Hand, Input, Layout};
use subscribing::Subscribing;
pub(crate) use unreleased::{Received, Unreleased};
use wire::mqtt::Version;
use wire::websocket::message::Assembler;

/// Bytes of a client's name, as it becomes a level of a topic.
pub(crate) const NAME_BYTES_MAX: usize = 240;

/// The method of enhanced authentication: a token is the data (MQTT 5.0, section 4.12).
pub(crate) const METHOD: &str = "crore-jwt";

/// The state of a session.
#[derive(Hand)]
pub(crate) struct Mqtt {
    pub version: Spoken,
    /// The client's name for itself, or the one that it was given.
    pub name: Box<[u8]>,
    /// The client gave no name.
    pub is_named_by_node: bool,
    /// The session was there before the connection.
    pub is_continued: bool,
    /// The session continues for this time after the connection, in seconds; `u32::MAX`: for ever.
    pub expiry_s: u32,
    pub record: Record,
    /// The interval of CONNECT or of the node, in seconds; 0: none.
    pub keep_alive_s: u16,
    pub link: Link,
    /// The maximum length of a packet to the client, in bytes.
    pub packet_bytes_max: u32,
    /// CONNECT has named the method of enhanced authentication.
    pub authenticates: bool,
    /// Whether answers may carry reason strings and user properties.
    pub problem_information: bool,
    /// The client wants the positions of messages, and of its publications.
    pub tells_positions: bool,
    /// A refused publication of version 3 is acknowledged.
    pub acknowledges_refused: bool,
    /// Distinguishes the session from others of the same name: a part of the keys of its
    /// publications.
    pub instance: u64,
    /// Releases (PUBREL) so far: a part of the keys of its publications.
    pub released: u64,
    /// The releases when the session continued, until the client publishes something new.
    pub resumed_at: Option<u64>,
    /// Acknowledgements since the session was last written.
    pub acknowledged: u16,
    /// Publications with QoS 2 that the client has not released.
    pub received: Unreleased,
    /// Messages that the client has not acknowledged in full.
    pub opened: Opened,
    /// SUBSCRIBE packets without an answer.
    pub subscribing: Subscribing,
    /// Subscriptions that the client has ended, and that still bring what others have left to them.
    pub ended: Lean<SubIndex>,
    /// Shared subscriptions.
    pub memberships: Lean<Membership>,
    /// Aliases of the client, and those that it was sent.
    pub aliases: Aliases,
    /// The number of aliases that the client may be sent.
    pub sent_aliases_max: u16,
    pub will: Option<Box<Will>>,
    /// The session that continues, until its subscriptions hold again.
    pub waking: Option<Box<SleepingSession>>,
    /// Retained messages that wait for room in the window.
    pub retained: Lean<WaitingRetained>,
    /// Gaps that the client is to learn of.
    pub gaps: Lean<Box<str>>,
    /// The beginning of a packet, where packets come in messages of a WebSocket, or bytes that came
    /// while the connection could not continue.
    pub partial: Lean<u8>,
    /// The latter: they are to be dealt with when it can.
    pub is_held: bool,
    /// A message of a WebSocket that has come in part.
    pub assembly: Option<Box<(Assembler, Vec<u8>)>>,
}

/// The state of a WebSocket before CONNECT has come in full.
#[derive(Default, Hand)]
pub(crate) struct MqttOpening {
    pub partial: Vec<u8>,
    pub assembly: Option<Box<(Assembler, Vec<u8>)>>,
}

/// The record of a session in the log. See `edge::flow::mqtt::record`.
#[derive(Clone, Copy, Default, Hand)]
pub(crate) struct Record {
    /// The log of the session is on disk, or nodes share it.
    pub is_durable: bool,
    /// Nodes share it: it has the will of the connection, too.
    pub is_shared: bool,
    /// The state has changed since the last record, and packets that tell of it wait.
    pub is_wanted: bool,
    /// Records that are on their way to the log, and are answered.
    pub asked: u8,
    /// The log has refused a record, which is to follow again.
    pub is_refused: bool,
    /// The number of records that the log has refused.
    pub refusals: u8,
    /// A release is not in the log.
    pub is_releasing: bool,
}

impl Record {
    /// A record of the present state is on its way.
    pub fn note_asked(&mut self) {
        self.is_wanted = false;
        self.asked = self.asked.saturating_add(1);
    }
}

/// The link between the connection and the name of its client.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hand)]
pub(crate) enum Link {
    /// The name is asked for; CONNACK follows.
    Asked,
    /// The client has its name.
    Held,
    /// The name was given back.
    Left,
    /// The client never had its name: the home has refused it, or the connection has ended first.
    Never,
}

/// A retained message that waits for room in the window.
#[derive(Hand)]
pub(crate) struct WaitingRetained {
    pub subscription: SubscriptionKey,
    pub topic: Slice,
    pub record: Slice,
}

/// The version of a session, in a form that can be handed over.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Spoken(pub Version);

impl Hand for Spoken {
    fn give(&self, out: &mut Vec<u8>) {
        self.0.announcement().1.give(out);
    }

    fn take(input: &mut Input<'_>) -> Option<Self> {
        match u8::take(input)? {
            3 => Some(Spoken(Version::V3_1)),
            4 => Some(Spoken(Version::V3_1_1)),
            5 => Some(Spoken(Version::V5)),
            _ => None,
        }
    }

    fn layout(layout: &mut Layout) {
        layout.name("Spoken");
        u8::layout(layout);
    }
}

impl Mqtt {
    /// Whether the log has to know of it: it outlives its connection, or its will does.
    pub fn lasts(&self) -> bool {
        self.expiry_s > 0 || self.record.is_shared && self.will.is_some()
    }

    /// Bytes of unfinished packets and messages; none without one.
    pub fn buffered_bytes(&self) -> Option<usize> {
        buffered(&self.partial, self.assembly.as_deref())
    }

    /// Gives back what an idle session does not need.
    pub fn rest(&mut self) {
        self.received.rest();
        self.opened.rest();
        self.subscribing.rest();
        self.ended.rest();
        self.memberships.rest();
        self.aliases.rest();
        self.retained.rest();
        self.gaps.rest();
        self.partial.rest();
    }

    /// Whether the client speaks version 5.
    pub fn is_v5(&self) -> bool {
        self.version.0.has_properties()
    }
}

impl MqttOpening {
    /// Bytes of unfinished packets and messages; none without one.
    pub fn buffered_bytes(&self) -> Option<usize> {
        buffered(&self.partial, self.assembly.as_deref())
    }
}

fn buffered(partial: &Vec<u8>, assembly: Option<&(Assembler, Vec<u8>)>) -> Option<usize> {
    let of_assembly = assembly.map(|(_, message)| message.capacity());
    let of_partial = (!partial.is_empty()).then(|| partial.capacity());
    of_partial.into_iter().chain(of_assembly).reduce(|one, other| one + other)
}

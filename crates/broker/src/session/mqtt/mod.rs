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
mod busy;
pub(crate) mod encode;
pub(crate) mod lean;
pub(crate) mod membership;
pub(crate) mod open;
pub(crate) mod options;
pub(crate) mod refusal;
pub(crate) mod start;
pub(crate) mod subscribing;
mod unreleased;

use crate::mail::{SleepingSession, SleepingSubscription, Will};
use busy::Busy;
pub(crate) use busy::WaitingRetained;
use lean::Lean;
use open::Opened;
use stdx::handing::{Hand, Input, Layout};
use stdx::names::Name;
use subscribing::Entry;
pub(crate) use unreleased::Received;
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
    /// The client's name for itself, or the one that it was given. See `edge::sessions::Sessions`.
    pub name: Option<Name>,
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
    /// Those of them since the session continued, until the client publishes something new.
    pub resumed: Resumed,
    /// Messages that the client has not acknowledged in full.
    pub opened: Opened,
    /// The number of aliases that the client may be sent.
    pub sent_aliases_max: u16,
    pub will: Option<Box<Will>>,
    /// Everything else that is under way.
    pub busy: Lean<Busy>,
}

/// With eight bytes of the allocator, a connection at rest takes 96.
const _: () = assert!(size_of::<Mqtt>() <= 88);

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

/// Releases since a session continued; none if it began with the connection, or when the client has
/// published something new. Four bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hand)]
pub(crate) struct Resumed(u32);

impl Resumed {
    /// None.
    pub const NOT: Resumed = Resumed(u32::MAX);

    /// Ends it. Whether there was one.
    pub fn end(&mut self) -> bool {
        std::mem::replace(self, Resumed::NOT) != Resumed::NOT
    }
}

impl Mqtt {
    /// The session that continues, until its subscriptions hold again.
    pub fn waking_mut(&mut self) -> Option<&mut SleepingSession> {
        self.busy.get_mut()?.waking.as_deref_mut()
    }

    /// The filter at a place of a SUBSCRIBE packet, until it is decided.
    pub fn entry(&mut self, place: u32) -> Option<&mut Entry> {
        self.busy.get_mut()?.subscribing.entry(place)
    }

    /// The releases when the session continued, until the client publishes something new.
    pub fn resumed_at(&self) -> Option<u64> {
        let since = u64::from(self.resumed.0);
        (self.resumed != Resumed::NOT).then(|| self.released.saturating_sub(since))
    }

    /// The session continues with so many releases, of which the record had `at`.
    pub fn resume_at(&mut self, released: u64, at: u64) {
        self.released = released;
        let since = u32::try_from(released.saturating_sub(at)).unwrap_or(u32::MAX);
        self.resumed = Resumed(since.min(u32::MAX - 1));
    }

    /// The client learns of a release.
    pub fn note_release(&mut self) {
        match self.resumed_at() {
            Some(at) => self.resume_at(self.released + 1, at),
            None => self.released += 1,
        }
    }

    /// Whether the log has to know of it: it outlives its connection, or its will does.
    pub fn lasts(&self) -> bool {
        self.expiry_s > 0 || self.record.is_shared && self.will.is_some()
    }

    /// Bytes of unfinished packets and messages; none without one.
    pub fn buffered_bytes(&self) -> Option<usize> {
        buffered(&self.busy.partial, self.busy.assembly.as_deref())
    }

    /// Gives back what an idle session does not need.
    pub fn rest(&mut self) {
        if let Some(busy) = self.busy.get_mut()
            && busy.is_awake
            && !self.opened.repeats()
        {
            let is_ended = |it: &SleepingSubscription| it.is_ended;
            busy.waking.take_if(|waking| !waking.subscriptions.iter().any(is_ended));
        }
        self.opened.rest();
        self.busy.rest();
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

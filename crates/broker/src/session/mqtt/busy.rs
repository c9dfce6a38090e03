//! The state of a session that has something under way, beside its open messages.

use super::aliases::Aliases;
use super::lean::Part;
use super::membership::Membership;
use super::subscribing::Subscribing;
use super::unreleased::Unreleased;
use crate::ids::SubIndex;
use crate::mail::{SleepingSession, SubscriptionKey};
use stdx::chunk::Slice;
use stdx::handing::Hand;
use wire::websocket::message::Assembler;

/// See the module.
#[derive(Default, Hand)]
pub(crate) struct Busy {
    /// The client gave no name, and CONNACK is to have the one that the node has given.
    pub is_named_by_node: bool,
    /// Publications with QoS 2 that the client has not released.
    pub received: Unreleased,
    /// SUBSCRIBE packets without an answer.
    pub subscribing: Subscribing,
    /// Subscriptions that the client has ended, and that still bring what others have left to them.
    pub ended: Vec<SubIndex>,
    /// Shared subscriptions.
    pub memberships: Vec<Membership>,
    /// Aliases of the client, and those that it was sent.
    pub aliases: Aliases,
    /// The session that continues, until its subscriptions hold again.
    pub waking: Option<Box<SleepingSession>>,
    /// The subscriptions of that session hold again.
    pub is_awake: bool,
    /// Retained messages that wait for room in the window.
    pub retained: Vec<WaitingRetained>,
    /// Gaps that the client is to learn of.
    pub gaps: Vec<Box<str>>,
    /// The beginning of a packet, where packets come in messages of a WebSocket, or bytes that came
    /// while the connection could not continue.
    pub partial: Vec<u8>,
    /// The latter: they are to be dealt with when it can.
    pub is_held: bool,
    /// A message of a WebSocket that has come in part.
    pub assembly: Option<Box<(Assembler, Vec<u8>)>>,
    /// The log has refused a record, which is to follow again.
    pub is_record_refused: bool,
    /// The number of records that the log has refused.
    pub refusals: u8,
}

/// A retained message that waits for room in the window.
#[derive(Hand)]
pub(crate) struct WaitingRetained {
    pub subscription: SubscriptionKey,
    pub topic: Slice,
    pub record: Slice,
}

impl Part for Busy {
    fn empty() -> &'static Self {
        const {
            &Busy {
                is_named_by_node: false,
                received: Unreleased::new(),
                subscribing: Subscribing::new(),
                ended: Vec::new(),
                memberships: Vec::new(),
                aliases: Aliases::new(),
                waking: None,
                is_awake: false,
                retained: Vec::new(),
                gaps: Vec::new(),
                partial: Vec::new(),
                is_held: false,
                assembly: None,
                is_record_refused: false,
                refusals: 0,
            }
        }
    }

    fn is_empty(&self) -> bool {
        !(self.is_named_by_node || self.is_held || self.is_record_refused)
            && self.refusals == 0
            && self.received.len() == 0
            && self.subscribing.is_empty()
            && self.ended.is_empty()
            && self.memberships.is_empty()
            && self.aliases.is_empty()
            && self.waking.is_none()
            && self.retained.is_empty()
            && self.gaps.is_empty()
            && self.partial.is_empty()
            && self.assembly.is_none()
    }
}

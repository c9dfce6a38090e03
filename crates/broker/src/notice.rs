//! Notices: what clients are sent, before it has the form of a protocol.

/// A granted subscription: what its home says goes to the client as it is.
pub(crate) use crate::mail::Grant;
use crate::mail::{Gap, PartitionId, Start};
use crate::position::Position;
use crate::settings::LagPolicy;
use wire::native::{ErrorCode, SkipReason};

/// How a client wants a subscription to a plain topic.
#[derive(Clone, Copy)]
pub(crate) struct Wish {
    pub start: Start,
    pub fail_on_gap: bool,
    /// Without one the rule's holds.
    pub policy: Option<LagPolicy>,
}

impl Wish {
    /// To begin at `start`; a gap is announced, the rule says what becomes of it when it lags.
    pub fn from(start: Start) -> Wish {
        Wish { start, fail_on_gap: false, policy: None }
    }
}

/// Where a subscription to filters begins in one partition.
pub(crate) struct Beginning {
    pub partition: PartitionId,
    pub epoch: u64,
    /// Everything up to here is settled, or told as a gap.
    pub through: u64,
    pub is_replaying: bool,
    /// It came with a position here.
    pub is_resumed: bool,
    pub gap: Option<Gap>,
}

/// What a client is told whose subscription is refused.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Refusal {
    pub code: ErrorCode,
    /// The limit that would have been passed.
    pub limit: Option<u64>,
    /// From where it could go on.
    pub restart: Option<Position>,
}

impl Refusal {
    pub fn of(code: ErrorCode) -> Refusal {
        Refusal { code, limit: None, restart: None }
    }
}

/// What a subscription was not sent, after `from` up to and including `through`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct LeftOut {
    /// Exclusive: settled by the client.
    pub from: u64,
    /// Inclusive.
    pub through: u64,
    pub reason: SkipReason,
}

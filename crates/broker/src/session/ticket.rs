//! Resume tickets of native sessions: made on request and for GO_AWAY, and brought back with HELLO.
//!
//! A ticket is made in three steps. *Asked*: once no subscription waits for its home, the homes are
//! asked for what an edge does not keep, the names of topics, and for filters how far their streams
//! have come ([`ToHome::Describe`]). *Described*: all homes have answered. *Issued*: when the
//! connection's outbox is next empty, and before anything is queued behind it, the ticket is made
//! of the cursors of that moment.
//!
//! Why a client that has the ticket has all that it says. At that moment everything that was ever
//! queued for the connection has been written, or was given up; the ticket's frame goes after it,
//! in the same direction.
//! - A plain subscription that is live has as its cursor the last offset that was queued for it (or
//!   that settled it), and all of that has been written: had a frame been given up, it would lag.
//!   One that lags or is read by pages has as its cursor what the client has settled. Either is
//!   what a resume needs.
//! - Up to the position that a home tells of a partition, everything was posted before that letter,
//!   so it was queued for the filters of this connection, and is written now. What came between the
//!   letter and this moment comes again, and the client drops it: it has been settled. Where a
//!   filter is behind in a partition, its own cursor is told.
//!
//! A ticket has every subscription that was granted when it is made, so that the client knows what
//! is in it: those whose SUBSCRIBED has come before it. Were some granted after the homes had been
//! asked, they are asked again.
//!
//! What a ticket has at one moment may be behind what the client has at its end; its own cursors
//! win where they are newer. Invariants: a connection wants at most one ticket at a time; one that
//! is blocked holds no more for it than a number.

use crate::mail::{HomeId, PartitionId};
use crate::position::Position;
use std::collections::BTreeMap;
use stdx::chunk::Slice;
use stdx::handing::Hand;
use wire::native::TICKET_BYTES_MAX;

/// Tickets on their way, by connection.
#[derive(Default, Hand)]
pub(crate) struct Tickets {
    pub wanted: BTreeMap<u32, Wanted>,
    /// Rises with every index that a home takes back while somebody waits for a ticket.
    pub released_count: u64,
    /// The indexes taken back meanwhile, and the count with the last of each: they may stand for
    /// other topics now.
    pub released: BTreeMap<(HomeId, u32), u64>,
}

/// One ticket on its way.
#[derive(Default, Hand)]
pub(crate) struct Wanted {
    /// The client's number, if it has asked.
    pub request: Option<u32>,
    /// The client is to be led away with it, to return after so many milliseconds.
    pub away_ms: Option<u64>,
    pub asked: Option<Asked>,
}

/// What the homes were asked, and have said.
#[derive(Default, Hand)]
pub(crate) struct Asked {
    /// Of the question.
    pub number: u32,
    /// Homes that have not answered, with the topics that they were asked for.
    pub waiting: BTreeMap<HomeId, Vec<u32>>,
    pub names: BTreeMap<(HomeId, u32), Box<str>>,
    /// [`Tickets::released_count`] when they were asked.
    pub released_count: u64,
    pub positions: BTreeMap<PartitionId, u64>,
}

/// No subscription takes less of a ticket: number, flags, length and a byte of the filter, epoch,
/// offset.
const SUBSCRIPTION_BYTES_MIN: usize = 6;
pub(crate) const SUBSCRIPTIONS_MAX: usize = TICKET_BYTES_MAX / SUBSCRIPTION_BYTES_MIN;

/// The names of an answer; each behind its length in one byte.
pub(crate) fn names_in(names: &Slice) -> impl Iterator<Item = &str> {
    let mut rest = &names[..];
    std::iter::from_fn(move || {
        let (&len, behind) = rest.split_first()?;
        let (name, behind) = behind.split_at_checked(usize::from(len))?;
        rest = behind;
        std::str::from_utf8(name).ok()
    })
}

/// Whether a client has come further than the ticket says. Of another epoch, it has met that since:
/// epochs of a ticket are those of its issue.
pub(crate) fn is_newer(own: Position, of_ticket: Position) -> bool {
    own.epoch != of_ticket.epoch || own.offset > of_ticket.offset
}

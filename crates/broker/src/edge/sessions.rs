//! Sessions: the state that a protocol keeps for a connection while it needs it.
//!
//! Owner of these states, of tickets that are being made, and of the deadlines of long polls.

use crate::session::State;
use crate::session::ticket::Tickets;
use std::collections::BTreeSet;
use stdx::handing::Hand;
use stdx::slab::Slab;

/// See the module.
#[derive(Default, Hand)]
pub(crate) struct Sessions {
    pub states: Slab<State>,
    /// Bytes that the states own.
    pub states_bytes: usize,
    pub tickets: Tickets,
    /// Deadlines of long polls, with their connections.
    pub polls: BTreeSet<(u64, u32)>,
}

//! The drain: all clients of an edge are led away, and what they have been promised is kept.
//!
//! It has three steps, and each looks at some connections in a turn. *Telling*: event streams end
//! with the time to return, long polls are answered, native sessions get GO_AWAY, those with
//! subscriptions behind their ticket; their subscriptions end with it, so that the ticket stays
//! true. What they have sent is still read and answered: a client closes when it has its answers,
//! and most have gone after a round trip. *Holding*: the patience is over. Nothing more is read
//! from those that are left, and the homes answer what was asked. *Closing*: nothing is on its way
//! any more, so that everything accepted has been acknowledged; who is left is closed.
//!
//! Invariants: return times lie evenly in the window, on one edge and on all of them together; a
//! client is told once. How long a drain takes is the shell's to bound: a disk that hangs, or a
//! client that reads nothing, holds it up until then.

use stdx::handing::Hand;

/// A drain under way.
#[derive(Clone, Copy, Hand)]
pub(crate) struct Drain {
    pub window_ms: u64,
    pub step: Step,
}

#[derive(Clone, Copy, Hand)]
pub(crate) enum Step {
    /// Those before this index have been told.
    Telling(u32),
    /// Clients close by themselves until then.
    Waiting { until_ms: u64 },
    /// Those before this index are not read any more.
    Holding(u32),
    /// Homes answer what was asked.
    Settling,
    /// Those before this index have been closed.
    Closing(u32),
    /// Only what the others still owe is written.
    Over,
}

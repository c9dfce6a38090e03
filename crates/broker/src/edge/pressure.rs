//! What an edge leaves undone while the process is short of memory, in the order in which it hurts
//! least.
//!
//! Place: the shell says how short it is ([`Edge::set_pressure`]); each operation that would take
//! memory asks here. Invariants: who is connected and subscribed goes on getting live messages at
//! any pressure; what is refused is refused by name (`memory_full`); what waits goes on by itself
//! when the pressure falls.

use stdx::handing::Hand;

/// How short of memory the process is; each includes those before.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Debug, Hand)]
#[repr(u8)]
pub enum Pressure {
    /// Not at all.
    #[default]
    None,
    /// Replays and lagging subscriptions wait; histories and long polls are refused.
    Recoveries,
    /// Nobody new is served: connections and subscriptions are refused.
    Newcomers,
    /// Publications are refused.
    Publications,
}

impl Pressure {
    /// All, the lowest first.
    pub const ALL: [Pressure; 4] =
        [Pressure::None, Pressure::Recoveries, Pressure::Newcomers, Pressure::Publications];

    /// Of a number from 0 to 3; greater ones are 3.
    pub fn of(number: u8) -> Pressure {
        let place = usize::from(number).min(Pressure::ALL.len() - 1);
        Pressure::ALL[place]
    }
}

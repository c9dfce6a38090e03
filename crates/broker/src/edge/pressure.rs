//! Memory pressure: the operations that an edge refuses or delays while the process is short of
//! memory, the least harmful first.
//!
//! Place: the shell sets the pressure ([`Edge::set_pressure`]); each operation that would take
//! memory asks here. Invariants: clients that are connected and subscribed get live messages at any
//! pressure; a refusal has the code `memory_full`; delayed operations continue by themselves when
//! the pressure falls.

use stdx::handing::Hand;

/// Levels of memory pressure; each includes those before.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Debug, Hand)]
#[repr(u8)]
pub enum Pressure {
    /// Not at all.
    #[default]
    None,
    /// Replays and lagging subscriptions wait; histories and long polls are refused.
    Recoveries,
    /// New connections and subscriptions are refused.
    Newcomers,
    /// Publications are refused.
    Publications,
}

impl Pressure {
    /// All, the lowest first.
    pub const ALL: [Pressure; 4] =
        [Pressure::None, Pressure::Recoveries, Pressure::Newcomers, Pressure::Publications];

    /// The pressure of a number from 0 to 3; greater ones are 3.
    pub fn of(number: u8) -> Pressure {
        let place = usize::from(number).min(Pressure::ALL.len() - 1);
        Pressure::ALL[place]
    }
}

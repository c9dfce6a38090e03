//! Shortage of memory: the shell reports it, and operations that would take memory ask here.

use crate::edge::Edge;
use crate::edge::pressure::Pressure;
use wire::native::ErrorCode;

impl Edge {
    /// Sets the memory pressure from now on.
    pub fn set_pressure(&mut self, pressure: Pressure) {
        self.pressure = pressure;
    }

    /// Whether pages of the log may be asked for.
    pub(crate) fn may_recover(&self) -> bool {
        self.pressure < Pressure::Recoveries
    }

    /// # Errors
    /// `memory_full`, from this pressure on.
    pub(crate) fn refuse_from(&mut self, pressure: Pressure) -> Result<(), ErrorCode> {
        if self.pressure < pressure {
            return Ok(());
        }
        let turned_away = &mut self.statistics.turned_away;
        let count = match pressure {
            Pressure::None | Pressure::Recoveries => &mut turned_away.histories_without_memory,
            Pressure::Newcomers => &mut turned_away.subscriptions_without_memory,
            Pressure::Publications => &mut turned_away.publishes_without_memory,
        };
        *count += 1;
        Err(ErrorCode::MemoryFull)
    }
}

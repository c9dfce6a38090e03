//! PINGREQ of all clients of a worker, spread evenly over the keep alive.
//!
//! Place: under [`super::speech`]. A client has no time of its own: the turn goes from place to
//! place, and comes back to each one after two thirds of the keep alive.

/// Pings of one turn of the loop.
const TURN_PINGS_MAX: u32 = 512;

/// The clock of the pings.
pub(super) struct Pings {
    /// Places of the worker.
    clients: u32,
    /// The least keep alive that was agreed on; 0 for none.
    keep_alive_s: u16,
    next_place: u32,
    /// The time of the next ping; 0 before the first one.
    next_ns: u64,
}

impl Pings {
    pub(super) fn new(clients: u32, keep_alive_s: u16) -> Pings {
        Pings { clients: clients.max(1), keep_alive_s, next_place: 0, next_ns: 0 }
    }

    /// A server wants this keep alive.
    pub(super) fn agree(&mut self, server_keep_alive_s: u16) {
        if server_keep_alive_s > 0
            && (self.keep_alive_s == 0 || server_keep_alive_s < self.keep_alive_s)
        {
            self.keep_alive_s = server_keep_alive_s;
            self.next_ns = 0;
        }
    }

    /// The time between two pings of the worker.
    fn step_ns(&self) -> Option<u64> {
        let lap_ns = u64::from(self.keep_alive_s) * 1_000_000_000 / 3 * 2;
        (lap_ns > 0).then(|| (lap_ns / u64::from(self.clients)).max(1))
    }

    /// The time of the next ping.
    pub(super) fn wake_ns(&self) -> Option<u64> {
        self.step_ns().map(|_| self.next_ns)
    }

    /// The next place whose time has come; `count` is the number of such places in this turn.
    pub(super) fn due(&mut self, now_ns: u64, count: u32) -> Option<u32> {
        let step_ns = self.step_ns()?;
        if self.next_ns == 0 {
            self.next_ns = now_ns + step_ns;
        }
        if now_ns < self.next_ns || count >= TURN_PINGS_MAX {
            return None;
        }
        self.next_ns += step_ns;
        let place = self.next_place;
        self.next_place = (place + 1) % self.clients;
        Some(place)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The places whose time comes in each of these seconds.
    fn places(pings: &mut Pings, seconds: u64) -> Vec<(u64, u32)> {
        let mut found = Vec::new();
        for second in 1..=seconds {
            let mut count = 0;
            while let Some(place) = pings.due(second * 1_000_000_000, count) {
                found.push((second, place));
                count += 1;
            }
        }
        found
    }

    #[test]
    fn every_client_has_its_turn_within_two_thirds_of_the_keep_alive() {
        let mut pings = Pings::new(3, 9);
        assert_eq!(places(&mut pings, 9), [(3, 0), (5, 1), (7, 2), (9, 0)]);
    }

    #[test]
    fn the_server_may_shorten_the_keep_alive_and_demand_one() {
        let mut pings = Pings::new(1, 0);
        assert_eq!((pings.wake_ns(), pings.due(5, 0)), (None, None));
        pings.agree(3);
        pings.agree(60);
        assert_eq!(places(&mut pings, 5), [(3, 0), (5, 0)]);
    }

    #[test]
    fn a_turn_has_a_bounded_number_of_pings() {
        let mut pings = Pings::new(4_000, 3);
        assert_eq!(places(&mut pings, 2).len(), TURN_PINGS_MAX as usize);
    }
}

//! Disks that hang while everything else is calm: what other logs owe their clients comes all the
//! same.

use super::World;

/// So long before disks that hang go on, everything else is looked at; milliseconds.
const HANG_REST_MS: u64 = 1_000;

impl World {
    /// Disks that hang after all other faults: who uses logs in memory gets what is due long before
    /// they go on.
    pub(super) fn outlast_disks(&mut self) {
        let Some(end_ms) = self.hung_until_ms.take() else {
            return;
        };
        self.advance(end_ms - HANG_REST_MS, false);
        for (id, client) in self.clients.iter().enumerate() {
            if self.oracle.failure.is_some() {
                return;
            }
            match client.is_served((&self.oracle, &self.plan), self.now_ms) {
                Ok(count) => self.reached.served_beside_a_hang += count as u64,
                Err(text) => {
                    let text = format!("a disk hangs, and of another log {text}");
                    self.oracle.fail(id, text);
                }
            }
        }
        self.advance(end_ms, false);
    }
}

//! Disks that hang while all other faults have ended: other logs must serve their clients all the
//! same.

use super::World;

/// The time before the end of the hang when the other clients are checked; milliseconds.
const HANG_REST_MS: u64 = 1_000;

impl World {
    /// Waits for disks that hang after all other faults: clients of logs in memory must be served
    /// long before their end.
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

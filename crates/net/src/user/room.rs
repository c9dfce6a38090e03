//! The room of one thread's network: its maximum number of connections, and the answer to others.
//!
//! The stack has some lines more than that, for connections on their way to a refusal. Its owner
//! never sees them. Invariant: a connection counts from its event, or its begin here, to its end.

use crate::Conn;

/// Lines of the stack for refused and closing connections.
pub(super) const RESERVE: u32 = 1_024;

/// The room for connections.
#[derive(Debug)]
pub(super) struct Room {
    open_count: u32,
    open_max: u32,
    /// The answers of the listeners.
    refusals: Vec<&'static [u8]>,
    /// Connections that were refused in this report.
    refused: Vec<Conn>,
}

impl Room {
    pub fn new(open_max: u32) -> Room {
        Room { open_count: 0, open_max, refusals: Vec::new(), refused: Vec::new() }
    }

    /// Adds the answer of the next listener.
    pub fn add_listener(&mut self, refusal: &'static [u8]) {
        self.refusals.push(refusal);
    }

    /// Counts a connection that begins here; false if there is no room.
    pub fn take(&mut self) -> bool {
        let has_room = self.open_count < self.open_max;
        self.open_count += u32::from(has_room);
        has_room
    }

    /// A counted connection has ended.
    pub fn give_back(&mut self) {
        self.open_count -= 1;
    }

    /// Counts an accepted connection; the answer to it if there is no room.
    pub fn accept(&mut self, conn: Conn, listener: u8) -> Option<&'static [u8]> {
        if self.take() {
            return None;
        }
        self.refused.push(conn);
        Some(self.refusals.get(usize::from(listener)).copied().unwrap_or_default())
    }

    /// Whether a connection was refused in this report.
    pub fn has_refused(&self, conn: Conn) -> bool {
        self.refused.contains(&conn)
    }

    /// Ends the report.
    pub fn end_report(&mut self) {
        self.refused.clear();
    }
}

//! The end of a connection: its cause is noted when it is known, and counted once.

use crate::edge::Edge;
use crate::edge::ends::End;
use crate::ids::ConnIndex;

impl Edge {
    /// The connection is about to end, for this reason if there is none yet.
    pub(crate) fn note_end(&mut self, index: ConnIndex, end: End) {
        self.connections.slots[index].note_end(end);
    }

    /// The connection ends.
    pub(crate) fn count_end(&mut self, index: ConnIndex) {
        let end = self.connections.slots[index].end();
        self.statistics.ends.count(end);
        self.statistics.closed += 1;
    }
}

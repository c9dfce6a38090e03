//! A look ahead at packets that have come together.
//!
//! With ten million connections no table is in a cache. The stack asks for the memory of several
//! packets' buckets at once, then for that of their lines, then for that of their active blocks,
//! before it takes the first of them: it waits for its tables once, and not for each packet. It
//! changes nothing, and a wrong guess costs nothing else.

use crate::flow::Flow;
use crate::packet;
use crate::stack::Stack;

/// Packets of one look ahead.
pub const PACKETS_AHEAD: usize = 16;

impl Stack {
    /// Asks for the memory that these packets need, of [`PACKETS_AHEAD`] at most. Their owner gives
    /// them to [`Stack::receive`] next.
    pub fn look_ahead<'a>(&self, packets: impl Iterator<Item = &'a [u8]>) {
        let mut hashes = [0; PACKETS_AHEAD];
        let mut count = 0;
        let flows = packets.take(PACKETS_AHEAD).filter_map(|packet| self.flow_of(packet));
        for (flow, place) in flows.zip(&mut hashes) {
            *place = self.hash(&flow);
            count += 1;
            self.table.prefetch(*place);
        }
        let hashes = &hashes[..count];
        let mut guesses = [None; PACKETS_AHEAD];
        for (guess, hash) in guesses.iter_mut().zip(hashes) {
            *guess = self.table.guess(*hash);
            if let Some(index) = *guess {
                self.lines.prefetch(index);
            }
        }
        for index in guesses.into_iter().flatten() {
            if let Some(line) = self.lines.get(index)
                && !line.is_idle()
            {
                self.actives.prefetch(line.active);
            }
        }
    }

    fn flow_of(&self, packet: &[u8]) -> Option<Flow> {
        let (peer, to, peer_port, local_port) = packet::ends(packet)?;
        Some(Flow { peer, peer_port, local_port, local: self.local(to)? })
    }
}

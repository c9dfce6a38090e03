//! What tells a client how far its filters are settled: CAUGHT_UP for each partition in the native
//! protocol, and on event streams an `id:` without an event, which holds all of them.

use super::State;
use super::events::NO_EVENT;
use crate::edge::Edge;
use crate::ids::ConnIndex;
use crate::mail::PartitionId;
use wire::native::{CaughtUp, ServerFrame};

/// Bytes of one frame that tells a position: header, type, flags, and three numbers.
pub(crate) const POSITION_BYTES_MAX: usize = 32;

impl Edge {
    /// Frames that say that a filter is settled up to these positions, one after the other.
    pub(crate) fn native_positions(
        &mut self,
        client: u32,
        settled: &[(PartitionId, u64)],
    ) -> Vec<u8> {
        let mut frames = Vec::new();
        for &(partition, through) in settled {
            let frame = ServerFrame::CaughtUp(CaughtUp {
                subscription: client,
                partition: Some(partition),
                through,
            });
            let (bytes, start) = self.encode_native(&frame);
            frames.extend_from_slice(&bytes[start..]);
            self.work.scratch = bytes;
        }
        frames
    }

    /// Moves a stream's cursor to these positions where it is not beyond them, and says what tells
    /// it; none if that is no news, unless it `is_owed`, or if the stream has no cursor yet.
    pub(crate) fn stream_positions(
        &mut self,
        index: ConnIndex,
        settled: &[(PartitionId, u64)],
        is_owed: bool,
    ) -> Option<Vec<u8>> {
        let Some(State::Events(events)) = self.state(index) else {
            return None;
        };
        let mut is_news = is_owed;
        for &(partition, through) in settled {
            is_news |= events.cursor.advance_partition(partition, through);
        }
        let cursor = self.stream_cursor(index).filter(|_| is_news)?;
        Some([b"id: ", cursor.as_bytes(), b"\n", NO_EVENT].concat())
    }
}

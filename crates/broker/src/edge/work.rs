//! Places to work in: buffers that every turn uses anew, and what a turn may still do.
//!
//! Nothing here is state: a live upgrade leaves it.

use crate::edge::compression::Compression;
use crate::ids::SubIndex;
use stdx::chunk::{ChunkWriter, Slice};

/// See the module.
#[derive(Default)]
pub(crate) struct Work {
    /// The work that subscriptions may still take in this turn.
    pub left: u32,
    pub mail: Mail,
    pub targets: Vec<SubIndex>,
    pub scratch: Vec<u8>,
    pub attributes: Vec<u8>,
    /// The frames of a list in JSON, until the end of the message.
    pub json_frames: Vec<u8>,
    pub compression: Compression,
}

/// Areas of bytes for other shards: one after another, each freed when the last letter that refers
/// to it has been handled.
#[derive(Default)]
pub(crate) struct Mail {
    area: Option<ChunkWriter>,
}

const MAIL_AREA_BYTES: usize = 64 << 10;

impl Mail {
    /// The bytes of the area that is being filled.
    pub fn memory_bytes(&self) -> usize {
        self.area.as_ref().map_or(0, ChunkWriter::len)
    }

    /// A copy that letters can carry.
    #[inline]
    pub fn copy(&mut self, bytes: &[u8]) -> Slice {
        if bytes.is_empty() { Slice::empty() } else { self.copy_some(bytes) }
    }

    fn copy_some(&mut self, bytes: &[u8]) -> Slice {
        if bytes.len() > MAIL_AREA_BYTES / 4 {
            return Slice::copy_of(bytes);
        }
        if let Some(slice) = self.area.as_mut().and_then(|area| area.append(&[bytes])) {
            return slice;
        }
        let area = self.area.insert(ChunkWriter::heap(MAIL_AREA_BYTES));
        area.append(&[bytes]).unwrap_or_else(|| Slice::copy_of(bytes))
    }
}

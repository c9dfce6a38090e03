//! Memory of log segments: memfds, so that an upgrade can hand them over.

use log::{Memory, MemoryRefused};
use net::kernel::memory::{MemoryFd, create};
use std::collections::BTreeMap;
use stdx::chunk::ChunkWriter;

/// Segments of one thread. Owned by that thread: the descriptors are numbers in its table.
#[derive(Default)]
pub struct MemfdMemory {
    last_id: u64,
    areas: BTreeMap<u64, MemoryFd>,
}

impl Memory for MemfdMemory {
    fn allocate(&mut self, capacity: usize) -> Result<(ChunkWriter, u64), MemoryRefused> {
        let (writer, descriptor) = create(capacity).map_err(|_| MemoryRefused { capacity })?;
        self.last_id += 1;
        self.areas.insert(self.last_id, descriptor);
        Ok((writer, self.last_id))
    }

    fn release(&mut self, id: u64) {
        if let Some(descriptor) = self.areas.remove(&id) {
            descriptor.close();
        }
    }
}

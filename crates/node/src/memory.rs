//! Memory of log segments: memfds, so that an upgrade can hand them over.

use log::{Memory, MemoryRefused};
use net::system::DESCRIPTORS_MAX;
use net::system::Spares;
use net::system::memory::{MemoryFd, reopen};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::rc::Rc;
use stdx::chunk::ChunkWriter;

/// Sends names and descriptors.
type Send<'a> = dyn FnMut(&[u64], &[BorrowedFd<'_>]) -> io::Result<()> + 'a;

/// Segments of one thread, which owns them: the descriptors are numbers in its table. Clones share
/// the memory.
#[derive(Clone, Default)]
pub struct MemfdMemory(Rc<RefCell<Areas>>);

#[derive(Default)]
struct Areas {
    last_id: u64,
    spares: Spares,
    areas: BTreeMap<u64, MemoryFd>,
    /// Descriptors from the old process that are not opened yet.
    adopted: BTreeMap<u64, OwnedFd>,
}

impl MemfdMemory {
    /// Sends all descriptors with their names, in several messages.
    pub fn hand_over(&self, send: &mut Send<'_>) -> io::Result<()> {
        let areas = self.0.borrow();
        let names: Vec<u64> = areas.areas.keys().copied().collect();
        let descriptors: Vec<BorrowedFd<'_>> = areas.areas.values().map(MemoryFd::lend).collect();
        let batches = names.chunks(DESCRIPTORS_MAX);
        for (names, descriptors) in batches.zip(descriptors.chunks(DESCRIPTORS_MAX)) {
            send(names, descriptors)?;
        }
        Ok(())
    }

    /// Receives one that the old process had under this name.
    pub fn adopt(&self, id: u64, descriptor: OwnedFd) {
        self.0.borrow_mut().adopted.insert(id, descriptor);
    }
}

impl Memory for MemfdMemory {
    fn allocate(&mut self, capacity: usize) -> Result<(ChunkWriter, u64), MemoryRefused> {
        let mut areas = self.0.borrow_mut();
        let created = areas.spares.create(capacity);
        let (writer, descriptor) = created.map_err(|_| MemoryRefused { capacity })?;
        areas.last_id += 1;
        let id = areas.last_id;
        areas.areas.insert(id, descriptor);
        Ok((writer, id))
    }

    fn release(&mut self, id: u64) {
        let mut areas = self.0.borrow_mut();
        if let Some(descriptor) = areas.areas.remove(&id) {
            areas.spares.give_back(descriptor);
        }
    }

    fn reopen(&mut self, id: u64, len: usize) -> Result<ChunkWriter, MemoryRefused> {
        let refused = MemoryRefused { capacity: len };
        let mut areas = self.0.borrow_mut();
        let descriptor = areas.adopted.remove(&id).ok_or(refused)?;
        let (writer, descriptor) = reopen(descriptor, len).map_err(|_| refused)?;
        areas.areas.insert(id, descriptor);
        areas.last_id = areas.last_id.max(id);
        Ok(writer)
    }
}

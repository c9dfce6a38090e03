//! The memory of a shard's segments: on the heap, sometimes refused, and handed over with the
//! shard.

use log::{HeapMemory, Memory, MemoryRefused};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use stdx::chunk::ChunkWriter;
use stdx::prng::Prng;

/// Clones share the memory.
#[derive(Clone)]
pub(crate) struct SimMemory(Rc<RefCell<Inner>>);

struct Inner {
    heap: HeapMemory,
    refusals: Rc<Cell<f64>>,
    random: Prng,
    capacities: BTreeMap<u64, usize>,
    /// The bytes of chunks that are handed over.
    kept: BTreeMap<u64, Vec<u8>>,
}

impl SimMemory {
    /// Creates memory of `bytes_max` bytes; allocations fail with the probability in `refusals`.
    pub fn new(bytes_max: usize, refusals: Rc<Cell<f64>>, random: Prng) -> SimMemory {
        SimMemory(Rc::new(RefCell::new(Inner {
            heap: HeapMemory::new(bytes_max),
            refusals,
            random,
            capacities: BTreeMap::new(),
            kept: BTreeMap::new(),
        })))
    }

    /// Stores the bytes of a shard's segments for the next shard.
    pub fn keep<'a>(&self, chunks: impl Iterator<Item = (u64, &'a [u8])>) {
        let kept = chunks.map(|(id, bytes)| (id, bytes.to_vec())).collect();
        self.0.borrow_mut().kept = kept;
    }
}

impl Memory for SimMemory {
    fn allocate(&mut self, capacity: usize) -> Result<(ChunkWriter, u64), MemoryRefused> {
        let mut inner = self.0.borrow_mut();
        let refusals = inner.refusals.get();
        if inner.random.chance(refusals) {
            return Err(MemoryRefused { capacity });
        }
        let (writer, id) = inner.heap.allocate(capacity)?;
        inner.capacities.insert(id, writer.capacity());
        Ok((writer, id))
    }

    fn release(&mut self, id: u64) {
        let mut inner = self.0.borrow_mut();
        inner.capacities.remove(&id);
        inner.heap.release(id);
    }

    fn reopen(&mut self, id: u64, len: usize) -> Result<ChunkWriter, MemoryRefused> {
        let mut inner = self.0.borrow_mut();
        let refused = MemoryRefused { capacity: len };
        let bytes = inner.kept.remove(&id).ok_or(refused)?;
        let capacity = inner.capacities.get(&id).copied().ok_or(refused)?;
        let mut writer = ChunkWriter::heap(capacity);
        let published = writer.append(&[&bytes]).is_some() && bytes.len() == len;
        published.then_some(writer).ok_or(refused)
    }
}

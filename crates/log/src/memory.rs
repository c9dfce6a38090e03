//! The port through which a partition gets the memory of its segments.
//!
//! The node gives memfds, so that an upgrade can hand segments over; tests and the simulator use
//! the heap.

use std::fmt;
use stdx::chunk::{CHUNK_BYTES_MAX, ChunkWriter};

/// Where segments come from. The implementation bounds them all together.
pub trait Memory {
    /// A chunk of at least `capacity` bytes and a name for it, unique until released.
    fn allocate(&mut self, capacity: usize) -> Result<(ChunkWriter, u64), MemoryRefused>;

    /// The partition has let go of the chunk; called once, on the thread that owns the partition.
    /// Slices elsewhere may still read the bytes: what must outlive them goes with the chunk's own
    /// release.
    fn release(&mut self, id: u64);

    /// The chunk of this name, as the process that this one follows has left it, of which `len`
    /// bytes are published. Called once for each chunk, before any other is allocated.
    ///
    /// # Errors
    /// There is no such chunk, or it is shorter; and always, where nothing is handed over.
    fn reopen(&mut self, id: u64, len: usize) -> Result<ChunkWriter, MemoryRefused> {
        let _ = id;
        Err(MemoryRefused { capacity: len })
    }
}

/// There is no memory for another segment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MemoryRefused {
    /// Bytes that were asked for.
    pub capacity: usize,
}

impl fmt::Display for MemoryRefused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "not enough memory for a segment of {} bytes", self.capacity)
    }
}

impl std::error::Error for MemoryRefused {}

/// Segments on the heap, `bytes_max` of them in total.
#[derive(Debug)]
pub struct HeapMemory {
    bytes_max: usize,
    bytes: usize,
    last_id: u64,
    /// Id and capacity of what is allocated, by id.
    chunks: Vec<(u64, usize)>,
}

impl HeapMemory {
    /// Memory for segments of `bytes_max` bytes in total.
    pub const fn new(bytes_max: usize) -> HeapMemory {
        HeapMemory { bytes_max, bytes: 0, last_id: 0, chunks: Vec::new() }
    }

    /// Bytes allocated and not released.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Chunks allocated and not released.
    pub fn chunks(&self) -> usize {
        self.chunks.len()
    }
}

impl Memory for HeapMemory {
    fn allocate(&mut self, capacity: usize) -> Result<(ChunkWriter, u64), MemoryRefused> {
        let fits = capacity <= CHUNK_BYTES_MAX && capacity <= self.bytes_max - self.bytes;
        if !fits {
            return Err(MemoryRefused { capacity });
        }
        self.bytes += capacity;
        self.last_id += 1;
        self.chunks.push((self.last_id, capacity));
        Ok((ChunkWriter::heap(capacity), self.last_id))
    }

    fn release(&mut self, id: u64) {
        if let Ok(place) = self.chunks.binary_search_by_key(&id, |(id, _)| *id) {
            self.bytes -= self.chunks.remove(place).1;
        }
    }
}

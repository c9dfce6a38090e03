//! The port through which a partition allocates the memory of its segments.
//!
//! The node uses memfds, so that an upgrade can hand segments over; tests and the simulator use the
//! heap.

use std::fmt;
use stdx::chunk::{CHUNK_BYTES_MAX, ChunkWriter};

/// The allocator of segments. The implementation bounds their total size.
pub trait Memory {
    /// Allocates a chunk of at least `capacity` bytes. Returns it with a name, unique until
    /// released.
    fn allocate(&mut self, capacity: usize) -> Result<(ChunkWriter, u64), MemoryRefused>;

    /// Reports that the partition has dropped the chunk; called once, on the partition's thread.
    /// Slices elsewhere may still read the bytes: resources that must outlive them belong to the
    /// chunk's own release.
    fn release(&mut self, id: u64);

    /// Reopens the chunk with this name, as the previous process left it; `len` bytes are
    /// published. Called once for each chunk, before any other allocation.
    ///
    /// # Errors
    /// The chunk is missing or shorter. An implementation without hand-over always refuses.
    fn reopen(&mut self, id: u64, len: usize) -> Result<ChunkWriter, MemoryRefused> {
        let _ = id;
        Err(MemoryRefused { capacity: len })
    }
}

/// There is no memory for another segment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MemoryRefused {
    /// The requested bytes.
    pub capacity: usize,
}

impl fmt::Display for MemoryRefused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "not enough memory for a segment of {} bytes", self.capacity)
    }
}

impl std::error::Error for MemoryRefused {}

/// Segments on the heap, `bytes_max` bytes in total.
#[derive(Debug)]
pub struct HeapMemory {
    bytes_max: usize,
    bytes: usize,
    last_id: u64,
    /// The id and capacity of each allocation, by id.
    chunks: Vec<(u64, usize)>,
}

impl HeapMemory {
    /// Creates memory for segments of `bytes_max` bytes in total.
    pub const fn new(bytes_max: usize) -> HeapMemory {
        HeapMemory { bytes_max, bytes: 0, last_id: 0, chunks: Vec::new() }
    }

    /// The number of bytes in use.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// The number of chunks in use.
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

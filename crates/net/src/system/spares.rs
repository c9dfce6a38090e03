//! Areas of memory that are used again: the kernel clears no page twice for a log that is full and
//! gets a new segment for each old one.
//!
//! An area is free when its owner has given the descriptor back *and* the last slice of its chunk
//! is dropped, on whichever thread. One free area is kept; all others are unmapped and closed.

use std::io;
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, PoisonError};

use stdx::chunk::ChunkWriter;

use super::memory::{self, MemoryFd};

/// The areas of one thread, which owns the descriptors.
#[derive(Debug, Default)]
pub struct Spares {
    /// The descriptor that was given back last: the one whose mapping may become a spare.
    descriptor: Option<MemoryFd>,
    mapping: Arc<Mutex<Returned>>,
    last_area: u64,
}

/// The mapping of a chunk without slices.
#[derive(Debug)]
struct Mapping {
    area: u64,
    address: NonNull<u8>,
    capacity_bytes: usize,
}

// SAFETY: the address is a number here, and the code that takes the mapping is its only user.
unsafe impl Send for Mapping {}

/// The mapping that came back last.
#[derive(Debug, Default)]
struct Returned {
    mapping: Option<Mapping>,
    /// The owner is gone.
    is_closed: bool,
}

impl Spares {
    /// A free area with exactly this capacity, or a new one. Its bytes are those of its last use.
    ///
    /// # Errors
    /// `InvalidInput` for no bytes or more than a chunk holds; otherwise the system lacks a
    /// descriptor or address space.
    pub fn create(&mut self, capacity_bytes: usize) -> io::Result<(ChunkWriter, MemoryFd)> {
        let spare = self.returned(|returned| returned.mapping.take());
        let (address, file) = match (spare, self.descriptor.take()) {
            (Some(mapping), Some(descriptor))
                if mapping.area == descriptor.area()
                    && mapping.capacity_bytes == capacity_bytes =>
            {
                (mapping.address, descriptor.into_owned())
            }
            (mapping, descriptor) => {
                if let Some(mapping) = mapping {
                    memory::unmap(mapping.address, mapping.capacity_bytes);
                }
                if let Some(descriptor) = descriptor {
                    descriptor.close();
                }
                memory::fresh(capacity_bytes)?
            }
        };
        self.last_area += 1;
        let area = self.last_area;
        let home = self.mapping.clone();
        let release = move |address, capacity_bytes| {
            put(&home, Mapping { area, address, capacity_bytes });
        };
        let writer = memory::chunk(address, capacity_bytes, 0, release);
        Ok((writer, MemoryFd::of_area(file, area)))
    }

    /// Takes the descriptor of an area back whose writer is dropped. Slices may still be there.
    pub fn give_back(&mut self, descriptor: MemoryFd) {
        if let Some(older) = self.descriptor.replace(descriptor) {
            older.close();
        }
    }

    fn returned<T>(&self, access: impl FnOnce(&mut Returned) -> T) -> T {
        access(&mut self.mapping.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Keeps the mapping that came back last, and unmaps the one before.
fn put(home: &Mutex<Returned>, mapping: Mapping) {
    let mut returned = home.lock().unwrap_or_else(PoisonError::into_inner);
    let older = if returned.is_closed { Some(mapping) } else { returned.mapping.replace(mapping) };
    drop(returned);
    if let Some(Mapping { address, capacity_bytes, .. }) = older {
        memory::unmap(address, capacity_bytes);
    }
}

impl Drop for Spares {
    fn drop(&mut self) {
        let mapping = self.returned(|returned| {
            returned.is_closed = true;
            returned.mapping.take()
        });
        if let Some(mapping) = mapping {
            memory::unmap(mapping.address, mapping.capacity_bytes);
        }
        if let Some(descriptor) = self.descriptor.take() {
            descriptor.close();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::RawFd;
    use std::thread;

    const BYTES: usize = 1 << 16;

    fn area(spares: &mut Spares, bytes: usize) -> (ChunkWriter, MemoryFd, RawFd) {
        let (writer, descriptor) = spares.create(bytes).expect("an area");
        let number = descriptor.as_raw();
        (writer, descriptor, number)
    }

    #[test]
    fn an_area_without_slices_is_used_again() {
        let mut spares = Spares::default();
        let (mut writer, descriptor, number) = area(&mut spares, BYTES);
        let slice = writer.append(&[b"first"]).expect("room");
        drop(writer);
        spares.give_back(descriptor);
        let place = slice.as_ptr();
        thread::spawn(move || drop(slice)).join().expect("the last slice");
        let (mut writer, descriptor, again) = area(&mut spares, BYTES);
        assert_eq!((again, writer.len()), (number, 0));
        let slice = writer.append(&[b"again"]).expect("room");
        assert_eq!((slice.as_ptr(), &slice[..]), (place, &b"again"[..]));
        descriptor.close();
    }

    #[test]
    fn an_area_in_use_or_of_another_size_is_left() {
        let mut spares = Spares::default();
        let (mut writer, descriptor, _) = area(&mut spares, BYTES);
        let slice = writer.append(&[b"kept"]).expect("room");
        drop(writer);
        spares.give_back(descriptor);
        let (writer, descriptor, _) = area(&mut spares, BYTES);
        assert_eq!(&slice[..], b"kept");
        // Its descriptor is closed by now, so its mapping cannot be used.
        drop(slice);
        let (other, other_descriptor, _) = area(&mut spares, BYTES);
        drop((writer, other));
        spares.give_back(descriptor);
        spares.give_back(other_descriptor);
        let (writer, descriptor, _) = area(&mut spares, 2 * BYTES);
        assert_eq!(writer.capacity(), 2 * BYTES);
        descriptor.close();
        drop(spares);
        // It came back to no owner.
        drop(writer);
    }
}

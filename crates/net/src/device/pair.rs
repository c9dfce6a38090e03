//! Two ends over shared memory in one process, without a kernel, for measuring: the cost of
//! everything but the kernel.
//!
//! Each direction is a ring of places with one producer and one consumer. A frame is written into
//! its place and read from there, so it is never copied. An end that polls finds frames without a
//! system call; there is no descriptor to wait for.

use std::cell::UnsafeCell;
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::{Device, FRAME_BYTES};

/// Places of a direction at most.
const PLACES_MAX: usize = 1 << 20;

/// Makes two ends; each direction holds `places` frames, rounded up to a power of two.
///
/// # Errors
/// `InvalidInput` for no places or more than 1,048,576.
pub fn pair(places: usize) -> io::Result<(Pair, Pair)> {
    if places == 0 || places > PLACES_MAX {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let [forth, back] = [(); 2].map(|()| Arc::new(Direction::new(places.next_power_of_two())));
    Ok((Pair::new(forth.clone(), back.clone()), Pair::new(back, forth)))
}

/// One end.
#[derive(Debug)]
pub struct Pair {
    sending: Arc<Direction>,
    receiving: Arc<Direction>,
    /// Frames queued by this end, the published ones included.
    queued: usize,
    /// Published frames of this end.
    published: usize,
    /// Frames of this end that its peer has read, at the last look.
    seen_consumed: usize,
    /// Received frames.
    consumed: usize,
    /// Frames of the peer, at the last look.
    seen_published: usize,
}

/// A counter on a cache line of its own, so that the two ends do not disturb each other.
#[repr(align(128))]
#[derive(Debug)]
struct Counter(AtomicUsize);

/// A place and the length of its frame in bytes.
struct Place {
    length: usize,
    bytes: [u8; FRAME_BYTES],
}

/// The frames of one direction. The producer owns the places from `published` to `consumed` plus
/// the ring's length, the consumer those from `consumed` to `published`; counters only grow.
struct Direction {
    places: Box<[UnsafeCell<Place>]>,
    published: Counter,
    consumed: Counter,
}

// SAFETY: a place is touched by the end that owns it only, as `Direction` says, and its owner
// changes by a store-release of a counter that the other end reads by a load-acquire.
unsafe impl Sync for Direction {}

impl Direction {
    fn new(places: usize) -> Direction {
        let place = || UnsafeCell::new(Place { length: 0, bytes: [0; FRAME_BYTES] });
        Direction {
            places: (0..places).map(|_| place()).collect(),
            published: Counter(AtomicUsize::new(0)),
            consumed: Counter(AtomicUsize::new(0)),
        }
    }

    fn place(&self, number: usize) -> *mut Place {
        self.places[number & (self.places.len() - 1)].get()
    }
}

impl std::fmt::Debug for Direction {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Direction").field("places", &self.places.len()).finish_non_exhaustive()
    }
}

impl Pair {
    fn new(sending: Arc<Direction>, receiving: Arc<Direction>) -> Pair {
        Pair {
            sending,
            receiving,
            queued: 0,
            published: 0,
            seen_consumed: 0,
            consumed: 0,
            seen_published: 0,
        }
    }

    /// Whether this end owns the place of its next frame.
    fn has_room(&mut self) -> bool {
        let places = self.sending.places.len();
        if self.queued.wrapping_sub(self.seen_consumed) >= places {
            self.seen_consumed = self.sending.consumed.0.load(Ordering::Acquire);
        }
        self.queued.wrapping_sub(self.seen_consumed) < places
    }
}

impl Device for Pair {
    fn receive(&mut self, frames_max: usize, each: &mut dyn FnMut(&[u8])) -> io::Result<usize> {
        if self.consumed == self.seen_published {
            self.seen_published = self.receiving.published.0.load(Ordering::Acquire);
        }
        let count = self.seen_published.wrapping_sub(self.consumed).min(frames_max);
        for number in 0..count {
            let place = self.receiving.place(self.consumed.wrapping_add(number));
            // SAFETY: the peer has published this place and gets it back by the store below, so
            // only this end touches it now. The reference ends before the store.
            let place = unsafe { &*place };
            each(&place.bytes[..place.length]);
        }
        if count > 0 {
            self.consumed = self.consumed.wrapping_add(count);
            self.receiving.consumed.0.store(self.consumed, Ordering::Release);
        }
        Ok(count)
    }

    fn next_frame(&mut self) -> Option<&mut [u8]> {
        if !self.has_room() {
            return None;
        }
        // SAFETY: there is room, so this end owns the place until it publishes it in `flush`, and
        // `&mut self` is borrowed for as long as the reference lives.
        let place = unsafe { &mut *self.sending.place(self.queued) };
        Some(&mut place.bytes)
    }

    fn queue(&mut self, length: usize) {
        if !self.has_room() {
            return;
        }
        // SAFETY: as in `next_frame`.
        unsafe { (*self.sending.place(self.queued)).length = length.min(FRAME_BYTES) };
        self.queued = self.queued.wrapping_add(1);
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.published != self.queued {
            self.published = self.queued;
            self.sending.published.0.store(self.published, Ordering::Release);
        }
        Ok(())
    }

    fn unsent(&mut self) -> usize {
        self.queued.wrapping_sub(self.published)
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    fn link_header_bytes(&self) -> usize {
        14
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;

    #[test]
    fn every_frame_arrives_once_and_in_order() {
        let (mut one, mut other) = pair(8).expect("memory");
        let receiver = std::thread::spawn(move || {
            let deadline = Instant::now() + Duration::from_secs(60);
            let mut next = 0_u32;
            while next < 10_000 && Instant::now() < deadline {
                let mut each = |frame: &[u8]| {
                    assert_eq!(frame, [&next.to_le_bytes()[..], &[7; 100]].concat());
                    next += 1;
                };
                other.receive(5, &mut each).expect("cannot fail");
            }
            next
        });
        let deadline = Instant::now() + Duration::from_secs(60);
        let mut sent = 0_u32;
        while sent < 10_000 && Instant::now() < deadline {
            while sent < 10_000
                && let Some(place) = one.next_frame()
            {
                place[..4].copy_from_slice(&sent.to_le_bytes());
                place[4..104].fill(7);
                one.queue(104);
                sent += 1;
            }
            one.flush().expect("cannot fail");
        }
        assert_eq!(receiver.join().expect("every frame is as it was sent"), 10_000);
    }

    #[test]
    fn a_full_ring_has_no_place_until_its_peer_reads() {
        let (mut one, mut other) = pair(2).expect("memory");
        for _ in 0..2 {
            one.next_frame().expect("room").fill(1);
            one.queue(3);
        }
        assert!(one.next_frame().is_none());
        assert_eq!(other.receive(9, &mut |_| panic!("not published")).expect("cannot fail"), 0);
        one.flush().expect("cannot fail");
        let mut lengths = Vec::new();
        other.receive(1, &mut |frame| lengths.push(frame.len())).expect("cannot fail");
        assert!(one.next_frame().is_some() && lengths == [3]);
    }

    #[test]
    fn a_ring_has_places() {
        assert!(pair(0).is_err() && pair(PLACES_MAX + 1).is_err());
    }
}

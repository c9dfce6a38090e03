//! The mesh of threads: the number of connections of each, and the hand-over of accepted sockets to
//! threads with room.
//!
//! A thread near its table's limit cannot close its listener (that resets what the kernel has
//! queued on it) nor leave it alone (the kernel keeps sending it a share). So it keeps accepting
//! and passes the sockets to the emptiest thread, over a socketpair made before the tables were
//! separated. The sender reserves the places in the receiver's count, so that the receiver never
//! overflows.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketFlags, SocketType, recvmsg, sendmsg, socketpair,
};

/// Sockets in one message. The sender holds so many in its reserve until the message is sent.
pub(super) const BATCH_MAX: usize = 32;

/// One thread's end of the connections between all I/O threads.
///
/// All threads own its descriptors in common: keep [`Handover::descriptors`] in every private
/// table. Dropping the last clone closes the numbers in the table of the thread that drops it.
#[derive(Clone, Debug)]
pub struct Handover {
    thread: usize,
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    loads: Box<[Load]>,
    /// The sending and the receiving end of each thread; empty for a single thread.
    pairs: Vec<(OwnedFd, OwnedFd)>,
}

/// On a cache line of its own: its thread writes it for every accept and close.
#[derive(Debug, Default)]
#[repr(align(64))]
struct Load {
    count: AtomicU32,
    max: AtomicU32,
    /// The value of `max` after a pause.
    max_unpaused: AtomicU32,
}

impl Handover {
    /// Connects `threads_count` threads, in the table of the calling thread; one end for each.
    ///
    /// # Errors
    /// The table has no room; each thread needs two descriptors (a single one needs none).
    pub fn mesh(threads_count: usize) -> io::Result<Vec<Handover>> {
        let mut pairs = Vec::new();
        if threads_count > 1 {
            for _ in 0..threads_count {
                let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
                // Whole messages, so that several threads may send into one end.
                pairs.push(socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?);
            }
        }
        let loads = (0..threads_count).map(|_| Load::default()).collect();
        let shared = Arc::new(Shared { loads, pairs });
        Ok((0..threads_count)
            .map(|thread| Handover { thread, shared: Arc::clone(&shared) })
            .collect())
    }

    /// The end of a thread without other threads.
    pub fn alone() -> Handover {
        let shared = Arc::new(Shared { loads: Box::new([Load::default()]), pairs: Vec::new() });
        Handover { thread: 0, shared }
    }

    /// The numbers, of all ends, to keep in every private table.
    pub fn descriptors(&self) -> impl Iterator<Item = RawFd> + '_ {
        self.shared.pairs.iter().flat_map(|(send, receive)| [send.as_raw_fd(), receive.as_raw_fd()])
    }

    /// Number of connections of each thread and its maximum, in the order of the mesh.
    pub fn loads(&self) -> impl Iterator<Item = (u32, u32)> + '_ {
        let read = |value: &AtomicU32| value.load(Ordering::Relaxed);
        self.shared.loads.iter().map(move |load| (read(&load.count), read(&load.max)))
    }

    pub(super) fn thread(&self) -> usize {
        self.thread
    }

    pub(super) fn receiving_end(&self) -> Option<BorrowedFd<'_>> {
        self.shared.pairs.get(self.thread).map(|(_, receive)| receive.as_fd())
    }

    /// Sets the maximum number of connections of this thread.
    pub(super) fn open(&self, connections_max: u32) {
        let load = &self.shared.loads[self.thread];
        load.max_unpaused.store(connections_max, Ordering::Relaxed);
        load.max.store(connections_max, Ordering::Relaxed);
    }

    /// No thread passes connections to this one until [`Handover::resume`].
    pub(super) fn pause(&self) {
        self.shared.loads[self.thread].max.store(0, Ordering::Relaxed);
    }

    pub(super) fn resume(&self) {
        let load = &self.shared.loads[self.thread];
        load.max.store(load.max_unpaused.load(Ordering::Relaxed), Ordering::Relaxed);
    }

    /// All connections of this thread have ended, and it takes no more.
    pub(super) fn leave(&self) {
        self.open(0);
        self.shared.loads[self.thread].count.store(0, Ordering::Relaxed);
    }

    /// Reserves a place on this thread.
    pub(super) fn take(&self) -> bool {
        let load = &self.shared.loads[self.thread];
        let max = load.max_unpaused.load(Ordering::Relaxed);
        load.take(max)
    }

    /// Reserves a place on the thread with the most room.
    pub(super) fn take_elsewhere(&self) -> Option<usize> {
        if self.shared.pairs.is_empty() {
            return None;
        }
        loop {
            let (thread, load) = self
                .shared
                .loads
                .iter()
                .enumerate()
                .filter(|&(thread, load)| thread != self.thread && load.room() > 0)
                .max_by_key(|(_, load)| load.room())?;
            if load.take(load.max.load(Ordering::Relaxed)) {
                return Some(thread);
            }
        }
    }

    /// Gives back `count` places of a thread.
    pub(super) fn give_back(&self, thread: usize, count: u32) {
        self.shared.loads[thread].count.fetch_sub(count, Ordering::Relaxed);
    }

    /// Sends at most [`BATCH_MAX`] sockets with the number of their listener; the caller closes its
    /// own copies afterwards, and takes care of the sockets itself on error.
    pub(super) fn send(&self, thread: usize, sockets: &[(u8, OwnedFd)]) -> io::Result<()> {
        debug_assert!(sockets.len() <= BATCH_MAX);
        let mut listeners = [0; BATCH_MAX];
        for (listener, socket) in listeners.iter_mut().zip(sockets) {
            *listener = socket.0;
        }
        let descriptors: Vec<BorrowedFd<'_>> = sockets.iter().map(|(_, fd)| fd.as_fd()).collect();
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(BATCH_MAX))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        if !control.push(SendAncillaryMessage::ScmRights(&descriptors)) {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let parts = [IoSlice::new(&listeners[..sockets.len()])];
        let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
        sendmsg(&self.shared.pairs[thread].0, &parts, &mut control, flags)?;
        Ok(())
    }

    /// Receives one message: appends its sockets, and returns the number that was sent; fewer
    /// arrive if this table has no room for them. `None` if there is no message.
    pub(super) fn receive(&self, sockets: &mut Vec<(u8, OwnedFd)>) -> io::Result<Option<u32>> {
        let Some(end) = self.receiving_end() else {
            return Ok(None);
        };
        let mut listeners = [0; BATCH_MAX];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(BATCH_MAX))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let mut parts = [IoSliceMut::new(&mut listeners)];
        let flags = RecvFlags::CMSG_CLOEXEC | RecvFlags::DONTWAIT;
        let bytes = match recvmsg(end, &mut parts, &mut control, flags) {
            Ok(message) => message.bytes,
            Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        let mut numbers = listeners[..bytes].iter();
        for message in control.drain() {
            if let RecvAncillaryMessage::ScmRights(descriptors) = message {
                for descriptor in descriptors {
                    let listener = numbers.next().copied().unwrap_or(0);
                    sockets.push((listener, descriptor));
                }
            }
        }
        Ok(if bytes == 0 { None } else { Some(bytes as u32) })
    }
}

impl Load {
    fn room(&self) -> u32 {
        let max = self.max.load(Ordering::Relaxed);
        max.saturating_sub(self.count.load(Ordering::Relaxed))
    }

    /// Counting needs no ordering: the sockets themselves travel through the kernel.
    fn take(&self, max: u32) -> bool {
        self.count
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |count| {
                (count < max).then_some(count + 1)
            })
            .is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_reserved_on_the_emptiest_thread_and_never_beyond_its_limit() {
        let mesh = Handover::mesh(3).expect("descriptors");
        mesh[0].open(1);
        mesh[1].open(2);
        mesh[2].open(3);
        assert!(mesh[0].take());
        assert!(!mesh[0].take());
        let taken: Vec<_> = (0..6).map(|_| mesh[0].take_elsewhere()).collect();
        let count = |thread| taken.iter().filter(|t| **t == Some(thread)).count();
        assert_eq!(taken[0], Some(2));
        assert_eq!((count(1), count(2)), (2, 3));
        assert_eq!(taken[5], None);
        mesh[1].give_back(1, 2);
        mesh[1].pause();
        assert_eq!(mesh[0].take_elsewhere(), None);
        mesh[1].resume();
        assert_eq!(mesh[0].take_elsewhere(), Some(1));
        assert_eq!(mesh[2].loads().collect::<Vec<_>>(), [(1, 1), (1, 2), (3, 3)]);
    }

    #[test]
    fn a_batch_arrives_whole_with_its_listeners() {
        let mesh = Handover::mesh(2).expect("descriptors");
        let sockets: Vec<_> = (0..BATCH_MAX as u8)
            .map(|listener| {
                let flags = rustix::event::EventfdFlags::CLOEXEC;
                (listener, rustix::event::eventfd(u32::from(listener), flags).expect("room"))
            })
            .collect();
        mesh[0].send(1, &sockets).expect("sent");
        drop(sockets);
        let mut received = Vec::new();
        assert_eq!(mesh[0].receive(&mut received).expect("nothing for itself"), None);
        assert_eq!(mesh[1].receive(&mut received).expect("received"), Some(BATCH_MAX as u32));
        assert_eq!(received.len(), BATCH_MAX);
        for (position, (listener, descriptor)) in received.iter().enumerate() {
            assert_eq!(usize::from(*listener), position);
            if position > 0 {
                let mut value = [0; 8];
                rustix::io::read(descriptor, &mut value).expect("the same eventfd");
                assert_eq!(u64::from_ne_bytes(value), position as u64);
            }
        }
    }
}

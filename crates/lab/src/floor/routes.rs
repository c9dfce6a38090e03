//! The state that the floor's threads share: topics by name, the threads with subscribers of each,
//! and frames on their way to those threads.
//!
//! Place: between workers. A publication costs its thread one look by name; other threads get
//! (topic, frame) in a queue and one write to an eventfd for a batch.

use std::collections::HashMap;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

/// A frame for the subscribers of a topic on one thread.
pub type Parcel = (u32, Arc<[u8]>);

/// The shared state.
pub struct Routes {
    topics: RwLock<Topics>,
    threads: Vec<Thread>,
}

#[derive(Default)]
struct Topics {
    by_name: HashMap<Box<str>, u32>,
    topics: Vec<Topic>,
}

#[derive(Default)]
struct Topic {
    /// Messages so far: the number of the last one.
    offset: AtomicU64,
    /// Threads with subscribers.
    threads: Vec<u16>,
}

struct Thread {
    waker: OwnedFd,
    /// Somebody has written to the eventfd since the thread last looked.
    is_woken: AtomicBool,
    parcels: Mutex<Vec<Parcel>>,
}

impl Routes {
    /// With an eventfd for each thread.
    pub fn new(wakers: Vec<OwnedFd>) -> Routes {
        let thread =
            |waker| Thread { waker, is_woken: AtomicBool::new(false), parcels: Mutex::default() };
        Routes { topics: RwLock::default(), threads: wakers.into_iter().map(thread).collect() }
    }

    /// A thread has a subscriber of the topic: the topic's number, and the number of its last
    /// message.
    pub fn subscribe(&self, name: &str, thread: u16) -> (u32, u64) {
        let mut topics = self.topics.write().unwrap_or_else(PoisonError::into_inner);
        let index = match topics.by_name.get(name) {
            Some(&index) => index,
            None => {
                let index = topics.topics.len() as u32;
                topics.topics.push(Topic::default());
                topics.by_name.insert(name.into(), index);
                index
            }
        };
        let topic = &mut topics.topics[index as usize];
        if !topic.threads.contains(&thread) {
            topic.threads.push(thread);
        }
        (index, *topic.offset.get_mut())
    }

    /// Numbers a message and lists the threads with subscribers; none if the topic never had one.
    pub fn publish(&self, name: &str, threads: &mut Vec<u16>) -> Option<(u32, u64)> {
        let topics = self.topics.read().unwrap_or_else(PoisonError::into_inner);
        let &index = topics.by_name.get(name)?;
        let topic = &topics.topics[index as usize];
        threads.clear();
        threads.extend_from_slice(&topic.threads);
        Some((index, topic.offset.fetch_add(1, Ordering::Relaxed) + 1))
    }

    /// Gives another thread a parcel; it is to be woken at the end of the turn.
    pub fn post(&self, thread: u16, parcel: Parcel) {
        let parcels = &self.threads[usize::from(thread)].parcels;
        parcels.lock().unwrap_or_else(PoisonError::into_inner).push(parcel);
    }

    /// Makes the thread look.
    pub fn wake(&self, thread: u16) -> rustix::io::Result<()> {
        let thread = &self.threads[usize::from(thread)];
        if !thread.is_woken.swap(true, Ordering::AcqRel) {
            rustix::io::write(&thread.waker, &1u64.to_ne_bytes())?;
        }
        Ok(())
    }

    /// Takes the parcels for the thread; `parcels` is empty.
    pub fn take(&self, thread: u16, parcels: &mut Vec<Parcel>) {
        let thread = &self.threads[usize::from(thread)];
        thread.is_woken.store(false, Ordering::Release);
        let mut waiting = thread.parcels.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::swap(&mut *waiting, parcels);
    }

    /// The thread's eventfd.
    pub fn waker(&self, thread: u16) -> BorrowedFd<'_> {
        self.threads[usize::from(thread)].waker.as_fd()
    }
}

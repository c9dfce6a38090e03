//! A bounded queue between the application's threads and the client's. It grows with its use, where
//! a channel of the standard library takes all its memory at the begin. A receiver takes all items
//! with one lock, and a sender gives many: buffers change hands, and no item is moved.
//!
//! Place: under commands and events. One sender (shared by reference), one receiver.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::fmt;
use std::sync::mpsc::{RecvError, RecvTimeoutError, SendError, TryRecvError, TrySendError};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The number of items that an idle queue keeps memory for.
pub const IDLE_ITEMS: usize = 64;

struct Inner<T> {
    items: VecDeque<T>,
    has_sender: bool,
    has_receiver: bool,
    /// The receiver waits for an item.
    is_awaited: bool,
    /// The number of calls that wait for room.
    blocked_count: usize,
}

struct Queue<T> {
    inner: Mutex<Inner<T>>,
    items_max: usize,
    filled: Condvar,
    room: Condvar,
}

/// The receiver is gone.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Gone;

/// The sending end. Its drop ends the receiver behind the last item.
pub struct Sender<T>(Arc<Queue<T>>);

/// The receiving end. Its drop drops the items.
pub struct Receiver<T> {
    queue: Arc<Queue<T>>,
    /// Items that were taken together.
    taken: RefCell<VecDeque<T>>,
}

/// Creates a queue of at most `items_max` items, at least one.
pub fn bounded<T>(items_max: usize) -> (Sender<T>, Receiver<T>) {
    let inner = Inner {
        items: VecDeque::new(),
        has_sender: true,
        has_receiver: true,
        is_awaited: false,
        blocked_count: 0,
    };
    let queue = Arc::new(Queue {
        inner: Mutex::new(inner),
        items_max: items_max.max(1),
        filled: Condvar::new(),
        room: Condvar::new(),
    });
    (Sender(queue.clone()), Receiver { queue, taken: RefCell::default() })
}

impl<T> Queue<T> {
    fn lock(&self) -> MutexGuard<'_, Inner<T>> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Wakes the receiver, if it waits.
    fn announce(&self, mut inner: MutexGuard<'_, Inner<T>>) {
        if std::mem::take(&mut inner.is_awaited) {
            drop(inner);
            self.filled.notify_one();
        }
    }
}

impl<T> Sender<T> {
    /// Adds an item; waits while the queue is full.
    ///
    /// # Errors
    /// The receiver is gone.
    pub fn send(&self, item: T) -> Result<(), SendError<T>> {
        let mut inner = self.0.lock();
        while inner.has_receiver && inner.items.len() >= self.0.items_max {
            inner.blocked_count += 1;
            inner = self.0.room.wait(inner).unwrap_or_else(PoisonError::into_inner);
            inner.blocked_count -= 1;
        }
        if !inner.has_receiver {
            return Err(SendError(item));
        }
        inner.items.push_back(item);
        self.0.announce(inner);
        Ok(())
    }

    /// Moves items to the queue in their order, as many as have room, with one lock and one
    /// wake-up. Returns whether none is left.
    ///
    /// # Errors
    /// The receiver is gone.
    pub fn append(&self, items: &mut VecDeque<T>) -> Result<bool, Gone> {
        if items.is_empty() {
            return Ok(true);
        }
        let mut inner = self.0.lock();
        if !inner.has_receiver {
            return Err(Gone);
        }
        let room = self.0.items_max.saturating_sub(inner.items.len());
        if inner.items.is_empty() && items.len() <= room {
            std::mem::swap(&mut inner.items, items);
        } else if items.len() <= room {
            inner.items.append(items);
        } else {
            inner.items.extend(items.drain(..room));
        }
        self.0.announce(inner);
        Ok(items.is_empty())
    }

    /// Returns the memory of an empty queue to the allocator, but for [`IDLE_ITEMS`].
    pub fn shrink(&self) {
        let mut inner = self.0.lock();
        if inner.items.is_empty() {
            inner.items.shrink_to(IDLE_ITEMS);
        }
    }

    /// Adds an item if there is room.
    ///
    /// # Errors
    /// The queue is full, or the receiver is gone.
    pub fn try_send(&self, item: T) -> Result<(), TrySendError<T>> {
        let mut inner = self.0.lock();
        if !inner.has_receiver {
            return Err(TrySendError::Disconnected(item));
        }
        if inner.items.len() >= self.0.items_max {
            return Err(TrySendError::Full(item));
        }
        inner.items.push_back(item);
        self.0.announce(inner);
        Ok(())
    }
}

impl<T> fmt::Debug for Sender<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Sender").finish_non_exhaustive()
    }
}

impl<T> fmt::Debug for Receiver<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Receiver").finish_non_exhaustive()
    }
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        let mut inner = self.0.lock();
        inner.has_sender = false;
        self.0.announce(inner);
    }
}

impl<T> Receiver<T> {
    /// Takes the next item, if there is one.
    ///
    /// # Errors
    /// The queue is empty, or the sender is gone, too.
    pub fn try_recv(&self) -> Result<T, TryRecvError> {
        if let Some(item) = self.taken.borrow_mut().pop_front() {
            return Ok(item);
        }
        let mut inner = self.queue.lock();
        match self.take(&mut inner) {
            Some(item) => Ok(item),
            None if inner.has_sender => Err(TryRecvError::Empty),
            None => Err(TryRecvError::Disconnected),
        }
    }

    /// Waits for the next item.
    ///
    /// # Errors
    /// The sender is gone, and there are no items.
    pub fn recv(&self) -> Result<T, RecvError> {
        self.next(None).map_err(|_| RecvError)
    }

    /// Waits for the next item for at most `timeout`.
    ///
    /// # Errors
    /// The time is over, or the sender is gone and there are no items.
    pub fn recv_timeout(&self, timeout: Duration) -> Result<T, RecvTimeoutError> {
        self.next(Instant::now().checked_add(timeout))
    }

    fn next(&self, until: Option<Instant>) -> Result<T, RecvTimeoutError> {
        if let Some(item) = self.taken.borrow_mut().pop_front() {
            return Ok(item);
        }
        let mut inner = self.queue.lock();
        loop {
            if let Some(item) = self.take(&mut inner) {
                return Ok(item);
            }
            if !inner.has_sender {
                return Err(RecvTimeoutError::Disconnected);
            }
            inner.is_awaited = true;
            inner = match until {
                None => self.queue.filled.wait(inner).unwrap_or_else(PoisonError::into_inner),
                Some(until) => {
                    let left = until.saturating_duration_since(Instant::now());
                    if left.is_zero() {
                        inner.is_awaited = false;
                        return Err(RecvTimeoutError::Timeout);
                    }
                    let waited = self.queue.filled.wait_timeout(inner, left);
                    waited.unwrap_or_else(PoisonError::into_inner).0
                }
            };
        }
    }

    /// Takes the first item, and the others for the next calls.
    fn take(&self, inner: &mut Inner<T>) -> Option<T> {
        let mut taken = self.taken.borrow_mut();
        std::mem::swap(&mut *taken, &mut inner.items);
        let first = taken.pop_front()?;
        if inner.blocked_count > 0 {
            self.queue.room.notify_all();
        }
        Some(first)
    }
}

impl<T> Drop for Receiver<T> {
    fn drop(&mut self) {
        let mut inner = self.queue.lock();
        inner.has_receiver = false;
        let items = std::mem::take(&mut inner.items);
        drop(inner);
        self.queue.room.notify_all();
        // Outside of the lock: a drop may call anything.
        drop(items);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_come_in_order_over_threads() {
        let (sender, receiver) = bounded(3);
        std::thread::scope(|scope| {
            scope.spawn(move || (0..10_000).for_each(|number| sender.send(number).unwrap()));
            for number in 0..10_000 {
                assert_eq!(receiver.recv(), Ok(number));
            }
            assert_eq!(receiver.recv(), Err(RecvError));
        });
    }

    #[test]
    fn a_full_queue_refuses_and_an_empty_one_waits() {
        let (sender, receiver) = bounded(2);
        assert_eq!(receiver.try_recv(), Err(TryRecvError::Empty));
        let timeout = receiver.recv_timeout(Duration::from_millis(1));
        assert_eq!(timeout, Err(RecvTimeoutError::Timeout));
        sender.try_send(1).unwrap();
        sender.try_send(2).unwrap();
        assert_eq!(sender.try_send(3), Err(TrySendError::Full(3)));
        assert_eq!(receiver.try_recv(), Ok(1));
        sender.try_send(3).unwrap();
        drop(sender);
        assert_eq!([receiver.try_recv(), receiver.try_recv()], [Ok(2), Ok(3)]);
        assert_eq!(receiver.try_recv(), Err(TryRecvError::Disconnected));
    }

    #[test]
    fn many_items_are_moved_as_far_as_there_is_room() {
        let (sender, receiver) = bounded(3);
        let mut items: VecDeque<u32> = (1..=5).collect();
        assert_eq!(sender.append(&mut items), Ok(false));
        assert_eq!((sender.append(&mut items), items.len()), (Ok(false), 2));
        assert_eq!(receiver.try_recv(), Ok(1));
        assert_eq!(sender.append(&mut items), Ok(true));
        let rest: Vec<u32> = std::iter::from_fn(|| receiver.try_recv().ok()).collect();
        assert_eq!(rest, [2, 3, 4, 5]);
        drop(receiver);
        assert_eq!(sender.append(&mut items), Ok(true), "nothing is to be moved");
        items.push_back(6);
        assert_eq!((sender.append(&mut items), items.len()), (Err(Gone), 1));
    }

    #[test]
    fn a_gone_receiver_frees_items_and_senders() {
        let (sender, receiver) = bounded(1);
        let item = Arc::new(());
        sender.send(item.clone()).unwrap();
        std::thread::scope(|scope| {
            let blocked = scope.spawn(|| sender.send(item.clone()).is_err());
            scope.spawn(move || drop(receiver));
            assert!(blocked.join().unwrap());
        });
        assert!(matches!(sender.try_send(item.clone()), Err(TrySendError::Disconnected(_))));
        assert_eq!(Arc::strong_count(&item), 1);
    }
}

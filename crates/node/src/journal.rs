//! The way of what is told of clients from the I/O threads to whoever writes it.
//!
//! Beside the path: at most once in a turn a thread hands over what its edge has left. Invariants: a thread never waits here; what
//! the queue has no room for is counted, and whoever reads is told of it.

use broker::journal::Entry;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

/// Batches that wait; the settings bound how many entries come in a second.
const BATCHES_MAX: usize = 1_024;

/// An I/O thread's end.
#[derive(Clone)]
pub struct JournalSender {
    sender: SyncSender<Vec<Entry>>,
    lost: Arc<AtomicU64>,
}

/// The other end.
#[derive(Debug)]
pub struct JournalReceiver {
    receiver: Receiver<Vec<Entry>>,
    lost: Arc<AtomicU64>,
    lost_told: u64,
}

/// What has come.
#[derive(Debug)]
pub struct Batch {
    /// In a thread's order.
    pub entries: Vec<Entry>,
    /// Entries that there was no room for since the last batch.
    pub lost: u64,
}

impl fmt::Debug for JournalSender {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("JournalSender")
    }
}

/// A queue with both ends.
pub fn journal() -> (JournalSender, JournalReceiver) {
    let (sender, receiver) = sync_channel(BATCHES_MAX);
    let lost = Arc::new(AtomicU64::new(0));
    let sender = JournalSender { sender, lost: lost.clone() };
    let receiver = JournalReceiver { receiver, lost, lost_told: 0 };
    (sender, receiver)
}

impl JournalSender {
    /// Hands a batch over, or counts what is in it.
    pub fn send(&self, entries: Vec<Entry>) {
        let count = entries.len() as u64;
        if self.sender.try_send(entries).is_err() {
            self.lost.fetch_add(count, Ordering::Relaxed);
        }
    }
}

impl JournalReceiver {
    /// Waits for the next batch; none when all senders have gone.
    pub fn next_batch(&mut self) -> Option<Batch> {
        let entries = self.receiver.recv().ok()?;
        let lost = self.lost.load(Ordering::Relaxed);
        let since = lost - std::mem::replace(&mut self.lost_told, lost);
        Some(Batch { entries, lost: since })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use broker::journal::Event;

    #[test]
    fn what_has_no_room_is_counted() {
        let entry = Entry { time_ms: 1, event: Event::LeftOut { access: 1, audit: 0 } };
        let (sender, mut receiver) = journal();
        for _ in 0..BATCHES_MAX + 2 {
            sender.send(vec![entry.clone(); 2]);
        }
        let first = receiver.next_batch().unwrap();
        assert_eq!((first.entries.len(), first.lost), (2, 4));
        assert_eq!(receiver.next_batch().unwrap().lost, 0);
        drop(sender);
        let rest = std::iter::from_fn(|| receiver.next_batch()).count();
        assert_eq!(rest, BATCHES_MAX - 2);
    }
}

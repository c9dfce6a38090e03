//! The queue of events of clients, from the I/O threads to the writer of the log.
//!
//! Beside the path: a thread sends the events of its edge at most once a turn. Invariants: a thread
//! never waits here; events without room in the queue are counted and reported to the reader.

use broker::journal::Entry;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

/// Maximum number of waiting batches; the settings limit the events per second.
const BATCHES_MAX: usize = 1_024;

/// The sending end of an I/O thread.
#[derive(Clone)]
pub struct JournalSender {
    sender: SyncSender<Vec<Entry>>,
    lost: Arc<AtomicU64>,
}

/// The receiving end.
#[derive(Debug)]
pub struct JournalReceiver {
    receiver: Receiver<Vec<Entry>>,
    lost: Arc<AtomicU64>,
    lost_told: u64,
}

/// Received events.
#[derive(Debug)]
pub struct Batch {
    /// The events, in a thread's order.
    pub entries: Vec<Entry>,
    /// Number of events dropped since the last batch, for lack of room.
    pub lost: u64,
}

impl fmt::Debug for JournalSender {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("JournalSender")
    }
}

/// Creates a queue with both ends.
pub fn journal() -> (JournalSender, JournalReceiver) {
    let (sender, receiver) = sync_channel(BATCHES_MAX);
    let lost = Arc::new(AtomicU64::new(0));
    let sender = JournalSender { sender, lost: lost.clone() };
    let receiver = JournalReceiver { receiver, lost, lost_told: 0 };
    (sender, receiver)
}

impl JournalSender {
    /// Sends a batch, or counts its events as dropped.
    pub fn send(&self, entries: Vec<Entry>) {
        let count = entries.len() as u64;
        if self.sender.try_send(entries).is_err() {
            self.lost.fetch_add(count, Ordering::Relaxed);
        }
    }
}

impl JournalReceiver {
    /// Waits for the next batch; none when all senders are gone.
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
    fn events_without_room_are_counted() {
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

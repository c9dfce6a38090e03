//! Notices for operators: from the authenticator to the writer of the log.
//!
//! Invariants: an I/O thread never waits for the log; refused credentials are reported at most once
//! in [`REFUSALS_TOLD_EVERY_S`] seconds, with a word for the last reason and their number, so that
//! attackers cannot fill a disk with log lines.

use crate::refusal::Refusal;
use std::sync::Mutex;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

/// Maximum number of waiting notices; further ones are dropped.
const NOTICES_MAX: usize = 64;
/// Minimum time between two reports of refused credentials, in seconds.
pub const REFUSALS_TOLD_EVERY_S: u64 = 10;

/// A notice.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Notice {
    /// Credentials were refused.
    Refused {
        /// The reason of the last refusal; see [`Refusal::word`].
        reason: &'static str,
        /// Number of refusals since the last notice.
        count: u64,
    },
    /// A fetch of a key set failed, for this reason.
    FetchFailed(String),
    /// A fetched key set differs from the previous one.
    KeysChanged {
        /// Number of accepted keys.
        count: usize,
        /// Number of skipped keys.
        skipped_count: usize,
    },
}

/// The sending end.
#[derive(Debug)]
pub struct Notices {
    sender: SyncSender<Notice>,
    refused_count: AtomicU64,
    reported_s: Mutex<u64>,
}

impl Notices {
    /// The receiving end.
    pub fn new() -> (Notices, Receiver<Notice>) {
        let (sender, receiver) = sync_channel(NOTICES_MAX);
        let notices =
            Notices { sender, refused_count: AtomicU64::new(0), reported_s: Mutex::new(0) };
        (notices, receiver)
    }

    pub(crate) fn tell(&self, notice: Notice) {
        // Without a reader, notices are dropped.
        let _ = self.sender.try_send(notice);
    }

    pub(crate) fn refused(&self, refusal: &Refusal, now_s: u64) {
        self.refused_count.fetch_add(1, Relaxed);
        let Ok(mut reported_s) = self.reported_s.try_lock() else {
            return;
        };
        // After a backward step of the clock, begin anew.
        if now_s < *reported_s || now_s - *reported_s >= REFUSALS_TOLD_EVERY_S {
            *reported_s = now_s;
            let reason = refusal.word();
            let count = self.refused_count.swap(0, Relaxed);
            self.tell(Notice::Refused { reason, count });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_are_reported_at_intervals() {
        let (notices, read) = Notices::new();
        for now_s in [100, 100, 105, 109, 110, 111, 5] {
            notices.refused(&Refusal::Signature, now_s);
        }
        let counts: Vec<u64> = read
            .try_iter()
            .map(|notice| match notice {
                Notice::Refused { reason, count } => {
                    assert_eq!(reason, "signature");
                    count
                }
                other => panic!("{other:?}"),
            })
            .collect();
        assert_eq!(counts, [1, 4, 2]);
    }

    #[test]
    fn threads_never_wait_for_the_log() {
        let (notices, read) = Notices::new();
        for _ in 0..1_000 {
            notices.tell(Notice::FetchFailed("no".into()));
        }
        assert_eq!(read.try_iter().count(), NOTICES_MAX);
    }
}

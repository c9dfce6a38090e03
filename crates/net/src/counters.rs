//! Counters of one thread's network: only this thread writes them, every thread may read them at
//! any time.
//!
//! So a watcher of shortages need not ask a thread that may be in trouble, nor wake an idle one.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use rustix::io::Errno;
use stdx::Counters;
use stdx::metrics::Metrics;

/// Counters of one thread's network, shared with the threads that report them. Relaxed: each number
/// is right by itself.
#[derive(Debug, Default)]
pub struct Counters {
    counts: [AtomicU64; Count::OtherErrors as usize + 1],
    /// Those of a TCP of our own; its thread renews them ten times a second.
    user: Mutex<UserStatistics>,
}

/// The name of a counter.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Count {
    /// [`Statistics::accepted`].
    Accepted,
    /// [`Statistics::passed_on`].
    PassedOn,
    /// [`Statistics::taken_over`].
    TakenOver,
    /// [`Statistics::refused`].
    Refused,
    /// [`Statistics::connecting`].
    Connecting,
    /// [`Statistics::closed`].
    Closed,
    /// [`Statistics::starved_writes`].
    StarvedWrites,
    /// [`AcceptErrors::descriptors`].
    NoDescriptors,
    /// [`AcceptErrors::files`].
    NoFiles,
    /// [`AcceptErrors::memory`].
    NoMemory,
    /// [`AcceptErrors::watches`].
    NoWatches,
    /// [`AcceptErrors::other`].
    OtherErrors,
}

/// The numbers at one moment; every number only grows, and those of several threads can be added.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Counters, Metrics)]
pub struct Statistics {
    /// Connections accepted and kept on this thread, those from other threads included.
    pub accepted: u64,
    /// Connections that a full I/O thread passed to another I/O thread.
    #[metric("crore_connections_passed_on_total")]
    pub passed_on: u64,
    /// Connections received from a full thread; also counted in `accepted`.
    pub taken_over: u64,
    /// Connections refused because the node has reached its maximum number of connections.
    #[metric("crore_connections_refused_total", limit = "connections_max")]
    pub refused: u64,
    /// Connections begun from here.
    pub connecting: u64,
    /// Connections of all kinds whose descriptor is closed again, refused ones included.
    pub closed: u64,
    /// Writes that failed because the system had no TCP memory; the node repeats them.
    #[metric("crore_writes_without_memory_total")]
    pub starved_writes: u64,
    /// Failed accepts by cause: the descriptor table was full, the machine had no open files or no
    /// memory left, epoll had no watches left, or the peer had closed the connection.
    #[metric("crore_accept_errors_total", by = "reason")]
    pub accept_errors: AcceptErrors,
    /// Counters of the node's own TCP.
    pub user: UserStatistics,
}

/// Counters and present numbers of a TCP of our own.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Counters, Metrics)]
pub struct UserStatistics {
    /// TCP segments that the node's own TCP has received.
    #[metric("crore_tcp_segments_received_total")]
    pub segments_in: u64,
    /// TCP segments that the node's own TCP has sent, repeated ones included.
    #[metric("crore_tcp_segments_sent_total")]
    pub segments_out: u64,
    /// TCP segments that the node's own TCP has sent again.
    #[metric("crore_tcp_segments_resent_total")]
    pub resent: u64,
    /// Retransmission timeouts of the node's own TCP.
    #[metric("crore_tcp_timeouts_total")]
    pub timeouts: u64,
    /// Openings that the node's own TCP has answered with a cookie, because too many were waiting.
    #[metric("crore_tcp_cookies_total")]
    pub cookies: u64,
    /// Packets that the node's own TCP has dropped: malformed ones, those with a wrong checksum,
    /// those for others, and payload without room.
    #[metric("crore_tcp_packets_dropped_total")]
    pub dropped: u64,
    /// Bytes that the node's own TCP keeps until peers have acknowledged them.
    #[metric("crore_tcp_unacknowledged_bytes")]
    pub unacknowledged_bytes: u64,
}

impl From<tcp::Statistics> for UserStatistics {
    fn from(stack: tcp::Statistics) -> UserStatistics {
        UserStatistics {
            segments_in: stack.segments_in,
            segments_out: stack.segments_out,
            resent: stack.resent,
            timeouts: stack.timeouts,
            cookies: stack.cookies_sent,
            dropped: stack.malformed + stack.checksums + stack.foreign + stack.dropped_unread,
            unacknowledged_bytes: stack.retained_bytes,
        }
    }
}

/// The reasons of connections that could not be accepted. One that still waits in the listener's
/// queue is tried again; one that was accepted is refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Counters, Metrics)]
pub struct AcceptErrors {
    /// The thread's descriptor table is full (`EMFILE`, `ulimit -n`).
    pub descriptors: u64,
    /// The machine has no more open files (`ENFILE`, `fs.file-max`).
    pub files: u64,
    /// The kernel has no memory for a socket, or the process's group none (`ENOBUFS`, `ENOMEM`).
    pub memory: u64,
    /// Epoll may watch no more descriptors for this user (`ENOSPC`, `fs.epoll.max_user_watches`).
    pub watches: u64,
    /// Anything else: most often the peer was gone before its connection was taken.
    pub other: u64,
}

impl AcceptErrors {
    /// The sum.
    pub fn total(&self) -> u64 {
        self.descriptors + self.files + self.memory + self.watches + self.other
    }
}

impl Count {
    /// The counter of an error for which a connection was not accepted.
    pub(crate) fn of(error: Errno) -> Count {
        match error {
            Errno::MFILE => Count::NoDescriptors,
            Errno::NFILE => Count::NoFiles,
            Errno::NOBUFS | Errno::NOMEM => Count::NoMemory,
            Errno::NOSPC => Count::NoWatches,
            _ => Count::OtherErrors,
        }
    }

    /// Whether the system lacks something that others may give back, so that an immediate retry is
    /// in vain.
    pub(crate) fn is_shortage(self) -> bool {
        matches!(self, Count::NoDescriptors | Count::NoFiles | Count::NoMemory | Count::NoWatches)
    }
}

impl Counters {
    /// The present numbers.
    pub fn statistics(&self) -> Statistics {
        let read = |count: Count| self.counts[count as usize].load(Ordering::Relaxed);
        Statistics {
            accepted: read(Count::Accepted),
            passed_on: read(Count::PassedOn),
            taken_over: read(Count::TakenOver),
            refused: read(Count::Refused),
            connecting: read(Count::Connecting),
            closed: read(Count::Closed),
            starved_writes: read(Count::StarvedWrites),
            accept_errors: AcceptErrors {
                descriptors: read(Count::NoDescriptors),
                files: read(Count::NoFiles),
                memory: read(Count::NoMemory),
                watches: read(Count::NoWatches),
                other: read(Count::OtherErrors),
            },
            user: *self.user.lock().unwrap_or_else(PoisonError::into_inner),
        }
    }

    /// Renews the numbers of a TCP of our own.
    pub(crate) fn set_user(&self, statistics: UserStatistics) {
        *self.user.lock().unwrap_or_else(PoisonError::into_inner) = statistics;
    }

    /// Adds to a counter; only the network's own thread calls this, so it needs no atomic addition.
    pub fn add(&self, count: Count, amount: u64) {
        let counter = &self.counts[count as usize];
        counter.store(counter.load(Ordering::Relaxed) + amount, Ordering::Relaxed);
    }
}

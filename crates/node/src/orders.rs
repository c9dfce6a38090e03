//! The steps of a live upgrade, as orders of its coordinator to the threads of the old process.
//!
//! A thread carries out one order after the other, and answers each. An answer that has no receiver
//! any more is dropped: the coordinator has given up, and thaws the thread.

use std::os::fd::OwnedFd;
use std::sync::mpsc::Sender;

/// The coordinator's orders to an I/O thread.
#[derive(Debug)]
pub enum Order {
    /// Receive the channel to the new process's thread from the thread's own channel, and send
    /// copies of all sockets over it. Answered when all present ones have been sent. The number is
    /// that of the attempt.
    Copy(u64, Sender<Result<(), String>>),
    /// Begin no TLS handshake. Answered when the running ones have completed.
    FinishHandshakes(Sender<()>),
    /// Accept no connections.
    Pause(Sender<Result<(), String>>),
    /// Serve no clients: only process messages of other shards.
    Freeze(Sender<Result<(), String>>),
    /// Count the batches sent to other threads, and received from them.
    Count(Sender<(u64, u64)>),
    /// Send everything. Answered with whether connections that are being closed still need this
    /// process.
    HandOver(Sender<Result<bool, String>>),
    /// Continue as before.
    Thaw,
}

/// The coordinator's orders to a log's thread.
#[derive(Debug)]
pub(crate) enum LogOrder {
    /// Make earlier requests of homes durable, and do nothing else.
    Freeze,
    /// Count the batches sent to homes and received from them; answered when no request waits to
    /// become durable.
    Count(Sender<(u64, u64)>),
    /// Close the log, do not access it again, and return the worker's state.
    HandOver(Sender<Result<HandedOver, String>>),
    /// Continue as before.
    Thaw,
}

/// The coordinator's orders to the engine's thread.
#[derive(Debug)]
pub(crate) enum EngineOrder {
    /// Post no letters to homes.
    Freeze,
    /// Count the batches sent to homes and received from them.
    Count(Sender<(u64, u64)>),
    /// Return the state. Homes get no letters after it.
    HandOver(Sender<Vec<u8>>),
    /// Continue as before.
    Thaw,
}

/// A log worker's state, and the lock on its log.
#[derive(Debug)]
pub(crate) struct HandedOver {
    pub state: Vec<u8>,
    pub lock: OwnedFd,
}

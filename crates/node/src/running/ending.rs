//! The end of a node: its drain, and then the stop of its threads, in bounded time.

use super::{Node, NodeStatistics};
use crate::engine_thread::ToEngine;
use crate::mailbox::{Control, Post, ToLog};
use net::LISTENERS_END;
use std::io;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Time limit for I/O threads to stop: closing a million sockets takes seconds.
pub const IO_THREADS_END: Duration = Duration::from_secs(60);
/// Time between two checks whether all clients have gone.
const LOOK_EVERY: Duration = Duration::from_millis(25);

impl Node {
    /// Accepts no further connections, tells clients to reconnect spread over the window, and waits
    /// until all have gone and none can connect, at most for the window.
    pub fn drain(&self, window: Duration) {
        let began = Instant::now();
        self.is_draining.store(true, Ordering::Relaxed);
        let window_ms = window.as_millis() as u64;
        for shard in self.shards.0.iter() {
            shard.send(Post::Control(Control::Drain { window_ms }));
        }
        // Connections with a completed TCP handshake are still admitted, and told to reconnect.
        let listens = || began.elapsed() < LISTENERS_END;
        while began.elapsed() < window && (listens() || !self.statistics().is_empty()) {
            std::thread::sleep(LOOK_EVERY);
        }
    }

    /// Stops all threads, those of logs on disk within this time after the I/O threads; remaining
    /// connections are reset. Earlier requests of homes to a log are completed first. A thread with
    /// a hanging disk is left behind: the process ends without it.
    ///
    /// # Errors
    /// The failure of a thread; `TimedOut` for a thread left behind.
    pub fn stop(mut self, within: Duration) -> io::Result<()> {
        self.end(within)
    }

    pub(super) fn end(&mut self, within: Duration) -> io::Result<()> {
        let deadline = Instant::now() + IO_THREADS_END;
        for shard in self.shards.0.iter() {
            shard.send(Post::Control(Control::Stop));
        }
        let io_threads = joined(self.threads.drain(..), deadline, "an I/O thread");
        let deadline = Instant::now() + within;
        // Homes send no more requests: the earlier ones are completed before the end.
        for log in self.logs.iter().flatten() {
            // A thread that has already stopped is joined below.
            let _: Result<(), _> = log.send(ToLog::Stop);
        }
        if let Some(engine) = &self.engine {
            let _: Result<(), _> = engine.send(ToEngine::Stop);
        }
        let log_threads = joined(self.log_threads.drain(..), deadline, "a log thread");
        let engine = self.engine_thread.take().into_iter();
        io_threads.and(log_threads).and(joined(engine, deadline, "the engine's thread"))
    }
}

impl NodeStatistics {
    /// Whether no connection is open or being closed.
    fn is_empty(&self) -> bool {
        let opened = self.sockets.accepted + self.sockets.refused;
        self.edge.connections == 0 && self.silent_threads == 0 && self.sockets.closed >= opened
    }
}

/// Joins the threads: returns the first failure of those that stop in time, or the names of all
/// late ones.
fn joined(
    threads: impl Iterator<Item = JoinHandle<io::Result<()>>>,
    deadline: Instant,
    which: &str,
) -> io::Result<()> {
    let mut late: Vec<String> = Vec::new();
    let mut result = Ok(());
    for thread in threads {
        while !thread.is_finished() && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(1));
        }
        if !thread.is_finished() {
            late.push(thread.thread().name().unwrap_or(which).to_owned());
            continue;
        }
        let ended = thread.join();
        let panicked = |_| Err(io::Error::other(format!("{which} panicked")));
        result = result.and(ended.unwrap_or_else(panicked));
    }
    if late.is_empty() {
        result
    } else {
        let text = format!("did not stop in time: {}", late.join(", "));
        Err(io::Error::new(io::ErrorKind::TimedOut, text))
    }
}

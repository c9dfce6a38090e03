//! Requests to a running node: signals and operators' requests.
//!
//! Place: between the threads that receive requests and the thread of `serve`, which executes one
//! after the other. Invariant: whatever the node is doing, a second signal ends the process at
//! once.

use crate::logging::Log;
use crate::signals::{self, Signal};
use std::sync::mpsc;
use std::time::Duration;

/// A request to stop, to reload or to upgrade.
#[derive(Clone, Copy, Debug)]
pub enum NodeRequest {
    /// A signal.
    Signal(Signal),
    /// An operator's request to drain, with an optional window in milliseconds.
    Drain(Option<u64>),
}

impl NodeRequest {
    /// Whether the request stops the node.
    pub fn is_end(self) -> bool {
        !matches!(self, NodeRequest::Signal(Signal::Hangup | Signal::Upgrade))
    }
}

/// Receives the first signal; a second one ends the process.
pub fn watch_signals(sender: mpsc::Sender<NodeRequest>, log: Log) {
    let mut count = 0_u32;
    signals::watch(move |signal| {
        count += u32::from(!matches!(signal, Signal::Hangup | Signal::Upgrade));
        if count > 1 || sender.send(NodeRequest::Signal(signal)).is_err() {
            // An immediate end does not wait for the reader of the log.
            log.flush(Duration::from_millis(100));
            std::process::exit(i32::from(signal.exit_code()));
        }
    });
}

/// The end of standard input is the end of the process that started this one: it counts as a
/// signal.
pub fn watch_input(sender: mpsc::Sender<NodeRequest>) {
    std::thread::spawn(move || {
        let _ = std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
        let _ = sender.send(NodeRequest::Signal(Signal::Terminate));
    });
}

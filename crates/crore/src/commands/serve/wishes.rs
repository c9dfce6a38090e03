//! What ends a node that runs, or has it do something: signals, and what operators wish for.
//!
//! Place: between the threads that hear of it and the one of `serve`, which does one wish after the other. Invariant: whatever the
//! node is doing, a second signal ends the process at once.

use crate::logging::Log;
use crate::signals::{self, Signal};
use std::sync::mpsc;
use std::time::Duration;

/// What ends a node, has it read its files again, or hand over.
#[derive(Clone, Copy, Debug)]
pub enum Wish {
    /// What the signal stands for.
    Signal(Signal),
    /// An operator's, perhaps with a window in milliseconds.
    Drain(Option<u64>),
}

impl Wish {
    /// Whether the node is to end.
    pub fn is_end(self) -> bool {
        !matches!(self, Wish::Signal(Signal::Hangup | Signal::Upgrade))
    }
}

/// The first signal is received; a second one ends the process.
pub fn watch_signals(sender: mpsc::Sender<Wish>, log: Log) {
    let mut count = 0_u32;
    signals::watch(move |signal| {
        count += u32::from(!matches!(signal, Signal::Hangup | Signal::Upgrade));
        if count > 1 || sender.send(Wish::Signal(signal)).is_err() {
            // Who ends it at once does not wait for who reads.
            log.flush(Duration::from_millis(100));
            std::process::exit(i32::from(signal.exit_code()));
        }
    });
}

/// With standard input goes whoever has started this process: its end is a signal, too.
pub fn watch_input(sender: mpsc::Sender<Wish>) {
    std::thread::spawn(move || {
        let _ = std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
        let _ = sender.send(Wish::Signal(Signal::Terminate));
    });
}

//! Live upgrade on a log's thread: the orders to the old thread, and the start of the new one.
//!
//! The log's files stay in place: the old process closes the log, and hands over its worker's state
//! and the directory's lock. Invariant: between the old process's last write and the commit, no
//! process writes to the log; before, only the old one does, afterwards only the new one.

use super::fail_at;
use crate::log_thread::{self, OpenOptions};
use crate::logs::{HandedWorker, LogWorker};
use broker::settings::Settings;
use disk::FileDisk;
use log::store::Store;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender};
use stdx::handing::Input;

/// The coordinator's orders to a log's thread, one after the other.
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

/// A worker's state, and the lock on its log.
#[derive(Debug)]
pub(crate) struct HandedOver {
    pub state: Vec<u8>,
    pub lock: OwnedFd,
}

/// The hand-over of a log's thread.
pub(crate) struct LogAdoption {
    pub log: u16,
    pub settings: Arc<Settings>,
    /// Directory of the node's logs.
    pub directory: PathBuf,
    pub hash_seed: (u64, u64),
    /// The handed-over state.
    pub handed: Receiver<HandedOver>,
    /// Reports that it was understood.
    pub adopted: Sender<Result<(), String>>,
    /// Receives the order to begin.
    pub go: Receiver<()>,
}

impl LogAdoption {
    /// Opens the log, reports that, and waits for the order to begin. None if it does not arrive.
    pub fn take_over(self) -> Option<LogWorker<FileDisk>> {
        let handed = self.handed.recv().ok()?;
        fail_at(15);
        let (adopted, worker) = match self.open(handed) {
            Ok(worker) => (Ok(()), Some(worker)),
            Err(error) => (Err(error), None),
        };
        fail_at(16);
        // The caller lives as long as the process.
        let _ = self.adopted.send(adopted);
        self.go.recv().ok()?;
        let mut worker = worker?;
        // Foreign files in the directory are left to the next start.
        let _ = worker.store_mut().begin();
        fail_at(17);
        Some(worker)
    }

    fn open(&self, handed: HandedOver) -> Result<LogWorker<FileDisk>, String> {
        let options = OpenOptions { directory: &self.directory, hash_seed: self.hash_seed };
        let name = &self.settings.logs[usize::from(self.log)].name;
        let named = |error: &dyn std::fmt::Display| format!("log \"{name}\": {error}");
        let malformed = || named(&"the log's state is malformed");
        let mut input = Input::new(&handed.state);
        let state = HandedWorker::take(&mut input).filter(|_| input.left() == 0);
        let state = state.ok_or_else(malformed)?;
        let disk = FileDisk::open_handed(&self.directory.join(name), handed.lock);
        let disk = disk.map_err(|error| named(&error))?;
        let settings = log_thread::store_settings(&self.settings, self.log, &options);
        let store = Store::take_over(disk, settings, &state.log).map_err(|error| named(&error))?;
        LogWorker::take_over(store, &self.settings, self.log, state).ok_or_else(malformed)
    }
}

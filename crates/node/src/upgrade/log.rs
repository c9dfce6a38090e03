//! Live upgrade on a log's thread: what is asked of the old process's, and how one of the new process begins.
//!
//! The log stays where it is: the old process closes it, and gives what its worker knows and the directory's lock. Invariant: between
//! the old process's last word on a log and the commit nobody writes there; before it only the old one does, after it only
//! the new one.

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

/// What the coordinator asks of a log's thread, one after the other.
#[derive(Debug)]
pub(crate) enum LogOrder {
    /// Make durable what homes send, and do nothing else for now.
    Freeze,
    /// How many batches have been sent to homes and come from them; answered when nothing waits that is to become durable.
    Count(Sender<(u64, u64)>),
    /// Close the log, touch it no more, and say what the worker knows.
    HandOver(Sender<Result<HandedOver, String>>),
    /// Go on as if nothing had been.
    Thaw,
}

/// What a worker knows, and the lock on its log.
#[derive(Debug)]
pub(crate) struct HandedOver {
    pub state: Vec<u8>,
    pub lock: OwnedFd,
}

/// How a log's thread takes over from the one of the process before.
pub(crate) struct LogAdoption {
    pub log: u16,
    pub settings: Arc<Settings>,
    /// Where the logs of the node lie.
    pub directory: PathBuf,
    pub hash_seed: (u64, u64),
    /// What was handed over.
    pub handed: Receiver<HandedOver>,
    /// To say that it was understood.
    pub adopted: Sender<Result<(), String>>,
    /// To be told to begin.
    pub go: Receiver<()>,
}

impl LogAdoption {
    /// Opens the log, says so, and waits for the word. None if it does not come.
    pub fn take_over(self) -> Option<LogWorker<FileDisk>> {
        let handed = self.handed.recv().ok()?;
        fail_at(15);
        let (adopted, worker) = match self.open(handed) {
            Ok(worker) => (Ok(()), Some(worker)),
            Err(error) => (Err(error), None),
        };
        fail_at(16);
        // Who asked is gone only with the process.
        let _ = self.adopted.send(adopted);
        self.go.recv().ok()?;
        let mut worker = worker?;
        // What does not belong to the log is left to the next start then.
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

//! A log's thread in the new process of a live upgrade: its start.
//!
//! The log's files stay in place: the old process closes the log, and hands over its worker's state
//! and the directory's lock. Invariant: between the old process's last write and the commit, no
//! process writes to the log; before, only the old one does, afterwards only the new one.

use super::{OpenOptions, store_settings};
use crate::fail::fail_at;
use crate::logs::{HandedWorker, LogWorker};
use crate::orders::HandedOver;
use broker::settings::Settings;
use disk::FileDisk;
use log::store::Store;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender};
use stdx::handing::Input;

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
        let settings = store_settings(&self.settings, self.log, &options);
        let store = Store::take_over(disk, settings, &state.log).map_err(|error| named(&error))?;
        LogWorker::take_over(store, &self.settings, self.log, state).ok_or_else(malformed)
    }
}

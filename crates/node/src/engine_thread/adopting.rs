//! The engine's thread in the new process of a live upgrade: its start.
//!
//! The new client reads the engine while the old process still serves, because reading changes
//! nothing. Homes get its letters, and it gets their requests, after the commit.

use super::{Began, ToEngine, start};
use crate::engine::Engine;
use crate::engine_worker::EngineWorker;
use broker::settings::Settings;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender};

/// The hand-over of the engine's thread.
pub(crate) struct EngineAdoption {
    pub engine: Option<Box<dyn Engine>>,
    pub settings: Arc<Settings>,
    /// The handed-over state.
    pub handed: Receiver<Vec<u8>>,
    /// Reports that it was understood.
    pub adopted: Sender<Result<(), String>>,
    /// Receives the order to begin.
    pub go: Receiver<()>,
}

impl EngineAdoption {
    /// Starts the client, reports that, and waits for the order to begin. None if it does not
    /// arrive.
    pub fn take_over(self, own: &Sender<ToEngine>) -> Option<Began> {
        let EngineAdoption { engine, settings, handed, adopted, go } = self;
        let handed = handed.recv().ok()?;
        let begun = begin(engine, &settings, &handed, own);
        let (adopted_well, begun) = match begun {
            Ok(begun) => (Ok(()), Some(begun)),
            Err(error) => (Err(error), None),
        };
        // The caller lives as long as the process.
        let _ = adopted.send(adopted_well);
        go.recv().ok()?;
        begun
    }
}

fn begin(
    engine: Option<Box<dyn Engine>>,
    settings: &Settings,
    handed: &[u8],
    own: &Sender<ToEngine>,
) -> Result<Began, String> {
    let tailed = EngineWorker::read_handed(handed).ok_or("the engine's state is malformed")?;
    let engine = engine.ok_or("the configuration has no engine")?;
    let client = start(engine, (&tailed, &[]), own)?;
    Ok((client, EngineWorker::new(settings, tailed)))
}

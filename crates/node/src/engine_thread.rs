//! The thread of the engine: a channel in front of [`EngineWorker`], between homes and the engine's
//! client.
//!
//! The client's own threads bring letters through the same channel. The thread takes all that waits
//! there before it posts, so each home gets one batch. It receives the steps of a live upgrade from
//! the same channel (`orders`).

mod adopting;

pub(crate) use adopting::EngineAdoption;

use crate::engine::{Engine, EngineClient, EngineStatistics, Letters, Tailed};
use crate::engine_worker::{EngineOutputs, EngineWorker};
use crate::mailbox::{Address, Post};
use crate::orders::EngineOrder;
use crate::report::Asked;
use crate::vital::Vital;
use broker::engine::{EngineLetter, EngineRequest, MirrorEnd};
use broker::mail::HomeId;
use broker::settings::{Durability, Settings};
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use stdx::handing::Hand;

/// A message to the engine's thread.
#[derive(Debug)]
pub(crate) enum ToEngine {
    /// Requests of a home.
    Requests {
        /// The sending home.
        from: u16,
        /// The requests, in order.
        requests: Vec<EngineRequest>,
    },
    /// A letter of the client.
    Letter(EngineLetter),
    /// Report counters.
    Report(Sender<EngineStatistics>),
    /// A step of a live upgrade.
    Upgrade(EngineOrder),
    /// Pass everything before this on, wait for the engine's answers, and stop.
    Stop,
}

/// Time limit for the engine's answers before the thread stops or is handed over. The engine's
/// records settle the rest.
const FLUSH_PATIENCE: Duration = Duration::from_secs(1);

/// Whether a log is in the engine.
pub(crate) fn is_needed(settings: &Settings) -> bool {
    settings.logs.iter().any(|log| log.durability == Durability::Engine)
}

/// The environment of the thread.
pub(crate) struct Surroundings {
    pub incoming: Receiver<ToEngine>,
    /// The sender to `incoming`, for the client.
    pub own: Sender<ToEngine>,
    pub homes: Arc<[Address]>,
}

/// Starts the client and the thread.
///
/// # Errors
/// The client's reason, or the system refuses a thread.
pub(crate) fn spawn(
    engine: Box<dyn Engine>,
    settings: &Settings,
    mirrored: &[MirrorEnd],
    surroundings: Surroundings,
) -> Result<JoinHandle<io::Result<()>>, String> {
    let client = start(engine, (&[], mirrored), &surroundings.own)?;
    let worker = EngineWorker::new(settings, Vec::new());
    spawn_with(surroundings, move || Some((client, worker))).map_err(|error| error.to_string())
}

/// Starts the thread of a node that takes over.
pub(crate) fn spawn_adopting(
    adoption: EngineAdoption,
    surroundings: Surroundings,
) -> io::Result<JoinHandle<io::Result<()>>> {
    let own = surroundings.own.clone();
    spawn_with(surroundings, move || adoption.take_over(&own))
}

fn start(
    engine: Box<dyn Engine>,
    (tailed, mirrored): (&[Tailed], &[MirrorEnd]),
    own: &Sender<ToEngine>,
) -> Result<Box<dyn EngineClient>, String> {
    let own = own.clone();
    // After the thread has stopped, letters have no receiver.
    let letters: Letters = Box::new(move |letter| drop(own.send(ToEngine::Letter(letter))));
    engine.start(tailed, mirrored, letters)
}

type Began = (Box<dyn EngineClient>, EngineWorker);

fn spawn_with(
    surroundings: Surroundings,
    begin: impl FnOnce() -> Option<Began> + Send + 'static,
) -> io::Result<JoinHandle<io::Result<()>>> {
    std::thread::Builder::new().name("crore-engine".into()).spawn(move || {
        let _vital = Vital;
        net::system::give_up_start_rights()?;
        let Some((client, worker)) = begin() else {
            return Ok(());
        };
        let Surroundings { incoming, own, homes } = surroundings;
        // The thread ends when the node is gone.
        drop(own);
        let thread = EngineThread {
            client,
            worker,
            incoming,
            homes,
            out: EngineOutputs::default(),
            held: None,
            sent: 0,
            received: 0,
        };
        thread.run();
        Ok(())
    })
}

struct EngineThread {
    client: Box<dyn EngineClient>,
    worker: EngineWorker,
    incoming: Receiver<ToEngine>,
    homes: Arc<[Address]>,
    out: EngineOutputs,
    /// During a live upgrade homes get no letters; these wait for its end.
    held: Option<Vec<EngineLetter>>,
    /// Batches to and from homes.
    sent: u64,
    received: u64,
}

impl EngineThread {
    fn run(mut self) {
        let mut is_stopping = false;
        while !is_stopping && let Ok(first) = self.incoming.recv() {
            let waiting: Vec<ToEngine> =
                std::iter::once(first).chain(self.incoming.try_iter()).collect();
            for message in waiting {
                match message {
                    ToEngine::Requests { from, requests } => {
                        self.received += 1;
                        self.client.ask(HomeId(from), requests);
                    }
                    ToEngine::Letter(letter) => self.take(letter),
                    ToEngine::Report(reply) => {
                        // The caller has stopped waiting: nothing is lost.
                        let _: Result<(), _> = reply.send(self.statistics());
                    }
                    ToEngine::Upgrade(order) => self.obey(order),
                    ToEngine::Stop => is_stopping = true,
                }
            }
            self.post();
        }
        self.client.flush(FLUSH_PATIENCE);
        self.client.stop();
    }

    fn take(&mut self, letter: EngineLetter) {
        match &mut self.held {
            Some(held) => held.push(letter),
            None => self.worker.take(letter, &mut self.out),
        }
    }

    fn statistics(&self) -> EngineStatistics {
        let mut statistics = self.client.statistics();
        self.worker.complete(&mut statistics);
        statistics
    }

    fn obey(&mut self, order: EngineOrder) {
        // If the caller has stopped waiting, the thread resumes.
        match order {
            EngineOrder::Freeze => {
                self.post();
                self.held.get_or_insert_default();
            }
            EngineOrder::Count(answer) => {
                self.post();
                let _ = answer.send((self.sent, self.received));
            }
            EngineOrder::HandOver(answer) => {
                self.client.flush(FLUSH_PATIENCE);
                let mut state = Vec::new();
                self.worker.tailed().give(&mut state);
                drop(answer.send(state));
            }
            EngineOrder::Thaw => {
                for letter in self.held.take().unwrap_or_default() {
                    self.worker.take(letter, &mut self.out);
                }
            }
        }
    }

    /// Posts each home's letters as one batch.
    fn post(&mut self) {
        if self.out.letters.is_empty() {
            return;
        }
        let mut by_home: Vec<Vec<EngineLetter>> = self.homes.iter().map(|_| Vec::new()).collect();
        for (home, letter) in self.out.letters.drain(..) {
            if let Some(letters) = by_home.get_mut(usize::from(home)) {
                letters.push(letter);
            }
        }
        for (home, letters) in self.homes.iter().zip(by_home) {
            if !letters.is_empty() {
                self.sent += 1;
                home.send(Post::Engine { letters });
            }
        }
    }
}

/// Asks the thread for its counters. None if it does not answer in time, or has stopped.
pub(crate) fn statistics(
    engine: &Sender<ToEngine>,
    reports: &Asked<EngineStatistics>,
    timeout: Duration,
) -> Option<EngineStatistics> {
    let deadline = Instant::now() + timeout;
    let answer = reports.ask(|reply| engine.send(ToEngine::Report(reply)).is_ok())?;
    reports.wait(answer, deadline)
}

//! The start of a node on any transport: its threads, one after the other.

use super::{Node, Shards, logs};
use crate::admission::Admission;
use crate::engine::Engine;
use crate::engine_thread::{self, ToEngine};
use crate::io_thread::{Ready, Shared, ThreadParts};
use crate::log_thread::{self, OpenLog};
use crate::mailbox::ThreadMailbox;
use crate::options::{NodeOptions, StartError, proxied_listeners, proxied_options};
use crate::pressure::SharedPressure;
use crate::report::Asked;
use crate::restore::Restoration;
use crate::upgrade::Inherited;
use crate::users::Users;
use crate::vital::Vital;
use broker::engine::MirrorEnd;
use net::system::Passage;
use net::{Transport, Unopened};
use std::io;
use std::os::fd::RawFd;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Time limit for the threads of a failed start to stop.
const GIVE_UP_WITHIN: Duration = Duration::from_secs(60);

/// Binds, starts the I/O threads, and returns when all of them accept.
///
/// # Errors
/// [`StartError`]; nothing is left running then.
pub fn start<T: Transport>(mut options: NodeOptions<T>) -> Result<Node, StartError> {
    let plain_count = options.listen.len();
    options.listen.extend(options.tls.iter().flat_map(|tls| &tls.listen));
    let proxied = proxied_listeners(&options.proxied, options.listen.len(), plain_count);
    let mut notices = Vec::new();
    let (mut heir, open_logs) = claim(&mut options, plain_count, &proxied, &mut notices)?;
    let count = usize::from(options.settings.edges_count);
    let networks = options.transport.prepare(count).map_err(StartError::System)?;
    let (passages, own_passages) = passages(count).map_err(StartError::System)?;
    let settings = Arc::new(options.settings.clone());
    let (log_channels, log_receivers) = log_thread::channels(&settings);
    let wakers = networks.iter().map(Unopened::waker).collect();
    let (to_engine, of_engine) = channel();
    let to_engine = engine_thread::is_needed(&settings).then_some(to_engine);
    let (mailboxes, shards) = ThreadMailbox::mesh(wakers, log_channels.clone(), to_engine.clone());
    let engine = options.engine.take();
    let admission = Arc::new(Admission::new(options.admission.clone()));
    admission.trust(options.settings.addresses.trusted_proxies.clone());
    let mut node = Node {
        addresses: options.listen.clone(),
        plain_count,
        counters: Vec::new(),
        tls_counters: Vec::new(),
        proxied_counters: Vec::new(),
        admission,
        users: Arc::new(Users::new(options.connections_per_user_max)),
        pressure: Arc::new(SharedPressure::default()),
        troubles: Arc::default(),
        notices,
        shards: Shards(shards),
        shard_reports: (0..count).map(|_| Asked::default()).collect(),
        questions: (0..count).map(|_| Arc::default()).collect(),
        threads: Vec::new(),
        log_reports: log_channels.iter().map(|_| Asked::default()).collect(),
        logs: log_channels,
        log_threads: Vec::new(),
        engine: to_engine,
        engine_reports: Asked::default(),
        engine_thread: None,
        ready_without_engine: options.ready_without_engine,
        is_draining: AtomicBool::new(false),
        connections_max: 0,
        settings: Mutex::new(settings.clone()),
        passages,
        hash_seed: options.hash_seed,
        began: heir.as_ref().map_or_else(Instant::now, |heir| heir.began),
        proxied,
        adopting: Mutex::default(),
    };
    let own_descriptors = own_passages.iter().map(Passage::descriptor).collect();
    let (directory, shared) = node.shared(options, own_descriptors);
    let started = node
        .start_logs(open_logs, &mut heir, log_receivers, &directory)
        .map_err(StartError::System)
        .and_then(|(restorations, mirrored)| {
            node.start_engine(engine, &mirrored, &mut heir, of_engine)?;
            Ok(restorations)
        })
        .and_then(|restorations| {
            let parts = networks.into_iter().zip(mailboxes).zip(restorations).zip(own_passages);
            node.start_io_threads(parts, &shared, heir)
        });
    match started {
        Ok(()) => Ok(node),
        Err(error) => Err(node.give_up(error)),
    }
}

/// Accepts the inheritance, or else checks the addresses and opens the logs on disk.
fn claim<T: Transport>(
    options: &mut NodeOptions<T>,
    plain_count: usize,
    proxied: &[bool],
    notices: &mut Vec<String>,
) -> Result<(Option<Inherited>, Vec<Option<OpenLog>>), StartError> {
    let Some(inheritance) = options.inheritance.take() else {
        for &address in &options.listen {
            let checked = options.transport.check(address);
            checked.map_err(|error| StartError::Listen(address, error))?;
        }
        return Ok((None, logs::open(options, notices)?));
    };
    let (wanted, listen) = (&options.settings, &options.listen);
    let heir = Inherited::begin(inheritance, wanted, listen, plain_count, proxied);
    let heir = heir.map_err(StartError::System)?;
    options.settings = heir.settings.clone();
    options.listen.clone_from(&heir.listen);
    options.hash_seed = heir.hash_seed();
    // The logs still belong to the other process.
    Ok((Some(heir), Vec::new()))
}

/// Channels to this number of threads, and their receivers.
fn passages(count: usize) -> io::Result<(Vec<Passage>, Vec<Passage>)> {
    let pairs: io::Result<Vec<_>> = (0..count).map(|_| Passage::pair()).collect();
    Ok(pairs?.into_iter().unzip())
}

impl Node {
    /// The directory of the logs, and the start parameters of all threads, which keep these
    /// descriptors.
    fn shared<T>(&self, options: NodeOptions<T>, keep: Vec<RawFd>) -> (PathBuf, Arc<Shared>) {
        let threads_count = self.shard_reports.len() as u32;
        let shared = Shared {
            settings: self.settings(),
            keep,
            plain_count: self.plain_count,
            proxied: proxied_options(options.proxied, &self.proxied),
            tls: options.tls.map(|tls| tls.server),
            admission: (!options.admission.is_off()).then(|| self.admission.clone()),
            users: self.users.clone(),
            connect_rate_max: options.connect_rate_max.map(|rate| rate.div_ceil(threads_count)),
            pressure: self.pressure.clone(),
            hash_seed: options.hash_seed,
            authenticator: options.authenticator,
            journal: options.journal,
            began: self.began,
        };
        (options.data_dir.unwrap_or_default(), Arc::new(shared))
    }

    /// Starts the engine's client and its thread, if a log is there.
    fn start_engine(
        &mut self,
        engine: Option<Box<dyn Engine>>,
        mirrored: &[MirrorEnd],
        heir: &mut Option<Inherited>,
        incoming: Receiver<ToEngine>,
    ) -> Result<(), StartError> {
        let Some(own) = self.engine.clone() else {
            return Ok(());
        };
        let settings = self.settings();
        let surroundings =
            engine_thread::Surroundings { incoming, own, homes: self.shards.0.clone() };
        let thread = match heir {
            Some(heir) => {
                let adoption = heir.adopt_engine(engine, &settings);
                engine_thread::spawn_adopting(adoption, surroundings).map_err(StartError::System)?
            }
            None => {
                let missing = || StartError::Engine("the node has no client for it".into());
                let engine = engine.ok_or_else(missing)?;
                let spawned = engine_thread::spawn(engine, &settings, mirrored, surroundings);
                spawned.map_err(StartError::Engine)?
            }
        };
        self.engine_thread = Some(thread);
        Ok(())
    }

    /// Starts the I/O threads: one after another, because the first one selects the ports that all
    /// others share.
    fn start_io_threads<U: Unopened>(
        &mut self,
        parts: impl Iterator<Item = (((U, ThreadMailbox), Vec<Restoration>), Passage)>,
        shared: &Arc<Shared>,
        heir: Option<Inherited>,
    ) -> Result<(), StartError> {
        let mut adoptions = Vec::new();
        if let Some(heir) = heir {
            let adopting;
            (adoptions, adopting) = heir.adoptions();
            self.settings = Mutex::new(adopting.renewed.clone());
            self.adopting = Mutex::new(Some(adopting));
        }
        let mut adoptions = adoptions.into_iter();
        for (id, (((network, mailbox), restorations), own)) in (0..).zip(parts) {
            let (ready, is_ready) = channel();
            let thread = ThreadParts {
                id,
                network,
                mailbox,
                listen: self.addresses.clone(),
                shared: shared.clone(),
                own,
                adoption: adoptions.next(),
                restorations,
                ready,
            };
            self.spawn_io(thread, &is_ready)?;
        }
        Ok(())
    }

    /// Starts one I/O thread, and waits until it is ready.
    fn spawn_io<U: Unopened>(
        &mut self,
        thread: ThreadParts<U>,
        is_ready: &Receiver<Result<Ready, StartError>>,
    ) -> Result<(), StartError> {
        let spawned =
            std::thread::Builder::new().name(format!("crore-io-{}", thread.id)).spawn(move || {
                let _vital = Vital;
                thread.run()
            });
        self.threads.push(spawned.map_err(StartError::System)?);
        let ended = || StartError::System(io::Error::other("an I/O thread ended"));
        let ready = is_ready.recv().map_err(|_| ended())??;
        self.addresses = ready.addresses;
        self.counters.push(ready.counters);
        self.tls_counters.extend(ready.tls_counters);
        self.proxied_counters.extend(ready.proxied_counters);
        self.connections_max += u64::from(ready.connections_max);
        // All threads have the same notice.
        let notice = ready.notice.filter(|notice| !self.notices.contains(notice));
        self.notices.extend(notice);
        Ok(())
    }

    fn give_up(mut self, error: StartError) -> StartError {
        let adopting = self.adopting.get_mut();
        if let Some(adopting) = adopting.unwrap_or_else(PoisonError::into_inner).take() {
            // The threads wait for the old process, which gets the error; this process is about to
            // end.
            adopting.inheritance.refuse(&error);
            return error;
        }
        // Report the first error.
        let _ = self.end(GIVE_UP_WITHIN);
        error
    }
}

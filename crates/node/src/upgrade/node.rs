//! Live upgrade as a node and its starter see it.

use super::taking::Adopting;
use super::{
    Coordinator, FREEZE_PATIENCE, Giving, HandedOver, Hello, Inheritance, LogAdoption,
    UpgradeError, fail_at,
};
use crate::io_thread::Adoption;
use crate::reactor::state_layout;
use crate::running::{Node, NodeOptions, StartError, proxied_listeners};
use broker::settings::Settings;
use net::system::{Passage, monotonic_ns};
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, PoisonError};
use std::time::Instant;

impl Node {
    /// Hands everything over to the process at the other end of `control`. `operators` are the
    /// operators' listeners and `input` is standard input, which it takes, too; `judge` says what
    /// its judge has to know, asked when nobody is judged any more; `kill` ends it at once. When
    /// this succeeds that process is the node, and this one has to end without touching anything.
    ///
    /// # Errors
    /// Why it did not take place; the node serves on.
    pub fn hand_over(
        &self,
        control: OwnedFd,
        (operators, input): (&[std::net::TcpListener], BorrowedFd<'_>),
        (version, judge): (&str, &dyn Fn() -> Vec<u8>),
        kill: &mut dyn FnMut(),
    ) -> Result<Giving, UpgradeError> {
        if self.is_draining.load(Ordering::Relaxed) {
            kill();
            return Err(UpgradeError::Draining);
        }
        // Nobody changes settings meanwhile: what is told to shards after they have stopped would
        // be lost.
        let settings = self.settings.lock().unwrap_or_else(PoisonError::into_inner);
        let age_ns = u64::try_from(self.began.elapsed().as_nanos()).unwrap_or(u64::MAX);
        let hello = Hello {
            layout: state_layout(),
            version: version.to_owned(),
            hash_seed: self.hash_seed,
            began_ns: monotonic_ns().saturating_sub(age_ns),
            settings: Settings::clone(&settings),
            addresses: self.addresses.iter().map(SocketAddr::to_string).collect(),
            plain_count: self.plain_count,
            operators_count: operators.len(),
            proxied: self.proxied.clone(),
        };
        let mut descriptors: Vec<BorrowedFd<'_>> = operators.iter().map(AsFd::as_fd).collect();
        descriptors.push(input);
        let threads = self.logs.iter().zip(&settings.logs).zip(0..);
        let logs = threads.filter_map(|((thread, log), index)| {
            Some((index, log.name.as_str(), thread.as_ref()?))
        });
        let coordinator = Coordinator {
            shards: &self.shards.0,
            own: &self.passages,
            control: &Passage::of(control),
            logs: logs.collect(),
            freeze_patience: FREEZE_PATIENCE,
            judge,
        };
        coordinator.run(&hello, &descriptors, kill)
    }

    /// Takes the place of the process before, if this node was started with its [`Inheritance`]:
    /// waits until all is here, and for the commit. From then on it serves. `judge` takes what the
    /// judge before knew, and says whether it is understood.
    ///
    /// # Errors
    /// The other process serves on; this one has to end.
    pub fn take_over(&self, judge: &dyn Fn(&[u8]) -> bool) -> io::Result<()> {
        let mut adopting = self.adopting.lock().unwrap_or_else(PoisonError::into_inner);
        match adopting.take() {
            Some(adopting) => adopting.finish(&self.shards.0, judge),
            None => Ok(()),
        }
    }
}

/// The way to the thread of a log on disk that is to take over, for what is handed over to it.
#[derive(Debug)]
pub(crate) struct LogWay {
    pub log: u16,
    pub handed: Sender<HandedOver>,
}

/// What a start makes of an inheritance.
pub(crate) struct Inherited {
    inheritance: Inheritance,
    pub began: Instant,
    renewed: Settings,
    ways: Vec<OwnedFd>,
    adopted: Sender<Result<(), String>>,
    all_adopted: Receiver<Result<(), String>>,
    go: Vec<Sender<()>>,
    logs: Vec<LogWay>,
}

impl Inherited {
    /// Accepts it, if the options fit, and changes them to what was handed over.
    pub fn begin(
        inheritance: Inheritance,
        options: &mut NodeOptions,
        plain_count: usize,
    ) -> Result<Inherited, StartError> {
        let proxied = proxied_listeners(&options.proxied, options.listen.len(), plain_count);
        let settled = match proxied == inheritance.proxied() {
            true => inheritance.settle(&options.settings, &options.listen, plain_count),
            false => Err("the listeners behind proxies have changed".into()),
        };
        let (settings, renewed) = settled.map_err(|why| {
            inheritance.refuse(&why);
            StartError::System(io::Error::other(why))
        })?;
        options.settings = settings;
        options.listen = inheritance.addresses();
        options.hash_seed = inheritance.hash_seed();
        let ways = inheritance.accept().map_err(StartError::System)?;
        if ways.len() != usize::from(options.settings.edges_count) {
            return Err(StartError::System(io::ErrorKind::InvalidData.into()));
        }
        fail_at(5);
        let (adopted, all_adopted) = channel();
        Ok(Inherited {
            began: inheritance.began(),
            inheritance,
            renewed,
            ways,
            adopted,
            all_adopted,
            go: Vec::new(),
            logs: Vec::new(),
        })
    }

    /// What the thread of a log on disk takes over.
    pub fn adopt_log(
        &mut self,
        log: u16,
        settings: &Arc<Settings>,
        directory: &Path,
    ) -> LogAdoption {
        let (handed, is_handed) = channel();
        self.logs.push(LogWay { log, handed });
        LogAdoption {
            log,
            settings: settings.clone(),
            directory: directory.to_owned(),
            hash_seed: self.inheritance.hash_seed(),
            handed: is_handed,
            adopted: self.adopted.clone(),
            go: self.begin_later(),
        }
    }

    fn begin_later(&mut self) -> Receiver<()> {
        let (begin, is_begun) = channel();
        self.go.push(begin);
        is_begun
    }

    /// What each I/O thread takes over, in their order, and how all of it ends.
    pub fn adoptions(mut self) -> (Vec<Adoption>, Option<Adopting>) {
        let mut adoptions = Vec::new();
        for way in std::mem::take(&mut self.ways) {
            adoptions.push(Adoption {
                way: Passage::of(way),
                adopted: self.adopted.clone(),
                go: self.begin_later(),
            });
        }
        let adopting = Adopting {
            inheritance: self.inheritance,
            adopted: self.all_adopted,
            logs: self.logs,
            go: self.go,
            renewed: Arc::new(self.renewed),
        };
        (adoptions, Some(adopting))
    }
}

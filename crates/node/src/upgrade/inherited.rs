//! The inheritance of a new process during the start of its node.

use super::taking::{Adopting, Inheritance, LogWay};
use super::thread::Adoption;
use crate::engine::Engine;
use crate::engine_thread::EngineAdoption;
use crate::fail::fail_at;
use crate::log_thread::LogAdoption;
use broker::settings::Settings;
use net::system::Passage;
use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Instant;

/// An accepted inheritance, during the start of the node.
pub(crate) struct Inherited {
    inheritance: Inheritance,
    /// The start of the node's clock.
    pub began: Instant,
    /// The settings of the old node.
    pub settings: Settings,
    /// The clients' addresses, those without TLS first.
    pub listen: Vec<SocketAddr>,
    renewed: Settings,
    ways: Vec<OwnedFd>,
    adopted: Sender<Result<(), String>>,
    all_adopted: Receiver<Result<(), String>>,
    go: Vec<Sender<()>>,
    logs: Vec<LogWay>,
    engine: Option<Sender<Vec<u8>>>,
}

impl Inherited {
    /// Accepts an inheritance, if the wanted settings and listeners fit.
    ///
    /// # Errors
    /// They do not fit, or the old process is gone.
    pub fn begin(
        inheritance: Inheritance,
        wanted: &Settings,
        listen: &[SocketAddr],
        plain_count: usize,
        proxied: &[bool],
    ) -> io::Result<Inherited> {
        let settled = if proxied == inheritance.proxied() {
            inheritance.settle(wanted, listen, plain_count)
        } else {
            Err("the listeners behind proxies have changed".into())
        };
        let (settings, renewed) = settled.map_err(|why| {
            inheritance.refuse(&why);
            io::Error::other(why)
        })?;
        let ways = inheritance.accept()?;
        if ways.len() != usize::from(settings.edges_count) {
            return Err(io::ErrorKind::InvalidData.into());
        }
        fail_at(5);
        let (adopted, all_adopted) = channel();
        Ok(Inherited {
            began: inheritance.began(),
            settings,
            listen: inheritance.addresses(),
            inheritance,
            renewed,
            ways,
            adopted,
            all_adopted,
            go: Vec::new(),
            logs: Vec::new(),
            engine: None,
        })
    }

    /// The secret for the hash of topic names.
    pub fn hash_seed(&self) -> (u64, u64) {
        self.inheritance.hash_seed()
    }

    /// The hand-over of the thread of a log on disk.
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

    /// The hand-over of the engine's thread.
    pub fn adopt_engine(
        &mut self,
        engine: Option<Box<dyn Engine>>,
        settings: &Arc<Settings>,
    ) -> EngineAdoption {
        let (handed, is_handed) = channel();
        self.engine = Some(handed);
        EngineAdoption {
            engine,
            settings: settings.clone(),
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

    /// The hand-over of each I/O thread, in order, and the rest for the end of the take-over.
    pub fn adoptions(mut self) -> (Vec<Adoption>, Adopting) {
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
            engine: self.engine,
            go: self.go,
            renewed: Arc::new(self.renewed),
        };
        (adoptions, adopting)
    }
}

//! Live upgrade in the new process: its inheritance, and the moment from which it is the node.
//!
//! The process starts with a channel to the old one as its standard input, and [`INHERIT`] in its
//! environment. Invariant: until its answer to the commit it does not read from, write to or accept
//! from anything that it inherits.

use super::messages::{Hello, START_PATIENCE, kind, receive, send};
use crate::fail::fail_at;
use crate::mailbox::{Address, Control, Post};
use crate::orders::HandedOver;
use crate::reactor::state_layout;
use broker::settings::{LogSettings, Settings, TicketKey};
use net::system::{Passage, inherited_input, monotonic_ns, replace_input};
use std::fmt::Display;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender};
use std::time::{Duration, Instant};
use stdx::handing::{Hand, Input};

/// The environment variable of a process that inherits.
pub const INHERIT: &str = "CRORE_INHERIT";

/// The inheritance of a process that takes the place of another one.
#[derive(Debug)]
pub struct Inheritance {
    control: Passage,
    hello: Hello,
    operators: Vec<TcpListener>,
}

impl Inheritance {
    /// Receives the inheritance, if this process inherits. Standard input becomes that of the old
    /// process.
    ///
    /// # Errors
    /// No well-formed message arrived.
    pub fn receive() -> io::Result<Option<Inheritance>> {
        if std::env::var_os(INHERIT).is_none() {
            return Ok(None);
        }
        let control = Passage::of(inherited_input()?);
        control.give_up_after(START_PATIENCE)?;
        let message = receive(&control)?;
        let hello = Hello::take(&mut Input::new(&message.bytes));
        let mut descriptors = message.descriptors.into_iter();
        let (kind::HELLO, Some(hello)) = (message.kind, hello) else {
            // The old process would wait for its time limit otherwise.
            let _ = send(
                &control,
                kind::REFUSE,
                b"the old process has another version, whose messages are unknown",
                &[],
            );
            return Err(io::ErrorKind::InvalidData.into());
        };
        let count = hello.operators_count;
        let operators = descriptors.by_ref().take(count).map(TcpListener::from);
        let operators = operators.collect();
        replace_input(descriptors.next())?;
        fail_at(1);
        let inheritance = Inheritance { control, hello, operators };
        if inheritance.hello.layout != state_layout() {
            let why =
                format!("the state of version {} has another layout", inheritance.hello.version);
            inheritance.refuse(&why);
            return Err(io::Error::new(io::ErrorKind::Unsupported, why));
        }
        Ok(Some(inheritance))
    }

    /// The operators' listeners of the old process.
    ///
    /// # Errors
    /// The table has no room.
    pub fn operators(&self) -> io::Result<Vec<TcpListener>> {
        self.operators.iter().map(TcpListener::try_clone).collect()
    }

    /// Refuses, for this reason; the old process serves on.
    pub fn refuse(&self, why: &dyn Display) {
        // If the old process has given up or is gone, nothing is lost.
        let _ = send(&self.control, kind::REFUSE, why.to_string().as_bytes(), &[]);
    }

    /// The keys of the node's resume tickets.
    pub fn ticket_keys(&self) -> Vec<TicketKey> {
        self.hello.settings.tickets.keys.clone()
    }

    pub(crate) fn hash_seed(&self) -> (u64, u64) {
        self.hello.hash_seed
    }

    /// The listeners behind proxies.
    pub(crate) fn proxied(&self) -> &[bool] {
        &self.hello.proxied
    }

    /// The start of the old node's clock.
    pub(crate) fn began(&self) -> Instant {
        let age_ns = monotonic_ns().saturating_sub(self.hello.began_ns);
        let now = Instant::now();
        now.checked_sub(Duration::from_nanos(age_ns)).unwrap_or(now)
    }

    pub(crate) fn addresses(&self) -> Vec<SocketAddr> {
        let texts = self.hello.addresses.iter();
        texts.filter_map(|text| text.parse().ok()).collect()
    }

    /// The settings of the old node, and their renewal by the wanted settings.
    ///
    /// # Errors
    /// The reason why the wanted settings need a restart.
    pub(crate) fn settle(
        &self,
        wanted: &Settings,
        listen: &[SocketAddr],
        plain_count: usize,
    ) -> Result<(Settings, Settings), String> {
        let own = &self.hello.settings;
        let mut wanted = wanted.clone();
        // A new configuration begins new epochs of logs in memory; they keep the present ones.
        for (log, present) in wanted.logs.iter_mut().zip(&own.logs) {
            log.epoch = present.epoch;
            log.older_epochs.clone_from(&present.older_epochs);
        }
        let addresses = self.addresses();
        let fits = |(wanted, present): (&SocketAddr, &SocketAddr)| {
            wanted.ip() == present.ip() && (wanted.port() == 0 || wanted.port() == present.port())
        };
        let is_same = listen.len() == addresses.len()
            && plain_count == self.hello.plain_count
            && listen.iter().zip(&addresses).all(fits);
        if !is_same {
            return Err("the addresses in the configuration have changed".into());
        }
        if let Some(what) = what_differs(own, &wanted) {
            return Err(format!("changes of {what} need a restart"));
        }
        let (renewed, waiting) = own.renewed(wanted);
        match waiting.first() {
            Some(waiting) => {
                Err(format!("the change of the rule \"{}\" needs a restart", waiting.filter))
            }
            None => Ok((own.clone(), renewed)),
        }
    }

    /// Accepts, and receives the channels to the old process's threads.
    pub(crate) fn accept(&self) -> io::Result<Vec<OwnedFd>> {
        fail_at(3);
        send(&self.control, kind::ACCEPT, &[], &[])?;
        let message = receive(&self.control)?;
        fail_at(4);
        match message.kind {
            kind::THREADS => Ok(message.descriptors),
            _ => Err(io::ErrorKind::InvalidData.into()),
        }
    }
}

/// The difference for which shards must be created anew, if any.
fn what_differs(own: &Settings, wanted: &Settings) -> Option<&'static str> {
    let shape = |log: &LogSettings| {
        let LogSettings { name, partitions_count, durability, partitioner, topic_prefix, .. } = log;
        let (name, topic_prefix) = (name.clone(), topic_prefix.clone());
        (name, *partitions_count, *durability, *partitioner, topic_prefix)
    };
    let logs = |settings: &Settings| settings.logs.iter().map(shape).collect::<Vec<_>>();
    if (own.edges_count, own.homes_count) != (wanted.edges_count, wanted.homes_count) {
        return Some("the I/O threads");
    }
    if logs(own) != logs(wanted) {
        return Some("the logs");
    }
    if own.entitlement.is_some() != wanted.entitlement.is_some() {
        return Some("the credentials");
    }
    (own.addresses != wanted.addresses).then_some("the stored addresses")
}

/// The channel to the new thread of a log on disk, for the state that is handed over to it.
#[derive(Debug)]
pub(crate) struct LogWay {
    pub log: u16,
    pub handed: Sender<HandedOver>,
}

/// A node whose threads are taking over.
#[derive(Debug)]
pub(crate) struct Adopting {
    pub inheritance: Inheritance,
    /// The reports of threads that have everything.
    pub adopted: Receiver<Result<(), String>>,
    /// The channels to threads of logs on disk, in their order.
    pub logs: Vec<LogWay>,
    /// The channel to the engine's thread, for the state that is handed over to it.
    pub engine: Option<Sender<Vec<u8>>>,
    /// The channels for the order to begin, one for each thread.
    pub go: Vec<Sender<()>>,
    /// The settings from the commit on.
    pub renewed: Arc<Settings>,
}

/// Time limit for all threads; the old process gives up long before.
const ADOPT_PATIENCE: Duration = Duration::from_secs(300);

impl Adopting {
    /// Waits for all threads, then for the commit, and lets the threads begin.
    ///
    /// # Errors
    /// Something is missing, or the old process serves on; this one must end.
    pub fn finish(
        self,
        shards: &[Address],
        authenticator: &dyn Fn(&[u8]) -> bool,
    ) -> io::Result<()> {
        let control = &self.inheritance.control;
        let deadline = Instant::now() + ADOPT_PATIENCE;
        // The states of logs arrive after those of shards.
        let engines = usize::from(self.engine.is_some());
        self.all_adopted(self.go.len() - self.logs.len() - engines, deadline)?;
        for log in &self.logs {
            self.pass_on(log)?;
        }
        self.pass_on_engine()?;
        self.all_adopted(self.logs.len() + engines, deadline)?;
        let known = receive(control)?;
        if known.kind != kind::JUDGE || !authenticator(&known.bytes) {
            let why = "the state of the authenticator is malformed";
            self.inheritance.refuse(&why);
            return Err(io::Error::other(why));
        }
        // Before other messages reach the shards.
        for shard in shards {
            shard.send(Post::Control(Control::Settings(self.renewed.clone())));
            if self.renewed.entitlement.is_some() {
                // This process's authenticator may have other revocations.
                shard.send(Post::Control(Control::Revoked));
            }
        }
        fail_at(10);
        send(control, kind::READY, &[], &[])?;
        fail_at(11);
        if receive(control)?.kind != kind::COMMIT {
            return Err(io::ErrorKind::InvalidData.into());
        }
        fail_at(12);
        // If it cannot be sent, the old process has died: one that serves on has killed this
        // process.
        let _ = send(control, kind::COMMITTED, &[], &[]);
        fail_at(13);
        for go in &self.go {
            // A thread that has ended ends the process.
            let _ = go.send(());
        }
        Ok(())
    }

    /// Waits until this number of threads has everything.
    fn all_adopted(&self, count: usize, deadline: Instant) -> io::Result<()> {
        for _ in 0..count {
            let left = deadline.saturating_duration_since(Instant::now());
            let adopted = self.adopted.recv_timeout(left);
            let adopted = adopted.unwrap_or_else(|_| Err("a thread did not answer".into()));
            if let Err(why) = adopted {
                self.inheritance.refuse(&why);
                return Err(io::Error::other(why));
            }
        }
        Ok(())
    }

    /// Passes the state of the engine's thread on.
    fn pass_on_engine(&self) -> io::Result<()> {
        let Some(engine) = &self.engine else {
            return Ok(());
        };
        let message = receive(&self.inheritance.control)?;
        if message.kind != kind::ENGINE {
            return Err(io::ErrorKind::InvalidData.into());
        }
        // A thread that has ended does not answer.
        let _ = engine.send(message.bytes.to_vec());
        Ok(())
    }

    /// Passes the state of a log on disk on to its thread.
    fn pass_on(&self, to: &LogWay) -> io::Result<()> {
        let mut message = receive(&self.inheritance.control)?;
        fail_at(14);
        let mut input = Input::new(&message.bytes);
        let log = u16::take(&mut input);
        let (kind::LOG, true, Some(lock)) =
            (message.kind, log == Some(to.log), message.descriptors.pop())
        else {
            return Err(io::ErrorKind::InvalidData.into());
        };
        let state = message.bytes[message.bytes.len() - input.left()..].to_vec();
        // A thread that has ended does not answer.
        let _ = to.handed.send(HandedOver { state, lock });
        Ok(())
    }
}

//! Live upgrade in the new process: what it inherits, and the moment from which it is the node.
//!
//! The process is started with a way to the old one as its standard input, and [`INHERIT`] in its
//! environment. Invariant: until it has answered the commit it has read from, written to and
//! accepted from nothing that it was given.

use super::{HandedOver, Hello, LogWay, START_PATIENCE, fail_at, kind, receive, send};
use crate::mailbox::{Address, Control, Post};
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

/// The environment's variable that a process inherits with.
pub const INHERIT: &str = "CRORE_INHERIT";

/// What a process is given by the one whose place it takes.
#[derive(Debug)]
pub struct Inheritance {
    control: Passage,
    hello: Hello,
    operators: Vec<TcpListener>,
}

impl Inheritance {
    /// What this process inherits, if it does. Standard input is what the old process has.
    ///
    /// # Errors
    /// Nothing understandable came.
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
            // It must not hang until it gives up.
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

    /// The operators' listeners, as the old process has them.
    ///
    /// # Errors
    /// No descriptors to be had.
    pub fn operators(&self) -> io::Result<Vec<TcpListener>> {
        self.operators.iter().map(TcpListener::try_clone).collect()
    }

    /// Tells the old process that nothing comes of it; it serves on.
    pub fn refuse(&self, why: &dyn Display) {
        // It has given up already, or is gone: nothing is lost.
        let _ = send(&self.control, kind::REFUSE, why.to_string().as_bytes(), &[]);
    }

    /// The secrets that have signed the node's resume tickets.
    pub fn ticket_keys(&self) -> Vec<TicketKey> {
        self.hello.settings.tickets.keys.clone()
    }

    pub(crate) fn hash_seed(&self) -> (u64, u64) {
        self.hello.hash_seed
    }

    /// Which listeners proxies connect to.
    pub(crate) fn proxied(&self) -> &[bool] {
        &self.hello.proxied
    }

    /// Where the old node's clock began.
    pub(crate) fn began(&self) -> Instant {
        let age_ns = monotonic_ns().saturating_sub(self.hello.began_ns);
        let now = Instant::now();
        now.checked_sub(Duration::from_nanos(age_ns)).unwrap_or(now)
    }

    pub(crate) fn addresses(&self) -> Vec<SocketAddr> {
        let texts = self.hello.addresses.iter();
        texts.filter_map(|text| text.parse().ok()).collect()
    }

    /// The settings that the old node goes by, and what they become by those that are wanted.
    ///
    /// # Errors
    /// Why the wanted ones need a start of their own.
    pub(crate) fn settle(
        &self,
        wanted: &Settings,
        listen: &[SocketAddr],
        plain_count: usize,
    ) -> Result<(Settings, Settings), String> {
        let own = &self.hello.settings;
        let mut wanted = wanted.clone();
        // A fresh configuration gives new lives to logs in memory; they go on with the ones that
        // they have.
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

    /// Takes up the offer; gives the ways to the old process's threads.
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

/// What shards are made for, and is not the same.
fn what_differs(own: &Settings, wanted: &Settings) -> Option<&'static str> {
    let shape = |log: &LogSettings| (log.name.clone(), log.partitions_count, log.durability);
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

/// A node whose threads are taking over.
#[derive(Debug)]
pub(crate) struct Adopting {
    pub inheritance: Inheritance,
    /// Each thread says so when it has everything.
    pub adopted: Receiver<Result<(), String>>,
    /// Threads of logs on disk, in their order.
    pub logs: Vec<LogWay>,
    /// Each thread begins when it is told so.
    pub go: Vec<Sender<()>>,
    /// What the node goes by from then on.
    pub renewed: Arc<Settings>,
}

/// Until all threads have everything: the old process gives up long before.
const ADOPT_PATIENCE: Duration = Duration::from_secs(300);

impl Adopting {
    /// Waits for all threads, then for the commit, and lets the threads begin.
    ///
    /// # Errors
    /// Something is missing, or the old process serves on; this one has to end.
    pub fn finish(self, shards: &[Address], judge: &dyn Fn(&[u8]) -> bool) -> io::Result<()> {
        let control = &self.inheritance.control;
        let deadline = Instant::now() + ADOPT_PATIENCE;
        // What is handed over of logs comes when shards have handed over.
        self.all_adopted(self.go.len() - self.logs.len(), deadline)?;
        for log in &self.logs {
            self.pass_on(log)?;
        }
        self.all_adopted(self.logs.len(), deadline)?;
        let known = receive(control)?;
        if known.kind != kind::JUDGE || !judge(&known.bytes) {
            let why = "the state of the authenticator is malformed";
            self.inheritance.refuse(&why);
            return Err(io::Error::other(why));
        }
        // Before anything else comes to them.
        for shard in shards {
            shard.send(Post::Control(Control::Settings(self.renewed.clone())));
            if self.renewed.entitlement.is_some() {
                // Who judges here may know of other revocations.
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
        // That it cannot be sent means that the old process has died: one that serves on has killed
        // this one before.
        let _ = send(control, kind::COMMITTED, &[], &[]);
        fail_at(13);
        for go in &self.go {
            // A thread that has ended takes the process with it.
            let _ = go.send(());
        }
        Ok(())
    }

    /// Waits until so many threads have said that they have everything.
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

    /// Passes a log on disk on to its thread.
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

//! Live upgrade of a node: its program, as it is on disk now, is started and takes everything over.
//!
//! Place: beside `serve`, at SIGUSR2 or `POST /api/v1/upgrade`. What is handed over and how is in [`node::upgrade`]. Invariants: what is
//! started is always the file that this node was started from, with its own arguments, so that nobody who may only ask has
//! it run anything else; one upgrade at a time; if it fails, the node serves on and the new process is gone.

use crate::draining::Draining;
use crate::exit::Ending;
use crate::logging::{Level, Log};
use crate::service_manager;
use crate::sockets::Sockets;
use anyhow::{Context, anyhow};
use broker::settings::TicketKey;
use entitlement::TokenJudge;
use net::kernel::{Passage, inherited_input};
use node::Node;
use node::upgrade::{Giving, INHERIT, Inheritance};
use rustix::process::{Pid, Signal, kill_process};
use std::cell::RefCell;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

/// Upgrades the node, for as long as it runs.
pub struct Upgrader {
    /// None when it has stopped.
    pub node: Arc<RwLock<Option<Node>>>,
    /// The operators' listeners: the new process takes them over.
    pub operators: Vec<TcpListener>,
    /// Sockets of the service manager: the new process knows them by their addresses.
    pub sockets: Sockets,
    /// Who judges tokens and API keys, if anybody; what it knows goes to the new process.
    pub judge: Option<Arc<TokenJudge>>,
    /// A node that ends is not handed over.
    pub draining: Arc<Draining>,
    /// Where it tells what it does.
    pub log: Log,
    /// Wakes the thread that does it; false if there is none any more.
    pub begin: Box<dyn Fn() -> bool + Send + Sync>,
    /// Who wants to know what came of it.
    pub asking: Mutex<Vec<Sender<Result<Upgraded, String>>>>,
}

/// The new process is the node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Upgraded {
    /// The new process.
    pub process: u32,
    /// For so long nobody was served.
    pub frozen: Duration,
}

/// Connections that are being closed need the old process for so long at most.
const LINGER: Duration = Duration::from_millis(2_100);
/// Until who asked has the answer.
const FAREWELL: Duration = Duration::from_millis(200);

impl Upgrader {
    /// Has it done, and waits for what comes of it. For threads other than the one that takes signals.
    ///
    /// # Errors
    /// Why nothing came of it; the node serves on.
    pub fn ask(&self) -> Result<Upgraded, String> {
        self.check_serving()?;
        let (answer, is_answered) = channel();
        lock(&self.asking).push(answer);
        if !(self.begin)() {
            return Err("the node is stopping".into());
        }
        is_answered.recv().unwrap_or_else(|_| Err("the node is stopping".into()))
    }

    /// Does it. When this succeeds, this process has to end at once ([`Upgrader::end`]).
    ///
    /// # Errors
    /// It is told in the log, too; the node serves on.
    pub fn upgrade(&self) -> Result<(u32, Giving), String> {
        self.log.write(Level::Info, "The node hands over to a new process.", &[]);
        let result = self.hand_over();
        let told = match &result {
            Ok((process, giving)) => {
                let frozen_ms = format!("{:.1}", giving.frozen.as_secs_f64() * 1e3);
                let process_text = process.to_string();
                self.log.write(
                    Level::Info,
                    "The new process is the node now.",
                    &[("process", &process_text), ("frozen_ms", &frozen_ms)],
                );
                service_manager::tell(&format!("MAINPID={process}"));
                Ok(Upgraded { process: *process, frozen: giving.frozen })
            }
            Err(error) => {
                self.log.write(
                    Level::Error,
                    "The upgrade failed; the node continues to serve.",
                    &[("error", error)],
                );
                Err(error.clone())
            }
        };
        for asking in lock(&self.asking).drain(..) {
            // Who asked does not wait any more.
            let _ = asking.send(told.clone());
        }
        result
    }

    /// Ends this process, which is not the node any more: the one of this number is. Who has wanted the node to end meanwhile has told
    /// this process, and meant that one.
    pub fn end(&self, (process, giving): (u32, Giving), is_to_end: impl FnOnce() -> bool) -> ! {
        std::thread::sleep(match giving.is_lingering {
            true => LINGER,
            false => FAREWELL,
        });
        if is_to_end() {
            let process = i32::try_from(process).ok().and_then(Pid::from_raw);
            // It may have ended by itself.
            let _ = process.map(|process| kill_process(process, Signal::TERM));
        }
        // What was told of clients until then is with the log by now.
        self.log.flush(FAREWELL);
        std::process::exit(0);
    }

    fn check_serving(&self) -> Result<(), String> {
        match self.draining.has_begun() {
            true => Err("the node is draining and stops, so it is not handed over".into()),
            false => Ok(()),
        }
    }

    fn hand_over(&self) -> Result<(u32, Giving), String> {
        self.check_serving()?;
        let node = self.node.read().unwrap_or_else(PoisonError::into_inner);
        let Some(node) = &*node else {
            return Err("the node is stopping".into());
        };
        // The new process would not hear of it.
        let held = self.judge.as_ref().map(|judge| judge.hold_revocations());
        let known = || self.judge.as_ref().map_or(Vec::new(), |judge| judge.hand_over());
        let text = |error: std::io::Error| error.to_string();
        let (ours, theirs) = Passage::pair().map_err(text)?;
        let input = inherited_input().map_err(text)?;
        let program = own_program().map_err(text)?;
        let child = Command::new(&program)
            .args(std::env::args_os().skip(1))
            .env(INHERIT, self.sockets.described())
            // It is the one that gives signs of life from then on.
            .env_remove("WATCHDOG_PID")
            .stdin(Stdio::from(theirs.into_socket()))
            .spawn()
            .map_err(|error| format!("cannot start {}: {error}", program.display()))?;
        let process = child.id();
        let mut child = NewProcess(Some(child));
        let handed = node.hand_over(
            ours.into_socket(),
            (&self.operators, input.as_fd()),
            (env!("CARGO_PKG_VERSION"), &known),
            &mut || child.kill(),
        );
        let giving = handed.map_err(|error| error.to_string())?;
        if let Some(held) = held {
            held.for_ever();
        }
        Ok((process, giving))
    }
}

/// What this process inherits, until the node takes it.
pub struct Inherited(RefCell<Option<Inheritance>>);

impl Inherited {
    /// To be called first of all: standard input may be the way to the node whose place this one takes.
    ///
    /// # Errors
    /// Nothing could be taken over.
    pub fn receive() -> Result<Inherited, Ending> {
        let inheritance =
            Inheritance::receive().context("cannot take over the previous process")?;
        Ok(Inherited(RefCell::new(inheritance)))
    }

    /// Whether there is a node before.
    pub fn is_there(&self) -> bool {
        self.0.borrow().is_some()
    }

    /// For the node.
    pub fn take(&self) -> Option<Inheritance> {
        self.0.borrow_mut().take()
    }

    /// Tells the old process why nothing comes of it, if it still waits.
    pub fn refuse(&self, ending: &Ending) {
        if let Some(inheritance) = &*self.0.borrow() {
            inheritance.refuse(&ending.describe());
        }
    }

    /// The secrets that have signed the node's resume tickets.
    pub fn ticket_keys(&self) -> Vec<TicketKey> {
        let inheritance = self.0.borrow();
        inheritance.as_ref().map_or(Vec::new(), Inheritance::ticket_keys)
    }

    /// The operators' listeners: those of before, if there was something.
    ///
    /// # Errors
    /// An address cannot be bound, or is none of those of before.
    pub fn operators(
        &self,
        addresses: &[SocketAddr],
        sockets: &Sockets,
    ) -> Result<Vec<TcpListener>, Ending> {
        let Some(inheritance) = &*self.0.borrow() else {
            return sockets.bind(addresses);
        };
        let operators = inheritance.operators().context("no file descriptors left")?;
        let fits = |(wanted, listener): (&SocketAddr, &TcpListener)| {
            listener.local_addr().is_ok_and(|present| {
                let is_port = wanted.port() == 0 || wanted.port() == present.port();
                wanted.ip() == present.ip() && is_port
            })
        };
        if addresses.len() != operators.len() || !addresses.iter().zip(&operators).all(fits) {
            let text = "the operators' addresses in the configuration have changed";
            return Err(Ending::from(anyhow!(text)));
        }
        Ok(operators)
    }
}

/// A process that is killed at most once, and waited for.
struct NewProcess(Option<Child>);

impl NewProcess {
    fn kill(&mut self) {
        if let Some(mut child) = self.0.take() {
            // It may have ended by itself.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// The file that this process was started from; another may have taken its place since.
fn own_program() -> std::io::Result<PathBuf> {
    let program = std::env::current_exe()?;
    let text = program.to_string_lossy();
    Ok(match text.strip_suffix(" (deleted)") {
        Some(path) => PathBuf::from(path),
        None => program.clone(),
    })
}

fn lock<T>(value: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    value.lock().unwrap_or_else(PoisonError::into_inner)
}

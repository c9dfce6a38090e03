//! Live upgrade of a node: starts the program now on disk, which takes over everything.
//!
//! Place: beside `serve`, at SIGUSR2 or `POST /api/v1/upgrade`. [`node::upgrade`] describes the
//! hand-over. Invariants: the started program is always the file that this node was started from,
//! with the same arguments, so that a client with the right to upgrade cannot run another program;
//! upgrades run one at a time; if one fails, the node continues to serve and the new process ends.

use crate::draining::Draining;
use crate::exit::Ending;
use crate::logging::{Level, Log};
use crate::service_manager;
use crate::sockets::Sockets;
use anyhow::{Context, anyhow};
use broker::settings::TicketKey;
use entitlement::TokenAuthenticator;
use net::system::{Passage, inherited_input};
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

/// Upgrades the node while it runs.
pub struct Upgrader {
    /// The node; none when it has stopped.
    pub node: Arc<RwLock<Option<Node>>>,
    /// The operators' listeners: the new process takes them over.
    pub operators: Vec<TcpListener>,
    /// Sockets of the service manager: the new process recognises them by their addresses.
    pub sockets: Sockets,
    /// The authenticator, if any; its state goes to the new process.
    pub authenticator: Option<Arc<TokenAuthenticator>>,
    /// The drain: a node that stops is not handed over.
    pub draining: Arc<Draining>,
    /// The log.
    pub log: Log,
    /// Wakes the upgrading thread; false if that thread has ended.
    pub begin: Box<dyn Fn() -> bool + Send + Sync>,
    /// Callers that wait for the result.
    pub asking: Mutex<Vec<Sender<Result<Upgraded, String>>>>,
}

/// The result: the new process is the node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Upgraded {
    /// The number of the new process.
    pub process: u32,
    /// Time without service.
    pub frozen: Duration,
}

/// Maximum time that the old process stays for connections that are being closed.
const LINGER: Duration = Duration::from_millis(2_100);
/// Maximum time to wait until the caller has the answer.
const FAREWELL: Duration = Duration::from_millis(200);

impl Upgrader {
    /// Requests an upgrade and waits for its result. For threads other than the signal thread.
    ///
    /// # Errors
    /// The reason of the failure; the node continues to serve.
    pub fn ask(&self) -> Result<Upgraded, String> {
        self.check_serving()?;
        let (answer, is_answered) = channel();
        lock(&self.asking).push(answer);
        if !(self.begin)() {
            return Err("the node is stopping".into());
        }
        is_answered.recv().unwrap_or_else(|_| Err("the node is stopping".into()))
    }

    /// Upgrades the node. After success, this process must end at once ([`Upgrader::end`]).
    ///
    /// # Errors
    /// The reason of the failure, which is also logged; the node continues to serve.
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
            // The caller has stopped waiting.
            let _ = asking.send(told.clone());
        }
        result
    }

    /// Ends this process, which the given process has replaced as the node. A stop request that
    /// this process received in the meantime was meant for the node, and is forwarded.
    pub fn end(&self, (process, giving): (u32, Giving), is_to_end: impl FnOnce() -> bool) -> ! {
        std::thread::sleep(if giving.is_lingering { LINGER } else { FAREWELL });
        if is_to_end() {
            let process = i32::try_from(process).ok().and_then(Pid::from_raw);
            // The process may have ended already.
            let _ = process.map(|process| kill_process(process, Signal::TERM));
        }
        // The log has all events of clients up to here.
        self.log.flush(FAREWELL);
        std::process::exit(0);
    }

    fn check_serving(&self) -> Result<(), String> {
        if self.draining.has_begun() {
            Err("the node is draining and stops, so it is not handed over".into())
        } else {
            Ok(())
        }
    }

    fn hand_over(&self) -> Result<(u32, Giving), String> {
        self.check_serving()?;
        let node = self.node.read().unwrap_or_else(PoisonError::into_inner);
        let Some(node) = &*node else {
            return Err("the node is stopping".into());
        };
        // The new process would not receive the request.
        let held =
            self.authenticator.as_ref().map(|authenticator| authenticator.hold_revocations());
        let known = || {
            self.authenticator
                .as_ref()
                .map_or(Vec::new(), |authenticator| authenticator.hand_over())
        };
        let text = |error: std::io::Error| error.to_string();
        let (ours, theirs) = Passage::pair().map_err(text)?;
        let input = inherited_input().map_err(text)?;
        let program = own_program().map_err(text)?;
        let child = Command::new(&program)
            .args(std::env::args_os().skip(1))
            .env(INHERIT, self.sockets.described())
            // The new process sends the watchdog notifications from now on.
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

/// The inheritance of this process, until the node takes it.
pub struct Inherited(RefCell<Option<Inheritance>>);

impl Inherited {
    /// Receives it. Call it first: standard input may be the control socket of the node that this
    /// process replaces.
    ///
    /// # Errors
    /// The hand-over failed.
    pub fn receive() -> Result<Inherited, Ending> {
        let inheritance =
            Inheritance::receive().context("cannot take over the previous process")?;
        Ok(Inherited(RefCell::new(inheritance)))
    }

    /// Whether there is a predecessor.
    pub fn is_there(&self) -> bool {
        self.0.borrow().is_some()
    }

    /// The inheritance, for the node.
    pub fn take(&self) -> Option<Inheritance> {
        self.0.borrow_mut().take()
    }

    /// Tells the old process the reason of a failure, if it still waits.
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

    /// The operators' listeners: those of the predecessor, if there is one.
    ///
    /// # Errors
    /// An address cannot be bound, or the predecessor does not have it.
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
            // The process may have ended already.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// The file that this process was started from, or its replacement on disk.
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

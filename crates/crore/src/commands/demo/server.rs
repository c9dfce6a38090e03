//! The node of the demo: a child process, so that its memory and CPU are separate from those of the
//! clients.

use crate::exit::Ending;
use crate::process;
use anyhow::{Context, anyhow};
use fetch::Request;
use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};
use std::ffi::OsString;
use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

/// Time limit for the node's start, and for its stop.
const PATIENCE: Duration = Duration::from_secs(30);
/// Time between two checks whether a process has ended.
const LOOK: Duration = Duration::from_millis(5);
/// Bytes of the node's health at most.
const HEALTH_BYTES_MAX: u64 = 64 << 10;

/// The parameters of a start.
#[derive(Clone, Debug, Default)]
pub struct Setup {
    /// Further arguments of `serve`.
    pub arguments: Vec<OsString>,
    /// Addresses for clients and operators; without them, the default ports if they are free.
    pub addresses: Option<[String; 2]>,
}

/// A running node. Dropping it stops it.
pub struct Server {
    child: Child,
    /// The successor of the child after an upgrade. This process must be its reaper.
    successor: Option<Pid>,
    has_ended: bool,
    /// The node lives as long as this is open; it closes even if this process is killed.
    life: Option<ChildStdin>,
    /// Lines of its output after `ready`.
    lines: Receiver<String>,
    /// URL of the clients' port: `http://...`.
    pub clients: String,
    /// URL of the operators' port: `http://...`.
    pub operators: String,
    /// Notices of its start.
    pub notices: Vec<String>,
    /// Maximum number of its connections.
    pub connections_max: u64,
}

/// Resource usage of a node.
#[derive(Clone, Copy, Debug, Default)]
pub struct Usage {
    /// User-space memory in bytes.
    pub memory_bytes: Option<u64>,
    /// CPU time since its start, in seconds.
    pub cpu_s: f64,
}

impl Server {
    /// Starts this program as a node with embedded defaults.
    ///
    /// # Errors
    /// The node does not become ready.
    pub fn start(io_threads: u64, setup: &Setup) -> Result<Server, Ending> {
        Server::start_telling(io_threads, setup, Stdio::inherit())
    }

    /// Starts a node that may fail to start, without printing the reason.
    ///
    /// # Errors
    /// The errors of [`Server::start`].
    pub fn try_start(io_threads: u64, setup: &Setup) -> Result<Server, Ending> {
        Server::start_telling(io_threads, setup, Stdio::null())
    }

    fn start_telling(io_threads: u64, setup: &Setup, errors: Stdio) -> Result<Server, Ending> {
        let mut notices = Vec::new();
        let program = std::env::current_exe().context("cannot find the file of this program")?;
        let mut command = Command::new(program);
        command.args(["serve", "--end-with-stdin", "--io-threads", &io_threads.to_string()]);
        let [clients, operators] = setup.addresses.clone().unwrap_or_else(|| {
            [address(8800, "clients", &mut notices), address(8801, "operators", &mut notices)]
        });
        command.args(["--listen", &clients, "--admin-listen", &operators]);
        command.args(&setup.arguments);
        let mut ignored = Vec::new();
        for (name, _) in std::env::vars_os() {
            // Embedded defaults: the configuration of another node does not apply to this one.
            let text = name.to_string_lossy();
            let is_option = text.starts_with("CRORE_");
            if is_option || name == "NOTIFY_SOCKET" {
                command.env_remove(&name);
            }
            if is_option {
                ignored.push(text.into_owned());
            }
        }
        if !ignored.is_empty() {
            ignored.sort();
            notices.push(format!(
                "The demo's node ignores settings and has no TLS: {} has no effect.",
                ignored.join(", ")
            ));
        }
        // Ctrl-C goes to this process only, which then stops the node.
        command.process_group(0).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(errors);
        let mut child = command.spawn().context("cannot start the node")?;
        let output = child.stdout.take().context("cannot read the node's output")?;
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                // Without a receiver, the thread continues to read, so that the node can continue
                // to write.
                let _ = sender.send(line);
            }
        });
        let life = child.stdin.take();
        let mut server = Server {
            child,
            successor: None,
            has_ended: false,
            life,
            lines,
            clients: String::new(),
            operators: String::new(),
            notices,
            connections_max: 0,
        };
        server.wait_until_ready()?;
        server.connections_max = server.ask_capacity()?;
        Ok(server)
    }

    /// The present usage.
    pub fn usage(&self) -> Usage {
        let number = self.child.id();
        Usage {
            memory_bytes: process::proportional_bytes(number)
                .or_else(|| process::resident_bytes(number)),
            cpu_s: process::cpu_seconds(number).unwrap_or(0.0),
        }
    }

    /// The process that is the node.
    pub fn process(&self) -> u32 {
        let successor = self.successor.map(|process| process.as_raw_nonzero().get());
        successor.map_or(self.child.id(), i32::unsigned_abs)
    }

    /// Whether the node has ended.
    pub fn has_ended(&mut self) -> bool {
        // No other code waits for the child, so its number stays valid until then.
        self.has_ended = self.has_ended
            || match self.successor {
                None => !matches!(self.child.try_wait(), Ok(None)),
                Some(process) => !matches!(waitpid(Some(process), WaitOptions::NOHANG), Ok(None)),
            };
        self.has_ended
    }

    /// Waits for the end, for at most this time.
    pub fn ends_within(&mut self, patience: Duration) -> bool {
        let deadline = Instant::now() + patience;
        while !self.has_ended() {
            if Instant::now() >= deadline {
                return false;
            }
            std::thread::sleep(LOOK);
        }
        true
    }

    /// Follows a hand-over to another process; the old one ends by itself.
    ///
    /// # Errors
    /// The old process does not end.
    pub fn replaced_by(&mut self, process: u32) -> Result<(), Ending> {
        let successor = i32::try_from(process).ok().and_then(Pid::from_raw);
        let successor = successor.context("the new process has an invalid number")?;
        if !self.ends_within(PATIENCE) {
            return Err(anyhow!("the old process does not stop").into());
        }
        self.successor = Some(successor);
        self.has_ended = false;
        Ok(())
    }

    /// Kills the node like `kill -9`, and waits for its end.
    ///
    /// # Errors
    /// The node has ended before.
    pub fn kill(&mut self) -> Result<(), Ending> {
        self.signal(Signal::KILL)?;
        if self.ends_within(PATIENCE) {
            Ok(())
        } else {
            Err(anyhow!("the node does not stop").into())
        }
    }

    /// Begins an orderly stop, like a service manager.
    ///
    /// # Errors
    /// The node has ended before.
    pub fn drain(&mut self) -> Result<(), Ending> {
        self.signal(Signal::TERM)
    }

    fn signal(&mut self, signal: Signal) -> Result<(), Ending> {
        if self.has_ended() {
            return Err(anyhow!("the node stopped unexpectedly").into());
        }
        let process = i32::try_from(self.process()).ok().and_then(Pid::from_raw);
        let process = process.context("the node's process number is invalid")?;
        Ok(kill_process(process, signal).context("cannot send a signal to the node")?)
    }

    fn wait_until_ready(&mut self) -> Result<(), Ending> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let line =
                self.lines.recv_timeout(left).map_err(|_| anyhow!("the node did not start"))?;
            if let Some(url) = line.strip_prefix("listening clients ") {
                self.clients = url.into();
            } else if let Some(url) = line.strip_prefix("listening operators ") {
                self.operators = url.into();
            } else if line == "ready" {
                return Ok(());
            } else if let Some((_, sentence)) = line.split_once(" warn  ") {
                self.notices.push(sentence.into());
            }
        }
    }

    fn ask_capacity(&self) -> Result<u64, Ending> {
        let address = self.operators.trim_start_matches("http://");
        let answer = Request::get(address, "/healthz")
            .ask(PATIENCE, HEALTH_BYTES_MAX)
            .context("the node did not report its health")?;
        let health: serde_json::Value =
            serde_json::from_slice(&answer.body).context("the node's health is not JSON")?;
        health["connections_max"]
            .as_u64()
            .ok_or_else(|| anyhow!("the node did not report its capacity").into())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.life = None;
        if !self.ends_within(PATIENCE) {
            // A node that does not stop in order is killed.
            let _ = self.kill();
        }
    }
}

/// The default port, or a free port if it is taken.
fn address(port: u16, whose: &str, notices: &mut Vec<String>) -> String {
    match TcpListener::bind(("127.0.0.1", port)) {
        Ok(_) => format!("127.0.0.1:{port}"),
        Err(error) => {
            notices.push(format!("The demo uses another port than {port} for {whose}: {error}."));
            "127.0.0.1:0".into()
        }
    }
}

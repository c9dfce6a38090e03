//! One of the two servers, and its clients.
//!
//! Place: started once; the workloads take turns with it.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bench::engine::{Common, Handle};

use super::{Options, Workload};
use crate::process::{self, Process};

/// Which server.
#[derive(Clone, Debug)]
pub enum Kind {
    /// The bare loop.
    Floor,
    /// `crore serve` of this binary.
    Node(PathBuf),
}

/// A server, and its clients.
pub struct Contender {
    /// The server.
    pub process: Process,
    /// The URL of its clients.
    pub url: String,
    /// Second byte of the clients' addresses, so that each server's clients have enough ports.
    network: u8,
    /// The subscribers, once there are some.
    pub subscribers: Option<Handle>,
    /// While it is set the clients do not sleep.
    pub busy_poll: Arc<AtomicBool>,
    /// The client that publishes one message after the other.
    pub publisher: Option<(client::Client, client::Events)>,
    /// Its number of messages so far.
    pub published: u64,
}

impl Contender {
    /// Starts the process and waits until it listens.
    pub fn start(kind: &Kind, options: &Options, network: u8) -> anyhow::Result<Contender> {
        let process = Process::start(&options.server_cores, |_: &Path, address| {
            let listen = ["--listen", &address.to_string()];
            let has_pings = options.workload == Workload::Pings;
            let interval_s = options.ping_interval_s;
            let mut command;
            match kind {
                Kind::Floor => {
                    command = Command::new(std::env::current_exe()?);
                    let threads = options.floor_threads_count().to_string();
                    command.arg("floor").args(listen).args(["--threads", &threads]);
                    if has_pings {
                        command.args(["--ping-interval-s", &interval_s.to_string()]);
                    }
                }
                Kind::Node(binary) => {
                    command = process::node(
                        binary,
                        options.node_threads_count(),
                        address,
                        process::ANY_PORT,
                    );
                    if has_pings {
                        let interval = format!("websocket.ping_interval={interval_s}s");
                        command.args(["--set", &interval]);
                    }
                    for assignment in &options.server_set {
                        command.args(["--set", assignment]);
                    }
                }
            }
            Ok(command)
        })?;
        Ok(Contender {
            url: format!("ws://{}", process.address),
            process,
            network,
            subscribers: None,
            busy_poll: Arc::default(),
            publisher: None,
            published: 0,
        })
    }

    /// The connection options of the clients.
    pub fn common(&self, rate: f64, threads: u64) -> anyhow::Result<Common> {
        let mut common = Common::new(std::slice::from_ref(&self.url))?;
        // Each address has some 28,000 ports.
        let pattern = format!("127.{}.{{1..100}}.1", self.network);
        common.local_addresses =
            bench::source::Sources::parse_addresses(&[pattern]).map_err(anyhow::Error::msg)?;
        common.connect_rate = rate;
        common.threads = threads;
        common.busy_poll = self.busy_poll.clone();
        Ok(common)
    }

    /// Lets the clients spin, or sleep again.
    pub fn spin(&self, does: bool) {
        self.busy_poll.store(does, Ordering::Relaxed);
        // A sleeping client looks ten times a second.
        std::thread::sleep(Duration::from_millis(150));
    }
}

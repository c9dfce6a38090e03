//! One of the two servers, as a process of its own, and the clients that it has.
//!
//! Place: started once; the workloads take turns with it. Dropping it ends the process.

use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use bench::engine::{Common, Handle};

use crate::Options;

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
    process: Child,
    /// Where clients connect.
    pub url: String,
    /// Second byte of the clients' addresses, so that both servers' have ports enough.
    network: u8,
    /// Those who listen, once there are some.
    pub subscribers: Option<Handle>,
    /// While it is set the clients do not sleep.
    pub busy_poll: Arc<AtomicBool>,
    /// Who publishes one message after the other, and how many there were.
    pub publisher: Option<(client::Client, client::Events)>,
    pub published: u64,
}

impl Contender {
    /// Starts the process and waits until it listens.
    pub fn start(kind: &Kind, options: &Options, network: u8) -> anyhow::Result<Contender> {
        let cores = options.server_cores.iter().map(usize::to_string).collect::<Vec<_>>().join(",");
        let mut command = Command::new("taskset");
        command.args(["-c", &cores]);
        let floor_threads = options.floor_threads_count().to_string();
        let node_threads = options.node_threads_count().to_string();
        let url = match kind {
            Kind::Floor => {
                command.arg(std::env::current_exe()?.with_file_name("floor"));
                command.args(["--listen", "127.0.0.1:0", "--threads", &floor_threads]);
                if options.workload == crate::Workload::Pings {
                    command.args(["--ping-interval-s", &options.ping_interval_s.to_string()]);
                }
                command.stdout(Stdio::piped());
                None
            }
            Kind::Node(binary) => {
                let (clients, operators) = (free_port()?, free_port()?);
                command.arg(binary).args(["serve", "--io-threads", &node_threads]);
                command.args(["--listen", &format!("127.0.0.1:{clients}")]);
                command.args(["--admin-listen", &format!("127.0.0.1:{operators}")]);
                if options.workload == crate::Workload::Pings {
                    let interval = format!("websocket.ping_interval={}s", options.ping_interval_s);
                    command.args(["--set", &interval]);
                }
                command.args(&options.serve).stdout(Stdio::null());
                Some(format!("ws://127.0.0.1:{clients}"))
            }
        };
        let mut process = command.stderr(Stdio::null()).spawn().context("taskset and a server")?;
        let url = match (url, process.stdout.take()) {
            (Some(url), _) => url,
            (None, Some(stdout)) => {
                let mut line = String::new();
                BufReader::new(stdout).read_line(&mut line)?;
                let address = line.trim().strip_prefix("listening ");
                format!("ws://{}", address.context("the floor did not start")?)
            }
            (None, None) => bail!("the floor has no output"),
        };
        let contender = Contender {
            process,
            url,
            network,
            subscribers: None,
            busy_poll: Arc::default(),
            publisher: None,
            published: 0,
        };
        contender.wait_until_it_listens()?;
        Ok(contender)
    }

    /// Where and how clients connect.
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
        // Those that sleep look up ten times a second.
        std::thread::sleep(Duration::from_millis(150));
    }

    /// Processor time of the process until now, in nanoseconds.
    pub fn processor_ns(&self) -> anyhow::Result<u64> {
        let mut sum = 0;
        for task in std::fs::read_dir(format!("/proc/{}/task", self.process.id()))? {
            let text = std::fs::read_to_string(task?.path().join("schedstat"))?;
            let first = text.split_ascii_whitespace().next().unwrap_or_default();
            sum += first.parse::<u64>().context("schedstat")?;
        }
        Ok(sum)
    }

    fn wait_until_it_listens(&self) -> anyhow::Result<()> {
        let address = self.url.trim_start_matches("ws://");
        let deadline = Instant::now() + Duration::from_secs(10);
        while std::net::TcpStream::connect(address).is_err() {
            if Instant::now() > deadline {
                bail!("{address} does not listen");
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }
}

impl Drop for Contender {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// A port that nobody has now.
fn free_port() -> anyhow::Result<u16> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}

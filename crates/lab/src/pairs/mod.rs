//! The node beside the floor, in alternating pairs: what a delivery, a connection or a ping costs
//! more than it must.
//!
//! Place: beside `floor`, for `docs/performance.md`. Both servers run at once with the same
//! clients, and take turns at the same work; processor time is what the system says of the server's
//! process. Clients do not sleep during a measurement (their core is theirs), or the servers would
//! mostly pay for waking them.
//!
//! ```text
//! cargo build --release -p crore -p lab
//! target/release/lab pairs fan-out --clients 10000
//! target/release/lab pairs unicast --clients 10000 --rate 20000
//! target/release/lab pairs connect --clients 15000 --rate 5000
//! target/release/lab pairs pings --clients 10000 --ping-interval-s 10
//! ```
mod contender;
mod workloads;

use std::process::ExitCode;

use anyhow::{Context, bail};
use bench::run::Cores;

use crate::{median, process};
use contender::{Contender, Kind};
use workloads::Figures;

/// The measured workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Workload {
    /// One topic to all clients, one message after the other.
    FanOut,
    /// A topic for each client, messages to all of them in turn at a steady rate.
    Unicast,
    /// Connecting: upgrade, hello, subscription and their answers.
    Connect,
    /// Nothing but pings.
    Pings,
}

/// Compares the node with the bare loop.
#[derive(Clone, Debug, clap::Args)]
pub struct Options {
    /// Workload to compare.
    #[arg(value_enum)]
    pub workload: Workload,
    /// Clients of each server.
    #[arg(long, default_value_t = 10_000)]
    pub clients: u64,
    /// Pairs of measurements; one more is thrown away at the beginning.
    #[arg(long, default_value_t = 7)]
    pub rounds: u32,
    /// Messages of a fan-out measurement.
    #[arg(long, default_value_t = 20)]
    pub messages: u64,
    /// Messages, or connects, per second.
    #[arg(long, default_value_t = 5_000.0)]
    pub rate: f64,
    /// Seconds of a measurement of unicast or pings.
    #[arg(long, default_value_t = 4)]
    pub seconds: u64,
    /// Seconds between two pings of a connection; for `pings`.
    #[arg(long, default_value_t = 10)]
    pub ping_interval_s: u32,
    /// Bytes of a payload.
    #[arg(long, default_value_t = 512)]
    pub size: usize,
    /// I/O threads of the node, which can hold connections beside its descriptor tables; 0: one for
    /// each of its cores.
    #[arg(long, default_value_t = 0)]
    pub threads: u64,
    /// Threads of the floor, which cannot; 0: as many as the node, or what the descriptor limit
    /// needs.
    #[arg(long, default_value_t = 0)]
    pub floor_threads: u64,
    /// Cores of the servers.
    #[arg(long, default_value = "0")]
    pub server_cores: Cores,
    /// Cores of the clients.
    #[arg(long, default_value = "1")]
    pub client_cores: Cores,
    /// Let clients sleep.
    #[arg(long)]
    pub clients_sleep: bool,
    /// Set an option of the node.
    #[arg(long, value_name = "SECTION.NAME=VALUE")]
    pub server_set: Vec<String>,
    /// Another `crore` binary instead of the floor, to compare two versions.
    #[arg(long)]
    pub against: Option<std::path::PathBuf>,
}

/// Measures both, and prints the medians. The exit code is 0 only if nothing was lost.
///
/// # Errors
/// A server does not start, or clients cannot connect.
pub fn run(options: &Options) -> anyhow::Result<ExitCode> {
    if options.rounds == 0 || options.clients == 0 {
        bail!("at least one round and one client");
    }
    // Threads that are started later inherit it; the servers set their own.
    options.client_cores.keep().with_context(|| format!("cores {}", options.client_cores))?;
    let first = match &options.against {
        Some(path) => Kind::Node(path.clone()),
        None => Kind::Floor,
    };
    let own = Kind::Node(process::crore()?);
    let mut contenders =
        [Contender::start(&first, options, 1)?, Contender::start(&own, options, 2)?];
    println!(
        "{:?}: {} clients of each server, threads {} and {}, servers on cores {}, clients on {}",
        options.workload,
        options.clients,
        options.floor_threads_count(),
        options.node_threads_count(),
        options.server_cores,
        options.client_cores
    );
    for contender in &mut contenders {
        workloads::prepare(contender, options)?;
    }
    let mut rounds: Vec<[Figures; 2]> = Vec::new();
    for round in 0..=options.rounds {
        // The first of a round changes, because the caches left by the first affect the second.
        let order = if round % 2 == 0 { [0, 1] } else { [1, 0] };
        let mut pair = [Figures::default(); 2];
        for index in order {
            pair[index] = workloads::measure(&mut contenders[index], options)?;
        }
        let is_warm_up = if round == 0 { "  (not counted)" } else { "" };
        println!("{}{is_warm_up}", line(&format!("round {round}"), pair[0], pair[1]));
        if round > 0 {
            rounds.push(pair);
        }
    }
    let is_clean = rounds.iter().flatten().all(|figures| figures.is_clean);
    let of = |index: usize, pick: fn(&Figures) -> f64| {
        median(rounds.iter().map(|pair| pick(&pair[index])).collect())
    };
    let medians = |index: usize| Figures {
        cpu_us: of(index, |figures| figures.cpu_us),
        last_ms: of(index, |figures| figures.last_ms),
        is_clean,
    };
    println!("{}", line("median", medians(0), medians(1)));
    let ratios = |pick: fn(&Figures) -> f64| {
        let ratio = |pair: &[Figures; 2]| pick(&pair[1]) / pick(&pair[0]);
        median(rounds.iter().map(ratio).collect())
    };
    println!(
        "median of the ratios: CPU {:.3}, time {:.3}",
        ratios(|figures| figures.cpu_us),
        ratios(|figures| figures.last_ms)
    );
    if !is_clean {
        println!("not clean: messages were lost, or the server could not keep up");
    }
    Ok(ExitCode::from(u8::from(!is_clean)))
}

impl Options {
    /// I/O threads of the node.
    pub fn node_threads_count(&self) -> u64 {
        match self.threads {
            0 => self.server_cores.0.len() as u64,
            count => count,
        }
    }

    /// Threads of the floor.
    pub fn floor_threads_count(&self) -> u64 {
        match self.floor_threads {
            0 => self.node_threads_count().max(self.tables_count()),
            count => count,
        }
    }

    /// Threads of the clients: one, while its descriptor table holds them all.
    pub fn client_threads_count(&self) -> u64 {
        self.tables_count()
    }

    /// Whether clients spin while they are measured. Only one thread can: more of them on a core
    /// wait for each other.
    pub fn clients_spin(&self) -> bool {
        !self.clients_sleep && self.client_threads_count() == 1
    }

    fn tables_count(&self) -> u64 {
        // Listeners share connections by hash: the fullest thread has some more than the mean.
        let room = net::system::raise_nofile_limit().soft.saturating_sub(200) * 9 / 10;
        self.clients.div_ceil(room.max(1)).max(1)
    }
}

fn line(name: &str, first: Figures, second: Figures) -> String {
    format!(
        "{name:<9} floor {:8.3} us {:8.2} ms   node {:8.3} us {:8.2} ms   ratio {:.3} {:.3}{}",
        first.cpu_us,
        first.last_ms,
        second.cpu_us,
        second.last_ms,
        second.cpu_us / first.cpu_us,
        second.last_ms / first.last_ms,
        if first.is_clean && second.is_clean { "" } else { "  not clean" }
    )
}

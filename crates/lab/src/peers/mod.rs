//! Crore beside other servers, at the same work in the same run: memory and time of connections,
//! fan-out, unicast.
//!
//! Place: beside `pairs`, for `docs/benchmarks.md`. `--install` gets the others from registries; a
//! run then starts each in turn, with the same cores and one load generator for all (`load`), in
//! its best configuration (`kind`). Rounds go over all servers, so that drift of the machine falls
//! on all of them; the first of a round changes.
//!
//! ```text
//! cargo build --release -p crore -p lab
//! target/release/lab peers --install
//! target/release/lab peers --clients 200 --rounds 1        # seconds: does everything speak?
//! target/release/lab peers --out peers.json
//! ```
mod dialect;
mod install;
mod kind;
mod load;
mod report;
mod work;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, bail};
use bench::run::Cores;

use kind::Kind;
use report::{Report, Row};
use work::Figures;

/// Measures Crore and other servers at the same work.
#[derive(Clone, Debug, clap::Args)]
pub struct Options {
    /// Gets the other servers from registries, and does nothing else.
    #[arg(long)]
    pub install: bool,
    /// Folder of the other servers.
    #[arg(long, default_value = "target/foreign/peers")]
    pub foreign: PathBuf,
    /// Only these.
    #[arg(long, value_enum, value_delimiter = ',')]
    pub only: Vec<Kind>,
    /// Connections of each server; two thirds of them for deliveries.
    #[arg(long, default_value_t = 15_000)]
    pub clients: u64,
    /// Lives of each server.
    #[arg(long, default_value_t = 3)]
    pub rounds: usize,
    /// Messages per second on topics of one subscriber; all must sustain it.
    #[arg(long, default_value_t = 5_000.0)]
    pub unicast_rate: f64,
    /// Messages per second on one topic of all; all must sustain it.
    #[arg(long, default_value_t = 2.0)]
    pub fan_out_rate: f64,
    /// Length of a delivery measurement.
    #[arg(long, default_value_t = 5.0)]
    pub seconds: f64,
    /// Bytes of a payload.
    #[arg(long, default_value_t = 512)]
    pub size: usize,
    /// Cores of the servers.
    #[arg(long, default_value = "0")]
    pub server_cores: Cores,
    /// Cores of the load generator.
    #[arg(long, default_value = "1")]
    pub client_cores: Cores,
    /// File for the figures, as JSON.
    #[arg(long)]
    pub out: Option<PathBuf>,
}

/// Installs the servers, or measures all of them and prints the tables.
///
/// # Errors
/// The options are invalid, or the figures cannot be written.
pub fn run(mut options: Options) -> anyhow::Result<ExitCode> {
    if options.install {
        install::everything(&options.foreign)?;
        return Ok(ExitCode::SUCCESS);
    }
    if options.rounds == 0 || options.clients < 3 {
        bail!("at least one round and three clients");
    }
    net::system::raise_nofile_limit();
    options.foreign = options.foreign.canonicalize().unwrap_or(options.foreign);
    let mut report = Report::new(&options);
    let mut servers: Vec<(Kind, String, Vec<Figures>)> = Vec::new();
    for kind in kind::ALL {
        if !options.only.is_empty() && !options.only.contains(&kind) {
            continue;
        }
        match kind.version(&options.foreign) {
            Ok(version) => servers.push((kind, version, Vec::new())),
            Err(error) => report.left_out.push(format!("{}: {error:#}", kind.name())),
        }
    }
    options.client_cores.keep().with_context(|| format!("cores {}", options.client_cores))?;
    report.load[0] = load();
    for round in 0..options.rounds {
        // The first of a round changes, because each server leaves its traces in the caches.
        let count = servers.len().max(1);
        for at in (0..servers.len()).map(|at| (at + round) % count) {
            let (kind, _, rounds) = &mut servers[at];
            match work::measure(*kind, &options) {
                Ok(figures) => {
                    println!("{}", line(round, *kind, &figures));
                    rounds.push(figures);
                }
                Err(error) => {
                    let what = format!("{}, round {}: {error:#}", kind.name(), round + 1);
                    println!("{what}");
                    report.left_out.push(what);
                }
            }
        }
    }
    report.load[1] = load();
    for (kind, version, rounds) in servers {
        if rounds.is_empty() {
            continue;
        }
        report.servers.push(Row {
            name: kind.name(),
            version,
            median: report::median(&rounds),
            rounds,
        });
    }
    println!("\n{}", report.markdown());
    println!("- load of the machine before and after: {}", report.load.join(", "));
    if let Some(path) = &options.out {
        let text = serde_json::to_string_pretty(&report)?;
        std::fs::write(path, text).with_context(|| path.display().to_string())?;
    }
    Ok(ExitCode::from(u8::from(report.servers.is_empty())))
}

fn line(round: usize, kind: Kind, figures: &Figures) -> String {
    format!(
        "round {} {:<30} {:6.0} B/connection, {:6.0} connects/s at {:6.1} us; unicast {:6.2} us, p99 {:8.2} ms, {} lost; \
         fan-out {:6.2} us, p99 {:8.2} ms, {} lost",
        round + 1,
        kind.name(),
        figures.connection_bytes,
        figures.connects_per_s,
        figures.connect_cpu_us,
        figures.unicast.cpu_us,
        figures.unicast.p99_ms,
        figures.unicast.lost,
        figures.fan_out.cpu_us,
        figures.fan_out.p99_ms,
        figures.fan_out.lost,
    )
}

/// The machine's load over the last minute.
fn load() -> String {
    let text = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split_ascii_whitespace().next().unwrap_or("unknown").to_owned()
}

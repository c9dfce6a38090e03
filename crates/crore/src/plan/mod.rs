//! `crore plan`: the resources that a load needs, by the measured budget, and the first bottleneck
//! on this machine or another one.
//!
//! `predict` is the computation, `check` compares it with reports of `crore bench run`; all numbers
//! are in [`crate::budget`]. The limits of the machine come from the doctor.
//!
//! Exit codes: 0 if the load fits, or the reports agree; 1 if a limit is below the load, or a
//! figure deviates.

mod check;
mod predict;

use crate::doctor::{self, Assessment, Captured, Machine, Network, bytes, count};
use crate::exit::Ending;
use anyhow::{Context, anyhow};
use bench::units::{parse_duration, parse_size, scaled};
use predict::{Cluster, Demand, Part, Prediction, Transport, total};
use serde_json::{Value, json};
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Flags of `plan`.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Number of clients, each with one subscription (10M, 250k).
    #[arg(long, value_name = "N", value_parser = doctor::connections, required_unless_present = "check")]
    connections: Option<u64>,
    /// Number of nodes of a cluster that serve these clients. The plan is that of one node while
    /// another one is down.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(2..=64), conflicts_with = "check")]
    nodes: Option<u64>,
    /// Publication rate, in publications per second (168k).
    #[arg(long, value_name = "RATE", value_parser = rate, default_value = "0")]
    rate: f64,
    /// Number of receivers of each publication. There is one topic for each group of this size.
    #[arg(long, value_name = "N", value_parser = doctor::connections, default_value = "1")]
    fan_out: u64,
    /// Size of a message in bytes.
    #[arg(long, value_name = "SIZE", value_parser = parse_size, default_value = "512")]
    size: u64,
    /// Length of a topic's name in bytes.
    #[arg(long, value_name = "SIZE", value_parser = parse_size, default_value = "16")]
    topic_size: u64,
    /// Use TLS.
    #[arg(long)]
    tls: bool,
    /// Protocol of the clients.
    #[arg(long, value_enum, default_value_t = Transport::Ws)]
    transport: Transport,
    /// Network of the clients: kernel (its sockets) or user (the node's own TCP).
    #[arg(long, value_enum, default_value_t = Network::Kernel)]
    network: Network,
    /// Number of I/O threads. Without it, one for each core.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=4096))]
    io_threads: Option<u64>,
    /// Connection rate, in connects per second.
    #[arg(long, value_name = "RATE", value_parser = rate, default_value = "5000")]
    connect_rate: f64,
    /// Time between pings to a quiet client (websocket.ping_interval); 0: no pings.
    #[arg(long, value_name = "DURATION", value_parser = parse_duration, default_value = "60s")]
    ping_interval: Duration,
    /// Time for which the log in memory keeps messages (log.age_max).
    #[arg(long, value_name = "DURATION", value_parser = parse_duration, default_value = "180s")]
    age_max: Duration,
    /// Size of the log in memory (log.bytes_max).
    #[arg(long, value_name = "SIZE", value_parser = parse_size, default_value = "256MiB")]
    bytes_max: u64,
    /// Cores of the server. Without it, those of this machine.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=4096))]
    cores: Option<u64>,
    /// Memory of the server (96GB). Without it, the available memory of this machine.
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    memory: Option<u64>,
    /// Bandwidth in each direction, in bits per second (25G). Without it, bandwidth is not a limit.
    #[arg(long, value_name = "BITS", value_parser = rate)]
    bandwidth: Option<f64>,
    /// File of `crore doctor --capture`, to plan for its machine instead of this one.
    #[arg(long, value_name = "FILE")]
    machine: Option<PathBuf>,
    /// Compare the prediction with reports of `crore bench run` (report.json) instead.
    #[arg(long, value_name = "FILE", num_args = 1.., conflicts_with = "connections")]
    check: Vec<PathBuf>,
    /// With --check: maximum deviation of a figure, in percent.
    #[arg(long, value_name = "PERCENT", default_value = "15")]
    within: f64,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

/// A limit of growth.
#[derive(Clone, PartialEq, Debug)]
struct GrowthLimit {
    name: String,
    /// Maximum number of connections of this kind.
    connections: u64,
}

/// Plans, or checks.
///
/// # Errors
/// The load does not fit, a figure deviates, or a file cannot be read.
pub fn run(arguments: &Arguments) -> Result<(), Ending> {
    let mut output = std::io::stdout().lock();
    if arguments.check.is_empty() {
        plan(arguments, &mut output)
    } else {
        check_reports(arguments, &mut output)
    }
}

fn plan(arguments: &Arguments, output: &mut impl Write) -> Result<(), Ending> {
    let machine = Machine::new(match &arguments.machine {
        Some(file) => doctor::captured_in(file)?,
        None => Captured::read(Path::new("/")),
    });
    let cores = arguments.cores.or(machine.cores()).unwrap_or(1);
    let demand = demand(arguments, cores);
    let prediction = Prediction::of(&demand);
    let growth_limits = growth_limits(arguments, &machine, &demand, &prediction, cores);
    let first = growth_limits.iter().min_by_key(|limit| limit.connections);
    if arguments.json {
        writeln!(output, "{}", as_json(&demand, &prediction, &growth_limits))?;
    } else {
        show(&demand, &prediction, &growth_limits, cores, output)?;
    }
    if first.is_some_and(|limit| (limit.connections as f64) < demand.connections) {
        Err(Ending::FailedAndTold)
    } else {
        Ok(())
    }
}

fn demand(arguments: &Arguments, cores: u64) -> Demand {
    let all = arguments.connections.unwrap_or(0) as f64;
    // One node is down.
    let serving = arguments.nodes.map(|nodes| (nodes - 1) as f64);
    Demand {
        connections: serving.map_or(all, |nodes| (all / nodes).ceil()),
        cluster: serving.map(|nodes| Cluster { nodes, connections: all }),
        rate: arguments.rate,
        fan_out: arguments.fan_out as f64,
        message_bytes: arguments.size as f64,
        topic_bytes: arguments.topic_size as f64,
        transport: arguments.transport,
        network: arguments.network,
        has_tls: arguments.tls,
        io_threads: arguments.io_threads.unwrap_or(cores) as f64,
        cores: cores as f64,
        connect_rate: arguments.connect_rate,
        ping_interval_s: arguments.ping_interval.as_secs_f64(),
        log_age_s: arguments.age_max.as_secs_f64(),
        log_bytes_max: arguments.bytes_max as f64,
        ring_bytes: RING_BYTES,
    }
}

/// The default of `limits.ring_bytes`.
const RING_BYTES: f64 = (4 << 20) as f64;

/// The limits of this kind of load, each computed alone, with a rate that grows with the
/// connections.
fn growth_limits(
    arguments: &Arguments,
    machine: &Machine,
    demand: &Demand,
    prediction: &Prediction,
    cores: u64,
) -> Vec<GrowthLimit> {
    let connections = demand.connections;
    let mut growth_limits = Vec::new();
    let mut add = |name: &str, room: f64, needed: f64| {
        if needed > 0.0 {
            let share = (room / needed).max(0.0);
            growth_limits.push(GrowthLimit {
                name: name.to_owned(),
                connections: (connections * share).min(1e12) as u64,
            });
        }
    };
    let memory = arguments.memory.or_else(|| machine.memory("MemAvailable"));
    // Subtract the fixed amount first.
    let base = Prediction::of(&Demand { connections: 0.0, rate: 0.0, ..*demand });
    let base = total(&base.user);
    if let Some(memory) = memory {
        let grows = total(&prediction.user) + total(&prediction.kernel) - base;
        add("memory", memory as f64 - base, grows);
    }
    add("processors", cores as f64, total(&prediction.processor));
    if let Some(bandwidth) = arguments.bandwidth {
        let inward = prediction.in_bits + prediction.engine_in_bits;
        let outward = prediction.out_bits + prediction.engine_out_bits;
        add("bandwidth", bandwidth, inward.max(outward));
    }
    let (target, io_threads) = (connections as u64, demand.io_threads as u64);
    let assessment = Assessment::of(machine, Some(target), Some(io_threads), demand.network);
    for finding in &assessment.findings {
        // Memory was computed above, with that of messages.
        let bound = finding.connections_max.filter(|_| finding.name != "memory");
        if let Some(bound) = bound {
            growth_limits.push(GrowthLimit { name: finding.name.to_owned(), connections: bound });
        }
    }
    growth_limits.sort_by_key(|limit| limit.connections);
    growth_limits
}

fn show(
    demand: &Demand,
    prediction: &Prediction,
    growth_limits: &[GrowthLimit],
    cores: u64,
    output: &mut impl Write,
) -> Result<(), Ending> {
    let deliveries = demand.deliveries();
    if let Some(Cluster { nodes, connections }) = demand.cluster {
        writeln!(
            output,
            "{} connections on {nodes} nodes, because one of {} is down. Each node has:\n",
            count(connections as u64),
            nodes + 1.0
        )?;
    }
    writeln!(
        output,
        "{} connections, {} publications and {} deliveries per second of {} bytes, {} I/O threads\n",
        count(demand.connections as u64),
        count(demand.accepted().round() as u64),
        count(deliveries.round() as u64),
        demand.message_bytes,
        demand.io_threads
    )?;
    let each = |parts: &[Part]| total(parts) / demand.connections.max(1.0);
    for (name, parts) in [("user space", &prediction.user), ("kernel", &prediction.kernel)] {
        let (all, each) = (bytes(total(parts) as u64), each(parts));
        writeln!(output, "{name:<16} {all:>12} {each:>10.0} B per connection")?;
        for part in parts.iter().filter(|part| part.amount >= 1.0) {
            writeln!(output, "  {:<14} {:>12}", part.name, bytes(part.amount as u64))?;
        }
    }
    let used = total(&prediction.processor);
    writeln!(output, "{:<16} {used:>12.2} of {cores} cores", "processors")?;
    for part in prediction.processor.iter().filter(|part| part.amount >= 0.0005) {
        writeln!(output, "  {:<14} {:>12.3}", part.name, part.amount)?;
    }
    show_bandwidth(demand, prediction, output)?;
    let descriptors = count(prediction.descriptors as u64);
    writeln!(output, "{:<16} {descriptors:>12}", "descriptors")?;
    writeln!(output, "{:<16} {:>12.0}", "threads", prediction.threads)?;
    writeln!(
        output,
        "{:<16} {:>12.1} s of one core to connect all clients\n",
        "connecting",
        demand.connections * prediction.connect_us / 1e6
    )?;
    writeln!(output, "Limits in connections of this kind, the lowest first:")?;
    for limit in growth_limits {
        let mark = if (limit.connections as f64) < demand.connections { "limits" } else { "ok" };
        writeln!(output, "{mark:<7} {:<28} {:>16}", limit.name, count(limit.connections))?;
    }
    if let Some(first) = growth_limits.first() {
        let fits = first.connections as f64 >= demand.connections;
        let verdict = if fits {
            "The load fits"
        } else {
            "The load does not fit: `crore doctor --target-connections` shows how to raise limits of the system"
        };
        writeln!(output, "\n{verdict}. The first limit is {}.", first.name)?;
    }
    Ok(())
}

fn show_bandwidth(
    demand: &Demand,
    prediction: &Prediction,
    output: &mut impl Write,
) -> Result<(), Ending> {
    let mut rows = vec![("in", prediction.in_bits), ("out", prediction.out_bits)];
    if demand.cluster.is_some() {
        rows.push(("from the engine", prediction.engine_in_bits));
        rows.push(("to the engine", prediction.engine_out_bits));
    }
    for (index, (direction, bits)) in rows.into_iter().enumerate() {
        let name = if index == 0 { "bandwidth" } else { "" };
        writeln!(output, "{name:<16} {:>12.1} Mbit/s {direction}", bits / 1e6)?;
    }
    Ok(())
}

fn as_json(demand: &Demand, prediction: &Prediction, growth_limits: &[GrowthLimit]) -> Value {
    let parts = |parts: &[Part]| -> Value {
        let parts = parts.iter().map(|part| (part.name.to_owned(), json!(part.amount)));
        Value::Object(parts.collect())
    };
    let growth_limits: Vec<Value> = growth_limits
        .iter()
        .map(|limit| json!({"limit": limit.name, "connections": limit.connections}))
        .collect();
    json!({
        "connections": demand.connections,
        "nodes": demand.cluster.map(|cluster| cluster.nodes + 1.0),
        "publications_per_s": demand.accepted(),
        "messages_per_s": demand.rate,
        "deliveries_per_s": demand.deliveries(),
        "user_bytes": total(&prediction.user),
        "user": parts(&prediction.user),
        "kernel_bytes": total(&prediction.kernel),
        "kernel": parts(&prediction.kernel),
        "processor_cores": total(&prediction.processor),
        "processor": parts(&prediction.processor),
        "in_bits_per_s": prediction.in_bits,
        "out_bits_per_s": prediction.out_bits,
        "engine_in_bits_per_s": prediction.engine_in_bits,
        "engine_out_bits_per_s": prediction.engine_out_bits,
        "descriptors": prediction.descriptors,
        "threads": prediction.threads,
        "connect_cpu_us": prediction.connect_us,
        "limits": growth_limits,
    })
}

fn check_reports(arguments: &Arguments, output: &mut impl Write) -> Result<(), Ending> {
    let defaults = demand(arguments, 1);
    let mut is_off = false;
    let mut all = Vec::new();
    for file in &arguments.check {
        let name = file.display();
        let text = fs::read_to_string(file).with_context(|| format!("cannot read {name}"))?;
        let report: Value =
            serde_json::from_str(&text).with_context(|| format!("{name} is not JSON"))?;
        let checked =
            check::check(&report, &defaults).map_err(|problem| anyhow!("{name}: {problem}"))?;
        let connections = checked.demand.connections;
        if !arguments.json {
            writeln!(
                output,
                "{} with {} connections, {:.0} publications per second, {} cores ({name})",
                checked.workload,
                count(connections as u64),
                checked.demand.rate,
                checked.demand.cores
            )?;
        }
        for row in &checked.rows {
            let percent = row.error() * 100.0;
            let is_row_off = percent.abs() > arguments.within;
            is_off |= is_row_off;
            if arguments.json {
                all.push(json!({
                    "report": name.to_string(),
                    "workload": checked.workload,
                    "connections": connections,
                    "figure": row.name,
                    "predicted": row.predicted,
                    "measured": row.measured,
                    "error_percent": percent,
                    "is_within": !is_row_off,
                }));
            } else {
                let mark = if is_row_off { "off" } else { "ok" };
                writeln!(
                    output,
                    "{mark:<7} {:<34} predicted {:>10.3}  measured {:>10.3}  {percent:>+7.1} %",
                    row.name, row.predicted, row.measured
                )?;
            }
        }
    }
    if arguments.json {
        writeln!(output, "{}", Value::Array(all))?;
    }
    if is_off { Err(Ending::FailedAndTold) } else { Ok(()) }
}

/// A number with an optional `k`, `M` or `G`.
fn rate(text: &str) -> Result<f64, String> {
    let plain = text.replace([',', '_'], "").to_lowercase();
    scaled(&plain, &[('k', 1e3), ('m', 1e6), ('g', 1e9)])
        .filter(|rate| *rate >= 0.0)
        .ok_or_else(|| "expected a number per second, such as 500, 168k or 1.5M".into())
}

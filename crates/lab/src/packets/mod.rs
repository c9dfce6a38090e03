//! The cost of a packet: AF_XDP over veth, TUN, and shared memory, between two ends in this
//! process.
//!
//! Place: for the transport in user space. The table tells the part of the processor that the
//! kernel takes before a TCP of our own does anything. Each case makes namespaces, interfaces and
//! sockets of its own, so that no state is left from the case before, and nothing afterwards.
//!
//! The processor's time is that of the whole machine (`/proc/stat`), because much of the work is in
//! softirqs, so the machine must be quiet. It includes the writing of frames by the probe, but
//! neither checksums nor TCP. The time of the two threads stands beside it. Root only.
//!
//! ```text
//! cargo build --release -p lab
//! target/release/lab packets --list
//! target/release/lab packets --seconds 5 --repeat 3
//! target/release/lab packets --case "rr max, generic" --case TUN
//! ```
mod cases;
mod ends;
mod frame;
mod histogram;
mod machine;
mod network;

use std::thread::{available_parallelism, sleep};
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use net::device::Device;
use net::system::monotonic_ns;

use cases::{Case, Cores, Load, SMALL_BYTES, Way};
use ends::{Figures, Plan, Shared};
use frame::Template;
use histogram::Histogram;
use machine::Machine;
use network::{End, Network, RECEIVER, SENDER};

/// Time for the threads to start.
const START_NS: u64 = 30_000_000;
/// Traffic before the measured window.
const WARM_UP_NS: u64 = 200_000_000;
/// Time in which the machine should be idle before a case.
const QUIET: Duration = Duration::from_millis(200);
/// Busy part of the machine before a case that is worth a note.
const BUSY_PART_MAX: f64 = 0.05;

/// The cost of a packet by AF_XDP, TUN and shared memory.
#[derive(Clone, Debug, clap::Args)]
pub struct Options {
    /// Seconds of a measurement.
    #[arg(long, default_value_t = 5.0)]
    seconds: f64,
    /// Measurements of each case; the table has the one with the median cost.
    #[arg(long, default_value_t = 3)]
    repeat: usize,
    /// Only cases whose name contains this text.
    #[arg(long = "case", value_name = "NAME")]
    cases: Vec<String>,
    /// Pairs or packets per second, for cases at a rate.
    #[arg(long, default_value_t = 200_000.0)]
    rate: f64,
    /// Print the names of the cases.
    #[arg(long)]
    list: bool,
}

/// Measures the cases, and prints a row of a table after each.
///
/// # Errors
/// No case has the name, or one could not be measured: the process is not root, `ip` or `tc` is
/// missing. Its row has the reason.
pub fn run(options: &Options) -> anyhow::Result<()> {
    let is_wanted = |case: &Case| {
        options.cases.is_empty() || options.cases.iter().any(|name| case.name.contains(name))
    };
    let cases: Vec<Case> = cases::all().into_iter().filter(is_wanted).collect();
    if options.list {
        cases.iter().for_each(|case| println!("{}", case.name));
        return Ok(());
    }
    if cases.is_empty() || options.repeat == 0 {
        bail!("no case has this name (`--list` prints them), or no measurement is wanted");
    }
    if !(0.1..=3_600.0).contains(&options.seconds) || !(1.0..=1e8).contains(&options.rate) {
        bail!("--seconds is 0.1 to 3,600, and --rate 1 to 100,000,000");
    }
    let kernel = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let cores = available_parallelism().map_or(0, usize::from);
    println!(
        "Linux {}, {cores} cores, {} s, median of {}\n",
        kernel.trim(),
        options.seconds,
        options.repeat
    );
    println!(
        "| case | pairs or packets/s | us/packet | threads us | softirq | p50 / p99 / max us | lost |"
    );
    println!("|---|---|---|---|---|---|---|");
    let mut failed_count = 0;
    for case in &cases {
        match measure_all(case, options) {
            Ok(rows) => println!("{}", line(case, rows)),
            Err(error) => {
                failed_count += 1;
                println!("| {} | - | - | - | - | - | {error:#} |", case.name);
            }
        }
    }
    ensure!(failed_count == 0, "{failed_count} cases could not be measured");
    Ok(())
}

/// The result of one measurement.
struct Row {
    per_s: f64,
    /// CPU time of the machine, and of the threads, in microseconds for a packet.
    machine_us: f64,
    threads_us: f64,
    softirq_part: f64,
    latencies: Histogram,
    lost: u64,
    losses: String,
}

fn measure_all(case: &Case, options: &Options) -> anyhow::Result<Vec<Row>> {
    (0..options.repeat).map(|_| measure(case, options)).collect()
}

fn measure(case: &Case, options: &Options) -> anyhow::Result<Row> {
    let mut network = Network::make(&case.link)?;
    let before = Machine::read()?;
    sleep(QUIET);
    let background = (Machine::read()? - before).busy_part();
    if background > BUSY_PART_MAX {
        let part = background * 100.0;
        eprintln!("note: {}: the machine was {part:.0} % busy before it", case.name);
    }
    let begin_ns = monotonic_ns() + START_NS;
    let from_ns = begin_ns + WARM_UP_NS;
    let until_ns = from_ns + (options.seconds * 1e9) as u64;
    let count = network.queues.len();
    let plan = |queue| plan(case, options, &network.queues[queue], (queue, count));
    let mut plans: Vec<Plan> = (0..count).map(plan).collect();
    for plan in &mut plans {
        (plan.begin_ns, plan.from_ns, plan.until_ns) = (begin_ns, from_ns, until_ns);
    }
    let (machine, ends) = run_ends(std::mem::take(&mut network.queues), &plans, from_ns, until_ns)?;
    if machine.stolen_us * 100 > machine.all_us {
        eprintln!("note: {}: more than 1 % of the time was stolen", case.name);
    }
    let part = machine.all_us as f64 / all_us(options.seconds);
    if !(0.9..=1.1).contains(&part) {
        eprintln!("note: {}: its processor time is that of {part:.1} windows", case.name);
    }
    if let Some(Ends { unsupported, .. }) = ends.first() {
        for option in unsupported {
            eprintln!("note: {}: no effect here: {option}", case.name);
        }
    }
    Ok(summarise(case, machine, &ends, options.seconds))
}

/// The results of both ends of a queue.
struct Ends {
    sender: Figures,
    receiver: Figures,
    /// The losses that they have seen.
    losses: String,
    /// Options without effect.
    unsupported: Vec<&'static str>,
}

/// Runs both ends of all queues; returns the machine's time in the window and the figures.
fn run_ends(
    queues: Vec<(End, End)>,
    plans: &[Plan],
    from_ns: u64,
    until_ns: u64,
) -> anyhow::Result<(Machine, Vec<Ends>)> {
    let shared: Vec<Shared> = plans.iter().map(|_| Shared::default()).collect();
    std::thread::scope(|scope| {
        let mut threads = Vec::new();
        for (((mut sender, mut receiver), plan), shared) in
            queues.into_iter().zip(plans).zip(&shared)
        {
            let receiver = scope.spawn(move || {
                let figures = ends::receive(&mut receiver, plan, shared);
                figures.map(|figures| (figures, receiver))
            });
            let sender = scope.spawn(move || {
                let figures = ends::send(&mut sender, plan, shared);
                figures.map(|figures| (figures, sender))
            });
            threads.push((sender, receiver));
        }
        sleep_until(from_ns);
        let before = Machine::read()?;
        sleep_until(until_ns);
        let machine = Machine::read()? - before;
        let mut ends = Vec::new();
        for (sender, receiver) in threads {
            let panicked = "a thread panicked";
            let sent = sender.join().ok().context(panicked)?.context("sender")?;
            let received = receiver.join().ok().context(panicked)?.context("receiver")?;
            ends.push(Ends::new(sent, received));
        }
        Ok((machine, ends))
    })
}

impl Ends {
    fn new((sender, near): (Figures, End), (receiver, far): (Figures, End)) -> Ends {
        let losses = [("sender", near.losses()), ("receiver", far.losses())];
        let losses = losses.iter().filter(|(_, text)| !text.is_empty());
        let losses: Vec<String> = losses.map(|(name, text)| format!("{name}: {text}")).collect();
        Ends {
            sender,
            receiver,
            losses: losses.join("; "),
            unsupported: near.unsupported().to_vec(),
        }
    }
}

/// The orders of a queue, without times.
fn plan(case: &Case, options: &Options, ends: &(End, End), (queue, count): (usize, usize)) -> Plan {
    let cores_count = available_parallelism().map_or(1, usize::from);
    let cores = match case.cores {
        Cores::Any => [None, None],
        Cores::OnePerEnd => [Some(0), Some(1 % cores_count)],
        Cores::OnePerQueue => [Some(queue % cores_count); 2],
    };
    let load = match case.load {
        Load::Saturated { in_flight_max } => {
            Load::Saturated { in_flight_max: in_flight_max / count as u32 }
        }
        Load::Rate => Load::Rate,
    };
    let link_header_bytes = ends.0.link_header_bytes();
    Plan {
        way: case.way,
        load,
        rate: options.rate / count as f64,
        waiting: case.waiting,
        cores,
        frames: [
            Template::new(SENDER, RECEIVER, case.bytes, link_header_bytes),
            Template::new(RECEIVER, SENDER, SMALL_BYTES, link_header_bytes),
        ],
        begin_ns: 0,
        from_ns: 0,
        until_ns: 0,
    }
}

fn summarise(case: &Case, machine: Machine, ends: &[Ends], seconds: f64) -> Row {
    let mut latencies = Histogram::new();
    let (mut done, mut thread_ns, mut lost) = (0, 0, 0);
    for Ends { sender, receiver, .. } in ends {
        let (counted, arrived) = match case.way {
            Way::OneWay => (receiver, receiver.done),
            Way::RequestResponse => (sender, sender.done),
        };
        done += counted.done_in_window;
        latencies.add(&counted.latencies);
        thread_ns += sender.thread_ns + receiver.thread_ns;
        lost += sender.sent.saturating_sub(arrived);
    }
    let packets = match case.way {
        Way::OneWay => done,
        Way::RequestResponse => done * 2,
    };
    let packets = packets.max(1) as f64;
    let losses = ends.iter().map(|ends| ends.losses.as_str()).filter(|text| !text.is_empty());
    let losses: Vec<&str> = losses.collect();
    Row {
        per_s: done as f64 / seconds,
        machine_us: machine.busy_part() * all_us(seconds) / packets,
        threads_us: thread_ns as f64 / 1e3 / packets,
        softirq_part: machine.softirq_part(),
        latencies,
        lost,
        losses: losses.join("; "),
    }
}

/// Time of all cores in so many seconds, in microseconds.
fn all_us(seconds: f64) -> f64 {
    available_parallelism().map_or(1, usize::from) as f64 * seconds * 1e6
}

/// A row of the table: the measurement with the median cost, and the range of the costs.
fn line(case: &Case, mut rows: Vec<Row>) -> String {
    rows.sort_by(|a, b| a.machine_us.total_cmp(&b.machine_us));
    let range = match (rows.first(), rows.last()) {
        (Some(first), Some(last)) if rows.len() > 1 => {
            format!(" ({:.2}-{:.2})", first.machine_us, last.machine_us)
        }
        _ => String::new(),
    };
    let row = &rows[(rows.len() - 1) / 2];
    let us = |ns: u64| grouped(ns / 1_000);
    let losses = match row.losses.as_str() {
        "" => String::new(),
        losses => format!(" ({losses})"),
    };
    format!(
        "| {} | {} | {:.2}{range} | {:.2} | {:.0} % | {} / {} / {} | {}{losses} |",
        case.name,
        grouped(row.per_s as u64),
        row.machine_us,
        row.threads_us,
        row.softirq_part * 100.0,
        us(row.latencies.quantile(0.5)),
        us(row.latencies.quantile(0.99)),
        us(row.latencies.max()),
        grouped(row.lost),
    )
}

/// A number with commas between thousands.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

fn sleep_until(time_ns: u64) {
    sleep(Duration::from_nanos(time_ns.saturating_sub(monotonic_ns())));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thousands_have_commas() {
        let texts = [0, 999, 1_000, 1_234_567].map(grouped);
        assert_eq!(texts, ["0", "999", "1,000", "1,234,567"]);
    }

    /// Shared memory needs no rights. On a busy machine a thread may not run for longer than the
    /// whole window, or than the last frames have time.
    #[test]
    fn frames_in_shared_memory_arrive_and_are_measured() {
        let options =
            Options { seconds: 0.1, repeat: 1, cases: Vec::new(), rate: 10_000.0, list: false };
        let deadline = monotonic_ns() + 60_000_000_000;
        for case in cases::all() {
            while case.name.contains("shared memory") {
                let row = measure(&case, &options).expect("no rights are needed");
                if row.per_s > 0.0 && row.lost == 0 {
                    assert!(line(&case, vec![row]).starts_with("| "));
                    break;
                }
                assert!(monotonic_ns() < deadline, "{}", case.name);
            }
        }
    }
}

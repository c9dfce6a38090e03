//! The workloads: the same work for both contenders, and its cost per unit.
//!
//! Place: called by `main` in turns. Invariants: a measurement begins and ends with nothing on its
//! way; during a fan-out a message is published when all have the one before, so that each delivery
//! is one send.

use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use bench::choice::Choice;
use bench::engine::{Handle, Order, Publishers, PublishersConfig, Subscribers, SubscribersConfig};
use bench::pattern::Pattern;
use bench::payload::{Clock, Header, seed_from_entropy, topic_hash};
use client::{Client, PublishOptions};
use stdx::prng::Prng;

use super::contender::Contender;
use super::{Options, Workload};

/// The topic of a fan-out.
const HOT: &str = "hot";
/// Maximum time of unmeasured steps.
const PATIENCE: Duration = Duration::from_secs(600);
/// Time between two looks at a count.
const LOOK: Duration = Duration::from_millis(5);

/// The figures of one measurement of one server.
#[derive(Clone, Copy, Debug, Default)]
pub struct Figures {
    /// Processor time of the server for a delivery, a connection, or a second of pings; in
    /// microseconds.
    pub cpu_us: f64,
    /// Fan-out: from the publication to the last receiver, the median message. Unicast: p99 from
    /// the intended time. Connect: the median. In milliseconds.
    pub last_ms: f64,
    /// Nothing was lost, and the work was done in its time.
    pub is_clean: bool,
}

/// Prepares each server once.
pub fn prepare(contender: &mut Contender, options: &Options) -> anyhow::Result<()> {
    if options.workload == Workload::Connect {
        return Ok(());
    }
    let (mut subscribers, _) = connect(contender, options, 8_000.0)?;
    let _: bench::engine::Snapshot = subscribers.snapshot();
    contender.subscribers = Some(subscribers);
    if options.workload == Workload::FanOut {
        let client = Client::connect(client::Options::new(contender.url.clone()));
        contender.publisher = Some(client.map_err(|error| anyhow::anyhow!("{error:?}"))?);
    }
    Ok(())
}

/// One measurement.
pub fn measure(contender: &mut Contender, options: &Options) -> anyhow::Result<Figures> {
    contender.spin(options.clients_spin());
    let figures = match options.workload {
        Workload::FanOut => fan_out(contender, options),
        Workload::Unicast => unicast(contender, options),
        Workload::Connect => connects(contender, options),
        Workload::Pings => pings(contender, options),
    };
    contender.spin(false);
    figures
}

fn fan_out(contender: &mut Contender, options: &Options) -> anyhow::Result<Figures> {
    let mut lasts_ms = Vec::new();
    let mut random = Prng::new(contender.published + 1);
    let mut is_clean = true;
    let mut spent_ns = 0;
    for _ in 0..options.messages {
        let before_ns = contender.process.processor_ns()?;
        contender.published += 1;
        let mut payload = Vec::new();
        Header {
            clock: Clock::Monotonic,
            publisher: 1,
            topic_hash: topic_hash(HOT),
            intended_ns: Clock::Monotonic.now_ns(),
            sequence: contender.published,
        }
        .write(options.size, &mut random, &mut payload);
        let (client, _) = contender.publisher.as_ref().context("a publisher")?;
        // Its acknowledgement arrives among the deliveries and is ignored.
        let _pending = client
            .publish(HOT, payload, PublishOptions::default())
            .map_err(|error| anyhow::anyhow!("{error:?}"))?;
        let subscribers = contender.subscribers.as_mut().context("subscribers")?;
        let mut interval = subscribers.snapshot().interval;
        let deadline = Instant::now() + Duration::from_secs(20);
        while interval.received < options.clients && Instant::now() < deadline {
            std::thread::sleep(LOOK);
            interval.merge(&subscribers.snapshot().interval);
        }
        is_clean &= interval.received == options.clients && interval.faults.is_clean();
        lasts_ms.push(interval.latency.digest().max_us / 1e3);
        spent_ns += contender.process.processor_ns()? - before_ns;
    }
    Ok(Figures {
        cpu_us: spent_ns as f64 / 1e3 / (options.messages * options.clients) as f64,
        last_ms: crate::median(lasts_ms),
        is_clean,
    })
}

fn unicast(contender: &mut Contender, options: &Options) -> anyhow::Result<Figures> {
    let count = (options.rate * options.seconds as f64) as u64;
    let mut config =
        PublishersConfig::new(contender.common(0.0, 1)?, topics(options)?, options.rate);
    config.common.busy_poll = Default::default();
    // The subscribers' addresses and ports are taken.
    config.common.local_addresses.clear();
    config.load.order = Order::Random;
    config.load.size = options.size;
    config.load.count = count;
    config.load.publisher = seed_from_entropy() as u32;
    let subscribers = contender.subscribers.as_mut().context("subscribers")?;
    let _: bench::engine::Snapshot = subscribers.snapshot();
    let before_ns = contender.process.processor_ns()?;
    let mut publishers = Publishers::start(config)?;
    let subscribers = contender.subscribers.as_mut().context("subscribers")?;
    let mut interval = subscribers.snapshot().interval;
    let deadline = Instant::now() + Duration::from_secs(2 * options.seconds + 20);
    while interval.received < count && Instant::now() < deadline {
        std::thread::sleep(20 * LOOK);
        interval.merge(&subscribers.snapshot().interval);
    }
    let spent_ns = contender.process.processor_ns()? - before_ns;
    let sent = publishers.snapshot().total.sent;
    let published = publishers.stop();
    let is_clean = sent == count
        && interval.received == count
        && interval.faults.is_clean()
        && published.total.refused == 0;
    Ok(Figures {
        cpu_us: spent_ns as f64 / 1e3 / count as f64,
        last_ms: interval.latency.digest().p99_us / 1e3,
        is_clean,
    })
}

fn connects(contender: &mut Contender, options: &Options) -> anyhow::Result<Figures> {
    let before_ns = contender.process.processor_ns()?;
    let (subscribers, median_ms) = connect(contender, options, options.rate)?;
    let spent_ns = contender.process.processor_ns()? - before_ns;
    let summary = subscribers.stop();
    // The server's work after the clients' ends is not part of the next measurement.
    contender.process.wait_until_it_rests(|time| {
        std::thread::sleep(time);
        Ok(())
    })?;
    Ok(Figures {
        cpu_us: spent_ns as f64 / 1e3 / options.clients as f64,
        last_ms: median_ms,
        is_clean: summary.total.connects_failed == 0 && summary.total.disconnects == 0,
    })
}

fn pings(contender: &mut Contender, options: &Options) -> anyhow::Result<Figures> {
    let before_ns = contender.process.processor_ns()?;
    // Whole rounds, however the server spreads them.
    let interval_s = u64::from(options.ping_interval_s.max(1));
    let seconds = options.seconds.next_multiple_of(interval_s);
    std::thread::sleep(Duration::from_secs(seconds));
    let spent_ns = contender.process.processor_ns()? - before_ns;
    let subscribers = contender.subscribers.as_mut().context("subscribers")?;
    let interval = subscribers.snapshot().interval;
    Ok(Figures {
        cpu_us: spent_ns as f64 / 1e3 / seconds as f64,
        last_ms: 0.0,
        is_clean: interval.disconnects == 0,
    })
}

/// Connects all clients, and waits until they are subscribed: they, and the median of their times
/// in milliseconds.
fn connect(contender: &Contender, options: &Options, rate: f64) -> anyhow::Result<(Handle, f64)> {
    let common = contender.common(rate, options.client_threads_count())?;
    let mut config = SubscribersConfig::new(common, topics(options)?, options.clients);
    if options.workload == Workload::FanOut {
        config.topics.choice = Choice::Common;
    }
    let mut subscribers = Subscribers::start(config)?;
    if subscribers.plan.clients < options.clients {
        bail!("{}", subscribers.plan.notes.join("; "));
    }
    let deadline = Instant::now() + PATIENCE;
    while (subscribers.total().clients_live as u64) < options.clients {
        if Instant::now() > deadline {
            bail!("only {} clients are live", subscribers.total().clients_live);
        }
        std::thread::sleep(LOOK);
    }
    let median_ms = subscribers.total().connect_time.digest().p50_us / 1e3;
    Ok((subscribers, median_ms))
}

fn topics(options: &Options) -> anyhow::Result<Pattern> {
    let pattern = match options.workload {
        Workload::FanOut => HOT.to_owned(),
        _ => format!("t/{{1..{}}}", options.clients),
    };
    pattern.parse().map_err(|error| anyhow::anyhow!("{error}"))
}

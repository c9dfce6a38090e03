//! The life of each server in a measurement, and its figures.
//!
//! Place: called by `main` for each server and round; always the same, in the same order, on a
//! fresh process: connections with a topic each up to a third, memory, up to all, memory again;
//! then two thirds of them are left for unicast; then they go, and as many come for one topic.

use std::time::Duration;

use serde::Serialize;

use super::Options;
use super::kind::{Kind, Place};
use super::load::{Load, Schedule, Topics};
use crate::process::Process;

/// Time without a message after which the missing ones count as lost.
const PATIENCE: Duration = Duration::from_secs(5);

/// One life's figures.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Figures {
    /// PSS before the first connection.
    pub start_bytes: f64,
    /// PSS for each further connection, from a third of them to all.
    pub connection_bytes: f64,
    /// Connections per second, one third to all, each with its subscription and the answer.
    pub connects_per_s: f64,
    /// Processor time of the server for each of them.
    pub connect_cpu_us: f64,
    /// A topic for each subscriber.
    pub unicast: Delivery,
    /// One topic for all.
    pub fan_out: Delivery,
}

/// Figures of messages that were delivered at a steady rate.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Delivery {
    /// Deliveries that there should have been.
    pub expected: f64,
    /// The deliveries that did not arrive.
    pub lost: f64,
    /// Unexpected messages.
    pub strays: f64,
    /// Processor time of the server for each that came.
    pub cpu_us: f64,
    /// From the intended time, over all of them.
    pub p50_ms: f64,
    /// The same.
    pub p99_ms: f64,
    /// The same.
    pub max_ms: f64,
}

/// One life of one server.
pub fn measure(kind: Kind, options: &Options) -> anyhow::Result<Figures> {
    let server = Process::start(&options.server_cores, |scratch, address| {
        kind.command(&Place {
            foreign: &options.foreign,
            scratch,
            address,
            cores: options.server_cores.0.len(),
            connections: options.clients + 100,
        })
    })?;
    let mut load = Load::new(server.address, kind.dialect(), options.clients)?;
    let (third, most) = (options.clients / 3, options.clients * 2 / 3);
    rest(&server, &mut load)?;
    let start = server.pss_bytes()?;
    load.grow(third)?;
    rest(&server, &mut load)?;
    let (before, before_ns) = (server.pss_bytes()?, server.processor_ns()?);
    let spent_s = load.grow(options.clients)?;
    let connect_ns = server.processor_ns()? - before_ns;
    rest(&server, &mut load)?;
    let after = server.pss_bytes()?;
    let further = (options.clients - third) as f64;
    load.shrink(most);
    rest(&server, &mut load)?;
    let unicast = deliver(&server, &mut load, options, options.unicast_rate, (most, 1))?;
    load.shrink(0);
    rest(&server, &mut load)?;
    load.set_topics(Topics::Common);
    load.grow(most)?;
    rest(&server, &mut load)?;
    let fan_out = deliver(&server, &mut load, options, options.fan_out_rate, (1, most))?;
    Ok(Figures {
        start_bytes: start as f64,
        connection_bytes: (after as f64 - before as f64) / further,
        connects_per_s: further / spent_s,
        connect_cpu_us: connect_ns as f64 / 1e3 / further,
        unicast,
        fan_out,
    })
}

/// Publishes at a steady rate, each message on one of `topics` topics at random, with `copies`
/// subscribers each.
fn deliver(
    server: &Process,
    load: &mut Load,
    options: &Options,
    rate: f64,
    (topics, copies): (u64, u64),
) -> anyhow::Result<Delivery> {
    let count = ((rate * options.seconds).round() as u64).max(1);
    let expected = count * copies;
    let before_ns = server.processor_ns()?;
    let tally =
        load.deliver(Schedule { rate, count, topics, size: options.size }, expected, PATIENCE)?;
    let spent_ns = server.processor_ns()? - before_ns;
    let digest = tally.latency.digest();
    Ok(Delivery {
        expected: expected as f64,
        lost: (expected - tally.received) as f64,
        strays: tally.foreign as f64,
        cpu_us: spent_ns as f64 / 1e3 / tally.received.max(1) as f64,
        p50_ms: digest.p50_us / 1e3,
        p99_ms: digest.p99_us / 1e3,
        max_ms: digest.max_us / 1e3,
    })
}

fn rest(server: &Process, load: &mut Load) -> anyhow::Result<()> {
    server.wait_until_it_rests(|time| load.stay(time))
}

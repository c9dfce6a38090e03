//! Memory of connections in the server, the kernel and the load generator, from two readings and
//! the samples between them.
//!
//! Place: behind the phase `settle`. Pure.

use super::outcome::{MemoryFigures, Sample};
use super::session::Reading;

/// The memory of connections, from before the first one to when all had settled. A connection has
/// so many sockets of the kernel on this machine.
pub fn memory(
    begin: &Reading,
    settled: &Reading,
    samples: &[Sample],
    connections: u64,
    sockets_each: u64,
) -> MemoryFigures {
    let each = |now: Option<u64>, then: Option<u64>, count: u64| {
        let (now, then) = (now? as f64, then? as f64);
        (count > 0).then(|| (now - then) / count as f64)
    };
    let pss = |reading: &Reading| reading.server.and_then(|server| server.pss_bytes);
    let own = |reading: &Reading| reading.server.and_then(|server| server.anonymous_bytes);
    // Threads and their tables are there after the first connections: what comes then is the slope.
    let fifth = samples
        .iter()
        .find(|sample| sample.connections.max(0) as u64 * 5 >= connections)
        .filter(|sample| sample.connections as u64 * 2 <= connections);
    let kernel = |reading: &Reading| {
        Some(reading.machine.slab_bytes? + reading.machine.tcp_bytes.unwrap_or(0))
    };
    MemoryFigures {
        connections,
        start_pss: pss(begin),
        settled_pss: pss(settled),
        end_pss: None,
        user_bytes: each(own(settled), own(begin), connections),
        user_slope_bytes: fifth.and_then(|sample| {
            let further = connections.saturating_sub(sample.connections as u64);
            each(own(settled), sample.server_anonymous, further)
        }),
        kernel_bytes: each(kernel(settled), kernel(begin), connections * sockets_each.max(1)),
        client_bytes: each(settled.clients.anonymous_bytes, Some(0), connections),
        idle_cpu: None,
        threads: settled.server.map(|server| server.threads),
    }
}

/// Number of sockets that other programs have opened (or closed, if negative) between two readings,
/// if it is large enough to distort the kernel's memory figure.
pub fn others_sockets(
    begin: &Reading,
    settled: &Reading,
    connections: u64,
    sockets_each: u64,
) -> Option<i64> {
    let (then, now) = (begin.machine.tcp_sockets?, settled.machine.tcp_sockets?);
    let others = now as i64 - then as i64 - (connections * sockets_each) as i64;
    let few = 16 + connections * sockets_each / 50;
    (others.unsigned_abs() > few).then_some(others)
}

#[cfg(test)]
mod tests {
    use super::super::observe::{MachineFigures, ProcessFigures};
    use super::*;

    fn reading(own: u64, file: u64, slab: u64, tcp: u64) -> Reading {
        let process = |own| ProcessFigures {
            pss_bytes: Some(own + file),
            anonymous_bytes: Some(own),
            ..ProcessFigures::default()
        };
        let machine = MachineFigures {
            slab_bytes: Some(slab),
            tcp_bytes: Some(tcp),
            ..MachineFigures::default()
        };
        Reading::of(process(own), process(own / 2), machine)
    }

    #[test]
    fn others_are_noticed() {
        let with = |sockets| {
            let mut reading = reading(0, 0, 0, 0);
            reading.machine.tcp_sockets = sockets;
            reading
        };
        let others = |now| others_sockets(&with(Some(10)), &with(now), 1_000, 2);
        assert_eq!(others(Some(2_010)), None);
        assert_eq!(others(Some(2_060)), None, "a few do not matter");
        assert_eq!(others(Some(3_010)), Some(1_000));
        assert_eq!(others(Some(1_010)), Some(-1_000));
        assert_eq!(others(None), None);
    }

    #[test]
    fn costs_are_by_connection() {
        let sample = |connections, own| Sample {
            connections,
            server_anonymous: Some(own),
            ..Sample::default()
        };
        let samples = [sample(50, 1), sample(250, 80_000), sample(1_000, 9)];
        let (begin, settled) =
            (reading(10_000, 5_000, 1_000, 100), reading(230_000, 1_000, 8_001_000, 2_100));
        let found = memory(&begin, &settled, &samples, 1_000, 2);
        assert_eq!((found.start_pss, found.settled_pss), (Some(15_000), Some(231_000)));
        assert_eq!(found.user_bytes, Some(220.0), "without the pages of files");
        assert_eq!(found.user_slope_bytes, Some(200.0), "from a fifth of them on");
        assert_eq!(found.kernel_bytes, Some(4_001.0), "for each of both ends");
        assert_eq!(found.client_bytes, Some(115.0));
        let far = memory(&begin, &settled, &samples[2..], 1_000, 1);
        assert_eq!((far.kernel_bytes, far.user_slope_bytes), (Some(8_002.0), None));
        let own = memory(&begin, &settled, &samples, 1_000, 0);
        assert_eq!(own.kernel_bytes, Some(8_002.0), "for each connection, if it has no socket");
        assert_eq!(memory(&begin, &settled, &[], 0, 2).user_bytes, None);
    }
}

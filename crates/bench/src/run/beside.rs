//! Ours beside what others have published.
//!
//! Place: from an outcome to the first table of the report. Pure. A figure that was not published
//! or not measured stays blank, and a figure stands only beside one of the same kind.

use super::outcome::{Outcome, Row};
use super::workload::Published;
use crate::statistics::Digest;

/// A figure: its name, its unit, ours and the published one.
type Figure = (&'static str, &'static str, Option<f64>, Option<f64>);

/// All rows that have a figure.
pub fn rows(outcome: &Outcome) -> Vec<Row> {
    let theirs = |pick: fn(&Published) -> Option<f64>| outcome.published.as_ref().and_then(pick);
    let measured = outcome.measured.as_ref();
    let memory = outcome.memory.as_ref();
    let first = [
        (
            "clients",
            "",
            outcome.plan.size.as_ref().map(|size| size.clients as f64),
            theirs(|published| Some(published.clients as f64)),
        ),
        (
            "messages delivered",
            "/s",
            measured.map(|measured| measured.delivered_rate),
            theirs(|published| Some(published.rate)),
        ),
    ];
    let last = [
        (
            CPU,
            "%",
            measured.and_then(|measured| measured.server_cpu_percent),
            theirs(|published| published.cpu_percent_max),
        ),
        (
            "user space per connection",
            "bytes",
            memory.and_then(|memory| memory.user_bytes),
            theirs(|published| published.user_bytes),
        ),
        (
            "kernel per connection",
            "bytes",
            memory.and_then(|memory| memory.kernel_bytes),
            theirs(|published| published.kernel_bytes),
        ),
    ];
    let rows = first.into_iter().chain(latencies(outcome)).chain(last);
    rows.filter(|(_, _, ours, theirs)| ours.is_some() || theirs.is_some())
        .map(|(what, unit, ours, published)| Row {
            what,
            unit,
            ours,
            published,
            is_bound: what == CPU,
            factor: ours.zip(published).map(|(ours, published)| ours / published),
        })
        .collect()
}

fn latencies(outcome: &Outcome) -> [Figure; 10] {
    let published = outcome.published.as_ref();
    let theirs = |pick: fn(&Published) -> Option<f64>| published.and_then(pick);
    // Percentiles of a sample stand beside those of a sample.
    let is_sampled = published.is_some_and(|published| published.are_sampled);
    let of_all = |pick: fn(&Published) -> Option<f64>| theirs(pick).filter(|_| !is_sampled);
    let of_sample = |pick: fn(&Published) -> Option<f64>| theirs(pick).filter(|_| is_sampled);
    let measured = outcome.measured.as_ref();
    let latency = measured.map(|measured| measured.latency).filter(|digest| digest.count > 0);
    let all = |pick: fn(&Digest) -> f64| latency.as_ref().map(|digest| pick(digest) / 1e3);
    let sample = measured.and_then(|measured| measured.sample.as_ref()).filter(|_| is_sampled);
    [
        (
            "latency, mean",
            "ms",
            all(|digest| digest.mean_us),
            theirs(|published| published.mean_ms),
        ),
        ("latency, stdev", "ms", all(|digest| digest.stdev_us), None),
        ("latency, p50", "ms", all(|digest| digest.p50_us), of_all(|published| published.p50_ms)),
        ("latency, p95", "ms", all(|digest| digest.p95_us), of_all(|published| published.p95_ms)),
        ("latency, p99", "ms", all(|digest| digest.p99_us), of_all(|published| published.p99_ms)),
        ("latency, p99.9", "ms", all(|digest| digest.p999_us), None),
        ("latency, max", "ms", all(|digest| digest.max_us), theirs(|published| published.max_ms)),
        (
            "p50 of sampled clients",
            "ms",
            sample.map(|sample| sample.p50_us / 1e3),
            of_sample(|published| published.p50_ms),
        ),
        (
            "p95 of sampled clients",
            "ms",
            sample.map(|sample| sample.p95_us / 1e3),
            of_sample(|published| published.p95_ms),
        ),
        (
            "p99 of sampled clients",
            "ms",
            sample.map(|sample| sample.p99_us / 1e3),
            of_sample(|published| published.p99_ms),
        ),
    ]
}

/// Published as an upper bound.
const CPU: &str = "CPU of the server's cores";

#[cfg(test)]
mod tests {
    use super::super::message::SampleFigures;
    use super::super::outcome::MeasuredFigures;
    use super::super::workload::Name;
    use super::*;

    fn outcome(name: Name) -> Outcome {
        Outcome {
            published: name.workload().published,
            measured: Some(MeasuredFigures {
                latency: Digest {
                    count: 1,
                    mean_us: 122_000.0,
                    p99_us: 88_000.0,
                    ..Digest::default()
                },
                sample: Some(SampleFigures { p99_us: 1_170_000.0, ..SampleFigures::default() }),
                ..MeasuredFigures::default()
            }),
            ..Outcome::default()
        }
    }

    fn row(outcome: &Outcome, what: &str) -> Option<(Option<f64>, Option<f64>, Option<f64>)> {
        let rows = rows(outcome);
        let row = rows.iter().find(|row| row.what == what)?;
        Some((row.ours, row.published, row.factor))
    }

    #[test]
    fn figures_stand_beside_those_of_their_kind() {
        let sampled = outcome(Name::C10m);
        let mean = (Some(122.0), Some(61.0), Some(2.0));
        assert_eq!(row(&sampled, "latency, mean"), Some(mean));
        assert_eq!(row(&sampled, "latency, p99"), Some((Some(88.0), None, None)));
        let p99 = (Some(1_170.0), Some(585.0), Some(2.0));
        assert_eq!(row(&sampled, "p99 of sampled clients"), Some(p99));
        let all = outcome(Name::OneMillion);
        assert_eq!(row(&all, "latency, p99"), Some((Some(88.0), Some(44.0), Some(2.0))));
        assert_eq!(row(&all, "p99 of sampled clients"), None);
        assert_eq!(row(&all, CPU), None, "neither measured nor published");
    }
}

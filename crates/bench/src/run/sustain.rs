//! The highest rate that is sustained: at which the publisher keeps its schedule and latency stays
//! bounded.
//!
//! Place: before the measured span of `unicast --find`. Steps double until one fails, then the last
//! good and the first bad rate close in on each other.

use std::time::Duration;

use super::message::Measured;
use super::outcome::Step;
use super::steps::{Run, Span};
use crate::units::show_micros;

/// Maximum number of doublings, and of halvings of the interval between them.
const DOUBLINGS_MAX: usize = 12;
const HALVINGS: usize = 3;
/// Before a step is measured.
const WARM_UP_MAX: Duration = Duration::from_secs(1);
/// The publisher keeps its schedule if it has sent this share of the due messages.
const SENT_SHARE_MIN: f64 = 0.99;

/// Finds it, in messages per second.
///
/// # Errors
/// Not even the first step holds, or the run was interrupted.
pub fn find(run: &mut Run<'_>) -> anyhow::Result<f64> {
    let (mut good, mut bad) = (None, None);
    let mut rate = run.plan.size.rate;
    for _ in 0..DOUBLINGS_MAX {
        if step(run, rate)? {
            good = Some(rate);
            if bad.is_some() {
                break;
            }
            rate *= 2.0;
        } else {
            bad = Some(rate);
            if good.is_some() {
                break;
            }
            rate /= 2.0;
        }
    }
    let Some(mut good) = good else {
        anyhow::bail!("no rate was sustained, down to {rate:.0} messages per second");
    };
    if let Some(mut bad) = bad {
        for _ in 0..HALVINGS {
            let between = (good + bad) / 2.0;
            if step(run, between)? {
                good = between;
            } else {
                bad = between;
            }
        }
    }
    if bad.is_none() {
        run.note("No rate failed: a higher one may be sustainable.");
    }
    run.outcome.sustainable_rate = Some(good);
    Ok(good)
}

fn step(run: &mut Run<'_>, rate: f64) -> anyhow::Result<bool> {
    run.session.enter("step");
    run.start_publishers(rate)?;
    let span = Span::after(run.plan.command.warm_up.min(WARM_UP_MAX), run.plan.command.step);
    run.session.order_subscribers(&span.order())?;
    run.session.order_publishers(&span.order())?;
    run.session.wait_until(span.until_ns)?;
    let sent = run.end_publishers()?;
    run.drain()?;
    let received = run.report_subscribers()?;
    let why = why_not(rate, span.seconds(), run.plan.command.p99_max, &sent, &received);
    let is_good = why.is_none();
    let verdict = why.as_deref().unwrap_or("sustained");
    println!(
        "{rate:>10.0} messages/s: p50 {}, p99 {}, max {}: {verdict}",
        show_micros(received.latency.p50_us),
        show_micros(received.latency.p99_us),
        show_micros(received.latency.max_us)
    );
    run.outcome.steps.push(Step {
        rate,
        sent_rate: sent.sent as f64 / span.seconds(),
        latency: received.latency,
        send_delay: sent.send_delay,
        is_good,
        why,
    });
    Ok(is_good)
}

/// The reason why a rate was not sustained.
fn why_not(
    rate: f64,
    seconds: f64,
    p99_max: Duration,
    sent: &Measured,
    received: &Measured,
) -> Option<String> {
    let p99_max_us = p99_max.as_micros() as f64;
    // Of a few messages the last one may lie just outside.
    if (sent.sent + 1) as f64 <= rate * seconds * SENT_SHARE_MIN {
        return Some(format!("only {} messages were sent", sent.sent));
    }
    if sent.send_delay.p99_us > p99_max_us {
        return Some(format!(
            "the publisher was behind schedule: p99 {}",
            show_micros(sent.send_delay.p99_us)
        ));
    }
    if received.latency.p99_us > p99_max_us {
        return Some(format!("p99 {}", show_micros(received.latency.p99_us)));
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::statistics::Digest;

    #[test]
    fn rates_are_sustained_or_not() {
        let measured = |count, p99_us| Measured {
            sent: count,
            latency: Digest { p99_us, ..Digest::default() },
            send_delay: Digest { p99_us, ..Digest::default() },
            ..Measured::default()
        };
        let check = |sent: Measured, received: Measured, wanted: Option<&str>| {
            let why = why_not(1_000.0, 2.0, Duration::from_millis(20), &sent, &received);
            assert_eq!(why.as_deref(), wanted);
        };
        check(measured(2_000, 100.0), measured(0, 19_000.0), None);
        check(measured(1_900, 100.0), measured(0, 100.0), Some("only 1900 messages were sent"));
        check(
            measured(2_000, 30_000.0),
            measured(0, 100.0),
            Some("the publisher was behind schedule: p99 30.0 ms"),
        );
        check(measured(2_000, 100.0), measured(0, 30_000.0), Some("p99 30.0 ms"));
    }
}

//! All clients lose their connection at once, miss messages, and return at once.
//!
//! Place: the phases of `storm`. Two ways: the clients go and the server stays, or the server is
//! killed and started again with its log on disk. Publishers go on meanwhile, so that everybody
//! misses something.

use std::time::{Duration, Instant};

use anyhow::bail;

use super::message::{MEASURE_AHEAD_NS, Order};
use super::outcome::StormFigures;
use super::session::Session;
use super::steps::{Run, Span};
use crate::payload::Clock;

/// Time without a returning client after which a storm fails.
const RETURN_PATIENCE: Duration = Duration::from_secs(60);
/// Time that the load continues after the return of all clients.
const AFTER: Duration = Duration::from_secs(3);

/// A steady load, the storm, and the end.
///
/// # Errors
/// The run cannot go on, or was interrupted.
pub fn run(run: &mut Run<'_>) -> anyhow::Result<()> {
    run.session.enter("warm-up");
    run.start_publishers(run.plan.size.rate)?;
    let span = Span::after(run.plan.command.warm_up, run.plan.duration);
    run.session.order_subscribers(&span.order())?;
    // Publishers go on behind the measured span, through the storm.
    run.session.order_publishers(&Order::Measure { from_ns: span.from_ns, until_ns: u64::MAX })?;
    let (usage, hiccups) = run.watch(span)?;
    run.outcome.hiccups = Some(hiccups);
    let before = run.session.received();
    let storm = if run.plan.kills_server { server_goes(run)? } else { clients_go(run)? };
    let after = run.session.received();
    run.outcome.storm = Some(StormFigures {
        back: after.return_time,
        recovered: after.counts.recovered - before.counts.recovered,
        connects_failed: after.counts.connects_failed - before.counts.connects_failed,
        ..storm
    });
    run.session.enter("after");
    run.session.wait(AFTER)?;
    // Nothing more is sent from now on.
    let end = Span::after(Duration::ZERO, Duration::from_millis(1));
    run.session.order_publishers(&end.order())?;
    run.session.enter("drain");
    let sent = run.end_publishers()?;
    run.drain()?;
    // The last messages of the span may have arrived after it.
    let received = run.report_subscribers()?;
    // Publishers go on behind the span, so their own count is of more than it.
    let mut steady = sent;
    steady.sent = received.latency.count / run.plan.size.group;
    run.record(span, &usage, &steady, &received);
    let back = run.session.received();
    if let Some(storm) = &mut run.outcome.storm {
        // Replays may have gone on after the first moment at which all were live.
        storm.recovered = back.counts.recovered - before.counts.recovered;
        storm.back = back.return_time;
    }
    Ok(())
}

fn clients_go(run: &mut Run<'_>) -> anyhow::Result<StormFigures> {
    run.session.enter("away");
    let at_ns = Clock::Monotonic.now_ns() + MEASURE_AHEAD_NS;
    let return_ns = at_ns + run.plan.command.away.as_nanos() as u64;
    run.session.order_subscribers(&Order::Leave { at_ns, return_ns })?;
    run.session.wait_until(return_ns)?;
    run.session.enter("return");
    let before = run.session.read();
    wait_until_back(run)?;
    let usage = run.session.read().since(&before);
    Ok(figures(run, usage.server.map(|cores| cores * usage.seconds)))
}

fn server_goes(run: &mut Run<'_>) -> anyhow::Result<StormFigures> {
    run.session.enter("away");
    let killed_ns = Clock::Monotonic.now_ns() + MEASURE_AHEAD_NS;
    run.session.order_subscribers(&Order::Outage { at_ns: killed_ns })?;
    run.session.wait_until(killed_ns)?;
    run.session.expects_end = true;
    run.session.server.kill()?;
    run.session.wait(run.plan.command.away)?;
    run.session.enter("return");
    let begun = Instant::now();
    run.session.server.restart()?;
    let restart_s = begun.elapsed().as_secs_f64();
    let ready_ns = Clock::Monotonic.now_ns();
    run.session.expects_end = false;
    wait_until_back(run)?;
    let last_ns = killed_ns + (run.session.received().return_time.max_us * 1e3) as u64;
    // The new process has done nothing else.
    let cpu_s = run.session.read().server.map(|server| server.cpu_s);
    Ok(StormFigures {
        has_killed_server: true,
        restart_s: Some(restart_s),
        last_since_ready_s: Some(last_ns.saturating_sub(ready_ns) as f64 / 1e9),
        ..figures(run, cpu_s)
    })
}

fn figures(run: &Run<'_>, server_cpu_s: Option<f64>) -> StormFigures {
    StormFigures {
        away_s: run.plan.command.away.as_secs_f64(),
        server_cpu_s,
        server_cpu_us: server_cpu_s.map(|cpu_s| cpu_s * 1e6 / run.plan.size.clients as f64),
        ..StormFigures::default()
    }
}

fn wait_until_back(run: &mut Run<'_>) -> anyhow::Result<()> {
    let wanted = run.plan.size.clients;
    let back = |session: &Session<'_>| session.received().return_time.count;
    let are_back = run.session.wait_for(
        RETURN_PATIENCE,
        |session| back(session) >= wanted,
        |session| back(session) as i64 + session.received().counts.connections,
    )?;
    if !are_back {
        bail!(
            "only {} of {wanted} clients have reconnected; no further one reconnected for {} s",
            back(&run.session),
            RETURN_PATIENCE.as_secs()
        );
    }
    Ok(())
}

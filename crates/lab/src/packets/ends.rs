//! The two ends of a queue, each a loop of turns on a thread of its own.
//!
//! A turn takes the frames that have arrived, sends those that are due, and flushes. Latency runs
//! from the *intended* send time, so that a sender which is late cannot hide it. The measured
//! window begins after a warm-up. Frames that are still on their way at its end have some time to
//! arrive; after that they are lost.

use std::collections::VecDeque;
use std::io;
use std::num::NonZeroU64;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use net::device::Device;
use net::system::monotonic_ns;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::thread::{
    ClockId, CpuSet, clock_nanosleep_absolute, sched_setaffinity, set_current_timer_slack,
};

use super::cases::{Load, Waiting, Way};
use super::frame::{Mark, Template};
use super::histogram::Histogram;
use super::network::End;

/// Frames that a turn takes at most.
const FRAMES_MAX: usize = 512;
/// Time between two turns by the clock.
const TURN_NS: u64 = 500_000;
/// A sleep in `poll` at most, so that an end sees that it is over.
const SLEEP_NS_MAX: u64 = 10_000_000;
/// Without progress for this time, frames on their way count as lost and make room for others.
const PATIENCE_NS: u64 = 20_000_000;
/// Time for the last frames to arrive.
const DRAIN_NS: u64 = 1_000_000_000;

/// The orders of the two ends of one queue.
pub struct Plan {
    pub way: Way,
    pub load: Load,
    /// Frames or pairs per second of this queue, for [`Load::Rate`].
    pub rate: f64,
    pub waiting: Waiting,
    /// The cores of sender and receiver.
    pub cores: [Option<usize>; 2],
    /// Frames of sender and receiver.
    pub frames: [Template; 2],
    /// The first frame, and the measured window, by the monotonic clock.
    pub begin_ns: u64,
    pub from_ns: u64,
    pub until_ns: u64,
}

/// Knowledge that the ends of a queue share beside their frames.
#[derive(Default)]
pub struct Shared {
    arrived: AtomicU64,
    is_over: AtomicBool,
}

/// The figures of one end.
pub struct Figures {
    /// Frames sent in all, the warm-up included; 0 for a receiver.
    pub sent: u64,
    /// Frames (one way) or answers that arrived in all.
    pub done: u64,
    /// Those of the window.
    pub done_in_window: u64,
    /// CPU time of the thread in the window, in nanoseconds.
    pub thread_ns: u64,
    /// From the intended send time to the arrival, in nanoseconds; empty at one of the two ends.
    pub latencies: Histogram,
}

/// Sends until the end of the window, and waits for the last answers.
///
/// # Errors
/// The device is unusable.
pub fn send(end: &mut End, plan: &Plan, shared: &Shared) -> io::Result<Figures> {
    let result = prepare(plan.cores[0]).and_then(|()| {
        let mut sender = Sender { plan, shared, sent: 0, done: 0, given_up: 0, progress_ns: 0 };
        sender.run(end)
    });
    shared.is_over.store(true, Ordering::Release);
    result
}

/// Receives, and answers if the plan says so, until the sender is done.
///
/// # Errors
/// The device is unusable.
pub fn receive(end: &mut End, plan: &Plan, shared: &Shared) -> io::Result<Figures> {
    prepare(plan.cores[1])?;
    let mut meter = Meter::new(plan);
    let mut answers: VecDeque<Mark> = VecDeque::new();
    let mut arrived = 0;
    let link_header_bytes = end.link_header_bytes();
    while !shared.is_over.load(Ordering::Acquire) {
        meter.look(monotonic_ns(), arrived);
        let mut time = None;
        let count = end.receive(FRAMES_MAX, &mut |frame| {
            let Some(mark) = Mark::read(frame, link_header_bytes) else { return };
            arrived += 1;
            match plan.way {
                Way::OneWay => meter.record(*time.get_or_insert_with(monotonic_ns), mark),
                Way::RequestResponse => answers.push_back(mark),
            }
        })?;
        if plan.way == Way::OneWay && count > 0 {
            shared.arrived.store(arrived, Ordering::Release);
        }
        while let Some(mark) = answers.front()
            && let Some(place) = end.next_frame()
        {
            let length = plan.frames[1].write(place, *mark).ok_or(io::ErrorKind::InvalidInput)?;
            end.queue(length);
            answers.pop_front();
        }
        end.flush()?;
        let is_idle = count == 0 && answers.is_empty();
        wait(end, plan, is_idle, TURN_NS / 2, u64::MAX)?;
    }
    // The sender may be over before a turn has seen the end of the window.
    meter.look(monotonic_ns(), arrived);
    let done_in_window = meter.done();
    let figures = meter.finish(0, arrived, done_in_window);
    Ok(figures)
}

struct Sender<'a> {
    plan: &'a Plan,
    shared: &'a Shared,
    sent: u64,
    done: u64,
    /// Frames that were on their way for too long; none of them counts as on its way.
    given_up: u64,
    progress_ns: u64,
}

impl Sender<'_> {
    fn run(&mut self, end: &mut End) -> io::Result<Figures> {
        let mut meter = Meter::new(self.plan);
        let link_header_bytes = end.link_header_bytes();
        sleep_until(self.plan.begin_ns)?;
        loop {
            let now_ns = monotonic_ns();
            meter.look(now_ns, self.done);
            let before = self.done;
            let mut time = None;
            end.receive(FRAMES_MAX, &mut |frame| {
                let Some(mark) = Mark::read(frame, link_header_bytes) else { return };
                self.done += 1;
                meter.record(*time.get_or_insert_with(monotonic_ns), mark);
            })?;
            if self.plan.way == Way::OneWay {
                self.done = self.shared.arrived.load(Ordering::Acquire);
            }
            let has_progress = self.done != before;
            if has_progress || self.sent == self.done {
                self.progress_ns = now_ns;
            } else if now_ns.saturating_sub(self.progress_ns) > PATIENCE_NS {
                self.given_up = self.sent - self.done;
                self.progress_ns = now_ns;
            }
            let is_sending = now_ns < self.plan.until_ns;
            let count = if is_sending { self.send_due(end, now_ns)? } else { 0 };
            end.flush()?;
            let is_late = now_ns > self.plan.until_ns + DRAIN_NS;
            if !is_sending && (self.done >= self.sent || is_late) {
                break;
            }
            wait(end, self.plan, count == 0 && !has_progress, 0, self.next_due_ns())?;
        }
        let done_in_window = meter.done();
        Ok(meter.finish(self.sent, self.done, done_in_window))
    }

    /// Queues the frames that are due and have room; returns their number.
    fn send_due(&mut self, end: &mut End, now_ns: u64) -> io::Result<u64> {
        let due = match self.plan.load {
            Load::Saturated { in_flight_max } => {
                let in_flight = (self.sent - self.done).saturating_sub(self.given_up);
                self.sent + u64::from(in_flight_max).saturating_sub(in_flight)
            }
            Load::Rate => {
                let time_ns = now_ns.saturating_sub(self.plan.begin_ns);
                (time_ns as f64 * self.plan.rate / 1e9) as u64
            }
        };
        let mut count = 0;
        while self.sent < due
            && let Some(place) = end.next_frame()
        {
            let intended_ns = match self.plan.load {
                Load::Saturated { .. } => now_ns,
                Load::Rate => self.intended_ns(self.sent),
            };
            let mark = Mark { number: self.sent as u32, intended_ns: intended_ns as u32 };
            let length =
                self.plan.frames[0].write(place, mark).ok_or(io::ErrorKind::InvalidInput)?;
            end.queue(length);
            self.sent += 1;
            count += 1;
        }
        Ok(count)
    }

    fn intended_ns(&self, number: u64) -> u64 {
        self.plan.begin_ns + (number as f64 * 1e9 / self.plan.rate) as u64
    }

    /// The time of the next frame, if the clock decides about it.
    fn next_due_ns(&self) -> u64 {
        match self.plan.load {
            Load::Saturated { .. } => u64::MAX,
            Load::Rate => self.intended_ns(self.sent + 1),
        }
    }
}

/// Counts at the edges of the window, and the latencies within.
struct Meter {
    from_ns: u64,
    until_ns: u64,
    /// Frames and the thread's time at the edges.
    first: Option<(u64, u64)>,
    last: Option<(u64, u64)>,
    latencies: Histogram,
}

impl Meter {
    fn new(plan: &Plan) -> Meter {
        let (from_ns, until_ns) = (plan.from_ns, plan.until_ns);
        Meter { from_ns, until_ns, first: None, last: None, latencies: Histogram::new() }
    }

    fn look(&mut self, now_ns: u64, done: u64) {
        if self.first.is_none() && now_ns >= self.from_ns {
            self.first = Some((done, thread_ns()));
        }
        if self.last.is_none() && now_ns >= self.until_ns {
            self.last = Some((done, thread_ns()));
        }
    }

    fn record(&mut self, now_ns: u64, mark: Mark) {
        if self.first.is_some() && self.last.is_none() {
            self.latencies.record(mark.age_ns(now_ns));
        }
    }

    fn edges(&self) -> ((u64, u64), (u64, u64)) {
        (self.first.unwrap_or_default(), self.last.unwrap_or_default())
    }

    fn done(&self) -> u64 {
        let (first, last) = self.edges();
        last.0.saturating_sub(first.0)
    }

    fn finish(self, sent: u64, done: u64, done_in_window: u64) -> Figures {
        let (first, last) = self.edges();
        let thread_ns = last.1.saturating_sub(first.1);
        Figures { sent, done, done_in_window, thread_ns, latencies: self.latencies }
    }
}

/// Pins the calling thread, and makes its sleeps exact.
fn prepare(core: Option<usize>) -> io::Result<()> {
    if let Some(core) = core {
        let mut cores = CpuSet::new();
        cores.set(core);
        sched_setaffinity(None, &cores)?;
    }
    Ok(set_current_timer_slack(NonZeroU64::new(1))?)
}

/// Waits for the next turn. An end that is not idle waits only for turns by the clock.
fn wait(
    end: &mut End,
    plan: &Plan,
    is_idle: bool,
    phase_ns: u64,
    next_due_ns: u64,
) -> io::Result<()> {
    match plan.waiting {
        Waiting::Spin => {
            if is_idle {
                std::hint::spin_loop();
            }
            Ok(())
        }
        Waiting::Poll => {
            if !is_idle || end.unsent() > 0 {
                return Ok(());
            }
            let now_ns = monotonic_ns();
            let time_ns = next_due_ns.saturating_sub(now_ns).min(SLEEP_NS_MAX);
            let Some(descriptor) = end.descriptor() else {
                return Err(io::Error::new(io::ErrorKind::Unsupported, "nothing to poll"));
            };
            let mut wanted = [PollFd::from_borrowed_fd(descriptor, PollFlags::IN)];
            poll(&mut wanted, Some(&timespec(time_ns)))?;
            Ok(())
        }
        Waiting::Turns => {
            let zero_ns = plan.begin_ns - TURN_NS + phase_ns;
            let turns = monotonic_ns().saturating_sub(zero_ns) / TURN_NS + 1;
            sleep_until(zero_ns + turns * TURN_NS)
        }
    }
}

fn sleep_until(time_ns: u64) -> io::Result<()> {
    Ok(clock_nanosleep_absolute(ClockId::Monotonic, &timespec(time_ns))?)
}

fn timespec(ns: u64) -> Timespec {
    Timespec { tv_sec: (ns / 1_000_000_000) as i64, tv_nsec: (ns % 1_000_000_000) as i64 }
}

fn thread_ns() -> u64 {
    crate::thread_time().as_nanos() as u64
}

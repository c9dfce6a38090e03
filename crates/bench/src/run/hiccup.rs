//! The hiccup meter: how late a thread is woken that has nothing to do but to be woken.
//!
//! Place: beside a measurement, one thread on each core that it uses. What it records is the least
//! that any program on these cores would have been late; a run's highest latencies are read beside
//! it. It counts like the publishers do: in an open loop, so that a stall of 20 ms is twenty late
//! wake-ups and not one.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use rustix::thread::{ClockId, clock_nanosleep_absolute};
use rustix::time::Timespec;

use super::cores::Cores;
use crate::payload::Clock;
use crate::statistics::{Digest, Recorder};

/// Between two wake-ups.
const STEP_NS: u64 = 1_000_000;

/// Running threads. Dropping it ends them.
#[derive(Debug)]
pub struct Hiccups {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
    recorder: Arc<Mutex<Recorder>>,
}

impl Hiccups {
    /// Starts one thread on each core; one anywhere where no cores are given.
    ///
    /// # Errors
    /// The system refuses a thread.
    pub fn start(cores: &Cores, from_ns: u64) -> std::io::Result<Hiccups> {
        let mut hiccups =
            Hiccups { stop: Arc::default(), threads: Vec::new(), recorder: Arc::default() };
        let mut places: Vec<Cores> = cores.0.iter().map(|core| Cores(vec![*core])).collect();
        if places.is_empty() {
            places.push(Cores::default());
        }
        for place in places {
            let (stop, recorder) = (hiccups.stop.clone(), hiccups.recorder.clone());
            let thread = std::thread::Builder::new()
                .name("bench-hiccups".to_owned())
                .spawn(move || watch(&place, from_ns, &stop, &recorder))?;
            hiccups.threads.push(thread);
        }
        Ok(hiccups)
    }

    /// Ends the measurement, and returns the delays on all cores together.
    pub fn end(mut self) -> (Digest, Vec<(f64, f64)>) {
        self.stop.store(true, Ordering::Release);
        for thread in self.threads.drain(..) {
            // A thread that failed has found nothing.
            let _ = thread.join();
        }
        let recorder = self.recorder.lock().unwrap_or_else(PoisonError::into_inner);
        (recorder.digest(), recorder.distribution())
    }
}

impl Drop for Hiccups {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
    }
}

fn watch(place: &Cores, from_ns: u64, stop: &AtomicBool, recorder: &Mutex<Recorder>) {
    if !place.0.is_empty() && place.keep().is_err() {
        return; // the core is not ours to watch
    }
    let mut own = Recorder::new();
    let mut next_ns = from_ns.max(Clock::Monotonic.now_ns());
    while !stop.load(Ordering::Acquire) {
        let until = Timespec {
            tv_sec: (next_ns / 1_000_000_000) as i64,
            tv_nsec: (next_ns % 1_000_000_000) as i64,
        };
        if clock_nanosleep_absolute(ClockId::Monotonic, &until).is_err() {
            continue; // a signal
        }
        let now_ns = Clock::Monotonic.now_ns();
        while next_ns <= now_ns {
            own.record_ns(now_ns - next_ns);
            next_ns += STEP_NS;
        }
    }
    let mut all = recorder.lock().unwrap_or_else(PoisonError::into_inner);
    all.merge(&own);
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, Instant};

    #[test]
    fn every_core_is_watched() {
        let cores = Cores::available();
        let mut span = Duration::from_millis(30);
        let distribution = loop {
            let begun = Instant::now();
            let hiccups = Hiccups::start(&cores, 0).unwrap();
            std::thread::sleep(span);
            let (digest, distribution) = hiccups.end();
            let wakes_max = (begun.elapsed().as_millis() as u64 + 2) * cores.0.len() as u64;
            assert!(digest.count <= wakes_max, "{digest:?}");
            if digest.count > 0 {
                break distribution;
            }
            // A busy machine has not run the threads yet.
            assert!(span < Duration::from_secs(60), "no thread has woken");
            span *= 2;
        };
        assert_eq!(distribution.last().map(|(share, _)| *share), Some(1.0));
    }
}

//! Keeps the process below its memory ceiling: checks the memory in use ten times a second, and
//! more often near the ceiling, sets the memory pressure for the I/O threads, and logs its changes.
//!
//! The module has its own thread, so that it also runs while I/O threads are busy, and it never
//! waits for them. Invariants: a level ends only at a lower usage than it began, and after at least
//! a second, so that it does not flicker; [`Pressure`] lists the effect of each level.

mod source;

use crate::doctor::bytes;
use crate::logging::{Level, Log};
use broker::edge::Pressure;
use net::system::heap;
use node::pressure::SharedPressure;
use source::Source;
use std::io;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

/// Time between two checks.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// Time between two checks from three quarters of the ceiling on.
const LOOK_NEAR_EVERY: Duration = Duration::from_millis(10);
/// Time between two checks if memory grows so fast that it would reach the ceiling earlier: on
/// loopback, half a gigabyte arrives in a second, and in a small cgroup the kernel kills the
/// process a few megabytes above the ceiling.
const LOOK_FAST_EVERY: Duration = Duration::from_millis(3);
/// Fractions of the ceiling, in hundredths, at which each pressure begins.
const ENTERED_AT: [(Pressure, u64); 3] =
    [(Pressure::Publications, 100), (Pressure::Newcomers, 95), (Pressure::Recoveries, 90)];
/// Difference between the begin and the end of a pressure.
const LEFT_BELOW: u64 = 3;
/// Minimum duration of a pressure.
const LASTS: Duration = Duration::from_secs(1);
/// Time between two requests to the allocator to return unused memory.
const TRIM_EVERY: Duration = Duration::from_secs(2);

/// Begins to watch. The thread ends when `pressure` has no other owner.
///
/// # Errors
/// The system refuses a thread.
pub fn watch(ceiling: Option<u64>, pressure: &Arc<SharedPressure>, log: Log) -> io::Result<()> {
    let Some(source) = Source::open(ceiling) else {
        log.write(
            Level::Warn,
            "The memory of this process cannot be observed: the system does not report it.",
            &[],
        );
        return Ok(());
    };
    pressure.set_ceiling(source.ceiling_bytes());
    let shared = Arc::downgrade(pressure);
    std::thread::Builder::new()
        .name("memory".into())
        .spawn(move || look_on(&source, &shared, &log))?;
    Ok(())
}

fn look_on(source: &Source, shared: &Weak<SharedPressure>, log: &Log) {
    let mut course = Course::default();
    let mut trimmed_at: Option<Instant> = None;
    let mut last: Option<(u64, Instant)> = None;
    while let Some(shared) = shared.upgrade() {
        let now = Instant::now();
        let mut pause = LOOK_EVERY;
        if let Some(used) = source.used_bytes() {
            let ceiling = source.ceiling_bytes();
            let since = last.map(|(before, at)| (used.saturating_sub(before), now - at));
            pause = pause_before(used, ceiling, since);
            last = Some((used, now));
            let before = course.pressure;
            course.look(used, ceiling, now);
            shared.set(course.pressure, used);
            if course.pressure != before {
                tell(log, before, course.pressure, used, source);
            }
        }
        let is_due = trimmed_at.is_none_or(|at| now - at >= TRIM_EVERY);
        if course.pressure != Pressure::None && is_due {
            // Memory freed by sessions does not help the system while the allocator keeps it.
            heap::trim();
            trimmed_at = Some(now);
        }
        drop(shared);
        std::thread::sleep(pause);
    }
}

/// Time until the next look: a quarter of the way to the ceiling, at the growth rate since the last
/// look.
fn pause_before(used: u64, ceiling: u64, grown: Option<(u64, Duration)>) -> Duration {
    let longest = if used >= ceiling / 4 * 3 { LOOK_NEAR_EVERY } else { LOOK_EVERY };
    let Some((grown, span)) = grown.filter(|(grown, _)| *grown > 0) else {
        return longest;
    };
    let left = u128::from(ceiling.saturating_sub(used));
    let until_ns = left * span.as_nanos() / u128::from(grown);
    let quarter = Duration::from_nanos(u64::try_from(until_ns / 4).unwrap_or(u64::MAX));
    quarter.clamp(LOOK_FAST_EVERY, longest)
}

/// The level of memory pressure, and since when it applies.
#[derive(Clone, Copy, Default, Debug)]
struct Course {
    pressure: Pressure,
    since: Option<Instant>,
}

impl Course {
    fn look(&mut self, used: u64, ceiling: u64, now: Instant) {
        let part = |hundredths: u64| (u128::from(ceiling) * u128::from(hundredths) / 100) as u64;
        let entered = ENTERED_AT.iter().find(|(_, at)| used >= part(*at));
        let entered = entered.map_or(Pressure::None, |(pressure, _)| *pressure);
        // As far as it must stay up.
        let kept = ENTERED_AT.iter().find(|(_, at)| used >= part(at - LEFT_BELOW));
        let kept = kept.map_or(Pressure::None, |(pressure, _)| *pressure);
        let lasts = self.since.is_some_and(|since| now - since < LASTS);
        let next = match entered >= self.pressure {
            true => entered,
            false if lasts => self.pressure,
            false => kept.min(self.pressure).max(entered),
        };
        if next != self.pressure {
            self.pressure = next;
            self.since = Some(now);
        }
    }
}

fn tell(log: &Log, before: Pressure, after: Pressure, used: u64, source: &Source) {
    let (level, sentence) = match (after > before, after) {
        (true, Pressure::Publications) => (
            Level::Warn,
            "Memory is full: publications are refused, and so are new connections and subscriptions.",
        ),
        (true, Pressure::Newcomers) => {
            (Level::Warn, "Memory is nearly full: new connections and subscriptions are refused.")
        }
        (true, _) => (Level::Warn, "Memory is short: recoveries wait, and history is refused."),
        (false, Pressure::Newcomers) => {
            (Level::Info, "Publications are accepted again; memory is still nearly full.")
        }
        (false, Pressure::Recoveries) => {
            (Level::Info, "Connections are accepted again; memory is still short.")
        }
        (false, _) => (Level::Info, "There is enough memory again."),
    };
    let fields = [
        ("used", bytes(used)),
        ("ceiling", bytes(source.ceiling_bytes())),
        ("of", source.name().to_owned()),
    ];
    let fields = fields.each_ref().map(|(name, text)| (*name, text.as_str()));
    log.write(level, sentence, &fields);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_looks_before_the_ceiling_is_reached() {
        let ms = Duration::from_millis;
        let pause = |used, grown: u64| pause_before(used, 1_000, Some((grown, ms(100))));
        assert_eq!(pause_before(0, 1_000, None), ms(100));
        assert_eq!(pause_before(750, 1_000, None), ms(10));
        assert_eq!(pause(0, 0), ms(100));
        // 5 in a millisecond, and 500 are left: 100 ms to the ceiling.
        assert_eq!(pause(500, 500), ms(25));
        assert_eq!(pause(100, 100), ms(100));
        assert_eq!(pause(900, 1), ms(10));
        assert_eq!(pause(900, 900), ms(3));
        assert_eq!(pause(2_000, 900), ms(3));
        assert_eq!(pause_before(1_000, 1_000, Some((5, Duration::ZERO))), ms(3));
    }

    #[test]
    fn it_rises_at_once_and_falls_with_hesitation() {
        let mut course = Course::default();
        let began = Instant::now();
        let mut look = |used: u64, at_ms: u64| {
            course.look(used, 1_000, began + Duration::from_millis(at_ms));
            course.pressure as u8
        };
        let steps = [
            (0, 0, 0),
            (899, 100, 0),
            (900, 200, 1),
            (950, 300, 2),
            (1_000, 400, 3),
            (2_000, 500, 3),
            // Not within a second,
            (0, 600, 3),
            // nor close below where it began,
            (980, 1_600, 3),
            (969, 1_700, 2),
            (960, 1_800, 2),
            (919, 2_800, 1),
            (880, 3_900, 1),
            (900, 4_000, 1),
            // and from there all at once.
            (1_000, 4_100, 3),
            (100, 5_100, 0),
        ];
        for (used, at_ms, expected) in steps {
            assert_eq!(look(used, at_ms), expected, "{used} at {at_ms}");
        }
    }
}

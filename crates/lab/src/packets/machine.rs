//! The processor time of the whole machine, from `/proc/stat`.

use std::ops::Sub;

use anyhow::Context;

/// Microseconds of a tick of `/proc/stat`: `USER_HZ` is 100 on every architecture that matters.
const TICK_US: u64 = 10_000;

/// Time of all cores since the start of the machine, in microseconds.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Machine {
    /// Everything but idle time, waiting for disks, and stolen time.
    pub busy_us: u64,
    /// The part in softirqs, where the kernel moves packets.
    pub softirq_us: u64,
    /// Time in which the machine below ran something else.
    pub stolen_us: u64,
    /// All time.
    pub all_us: u64,
}

impl Machine {
    /// The time until now.
    ///
    /// # Errors
    /// `/proc` is not mounted.
    pub fn read() -> anyhow::Result<Machine> {
        let text = std::fs::read_to_string("/proc/stat").context("/proc/stat")?;
        Machine::parse(&text).context("/proc/stat: no line of all cores")
    }

    fn parse(text: &str) -> Option<Machine> {
        let line = text.lines().find_map(|line| line.strip_prefix("cpu "))?;
        let ticks: Vec<u64> =
            line.split_whitespace().map(str::parse).collect::<Result<_, _>>().ok()?;
        let [user, nice, system, idle, waiting, irq, softirq, stolen, ..] = ticks[..] else {
            return None;
        };
        let busy = user + nice + system + irq + softirq;
        Some(Machine {
            busy_us: busy * TICK_US,
            softirq_us: softirq * TICK_US,
            stolen_us: stolen * TICK_US,
            all_us: (busy + idle + waiting + stolen) * TICK_US,
        })
    }

    /// The busy part of all time, from 0 to 1.
    pub fn busy_part(self) -> f64 {
        self.busy_us as f64 / self.all_us.max(1) as f64
    }

    /// The part of softirqs in the busy time, from 0 to 1.
    pub fn softirq_part(self) -> f64 {
        self.softirq_us as f64 / self.busy_us.max(1) as f64
    }
}

impl Sub for Machine {
    type Output = Machine;

    fn sub(self, before: Machine) -> Machine {
        Machine {
            busy_us: self.busy_us.saturating_sub(before.busy_us),
            softirq_us: self.softirq_us.saturating_sub(before.softirq_us),
            stolen_us: self.stolen_us.saturating_sub(before.stolen_us),
            all_us: self.all_us.saturating_sub(before.all_us),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn idle_and_stolen_time_are_not_busy() {
        let text = "cpu  10 1 5 70 4 0 8 2 0 0\ncpu0 10 1 5 70 4 0 8 2 0 0\nintr 7\n";
        let machine = Machine::parse(text).expect("a line");
        assert_eq!(machine.busy_us, 240_000);
        assert_eq!([machine.softirq_us, machine.stolen_us], [80_000, 20_000]);
        assert_eq!((machine.busy_part(), machine.softirq_part()), (0.24, 1.0 / 3.0));
        assert_eq!(Machine::parse("cpu 1 2\n"), None);
    }
}

//! Figures of the machine during a run: bytes on the wire, CPU time, memory, descriptor limit.
//!
//! Place: read by the report once per interval. Parsers are pure; the readers answer `None` where
//! the kernel does not offer the file (another system, a closed container), and the report then
//! leaves the figure out.

use rustix::time::{ClockId, clock_gettime};

/// Bytes and packets that passed the interfaces of this network namespace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Wire {
    /// Bytes received on all interfaces but loopback, where they are those that were sent.
    pub received_bytes: u64,
    /// Bytes sent on all interfaces.
    pub sent_bytes: u64,
}

impl Wire {
    /// The figures now.
    pub fn read() -> Option<Wire> {
        Some(Wire::parse(&std::fs::read_to_string("/proc/net/dev").ok()?))
    }

    /// Reads the text of `/proc/net/dev`: two lines of headings, then `name: 8 receive and 8 send
    /// columns`.
    pub fn parse(text: &str) -> Wire {
        let mut wire = Wire::default();
        for line in text.lines().skip(2) {
            let Some((name, columns)) = line.split_once(':') else {
                continue;
            };
            let mut columns = columns.split_ascii_whitespace().map(|column| column.parse::<u64>());
            if let (Some(Ok(received)), Some(Ok(sent))) = (columns.next(), columns.nth(7)) {
                // Both columns of loopback are the same bytes.
                let received = if name.trim() == "lo" { 0 } else { received };
                wire.received_bytes = wire.received_bytes.wrapping_add(received);
                wire.sent_bytes = wire.sent_bytes.wrapping_add(sent);
            }
        }
        wire
    }
}

/// Processor seconds that this process used, all its threads together.
pub fn processor_seconds() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// Resident memory of this process, in bytes.
pub fn resident_bytes() -> Option<u64> {
    kibibytes(&std::fs::read_to_string("/proc/self/status").ok()?, "VmRSS:")
}

/// Available memory of the machine, in bytes.
pub fn available_bytes() -> Option<u64> {
    kibibytes(&std::fs::read_to_string("/proc/meminfo").ok()?, "MemAvailable:")
}

/// The field of a line `name: 12 kB`, in bytes.
pub fn kibibytes(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kibibytes.checked_mul(1_024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interfaces() {
        let text = "\
Inter-|   Receive                                                |  Transmit
 face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo colls carrier compressed
    lo: 1000       1    0    0    0     0          0         0     2000       1    0    0    0     0       0          0
  eth0:  30       1    0    0    0     0          0         0       4       1    0    0    0     0       0          0
  torn: 5
";
        assert_eq!(Wire::parse(text), Wire { received_bytes: 30, sent_bytes: 2004 });
        assert_eq!(Wire::parse(""), Wire::default());
    }

    #[test]
    fn this_process() {
        assert!(processor_seconds() > 0.0);
        assert!(resident_bytes().is_none_or(|bytes| bytes > 0));
        assert!(available_bytes().is_none_or(|bytes| bytes > 0));
    }
}

//! Figures about this process and its system: memory, time, cores.

pub mod identity;
pub mod memory;

use std::fs;

/// Cores that this process may use.
pub fn cores_count() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// The user-space memory of a process: its proportional set size, in bytes. `None` where the system
/// does not tell.
pub fn proportional_bytes(process: u32) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{process}/smaps_rollup")).ok()?;
    kibibytes_of(&text, "Pss:")
}

/// The resident memory of a process, in bytes.
pub fn resident_bytes(process: u32) -> Option<u64> {
    kibibytes_of(&fs::read_to_string(format!("/proc/{process}/status")).ok()?, "VmRSS:")
}

/// CPU time that a process has used in user and system mode, in seconds.
pub fn cpu_seconds(process: u32) -> Option<f64> {
    let text = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    // The command's name, in parentheses, may hold anything; fields are counted behind it.
    let fields: Vec<&str> = text.rsplit_once(')')?.1.split_whitespace().collect();
    let ticks: u64 = fields.get(11)?.parse::<u64>().ok()? + fields.get(12)?.parse::<u64>().ok()?;
    Some(ticks as f64 / rustix::param::clock_ticks_per_second() as f64)
}

fn kibibytes_of(text: &str, field: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(field))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kibibytes << 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_and_time_of_this_process() {
        let own = std::process::id();
        assert!(proportional_bytes(own).is_none_or(|bytes| bytes > 100_000));
        assert!(resident_bytes(own).unwrap() > 100_000);
        assert!(cpu_seconds(own).unwrap() >= 0.0);
        assert_eq!(resident_bytes(u32::MAX), None);
        assert_eq!(kibibytes_of("Rss: 4 kB\nPss:   12 kB\n", "Pss:"), Some(12_288));
        assert_eq!(kibibytes_of("Pss: x kB\n", "Pss:"), None);
    }
}

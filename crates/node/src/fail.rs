//! Places at which tests can kill the new process, to check the old one.
//!
//! Only in builds with debug assertions: a release has no such switch, and
//! `tests/tests/command_line.rs` checks that.

/// Environment variables with switches for tests; none in a release.
#[cfg(debug_assertions)]
pub const SWITCHES: &[&str] = &["CRORE_UPGRADE_FAIL_AT"];
/// Environment variables with switches for tests; none in a release.
#[cfg(not(debug_assertions))]
pub const SWITCHES: &[&str] = &[];

/// Kills the process here, as by SIGKILL, if the switch selects this place. 13 and 17 are after the
/// commit, all others before it; 14 to 17 are places of logs on disk.
pub fn fail_at(place: u32) {
    let wanted = |name: &&str| std::env::var(name).is_ok_and(|text| text.parse() == Ok(place));
    if SWITCHES.iter().any(wanted) {
        net::system::die();
    }
}

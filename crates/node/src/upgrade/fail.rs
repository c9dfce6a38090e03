//! Places at which the new process can be told to die, so that tests see what becomes of the old one.
//!
//! Only in builds with debug assertions: a release has no such switch, and `tests/tests/command_line.rs` looks for its name.

/// The environment's variables that switch something on for tests; none in a release.
#[cfg(debug_assertions)]
pub const SWITCHES: &[&str] = &["CRORE_UPGRADE_FAIL_AT"];
/// The environment's variables that switch something on for tests; none in a release.
#[cfg(not(debug_assertions))]
pub const SWITCHES: &[&str] = &[];

/// Dies here, as by SIGKILL, if that was wanted. 13 and 17 come after the commit, all others before it; 14 to 17 are
/// places of logs on disk.
pub fn fail_at(place: u32) {
    let wanted = |name: &&str| std::env::var(name).is_ok_and(|text| text.parse() == Ok(place));
    if SWITCHES.iter().any(wanted) {
        net::kernel::die();
    }
}

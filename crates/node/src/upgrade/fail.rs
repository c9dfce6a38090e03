//! Places at which the new process can be told to die, so that tests see what becomes of the old one.

/// The name of the environment's variable with the number of the place; for tests.
pub const FAIL_AT: &str = "CRORE_UPGRADE_FAIL_AT";

/// Dies here, as by SIGKILL, if that was wanted. 13 and 17 come after the commit, all others before it; 14 to 17 are
/// places of logs on disk.
pub fn fail_at(place: u32) {
    let wanted = std::env::var(FAIL_AT)
        .ok()
        .and_then(|text| text.parse().ok());
    if wanted == Some(place) {
        net::kernel::die();
    }
}

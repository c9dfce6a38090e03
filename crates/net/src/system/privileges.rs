//! The one capability that a node may start with, and that no thread keeps: to bind a port below
//! 1,024.
//!
//! Listeners are bound on the threads that own them. A process of root becomes another user before
//! there are threads, and keeps this capability until they listen; a service manager can grant it,
//! too (`AmbientCapabilities`).

use std::io;

use rustix::thread::{
    CapabilitySet, CapabilitySets, capabilities, clear_ambient_capability_set, set_capabilities,
};

/// Drops the calling thread's right to bind low ports, unless the user is root, who could regain
/// it.
///
/// # Errors
/// The system refused; the thread still has the right.
pub fn give_up_low_ports() -> io::Result<()> {
    if rustix::process::geteuid().is_root() {
        return Ok(());
    }
    let held = capabilities(None)?;
    let right = CapabilitySet::NET_BIND_SERVICE;
    if !(held.permitted | held.effective | held.inheritable).intersects(right) {
        return Ok(());
    }
    set_capabilities(
        None,
        CapabilitySets {
            effective: held.effective - right,
            permitted: held.permitted - right,
            inheritable: held.inheritable - right,
        },
    )?;
    // An ambient capability must be permitted and inheritable; the kernel enforces that by itself.
    if held.inheritable.intersects(right) {
        clear_ambient_capability_set()?;
    }
    Ok(())
}

//! The capabilities that a node may start with, and that no thread keeps: to bind a port below
//! 1,024, and to open AF_XDP sockets and TUN interfaces.
//!
//! Listeners are bound on the threads that own them. A process of root becomes another user before
//! there are threads, and keeps these capabilities until they listen; a service manager can grant
//! them, too (`AmbientCapabilities`).

use std::io;

use rustix::thread::{
    CapabilitySet, CapabilitySets, capabilities, clear_ambient_capability_set, set_capabilities,
};

/// The right to bind low ports.
pub const LOW_PORTS: CapabilitySet = CapabilitySet::NET_BIND_SERVICE;

/// The rights for the devices of a TCP of our own: interfaces, programs, raw frames, pinned memory.
pub const DEVICES: CapabilitySet = CapabilitySet::NET_ADMIN
    .union(CapabilitySet::BPF)
    .union(CapabilitySet::NET_RAW)
    .union(CapabilitySet::IPC_LOCK);

/// Drops the calling thread's rights of the start, unless the user is root, who could regain
/// them.
///
/// # Errors
/// The system refused; the thread still has the rights.
pub fn give_up_start_rights() -> io::Result<()> {
    if rustix::process::geteuid().is_root() {
        return Ok(());
    }
    let held = capabilities(None)?;
    let rights = LOW_PORTS | DEVICES;
    if !(held.permitted | held.effective | held.inheritable).intersects(rights) {
        return Ok(());
    }
    set_capabilities(
        None,
        CapabilitySets {
            effective: held.effective - rights,
            permitted: held.permitted - rights,
            inheritable: held.inheritable - rights,
        },
    )?;
    // An ambient capability must be permitted and inheritable; the kernel enforces that by itself.
    if held.inheritable.intersects(rights) {
        clear_ambient_capability_set()?;
    }
    Ok(())
}

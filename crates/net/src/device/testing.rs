//! Hosts for tests of devices: a thread in network namespaces of its own.

use std::os::fd::AsFd;
use std::process::Command;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::Device;
use crate::system::NetworkNamespace;

/// The time after which a test gives up.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// Runs a test on a thread of its own in a fresh namespace, unless the process lacks the right to
/// make one.
pub fn in_namespace(test: impl FnOnce(&NetworkNamespace) + Send) {
    std::thread::scope(|scope| {
        let run = || match NetworkNamespace::create() {
            Ok(namespace) => {
                namespace.enter().expect("the right to be in it");
                test(&namespace);
            }
            Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => {
                println!("skipped: network namespaces need CAP_SYS_ADMIN");
            }
            Err(error) => panic!("no network namespace: {error}"),
        };
        if let Err(panic) = scope.spawn(run).join() {
            std::panic::resume_unwind(panic);
        }
    });
}

/// Runs the program `ip` in the calling thread's namespace.
pub fn ip(arguments: &str) {
    let result = Command::new("ip").args(arguments.split(' ')).output().expect("iproute2");
    assert!(result.status.success(), "ip {arguments}: {result:?}");
}

/// Receives until `is_done` or the deadline; returns whether it was done.
pub fn receive_until(
    device: &mut dyn Device,
    each: &mut dyn FnMut(&[u8]),
    is_done: &dyn Fn() -> bool,
) -> bool {
    let deadline = Instant::now() + PATIENCE;
    while !is_done() {
        if device.receive(64, each).expect("a usable device") > 0 {
            continue;
        }
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return false;
        }
        wait(device, left);
    }
    true
}

/// Waits until the device has frames, at most for `time`.
pub fn wait(device: &dyn Device, time: Duration) {
    let descriptor = device.descriptor().expect("a device of the kernel");
    let mut wanted = [PollFd::from_borrowed_fd(descriptor.as_fd(), PollFlags::IN)];
    let time = Timespec { tv_sec: time.as_secs() as i64, tv_nsec: time.subsec_nanos().into() };
    poll(&mut wanted, Some(&time)).expect("a descriptor");
}

/// Sends one frame.
pub fn send(device: &mut dyn Device, frame: &[u8]) {
    device.next_frame().expect("room")[..frame.len()].copy_from_slice(frame);
    device.queue(frame.len());
    device.flush().expect("a usable device");
}

//! Devices that carry frames, below a TCP of our own: a TUN interface ([`tun`]), an AF_XDP socket
//! ([`xdp`]), and two ends in one process ([`pair`]).
//!
//! Place: under the transport in user space; `lab packets` measures them. A device moves bytes and
//! knows no protocol above the link header.
//!
//! Invariants: a device belongs to one thread, and none of its calls waits. Frames leave in the
//! order in which they were queued. A device may lose frames; it counts the losses that it can see.

use std::fmt::Display;
use std::io;
use std::os::fd::BorrowedFd;

pub mod interface;
pub mod pair;
pub mod tun;
pub mod xdp;

/// Bytes of the place of one frame.
pub const FRAME_BYTES: usize = 2_048;

/// A device that carries frames. Owned by one thread.
pub trait Device {
    /// Hands at most `frames_max` received frames to `each`, without waiting; returns their number.
    ///
    /// # Errors
    /// The device is unusable: its interface is gone or down. A device may notice that only in
    /// [`Device::flush`].
    fn receive(&mut self, frames_max: usize, each: &mut dyn FnMut(&[u8])) -> io::Result<usize>;

    /// The place for the next frame to send; `None` if there is no room now. A place that was lent
    /// and not queued is lent again, so its bytes may be those of an earlier frame.
    fn next_frame(&mut self) -> Option<&mut [u8]>;

    /// Queues the first `length` bytes of the place that [`Device::next_frame`] lent last; more
    /// bytes than the place has are cut. Call it once for a place: without one, a frame of old
    /// bytes may be queued, or none.
    fn queue(&mut self, length: usize);

    /// Gives the queued frames to the kernel. Frames for which it has no room now stay queued, and
    /// the next call offers them again.
    ///
    /// # Errors
    /// The device is unusable: its interface is gone or down.
    fn flush(&mut self) -> io::Result<()>;

    /// The number of queued frames that wait for another [`Device::flush`].
    fn unsent(&mut self) -> usize;

    /// The descriptor that becomes readable when frames arrive; `None` for a device without one.
    fn descriptor(&self) -> Option<BorrowedFd<'_>>;

    /// Bytes of link header in front of the IP packet: 14 for Ethernet, 0 for TUN.
    fn link_header_bytes(&self) -> usize;
}

/// A device of any kind.
impl<D: Device + ?Sized> Device for Box<D> {
    fn receive(&mut self, frames_max: usize, each: &mut dyn FnMut(&[u8])) -> io::Result<usize> {
        (**self).receive(frames_max, each)
    }

    fn next_frame(&mut self) -> Option<&mut [u8]> {
        (**self).next_frame()
    }

    fn queue(&mut self, length: usize) {
        (**self).queue(length);
    }

    fn flush(&mut self) -> io::Result<()> {
        (**self).flush()
    }

    fn unsent(&mut self) -> usize {
        (**self).unsent()
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        (**self).descriptor()
    }

    fn link_header_bytes(&self) -> usize {
        (**self).link_header_bytes()
    }
}

/// An error that names the failed step, and the rights for it if the kernel refused it by rights.
fn failed(step: impl Display, rights: &str, error: impl Into<io::Error>) -> io::Error {
    let error = error.into();
    if error.kind() == io::ErrorKind::PermissionDenied {
        return io::Error::new(
            error.kind(),
            format!("cannot {step}: {error}, the process needs {rights}"),
        );
    }
    io::Error::new(error.kind(), format!("cannot {step}: {error}"))
}

#[cfg(test)]
pub(crate) mod testing;

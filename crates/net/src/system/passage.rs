//! A way between two processes, or two threads with tables of their own, for messages with
//! descriptors.
//!
//! For live upgrades: a message is up to [`MESSAGE_BYTES_MAX`] bytes and up to [`DESCRIPTORS_MAX`]
//! descriptors, whole or not at all. Invariants: nobody waits for ever (each side gives up after
//! the time that it was told); descriptors that found no place in the receiver's table are an
//! error, not a smaller number.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::sockopt::{self, Timeout};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags,
    SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketFlags, SocketType, recvmsg,
    sendmsg, socketpair,
};

/// Descriptors of one message: as many as the kernel takes (`SCM_MAX_FD`).
pub const DESCRIPTORS_MAX: usize = 253;
/// Bytes of one message; below what a socket of the usual size takes.
pub const MESSAGE_BYTES_MAX: usize = 96 << 10;

/// One end of a way.
#[derive(Debug)]
pub struct Passage(OwnedFd);

impl Passage {
    /// Two ends in the calling thread's table.
    ///
    /// # Errors
    /// No descriptors to be had.
    pub fn pair() -> io::Result<(Passage, Passage)> {
        let (one, other) =
            socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
        Ok((Passage(one), Passage(other)))
    }

    /// An end that was received, or inherited.
    pub fn of(socket: OwnedFd) -> Passage {
        Passage(socket)
    }

    /// The socket itself, to be passed on.
    pub fn into_socket(self) -> OwnedFd {
        self.0
    }

    /// The number, to keep in a private table.
    pub fn descriptor(&self) -> RawFd {
        self.0.as_raw_fd()
    }

    /// Sending and receiving fail with `WouldBlock` after so long.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn give_up_after(&self, patience: Duration) -> io::Result<()> {
        sockopt::set_socket_timeout(&self.0, Timeout::Recv, Some(patience))?;
        sockopt::set_socket_timeout(&self.0, Timeout::Send, Some(patience))?;
        Ok(())
    }

    /// Sends one message. The caller keeps its own copies of the descriptors.
    ///
    /// # Errors
    /// `WouldBlock` when nobody has received for too long, `BrokenPipe` when nobody will.
    pub fn send(&self, bytes: &[u8], descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
        self.send_with(bytes, descriptors, SendFlags::NOSIGNAL)
    }

    /// The same if it can be sent at once; false if the way is full.
    ///
    /// # Errors
    /// As for [`Passage::send`], but for `WouldBlock`.
    pub fn try_send(&self, bytes: &[u8], descriptors: &[BorrowedFd<'_>]) -> io::Result<bool> {
        match self.send_with(bytes, descriptors, SendFlags::NOSIGNAL | SendFlags::DONTWAIT) {
            Ok(()) => Ok(true),
            Err(error) if is_full(&error) => Ok(false),
            Err(error) => Err(error),
        }
    }

    fn send_with(
        &self,
        bytes: &[u8],
        descriptors: &[BorrowedFd<'_>],
        flags: SendFlags,
    ) -> io::Result<()> {
        debug_assert!(bytes.len() <= MESSAGE_BYTES_MAX && !bytes.is_empty());
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        if !descriptors.is_empty() && !control.push(SendAncillaryMessage::ScmRights(descriptors)) {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        sendmsg(&self.0, &[IoSlice::new(bytes)], &mut control, flags)?;
        Ok(())
    }

    /// Receives one message: its bytes in place of what is in `bytes`; its descriptors are added.
    ///
    /// # Errors
    /// `UnexpectedEof` when the other end is gone, `WouldBlock` when nothing has come for too long,
    /// `QuotaExceeded` when this table had no room for all descriptors.
    pub fn receive(&self, bytes: &mut Vec<u8>, descriptors: &mut Vec<OwnedFd>) -> io::Result<()> {
        bytes.resize(MESSAGE_BYTES_MAX, 0);
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let mut parts = [IoSliceMut::new(bytes)];
        let received = recvmsg(self.0.as_fd(), &mut parts, &mut control, RecvFlags::CMSG_CLOEXEC)
            .map_err(|error| match error {
            // It has gone without reading everything.
            Errno::CONNRESET => io::ErrorKind::UnexpectedEof.into(),
            error => io::Error::from(error),
        })?;
        for message in control.drain() {
            if let RecvAncillaryMessage::ScmRights(received) = message {
                descriptors.extend(received);
            }
        }
        bytes.truncate(received.bytes);
        if received.bytes == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        if received.flags.intersects(ReturnFlags::CTRUNC | ReturnFlags::TRUNC) {
            return Err(io::ErrorKind::QuotaExceeded.into());
        }
        Ok(())
    }
}

impl AsFd for Passage {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// The way is full, or so many descriptors are on their way that the kernel wants some to arrive
/// first.
fn is_full(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(libc::EAGAIN | libc::ETOOMANYREFS | libc::EINTR | libc::ENOBUFS)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn descriptors(count: usize) -> Vec<OwnedFd> {
        let flags = rustix::event::EventfdFlags::CLOEXEC;
        let one = rustix::event::eventfd(7, flags).expect("room");
        let copies = (1..count).map(|_| rustix::io::fcntl_dupfd_cloexec(&one, 0).expect("room"));
        let mut all: Vec<OwnedFd> = copies.collect();
        all.push(one);
        all
    }

    #[test]
    fn a_full_message_arrives_whole() {
        let (one, other) = Passage::pair().expect("descriptors");
        let sent = descriptors(DESCRIPTORS_MAX);
        let borrowed: Vec<_> = sent.iter().map(AsFd::as_fd).collect();
        let bytes = vec![9; MESSAGE_BYTES_MAX];
        one.send(&bytes, &borrowed).expect("sent");
        let (mut received, mut descriptors) = (Vec::new(), Vec::new());
        other.receive(&mut received, &mut descriptors).expect("there");
        assert!(received == bytes && descriptors.len() == DESCRIPTORS_MAX);
        let mut value = [0; 8];
        rustix::io::read(&descriptors[100], &mut value).expect("the same eventfd");
        assert_eq!(u64::from_ne_bytes(value), 7);
    }

    #[test]
    fn nobody_waits_for_ever() {
        let (one, other) = Passage::pair().expect("descriptors");
        one.give_up_after(Duration::from_millis(10)).expect("set");
        let kind = |result: io::Result<()>| result.map_err(|error| error.kind());
        let (mut bytes, mut none) = (Vec::new(), Vec::new());
        assert_eq!(kind(one.receive(&mut bytes, &mut none)), Err(io::ErrorKind::WouldBlock));
        while one.try_send(&[1; 4_096], &[]).expect("not broken") {}
        assert_eq!(kind(one.send(&[1], &[])), Err(io::ErrorKind::WouldBlock));
        drop(other);
        // A test beside this one may hold a copy for a moment, in a descriptor table of its own.
        one.give_up_after(Duration::from_secs(60)).expect("set");
        assert_eq!(kind(one.receive(&mut bytes, &mut none)), Err(io::ErrorKind::UnexpectedEof));
        assert_eq!(kind(one.send(&[1], &[])), Err(io::ErrorKind::BrokenPipe));
    }
}

//! A channel between two processes, or two threads with private tables, for messages with
//! descriptors.
//!
//! Live upgrades use it: a message has up to [`MESSAGE_BYTES_MAX`] bytes and up to
//! [`DESCRIPTORS_MAX`] descriptors, and arrives whole or not at all. Invariants: every wait has a
//! time limit ([`Passage::give_up_after`]); descriptors without room in the receiver's table are an
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

/// Maximum number of descriptors of one message: the kernel's limit (`SCM_MAX_FD`).
pub const DESCRIPTORS_MAX: usize = 253;
/// Maximum length of one message, in bytes: it fits the usual buffer of a socket.
pub const MESSAGE_BYTES_MAX: usize = 96 << 10;

/// One end of a channel.
#[derive(Debug)]
pub struct Passage(OwnedFd);

impl Passage {
    /// Two ends in the calling thread's table.
    ///
    /// # Errors
    /// The table has no room.
    pub fn pair() -> io::Result<(Passage, Passage)> {
        let (one, other) =
            socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
        Ok((Passage(one), Passage(other)))
    }

    /// An end that was received or inherited.
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

    /// Sets the time after which sending and receiving fail with `WouldBlock`.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn give_up_after(&self, patience: Duration) -> io::Result<()> {
        sockopt::set_socket_timeout(&self.0, Timeout::Recv, Some(patience))?;
        sockopt::set_socket_timeout(&self.0, Timeout::Send, Some(patience))?;
        Ok(())
    }

    /// Sends one message. The caller keeps its own copies of the descriptors.
    ///
    /// # Errors
    /// `WouldBlock` if the other end receives nothing in time, `BrokenPipe` if it is gone.
    pub fn send(&self, bytes: &[u8], descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
        self.send_with(bytes, descriptors, SendFlags::NOSIGNAL)
    }

    /// Sends one message if there is room for it; returns false if there is none.
    ///
    /// # Errors
    /// `BrokenPipe` if the other end is gone.
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

    /// Receives one message: its bytes replace those in `bytes`, its descriptors are appended.
    ///
    /// # Errors
    /// `UnexpectedEof` if the other end is gone, `WouldBlock` if no message arrives in time,
    /// `QuotaExceeded` if this table has no room for all descriptors.
    pub fn receive(&self, bytes: &mut Vec<u8>, descriptors: &mut Vec<OwnedFd>) -> io::Result<()> {
        bytes.resize(MESSAGE_BYTES_MAX, 0);
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let mut parts = [IoSliceMut::new(bytes)];
        let received = recvmsg(self.0.as_fd(), &mut parts, &mut control, RecvFlags::CMSG_CLOEXEC)
            .map_err(|error| match error {
            // The other end was closed with unread messages.
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

/// Whether the channel is full, or the kernel's limit of descriptors in flight is reached.
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
    fn every_wait_has_a_limit() {
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

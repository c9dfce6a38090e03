//! A network that another process can take over, connections included: its part of a live upgrade.
//!
//! In the old process, the network first sends copies of its sockets while it still serves
//! ([`Passing::copy_some`]). After the thread's last turn it gives its final state
//! ([`Passing::conclude`]), and the copies that are new since. In the new process the network
//! adopts the copies as they arrive ([`Passing::adopt`]), and at the end keeps what the final state
//! names ([`Passing::settle`]). The node carries the messages and does not read them.
//!
//! A layer over a network (TLS, the PROXY protocol) passes these calls on to the network below, and
//! adds its own state of connections ([`Passing::give_layers`]). The bytes of layers contain keys
//! of TLS, so their owner wipes them.
//!
//! Invariant: in the old process nothing changes for clients, whatever the new process does, until
//! the old one ends. A network that does not implement this refuses: its node cannot be upgraded
//! while it runs, and serves on.

use crate::Net;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use stdx::handing::Input;

/// Sends one message of copies: bytes, and at most [`crate::system::DESCRIPTORS_MAX`] descriptors.
/// False if the new process must first receive earlier ones; then nothing was sent.
pub type SendCopies<'a> = dyn FnMut(&[u8], &[BorrowedFd<'_>]) -> io::Result<bool> + 'a;

/// The progress of copying.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Copying {
    /// There is more to copy.
    More,
    /// Nothing was sent, because the new process must first receive earlier messages.
    Full,
    /// Everything was copied.
    Done,
}

/// A network that can be handed over; see the module.
pub trait Passing: Net {
    /// The record of copied sockets, which the caller keeps during one upgrade.
    type Copied: Default;

    /// Sends at most one message of copies.
    ///
    /// # Errors
    /// The copy cannot be created, or the new process is gone.
    fn copy_some(
        &mut self,
        copied: &mut Self::Copied,
        send: &mut SendCopies<'_>,
    ) -> io::Result<Copying> {
        let _ = (copied, send);
        Err(io::Error::new(io::ErrorKind::Unsupported, "this network cannot be handed over"))
    }

    /// Appends the final state, after the thread's last turn. The caller then sends newer
    /// copies with [`Passing::copy_some`]. Returns whether connections that are being closed still
    /// need this process for a moment.
    fn conclude(&mut self, copied: &mut Self::Copied, out: &mut Vec<u8>) -> bool {
        let _ = (copied, out);
        false
    }

    /// Adopts one message of copies, in the order in which they were sent. Nothing is accepted,
    /// read or written yet.
    ///
    /// # Errors
    /// The message is malformed, or there is no room.
    fn adopt(&mut self, message: &[u8], descriptors: Vec<OwnedFd>) -> io::Result<()> {
        let _ = (message, descriptors);
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Reads the final state, keeps the connections that it names, and drops all others.
    ///
    /// # Errors
    /// The state is malformed, or a connection is missing.
    fn settle(&mut self, input: &mut Input<'_>) -> io::Result<()> {
        let _ = input;
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Begins nothing that cannot be handed over, until [`Passing::release`].
    fn hold(&mut self) {}

    /// Number of things that have begun, cannot be handed over, and will complete.
    fn begun_count(&self) -> usize {
        0
    }

    /// Begins everything again.
    fn release(&mut self) {}

    /// Appends the state of the layers, from the lowest up.
    fn give_layers(&mut self, out: &mut Vec<u8>) {
        let _ = out;
    }

    /// Reads the state of the layers. None if it is malformed, or belongs to other layers.
    fn take_layers(&mut self, input: &mut Input<'_>) -> Option<()> {
        let _ = input;
        Some(())
    }
}

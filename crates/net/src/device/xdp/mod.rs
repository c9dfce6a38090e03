//! AF_XDP: frames between an interface's queue and the memory of this process.
//!
//! An [`Attachment`] runs the program of a [`Rule`] on an interface and has the map from queues to
//! sockets. [`Attachment::open`] gives the device of one queue, [`Xdp`], which has memory and rings
//! of its own: two threads share nothing. Frames that the program does not bring here stay with the
//! kernel.
//!
//! On veth the program is needed at the receiving end only. Natively, a queue's frames come to the
//! queue of the same number at the peer. Its ring there has 256 places; a frame beyond them is
//! dropped, and the kernel reports the drop to the sender ([`Statistics::dropped_by_peer`]). In
//! generic mode frames of queue 1 come to queue 0, those of queue 2 to queue 1 and so on (Linux
//! 6.18), so that the two ends of one pair can use one queue only: several need a pair each.
//!
//! A place has 2,048 bytes, of which the kernel keeps 256 before a received frame: longer frames
//! than 1,792 bytes are dropped and counted, which is enough for an MTU of 1,500.
//!
//! Rights: CAP_BPF and CAP_NET_ADMIN for the program, CAP_NET_RAW for the sockets, and CAP_IPC_LOCK
//! or enough `RLIMIT_MEMLOCK` for their memory. None of them is needed to move frames.

mod attachment;
mod bpf;
mod program;
mod rings;
mod socket;
#[cfg(test)]
mod tests;

pub use attachment::{Attachment, Mode};
pub use program::{PORTS_MAX, Rule};
pub use socket::{BusyPoll, Copying, Options, Statistics, Xdp};

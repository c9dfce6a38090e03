//! The socket of one queue, with its memory: the device itself.
//!
//! The memory has one half for received frames and one for frames to send. A frame is at any time
//! in one place: ours, or in a ring. Received ones return to the `fill` ring as soon as they were
//! handed on, sent ones come back by the `completion` ring.
//!
//! The rings `fill` and `send` have twice as many places as there are frames. The kernel shows that
//! it has taken an entry later than the frame itself: it publishes received frames before the
//! counter of `fill`, and a dropped frame is complete before the counter of `send`. So a ring of
//! the frames' number can look full when it is not.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use rustix::io::Errno;
use rustix::net::sockopt;
use rustix::net::xdp::{
    SocketAddrXdp, SocketAddrXdpFlags, XDP_PGOFF_RX_RING, XDP_PGOFF_TX_RING,
    XDP_UMEM_PGOFF_COMPLETION_RING, XDP_UMEM_PGOFF_FILL_RING, XdpDesc, XdpDescOptions, XdpUmemReg,
    XdpUmemRegFlags,
};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, socket_with};

use super::super::{Device, FRAME_BYTES, failed};
use super::rings::{Consumer, Mapping, Place, Producer};

/// The rights of [`Xdp::open`].
const RIGHTS: &str = "CAP_NET_RAW, CAP_NET_ADMIN, and CAP_IPC_LOCK or a higher RLIMIT_MEMLOCK";

/// Places of `fill` and `send` for each frame.
const PLACES: u32 = 2;

/// Frames of a ring at most.
const RING_FRAMES_MAX: u32 = 1 << 20;

/// Frames that the kernel sends in one call, unless [`Options::send_budget_frames`] is set.
const SEND_BUDGET_FRAMES: u32 = 32;

/// `SOL_XDP` and `XDP_MAX_TX_SKB_BUDGET` (Linux 6.17).
const LEVEL_XDP: libc::c_int = 283;
const MAX_TX_SKB_BUDGET: libc::c_int = 9;

/// Whether the kernel copies frames between its own memory and ours.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Copying {
    /// The driver's best.
    Either,
    /// It copies them, with any driver.
    Copy,
    /// The network card uses our memory; an error if the driver cannot.
    ZeroCopy,
}

/// The process drives the queue in its own calls, in place of interrupts. Only drivers that name
/// the NAPI of their queues can do it; veth does not (Linux 6.18).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BusyPoll {
    /// Time of one call at most, in microseconds.
    pub time_us: u32,
    /// Frames of one call at most.
    pub frames: u32,
}

/// Options of one socket.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Options {
    /// Frames that may wait to be received: a power of two up to 1,048,576.
    pub receive_frames: u32,
    /// Frames that may wait to be sent: a power of two up to 1,048,576.
    pub send_frames: u32,
    /// Whether the kernel copies.
    pub copying: Copying,
    /// Calls wake the driver only when it asks for it.
    pub need_wakeup: bool,
    /// Busy polling, if any.
    pub busy_poll: Option<BusyPoll>,
    /// `SO_SNDBUF`: bounds the sent frames that the peer has not received, in bytes, which the
    /// kernel doubles and of which it charges at least 768 for a frame.
    pub send_buffer_bytes: Option<usize>,
    /// Frames that the kernel sends in one call, 32 to [`Options::send_frames`]; without it, 32. No
    /// effect before Linux 6.17 ([`Xdp::unsupported`]).
    pub send_budget_frames: Option<u32>,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            receive_frames: 4_096,
            send_frames: 4_096,
            copying: Copying::Either,
            need_wakeup: true,
            busy_poll: None,
            send_buffer_bytes: None,
            send_budget_frames: None,
        }
    }
}

/// Losses of a socket since it was opened, in frames, and sends that were put off.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Statistics {
    /// Received frames without room in the ring.
    pub ring_full: u64,
    /// Times that the kernel found no frame to fill: all of them wait to be received.
    pub fill_empty: u64,
    /// Received frames that found no frame to fill, or were too long for one.
    pub received_dropped: u64,
    /// Descriptors of ours that the kernel refused.
    pub invalid: u64,
    /// Sent frames that the peer's ring or backlog had no room for.
    pub dropped_by_peer: u64,
    /// Sends that the kernel put off because too many frames were on their way. Nothing was lost.
    pub put_off: u64,
}

/// Whether calls of the process drive the queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum BusyPolling {
    Off,
    /// It is set, but the kernel may know the queue's NAPI only after the first frame.
    Unproven,
    On,
}

/// An AF_XDP socket on one queue of an interface.
#[derive(Debug)]
pub struct Xdp {
    socket: OwnedFd,
    memory: Mapping,
    fill: Producer<u64>,
    received: Consumer<XdpDesc>,
    sending: Producer<XdpDesc>,
    completed: Consumer<u64>,
    /// Places for frames to send; the last one is lent first.
    spare: Vec<u64>,
    send_budget_frames: u32,
    busy_polling: BusyPolling,
    unsupported: Vec<&'static str>,
    dropped_by_peer: u64,
    put_off: u64,
}

impl Xdp {
    pub(super) fn open(
        name: &str,
        interface: u32,
        queue: u32,
        options: &Options,
    ) -> io::Result<Xdp> {
        let is_length = |frames: u32| frames.is_power_of_two() && frames <= RING_FRAMES_MAX;
        if !is_length(options.receive_frames) || !is_length(options.send_frames) {
            let text = "the rings of an AF_XDP socket have a power of two of frames, to 1,048,576";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
        }
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = socket_with(AddressFamily::XDP, SocketType::RAW, flags, None)
            .map_err(|error| failed("open an AF_XDP socket", RIGHTS, error))?;
        let receive_bytes = u64::from(options.receive_frames) * FRAME_BYTES as u64;
        let all_bytes = receive_bytes + u64::from(options.send_frames) * FRAME_BYTES as u64;
        let bytes = usize::try_from(all_bytes).map_err(|_| io::ErrorKind::OutOfMemory)?;
        let memory = Mapping::anonymous(bytes)
            .map_err(|error| failed("map memory for frames", "", error))?;
        register(&socket, &memory, all_bytes, options)?;
        let step = |error| failed("map the rings of an AF_XDP socket", "", error);
        let mut rings = map_rings(socket.as_fd(), options).map_err(step)?;
        for address in (0..receive_bytes).step_by(FRAME_BYTES) {
            rings.fill.push(address);
        }
        rings.fill.publish();
        let mut device = Xdp {
            socket,
            memory,
            fill: rings.fill,
            received: rings.received,
            sending: rings.sending,
            completed: rings.completed,
            spare: (receive_bytes..all_bytes).step_by(FRAME_BYTES).collect(),
            send_budget_frames: SEND_BUDGET_FRAMES,
            busy_polling: BusyPolling::Off,
            unsupported: Vec::new(),
            dropped_by_peer: 0,
            put_off: 0,
        };
        device.set(options)?;
        device.bind(name, interface, queue, options)?;
        Ok(device)
    }

    /// Options that have no effect, because the kernel does not know them or the driver cannot.
    /// Complete after the first received frames.
    pub fn unsupported(&self) -> &[&'static str] {
        &self.unsupported
    }

    /// Losses so far. One system call.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn statistics(&self) -> io::Result<Statistics> {
        let seen = sockopt::xdp_statistics(&self.socket)
            .map_err(|error| failed("read the statistics of an AF_XDP socket", "", error))?;
        Ok(Statistics {
            ring_full: seen.rx_ring_full.unwrap_or(0),
            fill_empty: seen.rx_fill_ring_empty_descs.unwrap_or(0),
            received_dropped: seen.rx_dropped,
            invalid: seen.rx_invalid_descs + seen.tx_invalid_descs,
            dropped_by_peer: self.dropped_by_peer,
            put_off: self.put_off,
        })
    }

    pub(super) fn socket(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// Sets the options that are not part of the rings.
    fn set(&mut self, options: &Options) -> io::Result<()> {
        if let Some(bytes) = options.send_buffer_bytes {
            sockopt::set_socket_send_buffer_size(&self.socket, bytes)
                .map_err(|error| failed("set SO_SNDBUF", RIGHTS, error))?;
        }
        if let Some(frames) = options.send_budget_frames {
            let budget = (LEVEL_XDP, MAX_TX_SKB_BUDGET);
            if self.set_number("XDP_MAX_TX_SKB_BUDGET", budget, frames)? {
                self.send_budget_frames = frames;
            }
        }
        if let Some(busy) = options.busy_poll {
            let prefer = (libc::SOL_SOCKET, libc::SO_PREFER_BUSY_POLL);
            let time = (libc::SOL_SOCKET, libc::SO_BUSY_POLL);
            let budget = (libc::SOL_SOCKET, libc::SO_BUSY_POLL_BUDGET);
            if self.set_number("SO_PREFER_BUSY_POLL", prefer, 1)? {
                self.busy_polling = BusyPolling::Unproven;
            }
            self.set_number("SO_BUSY_POLL", time, busy.time_us)?;
            self.set_number("SO_BUSY_POLL_BUDGET", budget, busy.frames)?;
        }
        Ok(())
    }

    /// Sets an option that the kernel may not know; returns whether it does.
    fn set_number(
        &mut self,
        name: &'static str,
        (level, option): (libc::c_int, libc::c_int),
        value: u32,
    ) -> io::Result<bool> {
        // SAFETY: the kernel reads four bytes from the pointer, which is good for the call.
        let result = unsafe {
            libc::setsockopt(
                self.socket.as_raw_fd(),
                level,
                option,
                (&raw const value).cast(),
                size_of::<u32>() as libc::socklen_t,
            )
        };
        if result == 0 {
            return Ok(true);
        }
        let error = io::Error::last_os_error();
        if error.raw_os_error() == Some(libc::ENOPROTOOPT) {
            self.unsupported.push(name);
            return Ok(false);
        }
        Err(failed(format_args!("set {name} to {value}"), RIGHTS, error))
    }

    /// Looks after the first frames whether busy polling has an effect, and ends it if it has none.
    fn prove_busy_polling(&mut self) {
        let mut number: u32 = 0;
        let mut bytes = size_of::<u32>() as libc::socklen_t;
        // SAFETY: the kernel writes at most `bytes` bytes through the first pointer, and their
        // number through the second one; both are good for the call.
        let result = unsafe {
            libc::getsockopt(
                self.socket.as_raw_fd(),
                libc::SOL_SOCKET,
                libc::SO_INCOMING_NAPI_ID,
                (&raw mut number).cast(),
                &raw mut bytes,
            )
        };
        if result == 0 && number == 0 {
            self.unsupported.push("busy polling of this driver");
            self.busy_polling = BusyPolling::Off;
        } else {
            self.busy_polling = BusyPolling::On;
        }
    }

    fn bind(&self, name: &str, interface: u32, queue: u32, options: &Options) -> io::Result<()> {
        let mut flags = match options.copying {
            Copying::Either => SocketAddrXdpFlags::empty(),
            Copying::Copy => SocketAddrXdpFlags::XDP_COPY,
            Copying::ZeroCopy => SocketAddrXdpFlags::XDP_ZEROCOPY,
        };
        if options.need_wakeup {
            flags |= SocketAddrXdpFlags::XDP_USE_NEED_WAKEUP;
        }
        let address = SocketAddrXdp::new(flags, interface, queue);
        rustix::net::bind(&self.socket, &address).map_err(|error| {
            let reason = match error {
                Errno::BUSY => " (it has another socket)",
                Errno::INVAL => " (there is no such queue)",
                Errno::OPNOTSUPP => " (the driver has no zero-copy)",
                _ => "",
            };
            failed(format_args!("bind to queue {queue} of {name}{reason}"), RIGHTS, error)
        })
    }

    /// Takes back the places of sent frames.
    fn reclaim(&mut self) {
        if !self.completed.is_ready() {
            return;
        }
        while let Some(address) = self.completed.pop() {
            self.spare.push(address);
        }
        self.completed.release();
    }

    /// Has the kernel look at the rings, and poll the queue if busy polling is on.
    fn wake_receiving(&self) -> io::Result<()> {
        match rustix::net::recv(&self.socket, &mut [0_u8; 0][..], RecvFlags::DONTWAIT) {
            Ok(_) | Err(Errno::AGAIN | Errno::INTR | Errno::BUSY) => Ok(()),
            Err(error) => Err(failed("receive from an AF_XDP socket", RIGHTS, error)),
        }
    }
}

impl Device for Xdp {
    fn receive(&mut self, frames_max: usize, each: &mut dyn FnMut(&[u8])) -> io::Result<usize> {
        if !self.received.is_ready() {
            if self.busy_polling == BusyPolling::Off {
                return Ok(0);
            }
            self.wake_receiving()?;
            self.received.is_ready();
        }
        let mut count = 0;
        while count < frames_max
            && let Some(frame) = self.received.pop()
        {
            if let Some(bytes) = self.memory.slice(frame.addr, frame.len as usize) {
                each(bytes);
            }
            let has_room = self.fill.push(frame.addr - frame.addr % FRAME_BYTES as u64);
            debug_assert!(has_room, "the ring has room for every frame");
            count += 1;
        }
        if count > 0 {
            self.received.release();
            self.fill.publish();
            if self.busy_polling == BusyPolling::Unproven {
                self.prove_busy_polling();
            }
            if self.fill.needs_wakeup() {
                self.wake_receiving()?;
            }
        }
        Ok(count)
    }

    fn next_frame(&mut self) -> Option<&mut [u8]> {
        if self.spare.is_empty() {
            self.reclaim();
        }
        self.memory.slice(*self.spare.last()?, FRAME_BYTES)
    }

    fn queue(&mut self, length: usize) {
        let Some(addr) = self.spare.pop() else { return };
        let len = length.min(FRAME_BYTES) as u32;
        let has_room = self.sending.push(XdpDesc { addr, len, options: XdpDescOptions::empty() });
        debug_assert!(has_room, "the ring has room for every frame");
    }

    fn flush(&mut self) -> io::Result<()> {
        self.sending.publish();
        let mut left = self.sending.left();
        while left > 0 && self.sending.needs_wakeup() {
            let result = rustix::net::send(&self.socket, &[], SendFlags::DONTWAIT);
            let before = std::mem::replace(&mut left, self.sending.left());
            match result {
                Ok(_) | Err(Errno::INTR) => break,
                // The last frame that was taken is lost; those behind it would be as well.
                Err(Errno::BUSY) => {
                    self.dropped_by_peer += 1;
                    break;
                }
                // The end of the budget of one call, or no room.
                Err(Errno::AGAIN | Errno::NOBUFS) => {
                    if before.wrapping_sub(left) < self.send_budget_frames {
                        self.put_off += 1;
                        break;
                    }
                }
                Err(error) => return Err(failed("send by an AF_XDP socket", RIGHTS, error)),
            }
        }
        self.reclaim();
        Ok(())
    }

    /// A `poll` on the descriptor gives the kernel some of these frames as well, but does not
    /// report drops, so flush until there is none before a long wait.
    fn unsent(&mut self) -> usize {
        self.sending.left() as usize
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        Some(self.socket.as_fd())
    }

    fn link_header_bytes(&self) -> usize {
        14
    }
}

/// The four rings of a socket.
struct Rings {
    fill: Producer<u64>,
    completed: Consumer<u64>,
    received: Consumer<XdpDesc>,
    sending: Producer<XdpDesc>,
}

/// Gives the memory to the kernel, and has it make the rings.
fn register(socket: &OwnedFd, memory: &Mapping, bytes: u64, options: &Options) -> io::Result<()> {
    let region = XdpUmemReg {
        addr: memory.address(),
        len: bytes,
        chunk_size: FRAME_BYTES as u32,
        headroom: 0,
        flags: XdpUmemRegFlags::empty(),
        tx_metadata_len: 0,
    };
    let (receive, send) = (options.receive_frames, options.send_frames);
    let step = |step: &'static str| move |error: Errno| failed(step, RIGHTS, error);
    sockopt::set_xdp_umem_reg(socket, region)
        .map_err(step("register memory with an AF_XDP socket"))?;
    sockopt::set_xdp_umem_fill_ring_size(socket, receive * PLACES)
        .map_err(step("make the fill ring"))?;
    sockopt::set_xdp_umem_completion_ring_size(socket, send)
        .map_err(step("make the completion ring"))?;
    sockopt::set_xdp_rx_ring_size(socket, receive).map_err(step("make the receive ring"))?;
    sockopt::set_xdp_tx_ring_size(socket, send * PLACES).map_err(step("make the send ring"))
}

fn map_rings(socket: BorrowedFd<'_>, options: &Options) -> io::Result<Rings> {
    let offsets = sockopt::xdp_mmap_offsets(socket)?;
    let place = |file_offset, offsets| Place { file_offset, offsets };
    let fill = place(XDP_UMEM_PGOFF_FILL_RING, offsets.fr);
    let completed = place(XDP_UMEM_PGOFF_COMPLETION_RING, offsets.cr);
    let received = place(XDP_PGOFF_RX_RING, offsets.rx);
    let sending = place(XDP_PGOFF_TX_RING, offsets.tx);
    Ok(Rings {
        fill: Producer::map(socket, &fill, options.receive_frames * PLACES)?,
        completed: Consumer::map(socket, &completed, options.send_frames)?,
        received: Consumer::map(socket, &received, options.receive_frames)?,
        sending: Producer::map(socket, &sending, options.send_frames * PLACES)?,
    })
}

//! The kernel's sockets as a [`Transport`]: their options, and the order of a thread's start.
//!
//! The starting thread opens the wakers and the hand-over mesh, whose descriptors every thread
//! keeps. Each thread then takes its own descriptor table, if it may, and opens its epoll and its
//! listeners there.

use std::io;
use std::net::SocketAddr;
use std::os::fd::RawFd;
use std::sync::Arc;

use super::adopting::AdoptedListener;
use super::listener::{ListenOptions, check_free};
use super::{Handover, Kernel, KernelOptions, Waker};
use crate::system::{nofile_limit, unshare_table};
use crate::{ListenerOptions, OpenError, OpenOptions, Opened, Transport, Unopened, Wake};

/// Options of the sockets of all threads.
#[derive(Clone, Debug)]
pub struct Sockets {
    /// Existing listeners ([`super::inherited_address`]), by their addresses. All threads accept
    /// from them. If a previous process hands its listeners over, only the addresses count.
    pub inherited: Vec<(SocketAddr, RawFd)>,
    /// `SO_SNDBUF` of client sockets, in bytes.
    pub send_bytes: usize,
    /// Length of the kernel's accept queue, for each thread.
    pub backlog_max: i32,
    /// Whether each thread gets its own descriptor table, if the system allows it.
    pub private_tables: bool,
    /// Whether io_uring instances hold connections beyond the descriptor limit, if the system
    /// allows it.
    pub registered: bool,
}

/// The sockets of one thread before the thread opens them.
#[derive(Debug)]
pub struct UnopenedSockets {
    shared: Arc<Shared>,
    waker: Arc<Waker>,
    handover: Handover,
}

#[derive(Debug)]
struct Shared {
    sockets: Sockets,
    threads_count: u32,
    /// Descriptors that each private table keeps, those of inherited listeners excepted.
    keep: Vec<RawFd>,
}

impl Transport for Sockets {
    type Unopened = UnopenedSockets;

    fn check(&self, address: SocketAddr) -> io::Result<()> {
        if address.port() == 0 || self.inherited(address).is_some() {
            Ok(())
        } else {
            check_free(address)
        }
    }

    fn prepare(&self, threads_count: usize) -> io::Result<Vec<UnopenedSockets>> {
        let wakers = (0..threads_count).map(|_| Waker::new()).collect::<io::Result<Vec<_>>>()?;
        let handovers = Handover::mesh(threads_count)?;
        let of_wakers = wakers.iter().map(|waker| waker.descriptor());
        let of_handovers = handovers.iter().flat_map(Handover::descriptors);
        let keep = of_wakers.chain(of_handovers).collect();
        let shared =
            Arc::new(Shared { sockets: self.clone(), threads_count: threads_count as u32, keep });
        let threads = wakers.into_iter().zip(handovers);
        let unopened =
            |(waker, handover)| UnopenedSockets { shared: shared.clone(), waker, handover };
        Ok(threads.map(unopened).collect())
    }
}

impl Sockets {
    fn inherited(&self, address: SocketAddr) -> Option<RawFd> {
        let found = self.inherited.iter().find(|(of, _)| *of == address);
        found.map(|(_, descriptor)| *descriptor)
    }
}

impl Unopened for UnopenedSockets {
    type Net = Kernel;

    fn waker(&self) -> Arc<dyn Wake> {
        self.waker.clone()
    }

    fn open(self, options: &OpenOptions<'_>) -> Result<Opened<Kernel>, OpenError> {
        let UnopenedSockets { shared, waker, handover } = self;
        let (is_private, notice) = shared.take_table(options);
        let kernel_options = KernelOptions {
            connections_max: options.connections_max,
            table_reserved: options.descriptors_reserved,
            table_threads_count: if is_private { 1 } else { shared.threads_count },
            registered_max: if shared.sockets.registered { u32::MAX } else { 0 },
            ..KernelOptions::default()
        };
        let mut net = Kernel::new(kernel_options, waker, handover).map_err(OpenError::System)?;
        let mut addresses = Vec::new();
        for listener in options.listeners {
            let address = listener.address;
            addresses.push(if options.are_adopted {
                let is_inherited = shared.sockets.inherited(address).is_some();
                let refusal = listener.refusal;
                net.adopted_listeners.push(AdoptedListener { refusal, is_inherited });
                address
            } else {
                shared
                    .listen(&mut net, listener)
                    .map_err(|error| OpenError::Listen(address, error))?
            });
        }
        Ok(Opened {
            connections_max: net.connections_max(),
            counters: net.counters(),
            net,
            addresses,
            notice,
        })
    }
}

impl Shared {
    /// Gives the calling thread its own descriptor table; returns whether it has one, and otherwise
    /// a notice if it should.
    fn take_table(&self, options: &OpenOptions<'_>) -> (bool, Option<String>) {
        if !self.sockets.private_tables {
            return (false, None);
        }
        let mut keep = self.keep.clone();
        keep.extend_from_slice(options.keep);
        if !options.are_adopted {
            keep.extend(self.sockets.inherited.iter().map(|(_, descriptor)| descriptor));
        }
        let Err(refused) = unshare_table(&keep) else {
            return (true, None);
        };
        let (reason, count) = (format!("{refused:?}").to_lowercase(), self.threads_count);
        let limit = nofile_limit().soft;
        let notice = format!(
            "the system refuses private descriptor tables ({reason}): all {count} I/O threads share one table of {limit} descriptors"
        );
        (false, Some(notice))
    }

    fn listen(&self, net: &mut Kernel, listener: &ListenerOptions) -> io::Result<SocketAddr> {
        let mut options = ListenOptions::new(listener.address);
        options.backlog_max = self.sockets.backlog_max;
        options.socket_send_bytes = Some(self.sockets.send_bytes);
        options.refusal = listener.refusal;
        let (_, address) = match self.sockets.inherited(listener.address) {
            Some(descriptor) => net.listen_inherited(descriptor, &options)?,
            None => net.listen(&options)?,
        };
        Ok(address)
    }
}

//! A TCP of our own as a [`Transport`]: the interface, its addresses, and the order of a thread's
//! start.
//!
//! Each thread has a queue of the interface, with a device and a stack of its own; two threads
//! share only the attached program. The first thread attaches it, because the listeners are known
//! by then. Invariant: each port in use is also bound by a socket of the kernel where the kernel
//! has the address, so that no other process gets it.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::{
    AddressFamily, SocketFlags, SocketType, bind, getsockname, ipproto, socket_with,
};
use stdx::hash::{Seed, keyed};
use tcp::packet::Checksums;

use super::{Link, User};
use crate::device::Device;
use crate::device::interface::{Interface, Station};
use crate::device::tun::Tun;
use crate::device::xdp::{Attachment, Mode, Options, Rule};
use crate::kernel::Waker;
use crate::{OpenError, OpenOptions, Opened, Transport, Unopened, Wake};

/// The first port for a listener that leaves the choice to the network.
const PORTS_FIRST: u16 = 49_152;

/// Places for received frames, 32 MiB for each thread: what comes while a thread takes a long turn
/// is not lost.
const RECEIVE_FRAMES: u32 = 16_384;

/// The default of [`UserNetwork::turn`]: a turn that waits for each frame costs twice as much as
/// one in this time.
pub const TURN: Duration = Duration::from_micros(500);

/// The kind of device that carries the packets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Carrier {
    /// AF_XDP sockets on an interface that exists.
    Xdp(Mode),
    /// A TUN interface with this name, for one thread; created if it does not exist.
    Tun,
}

/// The frames of the interface that the network takes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Frames {
    /// TCP to the listeners. The kernel keeps the rest: it answers ARP, and reports of routers get
    /// lost with it.
    Listeners,
    /// All frames. Neighbours must know the station of the interface.
    All,
}

/// Options of a TCP of our own on one interface.
#[derive(Clone, Debug)]
pub struct UserNetwork {
    /// The interface's name.
    pub interface: String,
    /// The device.
    pub carrier: Carrier,
    /// The frames that come here. Ignored with TUN, whose interface has no others.
    pub frames: Frames,
    /// Our addresses, 1 to 255.
    pub addresses: Vec<IpAddr>,
    /// The station that gets packets to peers that have sent nothing yet. A server needs none.
    pub gateway: Option<Station>,
    /// The checksums of received segments that are right.
    pub checksums: Checksums,
    /// Threads, each with the queue of its number.
    pub threads_count: u16,
    /// The least time between two turns with frames.
    pub turn: Duration,
    /// The first local port of connections that begin here.
    pub ports_first: u16,
    /// A random secret of the stacks.
    pub secret: Seed,
}

impl UserNetwork {
    /// The defaults for these addresses on an interface.
    pub fn new(
        interface: String,
        carrier: Carrier,
        addresses: Vec<IpAddr>,
        secret: Seed,
    ) -> UserNetwork {
        UserNetwork {
            interface,
            carrier,
            frames: Frames::Listeners,
            addresses,
            gateway: None,
            checksums: Checksums::Whole,
            threads_count: 1,
            turn: TURN,
            ports_first: 32_768,
            secret,
        }
    }

    /// Whether an address is one of this network.
    pub fn has(&self, address: IpAddr) -> bool {
        self.addresses.contains(&address)
    }

    /// Opens the network of the first queue for a moment.
    ///
    /// # Errors
    /// The step that would fail at a start, with the reason.
    pub fn probe(&self, listeners: &[SocketAddr]) -> io::Result<()> {
        let own: Vec<SocketAddr> =
            listeners.iter().copied().filter(|listener| self.has(listener.ip())).collect();
        let shared = Shared { network: self.clone(), attached: Mutex::default() };
        shared.open(0, Waker::new()?, 1, &own).map(drop)
    }

    /// Opens the network of the first queue on the calling thread, for connections that begin here.
    ///
    /// # Errors
    /// The failed step, with the reason.
    pub fn open(&self, waker: Arc<Waker>, connections_max: u32) -> io::Result<User> {
        let shared = Shared { network: self.clone(), attached: Mutex::default() };
        shared.open(0, waker, connections_max, &[])
    }
}

/// The network of one thread before the thread opens it.
#[derive(Debug)]
pub struct UnopenedUser {
    shared: Arc<Shared>,
    number: u32,
    waker: Arc<Waker>,
}

impl UnopenedUser {
    /// The descriptor that every private table keeps.
    pub(crate) fn descriptor(&self) -> std::os::fd::RawFd {
        self.waker.descriptor()
    }
}

#[derive(Debug)]
struct Shared {
    network: UserNetwork,
    attached: Mutex<Attached>,
}

/// The parts that the first thread makes for all.
#[derive(Debug, Default)]
struct Attached {
    program: Option<Arc<Attachment>>,
    /// Sockets that keep ports from others.
    reserved: Vec<OwnedFd>,
    /// Ports that the network has chosen by itself.
    chosen: u16,
}

impl Transport for UserNetwork {
    type Unopened = UnopenedUser;

    fn check(&self, address: SocketAddr) -> io::Result<()> {
        if !self.has(address.ip()) {
            return Err(io::ErrorKind::AddrNotAvailable.into());
        }
        reserve(address).map(drop)
    }

    fn prepare(&self, threads_count: usize) -> io::Result<Vec<UnopenedUser>> {
        let network = UserNetwork { threads_count: threads_count as u16, ..self.clone() };
        let shared = Arc::new(Shared { network, attached: Mutex::default() });
        let unopened =
            |number| Ok(UnopenedUser { shared: shared.clone(), number, waker: Waker::new()? });
        (0..threads_count as u32).map(unopened).collect()
    }
}

impl Unopened for UnopenedUser {
    type Net = User;

    fn waker(&self) -> Arc<dyn Wake> {
        self.waker.clone()
    }

    fn open(self, options: &OpenOptions<'_>) -> Result<Opened<User>, OpenError> {
        if options.are_adopted {
            let text = "connections of our own TCP cannot be handed over yet";
            return Err(OpenError::System(io::Error::new(io::ErrorKind::Unsupported, text)));
        }
        let mut addresses = Vec::new();
        for listener in options.listeners {
            let address = listener.address;
            let chosen = self.shared.reserve(address);
            addresses.push(chosen.map_err(|error| OpenError::Listen(address, error))?);
        }
        let UnopenedUser { shared, number, waker } = self;
        let connections_max = options.connections_max.min(tcp::CONNECTIONS_MAX);
        let mut net =
            shared.open(number, waker, connections_max, &addresses).map_err(OpenError::System)?;
        for (&address, listener) in addresses.iter().zip(options.listeners) {
            if net.listen(address, listener.refusal).is_none() {
                let taken = io::Error::from(io::ErrorKind::AddrInUse);
                return Err(OpenError::Listen(address, taken));
            }
        }
        Ok(Opened { counters: net.counters(), net, addresses, connections_max, notice: None })
    }
}

impl Shared {
    /// Reserves the port of a listener; with port 0 it chooses one.
    fn reserve(&self, address: SocketAddr) -> io::Result<SocketAddr> {
        let mut attached = self.attached.lock().unwrap_or_else(PoisonError::into_inner);
        if attached.program.is_some() {
            // The first thread has reserved it.
            return Ok(address);
        }
        if !self.network.has(address.ip()) {
            return Err(io::ErrorKind::AddrNotAvailable.into());
        }
        let (mut address, socket) = reserve(address)?;
        attached.reserved.extend(socket);
        if address.port() == 0 {
            let first = keyed(self.network.secret, &[]) % u64::from(u16::MAX - PORTS_FIRST);
            address.set_port(PORTS_FIRST + (first as u16).saturating_sub(attached.chosen));
            attached.chosen += 1;
        }
        Ok(address)
    }

    fn open(
        &self,
        number: u32,
        waker: Arc<Waker>,
        connections_max: u32,
        listeners: &[SocketAddr],
    ) -> io::Result<User> {
        let network = &self.network;
        let mut config = tcp::Config::new(network.addresses.clone(), network.secret);
        config.connections_max = connections_max;
        config.checksums = network.checksums;
        config.ports_first = network.ports_first;
        match network.carrier {
            Carrier::Tun => {
                let device: Box<dyn Device> = Box::new(Tun::open(&network.interface)?);
                let mut net = User::new(device, Link::none(), config, waker)?;
                net.set_turn(network.turn);
                Ok(net)
            }
            Carrier::Xdp(mode) => {
                let interface = Interface::find(&network.interface)?;
                config.mtu = interface.mtu.min(config.mtu.into()) as u16;
                let program = self.attach(mode, listeners)?;
                let options = Options { receive_frames: RECEIVE_FRAMES, ..Options::default() };
                let device: Box<dyn Device> = Box::new(program.open(number, &options)?);
                let gateway = network.gateway.unwrap_or(interface.station);
                let link = Link::ethernet(interface.station, gateway);
                let mut net = User::new(device, link, config, waker)?;
                net.keep_attached(program);
                net.set_turn(network.turn);
                Ok(net)
            }
        }
    }

    /// The program, which the first call attaches.
    fn attach(&self, mode: Mode, listeners: &[SocketAddr]) -> io::Result<Arc<Attachment>> {
        let mut attached = self.attached.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(program) = &attached.program {
            return Ok(program.clone());
        }
        let network = &self.network;
        let rule = match network.frames {
            Frames::All => Rule::All,
            Frames::Listeners => {
                let ips = || listeners.iter().map(SocketAddr::ip);
                let mut ports: Vec<u16> = listeners.iter().map(SocketAddr::port).collect();
                ports.sort_unstable();
                ports.dedup();
                Rule::Shared {
                    ipv4: ips().find_map(|ip| match ip {
                        IpAddr::V4(ip) => Some(ip),
                        IpAddr::V6(_) => None,
                    }),
                    ipv6: ips().find_map(|ip| match ip {
                        IpAddr::V6(ip) => Some(ip),
                        IpAddr::V4(_) => None,
                    }),
                    ports,
                }
            }
        };
        let queues = u32::from(network.threads_count);
        let program = Arc::new(Attachment::attach(&network.interface, &rule, mode, queues)?);
        attached.program = Some(program.clone());
        Ok(program)
    }
}

/// Binds a socket of the kernel to an address, without listening, and with port 0 chooses the port.
/// Without a socket if the kernel does not have the address.
fn reserve(address: SocketAddr) -> io::Result<(SocketAddr, Option<OwnedFd>)> {
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let flags = SocketFlags::CLOEXEC;
    let socket = socket_with(family, SocketType::STREAM, flags, Some(ipproto::TCP))?;
    match bind(&socket, &address) {
        Ok(()) => Ok((SocketAddr::try_from(getsockname(&socket)?)?, Some(socket))),
        Err(Errno::ADDRNOTAVAIL) => Ok((address, None)),
        Err(error) => Err(error.into()),
    }
}

//! The carriers of a case, made for it: namespaces, interfaces, devices.
//!
//! Everything ends with the values: a namespace with its last socket and descriptor, interfaces
//! with their namespace. The programs `ip`, `tc` and `unshare` do the rest of the work.

use std::io;
use std::net::Ipv4Addr;
use std::os::fd::BorrowedFd;
use std::process::Command;

use anyhow::{Context, ensure};
use net::device::Device;
use net::device::pair::{Pair, pair};
use net::device::tun::Tun;
use net::device::xdp::{Attachment, Copying, Mode, Options, Rule, Xdp};
use net::system::NetworkNamespace;

use super::cases::{Link, Veth};
use super::frame::PORT;

/// Places of each direction of shared memory: those of a socket's rings.
const PAIR_PLACES: usize = 4_096;

/// Addresses of the two ends.
pub const SENDER: Ipv4Addr = Ipv4Addr::new(10, 77, 1, 2);
pub const RECEIVER: Ipv4Addr = Ipv4Addr::new(10, 77, 2, 2);

/// One end of a carrier.
pub enum End {
    Xdp(Box<Xdp>),
    Tun(Tun),
    Pair(Pair),
}

/// The ends of a case by queue, and everything that has to live as long as they do.
pub struct Network {
    /// Sender and receiver of each queue.
    pub queues: Vec<(End, End)>,
    _attachments: Vec<Attachment>,
}

impl Network {
    /// Makes the carriers. The calling thread is in its own namespace again afterwards.
    ///
    /// # Errors
    /// The process is not root, or a program is missing.
    pub fn make(link: &Link) -> anyhow::Result<Network> {
        let home = NetworkNamespace::current()?;
        let network = match link {
            Link::Veth(veth) => make_veth(veth),
            Link::Tun => make_tun(),
            Link::Pair => {
                let (sender, receiver) = pair(PAIR_PLACES)?;
                let queues = vec![(End::Pair(sender), End::Pair(receiver))];
                Ok(Network { queues, _attachments: Vec::new() })
            }
        };
        home.enter()?;
        network
    }
}

impl End {
    /// Options that have no effect here.
    pub fn unsupported(&self) -> &[&'static str] {
        match self {
            End::Xdp(device) => device.unsupported(),
            End::Tun(_) | End::Pair(_) => &[],
        }
    }

    /// The losses that the end has seen, for the table; empty without any.
    pub fn losses(&self) -> String {
        let End::Xdp(device) = self else {
            return String::new();
        };
        let Ok(seen) = device.statistics() else {
            return "no statistics".to_owned();
        };
        let reasons = [
            ("EBUSY", seen.dropped_by_peer),
            ("ring full", seen.ring_full + seen.received_dropped),
            ("invalid", seen.invalid),
        ];
        let seen = reasons.iter().filter(|(_, count)| *count > 0);
        seen.map(|(name, count)| format!("{name} {count}")).collect::<Vec<_>>().join(", ")
    }

    fn device(&self) -> &dyn Device {
        match self {
            End::Xdp(device) => device.as_ref(),
            End::Tun(device) => device,
            End::Pair(device) => device,
        }
    }
}

impl Device for End {
    fn receive(&mut self, frames_max: usize, each: &mut dyn FnMut(&[u8])) -> io::Result<usize> {
        match self {
            End::Xdp(device) => device.receive(frames_max, each),
            End::Tun(device) => device.receive(frames_max, each),
            End::Pair(device) => device.receive(frames_max, each),
        }
    }

    fn next_frame(&mut self) -> Option<&mut [u8]> {
        match self {
            End::Xdp(device) => device.next_frame(),
            End::Tun(device) => device.next_frame(),
            End::Pair(device) => device.next_frame(),
        }
    }

    fn queue(&mut self, length: usize) {
        match self {
            End::Xdp(device) => device.queue(length),
            End::Tun(device) => device.queue(length),
            End::Pair(device) => device.queue(length),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            End::Xdp(device) => device.flush(),
            End::Tun(device) => device.flush(),
            End::Pair(device) => device.flush(),
        }
    }

    fn unsent(&mut self) -> usize {
        match self {
            End::Xdp(device) => device.unsent(),
            End::Tun(device) => device.unsent(),
            End::Pair(device) => device.unsent(),
        }
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.device().descriptor()
    }

    fn link_header_bytes(&self) -> usize {
        self.device().link_header_bytes()
    }
}

/// Pairs of interfaces between two namespaces, with programs and sockets at both ends.
fn make_veth(veth: &Veth) -> anyhow::Result<Network> {
    let [sender, receiver] = [NetworkNamespace::create(), NetworkNamespace::create()];
    let (sender, receiver) = (sender.context("a namespace")?, receiver.context("a namespace")?);
    sender.enter()?;
    let queues = format!("numrxqueues {0} numtxqueues {0}", veth.queues);
    for number in 0..veth.pairs {
        run(
            "ip",
            &format!(
                "link add dev sender{number} {queues} type veth peer name receiver{number} {queues} netns {}",
                receiver.path()
            ),
        )?;
    }
    let mut attachments = Vec::new();
    let mut ends = [Vec::new(), Vec::new()];
    let hosts = [(&sender, "sender", SENDER), (&receiver, "receiver", RECEIVER)];
    for ((namespace, prefix, address), ends) in hosts.into_iter().zip(&mut ends) {
        namespace.enter()?;
        for number in 0..veth.pairs {
            let name = format!("{prefix}{number}");
            run("ip", &format!("link set {name} addrgenmode none up"))?;
            let attachment = attach(veth, &name, address)?;
            let options = Options { copying: Copying::Copy, ..veth.socket.clone() };
            for queue in 0..veth.queues {
                ends.push(End::Xdp(Box::new(attachment.open(queue, &options)?)));
            }
            attachments.push(attachment);
            set_up(veth, &name)?;
        }
    }
    let [senders, receivers] = ends;
    Ok(Network { queues: senders.into_iter().zip(receivers).collect(), _attachments: attachments })
}

fn attach(veth: &Veth, name: &str, address: Ipv4Addr) -> anyhow::Result<Attachment> {
    ensure!(
        veth.mode == Mode::Native || veth.queues == 1,
        "in generic mode frames change their queue: use several pairs"
    );
    let rule = if veth.has_port {
        Rule::Shared { ipv4: Some(address), ipv6: None, ports: vec![PORT] }
    } else {
        Rule::All
    };
    Ok(Attachment::attach(name, &rule, veth.mode, veth.queues)?)
}

/// The qdisc and the files of an interface. A queue is polled by a thread only after its program is
/// attached.
fn set_up(veth: &Veth, name: &str) -> anyhow::Result<()> {
    if veth.has_pfifo {
        run("tc", &format!("qdisc replace dev {name} root pfifo limit 1000"))?;
    }
    let mut files = Vec::new();
    if veth.is_threaded {
        files.push(("threaded", 1));
    }
    if veth.is_deferred {
        files.push(("napi_defer_hard_irqs", 100));
        files.push(("gro_flush_timeout", 2_000_000));
    }
    if files.is_empty() {
        return Ok(());
    }
    // The namespace's own sysfs, which a mount namespace of the command hides from everything else.
    let writes = files.iter().map(|(file, value)| format!("echo {value} > {file}"));
    let script = format!(
        "mount -t sysfs sysfs /sys && cd /sys/class/net/{name} && {}",
        writes.collect::<Vec<_>>().join(" && ")
    );
    run_with("unshare", &["--mount", "sh", "-c", &script])
}

/// Two TUN interfaces in one namespace, which forwards between them.
fn make_tun() -> anyhow::Result<Network> {
    NetworkNamespace::create().context("a namespace")?.enter()?;
    let mut ends = Vec::new();
    for (name, address) in [("sender", SENDER), ("receiver", RECEIVER)] {
        ends.push(End::Tun(Tun::open(name)?));
        let [a, b, c, _] = address.octets();
        run("ip", &format!("address add {a}.{b}.{c}.1/24 dev {name}"))?;
        run("ip", &format!("link set {name} addrgenmode none up"))?;
    }
    std::fs::write("/proc/sys/net/ipv4/ip_forward", "1").context("ip_forward")?;
    let receiver = ends.pop().context("two ends")?;
    let sender = ends.pop().context("two ends")?;
    Ok(Network { queues: vec![(sender, receiver)], _attachments: Vec::new() })
}

/// Runs a program in the calling thread's namespace, with arguments between spaces.
fn run(program: &str, arguments: &str) -> anyhow::Result<()> {
    run_with(program, &arguments.split(' ').collect::<Vec<_>>())
}

fn run_with(program: &str, arguments: &[&str]) -> anyhow::Result<()> {
    let result = Command::new(program).args(arguments).output().context(program.to_owned())?;
    let error = String::from_utf8_lossy(&result.stderr);
    ensure!(result.status.success(), "{program} {}: {}", arguments.join(" "), error.trim());
    Ok(())
}

//! A service manager beside the node: what it is told, by whom, and the sockets that it passes on.
//!
//! It is one of the tests' own: a socket for datagrams that knows who has sent each, as systemd
//! does, which believes only the process that is the service (`NotifyAccess=main`).

use std::fs;
use std::io::IoSliceMut;
use std::mem::MaybeUninit;
use std::os::unix::net::UnixDatagram;

use end_to_end::PATIENCE;
use end_to_end::curl::{curl, publish};
use end_to_end::metrics::Metrics;
use end_to_end::server::{Place, Server};
use end_to_end::successor::Successor;
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg, sockopt};

struct Manager {
    socket: UnixDatagram,
    assignment: String,
}

/// A datagram, and the process that has sent it.
#[derive(Debug)]
struct Told {
    by: u32,
    lines: String,
}

impl Told {
    /// The value of a line.
    fn value(&self, name: &str) -> Option<&str> {
        let mut lines = self.lines.lines();
        lines.find_map(|line| line.strip_prefix(name)?.strip_prefix('='))
    }

    fn number(&self, name: &str) -> u64 {
        let number = self.value(name).and_then(|text| text.parse().ok());
        number.unwrap_or_else(|| panic!("no number {name}: {self:?}"))
    }
}

impl Manager {
    fn new(place: &Place) -> Manager {
        let path = place.path("notify");
        let socket = UnixDatagram::bind(&path).expect("a free path");
        let patience = socket.set_read_timeout(Some(PATIENCE));
        patience.expect("an open socket");
        sockopt::set_socket_passcred(&socket, true).expect("an open socket");
        let assignment = format!("NOTIFY_SOCKET={}", path.display());
        Manager { socket, assignment }
    }

    fn start(&self, place: &mut Place, words: &[&str]) -> Server {
        let process = place.launch_by(&[&["env", &self.assignment], words].concat());
        place.started(process)
    }

    /// What is told next.
    fn next(&self) -> Told {
        let mut bytes = [0; 1_024];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmCredentials(1))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let mut into = [IoSliceMut::new(&mut bytes)];
        let received = recvmsg(&self.socket, &mut into, &mut ancillary, RecvFlags::empty());
        let length = received.expect("a datagram").bytes;
        let sender = ancillary.drain().find_map(|message| match message {
            RecvAncillaryMessage::ScmCredentials(sender) => Some(sender.pid.as_raw_nonzero()),
            _ => None,
        });
        Told {
            by: sender.expect("a sender").get().unsigned_abs(),
            lines: String::from_utf8_lossy(&bytes[..length]).into_owned(),
        }
    }

    /// The next of which this holds; others are passed over.
    fn wait_for(&self, is_so: impl Fn(&Told) -> bool) -> Told {
        loop {
            let told = self.next();
            if is_so(&told) {
                return told;
            }
        }
    }
}

#[test]
fn ready_reloads_and_the_end() {
    let mut place = Place::new("127.0.0.1:0");
    let manager = Manager::new(&place);
    let server = manager.start(&mut place, &[]);
    let node = server.process.id();
    let ready = manager.next();
    assert_eq!((ready.by, ready.value("READY")), (node, Some("1")));
    assert_eq!(ready.value("STATUS"), Some("serves"));
    server.process.signal("HUP");
    let reloading = manager.next();
    assert_eq!(reloading.value("RELOADING"), Some("1"));
    let first = reloading.number("MONOTONIC_USEC");
    assert!(first > 0);
    assert_eq!(manager.next().value("READY"), Some("1"));
    // Also of one that changes nothing.
    fs::write(place.path("crore.toml"), "[limits]\nnonsense = 1\n").expect("our folder");
    server.process.signal("HUP");
    assert!(manager.next().number("MONOTONIC_USEC") > first);
    let status = manager.next();
    assert!(status.value("STATUS").is_some_and(|text| text.contains("faulty")), "{status:?}");
    server.process.signal("TERM");
    let stopping = manager.next();
    assert_eq!(stopping.value("STOPPING"), Some("1"));
    assert!(stopping.number("EXTEND_TIMEOUT_USEC") > 0);
    server.end().assert_success();
}

/// Signs of life go on when another process takes the node's place, although the watchdog was set
/// for the one before; that one says who it is.
#[test]
fn an_upgrade_and_the_watchdog() {
    let mut place = Place::new("127.0.0.1:0");
    let manager = Manager::new(&place);
    let for_itself = "WATCHDOG_PID=$$ exec \"$0\" \"$@\"";
    let words = ["WATCHDOG_USEC=200000", "sh", "-c", for_itself];
    let server = manager.start(&mut place, &words);
    let old = server.process.id();
    let lives = |told: &Told| told.value("WATCHDOG") == Some("1");
    assert_eq!(manager.wait_for(lives).by, old);
    server.process.signal("USR2");
    // The new one is ready before or after the old one has said so.
    let mut new = None;
    let mut is_ready = false;
    while new.is_none() || !is_ready {
        let told = manager.next();
        is_ready |= told.by != old && told.value("READY") == Some("1");
        if told.value("MAINPID").is_some() {
            assert_eq!(told.by, old, "only the one that is believed can say it");
            new = Some(told.number("MAINPID") as u32);
        }
    }
    let new = new.expect("a process");
    let successor = Successor::new(new);
    assert_ne!(new, old);
    manager.wait_for(|told| told.by == new && lives(told));
    publish(&server.url("/topics/news"), "by the new one");
    successor.signal("HUP");
    let reloading = manager.wait_for(|told| told.value("RELOADING").is_some());
    assert_eq!(reloading.by, new);
    assert!(reloading.number("MONOTONIC_USEC") > 0);
    manager.wait_for(|told| told.by == new && told.value("READY").is_some());
    successor.signal("TERM");
    let stopping = manager.wait_for(|told| told.value("STOPPING").is_some());
    assert_eq!(stopping.by, new);
    // Both have the same output.
    server.end().assert_success();
    successor.has_ended();
}

/// Who is watched and wants no signs of life of this process gets none: those of another one are
/// asked for.
#[test]
fn a_watchdog_of_somebody_else() {
    let mut place = Place::new("127.0.0.1:0");
    let manager = Manager::new(&place);
    let server = manager.start(&mut place, &["WATCHDOG_USEC=1000", "WATCHDOG_PID=1"]);
    server.process.signal("TERM");
    let mut told = manager.next();
    while told.value("STOPPING").is_none() {
        assert_eq!(told.value("WATCHDOG"), None, "{told:?}");
        told = manager.next();
    }
    server.end().assert_success();
}

/// Sockets that a service manager has opened: what waits in their queue when the node ends is
/// served by the next.
#[test]
fn inherited_sockets_outlive_a_node() {
    // First all of them out of the way of the numbers that they are to have.
    const SCRIPT: &str = "import fcntl, os, socket, sys\n\
        names = sys.argv[1].split(':')\n\
        bound = []\n\
        for port in sys.argv[2].split(':'):\n\
        \x20   s = socket.socket()\n\
        \x20   s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)\n\
        \x20   s.bind(('127.0.0.1', int(port)))\n\
        \x20   s.listen(64)\n\
        \x20   bound.append(fcntl.fcntl(s.fileno(), fcntl.F_DUPFD_CLOEXEC, 100))\n\
        \x20   s.close()\n\
        for place, number in enumerate(bound):\n\
        \x20   os.dup2(number, 3 + place)\n\
        os.environ.update(LISTEN_PID=str(os.getpid()), LISTEN_FDS=str(len(names)), LISTEN_FDNAMES=sys.argv[1])\n\
        os.execvp(sys.argv[3], sys.argv[3:])\n";
    let mut place = Place::new("127.0.0.1:0");
    place.configure("[node]\nio_threads = 2\ndrain_window = \"2s\"\n");
    let launched = place.launch_by(&["python3", "-c", SCRIPT, "clients:operators", "0:0"]);
    let server = place.started(launched);
    for number in 0..20 {
        publish(&server.url("/topics/news"), &number.to_string());
    }
    curl(&[&server.operators_url("/readyz")]).expect(200);
    let accepted = Metrics::of(&server.operators).scrape();
    assert!(accepted.number("crore_connections_accepted_total") >= 20);
    server.process.signal("TERM");
    server.end().assert_success();

    let refused = place.launch_by(&["python3", "-c", SCRIPT, "mqtt", "0"]).end();
    assert_eq!(refused.status.code(), Some(1), "{refused:?}");
    assert!(refused.lines.join("\n").contains("mqtt"), "{refused:?}");
}

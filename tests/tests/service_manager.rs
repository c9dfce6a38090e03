//! A service manager beside the node: its notifications, their sender, and the sockets that it
//! passes on.
//!
//! The tests have their own: a datagram socket that knows the sender of each datagram, as in
//! systemd, and trusts only the main process of the service (`NotifyAccess=main`).

use std::fs;
use std::io::IoSliceMut;
use std::mem::MaybeUninit;
use std::os::unix::net::UnixDatagram;

use end_to_end::PATIENCE;
use end_to_end::curl::{curl, publish};
use end_to_end::metrics::Metrics;
use end_to_end::server::{Place, Server};
use end_to_end::successor::Successor;
use rustix::io::retry_on_intr;
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg, sockopt};

struct Manager {
    socket: UnixDatagram,
    assignment: String,
}

/// A datagram, and its sending process.
#[derive(Debug)]
struct Notification {
    by: u32,
    lines: String,
}

impl Notification {
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

    /// The next notification.
    fn next(&self) -> Notification {
        let mut bytes = [0; 1_024];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmCredentials(1))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let mut into = [IoSliceMut::new(&mut bytes)];
        let received =
            retry_on_intr(|| recvmsg(&self.socket, &mut into, &mut ancillary, RecvFlags::empty()));
        let length = received.expect("a datagram").bytes;
        let sender = ancillary.drain().find_map(|message| match message {
            RecvAncillaryMessage::ScmCredentials(sender) => Some(sender.pid.as_raw_nonzero()),
            _ => None,
        });
        Notification {
            by: sender.expect("a sender").get().unsigned_abs(),
            lines: String::from_utf8_lossy(&bytes[..length]).into_owned(),
        }
    }

    /// The next notification for which `is_so` holds; others are skipped.
    fn wait_for(&self, is_so: impl Fn(&Notification) -> bool) -> Notification {
        loop {
            let notification = self.next();
            if is_so(&notification) {
                return notification;
            }
        }
    }
}

#[test]
fn start_reloads_and_stop_are_notified() {
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
    // Also after a reload that changes nothing.
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

/// Watchdog notifications continue after another process has replaced the node, although the
/// watchdog was set for the previous one; the new process reports its number.
#[test]
fn watchdog_notifications_survive_an_upgrade() {
    let mut place = Place::new("127.0.0.1:0");
    let manager = Manager::new(&place);
    let for_itself = "WATCHDOG_PID=$$ exec \"$0\" \"$@\"";
    let words = ["WATCHDOG_USEC=200000", "sh", "-c", for_itself];
    let server = manager.start(&mut place, &words);
    let old = server.process.id();
    let lives = |notification: &Notification| notification.value("WATCHDOG") == Some("1");
    assert_eq!(manager.wait_for(lives).by, old);
    server.process.signal("USR2");
    // The new process may be ready before or after the old one has reported it.
    let mut new = None;
    let mut is_ready = false;
    while new.is_none() || !is_ready {
        let notification = manager.next();
        is_ready |= notification.by != old && notification.value("READY") == Some("1");
        if notification.value("MAINPID").is_some() {
            assert_eq!(notification.by, old, "only the trusted process may notify");
            new = Some(notification.number("MAINPID") as u32);
        }
    }
    let new = new.expect("a process");
    let successor = Successor::new(new);
    assert_ne!(new, old);
    manager.wait_for(|notification| notification.by == new && lives(notification));
    publish(&server.url("/topics/news"), "by the new one");
    successor.signal("HUP");
    let reloading = manager.wait_for(|notification| notification.value("RELOADING").is_some());
    assert_eq!(reloading.by, new);
    assert!(reloading.number("MONOTONIC_USEC") > 0);
    manager
        .wait_for(|notification| notification.by == new && notification.value("READY").is_some());
    successor.signal("TERM");
    let stopping = manager.wait_for(|notification| notification.value("STOPPING").is_some());
    assert_eq!(stopping.by, new);
    // Both have the same output.
    server.end().assert_success();
    successor.has_ended();
}

/// A node sends no watchdog notifications if the watchdog is set for another process.
#[test]
fn a_watchdog_for_another_process_is_ignored() {
    let mut place = Place::new("127.0.0.1:0");
    let manager = Manager::new(&place);
    let server = manager.start(&mut place, &["WATCHDOG_USEC=1000", "WATCHDOG_PID=1"]);
    server.process.signal("TERM");
    let mut notification = manager.next();
    while notification.value("STOPPING").is_none() {
        assert_eq!(notification.value("WATCHDOG"), None, "{notification:?}");
        notification = manager.next();
    }
    server.end().assert_success();
}

/// Sockets opened by a service manager: connections in their queue at the node's end are served by
/// the next node.
#[test]
fn inherited_sockets_outlive_a_node() {
    // First moves all of them away from the numbers that they will get.
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

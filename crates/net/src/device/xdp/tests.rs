//! Programs about single frames, and sockets on veth in namespaces of their own.

use std::cell::Cell;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream, UdpSocket};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};

use super::super::testing::{PATIENCE, in_namespace, ip, receive_until, send};
use super::*;
use crate::device::Device;
use crate::system::NetworkNamespace;

const DROP: u32 = 1;
const PASS: u32 = 2;
const REDIRECT: u32 = 4;

const IPV4: Ipv4Addr = Ipv4Addr::new(10, 9, 0, 2);
const IPV6: Ipv6Addr = Ipv6Addr::new(0xfd00, 0, 0, 9, 0, 0, 0, 2);
const PORTS: [u16; 3] = [80, 8_800, 65_535];

fn shared(ipv4: Option<Ipv4Addr>, ipv6: Option<Ipv6Addr>, ports: &[u16]) -> Rule {
    Rule::Shared { ipv4, ipv6, ports: ports.to_vec() }
}

/// A loaded program, with an unbound socket for queue 0.
struct Loaded {
    program: OwnedFd,
    _map: OwnedFd,
    _socket: OwnedFd,
}

/// `None`, with the reason printed, if the process lacks the rights.
fn load(rule: &Rule) -> Option<Loaded> {
    let map = match bpf::create_map(4) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            println!("skipped: XDP programs need CAP_BPF and CAP_NET_ADMIN");
            return None;
        }
        map => map.expect("a map"),
    };
    let program = bpf::load(&rule.program(map.as_raw_fd())).expect("the verifier accepts it");
    let socket = socket_with(AddressFamily::XDP, SocketType::RAW, SocketFlags::CLOEXEC, None);
    let socket = socket.expect("CAP_NET_RAW");
    bpf::set_socket(map.as_fd(), 0, socket.as_fd()).expect("room");
    Some(Loaded { program, _map: map, _socket: socket })
}

/// A frame of TCP over IPv4 to an address and a port; `options` are words behind the IP header.
fn tcp4(target: Ipv4Addr, port: u16, fragment: u16, options: u8) -> Vec<u8> {
    let mut frame = vec![0; 12];
    frame.extend([0x08, 0x00, 0x45 + options, 0, 0, 0, 0, 0]);
    frame.extend(fragment.to_be_bytes());
    frame.extend([64, 6, 0, 0, 10, 9, 0, 1]);
    frame.extend(target.octets());
    frame.extend(vec![1; usize::from(options) * 4]);
    tcp(frame, port)
}

fn tcp6(target: Ipv6Addr, port: u16, next: u8) -> Vec<u8> {
    let mut frame = vec![0; 12];
    frame.extend([0x86, 0xdd, 0x60, 0, 0, 0, 0, 20, next, 64]);
    frame.extend(Ipv6Addr::LOCALHOST.octets());
    frame.extend(target.octets());
    tcp(frame, port)
}

fn tcp(mut frame: Vec<u8>, port: u16) -> Vec<u8> {
    frame.extend(40_000_u16.to_be_bytes());
    frame.extend(port.to_be_bytes());
    frame.extend([0; 16]);
    frame
}

#[test]
fn every_variant_of_the_program_loads() {
    let many: Vec<u16> = (1..=PORTS_MAX as u16).collect();
    let mut rules = vec![Rule::All];
    for ports in [&PORTS[..1], &PORTS[..], &many] {
        for (ipv4, ipv6) in [(Some(IPV4), Some(IPV6)), (Some(IPV4), None), (None, Some(IPV6))] {
            rules.push(shared(ipv4, ipv6, ports));
        }
    }
    for rule in rules {
        assert!(rule.is_valid());
        load(&rule);
    }
}

#[test]
fn a_program_needs_an_address_and_a_bounded_number_of_ports() {
    assert!(!shared(None, None, &PORTS).is_valid());
    assert!(!shared(Some(IPV4), None, &[]).is_valid());
    assert!(!shared(Some(IPV4), None, &[80; PORTS_MAX + 1]).is_valid());
}

/// Compares the verdicts of the program for both addresses and all ports.
#[test]
fn the_program_takes_tcp_to_its_addresses_and_ports_and_nothing_else() {
    let Some(loaded) = load(&shared(Some(IPV4), Some(IPV6), &PORTS)) else { return };
    let change = |mut frame: Vec<u8>, place: usize, byte: u8| {
        frame[place] = byte;
        frame
    };
    let cut = |mut frame: Vec<u8>, length: usize| {
        frame.truncate(length);
        frame
    };
    let other4 = Ipv4Addr::new(10, 9, 0, 3);
    let other6 = Ipv6Addr::new(0xfd00, 0, 0, 9, 0, 0, 0, 3);
    let far6 = Ipv6Addr::new(0xfd01, 0, 0, 9, 0, 0, 0, 2);
    let cases = [
        ("first port", REDIRECT, tcp4(IPV4, 80, 0, 0)),
        ("second port", REDIRECT, tcp4(IPV4, 8_800, 0, 0)),
        ("last port", REDIRECT, tcp4(IPV4, 65_535, 0, 0)),
        ("don't fragment", REDIRECT, tcp4(IPV4, 80, 0x4000, 0)),
        ("IP options", REDIRECT, tcp4(IPV4, 80, 0, 10)),
        ("other port", PASS, tcp4(IPV4, 81, 0, 0)),
        ("port in the other order", PASS, tcp4(IPV4, 80_u16.swap_bytes(), 0, 0)),
        ("other address", PASS, tcp4(other4, 80, 0, 0)),
        ("UDP", PASS, change(tcp4(IPV4, 80, 0, 0), 23, 17)),
        ("first fragment", DROP, tcp4(IPV4, 80, 0x2000, 0)),
        ("first fragment to another port", PASS, tcp4(IPV4, 81, 0x2000, 0)),
        ("later fragment", PASS, tcp4(IPV4, 80, 0x2001, 0)),
        ("last fragment", PASS, tcp4(IPV4, 80, 0x0100, 0)),
        ("header of 16 bytes", PASS, change(tcp4(IPV4, 80, 0, 0), 14, 0x44)),
        ("header beyond the frame", PASS, change(tcp4(IPV4, 80, 0, 0), 14, 0x4f)),
        ("short", PASS, cut(tcp4(IPV4, 80, 0, 0), 53)),
        ("short with options", PASS, cut(tcp4(IPV4, 80, 0, 1), 57)),
        ("IPv6", REDIRECT, tcp6(IPV6, 8_800, 6)),
        ("IPv6, other port", PASS, tcp6(IPV6, 8_801, 6)),
        ("IPv6, other address", PASS, tcp6(other6, 80, 6)),
        ("IPv6, other network", PASS, tcp6(far6, 80, 6)),
        ("IPv6, extension", PASS, tcp6(IPV6, 80, 44)),
        ("IPv6, short", PASS, cut(tcp6(IPV6, 80, 6), 73)),
        ("ARP", PASS, change(tcp4(IPV4, 80, 0, 0), 13, 0x06)),
        ("VLAN", PASS, change(change(tcp4(IPV4, 80, 0, 0), 12, 0x81), 13, 0)),
        ("link header alone", PASS, cut(tcp4(IPV4, 80, 0, 0), 14)),
    ];
    for (name, verdict, frame) in cases {
        let seen = bpf::trial::run(loaded.program.as_fd(), &frame).expect("a run");
        assert_eq!(seen, verdict, "{name}");
    }
}

#[test]
fn a_program_for_one_family_leaves_the_other_to_the_kernel() {
    let verdicts = |rule: &Rule| {
        let loaded = load(rule)?;
        let run = |frame: &[u8]| bpf::trial::run(loaded.program.as_fd(), frame).expect("a run");
        Some([run(&tcp4(IPV4, 80, 0, 0)), run(&tcp6(IPV6, 80, 6))])
    };
    for (rule, expected) in [
        (shared(Some(IPV4), None, &PORTS), [REDIRECT, PASS]),
        (shared(None, Some(IPV6), &PORTS), [PASS, REDIRECT]),
        (Rule::All, [REDIRECT, REDIRECT]),
    ] {
        assert!(verdicts(&rule).is_none_or(|seen| seen == expected), "{rule:?}");
    }
}

/// A pair of interfaces, `one` and `other`, up and without addresses.
fn make_veth(queues: u32) {
    let queues = format!("numrxqueues {queues} numtxqueues {queues}");
    ip(&format!("link add dev one {queues} type veth peer name other {queues}"));
    for name in ["one", "other"] {
        ip(&format!("link set {name} addrgenmode none up"));
    }
}

#[test]
fn frames_cross_a_veth_pair_in_both_modes_and_natively_on_two_queues() {
    for (mode, queues) in [(Mode::Native, 2), (Mode::Generic, 1)] {
        in_namespace(|_| {
            make_veth(queues);
            let options = Options { copying: Copying::Copy, ..Options::default() };
            let one = Attachment::attach("one", &Rule::All, mode, queues).expect("attached");
            let other = Attachment::attach("other", &Rule::All, mode, queues).expect("attached");
            for queue in 0..queues {
                let mut one = one.open(queue, &options).expect("a socket");
                let mut other = other.open(queue, &options).expect("a socket");
                cross(&mut one, &mut other);
                cross(&mut other, &mut one);
                // Neither end has lost a place.
                let seen = [one.statistics(), other.statistics()].map(|seen| seen.expect("a call"));
                assert!(seen.iter().all(|seen| *seen == Statistics::default()), "{seen:?}");
            }
        });
    }
}

/// Sends more frames than the rings have places, in batches that the peer's ring can hold.
fn cross(from: &mut Xdp, to: &mut Xdp) {
    let next = Cell::new(0_u32);
    for batch in 1..=100_u32 {
        for number in (batch - 1) * 100..batch * 100 {
            let place = from.next_frame().expect("room");
            place[..60].fill(2);
            place[14..18].copy_from_slice(&number.to_be_bytes());
            from.queue(60 + number as usize % 1_000);
        }
        from.flush().expect("an interface that is up");
        let mut each = |frame: &[u8]| {
            assert_eq!(frame[14..18], next.get().to_be_bytes());
            assert_eq!(frame.len(), 60 + next.get() as usize % 1_000);
            next.set(next.get() + 1);
        };
        assert!(receive_until(to, &mut each, &|| next.get() == batch * 100), "only {}", next.get());
    }
}

#[test]
fn the_kernel_gets_an_answer_to_its_datagram() {
    for mode in [Mode::Native, Mode::Generic] {
        in_namespace(|_| {
            make_veth(1);
            ip("address add 10.9.0.1/24 dev one");
            ip("neighbour add 10.9.0.2 lladdr 02:00:00:00:00:02 dev one");
            let attachment = Attachment::attach("other", &Rule::All, mode, 1).expect("attached");
            let mut device = attachment.open(0, &Options::default()).expect("a socket");
            let socket = UdpSocket::bind("10.9.0.1:7000").expect("an address");
            socket.set_read_timeout(Some(PATIENCE)).expect("an option");
            socket.send_to(b"question", "10.9.0.2:7001").expect("a route");
            let question = Cell::new(Vec::new());
            let is_asked = Cell::new(false);
            let mut each = |frame: &[u8]| {
                if frame.ends_with(b"question") {
                    question.set(frame.to_vec());
                    is_asked.set(true);
                }
            };
            assert!(receive_until(&mut device, &mut each, &|| is_asked.get()));
            send(&mut device, &answer(&question.take()));
            let mut buffer = [0; 100];
            let (length, sender) = socket.recv_from(&mut buffer).expect("an answer in time");
            assert_eq!(&buffer[..length], b"question");
            assert_eq!(sender, SocketAddr::from((IPV4, 7001)));
        });
    }
}

/// A datagram back to its sender, without a checksum: that of the kernel is unfinished.
fn answer(frame: &[u8]) -> Vec<u8> {
    let parts = [&frame[6..12], &frame[..6], &frame[12..26], &frame[30..34], &frame[26..30]];
    let mut answer = parts.concat();
    answer.extend([&frame[36..38], &frame[34..36], &frame[38..40], &[0, 0], &frame[42..]].concat());
    answer
}

#[test]
fn shared_mode_takes_its_port_and_leaves_others_to_the_kernel() {
    in_namespace(|_| {
        let client = NetworkNamespace::create().expect("as the first one");
        ip(&format!("link add dev other type veth peer name one netns {}", client.path()));
        ip("address add 10.9.0.2/24 dev other");
        ip("link set other up");
        let rule = shared(Some(IPV4), None, &PORTS);
        let attachment = Attachment::attach("other", &rule, Mode::Native, 1).expect("attached");
        let mut device = attachment.open(0, &Options::default()).expect("a socket");
        client.enter().expect("as the first one");
        ip("address add 10.9.0.1/24 dev one");
        ip("link set one up");
        let connect = |port: u16, time: Duration| {
            TcpStream::connect_timeout(&SocketAddr::from((IPV4, port)), time)
        };
        // The kernel answers ARP, and refuses the port.
        let refused = connect(81, PATIENCE).expect_err("nothing listens");
        assert_eq!(refused.kind(), io::ErrorKind::ConnectionRefused);
        let unanswered = connect(8_800, Duration::from_millis(1)).expect_err("nothing answers");
        assert_eq!(unanswered.kind(), io::ErrorKind::TimedOut);
        let is_there = Cell::new(false);
        let mut each = |frame: &[u8]| {
            assert_eq!(frame[36..38], 8_800_u16.to_be_bytes());
            is_there.set(true);
        };
        assert!(receive_until(&mut device, &mut each, &|| is_there.get()));
    });
}

#[test]
fn an_attachment_ends_with_its_value_and_excludes_another() {
    in_namespace(|_| {
        make_veth(1);
        let attach = || Attachment::attach("one", &Rule::All, Mode::Native, 1);
        let first = attach().expect("attached");
        let error = attach().expect_err("there is one").to_string();
        assert!(error.starts_with("cannot attach the XDP program natively to one: "), "{error}");
        drop(first);
        attach().expect("attached again");
    });
}

#[test]
fn an_error_names_the_step() {
    in_namespace(|_| {
        make_veth(1);
        let text = |result: io::Result<()>| result.expect_err("refused").to_string();
        let attach = |name| Attachment::attach(name, &Rule::All, Mode::Native, 1);
        let missing = text(attach("nothing").map(drop));
        assert!(missing.starts_with("cannot find the interface nothing: "), "{missing}");
        let attachment = attach("one").expect("attached");
        let options = Options::default();
        let _first = attachment.open(0, &options).expect("a socket");
        let second = text(attachment.open(0, &options).map(drop));
        assert!(second.starts_with("cannot bind to queue 0 of one (it has another socket): "));
        let odd = Options { receive_frames: 100, ..Options::default() };
        assert!(text(attachment.open(0, &odd).map(drop)).contains("power of two"));
        let zero_copy = Options { copying: Copying::ZeroCopy, ..Options::default() };
        let attachment =
            Attachment::attach("other", &Rule::All, Mode::Native, 1).expect("attached");
        let refused = text(attachment.open(0, &zero_copy).map(drop));
        assert!(refused.contains("zero-copy"), "{refused}");
    });
}

#[test]
fn frames_without_room_at_the_receiver_are_counted() {
    in_namespace(|_| {
        make_veth(1);
        let one = Attachment::attach("one", &Rule::All, Mode::Native, 1).expect("attached");
        let other = Attachment::attach("other", &Rule::All, Mode::Native, 1).expect("attached");
        let few = Options { receive_frames: 64, ..Options::default() };
        let mut one = one.open(0, &Options::default()).expect("a socket");
        let mut other = other.open(0, &few).expect("a socket");
        for _ in 0..100 {
            one.next_frame().expect("room")[..60].fill(2);
            one.queue(60);
        }
        one.flush().expect("an interface that is up");
        let deadline = Instant::now() + PATIENCE;
        let lost = |other: &Xdp| other.statistics().expect("a call").received_dropped;
        while lost(&other) < 36 && Instant::now() < deadline {
            std::thread::yield_now();
        }
        assert_eq!(lost(&other), 36);
        assert_eq!(other.receive(100, &mut |_| {}).expect("usable"), 64);
    });
}

#[test]
fn no_place_is_lost_while_both_ends_are_busy() {
    for mode in [Mode::Native, Mode::Generic] {
        in_namespace(|_| {
            make_veth(1);
            let one = Attachment::attach("one", &Rule::All, mode, 1).expect("attached");
            let other = Attachment::attach("other", &Rule::All, mode, 1).expect("attached");
            let few = Options { receive_frames: 64, send_frames: 64, ..Options::default() };
            let mut one = one.open(0, &few).expect("a socket");
            let mut other = other.open(0, &few).expect("a socket");
            let is_over = AtomicBool::new(false);
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    while !is_over.load(Ordering::Acquire) {
                        other.receive(7, &mut |_| {}).expect("an interface that is up");
                    }
                });
                for _ in 0..5_000 {
                    queue_all(&mut one, 64);
                    one.flush().expect("an interface that is up");
                }
                is_over.store(true, Ordering::Release);
            });
            let deadline = Instant::now() + PATIENCE;
            let is_in_time = || Instant::now() < deadline;
            while one.unsent() > 0 && is_in_time() {
                one.flush().expect("an interface that is up");
            }
            while other.receive(64, &mut |_| {}).expect("an interface that is up") > 0 {}
            let lost = |one: &Xdp, other: &Xdp| {
                let [one, other] = [one, other].map(|end| end.statistics().expect("a call"));
                one.dropped_by_peer + other.received_dropped
            };
            // All but the receiver's 64 places are lost, and all of the sender's come back.
            let before = lost(&one, &other);
            let mut sent = 0;
            while sent < 200 && is_in_time() {
                sent += queue_all(&mut one, 200 - sent);
                one.flush().expect("an interface that is up");
            }
            while lost(&one, &other) < before + 136 && is_in_time() {
                one.flush().expect("an interface that is up");
            }
            let mut each = |frame: &[u8]| assert_eq!(frame.len(), 60);
            assert_eq!(other.receive(1_000, &mut each).expect("as before"), 64, "{mode:?}");
            assert_eq!(queue_all(&mut one, 1_000), 64, "{mode:?}");
        });
    }
}

/// Queues frames until there is no place, at most this many; returns their number.
fn queue_all(device: &mut Xdp, frames_max: u32) -> u32 {
    let mut count = 0;
    while count < frames_max
        && let Some(place) = device.next_frame()
    {
        place[..60].fill(2);
        device.queue(60);
        count += 1;
    }
    count
}

#[test]
fn options_of_the_socket_are_set_or_reported() {
    in_namespace(|_| {
        make_veth(1);
        let options = Options {
            busy_poll: Some(BusyPoll { time_us: 20, frames: 64 }),
            send_buffer_bytes: Some(96_000),
            send_budget_frames: Some(256),
            need_wakeup: false,
            ..Options::default()
        };
        let one = Attachment::attach("one", &Rule::All, Mode::Native, 1).expect("attached");
        let other = Attachment::attach("other", &Rule::All, Mode::Native, 1).expect("attached");
        let mut one = one.open(0, &options).expect("a socket");
        let mut other = other.open(0, &options).expect("a socket");
        cross(&mut one, &mut other);
        println!("unsupported here: {:?}", other.unsupported());
        let few = Options { send_budget_frames: Some(31), ..Options::default() };
        let three = Attachment::attach("lo", &Rule::All, Mode::Generic, 1).expect("attached");
        let error = three.open(0, &few).map(|device| device.unsupported().to_vec());
        // Linux before 6.17 does not know the option.
        match error {
            Ok(unsupported) => assert_eq!(unsupported, ["XDP_MAX_TX_SKB_BUDGET"]),
            Err(error) => assert!(error.to_string().contains("XDP_MAX_TX_SKB_BUDGET to 31")),
        }
    });
}

#[test]
fn an_interface_that_is_gone_is_an_error() {
    in_namespace(|_| {
        make_veth(1);
        let attachment = Attachment::attach("one", &Rule::All, Mode::Native, 1).expect("attached");
        let mut device = attachment.open(0, &Options::default()).expect("a socket");
        ip("link delete one");
        device.next_frame().expect("room")[..60].fill(0);
        device.queue(60);
        let error = device.flush().expect_err("gone").to_string();
        assert!(error.starts_with("cannot send by an AF_XDP socket: "), "{error}");
    });
}

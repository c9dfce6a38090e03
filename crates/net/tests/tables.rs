//! Many threads, few descriptors: private tables, hand-over, the reserve, and what a sandbox
//! refuses.
//!
//! The whole process runs under a limit of 256 descriptors for each table.

mod harness;

use std::io::{ErrorKind, Read as _};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::{AsFd, RawFd};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Barrier, Once, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use harness::{PATIENCE, Side, loopback};
use net::Statistics;
use net::kernel::{Handover, Kernel, KernelOptions, ListenOptions, Waker, registered_room};
use net::system::{NofileLimit, TableRefused, nofile_limit, unshare_table};
use net::{Close, Event, Net, Read, Wake};
use rustix::process::{Resource, Rlimit, setrlimit};

const REFUSAL: &[u8] =
    b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 5\r\nContent-Length: 0\r\n\r\n";

#[test]
fn threads_hold_together_more_than_one_table_could() {
    limit_tables();
    let servers = Servers::start(4, |_| KernelOptions::default(), |_| true);
    assert_eq!(nofile_limit(), NofileLimit { soft: 256, hard: 256 });
    // Four client threads, with tables of their own too, of 150 connections each.
    let connected = Arc::new(Barrier::new(5));
    let checked = Arc::new(Barrier::new(5));
    let clients: Vec<_> = (0..4)
        .map(|_| {
            let (address, connected, checked) =
                (servers.address, Arc::clone(&connected), Arc::clone(&checked));
            thread::spawn(move || {
                unshare_table(&[]).expect("a table of its own");
                let mut client = Side::new();
                let keys: Vec<_> = (0..150).map(|_| client.connect(address)).collect();
                for _ in &keys {
                    let event = client.next();
                    assert!(matches!(event, Event::Connected(_)), "{event:?}");
                }
                for key in &keys {
                    client.write_all(*key, b"?");
                }
                for key in &keys {
                    let mut byte = [0; 1];
                    let deadline = Instant::now() + PATIENCE;
                    while client.net.read(*key, &mut byte) != Read::Data(1) {
                        assert!(Instant::now() < deadline, "no echo");
                        client.poll(Some(Duration::from_millis(50)));
                    }
                    assert_eq!(&byte, b"?");
                }
                connected.wait();
                checked.wait();
            })
        })
        .collect();
    connected.wait();
    let held: u32 = servers.mesh[0].loads().map(|(count, _)| count).sum();
    let rooms: Vec<u32> = servers.mesh[0].loads().map(|(_, max)| max).collect();
    checked.wait();
    for client in clients {
        client.join().expect("all were answered");
    }
    assert_eq!(held, 600);
    assert!(rooms.iter().all(|max| (151..=192).contains(max)), "{rooms:?}");
    let total = servers.stop();
    assert_eq!((total.accepted, total.refused, total.accept_errors.total()), (600, 0, 0));
}

/// The caller opens descriptors of its own later on, as a log does with each segment: connections
/// leave it what it asked for.
#[test]
fn descriptors_are_left_to_the_caller() {
    limit_tables();
    thread::spawn(|| {
        unshare_table(&[]).expect("a table of its own");
        const RESERVED: u32 = 100;
        let options = || KernelOptions { table_reserved: RESERVED, ..KernelOptions::default() };
        let servers = Servers::start(1, |_| options(), |_| true);
        let mut client = Side::with(options(), Handover::alone());
        let count = client.net.connections_max();
        let keys: Vec<_> = (0..count).map(|_| client.connect(servers.address)).collect();
        echo_all(&mut client, &keys);
        let own: Vec<_> = (0..RESERVED)
            .map_while(|_| std::io::stdin().as_fd().try_clone_to_owned().ok())
            .collect();
        assert_eq!(own.len(), RESERVED as usize);
        servers.stop();
    })
    .join()
    .expect("all were had");
}

#[test]
fn a_thread_holds_more_connections_than_its_table_has_entries() {
    limit_tables();
    if registered_room() == 0 {
        eprintln!("no io_uring here: nothing to test");
        return;
    }
    thread::spawn(|| {
        unshare_table(&[]).expect("a table of its own");
        let options = || KernelOptions { registered_max: 10_000, ..KernelOptions::default() };
        let servers = Servers::start(1, |_| options(), |_| true);
        let mut client = Side::with(options(), Handover::alone());
        assert!(client.net.connections_max() > 2_000);
        let mut keys: Vec<_> = (0..1_000).map(|_| client.connect(servers.address)).collect();
        echo_all(&mut client, &keys);
        // Those in the table and those beside it go, and others come in their places.
        for key in keys.drain(..500) {
            client.net.close(key, Close::Graceful);
        }
        keys.extend((0..600).map(|_| client.connect(servers.address)));
        echo_all(&mut client, &keys);
        for key in keys.drain(..) {
            client.net.close(key, Close::Reset);
        }
        let deadline = Instant::now() + PATIENCE;
        while servers.mesh[0].loads().any(|(count, _)| count > 0) {
            assert!(Instant::now() < deadline, "resets arrive");
            client.poll(Some(Duration::from_millis(10)));
        }
        let total = servers.stop();
        assert_eq!((total.accepted, total.refused, total.accept_errors.total()), (1_600, 0, 0));
    })
    .join()
    .expect("all were answered");
}

#[test]
fn a_full_thread_passes_connections_on() {
    limit_tables();
    let options =
        |thread| KernelOptions { connections_max: [5, 20, 30][thread], ..KernelOptions::default() };
    // Only the first listens, so that every connection comes to it.
    let servers = Servers::start(3, options, |thread| thread == 0);
    let mut client = Side::new();
    let keys: Vec<_> = (0..50).map(|_| client.connect(servers.address)).collect();
    echo_all(&mut client, &keys);
    let loads: Vec<(u32, u32)> = servers.mesh[0].loads().collect();
    assert_eq!(loads.iter().map(|(count, _)| count).sum::<u32>(), 50);
    assert!(loads[0].0 <= 5 && loads[1].0 > 0 && loads[2].0 > loads[1].0, "{loads:?}");
    drop(client);
    let total = servers.stop();
    assert_eq!((total.passed_on, total.taken_over), (45, 45));
    assert_eq!((total.accepted, total.refused, total.accept_errors.total()), (50, 0, 0));
}

#[test]
fn threads_that_share_one_table_help_each_other_too() {
    limit_tables();
    // A table for this test alone; the threads that it starts share it.
    thread::spawn(|| {
        unshare_table(&[]).expect("a table of its own");
        let options = |_| KernelOptions { table_threads_count: 3, ..KernelOptions::default() };
        let servers = Servers::start_with(2, Tables::Shared, options, |thread| thread == 0);
        let rooms: Vec<u32> = servers.mesh[0].loads().map(|(_, max)| max).collect();
        assert!(rooms.iter().all(|max| (10..=20).contains(max)), "{rooms:?}");
        let mut client = Side::new();
        let keys: Vec<_> = (0..20).map(|_| client.connect(servers.address)).collect();
        echo_all(&mut client, &keys);
        drop(client);
        let total = servers.stop();
        assert_eq!((total.accepted, total.passed_on), (20, 20 - u64::from(rooms[0])));
    })
    .join()
    .expect("all were answered");
}

#[test]
fn when_all_are_full_the_reserve_answers_and_room_is_used_again() {
    limit_tables();
    let options = |_| KernelOptions { connections_max: 3, ..KernelOptions::default() };
    let servers = Servers::start(2, options, |thread| thread == 0);
    let mut client = Side::new();
    let keys: Vec<_> = (0..6).map(|_| client.connect(servers.address)).collect();
    echo_all(&mut client, &keys);
    // More at once than the reserve holds; each has sent its request when it is refused.
    let refused: Vec<TcpStream> = (0..40)
        .map(|_| {
            use std::io::Write as _;
            let mut peer = TcpStream::connect(servers.address).expect("the kernel takes it");
            // Fails if the refusal and the end were faster.
            let _ = peer.write_all(b"GET / HTTP/1.1\r\n\r\n");
            let mut answer = Vec::new();
            peer.read_to_end(&mut answer).expect("an orderly end");
            assert_eq!(answer, REFUSAL);
            peer
        })
        .collect();
    // Those that were let in did not notice.
    echo_all(&mut client, &keys);
    drop(refused);
    client.net.close(keys[0], Close::Graceful);
    client.turn();
    // As soon as the server has seen the end there is room again.
    let deadline = Instant::now() + PATIENCE;
    let again = loop {
        assert!(Instant::now() < deadline, "no room again");
        let full = servers.mesh[0].loads().all(|(count, max)| count >= max);
        if !full {
            break client.connect(servers.address);
        }
        thread::yield_now();
    };
    echo_all(&mut client, &[again]);
    drop(client);
    let total = servers.stop();
    assert_eq!((total.accepted, total.refused), (7, 40));
}

#[test]
fn without_descriptors_accepting_rests_and_goes_on() {
    limit_tables();
    thread::spawn(|| {
        unshare_table(&[]).expect("a table of its own");
        let retry = Duration::from_millis(10);
        let mut server = Side::with(
            KernelOptions { accept_retry: retry, ..KernelOptions::default() },
            Handover::alone(),
        );
        let address = server.listen();
        let mut client = Side::new();
        let outgoing = client.connect(address);
        client.expect(Event::Connected(outgoing));
        // Somebody else fills the table, reserve and all.
        let mut others = Vec::new();
        while let Ok(other) = rustix::event::eventfd(0, rustix::event::EventfdFlags::CLOEXEC) {
            others.push(other);
        }
        let begun = Instant::now();
        let mut polls = 0;
        while server.statistics().accept_errors.descriptors < 4 {
            server.poll(Some(PATIENCE));
            polls += 1;
        }
        // Each failure is followed by one rest, and by few polls: no busy loop.
        assert!(begun.elapsed() >= 3 * retry);
        assert!(polls <= 16, "{polls}");
        assert_eq!(server.waiting, []);
        drop(others);
        server.accepted();
    })
    .join()
    .expect("it went on");
}

#[test]
fn no_room_beside_the_reserve_is_an_error() {
    limit_tables();
    let options = KernelOptions { table_threads_count: 4, ..KernelOptions::default() };
    let waker = Waker::new().expect("an eventfd");
    let refused = Kernel::new(options, waker, Handover::alone()).map(|_| ());
    assert_eq!(refused.map_err(|error| error.kind()), Err(ErrorKind::QuotaExceeded));
}

#[test]
fn a_sandbox_may_refuse_and_nothing_has_changed() {
    for (errno, expected) in
        [(libc::EPERM, TableRefused::Forbidden), (libc::ENOSYS, TableRefused::Unsupported)]
    {
        thread::spawn(move || {
            forbid_close_range(errno);
            let waker = Waker::new().expect("an eventfd");
            assert_eq!(unshare_table(&[]), Err(expected));
            // The shared table is intact: the eventfd is still there.
            waker.wake();
        })
        .join()
        .expect("the thread goes on");
    }
}

/// Echo servers on threads with private tables.
struct Servers {
    address: SocketAddr,
    mesh: Vec<Handover>,
    wakers: Vec<Arc<Waker>>,
    stop: Arc<AtomicBool>,
    threads: Vec<thread::JoinHandle<Statistics>>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Tables {
    Private,
    Shared,
}

impl Servers {
    fn start(
        threads_count: usize,
        options: impl Fn(usize) -> KernelOptions,
        listens: impl Fn(usize) -> bool,
    ) -> Servers {
        Servers::start_with(threads_count, Tables::Private, options, listens)
    }

    fn start_with(
        threads_count: usize,
        tables: Tables,
        options: impl Fn(usize) -> KernelOptions,
        listens: impl Fn(usize) -> bool,
    ) -> Servers {
        let mesh = Handover::mesh(threads_count).expect("descriptors");
        let wakers: Vec<_> =
            (0..threads_count).map(|_| Waker::new().expect("an eventfd")).collect();
        let mut keep: Vec<RawFd> = mesh[0].descriptors().collect();
        keep.extend(wakers.iter().map(|waker| waker.descriptor()));
        let stop = Arc::new(AtomicBool::new(false));
        let mut address = loopback();
        let mut threads = Vec::new();
        for thread in 0..threads_count {
            let (waker, handover) = (Arc::clone(&wakers[thread]), mesh[thread].clone());
            let (stop, keep) = (Arc::clone(&stop), keep.clone());
            let (options, listens) = (options(thread), listens(thread));
            let (ready, is_ready) = mpsc::channel();
            threads.push(thread::spawn(move || {
                if tables == Tables::Private {
                    unshare_table(&keep).expect("a table of its own");
                }
                let mut net = Kernel::new(options, waker, handover).expect("an epoll");
                let mut bound = address;
                if listens {
                    let options = ListenOptions { refusal: REFUSAL, ..ListenOptions::new(address) };
                    bound = net.listen(&options).expect("the port").1;
                }
                ready.send(bound).expect("the test waits");
                serve_echo(net, &stop)
            }));
            // The first took a free port; the others share it.
            address = is_ready.recv().expect("the server started");
        }
        Servers { address, mesh, wakers, stop, threads }
    }

    /// Ends all threads and sums up.
    fn stop(self) -> Statistics {
        self.stop.store(true, Ordering::Release);
        let mut total = Statistics::default();
        for waker in &self.wakers {
            waker.wake();
        }
        for thread in self.threads {
            total += thread.join().expect("the server ended well");
        }
        total
    }
}

fn serve_echo(net: Kernel, stop: &AtomicBool) -> Statistics {
    let mut server = Side::on(net);
    let mut buffer = [0; 4096];
    loop {
        server.poll(None);
        while let Some(event) = server.waiting.pop_front() {
            match event {
                Event::Readable(conn) => loop {
                    match server.net.read(conn, &mut buffer) {
                        Read::Data(count) => {
                            let bytes = buffer[..count].to_vec();
                            server.write_all(conn, &bytes);
                        }
                        Read::Blocked => break,
                        Read::Ended | Read::Failed(_) => {
                            server.net.close(conn, Close::Graceful);
                            break;
                        }
                    }
                },
                Event::Woken if stop.load(Ordering::Acquire) => return server.statistics(),
                _ => {}
            }
        }
    }
}

/// Sends a number of its own on each connection and waits for its echo.
fn echo_all(client: &mut Side, keys: &[net::Conn]) {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    for key in keys {
        let number = NUMBER.fetch_add(1, Ordering::Relaxed).to_be_bytes();
        let deadline = Instant::now() + PATIENCE;
        // Until it is established there is nothing to read, not even "blocked" for certain.
        let mut sent = false;
        let mut echo = [0; 8];
        loop {
            if !sent {
                sent = matches!(
                    client.net.write(*key, &[std::io::IoSlice::new(&number)]),
                    net::Write::Wrote(8)
                );
            } else if client.net.read(*key, &mut echo) == Read::Data(8) {
                break;
            }
            assert!(Instant::now() < deadline, "no echo");
            client.poll(Some(Duration::from_millis(20)));
            client.waiting.clear();
        }
        assert_eq!(echo, number);
    }
}

/// Once for the process, before anything else.
fn limit_tables() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let limit = Rlimit { current: Some(256), maximum: Some(256) };
        setrlimit(Resource::Nofile, limit).expect("lowering is allowed");
    });
}

/// Makes `close_range` fail on the calling thread, as a container's seccomp filter does.
fn forbid_close_range(errno: i32) {
    let statement = |code: u32, k: u32| libc::sock_filter { code: code as u16, jt: 0, jf: 0, k };
    let mut program = [
        // The number of the system call is the first word of the data.
        statement(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0),
        libc::sock_filter {
            code: (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16,
            jt: 0,
            jf: 1,
            k: libc::SYS_close_range as u32,
        },
        statement(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_ERRNO | errno as u32),
        statement(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_ALLOW),
    ];
    let program = libc::sock_fprog { len: program.len() as u16, filter: program.as_mut_ptr() };
    // SAFETY: the program lives for both calls; it applies to this thread only and lets every
    // other system call pass.
    let results = unsafe {
        [
            libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0),
            libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const program),
        ]
    };
    assert_eq!(results, [0, 0], "{}", std::io::Error::last_os_error());
}

//! Measures accepting: connections per second, and the server threads' own processor time for each.
//!
//! `cargo run --release -p net --example accept_rate -- [connections] [server threads] [client
//! threads]`
//!
//! Server and client threads have private descriptor tables; connections stay open until the end,
//! so that client and server threads each need `connections / threads` below the limit.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Barrier, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use net::kernel::{
    ConnectOptions, Handover, Kernel, KernelOptions, ListenOptions, Waker, raise_nofile_limit,
    unshare_table,
};
use net::{Event, Net, Wake};

/// Connections that a client thread begins before it waits for one.
const CONNECTING_MAX: usize = 64;

fn main() {
    let mut arguments = std::env::args().skip(1).map(|text| text.parse().expect("a number"));
    let connections: u32 = arguments.next().unwrap_or(15_000);
    let server_threads = arguments.next().unwrap_or(1);
    let client_threads = arguments.next().unwrap_or(1);
    let limit = raise_nofile_limit();
    println!("descriptors in each table: {}", limit.soft);

    let mesh = Handover::mesh(server_threads as usize).expect("descriptors");
    let wakers: Vec<_> = mesh.iter().map(|_| Waker::new().expect("an eventfd")).collect();
    let mut keep: Vec<_> = mesh[0].descriptors().collect();
    keep.extend(wakers.iter().map(|waker| waker.descriptor()));
    let accepted = Arc::new(AtomicU32::new(0));
    let done = Arc::new(Barrier::new(server_threads as usize + client_threads as usize + 1));

    let mut address = SocketAddr::from(([127, 0, 0, 1], 0));
    let mut servers = Vec::new();
    for (waker, handover) in wakers.iter().cloned().zip(mesh) {
        let (keep, accepted, done) = (keep.clone(), Arc::clone(&accepted), Arc::clone(&done));
        let (ready, is_ready) = mpsc::channel();
        servers.push(thread::spawn(move || {
            if let Err(refused) = unshare_table(&keep) {
                println!("sharing the table: {refused}");
            }
            let options = KernelOptions::default();
            let mut net = Kernel::new(options, waker, handover).expect("an epoll");
            let listening = net.listen(&ListenOptions::new(address)).expect("the port");
            ready.send(listening.1).expect("main waits");
            let mut events = Vec::new();
            let (mut used, mut polls) = (Duration::ZERO, 0u64);
            loop {
                events.clear();
                net.poll(None, &mut events).expect("a working epoll");
                let is_new = |event: &&Event| matches!(event, Event::Accepted { .. });
                let count = events.iter().filter(is_new).count() as u32;
                if count > 0 {
                    accepted.fetch_add(count, Ordering::Relaxed);
                    used = thread_time();
                    polls += 1;
                } else if events.contains(&Event::Woken) {
                    break;
                }
            }
            done.wait();
            (used, polls, net.statistics())
        }));
        address = is_ready.recv().expect("the server started");
    }

    let begun = Instant::now();
    let share = connections / client_threads;
    let clients: Vec<_> = (0..client_threads)
        .map(|thread| {
            let done = Arc::clone(&done);
            thread::spawn(move || {
                unshare_table(&[]).expect("a table of its own");
                let waker = Waker::new().expect("an eventfd");
                let options = KernelOptions::default();
                let mut net = Kernel::new(options, waker, Handover::alone()).expect("an epoll");
                let mut events = Vec::new();
                let (mut begun, mut open) = (0, 0);
                while open < share {
                    while begun < share && begun - open < CONNECTING_MAX as u32 {
                        // Source addresses of its own, 20,000 connections each.
                        let host = (thread * 64 + begun / 20_000 + 1) as u16;
                        let [high, low] = host.to_be_bytes();
                        let local = Some(SocketAddr::from(([127, 1, high, low], 0)));
                        let options = ConnectOptions { local, ..ConnectOptions::default() };
                        net.connect(address, &options).expect("begun");
                        begun += 1;
                    }
                    events.clear();
                    net.poll(None, &mut events).expect("a working epoll");
                    for event in &events {
                        match event {
                            Event::Connected(_) => open += 1,
                            Event::Closed { reason, .. } => panic!("closed: {reason}"),
                            _ => {}
                        }
                    }
                }
                let used = thread_time();
                done.wait();
                used
            })
        })
        .collect();

    while accepted.load(Ordering::Relaxed) < share * client_threads {
        thread::sleep(Duration::from_millis(1));
    }
    let took = begun.elapsed();
    for waker in &wakers {
        waker.wake();
    }
    done.wait();
    let count = f64::from(share * client_threads);
    println!("{count} connections in {took:.2?}: {:.0} per second", count / took.as_secs_f64());
    let mut total = Duration::ZERO;
    for server in servers {
        let (used, polls, statistics) = server.join().expect("no panic");
        println!("server thread: {used:.2?} of processor, {polls} polls, {statistics:?}");
        total += used;
    }
    println!("server processor time per accept: {:.2} us", total.as_secs_f64() * 1e6 / count);
    let total: Duration = clients.into_iter().map(|c| c.join().expect("no panic")).sum();
    println!("client processor time per connect: {:.2} us", total.as_secs_f64() * 1e6 / count);
}

/// Processor time of the calling thread, in the kernel too.
fn thread_time() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the pointer names a live timespec.
    let result = unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    assert_eq!(result, 0);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

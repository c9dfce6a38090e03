//! The floor: the cost of a delivery by a server that does nothing but `recv` and `send`.
//!
//! Place: the baseline of `docs/performance.md` for the node, on the same publish stream and the
//! same sockets. A bare `epoll` loop for each thread, on the system calls themselves: no log, no
//! history, no limits, and only the proofs that the benchmark checks. It speaks a minimal native
//! protocol: a subscriber gets WELCOME and SUBSCRIBED, and a message on a topic is sent at once, by
//! one `send`, to each of its subscribers. A socket that does not take a frame whole is closed.
//!
//! ```text
//! lab floor --listen 127.0.0.1:8900 --threads 2
//! crore bench sub --url ws://127.0.0.1:8900 --topics t --choice common --clients 10000
//! crore bench pub --url ws://127.0.0.1:8900 --topics t --rate 20
//! ```
mod routes;
mod worker;

use std::net::SocketAddr;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::Arc;
use std::sync::mpsc::channel;

use anyhow::Context;
use net::system::{raise_nofile_limit, unshare_table};
use rustix::event::{EventfdFlags, eventfd};

use routes::Routes;
use worker::Worker;

/// A bare epoll loop that the node is compared with.
#[derive(Clone, Debug, clap::Args)]
pub struct Options {
    /// Listening address. Port 0 selects a free port; the first line of output names it.
    #[arg(long, default_value = "127.0.0.1:8900")]
    listen: SocketAddr,
    /// Threads, each with a descriptor table and a listener of its own.
    #[arg(long, default_value_t = 1)]
    threads: u16,
    /// Seconds between two pings of a connection, spread evenly; 0: none.
    #[arg(long, default_value_t = 0)]
    ping_interval_s: u32,
    /// `SO_SNDBUF` of a connection, in bytes, as the node sets it.
    #[arg(long, default_value_t = 32 * 1024)]
    socket_send_bytes: usize,
    /// Connections that the kernel may hold before they are accepted, per thread.
    #[arg(long, default_value_t = 4096)]
    backlog_max: i32,
}

/// Serves until an error.
///
/// # Errors
/// The address is in use, or the kernel refuses descriptors.
pub fn run(options: &Options) -> anyhow::Result<()> {
    raise_nofile_limit();
    // Made before any thread has a table of its own, so that their numbers are good in all of them.
    let wakers = (0..options.threads.max(1))
        .map(|_| eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK))
        .collect::<Result<Vec<OwnedFd>, _>>()?;
    let keep: Vec<RawFd> = wakers.iter().map(AsRawFd::as_raw_fd).collect();
    let routes = Arc::new(Routes::new(wakers));
    let mut threads = Vec::new();
    let mut listen = options.listen;
    for thread in 0..options.threads.max(1) {
        let (ready, is_ready) = channel();
        let (routes, keep, options) = (routes.clone(), keep.clone(), options.clone());
        threads.push(std::thread::spawn(move || {
            // Where it is refused all threads share one table.
            let _ = unshare_table(&keep);
            let mut worker = Worker::open(thread, listen, &options, routes)?;
            // The starter waits for it.
            let _ = ready.send(worker.address()?);
            worker.run()
        }));
        // One after another: the first tells the port that all share.
        listen = is_ready.recv().context("a thread could not listen")?;
    }
    println!("listening {listen}");
    for thread in threads {
        thread.join().map_err(|_| anyhow::anyhow!("a thread panicked"))??;
    }
    Ok(())
}

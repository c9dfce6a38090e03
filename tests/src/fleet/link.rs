//! A proxy between the fleet and the node that resets connections, and turns them into black holes:
//! both ends stay open, and nothing passes any more.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use rustix::net::sockopt::{
    set_socket_linger, set_socket_recv_buffer_size, set_socket_send_buffer_size,
};

use crate::fleet::random::Random;

/// The kernel's buffers of each socket.
const BUFFER_BYTES: usize = 32 * 1024;

const PASSES: u8 = 0;
/// Bytes are dropped, and the end of a side is not passed on.
const SWALLOWS: u8 = 1;
/// Both sockets close with RST.
const RESETS: u8 = 2;

/// The proxy; it serves until the process ends.
#[derive(Debug)]
pub struct Link {
    /// `127.0.0.1:PORT`, the address for clients.
    pub address: String,
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    open: Mutex<Vec<Arc<Pair>>>,
    more: Condvar,
}

/// The two sockets of a connection.
#[derive(Debug)]
struct Pair {
    client: TcpStream,
    node: TcpStream,
    state: AtomicU8,
}

impl Link {
    /// A link to the node at this `address:port`.
    pub fn to(target: &str) -> Link {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("it is bound").to_string();
        let shared = Arc::new(Shared::default());
        let (target, for_thread) = (target.to_owned(), Arc::clone(&shared));
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                // While the node is down, the client's connection closes at once.
                if let Ok(node) = TcpStream::connect(&target) {
                    join(&for_thread, client, node);
                }
            }
        });
        Link { address, shared }
    }

    /// The number of connections.
    pub fn open(&self) -> usize {
        self.shared.pairs().len()
    }

    /// Waits until there are this many connections; false at the deadline.
    pub fn wait_for_open(&self, count: usize, patience: Duration) -> bool {
        let are_few = |pairs: &mut Vec<Arc<Pair>>| pairs.len() < count;
        let waited = self.shared.more.wait_timeout_while(self.shared.pairs(), patience, are_few);
        !waited.unwrap_or_else(PoisonError::into_inner).1.timed_out()
    }

    /// Resets all connections that are no black holes; returns their number.
    pub fn reset(&self) -> usize {
        let pairs = self.shared.pairs();
        let passing = pairs.iter().filter(|pair| pair.state.load(Ordering::Acquire) == PASSES);
        let mut count = 0;
        for pair in passing {
            pair.state.store(RESETS, Ordering::Release);
            for socket in [&pair.client, &pair.node] {
                // It may be closed already. SHUT_RD sends nothing: it ends the threads that read,
                // and the last close sends RST.
                let _ = set_socket_linger(socket, Some(Duration::ZERO));
                let _ = socket.shutdown(Shutdown::Read);
            }
            count += 1;
        }
        count
    }

    /// Makes about half of the connections black holes; returns their number.
    pub fn swallow_half(&self, random: &mut Random) -> usize {
        let pairs = self.shared.pairs();
        let chosen: Vec<_> = pairs.iter().filter(|_| random.below(2) == 0).collect();
        chosen.iter().for_each(|pair| pair.state.store(SWALLOWS, Ordering::Release));
        chosen.len()
    }

    /// Ends the black holes whose clients have not closed them; returns their number.
    pub fn end_holes(&self) -> usize {
        let pairs = self.shared.pairs().clone();
        let is_hole = |pair: &&Arc<Pair>| pair.state.load(Ordering::Acquire) == SWALLOWS;
        let holes = pairs.iter().filter(is_hole);
        // The other thread of the connection ends with this one.
        holes.filter(|pair| pair.client.shutdown(Shutdown::Both).is_ok()).count()
    }
}

impl Shared {
    fn pairs(&self) -> MutexGuard<'_, Vec<Arc<Pair>>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn remove(&self, pair: &Arc<Pair>) {
        self.pairs().retain(|other| !Arc::ptr_eq(other, pair));
    }
}

fn join(shared: &Arc<Shared>, client: TcpStream, node: TcpStream) {
    for socket in [&client, &node] {
        // Only a matter of latency; and small buffers, so that a reader that stops its socket lags.
        let _ = socket.set_nodelay(true);
        let _ = set_socket_send_buffer_size(socket, BUFFER_BYTES);
        let _ = set_socket_recv_buffer_size(socket, BUFFER_BYTES);
    }
    let pair = Arc::new(Pair { client, node, state: AtomicU8::new(PASSES) });
    shared.pairs().push(Arc::clone(&pair));
    shared.more.notify_all();
    for from_client in [true, false] {
        let (shared, pair) = (Arc::clone(shared), Arc::clone(&pair));
        thread::spawn(move || {
            pass_on(&pair, from_client);
            match pair.state.load(Ordering::Acquire) {
                SWALLOWS if !from_client => return,
                RESETS => {}
                _ => {
                    let _ = pair.client.shutdown(Shutdown::Both);
                    let _ = pair.node.shutdown(Shutdown::Both);
                }
            }
            shared.remove(&pair);
        });
    }
}

/// Copies one direction until its side ends.
fn pass_on(pair: &Pair, from_client: bool) {
    let (mut from, mut to) =
        if from_client { (&pair.client, &pair.node) } else { (&pair.node, &pair.client) };
    let mut bytes = vec![0; 16 * 1024];
    loop {
        // An error counts as an end.
        let count = from.read(&mut bytes).unwrap_or(0);
        if count == 0 {
            return;
        }
        let passes = pair.state.load(Ordering::Acquire) == PASSES;
        if passes && to.write_all(&bytes[..count]).is_err() {
            return;
        }
    }
}

//! Connections of operators: their maximum number, their timeouts, and the identity of their peers.
//!
//! Place: below the routes. Each listener has a loop ([`serve`]) and its own maximum, so that many
//! connections to the TCP port leave the operators' socket free. Invariants: a request head must be
//! complete within [`HEAD_WITHIN`] of the connection's start, or of the previous answer; at the
//! maximum, a new connection replaces the one that has been silent for longest, and only
//! connections with a running permitted request are safe. So health and metrics answer, however
//! many clients send incomplete heads.

use super::authority::Way;
use axum::Router;
use axum::body::Body;
use axum::http::{Request, Response};
use axum::serve::Listener;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::Service;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use rustix::net::sockopt::set_tcp_user_timeout;
use rustix::process::geteuid;
use std::collections::HashMap;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio::sync::watch;
use tokio::task::{AbortHandle, Id, JoinSet};

/// Time limit for a complete request head; a connection without a request is closed after the same
/// time.
const HEAD_WITHIN: Duration = Duration::from_secs(10);
/// A peer that reads nothing of its answer for this time loses its connection (`TCP_USER_TIMEOUT`),
/// in milliseconds.
const ANSWER_WITHIN_MS: u32 = 30_000;
/// Maximum number of bytes that are read ahead, including the head.
const HEAD_BYTES_MAX: usize = 64 << 10;

/// A connection's entry among those of its listener; each request carries it.
#[derive(Clone)]
pub struct Arrival {
    /// The way by which the connection arrived.
    pub way: Way,
    place: Arc<Place>,
}

struct Place {
    /// Sequence of its last activity, counted by the loop.
    heard: AtomicU64,
    /// Whether a permitted request is running.
    works: AtomicBool,
}

impl Arrival {
    /// Keeps the connection from being replaced until [`Arrival::has_worked`].
    pub fn works(&self) {
        self.place.works.store(true, Ordering::Relaxed);
    }

    /// An entry for a request of a test.
    #[cfg(test)]
    pub fn of(way: Way) -> Arrival {
        let place = Arc::new(Place { heard: AtomicU64::new(0), works: AtomicBool::new(false) });
        Arrival { way, place }
    }

    /// Allows the connection to be replaced from now on.
    pub fn has_worked(&self) {
        self.place.works.store(false, Ordering::Relaxed);
    }
}

/// A listener that identifies its peers.
pub trait Door: Listener + Send + 'static
where
    Self::Io: Send + 'static,
{
    /// Accepts a connection. None: the peer is not allowed.
    fn way(&self, io: &Self::Io, peer: &Self::Addr) -> Option<Way>;
}

impl Door for TcpListener {
    fn way(&self, io: &TcpStream, peer: &std::net::SocketAddr) -> Option<Way> {
        // If the kernel does not know the option, the peer is accepted without it.
        let _ = set_tcp_user_timeout(io, ANSWER_WITHIN_MS);
        let is_loopback = |address: std::io::Result<std::net::SocketAddr>| {
            address.is_ok_and(|address| address.ip().is_loopback())
        };
        // An address that listens on all interfaces is meant for other machines.
        if is_loopback(TcpListener::local_addr(self)) && peer.ip().is_loopback() {
            Some(Way::Loopback)
        } else {
            Some(Way::Network)
        }
    }
}

/// The operators' socket.
pub struct SocketDoor {
    /// The bound listener.
    pub listener: UnixListener,
    /// Whether the file's mode admits a group; the kernel has checked it when the peer connected.
    pub is_for_group: bool,
}

impl Listener for SocketDoor {
    type Io = UnixStream;
    type Addr = tokio::net::unix::SocketAddr;

    async fn accept(&mut self) -> (Self::Io, Self::Addr) {
        Listener::accept(&mut self.listener).await
    }

    fn local_addr(&self) -> std::io::Result<Self::Addr> {
        self.listener.local_addr()
    }
}

impl Door for SocketDoor {
    fn way(&self, io: &UnixStream, _: &Self::Addr) -> Option<Way> {
        let peer = io.peer_cred().ok()?.uid();
        let is_one_of_us = peer == 0 || peer == geteuid().as_raw();
        (is_one_of_us || self.is_for_group).then_some(Way::Socket)
    }
}

/// Requests of one connection, each with the connection's [`Arrival`].
struct Requests {
    arrival: Arrival,
    heard: Arc<AtomicU64>,
    routes: TowerToHyperService<Router>,
}

impl Service<Request<Incoming>> for Requests {
    type Response = Response<Body>;
    type Error = std::convert::Infallible;
    type Future = <TowerToHyperService<Router> as Service<Request<Incoming>>>::Future;

    fn call(&self, mut request: Request<Incoming>) -> Self::Future {
        let now = self.heard.fetch_add(1, Ordering::Relaxed);
        self.arrival.place.heard.store(now, Ordering::Relaxed);
        request.extensions_mut().insert(self.arrival.clone());
        self.routes.call(request)
    }
}

/// The open connections, by their tasks.
#[derive(Default)]
struct Places(HashMap<Id, (Arc<Place>, AbortHandle)>);

impl Places {
    /// Whether there is room for one more, after closing a silent one if necessary.
    fn make_room(&mut self, connections_max: usize) -> bool {
        if self.0.len() < connections_max {
            return true;
        }
        let idle = self.0.iter().filter(|(_, (place, _))| {
            // A connection without a permitted request may be replaced.
            !place.works.load(Ordering::Relaxed)
        });
        let oldest = idle.min_by_key(|(_, (place, _))| place.heard.load(Ordering::Relaxed));
        let oldest = oldest.map(|(id, _)| *id);
        let ended = oldest.and_then(|id| self.0.remove(&id));
        ended.is_some_and(|(_, task)| {
            task.abort();
            true
        })
    }
}

/// Serves the connections of one listener until the port stops, then lets them finish.
pub async fn serve<D: Door>(
    mut door: D,
    routes: Router,
    connections_max: usize,
    mut ending: watch::Receiver<bool>,
) where
    D::Io: Send + Unpin + 'static,
{
    let heard = Arc::new(AtomicU64::new(0));
    let mut places = Places::default();
    let mut tasks = JoinSet::new();
    loop {
        let (io, peer) = tokio::select! {
            _ = ending.wait_for(|is_ending| *is_ending) => break,
            Some(left) = tasks.join_next_with_id() => {
                let id = left.map_or_else(|failed| failed.id(), |(id, ())| id);
                places.0.remove(&id);
                continue;
            }
            come = door.accept() => come,
        };
        let Some(way) = door.way(&io, &peer) else {
            continue;
        };
        if !places.make_room(connections_max) {
            continue;
        }
        let place = Arc::new(Place {
            heard: AtomicU64::new(heard.fetch_add(1, Ordering::Relaxed)),
            works: AtomicBool::new(false),
        });
        let requests = Requests {
            arrival: Arrival { way, place: Arc::clone(&place) },
            heard: Arc::clone(&heard),
            routes: TowerToHyperService::new(routes.clone()),
        };
        let task = tasks.spawn(converse(io, requests, ending.clone()));
        places.0.insert(task.id(), (place, task));
        // A replaced connection is closed before the next one is accepted.
        tokio::task::yield_now().await;
    }
    drop(door);
    while tasks.join_next().await.is_some() {}
}

/// Serves one connection to its end. Its errors affect no other connection.
async fn converse<I>(io: I, requests: Requests, mut ending: watch::Receiver<bool>)
where
    I: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let mut protocol = http1::Builder::new();
    protocol.timer(TokioTimer::new()).header_read_timeout(HEAD_WITHIN).max_buf_size(HEAD_BYTES_MAX);
    let mut connection = pin!(protocol.serve_connection(TokioIo::new(io), requests));
    tokio::select! {
        _ = connection.as_mut() => return,
        _ = ending.wait_for(|is_ending| *is_ending) => {}
    }
    connection.as_mut().graceful_shutdown();
    let _ = connection.await;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn at_the_bound_the_longest_silent_connection_makes_room() {
        let mut places = Places::default();
        let mut tasks = JoinSet::new();
        let mut add = |places: &mut Places, heard: u64, works: bool| {
            let task = tasks.spawn(std::future::pending::<()>());
            let place =
                Arc::new(Place { heard: AtomicU64::new(heard), works: AtomicBool::new(works) });
            places.0.insert(task.id(), (place, task.clone()));
            task.id()
        };
        let works = add(&mut places, 0, true);
        let old = add(&mut places, 1, false);
        let new = add(&mut places, 2, false);
        assert!(places.make_room(4));
        assert_eq!(places.0.len(), 3);
        assert!(places.make_room(3));
        assert!(!places.0.contains_key(&old));
        assert!(places.make_room(2));
        assert!(!places.0.contains_key(&new));
        // The connection left has a permitted request under way.
        assert!(!places.make_room(1));
        assert!(places.0.contains_key(&works));
    }
}

//! A transport in memory: byte streams between a test and the I/O threads of a node in its process,
//! without a socket.

use net::{
    Close, Conn, Count, Counters, Event, Net, OpenError, OpenOptions, Opened, Passing, Read,
    Transport, Unopened, Wake, Write,
};
use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// One port for each I/O thread, in the order of the threads.
pub struct Memory {
    pub ports: Vec<Arc<Port>>,
}

/// The streams of one I/O thread.
#[derive(Default)]
pub struct Port {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    is_woken: bool,
    is_accepting: bool,
    streams: Vec<Stream>,
}

#[derive(Default)]
struct Stream {
    to_node: VecDeque<u8>,
    to_client: VecDeque<u8>,
    is_accepted: bool,
    /// The client sends no more.
    is_ended: bool,
    /// [`Event::Readable`] was reported, and the network has not blocked since.
    is_readable: bool,
    /// The node has closed it.
    is_closed: bool,
}

impl Memory {
    pub fn new(threads_count: usize) -> Memory {
        Memory { ports: (0..threads_count).map(|_| Arc::default()).collect() }
    }
}

impl Port {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the state, and tells the other end.
    fn change<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        let changed = change(&mut self.state());
        self.changed.notify_all();
        changed
    }

    /// Opens a stream to the thread.
    pub fn connect(self: &Arc<Port>) -> Client {
        let index = self.change(|state| {
            state.streams.push(Stream::default());
            state.streams.len() - 1
        });
        Client { port: Arc::clone(self), index }
    }
}

impl Wake for Port {
    fn wake(&self) {
        self.change(|state| state.is_woken = true);
    }
}

/// The client's end of a stream.
pub struct Client {
    port: Arc<Port>,
    index: usize,
}

impl Client {
    pub fn send(&self, bytes: &[u8]) {
        self.port.change(|state| state.streams[self.index].to_node.extend(bytes));
    }

    /// Waits until the received bytes contain this text, and returns all of them.
    pub fn wait_for(&self, text: &str) -> String {
        let deadline = Instant::now() + Duration::from_secs(60);
        let mut state = self.port.state();
        loop {
            let stream = &state.streams[self.index];
            let bytes: Vec<u8> = stream.to_client.iter().copied().collect();
            let received = String::from_utf8_lossy(&bytes).into_owned();
            if received.contains(text) {
                return received;
            }
            assert!(!stream.is_closed && Instant::now() < deadline, "no {text:?}: {received:?}");
            let patience = Duration::from_millis(100);
            let waited = self.port.changed.wait_timeout(state, patience);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

impl Transport for Memory {
    type Unopened = UnopenedMemory;

    fn check(&self, _: SocketAddr) -> io::Result<()> {
        Ok(())
    }

    fn prepare(&self, threads_count: usize) -> io::Result<Vec<UnopenedMemory>> {
        assert_eq!(threads_count, self.ports.len());
        Ok(self.ports.iter().map(|port| UnopenedMemory(Arc::clone(port))).collect())
    }
}

pub struct UnopenedMemory(Arc<Port>);

impl Unopened for UnopenedMemory {
    type Net = MemoryNet;

    fn waker(&self) -> Arc<dyn Wake> {
        self.0.clone()
    }

    fn open(self, options: &OpenOptions<'_>) -> Result<Opened<MemoryNet>, OpenError> {
        self.0.change(|state| state.is_accepting = true);
        let counters = Arc::new(Counters::default());
        Ok(Opened {
            net: MemoryNet { port: self.0, counters: counters.clone(), closing: Vec::new() },
            addresses: options.listeners.iter().map(|listener| listener.address).collect(),
            connections_max: options.connections_max.min(100),
            counters,
            notice: Some("clients connect in memory".into()),
        })
    }
}

/// The thread's end of its port.
pub struct MemoryNet {
    port: Arc<Port>,
    counters: Arc<Counters>,
    closing: Vec<Conn>,
}

/// A connection's index is that of its stream; no index is used twice.
fn key(index: usize) -> Conn {
    Conn { index: index as u32, generation: 1 }
}

impl State {
    fn stream(&mut self, conn: Conn) -> Option<&mut Stream> {
        self.streams.get_mut(conn.index as usize).filter(|stream| !stream.is_closed)
    }

    /// Appends the events since the last call.
    fn report(&mut self, counters: &Counters, events: &mut Vec<Event>) {
        for (index, stream) in self.streams.iter_mut().enumerate() {
            let conn = key(index);
            if self.is_accepting && !stream.is_accepted {
                stream.is_accepted = true;
                counters.add(Count::Accepted, 1);
                let peer = SocketAddr::from(([127, 0, 0, 1], 1_000 + index as u16));
                events.push(Event::Accepted { conn, peer, listener: 0 });
            }
            let has_news = !stream.to_node.is_empty() || stream.is_ended;
            let is_open = stream.is_accepted && !stream.is_closed;
            if is_open && has_news && !stream.is_readable {
                stream.is_readable = true;
                events.push(Event::Readable(conn));
            }
        }
        if std::mem::take(&mut self.is_woken) {
            events.push(Event::Woken);
        }
    }
}

impl Net for MemoryNet {
    fn poll(&mut self, timeout: Option<Duration>, events: &mut Vec<Event>) -> io::Result<()> {
        let port = Arc::clone(&self.port);
        let mut state = port.state();
        for conn in self.closing.drain(..) {
            self.counters.add(Count::Closed, 1);
            state.streams[conn.index as usize].is_closed = true;
            port.changed.notify_all();
        }
        let deadline = timeout.map(|timeout| Instant::now() + timeout);
        loop {
            state.report(&self.counters, events);
            let patience = deadline.map_or(Duration::from_secs(1), |deadline| {
                deadline.saturating_duration_since(Instant::now())
            });
            if !events.is_empty() || patience.is_zero() {
                return Ok(());
            }
            let waited = port.changed.wait_timeout(state, patience);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn read(&mut self, conn: Conn, buffer: &mut [u8]) -> Read {
        let mut state = self.port.state();
        let Some(stream) = state.stream(conn) else {
            return Read::Failed(io::ErrorKind::NotConnected);
        };
        let count = stream.to_node.len().min(buffer.len());
        stream.is_readable = count == buffer.len();
        if count == 0 {
            return if stream.is_ended { Read::Ended } else { Read::Blocked };
        }
        for (place, byte) in buffer.iter_mut().zip(stream.to_node.drain(..count)) {
            *place = byte;
        }
        Read::Data(count)
    }

    fn write(&mut self, conn: Conn, parts: &[IoSlice<'_>]) -> Write {
        self.port.change(|state| match state.stream(conn) {
            None => Write::Failed(io::ErrorKind::NotConnected),
            Some(stream) => {
                stream.to_client.extend(parts.iter().flat_map(|part| part.iter()));
                Write::Wrote(parts.iter().map(|part| part.len()).sum())
            }
        })
    }

    fn shutdown_write(&mut self, _: Conn) {}

    fn close(&mut self, conn: Conn, _: Close) {
        self.closing.push(conn);
    }

    fn pause_accepting(&mut self) {
        self.port.state().is_accepting = false;
    }

    fn resume_accepting(&mut self) {
        self.port.change(|state| state.is_accepting = true);
    }
}

impl Passing for MemoryNet {
    type Copied = ();
}

impl Drop for Client {
    fn drop(&mut self) {
        self.port.change(|state| state.streams[self.index].is_ended = true);
    }
}

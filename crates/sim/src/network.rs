//! The simulated network: virtual connections between clients and edges, exactly by the rules of
//! crate `net`.
//!
//! Place: below the reactors, instead of the kernel. One [`Network`] has all connections; each
//! reactor has a [`SimNet`] with those of its edge. The seed determines faults: reads and writes
//! are cut anywhere, readiness is reported late, connections are reset. Invariants: bytes arrive in
//! order and once; an index is never reused within one turn.

use crate::faults::NetFaults;
use crate::mutation::Saboteur;
use net::{Close, Conn, Event, Net, Read, Write};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io::{self, ErrorKind, IoSlice};
use std::net::{Ipv4Addr, SocketAddr};
use std::ops::Range;
use std::rc::Rc;
use std::time::Duration;
use stdx::prng::Prng;

/// Identifies one virtual connection for the whole run.
pub type LinkId = u64;

/// The maximum number of accepted connections and of events in one poll.
const ACCEPTS_MAX: usize = 16;
const EVENTS_MAX: usize = 128;
/// The buffer of a client's socket for data that the node has not read, in bytes.
const SEND_BUFFER_BYTES: usize = 256 << 10;

/// The result of a client's read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Received {
    /// Bytes.
    Data(Vec<u8>),
    /// There is no data now.
    Nothing,
    /// The node has ended its stream.
    Ended,
    /// The connection is lost.
    Reset,
}

struct Link {
    client: usize,
    edge: usize,
    conn: Option<Conn>,
    to_node: VecDeque<u8>,
    to_node_ended: bool,
    to_client: VecDeque<u8>,
    to_client_ended: bool,
    capacity: usize,
    reset: bool,
    client_gone: bool,
    node_gone: bool,
    read_armed: bool,
    write_armed: bool,
}

#[derive(Default)]
struct EdgeSide {
    /// The generation and the link of each index.
    slots: Vec<(u32, Option<LinkId>)>,
    free: Vec<u32>,
    pending: VecDeque<LinkId>,
    ready: BTreeSet<LinkId>,
    closing: Vec<(Conn, LinkId, Close)>,
    dead: Vec<Conn>,
    paused: bool,
    /// The time of the reactor's next turn, without earlier events.
    wake_at_ms: Option<u64>,
    /// Its last turn had work; the rest of it only shows in the timeout of the next turn.
    was_busy: bool,
}

/// All virtual connections.
pub struct Network {
    links: BTreeMap<LinkId, Link>,
    edges: Vec<EdgeSide>,
    last_link: LinkId,
    /// The edges whose node is dead.
    down: BTreeSet<usize>,
    random: Prng,
    /// The faults.
    pub faults: NetFaults,
    /// Virtual milliseconds.
    pub now_ms: u64,
    /// Clients with input on their connection.
    pub notified: Vec<usize>,
    /// Connections that the node closed without reading everything.
    cut_short: BTreeSet<LinkId>,
    /// A hash of all data.
    pub hash: u64,
    pub(crate) saboteur: Saboteur,
}

impl Network {
    /// Creates a network without connections.
    pub fn new(edges: usize, random: Prng, faults: NetFaults, saboteur: Saboteur) -> Network {
        Network {
            links: BTreeMap::new(),
            edges: (0..edges).map(|_| EdgeSide::default()).collect(),
            last_link: 0,
            down: BTreeSet::new(),
            random,
            faults,
            now_ms: 0,
            notified: Vec::new(),
            cut_short: BTreeSet::new(),
            hash: 0,
            saboteur,
        }
    }

    fn fold(&mut self, kind: u64, a: u64, b: u64) {
        self.hash = fold(self.hash, kind ^ a.rotate_left(16) ^ b.rotate_left(40) ^ self.now_ms);
    }

    /// Loses all connections because the node died. With `leaves_data`, clients still read data in
    /// flight.
    pub fn crash(&mut self, leaves_data: bool) {
        self.crash_edges(0..self.edges.len(), leaves_data);
    }

    /// Like [`Network::crash`], of a node with only these edges.
    pub fn crash_edges(&mut self, edges: Range<usize>, leaves_data: bool) {
        for edge in edges.clone() {
            self.down.insert(edge);
            self.edges[edge] = EdgeSide::default();
        }
        self.fold(9, u64::from(leaves_data), 0);
        let links = self.links.iter().filter(|(_, link)| edges.contains(&link.edge));
        let ids: Vec<LinkId> = links.map(|(id, _)| *id).collect();
        for id in ids {
            self.lose(id, leaves_data);
        }
    }

    /// Opens the listener of the next node.
    pub fn restart(&mut self) {
        self.down.clear();
    }

    /// Opens the listeners of these edges.
    pub fn restart_edges(&mut self, edges: Range<usize>) {
        self.down.retain(|edge| !edges.contains(edge));
    }

    fn lose(&mut self, id: LinkId, leaves_data: bool) {
        if let Some(link) = self.links.get_mut(&id) {
            link.node_gone = true;
            link.to_node.clear();
            if leaves_data {
                link.to_client_ended = true;
            } else {
                link.to_client.clear();
                link.reset = true;
            }
            self.notified.push(link.client);
        }
        self.drop_if_over(id);
    }

    /// Connects a client to an edge; it may write at once.
    pub fn connect(&mut self, client: usize, edge: usize) -> LinkId {
        self.last_link += 1;
        let capacity =
            self.random.between(self.faults.buffer_bytes_min, self.faults.buffer_bytes_max);
        let link = Link {
            client,
            edge,
            conn: None,
            to_node: VecDeque::new(),
            to_node_ended: false,
            to_client: VecDeque::new(),
            to_client_ended: false,
            capacity: capacity as usize,
            reset: false,
            client_gone: false,
            node_gone: false,
            read_armed: true,
            write_armed: false,
        };
        self.links.insert(self.last_link, link);
        self.fold(1, client as u64, edge as u64);
        if self.down.contains(&edge) {
            self.lose(self.last_link, false);
            return self.last_link;
        }
        self.edges[edge].pending.push_back(self.last_link);
        self.last_link
    }

    /// Writes data of a client; returns the number of accepted bytes.
    pub fn send(&mut self, id: LinkId, bytes: &[u8]) -> usize {
        let Some(link) = self.links.get_mut(&id) else {
            return 0;
        };
        if link.reset || link.node_gone || link.to_node_ended {
            return bytes.len();
        }
        let mut count = bytes.len().min(SEND_BUFFER_BYTES.saturating_sub(link.to_node.len()));
        if count > 1 && self.random.chance(self.faults.split) {
            count = 1 + self.random.below(count as u64 - 1) as usize;
        }
        let (passed, answer) = self.saboteur.on_mqtt_send(id, &bytes[..count]);
        link.to_node.extend(passed);
        if !answer.is_empty() {
            link.to_client.extend(answer);
            self.notified.push(link.client);
        }
        self.edges[link.edge].ready.insert(id);
        count
    }

    /// Reads at most `bytes_max` bytes for a client.
    pub fn receive(&mut self, id: LinkId, bytes_max: usize) -> Received {
        let Some(link) = self.links.get_mut(&id) else {
            return Received::Reset;
        };
        if link.reset {
            return Received::Reset;
        }
        let count = link.to_client.len().min(bytes_max);
        if count > 0 {
            let data: Vec<u8> = link.to_client.drain(..count).collect();
            if link.write_armed {
                self.edges[link.edge].ready.insert(id);
            }
            return Received::Data(data);
        }
        if link.to_client_ended { Received::Ended } else { Received::Nothing }
    }

    /// Closes the client's direction only.
    pub fn shutdown(&mut self, id: LinkId) {
        if let Some(link) = self.links.get_mut(&id) {
            link.to_node_ended = true;
            self.edges[link.edge].ready.insert(id);
        }
    }

    /// Closes a client's connection: with a reset, or regularly.
    pub fn leave(&mut self, id: LinkId, with_reset: bool) {
        self.fold(2, id, u64::from(with_reset));
        let Some(link) = self.links.get_mut(&id) else {
            return;
        };
        link.client_gone = true;
        link.to_client.clear();
        if with_reset {
            link.reset = true;
            link.to_node.clear();
        }
        link.to_node_ended = true;
        self.edges[link.edge].ready.insert(id);
        self.drop_if_over(id);
    }

    /// Whether the node has a connection, or will accept it.
    pub fn is_held(&self, id: LinkId) -> bool {
        self.links.get(&id).is_some_and(|link| !link.node_gone)
    }

    /// Whether a connection is lost, although its client may not know.
    pub fn is_broken(&self, id: LinkId) -> bool {
        self.links.get(&id).is_none_or(|link| link.reset || link.node_gone)
    }

    /// Whether the node closed a connection although bytes of the client were there.
    pub fn was_cut_short(&self, id: LinkId) -> bool {
        self.cut_short.contains(&id)
    }

    /// Breaks a connection's network.
    pub fn cut(&mut self, id: LinkId) {
        self.fold(3, id, 0);
        if let Some(link) = self.links.get_mut(&id) {
            link.reset = true;
            link.to_node.clear();
            link.to_client.clear();
            self.edges[link.edge].ready.insert(id);
            self.notified.push(link.client);
        }
    }

    fn drop_if_over(&mut self, id: LinkId) {
        if let Some(link) = self.links.get(&id)
            && link.client_gone
            && link.node_gone
        {
            let edge = link.edge;
            self.links.remove(&id);
            self.edges[edge].ready.remove(&id);
        }
    }

    /// Whether the edge's reactor has a reason for a turn.
    pub fn has_work(&self, edge: usize) -> bool {
        let side = &self.edges[edge];
        !side.ready.is_empty()
            || !side.closing.is_empty()
            || (!side.paused && !side.pending.is_empty())
            || side.was_busy
            || side.wake_at_ms.is_some_and(|at| at <= self.now_ms)
    }

    /// The time of the next turn of the edge's reactor.
    pub fn wake_at_ms(&self, edge: usize) -> Option<u64> {
        self.edges[edge].wake_at_ms
    }

    /// The number of connections that are not closed on both sides.
    pub fn links_count(&self) -> usize {
        self.links.len()
    }

    fn link_of(&self, edge: usize, conn: Conn) -> Option<LinkId> {
        let (generation, link) = self.edges[edge].slots.get(conn.index as usize)?;
        (*generation == conn.generation).then_some(*link)?
    }

    fn forget(&mut self, edge: usize, conn: Conn) {
        if let Some((generation, link)) = self.edges[edge].slots.get_mut(conn.index as usize)
            && *generation == conn.generation
        {
            *link = None;
        }
    }

    fn poll(&mut self, edge: usize, timeout: Option<Duration>, events: &mut Vec<Event>) {
        let dead = std::mem::take(&mut self.edges[edge].dead);
        self.edges[edge].free.extend(dead.iter().map(|conn| conn.index));
        for (conn, id, how) in std::mem::take(&mut self.edges[edge].closing) {
            self.carry_out_close(edge, conn, id, how);
        }
        let at = timeout.map(|timeout| self.now_ms + timeout.as_millis() as u64);
        self.edges[edge].wake_at_ms = at;
        for _ in 0..ACCEPTS_MAX {
            if self.edges[edge].paused {
                break;
            }
            let Some(id) = self.edges[edge].pending.pop_front() else {
                break;
            };
            self.accept(edge, id, events);
        }
        let ready = std::mem::take(&mut self.edges[edge].ready);
        for id in ready {
            if events.len() >= EVENTS_MAX || self.random.chance(self.faults.late) {
                self.edges[edge].ready.insert(id);
                continue;
            }
            self.report(edge, id, events);
        }
        let is_due = at.is_some_and(|at| at <= self.now_ms);
        self.edges[edge].was_busy = !events.is_empty() || is_due;
    }

    /// Marks an edge as busy, because its mailbox received a batch.
    pub fn keep_busy(&mut self, edge: usize) {
        self.edges[edge].was_busy = true;
    }

    fn accept(&mut self, edge: usize, id: LinkId, events: &mut Vec<Event>) {
        let Some(link) = self.links.get_mut(&id) else {
            return;
        };
        if link.reset {
            link.node_gone = true;
            return self.drop_if_over(id);
        }
        let side = &mut self.edges[edge];
        let index = side.free.pop().unwrap_or_else(|| {
            side.slots.push((0, None));
            side.slots.len() as u32 - 1
        });
        let slot = &mut side.slots[index as usize];
        *slot = (slot.0 + 1, Some(id));
        let conn = Conn { index, generation: slot.0 };
        link.conn = Some(conn);
        let peer = SocketAddr::from((Ipv4Addr::LOCALHOST, 1));
        events.push(Event::Accepted { conn, peer, listener: 0 });
        side.ready.insert(id);
        self.fold(4, edge as u64, u64::from(index));
    }

    fn report(&mut self, edge: usize, id: LinkId, events: &mut Vec<Event>) {
        let Some(link) = self.links.get_mut(&id) else {
            return;
        };
        let Some(conn) = link.conn.filter(|_| !link.node_gone) else {
            return;
        };
        let slot = self.edges[edge].slots[conn.index as usize];
        if slot != (conn.generation, Some(id)) {
            return; // closed in this turn
        }
        if link.reset {
            link.node_gone = true;
            events.push(Event::Closed { conn, reason: ErrorKind::ConnectionReset });
            self.edges[edge].dead.push(conn);
            self.forget(edge, conn);
            self.fold(5, edge as u64, u64::from(conn.index));
            return self.drop_if_over(id);
        }
        if link.read_armed && (!link.to_node.is_empty() || link.to_node_ended) {
            link.read_armed = false;
            events.push(Event::Readable(conn));
        }
        if link.write_armed && (link.to_client.len() < link.capacity || link.client_gone) {
            link.write_armed = false;
            events.push(Event::Writable(conn));
        }
    }

    fn carry_out_close(&mut self, edge: usize, conn: Conn, id: LinkId, how: Close) {
        self.edges[edge].free.push(conn.index);
        let Some(link) = self.links.get_mut(&id) else {
            return;
        };
        link.node_gone = true;
        if !link.to_node.is_empty() {
            self.cut_short.insert(id);
        }
        link.to_node.clear();
        match how {
            Close::Graceful => link.to_client_ended = true,
            Close::Reset => {
                link.reset = true;
                link.to_client.clear();
            }
        }
        self.notified.push(link.client);
        self.fold(6, edge as u64, u64::from(conn.index));
        self.drop_if_over(id);
    }

    fn read(&mut self, edge: usize, conn: Conn, buffer: &mut [u8]) -> Read {
        let Some(id) = self.link_of(edge, conn) else {
            return Read::Failed(ErrorKind::NotConnected);
        };
        let Some(link) = self.links.get_mut(&id) else {
            return Read::Failed(ErrorKind::NotConnected);
        };
        if link.reset {
            return Read::Failed(ErrorKind::ConnectionReset);
        }
        let available = link.to_node.len().min(buffer.len());
        if available == 0 {
            if link.to_node_ended {
                return Read::Ended;
            }
            link.read_armed = true;
            return Read::Blocked;
        }
        let mut count = available;
        if count > 1 && self.random.chance(self.faults.split) {
            count = match self.random.below(3) {
                0 => 1,
                _ => 1 + self.random.below(count as u64 - 1) as usize,
            };
        }
        for (place, byte) in buffer.iter_mut().zip(link.to_node.drain(..count)) {
            *place = byte;
        }
        if count < buffer.len() {
            link.read_armed = true;
            if !link.to_node.is_empty() || link.to_node_ended {
                self.edges[edge].ready.insert(id);
            }
        }
        self.fold(7, id, count as u64);
        Read::Data(count)
    }

    fn write(&mut self, edge: usize, conn: Conn, parts: &[IoSlice<'_>]) -> Write {
        let Some(id) = self.link_of(edge, conn) else {
            return Write::Failed(ErrorKind::NotConnected);
        };
        let Some(link) = self.links.get_mut(&id) else {
            return Write::Failed(ErrorKind::NotConnected);
        };
        if link.reset {
            return Write::Failed(ErrorKind::ConnectionReset);
        }
        let offered: usize = parts.iter().map(|part| part.len()).sum();
        if link.client_gone || offered == 0 {
            return Write::Wrote(offered);
        }
        let room = link.capacity.saturating_sub(link.to_client.len());
        if room == 0 {
            link.write_armed = true;
            return Write::Blocked;
        }
        let mut count = offered.min(room);
        if count > 1 && self.random.chance(self.faults.split) {
            count = 1 + self.random.below(count as u64 - 1) as usize;
        }
        let taken: Vec<u8> =
            parts.iter().flat_map(|part| part.iter()).take(count).copied().collect();
        let taken = self.saboteur.on_write(taken);
        let taken = self.saboteur.on_mqtt_write(id, taken);
        for bytes in taken.chunks(8) {
            let mut word = [0; 8];
            word[..bytes.len()].copy_from_slice(bytes);
            self.hash = fold(self.hash, u64::from_le_bytes(word));
        }
        link.to_client.extend(taken);
        if count < offered {
            link.write_armed = true;
            if count < room {
                self.edges[edge].ready.insert(id);
            }
        }
        self.notified.push(link.client);
        self.fold(8, id, count as u64);
        Write::Wrote(count)
    }

    fn close(&mut self, edge: usize, conn: Conn, how: Close) {
        if let Some(id) = self.link_of(edge, conn) {
            self.forget(edge, conn);
            self.edges[edge].ready.remove(&id);
            self.edges[edge].closing.push((conn, id, how));
        }
    }
}

/// Folds one word into a hash; cheap, and sensitive to the order.
pub fn fold(hash: u64, word: u64) -> u64 {
    (hash ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(23)
}

/// One reactor's part of the network.
pub struct SimNet {
    network: Rc<RefCell<Network>>,
    edge: usize,
}

impl SimNet {
    /// Creates the view of one edge's connections.
    pub fn new(network: Rc<RefCell<Network>>, edge: usize) -> SimNet {
        SimNet { network, edge }
    }
}

impl Net for SimNet {
    fn poll(&mut self, timeout: Option<Duration>, events: &mut Vec<Event>) -> io::Result<()> {
        self.network.borrow_mut().poll(self.edge, timeout, events);
        Ok(())
    }

    fn read(&mut self, conn: Conn, buffer: &mut [u8]) -> Read {
        self.network.borrow_mut().read(self.edge, conn, buffer)
    }

    fn write(&mut self, conn: Conn, parts: &[IoSlice<'_>]) -> Write {
        self.network.borrow_mut().write(self.edge, conn, parts)
    }

    fn shutdown_write(&mut self, conn: Conn) {
        let mut network = self.network.borrow_mut();
        if let Some(id) = network.link_of(self.edge, conn)
            && let Some(link) = network.links.get_mut(&id)
        {
            link.to_client_ended = true;
            let client = link.client;
            network.notified.push(client);
        }
    }

    fn close(&mut self, conn: Conn, how: Close) {
        self.network.borrow_mut().close(self.edge, conn, how);
    }

    fn pause_accepting(&mut self) {
        self.network.borrow_mut().edges[self.edge].paused = true;
    }

    fn resume_accepting(&mut self) {
        self.network.borrow_mut().edges[self.edge].paused = false;
    }
}

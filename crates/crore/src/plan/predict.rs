//! The prediction: a demand and the budget in, memory, processor time, bandwidth and limits out.
//! Pure.

use crate::budget::{cluster, connection, fixed, kernel, message, own_tcp, processor, tls, wire};
use crate::doctor::Network;
use log::RECORD_HEADER_BYTES;
use std::ops::Add;

/// The transport of the subscribers.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
pub enum Transport {
    /// WebSocket, the native protocol.
    Ws,
    /// HTTP event streams.
    Sse,
}

/// The load of a node.
#[derive(Clone, Copy, Debug)]
pub struct Demand {
    /// Clients, each with one subscription.
    pub connections: f64,
    /// Publications per second.
    pub rate: f64,
    /// Receivers of each.
    pub fan_out: f64,
    /// Bytes of a message.
    pub message_bytes: f64,
    /// Bytes of a topic's name.
    pub topic_bytes: f64,
    /// The transport of the subscribers.
    pub transport: Transport,
    /// The network of the subscribers.
    pub network: Network,
    /// Over TLS.
    pub has_tls: bool,
    /// I/O threads.
    pub io_threads: f64,
    /// Cores of the server.
    pub cores: f64,
    /// Connects per second while clients come.
    pub connect_rate: f64,
    /// Seconds between two pings to a quiet client; 0: none.
    pub ping_interval_s: f64,
    /// The log's age, in seconds.
    pub log_age_s: f64,
    /// The log's bytes.
    pub log_bytes_max: f64,
    /// Bytes of the ring of each I/O thread.
    pub ring_bytes: f64,
    /// The cluster of the node; none for a node alone.
    pub cluster: Option<Cluster>,
}

/// A cluster: the rate of a [`Demand`] is that of all its nodes, because each reads all messages.
#[derive(Clone, Copy, Debug)]
pub struct Cluster {
    /// Nodes that serve.
    pub nodes: f64,
    /// Clients of all of them.
    pub connections: f64,
}

impl Demand {
    /// The part of all clients that this node serves.
    fn share(&self) -> f64 {
        self.cluster.map_or(1.0, |cluster| self.connections / cluster.connections.max(1.0))
    }

    /// Receivers of a publication at this node.
    fn receivers(&self) -> f64 {
        self.fan_out * self.share()
    }

    /// Deliveries per second of this node.
    pub fn deliveries(&self) -> f64 {
        self.rate * self.receivers()
    }

    /// Publications per second that this node accepts.
    pub fn accepted(&self) -> f64 {
        self.rate / self.cluster.map_or(1.0, |cluster| cluster.nodes)
    }

    /// Topics that the node knows: with a cluster all, because it reads all messages.
    fn topics(&self) -> f64 {
        let clients = self.cluster.map_or(self.connections, |cluster| cluster.connections);
        (clients / self.fan_out.max(1.0)).max(1.0)
    }
}

/// A part of a resource.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Part {
    /// Its name.
    pub name: &'static str,
    /// Its amount, in bytes or cores.
    pub amount: f64,
}

/// Resources that a load needs.
#[derive(Clone, PartialEq, Debug)]
pub struct Prediction {
    /// User space, in bytes.
    pub user: Vec<Part>,
    /// The kernel's memory, in bytes.
    pub kernel: Vec<Part>,
    /// Processor time, in cores.
    pub processor: Vec<Part>,
    /// Bits per second from the clients' side, and to it.
    pub in_bits: f64,
    pub out_bits: f64,
    /// Bits per second from the engine, and to it.
    pub engine_in_bits: f64,
    pub engine_out_bits: f64,
    /// Descriptors, and threads.
    pub descriptors: f64,
    pub threads: f64,
    /// Processor time of one connect, in microseconds.
    pub connect_us: f64,
}

/// Sums up parts.
pub fn total(parts: &[Part]) -> f64 {
    parts.iter().map(|part| part.amount).fold(0.0, f64::add)
}

impl Prediction {
    /// The prediction of a demand.
    pub fn of(demand: &Demand) -> Prediction {
        let deliveries = demand.deliveries();
        // Log threads and the operators' port are few.
        let threads = demand.io_threads + 4.0;
        let (in_bits, out_bits) = bandwidth(demand, deliveries);
        let (engine_in_bits, engine_out_bits) = engine_bandwidth(demand);
        Prediction {
            user: user_memory(demand, deliveries),
            kernel: kernel_memory(demand, deliveries),
            processor: processor_time(demand, deliveries),
            in_bits,
            out_bits,
            engine_in_bits,
            engine_out_bits,
            descriptors: 64.0 * demand.io_threads
                + match demand.network {
                    Network::Kernel => demand.connections,
                    Network::User => 0.0,
                },
            threads,
            connect_us: connect_us(demand),
        }
    }

    /// User space that a node has before its first connection.
    pub fn fixed_bytes(&self) -> f64 {
        let is_fixed = |part: &&Part| matches!(part.name, "binary" | "threads");
        self.user.iter().filter(is_fixed).map(|part| part.amount).sum()
    }
}

fn user_memory(demand: &Demand, deliveries: f64) -> Vec<Part> {
    let connections = demand.connections;
    let topics = demand.topics();
    let subscribed = topics.min(connections.max(1.0));
    // Subscribers of a topic are spread over the threads; each thread with one knows the topic.
    let edges = demand.receivers().clamp(1.0, demand.io_threads);
    let interest = 16.0;
    let home = connection::HOME_TOPIC_BYTES + (edges - 1.0) * interest;
    let record = demand.message_bytes + RECORD_HEADER_BYTES as f64;
    let kept = (demand.rate * demand.log_age_s * record).min(demand.log_bytes_max);
    let index = kept / record * message::LOG_INDEX_BYTES;
    let frame = demand.message_bytes + head_bytes(demand.transport);
    // The rings fill in time, however slowly: a frame for each publication on each edge that has a
    // receiver.
    let has_frames = if demand.rate > 0.0 { 1.0 } else { 0.0 };
    let ring = has_frames
        * demand.io_threads
        * demand.ring_bytes
        * (1.0 + message::RING_FRAME_BYTES / frame);
    let first_use = if connections > 0.0 {
        fixed::FIRST_USE_BYTES + fixed::THREAD_FIRST_USE_BYTES * demand.io_threads
    } else {
        0.0
    };
    let network_bytes = match demand.network {
        Network::Kernel => connection::NETWORK_BYTES,
        Network::User => own_tcp::CONNECTION_BYTES,
    };
    let part = |name, amount| Part { name, amount };
    let mut parts = vec![
        part("binary", fixed::PROCESS_BYTES),
        part("threads", fixed::THREAD_BYTES * demand.io_threads),
        part("first use", first_use),
        part("slots", connection::SLOT_BYTES * connections),
        part("subscriptions", connection::SUBSCRIPTION_BYTES * connections),
        part("topics_edge", connection::EDGE_TOPIC_BYTES * subscribed * edges),
        part("topics_home", home * topics),
        part("names", (demand.topic_bytes + connection::NAME_HEAD_BYTES) * topics),
        part("network", network_bytes * connections),
        part("unaccounted", connection::UNACCOUNTED_BYTES * connections),
        part("log", kept),
        part("log_index", index),
        part("ring", ring),
    ];
    if demand.network == Network::User {
        // One thread carries them, the default of user_network.io_threads.
        parts.push(part("frames", own_tcp::THREAD_FRAMES_BYTES));
        let each = own_tcp::INFLIGHT_BYTES + frame;
        parts.push(part("unacknowledged", each * inflight(demand, deliveries)));
    }
    if demand.cluster.is_some() {
        let names = (demand.rate * cluster::NAME_S).min(cluster::NAMES_MAX);
        parts.push(part("recent names", cluster::NAME_BYTES * names));
    }
    if demand.has_tls {
        parts.push(part("tls", tls::SESSION_BYTES * connections));
    }
    if matches!(demand.transport, Transport::Sse) {
        parts.push(part("streams", connection::EVENT_STREAM_BYTES * connections));
    }
    parts
}

/// Connections with a message on its way, for about a round trip; a tenth of a second is a bad one.
fn inflight(demand: &Demand, deliveries: f64) -> f64 {
    const ROUND_TRIP_S: f64 = 0.1;
    (deliveries * ROUND_TRIP_S).min(demand.connections)
}

fn kernel_memory(demand: &Demand, deliveries: f64) -> Vec<Part> {
    let buffers = kernel::INFLIGHT_BYTES * inflight(demand, deliveries);
    match demand.network {
        Network::Kernel => vec![
            Part { name: "sockets", amount: kernel::SOCKET_BYTES * demand.connections },
            Part { name: "socket buffers", amount: buffers },
        ],
        Network::User => Vec::new(),
    }
}

/// Time to wake threads, for each event at this rate per second.
fn wake_us(demand: &Demand, rate: f64) -> f64 {
    let cores = demand.cores.min(demand.io_threads).max(1.0);
    let of_half = rate / (cores * processor::WAKE_HALF_RATE);
    processor::WAKE_US / (1.0 + of_half * of_half)
}

/// Extra time of an event whose socket is not in a cache.
fn cold_us(demand: &Demand) -> f64 {
    processor::COLD_US * demand.connections
        / (demand.connections + processor::COLD_HALF_CONNECTIONS)
}

fn connect_us(demand: &Demand) -> f64 {
    let handshake = if demand.has_tls { tls::HANDSHAKE_US } else { 0.0 };
    let waking = processor::CONNECT_WAKES * wake_us(demand, demand.connect_rate);
    let connect = match demand.network {
        Network::Kernel => processor::CONNECT_US + cold_us(demand) + waking,
        // A turn takes many at once.
        Network::User => own_tcp::CONNECT_US,
    };
    connect + handshake
}

/// Cores.
fn processor_time(demand: &Demand, deliveries: f64) -> Vec<Part> {
    let seal =
        if demand.has_tls { tls::SEAL_US + tls::SEAL_BYTE_US * demand.message_bytes } else { 0.0 };
    let in_cores = |per_second: f64, us: f64| per_second * us / 1e6;
    let (publish_us, delivery_us) = match demand.network {
        Network::Kernel => (processor::PUBLISH_US, processor::DELIVERY_US + cold_us(demand)),
        Network::User => (own_tcp::PUBLISH_US, own_tcp::DELIVERY_US),
    };
    let publications = in_cores(demand.accepted(), publish_us);
    let sends = in_cores(deliveries, delivery_us);
    let sealing = in_cores(deliveries + demand.accepted(), seal);
    // A client that receives often enough is not pinged.
    let quiet = if demand.ping_interval_s > 0.0 {
        let pings = demand.connections / demand.ping_interval_s;
        (pings - deliveries).max(0.0)
    } else {
        0.0
    };
    let pings = in_cores(quiet, processor::PING_US);
    let waking = in_cores(demand.rate, wake_us(demand, demand.rate));
    let idle = if demand.connections > 0.0 {
        in_cores(demand.io_threads, processor::IDLE_THREAD_US)
    } else {
        0.0
    };
    let part = |name, amount| Part { name, amount };
    let mut parts = vec![
        part("publications", publications),
        part("deliveries", sends),
        part("pings", pings),
        part("waking threads", waking),
        part("idle threads", idle),
    ];
    if demand.has_tls {
        parts.push(part("sealing", sealing));
    }
    if demand.cluster.is_some() {
        parts.push(part("reading", in_cores(demand.rate, cluster::TAIL_US)));
        parts.push(part("producing", in_cores(demand.accepted(), cluster::PRODUCE_US)));
    }
    parts
}

fn head_bytes(transport: Transport) -> f64 {
    match transport {
        Transport::Ws => wire::WEBSOCKET_BYTES,
        Transport::Sse => wire::EVENT_BYTES,
    }
}

/// To the server and from it, with the segments that acknowledge.
fn bandwidth(demand: &Demand, deliveries: f64) -> (f64, f64) {
    let sealed = if demand.has_tls { tls::RECORD_BYTES } else { 0.0 };
    let on_wire = |payload: f64| {
        let bytes = payload + sealed;
        bytes + (bytes / wire::SEGMENT_PAYLOAD_BYTES).ceil() * wire::SEGMENT_BYTES
    };
    let message = on_wire(demand.message_bytes + head_bytes(demand.transport));
    let publication = on_wire(demand.message_bytes + wire::WEBSOCKET_BYTES + demand.topic_bytes);
    let answer = on_wire(wire::WEBSOCKET_BYTES);
    let pings = if demand.ping_interval_s > 0.0 {
        (demand.connections / demand.ping_interval_s - deliveries).max(0.0)
    } else {
        0.0
    };
    let ping = on_wire(wire::PING_BYTES);
    let acknowledged = deliveries * wire::SEGMENT_BYTES;
    let inward = demand.accepted() * publication + acknowledged + pings * ping;
    let outward = deliveries * message + demand.accepted() * answer + pings * ping;
    (inward * 8.0, outward * 8.0)
}

/// From the engine and to it: all messages, and those that the node has accepted.
fn engine_bandwidth(demand: &Demand) -> (f64, f64) {
    if demand.cluster.is_none() {
        return (0.0, 0.0);
    }
    let bytes = demand.message_bytes + demand.topic_bytes + cluster::RECORD_BYTES;
    let on_wire = bytes * (1.0 + wire::SEGMENT_BYTES / wire::SEGMENT_PAYLOAD_BYTES);
    (demand.rate * on_wire * 8.0, demand.accepted() * on_wire * 8.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn demand() -> Demand {
        Demand {
            connections: 1e6,
            rate: 0.0,
            fan_out: 1.0,
            message_bytes: 512.0,
            topic_bytes: 16.0,
            transport: Transport::Ws,
            network: Network::Kernel,
            has_tls: false,
            io_threads: 8.0,
            cores: 8.0,
            connect_rate: 5_000.0,
            ping_interval_s: 60.0,
            log_age_s: 180.0,
            log_bytes_max: 268_435_456.0,
            ring_bytes: 4_194_304.0,
            cluster: None,
        }
    }

    /// Each node of a cluster reads all messages, and serves its own clients only.
    #[test]
    fn nodes_share_clients_and_not_messages() {
        let alone = Demand { rate: 10_000.0, ..demand() };
        let three = Cluster { nodes: 3.0, connections: 1e6 };
        let of_three = Demand { connections: 5e5, cluster: Some(three), ..alone };
        assert_eq!((of_three.deliveries(), of_three.accepted()), (5_000.0, 10_000.0 / 3.0));
        let [alone, of_three] = [alone, of_three].map(|demand| Prediction::of(&demand));
        let amount = |parts: &[Part], name: &str| {
            parts.iter().find(|part| part.name == name).map_or(0.0, |part| part.amount)
        };
        let same = ["topics_home", "names", "log"];
        assert!(same.iter().all(|name| amount(&alone.user, name) == amount(&of_three.user, name)));
        assert_eq!(amount(&alone.user, "slots"), 2.0 * amount(&of_three.user, "slots"));
        let reading = amount(&of_three.processor, "reading");
        assert!(reading > 0.0 && amount(&alone.processor, "reading") == 0.0);
        assert!(of_three.engine_in_bits > 2.9 * of_three.engine_out_bits);
        // Six nodes read as much, each.
        let six = Cluster { nodes: 6.0, connections: 1e6 };
        let of_six = Demand { rate: 10_000.0, connections: 2e5, cluster: Some(six), ..demand() };
        let of_six = Prediction::of(&of_six);
        assert_eq!(amount(&of_six.processor, "reading"), reading);
        assert!(total(&of_six.processor) < total(&of_three.processor));
    }

    /// The targets of the project: an idle connection within 256 bytes, and a fixed part of at most
    /// 1 MiB a thread.
    #[test]
    fn idle_connections_are_within_the_budget() {
        let one = Prediction::of(&demand());
        let two = Prediction::of(&Demand { connections: 2e6, ..demand() });
        let slope = (total(&two.user) - total(&one.user)) / 1e6;
        assert!((180.0..=256.0).contains(&slope), "{slope}");
        assert!(one.fixed_bytes() < 4.35e6 + 8.0 * 1_048_576.0);
    }

    /// The target of the node's own TCP: at most 264 bytes for a further connection, all included.
    #[test]
    fn own_tcp_needs_no_kernel_and_few_bytes() {
        let user = Demand { network: Network::User, ..demand() };
        let one = Prediction::of(&user);
        let two = Prediction::of(&Demand { connections: 2e6, ..user });
        let slope = (total(&two.user) - total(&one.user)) / 1e6;
        assert!((240.0..=264.0).contains(&slope), "{slope}");
        assert_eq!((total(&two.kernel), two.descriptors), (0.0, 512.0));
        let busy = Prediction::of(&Demand { rate: 10_000.0, ..user });
        assert!(busy.user.iter().any(|part| part.name == "unacknowledged" && part.amount > 5e5));
    }

    #[test]
    fn more_of_anything_takes_no_less() {
        let base = Demand { rate: 10_000.0, log_bytes_max: 1e12, ..demand() };
        let less = Prediction::of(&base);
        let all = |prediction: &Prediction| {
            [
                total(&prediction.user),
                total(&prediction.kernel),
                total(&prediction.processor),
                prediction.in_bits,
                prediction.out_bits,
            ]
        };
        for more in [
            Demand { connections: 3e6, ..base },
            Demand { rate: 20_000.0, ..base },
            Demand { message_bytes: 2_048.0, ..base },
            Demand { has_tls: true, ..base },
        ] {
            let more_of_all = all(&Prediction::of(&more));
            for (less, more_of) in all(&less).into_iter().zip(more_of_all) {
                assert!(more_of >= less * 0.999, "{more:?}: {less} {more_of}");
            }
        }
    }

    /// Deliveries of a shared topic cost no further publications, and topics are fewer.
    #[test]
    fn fan_out_shares_what_can_be_shared() {
        let apart = Prediction::of(&Demand { rate: 10_000.0, ..demand() });
        let shared = Demand { rate: 100.0, fan_out: 100.0, ..demand() };
        let shared = Prediction::of(&shared);
        assert!(total(&shared.processor) < total(&apart.processor));
        assert!(total(&shared.user) < total(&apart.user));
        assert!(shared.out_bits < apart.out_bits && shared.out_bits > 0.8 * apart.out_bits);
    }
}

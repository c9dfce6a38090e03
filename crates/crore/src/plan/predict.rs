//! The prediction: a demand and the budget in, memory, processor time, bandwidth and limits out.
//! Pure.

use crate::budget::{connection, fixed, kernel, message, processor, tls, wire};
use log::RECORD_HEADER_BYTES;

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
    /// Descriptors, and threads.
    pub descriptors: f64,
    pub threads: f64,
    /// Processor time of one connect, in microseconds.
    pub connect_us: f64,
}

/// Sums up parts.
pub fn total(parts: &[Part]) -> f64 {
    parts.iter().map(|part| part.amount).sum()
}

impl Prediction {
    /// The prediction of a demand.
    pub fn of(demand: &Demand) -> Prediction {
        let deliveries = demand.rate * demand.fan_out;
        // Log threads and the operators' port are few.
        let threads = demand.io_threads + 4.0;
        let (in_bits, out_bits) = bandwidth(demand, deliveries);
        Prediction {
            user: user_memory(demand),
            kernel: kernel_memory(demand, deliveries),
            processor: processor_time(demand, deliveries),
            in_bits,
            out_bits,
            descriptors: demand.connections + 64.0 * demand.io_threads,
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

fn user_memory(demand: &Demand) -> Vec<Part> {
    let connections = demand.connections;
    let topics = (connections / demand.fan_out.max(1.0)).max(1.0);
    // Subscribers of a topic are spread over the threads; each thread with one knows the topic.
    let edges = demand.fan_out.clamp(1.0, demand.io_threads);
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
    let part = |name, amount| Part { name, amount };
    let mut parts = vec![
        part("binary", fixed::PROCESS_BYTES),
        part("threads", fixed::THREAD_BYTES * demand.io_threads),
        part("first use", first_use),
        part("slots", connection::SLOT_BYTES * connections),
        part("subscriptions", connection::SUBSCRIPTION_BYTES * connections),
        part("topics_edge", connection::EDGE_TOPIC_BYTES * topics * edges),
        part("topics_home", home * topics),
        part("names", (demand.topic_bytes + connection::NAME_HEAD_BYTES) * topics),
        part("network", connection::NETWORK_BYTES * connections),
        part("unaccounted", connection::UNACCOUNTED_BYTES * connections),
        part("log", kept),
        part("log_index", index),
        part("ring", ring),
    ];
    if demand.has_tls {
        parts.push(part("tls", tls::SESSION_BYTES * connections));
    }
    if matches!(demand.transport, Transport::Sse) {
        parts.push(part("streams", connection::EVENT_STREAM_BYTES * connections));
    }
    parts
}

fn kernel_memory(demand: &Demand, deliveries: f64) -> Vec<Part> {
    // A message is on its way for about a round trip; a tenth of a second is a bad one.
    const ROUND_TRIP_S: f64 = 0.1;
    let inflight = (deliveries * ROUND_TRIP_S).min(demand.connections);
    vec![
        Part { name: "sockets", amount: kernel::SOCKET_BYTES * demand.connections },
        Part { name: "socket buffers", amount: kernel::INFLIGHT_BYTES * inflight },
    ]
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
    processor::CONNECT_US + waking + cold_us(demand) + handshake
}

/// Cores.
fn processor_time(demand: &Demand, deliveries: f64) -> Vec<Part> {
    let seal =
        if demand.has_tls { tls::SEAL_US + tls::SEAL_BYTE_US * demand.message_bytes } else { 0.0 };
    let in_cores = |per_second: f64, us: f64| per_second * us / 1e6;
    let publications = in_cores(demand.rate, processor::PUBLISH_US);
    let sends = in_cores(deliveries, processor::DELIVERY_US + cold_us(demand));
    let sealing = in_cores(deliveries + demand.rate, seal);
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
    let inward = demand.rate * publication + acknowledged + pings * ping;
    let outward = deliveries * message + demand.rate * answer + pings * ping;
    (inward * 8.0, outward * 8.0)
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
            has_tls: false,
            io_threads: 8.0,
            cores: 8.0,
            connect_rate: 5_000.0,
            ping_interval_s: 60.0,
            log_age_s: 180.0,
            log_bytes_max: 268_435_456.0,
            ring_bytes: 4_194_304.0,
        }
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

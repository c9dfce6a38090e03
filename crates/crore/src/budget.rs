//! Costs of a connection and of a message, each with its unit and its source. `crore doctor` and
//! `crore plan` use these numbers and no others.
//!
//! All were measured on two cores of a virtual machine with Linux 6.18, clients and server
//! together. Memory and bytes carry over to other machines; processor time does so as far as the
//! cores are alike.

/// User space of an idle connection with a topic of its own, in bytes, by component and without the
/// topic's name. docs/performance.md, "An idle connection, by component".
pub mod connection {
    /// Slot and stamp.
    pub const SLOT_BYTES: f64 = 56.1;
    /// Subscription.
    pub const SUBSCRIPTION_BYTES: f64 = 40.0;
    /// Its topic at the edge.
    pub const EDGE_TOPIC_BYTES: f64 = 20.1;
    /// Its topic at home: entry, index, hash slot. Between two doublings of the hash tables it is
    /// 49 to 55.
    pub const HOME_TOPIC_BYTES: f64 = 52.9;
    /// A name takes its length, and so much more on average: its own length and padding.
    pub const NAME_HEAD_BYTES: f64 = 1.5;
    /// Descriptor and generation.
    pub const NETWORK_BYTES: f64 = 8.1;
    /// The state of an event stream, in place of a session of the native protocol.
    /// docs/performance.md, "Ten million, at a tenth".
    pub const EVENT_STREAM_BYTES: f64 = 205.0;
    /// The rest: heads of the allocator, ends of pages.
    pub const UNACCOUNTED_BYTES: f64 = 2.0;
}

/// The node's own TCP (`[user_network]`). docs/user-tcp.md, "Figures".
pub mod own_tcp {
    /// A connection at rest, in place of the kernel's socket and the descriptor: its line and its
    /// place in the table.
    pub const CONNECTION_BYTES: f64 = 73.7;
    /// Memory of one thread for frames that come and go: 16,384 and 4,096 places of 2,048 bytes.
    pub const THREAD_FRAMES_BYTES: f64 = 41_943_040.0;
    /// A message on its way: its active block, and the segment that is kept until the peer has
    /// acknowledged it, beside its payload.
    pub const INFLIGHT_BYTES: f64 = 256.0;
    /// A publication, and a delivery, of ten million clients and 120,000 messages a second: 8.8 µs
    /// together, divided by the times of the two threads. The kernel's path of a frame is in it.
    pub const PUBLISH_US: f64 = 3.1;
    /// See [`PUBLISH_US`].
    pub const DELIVERY_US: f64 = 5.7;
    /// Upgrade, subscription and their answers, of 60,000 connects a second.
    pub const CONNECT_US: f64 = 14.8;
}

/// User space that does not grow with connections, in bytes. docs/performance.md, "An idle
/// connection": 4.0 to 5.4 MB with eight I/O threads.
pub mod fixed {
    /// The binary and its libraries.
    pub const PROCESS_BYTES: f64 = 4_350_000.0;
    /// One I/O thread, before it has served a connection.
    pub const THREAD_BYTES: f64 = 130_000.0;
    /// Memory that the first connections touch for the first time: pages that fill up, caches of
    /// the allocator. docs/benchmarks.md, "Accuracy of a plan".
    pub const FIRST_USE_BYTES: f64 = 90_000.0;
    /// Memory that the first connections of each I/O thread touch for the first time.
    pub const THREAD_FIRST_USE_BYTES: f64 = 45_000.0;
}

/// Memory of the kernel. docs/performance.md, "An idle connection".
pub mod kernel {
    /// An established socket in epoll, one end: slab, with inode and directory entry, which the
    /// kernel calls reclaimable and cannot reclaim while the socket is open.
    pub const SOCKET_BYTES: f64 = 4_150.0;
    /// Bytes of socket buffers that a connection with a message on its way holds: a page.
    pub const INFLIGHT_BYTES: f64 = 4_096.0;
}

/// Processor time of the server, in microseconds, measured on a quiet machine. docs/performance.md,
/// "Unicast", "Fan-out", "Accuracy of a plan".
pub mod processor {
    /// A publication, acknowledged: a receive, an append, a send; on threads that are busy. 14 µs
    /// with its one delivery.
    pub const PUBLISH_US: f64 = 9.4;
    /// A delivery: a send; on threads that are busy. 3.6 µs to receivers that are awake, 5.7 to
    /// those that sleep.
    pub const DELIVERY_US: f64 = 4.6;
    /// Additional CPU time of a delivery and of a connect when the kernel's sockets, some kilobytes
    /// each, far exceed the caches; measured with 60,000 to a million connections.
    pub const COLD_US: f64 = 4.0;
    /// Number of connections at which half of [`COLD_US`] applies.
    pub const COLD_HALF_CONNECTIONS: f64 = 40_000.0;
    /// Additional CPU time of a publication when each thread on its way sleeps, on a virtual
    /// machine: halted cores, cold caches.
    pub const WAKE_US: f64 = 26.0;
    /// Publications per second and core at which half of that is saved, because the core is still
    /// awake; beyond, it falls with the square of the rate. Both were fitted to "Unicast" and to
    /// "Accuracy of a plan", from 83 to 60,000 messages per second.
    pub const WAKE_HALF_RATE: f64 = 13_000.0;
    /// Upgrade, subscription and their answers, on a thread that is busy.
    pub const CONNECT_US: f64 = 22.0;
    /// Number of thread wake-ups for a connection that comes alone.
    pub const CONNECT_WAKES: f64 = 1.6;
    /// A ping and its pong, a send and a receive: 4.9 µs where they follow each other, 22 where
    /// each wakes the thread.
    pub const PING_US: f64 = 10.0;
    /// Constant cost of an I/O thread with connections, in microseconds per second: every 10 ms it
    /// looks for connections to ping.
    pub const IDLE_THREAD_US: f64 = 4_000.0;
}

/// Memory of messages, in bytes.
pub mod message {
    /// A record's entry in the index of its segment, and of its topic (docs/formats.md): 12 and 8.
    pub const LOG_INDEX_BYTES: f64 = 20.0;
    /// A frame in the ring of recent frames, beside its bytes.
    pub const RING_FRAME_BYTES: f64 = 72.0;
}

/// A node of a cluster, beyond the costs above. docs/cluster.md, "Figures".
pub mod cluster {
    /// A record of the engine, read by every node: processor time with librdkafka's threads, in
    /// microseconds, without its deliveries: 8.5 at 6,000 records per second on a busy machine. It
    /// falls with the rate, as batches grow.
    pub const TAIL_US: f64 = 8.5;
    /// A publication through the engine, at the node that has accepted it, in microseconds: beyond
    /// [`super::processor::PUBLISH_US`], and without its own record in the tail.
    pub const PRODUCE_US: f64 = 7.5;
    /// A record of the engine beside topic and payload, in bytes: Kafka's record format with the
    /// header `crore.n`. The heads of batches come on top.
    pub const RECORD_BYTES: f64 = 40.0;
    /// A sequence or key by which repetitions are recognised, in bytes.
    pub const NAME_BYTES: f64 = 34.5;
    /// The time for which it is known, in seconds.
    pub const NAME_S: f64 = 300.0;
    /// The maximum number of them in the 64 partitions of a log.
    pub const NAMES_MAX: f64 = 64.0 * 32_768.0;
}

/// TLS. docs/performance.md, "TLS".
pub mod tls {
    /// User space of an idle session beyond a plain one.
    pub const SESSION_BYTES: f64 = 453.0;
    /// A full handshake of TLS 1.3.
    pub const HANDSHAKE_US: f64 = 90.0;
    /// Sealing a message: for each, and for each byte (260 ns at 512 bytes).
    pub const SEAL_US: f64 = 0.16;
    /// The same, for each byte.
    pub const SEAL_BYTE_US: f64 = 0.0002;
    /// A record's head, type and tag on the wire, in bytes (RFC 8446).
    pub const RECORD_BYTES: f64 = 22.0;
}

/// Bytes on the wire beside the payload.
pub mod wire {
    /// MESSAGE of the native protocol (spec/protocol.md) and the head of a WebSocket frame of 126
    /// to 65,535 bytes.
    pub const WEBSOCKET_BYTES: f64 = 7.0 + 4.0;
    /// An event of an event stream: `id:` with epoch and offset, `data:`, and the chunk's head.
    pub const EVENT_BYTES: f64 = 56.0;
    /// IPv4, TCP with time stamps, and Ethernet with preamble and gap, for each segment.
    pub const SEGMENT_BYTES: f64 = 20.0 + 32.0 + 38.0;
    /// Payload of a segment, at an MTU of 1,500.
    pub const SEGMENT_PAYLOAD_BYTES: f64 = 1_448.0;
    /// A ping or pong: WebSocket's head, the frame and, from clients, the mask.
    pub const PING_BYTES: f64 = 8.0;
}

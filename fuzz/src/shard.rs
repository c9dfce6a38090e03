//! A complete shard, edge and home on one thread, with arbitrary input from clients.
//!
//! The node's own loop is left out: letters are delivered at once, and writes are partial.
//! Assertions: no panic; a connection never owns more than its bound; after all clients have left,
//! no state of them remains.

use broker::edge::{Edge, Written};
use broker::home::{Home, HomeOutputs};
use broker::mail::{EdgeId, HomeId};
use broker::now::Now;
use broker::settings::{
    LagPolicy, Limits, LogSettings, RuleSettings, Settings, TicketKey, TicketSettings,
};
use log::HeapMemory;
use std::sync::Arc;
use stdx::key::Key;
use stdx::prng::Prng;

/// The number of connections; the first byte of each part selects one.
const CONNECTIONS: u32 = 3;
/// The maximum size of one part.
const PART_BYTES_MAX: usize = 200;

struct Shard {
    edge: Edge,
    home: Home,
    letters: HomeOutputs,
    memory: HeapMemory,
    random: Prng,
    now: Now,
    is_open: [bool; CONNECTIONS as usize],
}

fn settings() -> Arc<Settings> {
    Arc::new(Settings {
        edges_count: 1,
        homes_count: 1,
        logs: vec![LogSettings {
            name: "memory".into(),
            partitions_count: 2,
            epoch: 7,
            log_bytes_max: 16 << 10,
            age_max_ms: 2_000,
            segment_bytes: 2_000,
            retained_bytes_max: 1_000,
            ..LogSettings::default()
        }],
        tickets: TicketSettings {
            keys: vec![TicketKey::new([1; 32])],
            lifetime_ms: 60_000,
            not_before_ms: 0,
        },
        rules: vec![RuleSettings {
            log: 0,
            history_messages_max: 10,
            history_age_max_ms: 1_000_000,
            message_bytes_max: 4_000,
            when_lagging: LagPolicy::Replay,
            ..RuleSettings::default()
        }],
        limits: Limits {
            outbox_len_max: 4,
            outbox_bytes_max: 32 << 10,
            pinned_bytes_max: 64 << 10,
            ring_bytes: 1,
            requests_inflight_max: 3,
            stream_credit_bytes: 500,
            turn_frames_max: 3,
            page_records_max: 3,
            frame_bytes_max: 8_000,
            message_bytes_max: 4_000,
            echo_bytes_max: 8_000,
            subscriptions_per_session_max: 5,
            topics_max: 20,
            filters_per_shard_max: 4,
            ..Limits::default()
        },
        node_name: "fuzz".into(),
        ..Settings::default()
    })
}

fn key(index: u32) -> Key {
    Key { index, generation: 1 }
}

impl Shard {
    fn turn(&mut self, ahead_ms: u64) {
        self.now.monotonic_ms += ahead_ms;
        self.now.unix_ms += ahead_ms;
        self.edge.turn(self.now);
        for _ in 0..4 {
            self.exchange();
            self.home.pump(self.now, &mut self.memory, &mut self.letters);
            self.exchange();
            let random = &mut self.random;
            self.edge.flush(&mut |_, parts| {
                let offered: usize = parts.iter().map(|part| part.len()).sum();
                match random.below(4) {
                    0 => Written::Blocked,
                    1 => Written::Bytes(random.below(offered as u64 + 1) as usize),
                    _ => Written::Bytes(offered),
                }
            });
            self.home.finish_turn(&mut self.letters);
        }
        self.exchange();
    }

    fn exchange(&mut self) {
        for _ in 0..1_000 {
            let requests = std::mem::take(&mut self.edge.out.requests[0]);
            let letters = std::mem::take(&mut self.letters.letters[0]);
            if requests.is_empty() && letters.is_empty() {
                break;
            }
            for request in requests {
                self.home.handle(self.now, EdgeId(0), request, &mut self.memory, &mut self.letters);
            }
            for letter in letters {
                self.edge.handle(HomeId(0), letter);
            }
        }
        for (conn, _) in self.edge.out.closes.drain(..) {
            self.is_open[conn.index as usize] = false;
        }
        self.edge.out.readable.clear();
    }
}

/// The target `shard`. The input consists of parts, each `connection, length, bytes`.
pub fn shard(data: &[u8]) {
    let (seed, mut data) = crate::split_seed(data);
    let settings = settings();
    let now = Now { monotonic_ms: 5_000, unix_ms: 1_000_000 };
    let mut shard = Shard {
        edge: Edge::new(settings.clone(), EdgeId(0), now),
        home: Home::new(settings.clone(), HomeId(0), (1, 2)),
        letters: HomeOutputs::new(1),
        memory: HeapMemory::new(64 << 10),
        random: Prng::new(seed),
        now,
        is_open: [true; CONNECTIONS as usize],
    };
    (0..CONNECTIONS)
        .for_each(|index| shard.edge.accepted(key(index), std::net::IpAddr::from([127, 0, 0, 1])));
    while let [which, rest @ ..] = data {
        let index = u32::from(*which) % CONNECTIONS;
        let len = rest.len().min(1 + usize::from(*which) / 3 % PART_BYTES_MAX);
        let (part, after) = rest.split_at(len);
        data = after;
        if shard.is_open[index as usize] && shard.edge.wants_read(key(index)) {
            shard.edge.received(key(index), &mut part.to_vec());
        }
        if shard.random.chance(0.3) && shard.is_open[index as usize] {
            shard.edge.writable(key(index));
        }
        let ahead_ms = shard.random.below(30);
        shard.turn(ahead_ms);
        let pinned = shard.edge.statistics().pinned_bytes;
        let limits = &settings.limits;
        assert!(
            pinned <= limits.pinned_bytes_max + u64::from(limits.outbox_bytes_max),
            "{pinned} bytes pinned"
        );
    }
    for index in 0..CONNECTIONS {
        if shard.is_open[index as usize] {
            shard.edge.lost(key(index));
        }
    }
    (0..4).for_each(|_| shard.turn(1_000));
    let (edge, home) = (shard.edge.statistics(), shard.home.statistics());
    assert_eq!(
        (edge.connections, edge.subscriptions, edge.filters, edge.pinned_bytes, home.filters),
        (0, 0, 0, 0, 0),
        "connections, subscriptions, filters, pinned bytes, filters at home"
    );
}

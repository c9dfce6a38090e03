//! Memory of idle connections at numbers that no test machine has sockets for: eight edges and
//! eight homes of a node on one thread, without a network. Every connection upgrades, says hello
//! and subscribes to a topic of its own, 5,000 a second by the shards' clock.
//!
//! Prints a line for every step: connections, the process's anonymous memory, the bytes that the
//! shards report, and the slope of both since the line before.

use crate::anonymous_bytes;
use anyhow::ensure;
use broker::edge::{Edge, UserChange, Written};
use broker::entitlement::{Entitlement, Permissions, Question, Terms};
use broker::filters::FilterTrie;
use broker::home::{Home, HomeOutputs};
use broker::mail::{EdgeId, HomeId, PartitionId};
use broker::now::Now;
use broker::settings::{
    AddressSettings, Durability, EntitlementSettings, JournalSettings, LagPolicy, Limits,
    LogSettings, RuleSettings, Settings, SysSettings, TicketSettings,
};
use log::HeapMemory;
use node::users::Users;
use std::sync::Arc;
use stdx::key::Key;
use stdx::memory::Components;
use wire::native::{ClientFrame, Hello, List, Start, Subscribe, SubscribeItem, SubscribeRequest};
use wire::websocket::frame::{Opcode, encode};
use wire::websocket::handshake::ClientHandshake;

const SHARDS: u16 = 8;
/// Connects per second.
const RATE: u64 = 5_000;
/// Connections of one turn.
const TURN: u64 = 64;

struct Shards {
    edges: Vec<Edge>,
    homes: Vec<(Home, HomeOutputs)>,
    memory: HeapMemory,
    now: Now,
    has_tokens: bool,
    terms: Arc<Terms>,
    users: Users,
}

/// The connections.
#[derive(Debug, clap::Args)]
pub struct Options {
    /// Number of connections.
    #[arg(default_value_t = 1_000_000)]
    connections: u64,
    /// Number of connections between two lines.
    #[arg(default_value_t = 50_000)]
    step: u64,
    /// Give every connection a token of its own; the terms are shared.
    #[arg(long)]
    tokens: bool,
    /// Count connections by user as well.
    #[arg(long)]
    users: bool,
}

/// Connects all, and prints their memory.
///
/// # Errors
/// A connection was refused.
pub fn run(options: &Options) -> anyhow::Result<()> {
    let (connections, step) = (options.connections, options.step);
    let has_tokens = options.tokens || options.users;
    let mut settings = settings(has_tokens);
    if let Some(entitlement) = &mut settings.entitlement {
        entitlement.users_are_counted = options.users;
    }
    let settings = Arc::new(settings);
    let now = Now { monotonic_ms: 1_000, unix_ms: 1_700_000_000_000 };
    let mut shards = Shards {
        edges: (0..SHARDS).map(|id| Edge::new(settings.clone(), EdgeId(id), now)).collect(),
        homes: (0..SHARDS)
            .map(|id| (Home::new(settings.clone(), HomeId(id), (1, 2)), HomeOutputs::new(SHARDS)))
            .collect(),
        memory: HeapMemory::new(1 << 30),
        now,
        has_tokens,
        terms: terms(),
        users: Users::new(Some(5)),
    };
    println!("connections  anonymous  accounted  slope of both, bytes for each");
    let mut last = (0, anonymous_bytes(), shards.components().total());
    for number in 0..connections {
        shards.connect(number);
        if number % TURN == TURN - 1 {
            shards.now.monotonic_ms = 1_000 + number * 1_000 / RATE;
            shards.turn();
        }
        if (number + 1) % step == 0 {
            shards.turn();
            let next = (number + 1, anonymous_bytes(), shards.components().total());
            let each = |now: u64, then: u64| (now as f64 - then as f64) / step as f64;
            println!(
                "{:>11} {:>10} {:>10}  {:>7.1} {:>7.1}",
                next.0,
                next.1,
                next.2,
                each(next.1, last.1),
                each(next.2, last.2)
            );
            last = next;
        }
    }
    for (component, bytes) in shards.components().iter().filter(|(_, bytes)| *bytes > 0) {
        let each = bytes as f64 / connections as f64;
        println!("{:<14} {bytes:>12} {each:>8.1}", component.name());
    }
    let subscribed: u64 = shards.edges.iter().map(|edge| edge.statistics().subscriptions).sum();
    ensure!(subscribed == connections, "only {subscribed} connections are subscribed");
    let users = if options.users { connections } else { 0 };
    ensure!(shards.users.statistics().users == users, "users are missing");
    Ok(())
}

impl Shards {
    fn connect(&mut self, number: u64) {
        let edge = &mut self.edges[(number % u64::from(SHARDS)) as usize];
        let key = Key { index: (number / u64::from(SHARDS)) as u32, generation: 1 };
        edge.accepted(key, [127, 0, 0, 1].into());
        edge.received(key, &mut opening(number, self.has_tokens));
    }

    /// Delivers messages between the shards until none is left, and flushes all outputs.
    fn turn(&mut self) {
        for edge in &mut self.edges {
            edge.turn(self.now);
            for question in std::mem::take(&mut edge.out.questions) {
                let verdict = Ok(entitlement(&question, &self.terms));
                edge.decided(question.connection, question.purpose, question.digest, verdict);
            }
            for change in std::mem::take(&mut edge.out.users) {
                let UserChange::Comes { connection, user, connections_max } = change else {
                    continue;
                };
                if self.users.enter(&user, connections_max) {
                    edge.user_admitted(connection, &user)
                } else {
                    edge.user_refused(connection)
                }
            }
        }
        loop {
            let mut is_quiet = true;
            for from in 0..SHARDS {
                for (home, (shard, out)) in self.homes.iter_mut().enumerate() {
                    let requests = &mut self.edges[usize::from(from)].out.requests[home];
                    for request in std::mem::take(requests) {
                        is_quiet = false;
                        shard.handle(self.now, EdgeId(from), request, &mut self.memory, out);
                    }
                }
            }
            for (home, (shard, out)) in (0..).zip(&mut self.homes) {
                shard.pump(self.now, &mut self.memory, out);
                shard.finish_turn(out);
                for (edge, letters) in self.edges.iter_mut().zip(&mut out.letters) {
                    for letter in std::mem::take(letters) {
                        is_quiet = false;
                        edge.handle(HomeId(home), letter);
                    }
                }
            }
            for edge in &mut self.edges {
                edge.continue_resumed();
                edge.flush(&mut |_, parts| {
                    Written::Bytes(parts.iter().map(|part| part.len()).sum())
                });
                assert!(edge.out.closes.is_empty(), "nobody is sent away");
            }
            if is_quiet {
                break;
            }
        }
    }

    fn components(&self) -> Components {
        let mut components = Components::new();
        for edge in &self.edges {
            components += edge.memory();
        }
        for (home, _) in &self.homes {
            components += home.memory();
        }
        components
    }
}

/// The defaults of `crore serve`.
fn settings(has_tokens: bool) -> Settings {
    Settings {
        edges_count: SHARDS,
        homes_count: SHARDS,
        logs: vec![LogSettings {
            name: "memory".into(),
            partitions_count: 64,
            first_partition: PartitionId(0),
            durability: Durability::Memory,
            epoch: 7,
            log_bytes_max: 256 << 20,
            age_max_ms: 180_000,
            segment_bytes: 2 << 20,
            retained_bytes_max: 256 << 20,
            ..LogSettings::default()
        }],
        tickets: TicketSettings::default(),
        rules: vec![RuleSettings {
            when_lagging: LagPolicy::Replay,
            log: 0,
            history_messages_max: 1_000,
            history_age_max_ms: 180_000,
            message_bytes_max: 1 << 20,
            ..RuleSettings::default()
        }],
        rule_filters: FilterTrie::default(),
        limits: Limits::default(),
        addresses: AddressSettings::default(),
        node_name: "node".into(),
        other_addresses: Vec::new(),
        compression: None,
        allowed_origins: Vec::new(),
        journal: JournalSettings::default(),
        sys: SysSettings::default(),
        mqtt: Default::default(),
        entitlement: has_tokens.then(EntitlementSettings::default),
    }
}

/// The permissions of all tokens.
fn terms() -> Arc<Terms> {
    Arc::new(Terms {
        permissions: Permissions { subscribe: vec!["idle/#".into()], ..Permissions::default() },
        ..Terms::default()
    })
}

/// A token's word is its subject: 17 bytes.
fn entitlement(question: &Question, terms: &Arc<Terms>) -> Entitlement {
    Entitlement {
        digest: question.digest,
        subject: String::from_utf8_lossy(&question.credential).into(),
        token_id: u64::from(question.connection.index) + 1,
        issued_s: 1_700_000_000,
        expires_s: 1_800_000_000,
        terms: terms.clone(),
    }
}

/// All that a client says, at once: upgrade, hello, subscribe.
fn opening(number: u64, has_token: bool) -> Vec<u8> {
    const MASK: Option<[u8; 4]> = Some([1, 2, 3, 4]);
    let mut bytes = Vec::new();
    let handshake = ClientHandshake {
        host: "localhost",
        target: "/crore",
        nonce: [7; 16],
        subprotocols: &["crore.v1"],
        headers: &[],
        deflate: false,
    };
    handshake.encode_request(&mut bytes);
    let token = format!("token-{number:011}");
    let hello = ClientFrame::Hello(Hello {
        // These clients answer no pings.
        ping_interval_s: 36_000,
        token: has_token.then_some(&token),
        name: None,
        ticket: None,
        cursors: List::from(&[][..]),
    });
    let topic = format!("idle/{number:011}");
    let items = [SubscribeItem::new(1, SubscribeRequest::new(&topic, Start::Live))];
    let subscribe = ClientFrame::Subscribe(Subscribe { items: List::from(&items[..]) });
    for frame in [hello, subscribe] {
        let mut payload = Vec::new();
        frame.encode(&mut payload);
        encode(&mut bytes, true, Opcode::Binary, &payload, MASK);
    }
    bytes
}

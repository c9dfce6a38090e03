//! The plan of a cluster's world, drawn from its seed: settings, topics, clients, and the schedule
//! of faults.

use super::bug::Bug;
use super::engine::{EngineFault, EngineSettings};
use super::producer::ProducerFaults;
use super::tail::TailSettings;
use crate::faults::{ClientFaults, MailFaults, NetFaults};
use broker::engine::WINDOW_MS;
use broker::filters::FilterTrie;
use broker::settings::{
    Durability, Limits, LogSettings, RuleSettings, Settings, TicketKey, TicketSettings,
};
use std::sync::Arc;
use stdx::prng::Prng;

/// The number of nodes.
pub const NODES: usize = 3;

/// An event of the schedule.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Planned {
    /// A fault of the engine.
    Engine(EngineFault),
    /// A node dies.
    Kill {
        /// The node.
        node: usize,
        /// The time until the next one begins.
        down_ms: u64,
        /// Clients still read data in flight.
        leaves_data: bool,
    },
}

/// The kinds of loss in a world.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Losses {
    /// Unclean elections.
    pub unclean: bool,
    /// The topic is replaced.
    pub recreated: bool,
    /// Records expire, and nodes begin behind old ones.
    pub expired: bool,
}

/// The plan; see the module.
pub struct ClusterPlan {
    /// The seed.
    pub seed: u64,
    /// The settings of nodes that keep everything in memory.
    pub settings: Arc<Settings>,
    /// The settings of nodes with a mirror, or with memory for little.
    pub bounded: [Option<Arc<Settings>>; NODES],
    /// The engine.
    pub engine: EngineSettings,
    /// The engine's clock is so many times as fast as the world's: the window of the recognition of
    /// repetitions is long.
    pub engine_rate: u64,
    /// Names of topics.
    pub topics: Vec<String>,
    /// Filters of subscriptions.
    pub filters: Vec<String>,
    /// The number of clients.
    pub clients: usize,
    /// The duration of actions and faults, in virtual milliseconds.
    pub active_ms: u64,
    /// The mean time between a client's actions.
    pub pace_ms: u64,
    /// The mean time between publications of foreign producers; none if 0.
    pub foreign_ms: u64,
    /// The maximum padding of a payload.
    pub payload_bytes_max: u64,
    /// The times at which the nodes begin, after the world's start.
    pub starts: [u64; NODES],
    /// Differences of the nodes' wall clocks.
    pub skews_ms: [u64; NODES],
    /// The engine's topic is compacted.
    pub is_compacted: bool,
    /// Nodes take clients before all partitions have begun.
    pub opens_early: bool,
    /// The losses that may occur.
    pub losses: Losses,
    /// Events by their times after the world's start, ascending.
    pub schedule: Vec<(u64, Planned)>,
    /// Faults of the network.
    pub net: NetFaults,
    /// Faults of the mailboxes.
    pub mail: MailFaults,
    /// Faults of clients.
    pub client: ClientFaults,
}

impl ClusterPlan {
    /// Draws the world of a seed; one without losses if `is_lossless`. A planted bug may require
    /// certain faults.
    pub fn draw(seed: u64, bug: Option<Bug>, is_lossless: bool, compacts: bool) -> ClusterPlan {
        let mut random = Prng::new(seed ^ 0xc105_7e4a);
        let drawn = draw_losses(&mut random, bug);
        let losses = if is_lossless { Losses::default() } else { drawn };
        let is_compacted = compacts || bug.is_some_and(Bug::is_of_compaction);
        let losses = if is_compacted { Losses { expired: false, ..losses } } else { losses };
        let mut settings = draw_settings(&mut random);
        settings.logs[0].is_compacted = is_compacted;
        let active_ms = random.between(2_000, 8_000);
        let topics = (0..random.between(2, 8)).map(topic_name).collect();
        let drawn = [1, 60, 250][random.below(3) as usize];
        // Records expire after three windows, so the engine's clock must run that far.
        let is_fast = losses.expired || bug == Some(Bug::WindowFromFirst);
        let engine_rate = if is_fast { 250 } else { drawn };
        let mut engine = draw_engine(&mut random, &settings, engine_rate, losses);
        if bug == Some(Bug::WindowFromFirst) {
            // Copies of copies, and the first one further back than a window.
            (engine.producers.again, engine.producers.stray) = (0.0, 0.3);
        }
        for tail in &mut engine.tails {
            tail.is_compacted = is_compacted;
        }
        let mut starts = [0; NODES];
        if random.chance(0.5) {
            starts = [0, random.below(active_ms), random.below(active_ms)];
        }
        // Drawn apart: other draws stay as they were.
        let mut apart = Prng::new(seed ^ 0xc10c);
        let mut skews_ms = [0; NODES];
        if apart.chance(0.5) {
            skews_ms = [0, apart.below(3_000), apart.below(3_000)];
        }
        let mut plan = ClusterPlan {
            seed,
            bounded: draw_bounded(seed, &settings),
            settings: Arc::new(settings),
            engine,
            engine_rate,
            topics,
            filters: ["a/+", "#", "b/#", "+"].map(String::from).into(),
            clients: random.between(2, 7) as usize,
            active_ms,
            pace_ms: [10, 40, 120][random.below(3) as usize],
            foreign_ms: [0, 20, 200][random.below(3) as usize],
            payload_bytes_max: [0, 100, 3_000][random.below(3) as usize],
            starts,
            skews_ms,
            is_compacted,
            opens_early: apart.chance(0.5),
            losses,
            schedule: Vec::new(),
            net: NetFaults::draw(&mut random),
            mail: MailFaults::draw(&mut random),
            client: ClientFaults::draw(&mut random),
        };
        // Drawn apart: worlds without such an outage stay as they were.
        plan.draw_long_outage(&mut Prng::new(seed ^ 0x6f75_7461));
        plan.draw_schedule(&mut random);
        plan.schedule.sort_by_key(|(at, _)| *at);
        plan
    }

    /// The settings of a node.
    pub fn settings_of(&self, node: usize) -> &Arc<Settings> {
        self.bounded[node].as_ref().unwrap_or(&self.settings)
    }

    /// The partition of a topic.
    pub fn partition(&self, topic: usize) -> usize {
        self.settings.locate(&self.topics[topic]).1.0 as usize
    }

    /// The topic with a name.
    pub fn topic(&self, name: &str) -> Option<usize> {
        self.topics.iter().position(|topic| topic == name)
    }

    fn draw_schedule(&mut self, random: &mut Prng) {
        let partitions = u64::from(self.engine.partitions);
        let mut schedule = Vec::new();
        let count = random.between(0, 12);
        for _ in 0..count {
            let at = random.below(self.active_ms);
            let index = random.below(partitions) as usize;
            self.draw_fault(random, at, index, &mut schedule);
        }
        if self.losses.unclean {
            for _ in 0..random.between(1, 3) {
                let index = random.below(partitions) as usize;
                draw_unclean(random, self.active_ms, index, &mut schedule);
            }
        }
        if self.losses.recreated {
            let at = random.below(self.active_ms);
            schedule.push((at, Planned::Engine(EngineFault::Recreate)));
        }
        for _ in 0..random.below(4) {
            let kill = Planned::Kill {
                node: random.below(NODES as u64) as usize,
                down_ms: random.between(1, 2_000),
                leaves_data: random.chance(0.5),
            };
            schedule.push((random.below(self.active_ms), kill));
        }
        self.schedule.append(&mut schedule);
    }

    /// A node loses the engine, or all nodes do, for longer than a request waits for the tail.
    fn draw_long_outage(&mut self, random: &mut Prng) {
        // With a faster clock the records would become older than rules serve. Clients that publish
        // into a slow log, a few at a time, would not come to an end.
        let is_slow = self.settings.limits.log_stall_timeout_ms < 1_000;
        if self.engine_rate > 60 || is_slow || !random.chance(0.3) {
            return;
        }
        let at = random.below(self.active_ms / 2);
        let end = at + random.between(5_000, 25_000);
        let mut plan = |at: u64, fault| self.schedule.push((at, Planned::Engine(fault)));
        if random.chance(0.6) {
            plan(at, EngineFault::Away(random.below(NODES as u64) as usize, end));
        } else {
            for index in 0..self.engine.partitions as usize {
                plan(at, EngineFault::LoseLeader(index));
                plan(end, EngineFault::Elect(index));
            }
        }
        self.active_ms = self.active_ms.max(end + 1_000);
    }

    fn draw_fault(
        &self,
        random: &mut Prng,
        at: u64,
        index: usize,
        schedule: &mut Vec<(u64, Planned)>,
    ) {
        let mut plan = |at: u64, fault| schedule.push((at, Planned::Engine(fault)));
        let later = at + random.between(1, 1_500);
        match random.below(8) {
            0 | 1 => plan(at, EngineFault::Elect(index)),
            2 => {
                plan(at, EngineFault::StopLeader(index));
                plan(later, EngineFault::Elect(index));
                for replica in 0..super::partition::REPLICAS {
                    plan(later + 50, EngineFault::Resume(index, replica));
                }
            }
            3 => {
                plan(at, EngineFault::LoseLeader(index));
                plan(later, EngineFault::Elect(index));
            }
            4 => {
                for all in 0..self.engine.partitions as usize {
                    plan(at, EngineFault::LoseLeader(all));
                    plan(later, EngineFault::Elect(all));
                }
            }
            5 => {
                let node = random.below(NODES as u64) as usize;
                plan(at, EngineFault::Away(node, later));
            }
            6 => {
                plan(at, EngineFault::Open(index));
                plan(later.min(at + 300), EngineFault::Close(index, random.chance(0.5)));
            }
            _ if self.losses.expired => {
                plan(at, EngineFault::Expire(index, random.between(0, 60)));
            }
            _ => plan(at, EngineFault::Elect(index)),
        }
    }
}

/// A replica falls behind; then the others stop, and it leads: what it lacks is lost.
fn draw_unclean(
    random: &mut Prng,
    active_ms: u64,
    index: usize,
    schedule: &mut Vec<(u64, Planned)>,
) {
    let mut at = random.below(active_ms);
    let behind = random.below(3) as usize;
    let mut plan = |at: u64, fault| schedule.push((at, Planned::Engine(fault)));
    plan(at, EngineFault::Stop(index, behind));
    plan(at, EngineFault::Elect(index));
    at += random.between(10, 800);
    for other in (0..3).filter(|other| *other != behind) {
        plan(at, EngineFault::Stop(index, other));
    }
    at += random.between(1, 300);
    plan(at, EngineFault::ElectUnclean(index, behind));
    at += random.between(1, 100);
    for other in (0..3).filter(|other| *other != behind) {
        plan(at, EngineFault::Resume(index, other));
    }
}

fn topic_name(number: u64) -> String {
    match number % 3 {
        0 => format!("a/{number}"),
        1 => format!("b/{number}/x"),
        _ => format!("topic-{number}"),
    }
}

/// Draws the nodes with a mirror, and those that hold little without one.
fn draw_bounded(seed: u64, settings: &Settings) -> [Option<Arc<Settings>>; NODES] {
    // Drawn apart: other draws stay as they were.
    let mut apart = Prng::new(seed ^ 0x31c1_0b0e);
    if !apart.chance(0.4) {
        return Default::default();
    }
    std::array::from_fn(|_| {
        let mut bounded = settings.clone();
        let log = &mut bounded.logs[0];
        log.is_mirrored = apart.chance(0.7);
        log.cache_bytes = [3_000, 30_000, 8 << 20][apart.below(3) as usize];
        log.log_bytes_max = [20_000, 200_000, 64 << 20][apart.below(3) as usize];
        apart.chance(0.8).then(|| Arc::new(bounded))
    })
}

fn draw_losses(random: &mut Prng, bug: Option<Bug>) -> Losses {
    let drawn = Losses {
        unclean: random.chance(0.4),
        recreated: random.chance(0.1),
        expired: random.chance(0.3),
    };
    match bug {
        Some(Bug::ChainIgnored | Bug::TruncationPassedOver) => Losses { unclean: true, ..drawn },
        Some(Bug::RecreationPassedOver) => Losses { recreated: true, ..drawn },
        Some(Bug::PrimedTooLittle) => Losses { expired: true, ..drawn },
        _ => drawn,
    }
}

fn draw_settings(random: &mut Prng) -> Settings {
    let mut pick = |choices: [u32; 3]| choices[random.below(3) as usize];
    let limits = Limits {
        outbox_len_max: pick([2, 10, 256]),
        outbox_bytes_max: 4 << 20,
        pinned_bytes_max: 64 << 20,
        ring_bytes: pick([1, 64 << 10, 1 << 20]),
        requests_inflight_max: pick([1, 5, 4_096]),
        stream_credit_bytes: pick([200, 4_000, 8 << 20]),
        turn_frames_max: pick([1, 4, 64]),
        page_bytes: pick([1, 1_000, 64 << 10]),
        page_records_max: pick([1, 7, 256]),
        ping_interval_s: pick([0, 5, 60]),
        subscriptions_per_session_max: 100,
        log_stall_timeout_ms: pick([300, 2_000, 10_000]),
        ..Limits::default()
    };
    let log = LogSettings {
        name: "engine".into(),
        partitions_count: pick([1, 2, 4]),
        durability: Durability::Engine,
        epoch: 1,
        log_bytes_max: 64 << 20,
        age_max_ms: 1 << 40,
        segment_bytes: pick([400, 4_000, 64 << 10]),
        retained_bytes_max: 1 << 20,
        ..LogSettings::default()
    };
    let rule = RuleSettings {
        log: 0,
        history_messages_max: 1 << 30,
        history_age_max_ms: u64::MAX,
        ..RuleSettings::default()
    };
    let edges = pick([1, 2, 3]) as u16;
    Settings {
        edges_count: edges,
        homes_count: random.between(1, u64::from(edges)) as u16,
        tickets: TicketSettings {
            keys: vec![TicketKey::new([7; 32])],
            lifetime_ms: 1 << 40,
            not_before_ms: 0,
        },
        rule_filters: FilterTrie::default(),
        logs: vec![log],
        rules: vec![rule],
        limits,
        node_name: "sim".into(),
        allowed_origins: vec!["*".into()],
        ..Settings::default()
    }
}

fn draw_engine(
    random: &mut Prng,
    settings: &Settings,
    rate: u64,
    losses: Losses,
) -> EngineSettings {
    let window_s = WINDOW_MS / 1_000;
    let skews_ms =
        if random.chance(0.3) { [0, random.below(60_000), random.below(60_000)] } else { [0; 3] };
    let copies = random.chance(0.6);
    let producers = ProducerFaults {
        delay_ms_max: [0, 3, 40][random.below(3) as usize],
        again: if copies { [0.02, 0.2][random.below(2) as usize] } else { 0.0 },
        stray: if copies { [0.0, 0.05, 0.3][random.below(3) as usize] } else { 0.0 },
        stray_ms_max: ((WINDOW_MS - 70_000) / rate).min(2_000),
        overtake: if random.chance(0.2) { 0.05 } else { 0.0 },
    };
    let tail = |random: &mut Prng| TailSettings {
        served: if losses.expired && random.chance(0.6) { random.below(100) } else { u64::MAX },
        window_s,
        primed_ms: 2 * WINDOW_MS + 2_000 + skews_ms.iter().max().unwrap_or(&0),
        kept_ms: 3 * WINDOW_MS,
        is_compacted: false,
        delay_ms_max: [1, 20, 300][random.below(3) as usize],
        batch_max: [1, 7, 500][random.below(3) as usize],
    };
    EngineSettings {
        partitions: settings.logs[0].partitions_count,
        window_s,
        skews_ms,
        tails: (0..NODES).map(|_| tail(random)).collect(),
        credit: 8 << 20,
        producers,
        letter_delay_ms_max: [0, 2, 50][random.below(3) as usize],
        waiting_max: [4, 1_000][random.below(2) as usize],
        waiting_ms_max: [200, 2_000][random.below(2) as usize],
        marker: [0.0, 0.1, 0.5][random.below(3) as usize],
    }
}

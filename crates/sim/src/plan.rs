//! The plan of a world, drawn from its seed: the node's settings, its topics, its clients and its
//! faults.

mod mqtt;

use crate::faults::{ClientFaults, Crash, DiskFaults, MailFaults, NetFaults};
use crate::mutation::Mutation;
use crate::world::Options;
use broker::entitlement::Permissions;
use broker::filters::FilterTrie;
use broker::mail::{Code, PartitionId};
use broker::settings::{
    CompressionSettings, Durability, EntitlementSettings, LagPolicy, Limits, LogSettings,
    OlderEpoch, RuleSettings, Settings, SysSettings, TicketKey, TicketSettings,
};
use broker::topic::Filter;
pub use mqtt::Groups;
use std::sync::Arc;
use stdx::prng::Prng;

/// The first epoch of a memory log; each further life has the next one.
pub const EPOCH: u64 = 70;
/// An epoch of no log, for requests of clients.
pub const UNKNOWN_EPOCH: u64 = 67;

/// The size of worlds.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Scale {
    /// A few clients, a few seconds.
    #[default]
    Small,
    /// Thousands of clients.
    Big,
}

/// A kind of additional client. They are drawn separately, so that worlds without them do not
/// change.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Beside {
    /// An event stream over filters.
    Stream,
    /// Publishing over HTTP under keys.
    Keys,
    /// The session of crate `client`, with filters.
    Session,
    /// A session with tokens; all other clients are anonymous then.
    Entitled,
}

/// The plan of one world.
pub struct Plan {
    /// The seed.
    pub seed: u64,
    /// The node's final settings.
    pub settings: Arc<Settings>,
    /// The node's earlier settings, if it reloads.
    pub former: Vec<Arc<Settings>>,
    /// The times of reloads, ascending; virtual milliseconds after the world's start.
    pub reloads: Vec<u64>,
    /// Names of all topics.
    pub topics: Vec<String>,
    /// Filters of subscriptions.
    pub filters: Vec<String>,
    /// The number of clients.
    pub clients: usize,
    /// Most native clients speak JSON.
    pub has_json: bool,
    /// Additional clients, in some worlds.
    pub beside: Vec<Beside>,
    /// Clients of MQTT, in some worlds.
    pub mqtt_clients: usize,
    /// Groups of shared subscriptions, in some worlds.
    pub groups: Groups,
    /// The duration of actions and faults, in virtual milliseconds.
    pub active_ms: u64,
    /// The mean time between a client's actions.
    pub pace_ms: u64,
    /// Nothing is evicted, limited or refused: then no gap may be reported.
    pub lossless: bool,
    /// The size of all homes' segments together; small as a fault.
    pub memory_bytes: usize,
    /// The probability that an allocation is refused in spite of room.
    pub memory_refusals: f64,
    /// Whether the wall clock jumps by seconds.
    pub clock_jumps: bool,
    /// Whether it leaps forwards by up to a day, beyond the age limit of all logs: nothing may be
    /// evicted because of it.
    pub clock_leaps: bool,
    /// The maximum padding of a payload.
    pub payload_bytes_max: u64,
    /// The probability that a publication is retained.
    pub retain: f64,
    /// The probability that a publication has an identity.
    pub once: f64,
    /// Faults of the network.
    pub net: NetFaults,
    /// Faults of the mailboxes.
    pub mail: MailFaults,
    /// Faults of clients.
    pub client: ClientFaults,
    /// Rules have lag policies, and clients request some.
    pub has_policies: bool,
    /// The node publishes events on `$sys/...`, and a witness receives them. Then the node never
    /// crashes.
    pub has_events: bool,
    /// Faults of disks.
    pub disk: DiskFaults,
    /// The probability that an action of a native client requests a resume ticket.
    pub tickets: f64,
    /// The ends of nodes, ascending.
    pub crashes: Vec<Crash>,
}

impl Plan {
    /// The start of 32-bit counters in one of four worlds: so near their end that they wrap around.
    pub fn counters_begin_at(&self) -> Option<u32> {
        let before_end = (self.seed / 4 % 97) as u32;
        (self.seed % 4 == 1).then_some(u32::MAX - before_end)
    }

    /// Draws the world of a seed. A planted bug may require a certain shape.
    pub fn draw(seed: u64, scale: Scale, mutation: Option<Mutation>) -> Plan {
        let mut random = Prng::new(seed);
        let (edges, homes) = draw_shards(&mut random, mutation);
        let big = scale == Scale::Big;
        let has_events = draws_events(seed, mutation);
        let lossless = random.chance(0.5) || has_events;
        let topics_count = if big { 400 } else { random.between(1, 10) };
        let topics = (0..topics_count).map(topic_name).collect();
        let kind = draw_kind(&mut random, has_events, mutation);
        let mut settings = draw_settings(&mut random, edges, homes, kind, lossless, big);
        settings.compression = draw_compression(seed);
        if has_events {
            tell_events(&mut settings, seed, mutation);
        }
        let has_policies = draw_policies(&mut settings, seed, mutation);
        let clock_leaps = lossless && !has_events && draws_leaps(seed, kind, mutation);
        if clock_leaps {
            for log in &mut settings.logs {
                log.age_max_ms = HOUR_MS;
            }
        }
        let once = draw_once(&mut random, mutation);
        let memory_is_short = !lossless && random.chance(0.3);
        let active_ms = draw_active_ms(&mut random, big, mutation);
        let mut plan = Plan {
            seed,
            settings: Arc::new(settings),
            former: Vec::new(),
            reloads: crate::reloads::draw(seed, active_ms, mutation),
            topics,
            filters: ["a/+", "#", "b/#", "+/2/x", "+"].map(String::from).into(),
            clients: if big {
                random.between(1_500, 4_000) as usize
            } else {
                random.between(2, 9) as usize
            },
            has_json: mutation == Some(Mutation::OtherEpochInJson),
            beside: draw_beside(seed, big, mutation),
            mqtt_clients: 0,
            groups: Groups::default(),
            active_ms,
            pace_ms: if big { 700 } else { [3, 15, 60][random.below(3) as usize] },
            lossless,
            memory_bytes: if memory_is_short { 64 << 10 } else { 64 << 20 },
            memory_refusals: if memory_is_short { 0.2 } else { 0.0 },
            clock_jumps: !lossless && random.chance(0.3),
            clock_leaps,
            payload_bytes_max: [0, 100, 1_500, 20_000]
                [random.below(if big || once > 0.0 { 2 } else { 4 }) as usize],
            retain: match (mutation, [0.0, 0.0, 0.2][random.below(3) as usize]) {
                (Some(Mutation::LoseRetained), _) => 0.2,
                (_, chance) => chance,
            },
            once,
            net: NetFaults::draw(&mut random),
            mail: MailFaults::draw(&mut random),
            client: ClientFaults::draw(&mut random),
            has_policies,
            has_events,
            disk: DiskFaults::draw(&mut random),
            tickets: 0.0,
            crashes: Crash::draw(
                &mut random,
                active_ms,
                mutation.is_some_and(Mutation::needs_crash),
            ),
        };
        plan.finish((kind, big), mutation);
        plan
    }

    /// Adds the parts that are drawn separately, and adapts the plan to them.
    fn finish(&mut self, (kind, big): (Kind, bool), mutation: Option<Mutation>) {
        self.draw_rest(kind, mutation);
        if mutation.is_some_and(|mutation| mutation.needs_mqtt()) {
            self.add_mqtt(big, mutation);
        }
    }

    fn draw_rest(&mut self, kind: Kind, mutation: Option<Mutation>) {
        self.draw_returns(mutation);
        if self.has_events {
            (self.crashes, self.reloads) = (Vec::new(), Vec::new());
        }
        self.entitle();
        if mutation.is_none() && kind != Kind::Memory {
            self.disk.hang(self.seed);
        }
        if kind != Kind::Memory && mutation.is_none_or(Mutation::needs_damage) {
            self.disk.damage(self.seed, mutation.is_some());
        }
        if self.disk.hangs()
            && let Some(settings) = Arc::get_mut(&mut self.settings)
        {
            settings.limits.log_stall_timeout_ms = [300, 2_000, 10_000][(self.seed % 3) as usize];
        }
    }

    /// Adds tickets and regular stops; drawn separately, so that worlds without them do not change.
    fn draw_returns(&mut self, mutation: Option<Mutation>) {
        let mut random = Prng::new(self.seed ^ 0x71c_4e75);
        self.tickets = match mutation {
            Some(Mutation::TicketAhead) => 0.3,
            Some(_) => 0.0,
            None => [0.0, 0.02, 0.1][random.below(3) as usize],
        };
        if mutation.is_none() {
            Crash::draw_drains(&mut self.crashes, &mut random, self.active_ms);
        }
    }

    /// Makes nodes require tokens, if clients have them; others may do everything without. Tokens
    /// depend on the wall clock: not in worlds where that jumps.
    fn entitle(&mut self) {
        if self.clock_jumps || self.clock_leaps {
            self.beside.retain(|kind| *kind != Beside::Entitled);
        }
        if self.beside.contains(&Beside::Entitled)
            && let Some(settings) = Arc::get_mut(&mut self.settings)
        {
            settings.entitlement = Some(EntitlementSettings {
                anonymous: Permissions {
                    subscribe: vec!["#".into(), broker::sys::FILTER.into()],
                    publish: vec!["#".into()],
                    history: vec!["#".into()],
                },
                notice_before_s: 2,
                // Otherwise only tokens with a limit make their users count: from a renewal on,
                // too.
                users_are_counted: self.seed.is_multiple_of(2),
                takes_passwords: false,
            });
        }
    }

    /// Adapts the plan to the options of the run.
    pub fn change(&mut self, options: Options) {
        self.has_json |= options.json;
        if options.mqtt && self.mqtt_clients == 0 {
            self.add_mqtt(options.scale == Scale::Big, options.mutation);
        }
    }

    /// Whether few events are permitted per second.
    pub fn events_are_few(&self) -> bool {
        self.settings.sys.events_rate_max < EVENTS_MANY
    }

    /// Whether two topics are in one partition, so that the order of their events is visible.
    pub fn is_one_partition(&self, one: &str, other: &str) -> bool {
        self.settings.locate(one).1 == self.settings.locate(other).1
    }

    /// The number of clients with tokens.
    pub fn entitled_count(&self) -> usize {
        let entitled = self.beside.iter().filter(|kind| **kind == Beside::Entitled);
        entitled.count()
    }

    /// Whether all clients with tokens count for their users, and not only those whose tokens have
    /// a limit.
    pub fn users_are_counted(&self) -> bool {
        let entitlement = self.settings.entitlement.as_ref();
        entitlement.is_some_and(|entitlement| entitlement.users_are_counted)
    }

    /// Begins a node: logs on disk keep their epochs, those in memory have a new one if `again`.
    pub fn start(&mut self, again: bool, durable: Vec<(usize, u64, Vec<OlderEpoch>)>) {
        let old = &self.settings;
        let mut logs = old.logs.clone();
        for log in &mut logs {
            log.epoch += u64::from(again && log.durability == Durability::Memory);
        }
        for (index, epoch, older) in durable {
            (logs[index].epoch, logs[index].older_epochs) = (epoch, older);
        }
        self.settings = Arc::new(Settings { logs, ..(**old).clone() });
    }

    /// Whether a refusal may have this code.
    pub fn may_refuse(&self, code: u32) -> bool {
        let of_disk = [Code::LogUnavailable, Code::LogFull];
        if of_disk.iter().any(|other| u32::from(other.number()) == code) {
            self.disk.refuses() || (!self.lossless && code == u32::from(Code::LogFull.number()))
        } else {
            !self.lossless
        }
    }

    /// Whether a node of this world stops regularly.
    pub fn drains(&self) -> bool {
        self.crashes.iter().any(|crash| crash.drain_ms.is_some())
    }

    /// The rule of a topic.
    pub fn rule(&self, topic: usize) -> &RuleSettings {
        let (rule, _) = self.settings.locate(&self.topics[topic]);
        &self.settings.rules[usize::from(rule)]
    }

    /// The smallest history that a topic's rule has ever served: number and age of messages.
    pub fn history_least(&self, topic: usize) -> (u32, u64) {
        let all = self.former.iter().chain([&self.settings]);
        let rules = all.map(|settings| {
            let (rule, _) = settings.locate(&self.topics[topic]);
            &settings.rules[usize::from(rule)]
        });
        rules.fold((u32::MAX, u64::MAX), |(count, age_ms), rule| {
            (count.min(rule.history_messages_max), age_ms.min(rule.history_age_max_ms))
        })
    }

    /// Whether a topic's log is in memory only.
    pub fn is_in_memory(&self, topic: usize) -> bool {
        self.settings.log_on_disk(PartitionId(self.partition(topic))).is_none()
    }

    /// The policy of a lagging subscription to a topic.
    pub fn policy_of_topic(&self, topic: usize, own: Option<LagPolicy>) -> LagPolicy {
        own.unwrap_or(self.rule(topic).when_lagging)
    }

    /// The policy of a lagging subscription to a filter: that of the rule for all of it.
    pub fn policy_of_filter(&self, filter: usize, own: Option<LagPolicy>) -> LagPolicy {
        let filter = &self.filters[filter];
        let rules = &self.settings.rules;
        let of_rule = RULE_FILTERS.iter().position(|rule| {
            let start = rule.trim_end_matches('#');
            !start.is_empty() && filter.starts_with(start)
        });
        own.unwrap_or(rules[of_rule.unwrap_or(0)].when_lagging)
    }

    /// The number of rules at the start.
    pub fn rules_count(&self) -> usize {
        RULE_FILTERS.len()
    }

    /// The rule at the start for a whole topic or filter.
    pub fn first_rule(&self, text: &str) -> Option<usize> {
        rule_filters().most_specific(text).map(|rule| usize::from(*rule))
    }

    /// The partition of a topic.
    pub fn partition(&self, topic: usize) -> u32 {
        self.settings.locate(&self.topics[topic]).1.0
    }

    /// The topic with a name.
    pub fn topic(&self, name: &str) -> Option<usize> {
        self.topics.iter().position(|topic| topic == name)
    }
}

/// Far longer than a world.
const HOUR_MS: u64 = 3_600_000;

/// More events per second than any world has.
const EVENTS_MANY: u32 = 1 << 20;

/// Draws events in one of six worlds; the others do not change.
fn draws_events(seed: u64, mutation: Option<Mutation>) -> bool {
    match mutation {
        Some(mutation) => mutation.needs_events(),
        None => Prng::new(seed ^ 0x0e_5e17).chance(1.0 / 6.0),
    }
}

/// Configures events. If few events are permitted, their counts always have room.
fn tell_events(settings: &mut Settings, seed: u64, mutation: Option<Mutation>) {
    let is_narrow = mutation.is_none() && Prng::new(seed ^ 0x0a_77e5).chance(0.4);
    settings.sys = SysSettings {
        clients: true,
        topics: true,
        events_rate_max: if is_narrow { 2 } else { EVENTS_MANY },
        is_open: true,
    };
    if is_narrow || mutation.is_some() {
        settings.limits.requests_inflight_max = Limits::default().requests_inflight_max;
    }
}

fn topic_name(number: u64) -> String {
    match number % 3 {
        0 => format!("a/{number}"),
        1 => format!("b/{}/x", number / 2),
        _ => format!("topic-{number}"),
    }
}

/// Draws the numbers of edges and homes. A planted bug needs mailboxes between them.
fn draw_shards(random: &mut Prng, mutation: Option<Mutation>) -> (u16, u16) {
    let mut edges = random.between(1, 4) as u16;
    let mut homes = random.between(1, u64::from(edges)) as u16;
    if mutation.is_some() {
        edges = random.between(2, 4) as u16;
        // The home reports occupied topics to its own thread.
        homes = if mutation == Some(Mutation::LoseOccupancy) { 2 } else { 1 };
    }
    (edges, homes)
}

/// Draws the kind of logs.
fn draw_kind(random: &mut Prng, has_events: bool, mutation: Option<Mutation>) -> Kind {
    let kind = match mutation {
        Some(mutation) if mutation.needs_disk() => Kind::Disk,
        Some(_) => Kind::Memory,
        None => [Kind::Memory, Kind::Disk, Kind::Disk, Kind::Both][random.below(4) as usize],
    };
    if has_events { Kind::Memory } else { kind }
}

/// Draws whether the wall clock leaps. Only with logs in memory: a start with logs on disk uses the
/// wall clock for ages.
fn draws_leaps(seed: u64, kind: Kind, mutation: Option<Mutation>) -> bool {
    kind == Kind::Memory && mutation.is_none() && Prng::new(seed ^ 0x1ea9).chance(0.3)
}

/// Draws lag policies for the rules, in some worlds. Returns whether there are any.
fn draw_policies(settings: &mut Settings, seed: u64, mutation: Option<Mutation>) -> bool {
    // Drawn separately, so that worlds without policies do not change.
    let mut policies = Prng::new(seed ^ 0x01a6);
    let is_about_policies = mutation == Some(Mutation::SkipLess);
    let has_policies = is_about_policies || (mutation.is_none() && policies.chance(0.5));
    if has_policies {
        for rule in &mut settings.rules {
            rule.when_lagging = if is_about_policies {
                [LagPolicy::Conflate, LagPolicy::Drop][policies.below(2) as usize]
            } else {
                draw_policy(&mut policies)
            };
        }
    }
    has_policies
}

/// Draws the probability that a publication has an identity.
fn draw_once(random: &mut Prng, mutation: Option<Mutation>) -> f64 {
    match mutation {
        Some(Mutation::DropProducers) => 1.0,
        // Only over HTTP.
        Some(Mutation::DropKeys) => 0.0,
        _ => [0.0, 0.3, 1.0][random.below(3) as usize],
    }
}

/// Draws the duration of actions and faults.
fn draw_active_ms(random: &mut Prng, big: bool, mutation: Option<Mutation>) -> u64 {
    let active_ms = if big { 1_500 } else { random.between(300, 3_000) };
    match mutation {
        // Positions are reported once a second.
        Some(Mutation::PositionAhead) => 3_000,
        _ => active_ms,
    }
}

/// The logs of a world.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    Memory,
    Disk,
    /// One of each.
    Both,
}

fn draw_settings(
    random: &mut Prng,
    edges: u16,
    homes: u16,
    kind: Kind,
    lossless: bool,
    big: bool,
) -> Settings {
    let mut pick = |choices: [u32; 3]| choices[random.below(3) as usize];
    let limits = draw_limits(&mut pick);
    let mut log = LogSettings {
        name: "memory".into(),
        partitions_count: pick([1, 3, 6]),
        epoch: EPOCH,
        log_bytes_max: 64 << 20,
        age_max_ms: 1 << 40,
        segment_bytes: pick([400, 4_000, 64 << 10]),
        retained_bytes_max: 1 << 20,
        ..LogSettings::default()
    };
    log.cache_bytes = u64::from(pick([1_500, 20_000, 1 << 20])) * u64::from(homes);
    let mut rule = RuleSettings {
        log: 0,
        history_messages_max: 1 << 30,
        history_age_max_ms: u64::MAX,
        message_bytes_max: 1 << 20,
        when_lagging: LagPolicy::Replay,
        ..RuleSettings::default()
    };
    if !lossless {
        log.log_bytes_max = u64::from(pick([16 << 10, 100 << 10, 1 << 20])) * u64::from(homes);
        log.age_max_ms = u64::from(pick([150, 1_500, 1 << 30]));
        log.retained_bytes_max = u64::from(pick([300, 5_000, 1 << 20]));
        rule.history_messages_max = pick([0, 5, 1 << 30]);
        rule.history_age_max_ms = match pick([100, 1_000, 0]) {
            0 => u64::MAX,
            age_ms => age_ms.into(),
        };
    }
    if big {
        log.partitions_count = 16;
    }
    if kind != Kind::Memory {
        log.durability = Durability::Disk;
        log.name = "disk".into();
        log.epoch = 2 * EPOCH;
    }
    let mut logs = vec![log];
    let mut rules: Vec<RuleSettings> = RULE_FILTERS
        .iter()
        .map(|filter| RuleSettings { filter: (*filter).into(), ..rule.clone() })
        .collect();
    if kind == Kind::Both {
        let mut memory = logs[0].clone();
        memory.name = "memory".into();
        memory.durability = Durability::Memory;
        memory.first_partition = PartitionId(memory.partitions_count);
        memory.epoch = EPOCH;
        logs.push(memory);
        rules[1].log = 1;
    }
    settings_of((edges, homes), limits, logs, rules)
}

fn draw_limits(pick: &mut impl FnMut([u32; 3]) -> u32) -> Limits {
    Limits {
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
        ..Limits::default()
    }
}

/// The settings of a node with these limits, logs and rules.
fn settings_of(
    (edges, homes): (u16, u16),
    limits: Limits,
    logs: Vec<LogSettings>,
    rules: Vec<RuleSettings>,
) -> Settings {
    Settings {
        edges_count: edges,
        homes_count: homes,
        tickets: TicketSettings {
            keys: vec![TicketKey::new([7; 32])],
            lifetime_ms: 1 << 40,
            not_before_ms: 0,
        },
        rule_filters: rule_filters(),
        logs,
        rules,
        limits,
        node_name: "sim".into(),
        allowed_origins: vec!["*".into()],
        ..Settings::default()
    }
}

/// Draws additional clients: none in three of five worlds, which do not change.
fn draw_beside(seed: u64, big: bool, mutation: Option<Mutation>) -> Vec<Beside> {
    let mut random = Prng::new(seed ^ 0x000b_e51d);
    let kinds = match mutation {
        None if matches!(seed % 5, 1 | 4) => &[Beside::Stream, Beside::Keys, Beside::Session][..],
        None if seed % 5 == 2 => &[Beside::Entitled],
        Some(mutation) if mutation.needs_tokens() => &[Beside::Entitled],
        Some(Mutation::IdAhead | Mutation::LoseCursors) => &[Beside::Stream],
        Some(Mutation::DropKeys) => &[Beside::Keys],
        _ => return Vec::new(),
    };
    let count = match mutation {
        // The bug needs a user with several connections.
        Some(Mutation::LeaveTwice) => 8,
        _ if big => random.between(50, 150),
        _ => random.between(1, 3),
    };
    let kind = |_| kinds[random.below(kinds.len() as u64) as usize];
    (0..count).map(kind).collect()
}

/// Draws compression in one of three worlds; the others do not change.
fn draw_compression(seed: u64) -> Option<CompressionSettings> {
    let mut random = Prng::new(seed ^ 0x0de_f1a7e);
    let settings = CompressionSettings {
        bytes_min: [16, 40, 200][random.below(3) as usize],
        level: random.between(1, 9) as u8,
    };
    seed.is_multiple_of(3).then_some(settings)
}

/// Draws any policy.
pub fn draw_policy(random: &mut Prng) -> LagPolicy {
    let all = [LagPolicy::Replay, LagPolicy::Conflate, LagPolicy::Drop, LagPolicy::Disconnect];
    all[random.below(4) as usize]
}

/// The filters of the rules, in their order.
const RULE_FILTERS: [&str; 3] = ["#", "a/#", "b/#"];

fn rule_filters() -> FilterTrie<u16> {
    let mut filters = FilterTrie::default();
    for (rule, filter) in RULE_FILTERS.iter().enumerate() {
        if let Ok(filter) = Filter::parse(filter) {
            filters.insert(filter, rule as u16);
        }
    }
    filters
}

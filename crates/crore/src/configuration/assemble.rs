//! From options to the settings of a node: limits, logs, rules, addresses.

use super::assemble_logging;
use super::entries::{Configuration, Entry};
use super::fault::Origin;
use super::options::milliseconds_of;
use super::value::Value;
use broker::filters::FilterTrie;
use broker::limits::{LIMITS, Limits};
use broker::settings::ForwardedField;
use broker::settings::{
    AddressSettings, CompressionSettings, Durability, LagPolicy, LogSettings, PublishSettings,
    Publishers, RuleSettings, Settings, SysSettings, TicketSettings,
};
use broker::topic::Filter;
use net::kernel::Sockets;
use node::admission::{AdmissionOptions, EntranceLimits};
use node::{NodeOptions, ProxyOptions};
use std::hash::{BuildHasher, RandomState};
use std::net::SocketAddr;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use stdx::networks::Network;
use tls::ServerSettings;

/// `listen.open` without `listen.clients`: every IPv4 address of the machine.
const OPEN_ADDRESS: &str = "0.0.0.0:8800";
/// `listen.open` without `tls.listen`.
const OPEN_TLS_ADDRESS: &str = "0.0.0.0:8843";

/// Everything that the node's start needs. `configuration` has been checked; `cores` is how many
/// the process may use.
pub fn node_options(configuration: &Configuration, cores: usize) -> NodeOptions {
    NodeOptions {
        settings: settings(configuration, cores),
        listen: client_addresses(configuration),
        transport: Sockets {
            inherited: Vec::new(),
            send_bytes: number_u64(configuration, "listen.socket_send_bytes") as usize,
            backlog_max: number_u64(configuration, "listen.backlog") as i32,
            private_tables: configuration.is_on("node.private_tables"),
            registered: configuration.is_on("node.registered_sockets"),
        },
        // Its files are read by who starts the node.
        tls: None,
        proxied: proxied(configuration),
        admission: admission(configuration),
        connections_per_user_max: count_of(configuration, "limits.connections_per_user_max"),
        connect_rate_max: count_of(configuration, "limits.connect_rate_max"),
        hash_seed: (RandomState::new().hash_one(0), RandomState::new().hash_one(1)),
        data_dir: match configuration.given("node.data_dir") {
            Some((Value::Text(path), _)) => Some(path.into()),
            _ => None,
        },
        // Its keys are read by who starts the node.
        judge: None,
        // Its reader is who starts the node.
        journal: None,
        inheritance: None,
    }
}

/// Addresses for clients; with `listen.open` and no address given, all of the machine.
pub fn client_addresses(configuration: &Configuration) -> Vec<SocketAddr> {
    addresses(configuration, "listen.clients", OPEN_ADDRESS)
}

/// Addresses for clients with TLS, and its settings; `None` without a certificate.
pub fn tls_settings(configuration: &Configuration) -> Option<(Vec<SocketAddr>, ServerSettings)> {
    let file = |key| match configuration.given(key) {
        Some((Value::Text(path), _)) => Some(path.into()),
        _ => None,
    };
    let settings = ServerSettings {
        certificate_file: file("tls.certificate_file")?,
        key_file: file("tls.key_file")?,
        tls12: configuration.text("tls.version_min") == "1.2",
    };
    let listen = addresses(configuration, "tls.listen", OPEN_TLS_ADDRESS);
    Some((listen, settings))
}

fn addresses(configuration: &Configuration, key: &str, open_address: &str) -> Vec<SocketAddr> {
    let (value, origin) = configuration.get(key);
    match value {
        Value::Addresses(_) if *origin == Origin::Default && configuration.is_on("listen.open") => {
            open_address.parse().into_iter().collect()
        }
        Value::Addresses(addresses) => addresses.clone(),
        _ => Vec::new(),
    }
}

/// The settings of shards. `configuration` has been checked; `cores` is how many the process may
/// use.
pub fn settings(configuration: &Configuration, cores: usize) -> Settings {
    let cores = cores.clamp(1, 1_024) as u64;
    // Only one of the two may be given: "auto" follows the other.
    let homes = configuration.number("node.home_shards_count");
    let threads = configuration.number("node.io_threads").unwrap_or(cores.max(homes.unwrap_or(1)));
    let homes = homes.unwrap_or(cores.min(threads));
    let logs = logs(configuration);
    let mut rules = vec![default_rule(configuration)];
    let mut rule_filters = FilterTrie::default();
    for entry in &configuration.rules {
        let log = entry
            .text("log")
            .and_then(|name| logs.iter().position(|log| log.name == name))
            .unwrap_or(0);
        let Some(filter) = entry.text("filter").and_then(|text| Filter::parse(text).ok()) else {
            continue;
        };
        rule_filters.insert(filter, rules.len() as u16);
        rules.push(RuleSettings {
            filter: filter.as_str().into(),
            log: log as u16,
            history_messages_max: entry.number("history_messages_max").unwrap_or(0) as u32,
            // Auto: as long as the log keeps them. It goes by a steady clock, and no wall clock may
            // hide what it has.
            history_age_max_ms: entry.number("history_age_max").unwrap_or(u64::MAX),
            message_bytes_max: entry
                .number("message_bytes_max")
                .unwrap_or(number_u64(configuration, "limits.message_bytes_max"))
                as u32,
            when_lagging: policy(entry.text("when_lagging").unwrap_or_default()),
            publishing: publishing(entry),
        });
    }
    if let Some(rule) = sys_rule(configuration, &rules)
        && let Ok(filter) = Filter::parse(broker::sys::FILTER)
    {
        rule_filters.insert(filter, rules.len() as u16);
        rules.push(rule);
    }
    let sys = sys_settings(configuration);
    Settings {
        edges_count: threads as u16,
        homes_count: homes as u16,
        logs,
        rules,
        rule_filters,
        tickets: tickets(configuration),
        limits: limits(configuration),
        addresses: addresses_of_clients(configuration),
        node_name: configuration.text("node.name").into(),
        other_addresses: configuration.texts("node.other_addresses").to_vec(),
        compression: compression(configuration),
        allowed_origins: configuration.texts("http.allowed_origins").to_vec(),
        entitlement: crate::entitled::settings(configuration),
        journal: assemble_logging::journal(configuration),
        sys,
    }
}

/// Settings of publications on `$sys/...`.
fn sys_settings(configuration: &Configuration) -> SysSettings {
    SysSettings {
        clients: configuration.is_on("sys.clients"),
        topics: configuration.is_on("sys.topics"),
        events_rate_max: number_u32(configuration, "sys.events_rate_max"),
        is_open: configuration.is_on("sys.open"),
    }
}

/// The rule of the node's own topics, where something is published there and the configuration has
/// none for all of them. It keeps them in the first log, where they are without it: a running node
/// takes it, and gives it back.
fn sys_rule(configuration: &Configuration, rules: &[RuleSettings]) -> Option<RuleSettings> {
    let is_on =
        ["sys.statistics", "sys.clients", "sys.topics"].iter().any(|key| configuration.is_on(key));
    let has_one = rules.iter().any(|rule| &*rule.filter == broker::sys::FILTER);
    (is_on && !has_one).then(|| RuleSettings {
        filter: broker::sys::FILTER.into(),
        publishing: Some(Box::new(PublishSettings {
            publishers: Publishers::Nobody,
            ..PublishSettings::default()
        })),
        ..rules[0].clone()
    })
}

fn networks(configuration: &Configuration, key: &str) -> impl Iterator<Item = Network> {
    let texts = configuration.texts(key).iter();
    texts.filter_map(|text| Network::parse(text))
}

fn proxied(configuration: &Configuration) -> Option<ProxyOptions> {
    let is_required = |key| configuration.text(key) == "required";
    let options = ProxyOptions {
        plain: is_required("listen.proxy_protocol"),
        tls: is_required("tls.proxy_protocol"),
        proxies: networks(configuration, "listen.proxies").collect(),
        timeout: Duration::from_millis(number_u64(configuration, "http.handshake_timeout")),
    };
    (options.plain || options.tls).then_some(options)
}

fn admission(configuration: &Configuration) -> AdmissionOptions {
    let number = |key| count_of(configuration, key);
    AdmissionOptions {
        connections_per_address_max: number("limits.connections_per_address_max"),
        connect_rate_per_address_max: number("limits.connect_rate_per_address_max"),
        exempt: networks(configuration, "limits.addresses_exempt").collect(),
        plain: EntranceLimits {
            connections_max: number("listen.connections_max"),
            connect_rate_max: number("listen.connect_rate_max"),
        },
        tls: EntranceLimits {
            connections_max: number("tls.connections_max"),
            connect_rate_max: number("tls.connect_rate_max"),
        },
    }
}

fn addresses_of_clients(configuration: &Configuration) -> AddressSettings {
    AddressSettings {
        trusted_proxies: networks(configuration, "http.trusted_proxies").collect(),
        field: match configuration.text("http.forwarded_field") {
            "forwarded" => ForwardedField::Forwarded,
            _ => ForwardedField::XForwardedFor,
        },
        are_counted: admission(configuration).counts_addresses(),
        are_wanted: configuration.rules.iter().any(|rule| rule.get("publish_from").is_some()),
        are_loopback: is_of_this_machine(configuration),
    }
}

/// Whether nobody is asked for a credential, and only this machine connects, not a proxy for its
/// clients.
fn is_of_this_machine(configuration: &Configuration) -> bool {
    let mut addresses = client_addresses(configuration);
    addresses.extend(tls_settings(configuration).into_iter().flat_map(|(tls, _)| tls));
    configuration.text("entitlement.mode") != "tokens"
        && addresses.iter().all(|address| address.ip().is_loopback())
        && networks(configuration, "listen.proxies").next().is_none()
}

/// `None` where it is "auto".
fn count_of(configuration: &Configuration, key: &str) -> Option<u32> {
    let number = configuration.number(key)?;
    Some(u32::try_from(number).unwrap_or(u32::MAX))
}

fn compression(configuration: &Configuration) -> Option<CompressionSettings> {
    let number = |key| number_u32(configuration, key);
    configuration.is_on("websocket.compression").then(|| CompressionSettings {
        bytes_min: number("websocket.compression_bytes_min"),
        level: number("websocket.compression_level") as u8,
    })
}

/// Without keys in the configuration there are none yet: `ticket_keys` gives some.
fn tickets(configuration: &Configuration) -> TicketSettings {
    TicketSettings {
        keys: match &configuration.get("tickets.keys").0 {
            Value::Keys(keys) => keys.clone(),
            _ => Vec::new(),
        },
        lifetime_ms: number_u64(configuration, "tickets.lifetime"),
        not_before_ms: number_u64(configuration, "tickets.revoked_before"),
    }
}

/// `age_max` of a log in memory, if it is not given.
pub(super) const MEMORY_AGE_MAX_MS: u64 = 180_000;

fn logs(configuration: &Configuration) -> Vec<LogSettings> {
    let mut first_partition = 0;
    let mut logs = Vec::with_capacity(configuration.logs.len());
    for entry in &configuration.logs {
        let number = |key: &str| entry.number(key).unwrap_or(0);
        let partitions_count = number("partitions_count") as u32;
        let durability = match entry.text("durability") {
            Some("disk") => Durability::Disk,
            _ => Durability::Memory,
        };
        // Nobody expects of a durable log that it forgets after minutes, unless it was told to.
        let age_max_auto_ms = match durability {
            Durability::Disk => u64::MAX,
            Durability::Memory => MEMORY_AGE_MAX_MS,
        };
        logs.push(LogSettings {
            name: entry.text("name").unwrap_or_default().into(),
            partitions_count,
            first_partition,
            durability,
            epoch: new_epoch(),
            older_epochs: Vec::new(),
            cache_bytes: number("cache_bytes"),
            log_bytes_max: number("bytes_max"),
            age_max_ms: entry.number("age_max").unwrap_or(age_max_auto_ms),
            segment_bytes: number("segment_bytes") as u32,
            retained_bytes_max: number("retained_bytes_max"),
        });
        first_partition += partitions_count;
    }
    logs
}

fn default_rule(configuration: &Configuration) -> RuleSettings {
    let declared = super::options::RULE_OPTIONS
        .iter()
        .find(|spec| spec.key == "history_messages_max")
        .and_then(super::OptionSpec::default_value);
    RuleSettings {
        log: 0,
        history_messages_max: match declared {
            Some(Value::Count(number)) => number as u32,
            _ => 0,
        },
        message_bytes_max: number_u32(configuration, "limits.message_bytes_max"),
        ..RuleSettings::default()
    }
}

/// Restrictions on publishing; `None` if there are none.
fn publishing(entry: &Entry) -> Option<Box<PublishSettings>> {
    let prefixes = match entry.get("publish_from") {
        Some((Value::Texts(texts), _)) => &texts[..],
        _ => &[],
    };
    let settings = PublishSettings {
        publishers: match entry.text("publishers") {
            Some("entitled") => Publishers::Entitled,
            Some("api_keys") => Publishers::ApiKeys,
            Some("none") => Publishers::Nobody,
            _ => Publishers::All,
        },
        may_retain: !matches!(entry.get("retained"), Some((Value::Boolean(false), _))),
        rate_max: entry.number("publish_rate_max").unwrap_or(0) as u32,
        from: prefixes.iter().filter_map(|text| Network::parse(text)).collect(),
    };
    (settings != PublishSettings::default()).then(|| Box::new(settings))
}

/// One of the words that the option allows.
fn policy(word: &str) -> LagPolicy {
    match word {
        "conflate" => LagPolicy::Conflate,
        "drop" => LagPolicy::Drop,
        "disconnect" => LagPolicy::Disconnect,
        _ => LagPolicy::Replay,
    }
}

fn limits(configuration: &Configuration) -> Limits {
    let mut limits = Limits::default();
    for limit in LIMITS {
        let number = configuration.number(limit.option);
        limit.set(&mut limits, number.map(|number| number / milliseconds_of(limit.values.unit)));
    }
    limits
}

/// A memory log is a new log at every start; a log on disk needs a new epoch only if it is new or
/// has lost something. Seconds keep epochs in order for people; random bits keep the epochs of two
/// logs that began in the same second apart.
pub fn new_epoch() -> u64 {
    let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let random = RandomState::new().hash_one(since_1970.as_nanos());
    (since_1970.as_secs() << 24) | (random >> 40)
}

fn number_u64(configuration: &Configuration, key: &str) -> u64 {
    configuration.number(key).unwrap_or(0)
}

/// Bounds of the declaration keep such options within 32 bits.
fn number_u32(configuration: &Configuration, key: &str) -> u32 {
    u32::try_from(number_u64(configuration, key)).unwrap_or(u32::MAX)
}

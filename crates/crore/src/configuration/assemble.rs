//! From options to the settings of a node: limits, logs, rules, addresses.

use super::assemble_logging;
use super::entries::{Configuration, Entry};
use super::fault::Origin;
use super::options::{
    self, ClientCertificates, Engine, Http, Listen, LogTable, Mqtt, Node, NodeLimits,
    ProxyProtocol, RuleTable, Section, SharedOrder, Sys, Tickets, Tls, TlsVersion, UserDevice,
    UserFrames, V3Refusals, WebSocket, milliseconds_of,
};
use super::relations::entitlement::takes_tokens;
use broker::filters::FilterTrie;
use broker::limits::{LIMITS, Limits};
use broker::mail::PartitionId;
use broker::settings::{
    AddressSettings, CompressionSettings, Durability, GroupOrder, LogSettings, MqttSettings,
    PublishSettings, Publishers, RuleSettings, Settings, SysSettings, TicketSettings,
};
use broker::topic::Filter;
use net::device::xdp::Mode;
use net::kernel::Sockets;
use net::mixed::Transports;
use net::user::{Carrier, Checksums, Frames, UserNetwork};
use node::admission::{AdmissionOptions, EntranceLimits};
use node::{NodeOptions, ProxyOptions};
use std::hash::{BuildHasher, RandomState};
use std::net::SocketAddr;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use stdx::hash::Seed;
use tls::ServerSettings;

/// `listen.open` without `listen.clients`: every IPv4 address of the machine.
const OPEN_ADDRESS: &str = "0.0.0.0:8800";
/// `listen.open` without `tls.listen`.
const OPEN_TLS_ADDRESS: &str = "0.0.0.0:8843";

/// Everything that the node's start needs. `configuration` has been checked; `cores` is how many
/// the process may use.
pub fn node_options(configuration: &Configuration, cores: usize) -> NodeOptions {
    let (node, listen, limits) =
        (configuration.read::<Node>(), configuration.read::<Listen>(), configuration.read());
    let NodeLimits { connections_per_user_max, connect_rate_max, .. } = limits;
    NodeOptions {
        settings: settings(configuration, cores),
        listen: client_addresses(configuration),
        transport: Transports {
            sockets: Sockets {
                inherited: Vec::new(),
                send_bytes: listen.socket_send_bytes,
                backlog_max: listen.backlog,
                private_tables: node.private_tables,
                registered: node.registered_sockets,
            },
            user: user_network(configuration),
        },
        // Its files are read by who starts the node.
        tls: None,
        proxied: proxied(configuration),
        admission: admission(configuration),
        connections_per_user_max,
        connect_rate_max,
        hash_seed: (RandomState::new().hash_one(0), RandomState::new().hash_one(1)),
        data_dir: node.data_dir,
        // Its client is created by who starts the node.
        engine: None,
        ready_without_engine: configuration.read::<Engine>().ready_without_engine,
        // Its keys are read by who starts the node.
        authenticator: None,
        // Its reader is who starts the node.
        journal: None,
        inheritance: None,
    }
}

/// The TCP of the node's own; `None` without an interface for it.
pub fn user_network(configuration: &Configuration) -> Option<UserNetwork> {
    let options: options::UserNetwork = configuration.read();
    let carrier = match options.device {
        UserDevice::Xdp => Carrier::Xdp(Mode::Native),
        UserDevice::XdpGeneric => Carrier::Xdp(Mode::Generic),
        UserDevice::Tun => Carrier::Tun,
    };
    let addresses = options.addresses.iter().filter_map(|text| text.parse().ok()).collect();
    let secret = Seed(RandomState::new().hash_one(2), RandomState::new().hash_one(3));
    Some(UserNetwork {
        frames: match options.frames {
            UserFrames::Listeners => Frames::Listeners,
            UserFrames::All => Frames::All,
        },
        checksums: if options.partial_checksums { Checksums::Partial } else { Checksums::Whole },
        threads_count: options.io_threads,
        turn: Duration::from_micros(options.turn_us.into()),
        ..UserNetwork::new(options.interface?, carrier, addresses, secret)
    })
}

/// Number of I/O threads that all listeners together need: those of the node's own TCP, and one
/// for the kernel's sockets if they have listeners.
pub fn io_threads_min(configuration: &Configuration) -> u16 {
    let Some(user) = user_network(configuration) else {
        return 1;
    };
    let mut listeners = client_addresses(configuration);
    listeners.extend(tls_settings(configuration).into_iter().flat_map(|(listen, _)| listen));
    let has_others = listeners.iter().any(|listener| !user.has(listener.ip()));
    user.threads_count + u16::from(has_others)
}

/// Addresses for clients, those of MQTT last; with `listen.open` and no address given, all of the
/// machine.
pub fn client_addresses(configuration: &Configuration) -> Vec<SocketAddr> {
    let Listen { clients, .. } = configuration.read();
    let mut all = addresses(configuration, "listen.clients", clients, OPEN_ADDRESS);
    all.extend(configuration.read::<Mqtt>().listen);
    all
}

/// Addresses for clients with TLS, and its settings; `None` without a certificate.
pub fn tls_settings(configuration: &Configuration) -> Option<(Vec<SocketAddr>, ServerSettings)> {
    let tls: Tls = configuration.read();
    let settings = ServerSettings {
        certificate_file: tls.certificate_file?,
        key_file: tls.key_file?,
        tls12: tls.version_min == TlsVersion::V12,
        clients: tls.client_ca_file.map(|ca_file| tls::ClientCertificates {
            ca_file,
            crl_file: tls.client_crl_file,
            is_required: tls.client_certificates == ClientCertificates::Required,
        }),
    };
    let mut all = addresses(configuration, "tls.listen", tls.listen, OPEN_TLS_ADDRESS);
    all.extend(configuration.read::<Mqtt>().tls_listen);
    Some((all, settings))
}

fn addresses(
    configuration: &Configuration,
    key: &str,
    addresses: Vec<SocketAddr>,
    open_address: &str,
) -> Vec<SocketAddr> {
    let is_default = configuration.get(key).1 == Origin::Default;
    if is_default && configuration.read::<Listen>().open {
        open_address.parse().into_iter().collect()
    } else {
        addresses
    }
}

/// The settings of shards. `configuration` has been checked; `cores` is how many the process may
/// use.
pub fn settings(configuration: &Configuration, cores: usize) -> Settings {
    let cores = cores.clamp(1, 1_024) as u16;
    let node: Node = configuration.read();
    let http: Http = configuration.read();
    // Only one of the two may be given: "auto" follows the other.
    let homes = node.home_shards_count;
    let least = homes.unwrap_or(1).max(io_threads_min(configuration));
    let threads = node.io_threads.unwrap_or(cores.max(least));
    let homes = homes.unwrap_or(cores.min(threads));
    let logs = logs(configuration);
    let limits = limits(configuration);
    let (rules, rule_filters) = rules(configuration, &logs, limits.message_bytes_max);
    Settings {
        edges_count: threads,
        homes_count: homes,
        logs,
        rules,
        rule_filters,
        tickets: tickets(configuration),
        limits,
        addresses: addresses_of_clients(configuration),
        node_name: node.name,
        other_addresses: node.other_addresses,
        compression: compression(configuration),
        allowed_origins: http.allowed_origins,
        entitlement: crate::entitled::settings(configuration),
        journal: assemble_logging::journal(configuration),
        sys: sys_settings(configuration),
        mqtt: mqtt_settings(configuration),
    }
}

/// The number of addresses for MQTT, without and with TLS. TLS needs a certificate.
pub fn mqtt_count(configuration: &Configuration) -> (usize, usize) {
    let mqtt: Mqtt = configuration.read();
    let has_tls = configuration.read::<Tls>().certificate_file.is_some();
    (mqtt.listen.len(), if has_tls { mqtt.tls_listen.len() } else { 0 })
}

fn mqtt_settings(configuration: &Configuration) -> MqttSettings {
    let mqtt: Mqtt = configuration.read();
    MqttSettings {
        is_on: !(mqtt.listen.is_empty() && mqtt.tls_listen.is_empty()),
        inflight_max: mqtt.inflight_max,
        receive_max: mqtt.receive_max,
        topic_alias_max: mqtt.topic_alias_max,
        topic_aliases_sent_max: mqtt.topic_aliases_sent_max,
        keep_alive_max_s: mqtt.keep_alive_max.as_secs() as u16,
        packet_bytes_max: mqtt.packet_bytes_max,
        session_expiry_v3_s: mqtt.session_expiry_v3.as_secs() as u32,
        assigns_names: mqtt.assigned_ids,
        qos_max: mqtt.qos_max,
        may_retain: mqtt.retained,
        acknowledges_refused: mqtt.v3_refusals == V3Refusals::Acknowledge,
        group_order: match mqtt.shared_order {
            SharedOrder::Any => GroupOrder::Any,
            SharedOrder::Topic => GroupOrder::Topic,
        },
    }
}

/// The rules of topics, and their numbers by filter; the first is for topics without a rule.
fn rules(
    configuration: &Configuration,
    logs: &[LogSettings],
    message_bytes_max: u32,
) -> (Vec<RuleSettings>, FilterTrie<u16>) {
    let nothing = Entry::with_defaults(RuleTable::OPTIONS, Origin::Default);
    let mut rules = vec![RuleSettings {
        log: 0,
        history_messages_max: nothing.read::<RuleTable>().history_messages_max,
        message_bytes_max,
        ..RuleSettings::default()
    }];
    let mut rule_filters = FilterTrie::default();
    for entry in &configuration.rules {
        let rule: RuleTable = entry.read();
        let Some(Ok(filter)) = rule.filter.as_deref().map(Filter::parse) else {
            continue;
        };
        let log = logs.iter().position(|log| Some(&*log.name) == rule.log.as_deref());
        rule_filters.insert(filter, rules.len() as u16);
        rules.push(RuleSettings {
            filter: filter.as_str().into(),
            log: log.unwrap_or(0) as u16,
            history_messages_max: rule.history_messages_max,
            // Auto: as long as the log keeps them. It goes by a steady clock, and no wall clock may
            // hide what it has.
            history_age_max_ms: rule.history_age_max.map_or(u64::MAX, milliseconds),
            message_bytes_max: rule.message_bytes_max.unwrap_or(message_bytes_max),
            when_lagging: rule.when_lagging,
            publishing: publishing(PublishSettings {
                publishers: rule.publishers,
                may_retain: rule.retained,
                rate_max: rule.publish_rate_max,
                from: rule.publish_from,
            }),
        });
    }
    let own = [sys_rule(configuration, &rules), mosquitto_rule(configuration, &rules, logs)];
    for rule in own.into_iter().flatten() {
        if let Ok(filter) = Filter::parse(&rule.filter) {
            rule_filters.insert(filter, rules.len() as u16);
            rules.push(rule);
        }
    }
    (rules, rule_filters)
}

/// Settings of publications on `$sys/...`.
fn sys_settings(configuration: &Configuration) -> SysSettings {
    let Sys { clients, topics, events_rate_max, open, .. } = configuration.read();
    SysSettings { clients, topics, events_rate_max, is_open: open }
}

/// The rule of the node's own topics, where something is published there and the configuration has
/// none for all of them. It keeps them in the first log, where they are without it: a running node
/// takes it, and gives it back.
fn sys_rule(configuration: &Configuration, rules: &[RuleSettings]) -> Option<RuleSettings> {
    let Sys { statistics, clients, topics, nodes, .. } = configuration.read();
    let has_one = rules.iter().any(|rule| &*rule.filter == broker::sys::FILTER);
    ((statistics || clients || topics || nodes) && !has_one).then(|| RuleSettings {
        filter: broker::sys::FILTER.into(),
        publishing: publishing(PublishSettings {
            publishers: Publishers::Nobody,
            ..PublishSettings::default()
        }),
        ..rules[0].clone()
    })
}

/// The rule of the figures that Mosquitto has, where they are published and the configuration has
/// none for all of them. Each node has its own, so a log in the engine does not suit.
fn mosquitto_rule(
    configuration: &Configuration,
    rules: &[RuleSettings],
    logs: &[LogSettings],
) -> Option<RuleSettings> {
    let Sys { mosquitto, .. } = configuration.read();
    let has_one = rules.iter().any(|rule| &*rule.filter == broker::sys::MQTT_FILTER);
    let log = logs.iter().position(|log| log.durability != Durability::Engine)?;
    (mosquitto && !has_one).then(|| RuleSettings {
        filter: broker::sys::MQTT_FILTER.into(),
        log: log as u16,
        ..rules[0].clone()
    })
}

fn proxied(configuration: &Configuration) -> Option<ProxyOptions> {
    let (listen, tls): (Listen, Tls) = (configuration.read(), configuration.read());
    let options = ProxyOptions {
        plain: listen.proxy_protocol == ProxyProtocol::Required,
        tls: tls.proxy_protocol == ProxyProtocol::Required,
        proxies: listen.proxies,
        timeout: Duration::from_millis(limits(configuration).handshake_timeout_ms.into()),
    };
    (options.plain || options.tls).then_some(options)
}

fn admission(configuration: &Configuration) -> AdmissionOptions {
    let limits: NodeLimits = configuration.read();
    let (listen, tls): (Listen, Tls) = (configuration.read(), configuration.read());
    AdmissionOptions {
        connections_per_address_max: limits.connections_per_address_max,
        connect_rate_per_address_max: limits.connect_rate_per_address_max,
        exempt: limits.addresses_exempt,
        plain: EntranceLimits {
            connections_max: listen.connections_max,
            connect_rate_max: listen.connect_rate_max,
        },
        tls: EntranceLimits {
            connections_max: tls.connections_max,
            connect_rate_max: tls.connect_rate_max,
        },
    }
}

fn addresses_of_clients(configuration: &Configuration) -> AddressSettings {
    let http: Http = configuration.read();
    AddressSettings {
        trusted_proxies: http.trusted_proxies,
        field: http.forwarded_field,
        are_counted: admission(configuration).counts_addresses(),
        are_wanted: configuration.rules.iter().any(|rule| rule.get("publish_from").is_some()),
        are_loopback: is_of_this_machine(configuration),
    }
}

/// Whether the node requires no credentials and only this machine connects, without a proxy in
/// between.
fn is_of_this_machine(configuration: &Configuration) -> bool {
    let mut addresses = client_addresses(configuration);
    addresses.extend(tls_settings(configuration).into_iter().flat_map(|(tls, _)| tls));
    !takes_tokens(configuration)
        && addresses.iter().all(|address| address.ip().is_loopback())
        && configuration.read::<Listen>().proxies.is_empty()
}

fn compression(configuration: &Configuration) -> Option<CompressionSettings> {
    let WebSocket { compression, compression_bytes_min: bytes_min, compression_level: level } =
        configuration.read();
    compression.then_some(CompressionSettings { bytes_min, level })
}

/// Without keys in the configuration there are none yet: `ticket_keys` gives some.
fn tickets(configuration: &Configuration) -> TicketSettings {
    let tickets: Tickets = configuration.read();
    TicketSettings {
        keys: tickets.keys,
        lifetime_ms: milliseconds(tickets.lifetime),
        not_before_ms: tickets.revoked_before.0,
    }
}

/// `age_max` of a log in memory, if it is not given.
pub(super) const MEMORY_AGE_MAX_MS: u64 = 180_000;

fn logs(configuration: &Configuration) -> Vec<LogSettings> {
    let mut first_partition = PartitionId(0);
    let mut logs = Vec::with_capacity(configuration.logs.len());
    for entry in &configuration.logs {
        let log: LogTable = entry.read();
        // A durable log keeps messages for ever unless the configuration limits their age.
        let age_max_auto_ms = match log.durability {
            Durability::Disk => u64::MAX,
            Durability::Memory | Durability::Engine => MEMORY_AGE_MAX_MS,
        };
        logs.push(LogSettings {
            name: log.name,
            partitions_count: log.partitions_count,
            first_partition,
            durability: log.durability,
            partitioner: log.partitioner,
            topic_prefix: log.topic_prefix.unwrap_or_default().into(),
            epoch: new_epoch(),
            cache_bytes: log.cache_bytes,
            log_bytes_max: log.bytes_max,
            age_max_ms: log.age_max.map_or(age_max_auto_ms, milliseconds),
            segment_bytes: log.segment_bytes,
            retained_bytes_max: log.retained_bytes_max,
            is_mirrored: log.mirror,
            is_compacted: log.compact,
            ..LogSettings::default()
        });
        first_partition = first_partition.nth(log.partitions_count);
    }
    logs
}

/// Restrictions on publishing; `None` if there are none.
fn publishing(settings: PublishSettings) -> Option<Box<PublishSettings>> {
    (settings != PublishSettings::default()).then(|| Box::new(settings))
}

/// The limits of shards.
pub fn limits(configuration: &Configuration) -> Limits {
    let mut limits = Limits::default();
    for limit in LIMITS {
        let number = configuration.number(limit.option);
        limit.set(&mut limits, number.map(|number| number / milliseconds_of(limit.values.unit)));
    }
    limits
}

/// A time as the node's settings have it.
pub fn milliseconds(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}

/// A memory log is a new log at every start; a log on disk needs a new epoch only if it is new or
/// has lost something. Seconds keep epochs in order for people; random bits keep the epochs of two
/// logs that began in the same second apart.
pub fn new_epoch() -> u64 {
    let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let random = RandomState::new().hash_one(since_1970.as_nanos());
    (since_1970.as_secs() << 24) | (random >> 40)
}

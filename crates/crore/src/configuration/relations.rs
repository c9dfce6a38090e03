//! Relations between options: bounds asserted against each other, and what one option needs of
//! another.

mod engine;
pub mod entitlement;
mod user_network;

use super::assemble::limits;
use super::assemble_logging;
use super::entries::Configuration;
use super::fault::{Fault, Origin};
use super::options::{
    Listen, LogTable, MetricsPush, Mqtt, Node, Operators, ProxyProtocol, RuleTable, Tls,
};
use broker::settings::Durability;
use fetch::push::{self, Target};
use std::collections::HashMap;

/// Bytes of a frame or record beside its payload, at most: topic, content type, tags, numbers.
const ENVELOPE_BYTES: u64 = 8 << 10;
/// Bytes that a message appends beside its payload, at most: content type, tags and names.
const ATTRIBUTES_BYTES: u64 = 24 << 10;

/// At least, at most: `(greater key, lesser key, bytes between them)`.
const AT_LEAST: &[(&str, &str, u64)] = &[
    ("websocket.frame_bytes_max", "limits.message_bytes_max", ENVELOPE_BYTES),
    ("limits.ring_bytes", "limits.message_bytes_max", ENVELOPE_BYTES),
    ("limits.outbox_bytes_max", "limits.message_bytes_max", ENVELOPE_BYTES),
    ("limits.outbox_bytes_max", "limits.page_bytes", ENVELOPE_BYTES),
    ("limits.pinned_bytes_max", "limits.outbox_bytes_max", 0),
    ("limits.request_bytes_max", "limits.message_bytes_max", ATTRIBUTES_BYTES),
    ("limits.stream_credit_bytes", "limits.message_bytes_max", ENVELOPE_BYTES),
];

/// Appends what does not fit together.
pub fn check(configuration: &Configuration, faults: &mut Vec<Fault>) {
    for (greater, lesser, between) in AT_LEAST {
        let (Some(high), Some(low)) = (configuration.number(greater), configuration.number(lesser))
        else {
            continue;
        };
        if high < low + between {
            faults.push(Fault {
                origin: first_given(configuration, &[greater, lesser]),
                key: (*greater).into(),
                problem: format!(
                    "{} is too small for {lesser} = {}",
                    configuration.get(greater).0,
                    configuration.get(lesser).0
                ),
                expected: format!("at least {} bytes", low + between),
            });
        }
    }
    check_threads(configuration, faults);
    check_user(configuration, faults);
    check_operators(configuration, faults);
    check_listeners(configuration, faults);
    check_tls(configuration, faults);
    check_proxies(configuration, faults);
    check_metrics(configuration, faults);
    check_logs(configuration, faults);
    check_rules(configuration, faults);
    user_network::check(configuration, faults);
    engine::check(configuration, faults);
    entitlement::check(configuration, faults);
    assemble_logging::check(configuration, faults);
}

fn check_threads(configuration: &Configuration, faults: &mut Vec<Fault>) {
    let Node { io_threads, home_shards_count, .. } = configuration.read();
    if let (Some(threads), Some(homes)) = (io_threads, home_shards_count)
        && homes > threads
    {
        faults.push(Fault {
            origin: first_given(configuration, &["node.home_shards_count", "node.io_threads"]),
            key: "node.home_shards_count".into(),
            problem: format!("{homes} is more than node.io_threads = {threads}"),
            expected: "at most node.io_threads".into(),
        });
    }
}

fn check_user(configuration: &Configuration, faults: &mut Vec<Fault>) {
    if let Some((_, origin)) = configuration.given("node.group")
        && configuration.given("node.user").is_none()
    {
        faults.push(Fault {
            origin: origin.clone(),
            key: "node.group".into(),
            problem: "node.group is set, but node.user is not".into(),
            expected: "node.user as well".into(),
        });
    }
}

fn check_operators(configuration: &Configuration, faults: &mut Vec<Fault>) {
    let mut refuse = |key: &'static str, problem: &str, expected: &str| {
        faults.push(Fault {
            origin: configuration.get(key).1.clone(),
            key: key.into(),
            problem: problem.into(),
            expected: expected.into(),
        });
    };
    let Operators { socket, origins, .. } = configuration.read();
    if !matches!(&*socket, "auto" | "off") && !socket.starts_with('/') {
        let expected = "\"auto\", \"off\", or an absolute path";
        refuse("operators.socket", "not a path for a socket", expected);
    }
    if origins.iter().any(|origin| origin == "*") {
        let problem = "any page could control the node through a logged-in browser";
        refuse("operators.origins", problem, "the origins of your proxies");
    }
}

fn check_metrics(configuration: &Configuration, faults: &mut Vec<Fault>) {
    let key = "metrics.push_to";
    if let (Some(text), Some((_, origin))) =
        (configuration.read::<MetricsPush>().push_to, configuration.given(key))
        && Target::parse(&text, 0).is_none()
    {
        faults.push(Fault {
            origin: origin.clone(),
            key: key.into(),
            problem: "not a destination for metrics".into(),
            expected: push::EXPECTED.into(),
        });
    }
}

fn check_listeners(configuration: &Configuration, faults: &mut Vec<Fault>) {
    let (listen, tls): (Listen, Tls) = (configuration.read(), configuration.read());
    if listen.clients.is_empty() && tls.certificate_file.is_none() {
        faults.push(Fault {
            origin: configuration.get("listen.clients").1.clone(),
            key: "listen.clients".into(),
            problem: "no address for clients is set".into(),
            expected: "at least one address, or TLS (tls.certificate_file)".into(),
        });
    }
    if listen.open || entitlement::takes_tokens(configuration) {
        return;
    }
    let mqtt: Mqtt = configuration.read();
    for (key, addresses) in [
        ("listen.clients", listen.clients),
        ("tls.listen", tls.listen),
        ("mqtt.listen", mqtt.listen),
        ("mqtt.tls_listen", mqtt.tls_listen),
    ] {
        for address in addresses.iter().filter(|address| !address.ip().is_loopback()) {
            faults.push(Fault {
                origin: configuration.get(key).1.clone(),
                key: key.into(),
                problem: format!(
                    "{address} can be reached from other machines, and authentication is off: every client that can connect could publish and read everything"
                ),
                expected: "a loopback address, entitlement.mode = \"tokens\", or --open (listen.open = true) to permit this".into(),
            });
        }
    }
}

/// A PROXY header is accepted only from listed proxies, because its claim cannot be verified.
fn check_proxies(configuration: &Configuration, faults: &mut Vec<Fault>) {
    let (listen, tls): (Listen, Tls) = (configuration.read(), configuration.read());
    for (key, protocol) in [
        ("listen.proxy_protocol", listen.proxy_protocol),
        ("tls.proxy_protocol", tls.proxy_protocol),
    ] {
        if protocol == ProxyProtocol::Required && listen.proxies.is_empty() {
            faults.push(Fault {
                origin: configuration.get(key).1.clone(),
                key: key.into(),
                problem: "listen.proxies is not set".into(),
                expected: "the addresses of the proxies in listen.proxies".into(),
            });
        }
    }
}

/// Certificate and key come together, and addresses with them.
fn check_tls(configuration: &Configuration, faults: &mut Vec<Fault>) {
    let pair = ["tls.certificate_file", "tls.key_file"];
    let mut fault = |given: &str, missing: &str| {
        if let Some((_, origin)) = configuration.values.get(given)
            && *origin != Origin::Default
            && configuration.given(missing).is_none()
        {
            faults.push(Fault {
                origin: origin.clone(),
                key: given.into(),
                problem: format!("{missing} is not set"),
                expected: "both certificate and key".into(),
            });
        }
    };
    fault(pair[0], pair[1]);
    fault(pair[1], pair[0]);
    fault("tls.listen", pair[0]);
    fault("mqtt.tls_listen", pair[0]);
    fault("tls.client_ca_file", pair[0]);
    let tls: Tls = configuration.read();
    for key in ["tls.client_crl_file", "tls.client_certificates"] {
        if let Some((_, origin)) = configuration.given(key)
            && *origin != Origin::Default
            && tls.client_ca_file.is_none()
        {
            faults.push(Fault {
                origin: origin.clone(),
                key: key.into(),
                problem: "tls.client_ca_file is not set".into(),
                expected: "the authorities of clients' certificates in tls.client_ca_file".into(),
            });
        }
    }
    if tls.certificate_file.is_some() && tls.listen.is_empty() {
        faults.push(Fault {
            origin: configuration.get("tls.listen").1.clone(),
            key: "tls.listen".into(),
            problem: "no address for clients with TLS is set".into(),
            expected: "at least one address".into(),
        });
    }
}

fn check_logs(configuration: &Configuration, faults: &mut Vec<Fault>) {
    let mut names: HashMap<String, Origin> = HashMap::new();
    let message = limits(configuration).message_bytes_max;
    let needed = u64::from(message) + ENVELOPE_BYTES;
    for log in &configuration.logs {
        let mut fault = |key: &str, problem: String, expected: String| {
            let key_path = format!("log.{key}");
            faults.push(Fault { origin: log.origin_of(key), key: key_path, problem, expected });
        };
        let LogTable { name, durability, segment_bytes, bytes_max, mirror, .. } = log.read();
        if let Some(earlier) = names.insert(name.clone(), log.origin_of("name")) {
            fault(
                "name",
                format!("\"{name}\" is already the log of {earlier}"),
                "another name".into(),
            );
        }
        if mirror && durability != Durability::Engine {
            fault(
                "mirror",
                "only a log in the engine has a mirror".into(),
                "durability = \"engine\", or no mirror".into(),
            );
        } else if mirror || durability == Durability::Disk {
            let (key, what) =
                if mirror { ("mirror", "a mirror") } else { ("durability", "a log on disk") };
            if configuration.read::<Node>().data_dir.is_none() {
                fault(
                    key,
                    format!("{what} needs a directory, but node.data_dir is not set"),
                    "node.data_dir (or --data-dir)".into(),
                );
            }
            if !names_directory(&name) {
                fault(
                    "name",
                    format!("\"{name}\" is not valid for {what}, where it names the directory"),
                    "letters, digits, `-`, `_` and `.`, but no `.` at the beginning".into(),
                );
            }
        }
        let segment = u64::from(segment_bytes);
        if segment < needed {
            fault(
                "segment_bytes",
                format!(
                    "{segment} bytes cannot hold one message of limits.message_bytes_max = {message} bytes"
                ),
                format!("at least {needed} bytes"),
            );
        }
        if bytes_max < 2 * segment {
            fault(
                "bytes_max",
                format!(
                    "{bytes_max} bytes cannot hold two segments of segment_bytes = {segment} bytes"
                ),
                format!("at least {} bytes", 2 * segment),
            );
        }
    }
    if configuration.logs.is_empty() {
        faults.push(Fault {
            origin: Origin::Default,
            key: "log".into(),
            problem: "no log is configured".into(),
            expected: "at least one [[log]], or no [[log]] section at all".into(),
        });
    }
}

fn check_rules(configuration: &Configuration, faults: &mut Vec<Fault>) {
    let mut filters: HashMap<String, Origin> = HashMap::new();
    let all = limits(configuration).message_bytes_max;
    let logs: Vec<String> =
        configuration.logs.iter().map(|log| log.read::<LogTable>().name).collect();
    for rule in &configuration.rules {
        let mut fault = |key: &str, problem: String, expected: String| {
            let key_path = format!("rule.{key}");
            faults.push(Fault { origin: rule.origin_of(key), key: key_path, problem, expected });
        };
        let RuleTable { filter, log, message_bytes_max, .. } = rule.read();
        match filter {
            None => fault("filter", "the rule has no filter".into(), "filter = \"...\"".into()),
            Some(filter) => {
                if let Some(earlier) = filters.insert(filter.clone(), rule.origin_of("filter")) {
                    let problem = format!("\"{filter}\" already has the rule of {earlier}");
                    fault("filter", problem, "each filter once".into());
                }
            }
        }
        if let Some(name) = log
            && !logs.contains(&name)
        {
            fault("log", format!("unknown log \"{name}\""), format!("one of: {}", logs.join(", ")));
        }
        if message_bytes_max.is_some_and(|bytes| bytes > all) {
            fault(
                "message_bytes_max",
                format!("more than limits.message_bytes_max = {all} bytes"),
                format!("at most {all} bytes"),
            );
        }
    }
}

/// Whether a log's name is one for a directory on every system.
fn names_directory(name: &str) -> bool {
    !name.starts_with('.')
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte))
}

/// The origin of the first of these that somebody gave; a fault should point at what can be
/// changed.
fn first_given(configuration: &Configuration, keys: &[&str]) -> Origin {
    keys.iter()
        .map(|key| configuration.get(key).1.clone())
        .find(|origin| *origin != Origin::Default)
        .unwrap_or(Origin::Default)
}

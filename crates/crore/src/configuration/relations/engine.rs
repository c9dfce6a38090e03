//! Relations of the engine's options: what a log in the engine needs, and the topics that it may
//! have.

use crate::configuration::entries::{Configuration, Entry};
use crate::configuration::fault::{Fault, Origin};
use crate::configuration::options::{Engine, LogTable, Mechanism, RuleTable, Sys};
use broker::settings::Durability;
use broker::topic::TopicName;
use fetch::Url;
use std::collections::HashMap;

/// Appends what does not fit together.
pub fn check(configuration: &Configuration, faults: &mut Vec<Fault>) {
    let logs: Vec<(&Entry, LogTable)> = configuration
        .logs
        .iter()
        .map(|log| (log, log.read::<LogTable>()))
        .filter(|(_, log)| log.durability == Durability::Engine)
        .collect();
    check_connection(configuration, !logs.is_empty(), faults);
    for entry in &configuration.logs {
        let LogTable { compact, durability, .. } = entry.read();
        if compact && durability != Durability::Engine {
            faults.push(Fault {
                origin: entry.origin_of("compact"),
                key: "log.compact".into(),
                problem: "only the topic of a log in the engine is compacted".into(),
                expected: "durability = \"engine\", or no compaction".into(),
            });
        }
    }
    check_figures(configuration, logs.len(), faults);
    let mut topics: HashMap<String, Origin> = HashMap::new();
    for (entry, log) in &logs {
        check_log(entry, log, &mut topics, faults);
        check_topics(configuration, entry, log, faults);
    }
}

/// Each node has figures of its own.
fn check_figures(configuration: &Configuration, of_engine: usize, faults: &mut Vec<Fault>) {
    let Sys { mosquitto, .. } = configuration.read();
    if mosquitto && of_engine > 0 && of_engine == configuration.logs.len() {
        let key = "sys.mosquitto";
        faults.push(Fault {
            origin: configuration.origin_of(key),
            key: key.into(),
            problem: "all logs are in the engine, where nodes would replace each other's figures"
                .into(),
            expected: "a log that is not in the engine".into(),
        });
    }
}

fn check_connection(configuration: &Configuration, is_needed: bool, faults: &mut Vec<Fault>) {
    let mut fault = |key: &str, problem: String, expected: &str| {
        let origin = configuration.origin_of(key);
        let (key, expected) = (key.into(), expected.into());
        faults.push(Fault { origin, key, problem, expected });
    };
    let engine: Engine = configuration.read();
    let addresses = "addresses of brokers, such as [\"kafka-1:9092\", \"kafka-2:9092\"]";
    if is_needed && engine.bootstrap_servers.is_empty() {
        let problem = "a log is in the engine, but no broker is set".into();
        fault("engine.bootstrap_servers", problem, addresses);
    }
    for server in &engine.bootstrap_servers {
        if !is_address(server) {
            fault("engine.bootstrap_servers", format!("\"{server}\" is not HOST:PORT"), addresses);
        }
    }
    if engine.certificate_file.is_some() != engine.key_file.is_some() {
        let (given, missing) = match engine.key_file {
            Some(_) => ("engine.key_file", "engine.certificate_file"),
            None => ("engine.certificate_file", "engine.key_file"),
        };
        fault(given, format!("{missing} is not set"), "both certificate and key");
    }
    check_login(&engine, &mut fault);
}

/// Each mechanism has its own options, all of them, and no others.
fn check_login(engine: &Engine, fault: &mut dyn FnMut(&str, String, &str)) {
    let passwords = [
        ("engine.username", engine.username.is_some()),
        ("engine.password_file", engine.password_file.is_some()),
    ];
    let tokens = [
        ("engine.oauth_token_file", engine.oauth_token_file.is_some()),
        ("engine.oauth_url", engine.oauth_url.is_some()),
    ];
    let of_server = [
        ("engine.oauth_client_id", engine.oauth_client_id.is_some()),
        ("engine.oauth_client_secret_file", engine.oauth_client_secret_file.is_some()),
        ("engine.oauth_scope", engine.oauth_scope.is_some()),
        ("engine.oauth_ca_file", engine.oauth_ca_file.is_some()),
    ];
    let needs_password = engine.sasl_mechanism.is_some_and(|it| it != Mechanism::OauthBearer);
    let needs_token = engine.sasl_mechanism == Some(Mechanism::OauthBearer);
    let needs_server = engine.oauth_url.is_some();
    for (key, is_set) in passwords {
        if is_set && !needs_password {
            let expected = "PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512 in engine.sasl_mechanism";
            fault(key, "engine.sasl_mechanism does not use it".into(), expected);
        } else if !is_set && needs_password {
            fault("engine.sasl_mechanism", format!("{key} is not set"), "user name and password");
        }
    }
    for (key, _) in tokens.iter().filter(|(_, is_set)| *is_set && !needs_token) {
        let problem = "engine.sasl_mechanism does not use it".into();
        fault(key, problem, "OAUTHBEARER in engine.sasl_mechanism");
    }
    if needs_token && tokens.iter().filter(|(_, is_set)| *is_set).count() != 1 {
        let problem = "OAUTHBEARER has no source of tokens, or two".into();
        fault("engine.sasl_mechanism", problem, "engine.oauth_token_file or engine.oauth_url");
    }
    for (key, _) in of_server.iter().filter(|(_, is_set)| *is_set && !needs_server) {
        fault(key, "engine.oauth_url is not set".into(), "the URL that it is for");
    }
    for (key, _) in of_server[..2].iter().filter(|(_, is_set)| !*is_set && needs_server) {
        fault("engine.oauth_url", format!("{key} is not set"), "the client's name and secret");
    }
    if let Some(text) = &engine.oauth_url
        && !Url::parse(text).is_some_and(|url| url.is_https || url.is_local())
    {
        let problem = format!("\"{text}\" is not a URL, or does not protect the client secret");
        fault("engine.oauth_url", problem, "a URL with https, or with http on this machine");
    }
}

fn check_log(
    entry: &Entry,
    log: &LogTable,
    topics: &mut HashMap<String, Origin>,
    faults: &mut Vec<Fault>,
) {
    let mut fault = |key: &str, problem: String, expected: &str| {
        let origin = entry.origin_of(key);
        let (key, expected) = (format!("log.{key}"), expected.into());
        faults.push(Fault { origin, key, problem, expected });
    };
    if !cfg!(feature = "engine") {
        let problem = "this program was built without the engine".into();
        fault("durability", problem, "a program with the cargo feature `engine`");
    }
    let topic = log.engine_topic();
    let named_by = if log.topic.is_some() { "topic" } else { "name" };
    if !is_topic_of_engine(topic) {
        let problem = format!("\"{topic}\" is not valid for a topic of the engine");
        fault(named_by, problem, "1 to 249 letters, digits, `-`, `_` and `.`");
    }
    if let Some(earlier) = topics.insert(topic.to_owned(), entry.origin_of(named_by)) {
        let problem = format!("\"{topic}\" is already the topic of the log of {earlier}");
        fault(named_by, problem, "another topic");
    }
    let prefix = log.topic_prefix.as_deref().unwrap_or_default();
    if !prefix.is_empty() && TopicName::parse(prefix).is_err() {
        let problem = format!("\"{prefix}\" cannot begin a topic");
        fault("topic_prefix", problem, "the beginning of a topic, without wildcards");
    }
    if let Some(topic) = &log.null_key_topic {
        if TopicName::parse(topic).is_err() || topic.starts_with('$') {
            fault("null_key_topic", format!("\"{topic}\" is not a topic"), "a topic, not of `$`");
        } else if topic.strip_prefix(prefix).is_none_or(str::is_empty) {
            let problem = format!("\"{topic}\" lacks the prefix \"{prefix}\" of the log");
            fault("null_key_topic", problem, "a topic that begins with topic_prefix");
        }
        if log.compact {
            let problem = "a compacted topic takes no messages without a key".into();
            fault("null_key_topic", problem, "a log without compact");
        }
        if log.partitions_count != 1 {
            let problem = "messages without a key are in all partitions".into();
            fault("null_key_topic", problem, "a log with partitions_count = 1");
        }
    }
    if let Some(name) = log.tag_headers.iter().find(|name| name.starts_with("crore.")) {
        let problem = format!("\"{name}\" is a header of Crore");
        fault("tag_headers", problem, "names that do not begin with \"crore.\"");
    }
}

/// The log's topics begin with its prefix: the node must publish to no other one.
fn check_topics(
    configuration: &Configuration,
    entry: &Entry,
    log: &LogTable,
    faults: &mut Vec<Fault>,
) {
    let Some(prefix) = &log.topic_prefix else {
        return;
    };
    let first = configuration.logs.first().and_then(|log| log.text("name"));
    if first == Some(&log.name) {
        faults.push(Fault {
            origin: entry.origin_of("topic_prefix"),
            key: "log.topic_prefix".into(),
            problem: "the first log has all topics without a rule".into(),
            expected: "no prefix, or another log before this one".into(),
        });
    }
    for rule in &configuration.rules {
        let RuleTable { filter, log: of_rule, .. } = rule.read();
        let log_of_rule = of_rule.as_deref().or(first);
        if let Some(filter) = filter
            && log_of_rule == Some(&log.name)
            && !filter.starts_with(&**prefix)
        {
            faults.push(Fault {
                origin: rule.origin_of("filter"),
                key: "rule.filter".into(),
                problem: format!(
                    "\"{filter}\" has topics without the prefix \"{prefix}\" of log \"{}\"",
                    log.name
                ),
                expected: format!("a filter that begins with \"{prefix}\""),
            });
        }
    }
}

fn is_address(server: &str) -> bool {
    server.rsplit_once(':').is_some_and(|(host, port)| {
        let is_host = !host.is_empty() && !host.contains(|c: char| c.is_whitespace() || c == '/');
        is_host && port.parse::<u16>().is_ok_and(|port| port > 0)
    })
}

/// Kafka's rule for the names of topics.
fn is_topic_of_engine(name: &str) -> bool {
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    (1..=249).contains(&name.len()) && !matches!(name, "." | "..") && name.bytes().all(is_allowed)
}

//! Logs in an engine: their options, and what does not fit together.

use super::super::*;
use super::faults_of;
use broker::settings::{Durability, Partitioner};
use node::engine::{EngineLog, EngineLogin, EnginePassword, EngineTls};

const BROKERS: &str = "[engine]\nbootstrap_servers = [\"k1:9092\", \"k2:9092\"]\n";
/// The fault of each log in an engine in a program without one.
const WITHOUT: &str = "log.durability: this program was built without the engine";

/// The faults of brokers and these lines, without that of a program without the engine.
fn faults(text: &str) -> Vec<String> {
    let found = faults_of(&format!("{BROKERS}{text}"));
    let is_without = |line: &&str| line.contains(WITHOUT);
    let count = found.lines().filter(is_without).count();
    assert_eq!(count > 0, !cfg!(feature = "engine"), "{found}");
    found.lines().filter(|line| !is_without(line)).map(str::to_owned).collect()
}

fn check(text: &str, begins: &str, contains: &str) {
    let found = faults(text);
    assert_eq!(found.len(), 1, "{text}\n{found:?}");
    assert!(found[0].starts_with(begins), "{text}\n{}\n{begins}", found[0]);
    assert!(found[0].contains(contains), "{text}\n{}\n{contains}", found[0]);
}

const LOG: &str = "[[log]]\nname = \"m\"\n[[log]]\nname = \"orders\"\ndurability = \"engine\"\n";

#[test]
fn a_log_in_the_engine_needs_brokers() {
    let found = faults_of(LOG);
    let expected = "engine.bootstrap_servers: a log is in the engine, but no broker is set";
    assert!(found.contains(expected), "{found}");
    let text = "[engine]\nbootstrap_servers = [\"k1\"]\n";
    let found = faults_of(text);
    assert!(found.starts_with("crore.toml:2: engine.bootstrap_servers: \"k1\" is not HOST:PORT"));
}

#[test]
fn topics_of_the_engine_are_valid_and_have_one_log() {
    check(
        &format!("{LOG}topic = \"a b\"\n"),
        "crore.toml:8: log.topic: \"a b\" is not valid for a topic of the engine",
        "expected 1 to 249 letters, digits",
    );
    check(
        &format!("{LOG}[[log]]\nname = \"b\"\ndurability = \"engine\"\ntopic = \"orders\"\n"),
        "crore.toml:11: log.topic: \"orders\" is already the topic of the log of crore.toml:6",
        "another topic",
    );
}

#[test]
fn a_mirror_is_of_a_log_in_the_engine_and_needs_a_directory() {
    check(
        &format!("{LOG}mirror = true\n"),
        "crore.toml:8: log.mirror: a mirror needs a directory, but node.data_dir is not set",
        "node.data_dir",
    );
    check(
        &LOG.replacen("\"m\"\n", "\"m\"\nmirror = true\n", 1),
        "crore.toml:5: log.mirror: only a log in the engine has a mirror",
        "durability = \"engine\"",
    );
    let in_directory = "[node]\ndata_dir = \"d\"\n";
    assert!(faults(&format!("{LOG}mirror = true\n{in_directory}")).is_empty());
    check(
        &format!(
            "{in_directory}{}topic = \"o\"\nmirror = true\n",
            LOG.replace("\"orders\"", "\"o/r\"")
        ),
        "crore.toml:8: log.name: \"o/r\" is not valid for a mirror, where it names the directory",
        "letters, digits",
    );
}

#[test]
fn messages_without_a_key_have_a_topic_in_a_log_of_one_partition() {
    let with = |lines: &str| format!("{LOG}topic_prefix = \"orders/\"\n{lines}");
    let one = "partitions_count = 1\n";
    assert!(faults(&with(&format!("{one}null_key_topic = \"orders/all\"\n"))).is_empty());
    check(
        &with("null_key_topic = \"orders/all\"\n"),
        "crore.toml:9: log.null_key_topic: messages without a key are in all partitions",
        "partitions_count = 1",
    );
    for topic in ["orders/", "all", "orders"] {
        check(
            &with(&format!("{one}null_key_topic = \"{topic}\"\n")),
            "crore.toml:10: log.null_key_topic: ",
            "expected a topic",
        );
    }
    check(
        &with("tag_headers = [\"trace\", \"crore.n\"]\n"),
        "crore.toml:9: log.tag_headers: \"crore.n\" is a header of Crore",
        "crore.",
    );
}

#[test]
fn figures_of_a_node_need_a_log_of_its_own() {
    let figures = "[sys]\nmosquitto = true\n";
    assert!(faults(&format!("{figures}{LOG}")).is_empty());
    check(
        &format!("{figures}{}", &LOG[LOG.rfind("[[log]]").unwrap()..]),
        "crore.toml:4: sys.mosquitto: all logs are in the engine",
        "a log that is not in the engine",
    );
}

#[test]
fn only_a_topic_of_the_engine_is_compacted() {
    assert!(faults(&format!("{LOG}compact = true\n")).is_empty());
    check(
        &LOG.replacen("\"m\"\n", "\"m\"\ncompact = true\n", 1),
        "crore.toml:5: log.compact: only the topic of a log in the engine is compacted",
        "durability = \"engine\"",
    );
    let prefix = "topic_prefix = \"o/\"\npartitions_count = 1\n";
    check(
        &format!("{LOG}{prefix}null_key_topic = \"o/a\"\ncompact = true\n"),
        "crore.toml:10: log.null_key_topic: a compacted topic takes no messages without a key",
        "a log without compact",
    );
}

#[test]
fn topics_of_a_log_begin_with_its_prefix() {
    let with_prefix = format!("{LOG}topic_prefix = \"orders/\"\n");
    let rule =
        |filter: &str| format!("{with_prefix}[[rule]]\nfilter = \"{filter}\"\nlog = \"orders\"\n");
    assert!(faults(&rule("orders/#")).is_empty());
    assert!(faults(&rule("orders/eu/+")).is_empty());
    check(
        &rule("+/orders"),
        "crore.toml:10: rule.filter: \"+/orders\" has topics without the prefix \"orders/\"",
        "expected a filter that begins with \"orders/\"",
    );
    check(
        "[[log]]\nname = \"orders\"\ndurability = \"engine\"\ntopic_prefix = \"orders/\"\n",
        "crore.toml:6: log.topic_prefix: the first log has all topics without a rule",
        "another log before this one",
    );
    check(
        &format!("{LOG}topic_prefix = \"a/#\"\n"),
        "crore.toml:8: log.topic_prefix: ",
        "wildcards",
    );
}

#[test]
fn identity_is_complete() {
    let check = |text: &str, begins: &str| {
        let found = faults_of(&format!("[engine]\n{text}\n"));
        assert_eq!(found.lines().count(), 1, "{found}");
        assert!(found.starts_with(begins), "{found}");
    };
    check("username = \"a\"", "crore.toml:2: engine.username: engine.sasl_mechanism does not use");
    check(
        "sasl_mechanism = \"PLAIN\"\nusername = \"a\"",
        "crore.toml:2: engine.sasl_mechanism: engine.password_file is not set",
    );
    check("sasl_mechanism = \"GSSAPI\"", "crore.toml:2: engine.sasl_mechanism: \"GSSAPI\" is not");
    check("key_file = \"a\"", "crore.toml:2: engine.key_file: engine.certificate_file is not set");
    let no_source = "crore.toml:2: engine.sasl_mechanism: OAUTHBEARER has no source of tokens";
    check("sasl_mechanism = \"OAUTHBEARER\"", no_source);
    check(
        "oauth_token_file = \"a\"",
        "crore.toml:2: engine.oauth_token_file: engine.sasl_mechanism does not use it",
    );
    check("oauth_scope = \"a\"", "crore.toml:2: engine.oauth_scope: engine.oauth_url is not set");
    let server = "sasl_mechanism = \"OAUTHBEARER\"\noauth_client_id = \"a\"\n";
    check(
        &format!("{server}oauth_url = \"https://id.example/token\""),
        "crore.toml:4: engine.oauth_url: engine.oauth_client_secret_file is not set",
    );
    check(
        &format!(
            "{server}oauth_client_secret_file = \"s\"\noauth_url = \"http://id.example/token\""
        ),
        "crore.toml:5: engine.oauth_url: \"http://id.example/token\" is not a URL, or does not",
    );
}

#[test]
fn logs_in_the_engine_are_assembled() {
    let text = format!(
        "{BROKERS}tls = true\nca_file = \"ca.pem\"\nsasl_mechanism = \"SCRAM-SHA-512\"\nusername = \"u\"\n\
         password_file = \"p\"\nrack = \"eu\"\n{LOG}partitions_count = 8\ntopic = \"o.v1\"\n\
         topic_prefix = \"orders/\"\npartitioner = \"crc32\"\nallow_weak = true\n\
         tag_headers = [\"trace\"]\nstrip_schema_id = true\ncompact = true\n"
    );
    let mut faults = Vec::new();
    let mut configuration = Configuration::default();
    file::read(&Arc::new("crore.toml".into()), &text, &mut configuration, &mut faults);
    assert!(faults.is_empty(), "{faults:?}");
    let log = &assemble::settings(&configuration, 2).logs[1];
    assert_eq!((log.durability, log.partitioner), (Durability::Engine, Partitioner::Crc32));
    assert_eq!((&*log.topic_prefix, log.partitions_count), ("orders/", 8));
    assert!(log.retains_newest() && !assemble::settings(&configuration, 2).logs[0].is_compacted);
    let engine = assemble_engine::engine(&configuration).unwrap();
    assert_eq!(engine.servers, ["k1:9092", "k2:9092"]);
    let tls = EngineTls { ca_file: Some("ca.pem".into()), certificate_file: None, key_file: None };
    assert_eq!(engine.tls, Some(tls));
    let password = EnginePassword { username: "u".into(), file: "p".into() };
    assert_eq!(engine.login, Some(EngineLogin::ScramSha512(password)));
    assert_eq!(engine.rack, "eu");
    let log = EngineLog {
        log: 1,
        topic: "o.v1".into(),
        allow_weak: true,
        tag_headers: vec!["trace".into()],
        null_key_topic: None,
        strip_schema_id: true,
    };
    assert_eq!(engine.logs, [log]);
    assert!(assemble_engine::engine(&Configuration::default()).is_none());
}

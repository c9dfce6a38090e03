//! The configuration of a broker.

use crate::Addresses;
use crate::secured::Listener;
use std::path::Path;

/// The identity of all clusters of tests.
pub(crate) const CLUSTER_ID: &str = "Q3JvcmVUZXN0Q2x1c3Rlcg";

/// The broker's lines: warnings to its output.
pub(crate) const LOGGING: &str = "\
rootLogger.level = warn
rootLogger.appenderRef.out.ref = out
appender.out.type = Console
appender.out.name = out
appender.out.layout.type = PatternLayout
appender.out.layout.pattern = %d %p %c: %m%n
";

/// The properties of a broker, numbered from 1. `further` properties win.
pub(crate) fn of(
    number: u16,
    addresses: &[Addresses],
    folder: &Path,
    further: &[(String, String)],
) -> String {
    let Addresses { clients, controller, secured } = &addresses[usize::from(number) - 1];
    let voter = |(number, it): (usize, &Addresses)| format!("{number}@{}", it.controller);
    let secured = Listener::ALL.iter().zip(secured);
    let secured: String =
        secured.map(|(listener, address)| format!(",{}://{address}", listener.name())).collect();
    let voters: Vec<String> = (1..).zip(addresses).map(voter).collect();
    let copies = addresses.len().min(3);
    let in_sync = copies.div_ceil(2);
    let mut properties: Vec<(String, String)> = [
        ("process.roles", "broker,controller".to_owned()),
        ("node.id", number.to_string()),
        ("controller.quorum.voters", voters.join(",")),
        ("listeners", format!("PLAINTEXT://{clients},CONTROLLER://{controller}{secured}")),
        ("advertised.listeners", format!("PLAINTEXT://{clients}{secured}")),
        ("controller.listener.names", "CONTROLLER".to_owned()),
        ("inter.broker.listener.name", "PLAINTEXT".to_owned()),
        ("log.dirs", folder.join(number.to_string()).to_string_lossy().into_owned()),
        ("default.replication.factor", copies.to_string()),
        ("min.insync.replicas", in_sync.to_string()),
        ("offsets.topic.replication.factor", copies.to_string()),
        ("offsets.topic.num.partitions", "1".to_owned()),
        ("transaction.state.log.replication.factor", copies.to_string()),
        ("transaction.state.log.min.isr", in_sync.to_string()),
        ("transaction.state.log.num.partitions", "1".to_owned()),
        ("auto.create.topics.enable", "false".to_owned()),
        ("broker.session.timeout.ms", "3000".to_owned()),
        ("broker.heartbeat.interval.ms", "500".to_owned()),
        ("replica.lag.time.max.ms", "3000".to_owned()),
        ("replica.fetch.wait.max.ms", "200".to_owned()),
        ("controlled.shutdown.enable", "true".to_owned()),
        ("log.retention.check.interval.ms", "500".to_owned()),
        ("log.initial.task.delay.ms", "500".to_owned()),
        ("log.segment.delete.delay.ms", "100".to_owned()),
        ("file.delete.delay.ms", "100".to_owned()),
        ("num.network.threads", "1".to_owned()),
        ("num.io.threads", "2".to_owned()),
        ("num.recovery.threads.per.data.dir", "1".to_owned()),
        ("log.cleaner.threads", "1".to_owned()),
        ("log.cleaner.backoff.ms", "500".to_owned()),
        ("background.threads", "2".to_owned()),
    ]
    .into_iter()
    .map(|(name, value)| (name.to_owned(), value))
    .collect();
    for (name, value) in further {
        properties.retain(|(known, _)| known != name);
        properties.push((name.clone(), value.clone()));
    }
    let line = |(name, value): (String, String)| format!("{name}={value}\n");
    properties.into_iter().map(line).collect()
}

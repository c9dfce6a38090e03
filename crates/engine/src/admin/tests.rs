//! Descriptions of topics against settings, and reasons of brokers.

use super::*;
use crate::settings::{EngineLog, EnginePartition};
use broker::mail::{HomeId, PartitionId};
use stdx::hash::Partitioner;

#[test]
fn a_refusal_by_all_brokers_is_final() {
    let error = |code, text: &str| Event::Error {
        error: kafka::Error { code, text: text.to_owned() },
        is_fatal: false,
    };
    let line = |text: &str| Event::Line { level: 6, text: text.to_owned() };
    let mut problem = Problem::default();
    let closed = "FAIL: [thrd:h:1/bootstrap]: h:1/bootstrap: Disconnected (after 3ms in state X)";
    assert_eq!(problem.meet(line(closed)), Some("h:1/bootstrap: Disconnected".to_owned()));
    assert_eq!(problem.meet(line(closed)), None, "told already");
    assert_eq!(problem.meet(error(code::ALL_BROKERS_DOWN, "all")), None);
    assert!(!problem.is_final(), "a broker may come back");
    assert!(problem.meet(error(code::AUTHENTICATION, "h: no (after 2ms in state X)")).is_some());
    assert!(problem.is_final());
    assert_eq!(problem.last, Some("h: no".to_owned()));
    let mut problem = Problem::default();
    assert_eq!(problem.meet(error(code::TLS, "certificate verify failed")), None);
    assert_eq!(problem.meet(line("FAIL: [thrd:h]: h: certificate verify failed")), None);
    assert!(!problem.is_refusal);
}

#[test]
fn a_topic_that_brokers_do_not_know_yet_is_asked_for_again() {
    let (patience, none) = (Duration::from_secs(3_600), Duration::ZERO);
    let ask = |patience, known_at: u32| {
        let mut asked = 0;
        let answer = ask_while(
            |is_known: &bool| !is_known,
            (patience, none),
            || {
                asked += 1;
                Ok(asked == known_at)
            },
        );
        (answer.ok(), asked)
    };
    assert_eq!(ask(patience, 1), (Some(true), 1));
    assert_eq!(ask(patience, 3), (Some(true), 3));
    // It does not exist.
    assert_eq!(ask(none, 2), (Some(false), 1));
    let no_answer = || Err(EngineError("no broker".to_owned()));
    assert!(ask_while(|_: &()| true, (patience, none), no_answer).is_err());
}

#[test]
fn what_a_topic_lacks_is_named() {
    let (home, resume, mirrored) = (HomeId(0), None, None);
    let partition = |id| EnginePartition { id: PartitionId(id), home, resume, mirrored };
    let log = EngineLog {
        topic: "prices".to_owned(),
        topic_prefix: String::new(),
        partitioner: Partitioner::Murmur2,
        foreign: Default::default(),
        age_ms: None,
        bytes: None,
        once_ms: 300_000,
        is_compacted: false,
        partitions: vec![partition(0), partition(1)],
    };
    let settings = EngineSettings { logs: vec![log], ..EngineSettings::new("h:1") };
    let option = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    let good = Topic {
        name: "prices".to_owned(),
        fault: None,
        is_missing: false,
        topic_id: 1,
        partitions_count: 2,
        leaderless: 0,
        replicas: 3,
        in_sync: 3,
        options: vec![
            option("max.message.bytes", "2000000"),
            option("min.insync.replicas", "2"),
            option("unclean.leader.election.enable", "false"),
            option("retention.ms", "-1"),
            option("message.timestamp.type", "LogAppendTime"),
        ],
    };
    let check = |topic: Topic, expected: &[(bool, &str)]| {
        let lacks = lacks_of(&settings, topic);
        let found: Vec<_> =
            lacks.iter().map(|lack| (lack.may_be_allowed, lack.text.clone())).collect();
        assert_eq!(found.len(), expected.len(), "{found:?}");
        for ((allowed, text), (expected_allowed, part)) in found.iter().zip(expected) {
            assert!(allowed == expected_allowed && text.contains(part), "{text}");
        }
    };
    check(good.clone(), &[]);
    let weak = Topic {
        replicas: 1,
        options: vec![
            option("max.message.bytes", "1000"),
            option("min.insync.replicas", "1"),
            option("unclean.leader.election.enable", "true"),
            option("retention.ms", "600000"),
            option("message.timestamp.type", "CreateTime"),
        ],
        ..good.clone()
    };
    check(
        weak,
        &[
            (false, "max.message.bytes is 1000; at least 1114112"),
            (true, "1 copies"),
            (true, "min.insync.replicas is 1"),
            (true, "unclean"),
            (true, "retention.ms is 600000; a node that starts needs 900000"),
            (true, "LogAppendTime"),
        ],
    );
    check(Topic { partitions_count: 3, ..good.clone() }, &[(false, "has 3 partitions")]);
    let missing = Topic { fault: Some("?".to_owned()), is_missing: true, ..good };
    check(missing, &[(false, "does not exist")]);
}

fn lacks_of(settings: &EngineSettings, topic: Topic) -> Vec<Lack> {
    let topics = vec![topic];
    lacks(settings, &Description { cluster_id: "c".to_owned(), brokers_count: 3, topics })
}

/// The log's option and the topic's policy say the same, and the lag leaves time to read.
#[test]
fn a_compacted_topic_is_of_a_log_that_says_so() {
    let log = |is_compacted| EngineLog {
        topic: "prices".to_owned(),
        topic_prefix: String::new(),
        partitioner: Partitioner::Murmur2,
        foreign: Default::default(),
        age_ms: Some(3_600_000),
        bytes: None,
        once_ms: 300_000,
        is_compacted,
        partitions: Vec::new(),
    };
    let check = |is_compacted, options: &[(&str, &str)], expected: &[&str]| {
        let settings =
            EngineSettings { logs: vec![log(is_compacted)], ..EngineSettings::new("h:1") };
        let option = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        let topic = Topic {
            name: "prices".to_owned(),
            fault: None,
            is_missing: false,
            topic_id: 1,
            partitions_count: 0,
            leaderless: 0,
            replicas: 3,
            in_sync: 3,
            options: options.iter().map(option).collect(),
        };
        let lacks = lacks_of(&settings, topic);
        assert_eq!(lacks.len(), expected.len(), "{lacks:?}");
        for (lack, part) in lacks.iter().zip(expected) {
            assert!(!lack.may_be_allowed && lack.text.contains(part), "{lack}");
        }
    };
    let lag = |ms| [("cleanup.policy", "compact"), ("min.compaction.lag.ms", ms)];
    check(true, &lag("1200000"), &[]);
    check(true, &lag("1199999"), &["min.compaction.lag.ms is 1199999", "needs 1200000"][..1]);
    // Kafka's default.
    check(true, &lag("0"), &["needs 1200000 to recognise repetitions"]);
    check(true, &[("delete.retention.ms", "1000")], &["delete.retention.ms is 1000"]);
    check(true, &[("message.timestamp.type", "CreateTime")], &["LogAppendTime"]);
    // Its retention is of no account.
    check(true, &[("cleanup.policy", "compact"), ("retention.ms", "1")], &[]);
    check(true, &[("cleanup.policy", "delete")], &["the log has compact = true"]);
    check(true, &[("cleanup.policy", "compact,delete")], &["would vanish by age"]);
    check(false, &[("cleanup.policy", "compact")], &["without compact = true"]);
    check(false, &[("cleanup.policy", "delete, compact")], &["without compact = true"]);
    check(false, &[("cleanup.policy", "delete")], &[]);
    let created = |is_compacted| kept_options(&log(is_compacted));
    assert_eq!(
        created(true),
        [
            ("cleanup.policy", "compact".to_owned()),
            ("min.compaction.lag.ms", "4500000".to_owned()),
            ("segment.ms", "3600000".to_owned()),
        ]
    );
    assert_eq!(created(false)[1], ("retention.ms", "4200000".to_owned()));
}

#[test]
fn a_topic_keeps_records_by_age_alone_or_for_an_unknown_time() {
    let check = |time: &str, bytes: &str, expected: Option<u64>| {
        let options = [("retention.ms", time), ("retention.bytes", bytes)];
        let options = options.map(|(name, value)| (name.to_owned(), value.to_owned()));
        assert_eq!(kept_ms(&options, false), expected, "{time}, {bytes}");
    };
    check("600000", "-1", Some(600_000));
    check("-1", "-1", Some(u64::MAX));
    check("600000", "1048576", None);
    check("?", "-1", None);
    assert_eq!(kept_ms(&[], false), None);
    let lag = [("min.compaction.lag.ms".to_owned(), "1200000".to_owned())];
    assert_eq!((kept_ms(&lag, true), kept_ms(&[], true)), (Some(1_200_000), None));
}

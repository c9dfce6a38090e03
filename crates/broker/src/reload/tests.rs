//! Renewals by hand, and random ones against every topic.

use super::*;
use crate::limits::Limits;
use crate::mail::PartitionId;
use crate::settings::PublishSettings;
use stdx::prng::Prng;

fn log(name: &str, first_partition: u32) -> LogSettings {
    LogSettings {
        name: name.into(),
        partitions_count: 4,
        first_partition: PartitionId(first_partition),
        epoch: 7,
        log_bytes_max: 1 << 20,
        age_max_ms: 1_000,
        segment_bytes: 1 << 10,
        retained_bytes_max: 1 << 10,
        ..LogSettings::default()
    }
}

/// Rules by filter and log, of two logs `a` and `b`; the default rule has log 0.
fn settings(rules: &[(&str, u16)]) -> Settings {
    let mut settings = Settings {
        edges_count: 2,
        homes_count: 2,
        logs: vec![log("a", 0), log("b", 4)],
        rules: vec![RuleSettings::default()],
        node_name: "n".into(),
        ..Settings::default()
    };
    for (text, log) in rules {
        let number = settings.rules.len() as u16;
        settings.rule_filters.insert(Filter::parse(text).unwrap(), number);
        settings.rules.push(RuleSettings {
            filter: (*text).into(),
            log: *log,
            ..RuleSettings::default()
        });
    }
    settings
}

fn rule_of<'a>(settings: &'a Settings, topic: &str) -> &'a RuleSettings {
    &settings.rules[usize::from(settings.locate(topic).0)]
}

#[test]
fn rules_keep_their_numbers() {
    let running = settings(&[("x/#", 0), ("y", 0)]);
    let mut wanted = settings(&[("z", 0), ("y", 0)]);
    wanted.rules[2].history_messages_max = 5;
    let (renewed, waiting) = running.renewed(wanted);
    assert_eq!(waiting, []);
    assert_eq!(renewed.locate("x/1").0, 0);
    assert_eq!(renewed.locate("y").0, 2);
    assert_eq!(renewed.locate("z").0, 3);
    assert_eq!(renewed.rules[2].history_messages_max, 5);
    // Requests under way with the removed rule are still handled by it.
    assert_eq!(&*renewed.rule_of(1, || b"x/1").filter, "x/#");
    // A home that has not heard of the new rule yet.
    assert_eq!(&*running.rule_of(3, || b"y").filter, "y");
    assert_eq!(&*running.rule_of(3, || b"z").filter, "");

    // The rule comes back with its number, and its new content.
    let mut wanted = settings(&[("x/#", 0)]);
    wanted.rules[1].publishing = Some(Box::new(PublishSettings::default()));
    let (again, _) = renewed.renewed(wanted);
    assert_eq!(again.locate("x/1").0, 1);
    assert!(again.rules[1].publishing.is_some());
    assert_eq!((again.locate("y").0, again.rules.len()), (0, 4));
}

#[test]
fn rules_that_would_move_topics_wait() {
    use Wait::*;
    for (before, after, expected) in [
        (&[("x", 0)][..], &[("x", 1)][..], &[("x", Log)][..]),
        (&[], &[("x/#", 1)], &[("x/#", MovesTopics)]),
        (&[("x/#", 1)], &[], &[("x/#", KeepsTopics)]),
        (&[("x/#", 1)], &[("x/#", 1), ("x/y", 1)], &[]),
        (&[("x/#", 1)], &[("x/#", 1), ("x/y", 0)], &[("x/y", MovesTopics)]),
        (&[("x/#", 1), ("x/y", 1)], &[("x/#", 1)], &[]),
        (&[("x/#", 1), ("x/y", 0)], &[("x/#", 1)], &[("x/y", KeepsTopics)]),
        // The topics of `x/+` but for those of `x/y`, which is more specific.
        (&[("x/y", 1)], &[("x/y", 1), ("x/+", 0)], &[]),
        (&[("+/y", 1)], &[("+/y", 1), ("x/+", 0)], &[("x/+", MovesTopics)]),
        // New rules take over from removed ones.
        (&[("x/#", 1)], &[("x/+/#", 1)], &[("x/#", KeepsTopics)]),
        (&[("x/y", 1), ("x/z", 1), ("x/#", 1)], &[("x/#", 1)], &[]),
    ] {
        let (renewed, waiting) = settings(before).renewed(settings(after));
        let waiting: Vec<(&str, Wait)> =
            waiting.iter().map(|waiting| (&*waiting.filter, waiting.wait)).collect();
        assert_eq!(waiting, expected, "{before:?} {after:?}");
        for topic in ["x", "x/y", "x/z", "x/y/z", "y", "y/y"] {
            let (before, after) = (settings(before), &renewed);
            assert_eq!(before.locate(topic).1, after.locate(topic).1, "{topic}");
        }
    }
}

#[test]
fn logs_are_found_by_name_and_stay() {
    let running = settings(&[("x/#", 1)]);
    let mut wanted = settings(&[("x/#", 1), ("n", 2)]);
    wanted.logs = vec![log("b", 0), log("a", 4), log("c", 8)];
    wanted.logs[0].retained_bytes_max = 5;
    wanted.logs[1].partitions_count = 9;
    wanted.rules[0].log = 1;
    wanted.rules[1].log = 0;
    let (renewed, waiting) = running.renewed(wanted);
    let expected = Waiting { filter: "n".into(), wait: Wait::NewLog };
    assert_eq!(waiting, [expected]);
    assert_eq!((renewed.rules[0].log, renewed.rules[1].log), (0, 1));
    let logs: Vec<(&str, u32, u64)> = renewed
        .logs
        .iter()
        .map(|log| (log.name.as_str(), log.partitions_count, log.retained_bytes_max))
        .collect();
    assert_eq!(logs, [("a", 4, 1 << 10), ("b", 4, 5)]);
}

#[test]
fn fixed_settings_stay() {
    let running = settings(&[]);
    let mut wanted = settings(&[]);
    wanted.edges_count = 9;
    wanted.homes_count = 9;
    wanted.node_name = "other".into();
    wanted.limits.ring_bytes = 1;
    wanted.limits.topics_max = 1;
    wanted.allowed_origins = vec!["*".into()];
    let (renewed, _) = running.renewed(wanted);
    assert_eq!((renewed.edges_count, renewed.homes_count), (2, 2));
    assert_eq!(renewed.node_name, "n");
    assert_eq!(renewed.limits.ring_bytes, Limits::default().ring_bytes);
    assert_eq!(renewed.limits.topics_max, 1);
    assert_eq!(renewed.allowed_origins, ["*"]);
}

#[test]
fn numbers_are_given_again_only_when_all_have_been_given() {
    let mut running = settings(&[("kept", 0)]);
    while running.rules.len() < RULES_MAX {
        let filter = format!("gone/{}", running.rules.len());
        running.rules.push(RuleSettings { filter: filter.into(), ..RuleSettings::default() });
    }
    let (renewed, waiting) = running.renewed(settings(&[("kept", 0), ("new", 0)]));
    assert_eq!(waiting, []);
    assert_eq!((renewed.locate("kept").0, renewed.locate("new").0), (1, 2));
    assert_eq!(renewed.rules.len(), RULES_MAX);
}

/// No sequence of renewals moves a topic; and where all rules have one log, everything that is
/// wanted is in force.
#[test]
fn random_renewals_move_no_topic() {
    let levels = ["x", "y", "+"];
    let mut random = Prng::new(11);
    let mut draw = |logs: u64| {
        let rules: Vec<(String, u16)> = (0..random.below(7))
            .map(|_| {
                let count = random.between(1, 3);
                let mut level = || levels[random.below(3) as usize];
                let mut path: Vec<&str> = (0..count).map(|_| level()).collect();
                if random.chance(0.3) {
                    path.push("#");
                }
                (path.join("/"), random.below(logs) as u16)
            })
            .collect();
        let mut unique: Vec<(&str, u16)> = Vec::new();
        for (filter, log) in &rules {
            if !unique.iter().any(|(other, _)| other == filter) {
                unique.push((filter, *log));
            }
        }
        let mut settings = settings(&unique);
        for rule in &mut settings.rules {
            rule.history_messages_max = random.below(1_000) as u32;
        }
        settings
    };
    let names = ["x", "y", "z"];
    let mut topics: Vec<String> = names.map(String::from).into();
    for first in names {
        for second in names {
            topics.push(format!("{first}/{second}"));
            topics.extend(names.map(|third| format!("{first}/{second}/{third}")));
        }
    }
    for logs in [1, 2] {
        for _ in 0..300 {
            let first = draw(logs);
            let mut running = first.clone();
            for _ in 0..4 {
                let wanted = draw(logs);
                let (renewed, waiting) = running.renewed(wanted.clone());
                for topic in &topics {
                    assert_eq!(first.locate(topic).1, renewed.locate(topic).1, "{topic}");
                    if logs == 1 {
                        assert_eq!(rule_of(&renewed, topic), rule_of(&wanted, topic), "{topic}");
                    }
                }
                assert!(logs == 2 || waiting.is_empty(), "{waiting:?}");
                running = renewed;
            }
        }
    }
}

//! Settings of a node: defaults, logs, rules, tickets, addresses.

use super::super::*;
use super::sources;
use broker::settings::{LagPolicy, Limits};

#[test]
fn defaults_are_those_of_the_broker() {
    let options = assemble::node_options(&Configuration::default(), 4);
    assert_eq!(format!("{:?}", options.settings.limits), format!("{:?}", Limits::default()));
    assert_eq!((options.settings.edges_count, options.settings.homes_count), (4, 4));
    assert_eq!(options.settings.logs.len(), 1);
    assert_eq!(options.settings.rules.len(), 1);
    assert_eq!(options.settings.rules[0].history_messages_max, 1_000);
    assert_eq!(options.settings.rules[0].publishing, None);
    assert_eq!(options.settings.logs[0].log_bytes_max, 256 << 20);
    assert_eq!(options.settings.logs[0].age_max_ms, 180_000);
    assert_eq!(options.listen, ["127.0.0.1:8800".parse().unwrap()]);
}

/// A log on disk is limited by bytes alone unless an age is set. Rules without an age of their own
/// follow their log.
#[test]
fn the_age_of_a_log_depends_on_where_it_is() {
    let text = "[node]\ndata_dir = \"state\"\n[[log]]\nname = \"m\"\n[[log]]\nname = \"d\"\ndurability = \"disk\"\n\
                [[log]]\nname = \"w\"\ndurability = \"disk\"\nage_max = \"7d\"\n[[rule]]\nfilter = \"d/#\"\nlog = \"d\"\n\
                [[rule]]\nfilter = \"w/#\"\nlog = \"w\"\n";
    let configuration = load_text(Path::new("crore.toml"), text).unwrap();
    let settings = assemble::node_options(&configuration, 4).settings;
    let ages: Vec<u64> = settings.logs.iter().map(|log| log.age_max_ms).collect();
    assert_eq!(ages, [180_000, u64::MAX, 7 * 86_400_000]);
    let served: Vec<u64> = settings.rules.iter().map(|rule| rule.history_age_max_ms).collect();
    assert_eq!(served, [u64::MAX; 3], "by no clock: as long as the log keeps them");
}

#[test]
fn logs_and_rules_are_assembled() {
    let text = "[node]\nio_threads = 6\nhome_shards_count = 2\n\
                [[log]]\nname = \"a\"\npartitions_count = 8\n[[log]]\nname = \"b\"\npartitions_count = 16\n\
                [[rule]]\nfilter = \"x/#\"\nlog = \"b\"\nhistory_messages_max = 0\nwhen_lagging = \"conflate\"\nhistory_age_max = \"5s\"\n";
    let configuration = load_text(Path::new("crore.toml"), text).unwrap();
    let options = assemble::node_options(&configuration, 4);
    let settings = &options.settings;
    assert_eq!((settings.edges_count, settings.homes_count), (6, 2));
    assert_eq!(settings.logs.iter().map(|log| log.first_partition.0).collect::<Vec<_>>(), [0, 8]);
    assert_ne!(settings.logs[0].epoch, settings.logs[1].epoch);
    assert_eq!(settings.rule_filters.most_specific("x/y"), Some(&1));
    assert_eq!(settings.rule_filters.most_specific("y"), None);
    let rule = &settings.rules[1];
    assert_eq!((rule.log, rule.history_messages_max, rule.history_age_max_ms), (1, 0, 5_000));
    assert_eq!(rule.when_lagging, LagPolicy::Conflate);
    assert_eq!((&*rule.filter, &rule.publishing), ("x/#", &None));
    assert_eq!(settings.rules[0].when_lagging, LagPolicy::Replay);
}

#[test]
fn segments_of_a_log_on_disk_grow_with_it() {
    let segment_bytes = |rest: &str| {
        let text = format!("[node]\ndata_dir = \"state\"\n[[log]]\nname = \"a\"\n{rest}");
        let configuration = load_text(Path::new("crore.toml"), &text).unwrap();
        let options = assemble::node_options(&configuration, 1);
        options.settings.logs[0].segment_bytes >> 20
    };
    assert_eq!(segment_bytes("bytes_max = \"10GiB\"\n"), 2); // in memory
    let disk = |rest: &str| segment_bytes(&format!("durability = \"disk\"\n{rest}"));
    assert_eq!(disk("bytes_max = \"16MiB\"\n"), 2);
    assert_eq!(disk(""), 8);
    assert_eq!(disk("bytes_max = \"1GiB\"\n"), 32);
    assert_eq!(disk("bytes_max = \"10GiB\"\n"), 64);
    assert_eq!(disk("bytes_max = \"10GiB\"\nsegment_bytes = \"2MiB\"\n"), 2);
}

#[test]
fn tickets() {
    let text = format!(
        "[tickets]\nkeys = [\"{}\", \"{}\"]\nlifetime = \"90s\"\nrevoked_before = \"1970-01-01T00:01:00Z\"\n",
        "0a".repeat(32),
        "0B".repeat(32)
    );
    let configuration = load_text(Path::new("crore.toml"), &text).unwrap();
    let tickets = assemble::node_options(&configuration, 1).settings.tickets;
    let secrets: Vec<[u8; 32]> = tickets.keys.iter().map(|key| key.secret).collect();
    assert_eq!(secrets, [[10; 32], [11; 32]]);
    assert_eq!((tickets.lifetime_ms, tickets.not_before_ms), (90_000, 60_000));
    let shown = document::in_force(&configuration);
    assert!(shown.contains("\"<secret ") && !shown.contains("0a0a"), "{shown}");

    let configuration = load_text(Path::new("crore.toml"), "").unwrap();
    let tickets = assemble::node_options(&configuration, 1).settings.tickets;
    assert_eq!((tickets.keys, tickets.lifetime_ms), (vec![], 86_400_000));
}

#[test]
fn open_listens_everywhere_unless_told_where() {
    for (flags, expected) in [
        (&[("listen.open", "true")][..], "0.0.0.0:8800"),
        (&[("listen.open", "true"), ("listen.clients", "10.1.2.3:80")][..], "10.1.2.3:80"),
        (&[][..], "127.0.0.1:8800"),
    ] {
        let configuration = load(&sources(&[], flags)).unwrap();
        let addresses = assemble::client_addresses(&configuration);
        assert_eq!(addresses, [expected.parse().unwrap()], "{flags:?}");
    }
}

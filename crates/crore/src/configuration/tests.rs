//! Every row of errors: file, line, key, nearest name, expectation. And that defaults agree wherever they are stated.

use super::*;
use broker::settings::{LagPolicy, Limits};

fn faults_of(text: &str) -> String {
    match load_text(Path::new("crore.toml"), text) {
        Ok(_) => String::new(),
        Err(faults) => faults.to_string(),
    }
}

/// The one fault of a file begins and ends like this.
fn check(text: &str, begins: &str, contains: &str) {
    let found = faults_of(text);
    assert_eq!(found.lines().count(), 1, "{text}\n{found}");
    assert!(found.starts_with(begins), "{text}\n{found}\n{begins}");
    assert!(found.contains(contains), "{text}\n{found}\n{contains}");
}

#[test]
fn unknown_keys() {
    check(
        "[limits]\ntopic_max = 5\n",
        "crore.toml:2: limits.topic_max: unknown key, did you mean limits.topics_max?",
        "expected a key of [limits]: connections_max, topics_max,",
    );
    check(
        "\n\n[node]\nname = \"x\"\ntopics_max = 5\n",
        "crore.toml:5: node.topics_max: unknown key, did you mean limits.topics_max?",
        "expected a key of [node]: name, io_threads",
    );
    check(
        "[limit]\ntopics_max = 5\n",
        "crore.toml:1: limit: unknown key, did you mean limits?",
        "expected a section: node, listen,",
    );
    check(
        "io_threads = 2\n",
        "crore.toml:1: io_threads: unknown key, did you mean node.io_threads?",
        "",
    );
    check(
        "[node]\nxyzzy = 1\n",
        "crore.toml:2: node.xyzzy: unknown key; expected a key of [node]",
        "",
    );
    check(
        "[[log]]\nname = \"a\"\nparition_count = 5\n",
        "crore.toml:3: log.parition_count: unknown key, did you mean partitions_count?",
        "expected a key of [[log]]: name, durability",
    );
    check(
        "[[rule]]\nfilter = \"a\"\nhistory_max = 5\n",
        "crore.toml:3: rule.history_max: unknown key",
        "expected a key of [[rule]]: filter",
    );
}

#[test]
fn bad_values() {
    for (line, expected) in [
        ("io_threads = 0", "an integer from 1 to 1024 or \"auto\""),
        (
            "io_threads = \"many\"",
            "an integer from 1 to 1024 or \"auto\"",
        ),
        ("io_threads = 1.5", "an integer from 1 to 1024 or \"auto\""),
        (
            "io_threads = 99999999999999999999999999999999999999999",
            "an integer from 1 to 1024",
        ),
        ("private_tables = \"yes\"", "true or false"),
        (
            "drain_window = 5",
            "a duration from 0s to 1d in whole seconds, such as \"25s\"",
        ),
        (
            "drain_window = \"1500ms\"",
            "a duration from 0s to 1d in whole seconds",
        ),
        ("name = \"\"", "a text of 1 to 64 bytes"),
        ("name = 1979-05-27", "a text of 1 to 64 bytes"),
    ] {
        let name = line.split(' ').next().unwrap();
        let begins = format!("crore.toml:2: node.{name}: ");
        check(
            &format!("[node]\n{line}\n"),
            &begins,
            &format!("is not a valid value; expected {expected}"),
        );
    }
    check(
        "[listen]\nsocket_send_bytes = \"32kb\"\n",
        "crore.toml:2: listen.socket_send_bytes: \"32kb\" is not a valid value",
        "expected a size from 4KiB to 16MiB, such as \"64KiB\"",
    );
    check(
        "[listen]\nclients = [\"127.0.0.1:1\", \"localhost:80\"]\n",
        "crore.toml:2: listen.clients: [\"127.0.0.1:1\", \"localhost:80\"] is not a valid value",
        "expected an address such as",
    );
    check(
        "[logging]\nformat = \"xml\"\n",
        "crore.toml:2: logging.format: \"xml\" is not a valid value",
        "expected \"text\" or \"json\"",
    );
    check(
        "[http]\nallowed_origins = [\"example.com\"]\n",
        "crore.toml:2: http.allowed_origins: ",
        "expected a list of origins",
    );
    check(
        "[[rule]]\nfilter = \"a/#/b\"\n",
        "crore.toml:2: rule.filter: \"a/#/b\" is not a valid value; expected a topic filter",
        "",
    );
}

#[test]
fn shape_of_the_file() {
    check(
        "node = 5\n",
        "crore.toml:1: node: 5 is not a section; expected [node]",
        "",
    );
    check(
        "log = 5\n",
        "crore.toml:1: log: 5 is not an array of tables; expected [[log]]",
        "",
    );
    check(
        "[log]\nname = \"a\"\n",
        "crore.toml:1: log: a table is not an array of tables",
        "",
    );
    check(
        "rule = [5]\n",
        "crore.toml:1: rule: 5 is not a table; expected [[rule]]",
        "",
    );
    check("[node]\nname = \n", "crore.toml:2: not TOML: ", "");
    check(
        "[node]\nname = \"a\"\nname = \"b\"\n",
        "crore.toml:3: not TOML: ",
        "duplicate key",
    );
    check("log = []\n", "default: log: there is no log", "");
}

#[test]
fn relations_between_options() {
    check(
        "[limits]\nmessage_bytes_max = \"2MiB\"\n[[log]]\nsegment_bytes = \"4MiB\"\n",
        "crore.toml:2: websocket.frame_bytes_max: \"2MiB\" is too small for limits.message_bytes_max = \"2MiB\"",
        "expected at least 2105344 bytes",
    );
    check(
        "[node]\nio_threads = 2\nhome_shards_count = 4\n",
        "crore.toml:3: node.home_shards_count: 4 is more than node.io_threads = 2",
        "expected at most node.io_threads",
    );
    check(
        "[listen]\nclients = \"0.0.0.0:8800\"\n",
        "crore.toml:2: listen.clients: 0.0.0.0:8800 can be reached from outside",
        "--open (listen.open = true)",
    );
    check(
        "[listen]\nclients = []\n",
        "crore.toml:2: listen.clients: there is no address",
        "",
    );
    check(
        "[[log]]\nname = \"a\"\ndurability = \"disk\"\n",
        "crore.toml:3: log.durability: a log on disk needs a directory, and node.data_dir is not given",
        "node.data_dir (or --data-dir)",
    );
    check(
        "[node]\ndata_dir = \"d\"\n[[log]]\nname = \"../a\"\ndurability = \"disk\"\n",
        "crore.toml:4: log.name: \"../a\" of a log on disk is the name of its directory",
        "letters, digits",
    );
    check(
        "[[log]]\nname = \"a\"\n[[log]]\nname = \"a\"\n",
        "crore.toml:4: log.name: \"a\" is already the log of crore.toml:2",
        "",
    );
    check(
        "[[log]]\nsegment_bytes = \"64KiB\"\n",
        "crore.toml:2: log.segment_bytes: 65536 bytes cannot hold one message",
        "",
    );
    check(
        "[[log]]\nbytes_max = \"3MiB\"\n",
        "crore.toml:2: log.bytes_max: ",
        "two segments",
    );
    check(
        "[[rule]]\nlog = \"memory\"\n",
        "crore.toml:1: rule.filter: the rule has no filter",
        "",
    );
    check(
        "[[rule]]\nfilter = \"a\"\nlog = \"disk\"\n",
        "crore.toml:3: rule.log: there is no log \"disk\"; expected one of: memory",
        "",
    );
    check(
        "[[rule]]\nfilter = \"a\"\n[[rule]]\nfilter = \"a\"\n",
        "crore.toml:4: rule.filter: \"a\" already has the rule of crore.toml:2",
        "",
    );
    check(
        "[[rule]]\nfilter = \"a\"\nmessage_bytes_max = \"2MiB\"\n",
        "crore.toml:3: rule.message_bytes_max: more than limits.message_bytes_max",
        "",
    );
}

#[test]
fn all_faults_are_told_at_once() {
    let found = faults_of("[node]\nname = 5\nxyzzy = 1\n[limits]\ntopics_max = 0\n");
    assert_eq!(found.lines().count(), 3, "{found}");
}

fn sources(variables: &[(&str, &str)], flags: &[(&str, &str)]) -> Sources {
    Sources {
        file: None,
        variables: variables
            .iter()
            .map(|(a, b)| ((*a).into(), (*b).into()))
            .collect(),
        flags: flags
            .iter()
            .map(|(a, b)| ("--set", (*a).into(), (*b).into()))
            .collect(),
    }
}

#[test]
fn precedence() {
    let folder = std::env::temp_dir().join(format!("crore-precedence-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let file = folder.join("crore.toml");
    std::fs::write(
        &file,
        "[node]\nname = \"file\"\nio_threads = 3\n[limits]\ntopics_max = 7\n",
    )
    .unwrap();
    let mut all = sources(
        &[
            ("CRORE_NODE_NAME", "variable"),
            ("CRORE_NODE_IO_THREADS", "4"),
            ("PATH", "/bin"),
        ],
        &[("node.name", "flag")],
    );
    all.file = Some(file);
    let configuration = load(&all).unwrap();
    std::fs::remove_dir_all(&folder).unwrap();
    assert_eq!(configuration.text("node.name"), "flag");
    assert_eq!(configuration.number("node.io_threads"), Some(4));
    assert_eq!(configuration.number("limits.topics_max"), Some(7));
    assert!(matches!(
        configuration.get("limits.topics_max").1,
        Origin::File(_, 5)
    ));
}

#[test]
fn variables_and_flags() {
    for (name, text, expected) in [
        (
            "CRORE_NODE_IO_THREADS",
            "0",
            "environment CRORE_NODE_IO_THREADS: node.io_threads: 0 is not a valid value",
        ),
        (
            "CRORE_NODE_IO_THREAD",
            "1",
            "environment CRORE_NODE_IO_THREAD: unknown variable, did you mean CRORE_NODE_IO_THREADS?",
        ),
        ("CRORE_LOG", "x", "environment CRORE_LOG: unknown variable"),
    ] {
        let found = load(&sources(&[(name, text)], &[]))
            .unwrap_err()
            .to_string();
        assert!(found.starts_with(expected), "{found}");
    }
    for name in [
        "CRORE_SERVICE_HOST",
        "CRORE_SERVICE_PORT",
        "CRORE_SERVICE_PORT_CLIENTS",
        "CRORE_PORT",
        "CRORE_PORT_8800_TCP_ADDR",
        "CRORE_NODE_SERVICE_HOST",
        "CRORE_NODE_PORT",
        "CRORE_NODE_PORT_8800_TCP",
        "CRORE_CONFIG",
        "CRORE_URL",
    ] {
        assert!(
            load(&sources(&[(name, "tcp://10.0.0.1:8800")], &[])).is_ok(),
            "{name}"
        );
    }
    let found = load(&sources(&[], &[("limits.topic_max", "1")]))
        .unwrap_err()
        .to_string();
    assert!(
        found.starts_with(
            "flag --set: limits.topic_max: unknown key, did you mean limits.topics_max?"
        ),
        "{found}"
    );
    let missing = Sources {
        file: Some("no-such-file.toml".into()),
        ..Sources::default()
    };
    let found = load(&missing).unwrap_err().to_string();
    assert!(
        found.starts_with("flag --config: no-such-file.toml cannot be read: "),
        "{found}"
    );
}

/// A file with this text, and what is read from it as the value of `CRORE_{name}_FILE`.
fn from_file(name: &str, text: &[u8]) -> Result<Configuration, Faults> {
    static COUNT: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
    let number = COUNT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    let file = std::env::temp_dir().join(format!("crore-value-{}-{number}", std::process::id()));
    std::fs::write(&file, text).unwrap();
    let path = file.display().to_string();
    let read = load(&sources(&[(&format!("CRORE_{name}_FILE"), &path)], &[]));
    std::fs::remove_file(&file).unwrap();
    read
}

#[test]
fn values_from_files() {
    for (text, name) in [("n", "n"), ("n\n", "n"), ("n\r\n", "n"), (" n \n\n", " n ")] {
        let configuration = from_file("NODE_NAME", text.as_bytes()).unwrap();
        assert_eq!(configuration.text("node.name"), name, "{text:?}");
        let origin = &configuration.get("node.name").1;
        assert_eq!(origin.to_string(), "environment CRORE_NODE_NAME_FILE");
    }
    let lines = format!("{}\n\n{}\n", "1".repeat(64), "2".repeat(64));
    let configuration = from_file("TICKETS_KEYS", lines.as_bytes()).unwrap();
    assert!(matches!(&configuration.get("tickets.keys").0, Value::Keys(keys) if keys.len() == 2));
    // This one is an option itself.
    let variables = [
        ("CRORE_TLS_KEY_FILE", "k.pem"),
        ("CRORE_TLS_CERTIFICATE_FILE", "c.pem"),
    ];
    let configuration = load(&sources(&variables, &[])).unwrap();
    assert!(matches!(&configuration.get("tls.key_file").0, Value::Text(path) if path == "k.pem"));
}

#[test]
fn faults_of_files_tell_no_secret() {
    for (name, text) in [
        ("TICKETS_KEYS", &b"0123456789abcdef"[..]),
        ("LIMITS_TOPICS_MAX", b"0123456789abcdef"),
        ("NODE_NAME", b"0123456789abcdef\xff"),
        ("NODE_NAME", &[b'a'; (1 << 20) + 1]),
        ("NODE_NAME", b""),
    ] {
        let found = from_file(name, text).unwrap_err().to_string();
        let origin = format!("environment CRORE_{name}_FILE: ");
        assert!(found.starts_with(&origin), "{found}");
        assert!(found.contains("crore-value-"), "{found}");
        assert!(!found.contains("0123") && !found.contains("aaa"), "{found}");
    }
    let missing = sources(&[("CRORE_NODE_NAME_FILE", "/no/such/file")], &[]);
    let found = load(&missing).unwrap_err().to_string();
    assert!(
        found.contains("node.name: /no/such/file cannot be read: "),
        "{found}"
    );
    let both = sources(
        &[("CRORE_NODE_NAME_FILE", "/x"), ("CRORE_NODE_NAME", "n")],
        &[],
    );
    let found = load(&both).unwrap_err().to_string();
    assert!(
        found.contains("CRORE_NODE_NAME: node.name: CRORE_NODE_NAME_FILE is given, too"),
        "{found}"
    );
    let unknown = sources(&[("CRORE_NODE_NAMES_FILE", "/x")], &[]);
    let found = load(&unknown).unwrap_err().to_string();
    assert!(found.contains("unknown variable"), "{found}");
}

#[test]
fn what_governs_a_topic_is_explained() {
    let text = "[limits]\nmessage_bytes_max = \"512KiB\"\n[[log]]\nname = \"m\"\n\
                [[rule]]\nfilter = \"a/#\"\npublishers = \"none\"\n[[rule]]\nfilter = \"a/+\"\nhistory_messages_max = 5\n";
    let configuration = load_text(Path::new("crore.toml"), text).unwrap();
    let told = |name: &str| explain::explain(&configuration, name).unwrap();
    assert_eq!(
        told("a/b"),
        "# topic \"a/b\": the rule of crore.toml:8\n\
         # less specific: \"a/#\" of crore.toml:5\n\
         filter = \"a/+\" # crore.toml:9\n\
         log = \"m\" # default: the first log\n\
         history_messages_max = 5 # crore.toml:10\n\
         history_age_max = \"180s\" # default: auto, as long as log \"m\" keeps them\n\
         message_bytes_max = \"512KiB\" # default: auto, limits.message_bytes_max of crore.toml:2\n\
         when_lagging = \"replay\" # default\n\
         publishers = \"all\" # default\n\
         publish_from = [] # default\n\
         publish_rate_max = 0 # default\n\
         retained = true # default\n"
    );
    assert!(told("a/#").starts_with("# filter \"a/#\": the rule of crore.toml:5\n"));
    assert!(told("b").starts_with("# topic \"b\": no rule; defaults hold\nlog = \"m\""));
    assert!(explain::explain(&configuration, "a#").is_err());
}

#[test]
fn help_to_some() {
    for (name, lines) in [
        (
            "limits.topics_max",
            &[
                "limits.topics_max",
                "environment  CRORE_LIMITS_TOPICS_MAX, or",
                "needs a reload",
            ][..],
        ),
        (
            "limits",
            &["[limits]", "limits.ring_bytes", "limits.topics_max"],
        ),
        ("[[rule]]", &["[[rule]]", "rule.filter", "rule.publishers"]),
        ("log.age_max", &["log.age_max", "needs a restart"]),
    ] {
        let text = document::help_of(name).unwrap();
        for line in lines {
            assert!(text.contains(line), "{line}\n{text}");
        }
    }
    let refused = document::help_of("limits.topic_max").unwrap_err();
    assert_eq!(
        refused,
        "there is no section or option \"limits.topic_max\", did you mean limits.topics_max?"
    );
    let help = document::help_of_options();
    for (section, _) in super::options::SECTIONS {
        assert!(help.contains(&format!("\n  {section} ")), "{help}");
    }
}

#[test]
fn what_is_in_force_as_json() {
    let text = format!(
        "[tickets]\nkeys = [\"{}\"]\n[limits]\ntopics_max = 7\n[[rule]]\nfilter = \"a\"\n",
        "1".repeat(64)
    );
    let configuration = load_text(Path::new("crore.toml"), &text).unwrap();
    let json = document::as_json(&configuration);
    assert_eq!(json["limits"]["topics_max"]["value"], 7);
    assert_eq!(json["limits"]["topics_max"]["origin"], "crore.toml:4");
    assert_eq!(json["limits"]["ring_bytes"]["value"], "4MiB");
    assert_eq!(json["listen"]["clients"]["value"][0], "127.0.0.1:8800");
    assert_eq!(json["rule"][0]["filter"]["value"], "a");
    assert_eq!(json["log"][0]["name"]["origin"], "default");
    let shown = json.to_string();
    assert!(
        shown.contains("<secret ") && !shown.contains("1111"),
        "{shown}"
    );
}

#[test]
fn the_committed_page_is_the_generated_one() {
    let committed = include_str!("../../../../docs/configuration.md");
    assert!(
        committed == document::reference(),
        "run `crore config doc > docs/configuration.md`"
    );
}

#[test]
fn defaults_are_those_of_the_broker() {
    let options = assemble::node_options(&Configuration::default(), 4);
    assert_eq!(
        format!("{:?}", options.settings.limits),
        format!("{:?}", Limits::default())
    );
    assert_eq!(
        (options.settings.edges_count, options.settings.homes_count),
        (4, 4)
    );
    assert_eq!(options.settings.logs.len(), 1);
    assert_eq!(options.settings.rules.len(), 1);
    assert_eq!(options.settings.rules[0].history_messages_max, 1_000);
    assert_eq!(options.settings.rules[0].publishing, None);
    assert_eq!(options.settings.logs[0].log_bytes_max, 256 << 20);
    assert_eq!(options.settings.logs[0].age_max_ms, 180_000);
    assert_eq!(options.listen, ["127.0.0.1:8800".parse().unwrap()]);
}

/// A log on disk forgets by bytes alone, unless it is told an age; rules without an age of their own follow their log.
#[test]
fn the_age_of_a_log_depends_on_where_it_is() {
    let text = "[node]\ndata_dir = \"state\"\n[[log]]\nname = \"m\"\n[[log]]\nname = \"d\"\ndurability = \"disk\"\n\
                [[log]]\nname = \"w\"\ndurability = \"disk\"\nage_max = \"7d\"\n[[rule]]\nfilter = \"d/#\"\nlog = \"d\"\n";
    let configuration = load_text(Path::new("crore.toml"), text).unwrap();
    let settings = assemble::node_options(&configuration, 4).settings;
    let ages: Vec<u64> = settings.logs.iter().map(|log| log.age_max_ms).collect();
    assert_eq!(ages, [180_000, u64::MAX, 7 * 86_400_000]);
    assert_eq!(settings.rules[0].history_age_max_ms, 180_000);
    assert_eq!(settings.rules[1].history_age_max_ms, u64::MAX);
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
    assert_eq!(
        settings
            .logs
            .iter()
            .map(|log| log.first_partition)
            .collect::<Vec<_>>(),
        [0, 8]
    );
    assert_ne!(settings.logs[0].epoch, settings.logs[1].epoch);
    assert_eq!(settings.rule_filters.most_specific("x/y"), Some(&1));
    assert_eq!(settings.rule_filters.most_specific("y"), None);
    let rule = &settings.rules[1];
    assert_eq!(
        (rule.log, rule.history_messages_max, rule.history_age_max_ms),
        (1, 0, 5_000)
    );
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
    assert_eq!(
        (tickets.lifetime_ms, tickets.not_before_ms),
        (90_000, 60_000)
    );
    let shown = document::in_force(&configuration);
    assert!(
        shown.contains("\"<secret ") && !shown.contains("0a0a"),
        "{shown}"
    );

    let configuration = load_text(Path::new("crore.toml"), "").unwrap();
    let tickets = assemble::node_options(&configuration, 1).settings.tickets;
    assert_eq!((tickets.keys, tickets.lifetime_ms), (vec![], 86_400_000));
}

#[test]
fn open_listens_everywhere_unless_told_where() {
    for (flags, expected) in [
        (&[("listen.open", "true")][..], "0.0.0.0:8800"),
        (
            &[("listen.open", "true"), ("listen.clients", "10.1.2.3:80")][..],
            "10.1.2.3:80",
        ),
        (&[][..], "127.0.0.1:8800"),
    ] {
        let configuration = load(&sources(&[], flags)).unwrap();
        let addresses = assemble::client_addresses(&configuration);
        assert_eq!(addresses, [expected.parse().unwrap()], "{flags:?}");
    }
}

#[test]
fn the_committed_file_is_the_generated_one() {
    let committed = include_str!("../../../../crore.toml");
    assert!(
        committed == document::default_file(),
        "run `crore config default > crore.toml`"
    );
}

#[test]
fn the_default_file_and_what_is_in_force_read_back() {
    let path = Path::new("crore.toml");
    let defaults = format!("{:?}", assemble_without_chance(&Configuration::default()));
    let commented = load_text(path, &document::default_file()).unwrap();
    assert_eq!(
        format!("{:?}", assemble_without_chance(&commented)),
        defaults
    );
    // With every line uncommented, help aside.
    let uncommented: String = document::default_file()
        .lines()
        .map(|line| match line.strip_prefix("# ") {
            Some(rest) if rest.starts_with("[[") || is_assignment(rest) => format!("{rest}\n"),
            _ => format!("{line}\n"),
        })
        // A key for tokens is one of several kinds, and is there for somebody who asks.
        .filter(|line| !line.starts_with("secret"))
        .map(|line| line.replace("mode = \"open\"", "mode = \"tokens\""))
        .collect();
    let all = load_text(path, &uncommented).unwrap();
    assert_eq!(all.rules.len(), 1);
    let changed = ["entitlement.mode", "entitlement.secret"];
    for spec in OPTIONS.iter().filter(|spec| !changed.contains(&spec.key)) {
        let default = Configuration::default();
        // Without a default an example stands in the file.
        let expected = default.given(spec.key).unwrap_or(all.get(spec.key));
        assert_eq!(all.get(spec.key).0, expected.0, "{}", spec.key);
        assert!(
            matches!(all.get(spec.key).1, Origin::File(..)),
            "{}",
            spec.key
        );
    }
    let again = load_text(path, &document::in_force(&all)).unwrap();
    assert_eq!(
        format!("{:?}", assemble_without_chance(&again)),
        format!("{:?}", assemble_without_chance(&all))
    );
}

fn is_assignment(text: &str) -> bool {
    text.split_once(" = ").is_some_and(|(name, _)| {
        name.bytes()
            .all(|byte| byte == b'_' || byte.is_ascii_lowercase() || byte.is_ascii_digit())
    })
}

fn assemble_without_chance(configuration: &Configuration) -> broker::settings::Settings {
    let mut settings = assemble::node_options(configuration, 4).settings;
    settings.logs.iter_mut().for_each(|log| log.epoch = 0);
    settings.tickets.keys.clear();
    settings
}

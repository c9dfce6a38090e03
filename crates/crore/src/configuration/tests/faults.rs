//! Every row of errors: file, line, key, nearest name, expectation.

use super::faults_of;

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
        ("io_threads = \"many\"", "an integer from 1 to 1024 or \"auto\""),
        ("io_threads = 1.5", "an integer from 1 to 1024 or \"auto\""),
        ("io_threads = 99999999999999999999999999999999999999999", "an integer from 1 to 1024"),
        ("private_tables = \"yes\"", "true or false"),
        ("drain_window = 5", "a duration from 0s to 1d in whole seconds, such as \"25s\""),
        ("drain_window = \"1500ms\"", "a duration from 0s to 1d in whole seconds"),
        ("name = \"\"", "a string of 1 to 64 bytes"),
        ("name = 1979-05-27", "a string of 1 to 64 bytes"),
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
    check("node = 5\n", "crore.toml:1: node: 5 is not a section; expected [node]", "");
    check("log = 5\n", "crore.toml:1: log: 5 is not an array of tables; expected [[log]]", "");
    check("[log]\nname = \"a\"\n", "crore.toml:1: log: a table is not an array of tables", "");
    check("rule = [5]\n", "crore.toml:1: rule: 5 is not a table; expected [[rule]]", "");
    check("[node]\nname = \n", "crore.toml:2: not TOML: ", "");
    check("[node]\nname = \"a\"\nname = \"b\"\n", "crore.toml:3: not TOML: ", "duplicate key");
    check("log = []\n", "default: log: no log is configured", "");
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
        "crore.toml:2: listen.clients: 0.0.0.0:8800 can be reached from other machines",
        "--open (listen.open = true)",
    );
    check("[listen]\nclients = []\n", "crore.toml:2: listen.clients: no address for clients", "");
    check(
        "[tls]\nclient_certificates = \"optional\"\n",
        "crore.toml:2: tls.client_certificates: tls.client_ca_file is not set",
        "the authorities of clients' certificates",
    );
    check(
        "[tls]\nclient_ca_file = \"ca.pem\"\n",
        "crore.toml:2: tls.client_ca_file: tls.certificate_file is not set",
        "both certificate and key",
    );
    check(
        "[[grant]]\nuser = \"anna\"\n",
        "crore.toml:1: grant: there are no users",
        "a file by mosquitto_passwd, or tls.client_ca_file",
    );
    check(
        "[[log]]\nname = \"a\"\ndurability = \"disk\"\n",
        "crore.toml:3: log.durability: a log on disk needs a directory, but node.data_dir is not set",
        "node.data_dir (or --data-dir)",
    );
    check(
        "[node]\ndata_dir = \"d\"\n[[log]]\nname = \"../a\"\ndurability = \"disk\"\n",
        "crore.toml:4: log.name: \"../a\" is not valid for a log on disk, where it names the directory",
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
    check("[[log]]\nbytes_max = \"3MiB\"\n", "crore.toml:2: log.bytes_max: ", "two segments");
    check("[[rule]]\nlog = \"memory\"\n", "crore.toml:1: rule.filter: the rule has no filter", "");
    check(
        "[[rule]]\nfilter = \"a\"\nlog = \"disk\"\n",
        "crore.toml:3: rule.log: unknown log \"disk\"; expected one of: memory",
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

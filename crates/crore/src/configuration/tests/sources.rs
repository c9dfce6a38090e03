//! Files, variables and flags: which of them holds, and what their faults tell.

use super::super::options::Node;
use super::super::*;
use super::sources;

#[test]
fn precedence() {
    let folder = std::env::temp_dir().join(format!("crore-precedence-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let file = folder.join("crore.toml");
    std::fs::write(&file, "[node]\nname = \"file\"\nio_threads = 3\n[limits]\ntopics_max = 7\n")
        .unwrap();
    let mut all = sources(
        &[("CRORE_NODE_NAME", "variable"), ("CRORE_NODE_IO_THREADS", "4"), ("PATH", "/bin")],
        &[("node.name", "flag")],
    );
    all.file = Some(file);
    let configuration = load(&all).unwrap();
    std::fs::remove_dir_all(&folder).unwrap();
    assert_eq!(configuration.read::<Node>().name, "flag");
    assert_eq!(configuration.number("node.io_threads"), Some(4));
    assert_eq!(configuration.number("limits.topics_max"), Some(7));
    assert!(matches!(configuration.get("limits.topics_max").1, Origin::File(_, 5)));
}

/// A variable for `crore pub` does not keep a node from starting.
#[test]
fn variables_of_commands_are_known() {
    fn variables(command: &clap::Command) -> Vec<String> {
        let own = command.get_arguments().filter_map(clap::Arg::get_env);
        let own = own.map(|name| name.to_string_lossy().into_owned());
        let below = command.get_subcommands().flat_map(variables);
        own.chain(below).collect()
    }
    let command = <crate::cli::Arguments as clap::CommandFactory>::command();
    let names = variables(&command);
    assert!(names.iter().any(|name| name == "CRORE_TOKEN"), "{names:?}");
    for name in names.iter().filter(|name| name.starts_with("CRORE_")) {
        assert!(load(&sources(&[(name, "x")], &[])).is_ok(), "{name}");
    }
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
        let found = load(&sources(&[(name, text)], &[])).unwrap_err().to_string();
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
        assert!(load(&sources(&[(name, "tcp://10.0.0.1:8800")], &[])).is_ok(), "{name}");
    }
    let found = load(&sources(&[], &[("limits.topic_max", "1")])).unwrap_err().to_string();
    assert!(
        found.starts_with(
            "flag --set: limits.topic_max: unknown key, did you mean limits.topics_max?"
        ),
        "{found}"
    );
    let missing = Sources { file: Some("no-such-file.toml".into()), ..Sources::default() };
    let found = load(&missing).unwrap_err().to_string();
    assert!(found.starts_with("flag --config: cannot read no-such-file.toml: "), "{found}");
}

/// Writes a file with this text, and loads the configuration with it as `CRORE_{name}_FILE`.
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
        assert_eq!(configuration.read::<Node>().name, name, "{text:?}");
        let origin = &configuration.get("node.name").1;
        assert_eq!(origin.to_string(), "environment CRORE_NODE_NAME_FILE");
    }
    let lines = format!("{}\n\n{}\n", "1".repeat(64), "2".repeat(64));
    let configuration = from_file("TICKETS_KEYS", lines.as_bytes()).unwrap();
    assert!(matches!(&configuration.get("tickets.keys").0, Value::Keys(keys) if keys.len() == 2));
    // This one is an option itself.
    let variables = [("CRORE_TLS_KEY_FILE", "k.pem"), ("CRORE_TLS_CERTIFICATE_FILE", "c.pem")];
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
    assert!(found.contains("node.name: cannot read /no/such/file: "), "{found}");
    let both = sources(&[("CRORE_NODE_NAME_FILE", "/x"), ("CRORE_NODE_NAME", "n")], &[]);
    let found = load(&both).unwrap_err().to_string();
    assert!(
        found.contains("CRORE_NODE_NAME: node.name: CRORE_NODE_NAME_FILE is set, too"),
        "{found}"
    );
    let unknown = sources(&[("CRORE_NODE_NAMES_FILE", "/x")], &[]);
    let found = load(&unknown).unwrap_err().to_string();
    assert!(found.contains("unknown variable"), "{found}");
}

/// `cargo run` hands the variables of the build to the program.
#[test]
fn variables_of_the_build_are_no_options() {
    let build = include_str!("../../../build.rs");
    let names: Vec<&str> = build.split("rustc-env=").skip(1).collect();
    assert_eq!(names.len(), 2);
    assert!(names.iter().all(|name| !name.starts_with("CRORE_")), "{names:?}");
}

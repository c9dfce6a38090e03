//! Configurations of Mosquitto and what becomes of them.

use super::*;
use crate::configuration::{Configuration, load_text};
use std::path::PathBuf;
use stdx::prng::Prng;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("src/mosquitto/fixtures")
}

/// The result, with paths relative to the folder, and its configuration.
fn translated(name: &str) -> (String, Configuration) {
    let text = translate(&folder().join(name)).unwrap();
    let configuration = load_text(Path::new("crore.toml"), &text)
        .unwrap_or_else(|faults| panic!("{name}: {faults:?}\n{text}"));
    (text.replace(&format!("{}/", folder().display()), ""), configuration)
}

/// Stores the results with the variable `CRORE_BRIDGE_STORE`.
#[test]
fn examples_become_configurations_that_pass_the_check() {
    for name in ["empty", "open", "home", "office", "bridge", "plugins", "listeners"] {
        let (text, _) = translated(&format!("{name}.conf"));
        let stored = folder().join(format!("{name}.toml"));
        if std::env::var_os("CRORE_BRIDGE_STORE").is_some() {
            std::fs::write(&stored, &text).unwrap();
        }
        assert_eq!(text, std::fs::read_to_string(&stored).unwrap(), "{name}");
    }
}

fn of_text(text: &str) -> String {
    let mut broker = Broker::new();
    source::lines(text, None).iter().for_each(|line| broker.take(line));
    let who = who::decide(&mut broker, Path::new(""));
    text::write("x", broker, &who)
}

/// An option has an effect or a remark, whatever its value is.
#[test]
fn every_option_leaves_a_trace() {
    let bare = of_text("");
    for (name, _) in known::OPTIONS.iter().filter(|(name, _)| *name != "include_dir") {
        for value in ["", "true", "1", "x", "-1", "99999999999999999999", "1 2 3", "\u{7f}\"\\"] {
            let text = of_text(&format!("{name} {value}"));
            let checked = load_text(Path::new("crore.toml"), &text);
            assert!(checked.is_ok(), "{name} {value}: {checked:?}\n{text}");
        }
        let text = of_text(&format!("{name} word"));
        let is_quiet = ["socket_domain", "max_connections", "keyfile"].contains(name);
        assert!(text != bare || is_quiet, "{name}");
    }
}

#[test]
fn malformed_input_never_panics() {
    let mut prng = Prng::new(1);
    let names: Vec<&str> = known::OPTIONS.iter().map(|(name, _)| *name).collect();
    let signs: Vec<char> = "ab/+#%u$ \t\u{7f}\u{0}\"\\é0129-.:[]{}\r".chars().collect();
    for _ in 0..5_000 {
        let mut text = String::new();
        for _ in 0..1 + prng.below(6) {
            let name = names[prng.below(names.len() as u64) as usize];
            if name == "include_dir" {
                continue;
            }
            text.push_str(name);
            text.push(' ');
            for _ in 0..prng.below(12) {
                text.push(signs[prng.below(signs.len() as u64) as usize]);
            }
            text.push('\n');
        }
        let result = of_text(&text);
        let mut faults = Vec::new();
        let file = std::sync::Arc::new(PathBuf::from("crore.toml"));
        let mut configuration = Configuration::default();
        crate::configuration::read_file(&file, &result, &mut configuration, &mut faults);
        assert!(faults.is_empty(), "{text:?}\n{result}\n{faults:?}");
        // Access lists have the same words in another order.
        access::translate(&source::lines(&text.replace("port", "topic"), None));
    }
}

/// The result refuses all that Mosquitto refuses.
#[test]
fn access_is_never_wider() {
    let is_closed = |text: &str| {
        let result = of_text(text);
        result.contains("mode = \"tokens\"") && !result.contains("anonymous_")
    };
    assert!(!is_closed("") && !is_closed("listener 1883\nallow_anonymous true"));
    for text in [
        "listener 1883",
        "port 1883",
        "allow_anonymous false",
        "allow_anonymous true\nallow_anonymous false",
        "plugin x\nallow_anonymous true",
        "global_plugin x",
        "acl_file missing\nallow_anonymous true",
        "per_listener_settings true\nlistener 1883\nallow_anonymous true\nlistener 1884",
        "listener 1883\nlistener_allow_anonymous true\nlistener 1884",
    ] {
        assert!(is_closed(text), "{text}\n{}", of_text(text));
    }
    for line in ["require_certificate true", "psk_hint x", "mount_point a/"] {
        let result = of_text(&format!("allow_anonymous true\nlistener 1883\n{line}\n"));
        assert!(!result.contains("1883"), "{result}");
    }
}

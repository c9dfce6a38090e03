//! Documents from the declarations: the file, the page, help, and the configuration in force.

use super::super::*;
use super::assemble_without_chance;
use crate::configuration::options::OPTIONS;

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
         history_age_max = \"180s\" # default: auto, the age limit of log \"m\"\n\
         message_bytes_max = \"512KiB\" # default: auto, limits.message_bytes_max of crore.toml:2\n\
         when_lagging = \"replay\" # default\n\
         publishers = \"all\" # default\n\
         publish_from = [] # default\n\
         publish_rate_max = 0 # default\n\
         retained = true # default\n"
    );
    assert!(told("a/#").starts_with("# filter \"a/#\": the rule of crore.toml:5\n"));
    assert!(told("b").starts_with("# topic \"b\": no rule; the defaults apply\nlog = \"m\""));
    assert!(explain::explain(&configuration, "a#").is_err());
}

#[test]
fn help_to_some() {
    for (name, lines) in [
        (
            "limits.topics_max",
            &["limits.topics_max", "environment  CRORE_LIMITS_TOPICS_MAX, or", "needs a reload"][..],
        ),
        ("limits", &["[limits]", "limits.ring_bytes", "limits.topics_max"]),
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
    for (section, ..) in super::options::SECTIONS {
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
    assert!(shown.contains("<secret ") && !shown.contains("1111"), "{shown}");
}

#[test]
fn the_committed_page_is_the_generated_one() {
    let committed = include_str!("../../../../../docs/configuration.md");
    assert!(committed == document::reference(), "run `crore config doc > docs/configuration.md`");
}

#[test]
fn the_committed_file_is_the_generated_one() {
    let committed = include_str!("../../../../../crore.toml");
    assert!(committed == document::default_file(), "run `crore config default > crore.toml`");
}

/// The begin of options that belong to a login at brokers by a token.
const TOKENS_OF_ENGINE: &str = "oauth_";

fn is_token_of_engine(name: &str) -> bool {
    name.starts_with(TOKENS_OF_ENGINE)
}

#[test]
fn the_default_file_and_what_is_in_force_read_back() {
    let path = Path::new("crore.toml");
    let defaults = format!("{:?}", assemble_without_chance(&Configuration::default()));
    let commented = load_text(path, &document::default_file()).unwrap();
    assert_eq!(format!("{:?}", assemble_without_chance(&commented)), defaults);
    // With every line uncommented, help aside.
    let uncommented: String = document::default_file()
        .lines()
        .map(|line| match line.strip_prefix("# ") {
            Some(rest) if rest.starts_with("[[") || is_assignment(rest) => format!("{rest}\n"),
            _ => format!("{line}\n"),
        })
        // A key for tokens is one of several kinds, and is there for somebody who asks.
        .filter(|line| !line.starts_with("secret"))
        // A login by a token excludes one by a password.
        .filter(|line| !line.starts_with(TOKENS_OF_ENGINE))
        .map(|line| line.replace("mode = \"open\"", "mode = \"tokens\""))
        // The interface of `[user_network]` asks for the addresses of listeners.
        .map(|line| match line.strip_prefix("addresses = []") {
            Some(_) => "addresses = [\"127.0.0.1\"]\n".to_owned(),
            None => line,
        })
        // An issuer's key set asks for an audience.
        .map(|line| line.replace("audiences = []", "audiences = [\"*\"]"))
        .collect();
    let all = load_text(path, &uncommented).unwrap();
    assert_eq!(all.rules.len(), 1);
    let changed = [
        "entitlement.mode",
        "entitlement.secret",
        "entitlement.audiences",
        "user_network.addresses",
    ];
    let is_other = |key: &str| key.strip_prefix("engine.").is_some_and(is_token_of_engine);
    let unchanged = OPTIONS.iter().filter(|spec| !changed.contains(&spec.key));
    for spec in unchanged.filter(|spec| !is_other(spec.key)) {
        let default = Configuration::default();
        // Without a default an example stands in the file.
        let expected = default.given(spec.key).unwrap_or(all.get(spec.key));
        assert_eq!(all.get(spec.key).0, expected.0, "{}", spec.key);
        assert!(matches!(all.get(spec.key).1, Origin::File(..)), "{}", spec.key);
    }
    let again = load_text(path, &document::in_force(&all)).unwrap();
    assert_eq!(
        format!("{:?}", assemble_without_chance(&again)),
        format!("{:?}", assemble_without_chance(&all))
    );
}

fn is_assignment(text: &str) -> bool {
    text.split_once(" = ").is_some_and(|(name, _)| {
        name.bytes().all(|byte| byte == b'_' || byte.is_ascii_lowercase() || byte.is_ascii_digit())
    })
}

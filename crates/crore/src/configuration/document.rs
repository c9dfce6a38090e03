//! Texts made from the declarations: the file `crore.toml`, the reference page, and what is in force.

use super::Configuration;
use super::fault::Origin;
use super::options::{LOG_OPTIONS, OPTIONS, OptionSpec, RULE_OPTIONS, SECTIONS};
use super::options_entitlement::{self, API_KEY_OPTIONS, TABLES, TOKEN_KEY_OPTIONS};
use super::value::Value;
use std::fmt::Write;

/// Width of help in the file, without the comment sign.
const HELP_WIDTH: usize = 110;

/// `crore.toml`: every option with its default and help, commented out.
pub fn default_file() -> String {
    let mut text = String::from(
        "# Crore: every option, its default and what it is for. Made by `crore config default`; uncomment what you change.\n\
         # Order of precedence: this file, then the environment (CRORE_SECTION_NAME), then flags (--set section.name=value).\n\
         # Durations: \"250ms\", \"25s\", \"5m\", \"2h\", \"1d\". Sizes: \"64KiB\", \"2MiB\", \"1GiB\" or plain bytes.\n\
         # `crore config check` explains what is wrong and where.\n",
    );
    for (section, sentence) in SECTIONS {
        let _ = write!(text, "\n# {sentence}\n[{section}]\n");
        for spec in OPTIONS {
            if let Some((_, name)) = spec.key.split_once('.').filter(|(name, _)| name == section) {
                write_option(&mut text, name, spec);
            }
        }
    }
    text.push_str(
        "\n# Logs. Rules map topics to a log; the first one takes all other topics. Where the file has none, there is one\n\
         # with these values.\n# [[log]]\n",
    );
    for spec in LOG_OPTIONS {
        write_option(&mut text, spec.key, spec);
    }
    text.push_str(
        "\n# Rules: what holds for the topics of a filter. Any number of them.\n# [[rule]]\n",
    );
    for spec in RULE_OPTIONS {
        write_option(&mut text, spec.key, spec);
    }
    for (name, sentence, specs) in TABLES {
        let _ = write!(text, "\n# {sentence}\n# [[{name}]]\n");
        for spec in *specs {
            write_option(&mut text, spec.key, spec);
        }
    }
    text
}

/// The reference page, in Markdown.
pub fn reference() -> String {
    let mut text = String::from(
        "# Configuration\n\nMade by `crore config doc`. Precedence: file, then environment, then flags. Every option can be given as \
         `--set section.name=value`.\n",
    );
    for (section, sentence) in SECTIONS {
        let _ = write!(text, "\n## [{section}]\n\n{sentence}\n");
        let specs = OPTIONS.iter().filter(|spec| {
            spec.key
                .split_once('.')
                .is_some_and(|(name, _)| name == *section)
        });
        write_table(&mut text, specs, true);
    }
    text.push_str(
        "\n## [[log]]\n\nLogs. Rules map topics to a log; the first one takes all other topics.\n",
    );
    write_table(&mut text, LOG_OPTIONS.iter(), false);
    text.push_str(
        "\n## [[rule]]\n\nWhat holds for the topics of a filter; the most specific filter wins.\n",
    );
    write_table(&mut text, RULE_OPTIONS.iter(), false);
    for (name, sentence, specs) in TABLES {
        let _ = write!(text, "\n## [[{name}]]\n\n{sentence}\n");
        write_table(&mut text, specs.iter(), false);
    }
    text
}

/// What is in force, as a file that can be used again; each value with its origin.
pub fn in_force(configuration: &Configuration) -> String {
    let mut text = String::new();
    for (section, _) in SECTIONS {
        let _ = writeln!(
            text,
            "{}[{section}]",
            if text.is_empty() {
                ""
            } else {
                "
"
            }
        );
        for spec in OPTIONS {
            if let Some((_, name)) = spec.key.split_once('.').filter(|(name, _)| name == section)
                && let Some((value, origin)) = configuration.given(spec.key)
            {
                write_value(&mut text, name, value, origin);
            }
        }
    }
    for (name, entries, specs) in [
        ("log", &configuration.logs, LOG_OPTIONS),
        ("rule", &configuration.rules, RULE_OPTIONS),
        ("token_key", &configuration.token_keys, TOKEN_KEY_OPTIONS),
        ("api_key", &configuration.api_keys, API_KEY_OPTIONS),
    ] {
        for entry in entries {
            let _ = writeln!(text, "\n[[{name}]]");
            for spec in specs {
                if let Some((value, origin)) = entry.get(spec.key) {
                    write_value(&mut text, spec.key, value, origin);
                }
            }
        }
    }
    text
}

fn write_value(text: &mut String, name: &str, value: &Value, origin: &Origin) {
    let _ = writeln!(text, "{name} = {value} # {origin}");
}

fn write_option(text: &mut String, name: &str, spec: &OptionSpec) {
    text.push('\n');
    for line in wrap(spec.help, HELP_WIDTH) {
        let _ = writeln!(text, "# {line}");
    }
    let _ = writeln!(text, "# Takes {}.", spec.kind.expectation());
    match spec.default_value() {
        Some(value) => _ = writeln!(text, "# {name} = {value}"),
        // Without a default an example stands there.
        None if name == "data_dir" => _ = writeln!(text, "# {name} = \"/var/lib/crore\""),
        None if name == "certificate_file" => {
            _ = writeln!(text, "# {name} = \"/etc/crore/cert.pem\"")
        }
        None if name == "key_file" => _ = writeln!(text, "# {name} = \"/etc/crore/key.pem\""),
        None if name == "filter" => _ = writeln!(text, "# {name} = \"prices/#\""),
        None => {
            let example = options_entitlement::example(name).unwrap_or("memory");
            _ = writeln!(text, "# {name} = \"{example}\"");
        }
    }
}

fn write_table<'a>(
    text: &mut String,
    specs: impl Iterator<Item = &'a OptionSpec>,
    with_variable: bool,
) {
    text.push_str(if with_variable {
        "\n| option | default | takes | environment | change | what it is for |\n|---|---|---|---|---|---|\n"
    } else {
        "\n| option | default | takes | change | what it is for |\n|---|---|---|---|---|\n"
    });
    for spec in specs {
        let name = spec.key.rsplit('.').next().unwrap_or(spec.key);
        let default = spec
            .default_value()
            .map_or(String::new(), |value| format!("`{value}`"));
        let takes = spec.kind.expectation();
        let change = spec.apply.word();
        let help = spec.help;
        let _ = if with_variable {
            let variable = spec.variable();
            writeln!(
                text,
                "| `{name}` | {default} | {takes} | `{variable}` | {change} | {help} |"
            )
        } else {
            writeln!(
                text,
                "| `{name}` | {default} | {takes} | {change} | {help} |"
            )
        };
    }
}

fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        let line = lines.last_mut().expect("there is always a line");
        if line.is_empty() {
            line.push_str(word);
        } else if line.len() + 1 + word.len() <= width {
            line.push(' ');
            line.push_str(word);
        } else {
            lines.push(word.into());
        }
    }
    lines
}

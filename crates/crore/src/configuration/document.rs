//! Texts made from the declarations: the file `crore.toml`, the reference page, help, and what is
//! in force.

use super::entries::{Configuration, Entry};
use super::fault::Origin;
use super::options::entitlement::{self, API_KEY_OPTIONS, TOKEN_KEY_OPTIONS};
use super::options::{Apply, LOG_OPTIONS, OPTIONS, OptionSpec, RULE_OPTIONS, SECTIONS};
use super::value::Value;
use std::fmt::Write;

/// Width of help in the file, without the comment sign.
const HELP_WIDTH: usize = 110;

/// `crore.toml`: every option with its default and help, commented out.
pub fn default_file() -> String {
    let mut text = String::from(
        "# Crore: every option, its default and what it is for. Made by `crore config default`; uncomment what you change.\n\
         # Order of precedence: this file, then the environment (CRORE_SECTION_NAME, or CRORE_SECTION_NAME_FILE for a file\n\
         # that holds the value), then flags (--set section.name=value). SIGHUP reads all of them again.\n\
         # Durations: \"250ms\", \"25s\", \"5m\", \"2h\", \"1d\". Sizes: \"64KiB\", \"2MiB\", \"1GiB\" or plain bytes.\n\
         # `crore config check` explains what is wrong and where.\n",
    );
    for (section, sentence) in SECTIONS {
        let _ = write!(text, "\n# {sentence}\n[{section}]\n");
        for spec in OPTIONS.iter() {
            if let Some((_, name)) = spec.key.split_once('.').filter(|(name, _)| name == section) {
                write_option(&mut text, name, spec);
            }
        }
    }
    text.push_str(
        "\n# Logs. Rules map topics to a log; the first one has all other topics. Without [[log]], there is one log\n\
         # with these values.\n# [[log]]\n",
    );
    for spec in LOG_OPTIONS {
        write_option(&mut text, spec.key, spec);
    }
    text.push_str(
        "\n# Rules: settings for the topics of a filter. There may be any number of rules.\n# [[rule]]\n",
    );
    for spec in RULE_OPTIONS {
        write_option(&mut text, spec.key, spec);
    }
    for (name, sentence, specs) in entitlement::TABLES {
        let _ = write!(text, "\n# {sentence}\n# [[{name}]]\n");
        for spec in *specs {
            write_option(&mut text, spec.key, spec);
        }
    }
    text
}

/// The reference page, in Markdown: an introduction, and a table for each section.
pub fn reference() -> String {
    let mut text = String::from(include_str!("introduction.md"));
    for (section, sentence) in SECTIONS {
        let _ = write!(text, "\n## [{section}]\n\n{sentence}\n");
        write_table(&mut text, options_of(section), true);
    }
    for (table, sentence, specs) in TABLES {
        let _ = write!(text, "\n## [[{table}]]\n\n{sentence}\n");
        write_table(&mut text, specs.iter(), false);
    }
    text
}

/// Tables of which there may be several.
const TABLES: [(&str, &str, &[OptionSpec]); 4] = [
    ("log", "Logs. Rules map topics to a log; the first one has all other topics.", LOG_OPTIONS),
    (
        "rule",
        "Settings for the topics of a filter; the most specific filter applies.",
        RULE_OPTIONS,
    ),
    entitlement::TABLES[0],
    entitlement::TABLES[1],
];

fn options_of(section: &str) -> impl Iterator<Item = &'static OptionSpec> {
    OPTIONS
        .iter()
        .filter(move |spec| spec.key.split_once('.').is_some_and(|(name, _)| name == section))
}

/// Help on options in `--help`: their sections, and the commands that print more.
pub fn help_of_options() -> String {
    let mut text = String::from(
        "Every option of the configuration can be given as --set SECTION.NAME=VALUE, or as CRORE_SECTION_NAME in the\n\
         environment. Sections:\n",
    );
    for (section, sentence) in SECTIONS {
        let count = options_of(section).count();
        let options = if count == 1 { "option" } else { "options" };
        let _ = writeln!(text, "  {section:<10} {count:>2} {options:<8} {sentence}");
    }
    text.push_str(
        "`crore config doc` prints all options, `crore config doc SECTION` and `crore config doc SECTION.NAME` the help of some.",
    );
    text
}

/// Help to a section, a table, or one option of them.
///
/// # Errors
/// There is no such thing; what may have been meant.
pub fn help_of(name: &str) -> Result<String, String> {
    let name = name.trim_matches(['[', ']']);
    let mut text = String::new();
    if let Some((_, sentence)) = SECTIONS.iter().find(|(section, _)| *section == name) {
        let _ = writeln!(text, "[{name}]\n{sentence}");
        options_of(name).for_each(|spec| write_help(&mut text, spec.key, spec));
        return Ok(text);
    }
    for (table, sentence, specs) in TABLES {
        let full = |spec: &OptionSpec| format!("{table}.{}", spec.key);
        if table == name {
            let _ = writeln!(text, "[[{name}]]\n{sentence}");
            specs.iter().for_each(|spec| write_help(&mut text, &full(spec), spec));
            return Ok(text);
        }
        if let Some(spec) = specs.iter().find(|spec| full(spec) == name) {
            write_help(&mut text, name, spec);
            return Ok(text);
        }
    }
    match OPTIONS.iter().find(|spec| spec.key == name) {
        Some(spec) => {
            write_help(&mut text, name, spec);
            Ok(text)
        }
        None => Err(super::entries::unknown_key(name, Origin::Default)
            .problem
            .replace("unknown key", &format!("there is no section or option {name:?}"))),
    }
}

fn write_help(text: &mut String, name: &str, spec: &OptionSpec) {
    let _ = writeln!(text, "\n{name}");
    for line in wrap(spec.help, HELP_WIDTH) {
        let _ = writeln!(text, "  {line}");
    }
    let _ = writeln!(text, "  values       {}", spec.kind.expectation());
    if let Some(value) = spec.default_value() {
        let _ = writeln!(text, "  default      {value}");
    }
    if spec.key.contains('.') {
        let variable = spec.variable();
        let _ = writeln!(text, "  environment  {variable}, or {variable}_FILE");
    }
    let _ = writeln!(text, "  a change     needs a {}", spec.apply.word());
}

/// The configuration in force, for programs: each option by section and name, with its value and
/// origin.
pub fn as_json(configuration: &Configuration) -> serde_json::Value {
    let told = |(value, origin): &(Value, Origin)| serde_json::json!({ "value": value.to_json(), "origin": origin.to_string() });
    let mut all = serde_json::Map::new();
    for (section, _) in SECTIONS {
        let mut options = serde_json::Map::new();
        for spec in options_of(section) {
            if let (Some((_, name)), Some(given)) =
                (spec.key.split_once('.'), configuration.given(spec.key))
            {
                options.insert(name.into(), told(given));
            }
        }
        all.insert((*section).into(), options.into());
    }
    for ((table, _, specs), entries) in TABLES.iter().zip([
        &configuration.logs,
        &configuration.rules,
        &configuration.token_keys,
        &configuration.api_keys,
    ]) {
        let entry = |entry: &Entry| {
            let given = |spec: &OptionSpec| Some((spec.key.into(), told(entry.get(spec.key)?)));
            serde_json::Value::Object(specs.iter().filter_map(given).collect())
        };
        all.insert((*table).into(), entries.iter().map(entry).collect());
    }
    all.into()
}

/// The bounds in force, for programs: each option of `limits`, and each other one whose name ends
/// in `_max`, with its value, its origin, and what it is for.
pub fn limits(configuration: &Configuration) -> serde_json::Value {
    let is_limit = |spec: &&OptionSpec| {
        spec.key.starts_with("limits.") || spec.key.contains('.') && spec.key.ends_with("_max")
    };
    let told = |spec: &OptionSpec| {
        let (value, origin) = configuration.given(spec.key)?;
        Some(serde_json::json!({
            "option": spec.key,
            "value": value.to_json(),
            "text": value.to_string(),
            "origin": origin.to_string(),
            "reload": spec.apply == Apply::Reload,
            "help": spec.help,
        }))
    };
    OPTIONS.iter().filter(is_limit).filter_map(told).collect()
}

/// The configuration in force, as a file that can be used again; each value with its origin.
pub fn in_force(configuration: &Configuration) -> String {
    let mut text = String::new();
    for (section, _) in SECTIONS {
        let _ = writeln!(text, "{}[{section}]", if text.is_empty() { "" } else { "\n" });
        for spec in OPTIONS.iter() {
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
        // An option without a default shows an example.
        None => _ = writeln!(text, "# {name} = \"{}\"", example(spec.key)),
    }
}

/// The value that `crore.toml` shows for an option without a default.
fn example(key: &str) -> &'static str {
    match key {
        "node.data_dir" => "/var/lib/crore",
        "node.user" | "node.group" => "crore",
        "operators.socket_group" => "adm",
        "tls.certificate_file" => "/etc/crore/cert.pem",
        "tls.key_file" => "/etc/crore/key.pem",
        "metrics.push_to" => "udp:127.0.0.1:8094",
        "filter" => "prices/#",
        "log" => "memory",
        _ => {
            let name = key.rsplit('.').next().unwrap_or(key);
            entitlement::example(name).unwrap_or_else(|| panic!("{key} has no example"))
        }
    }
}

fn write_table<'a>(
    text: &mut String,
    specs: impl Iterator<Item = &'a OptionSpec>,
    with_variable: bool,
) {
    text.push_str(if with_variable {
        "\n| option | default | values | environment | change | purpose |\n|---|---|---|---|---|---|\n"
    } else {
        "\n| option | default | values | change | purpose |\n|---|---|---|---|---|\n"
    });
    for spec in specs {
        let name = spec.key.rsplit('.').next().unwrap_or(spec.key);
        let default = spec.default_value().map_or(String::new(), |value| format!("`{value}`"));
        let takes = spec.kind.expectation();
        let change = spec.apply.word();
        let help = spec.help;
        let _ = if with_variable {
            let variable = spec.variable();
            writeln!(text, "| `{name}` | {default} | {takes} | `{variable}` | {change} | {help} |")
        } else {
            writeln!(text, "| `{name}` | {default} | {takes} | {change} | {help} |")
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

//! The environment: `CRORE_SECTION_NAME` is the value of an option, `CRORE_SECTION_NAME_FILE` the
//! name of a file with it.
//!
//! Invariant: no fault shows what a file holds, whatever the option is: files are where secrets
//! are.

use super::entries::Configuration;
use super::fault::{Fault, Origin, nearest};
use super::options::{OPTIONS, OptionSpec};
use super::value::Refusal;
use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Read};

/// Variables that are read elsewhere: those of commands' flags, and of an upgrade.
const OTHER_VARIABLES: [&str; 9] = [
    "CRORE_CONFIG",
    "CRORE_OPERATORS",
    "CRORE_URL",
    "CRORE_TOKEN",
    "CRORE_TOKEN_FILE",
    "CRORE_MQTT_URL",
    "CRORE_MQTT_PASSWORD",
    "CRORE_MQTT_PASSWORD_FILE",
    node::upgrade::INHERIT,
];
/// Behind the name of an option's variable.
const FILE_SUFFIX: &str = "_FILE";
/// Longest file with a value, in bytes.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// Reads the variables over what `configuration` holds; only names that start with `CRORE_` matter.
pub fn read(
    variables: &[(String, String)],
    configuration: &mut Configuration,
    faults: &mut Vec<Fault>,
) {
    let mut given: HashMap<&'static str, &str> = HashMap::new();
    for (name, text) in variables {
        let Some((spec, is_file)) = option_of(name) else {
            if is_meant_for_us(name) {
                faults.push(unknown_variable(name));
            }
            continue;
        };
        if let Some(other) = given.insert(spec.key, name) {
            faults.push(Fault {
                origin: Origin::Variable(name.clone()),
                key: spec.key.into(),
                problem: format!("{other} is set, too"),
                expected: "one of the two".into(),
            });
            continue;
        }
        let origin = Origin::Variable(name.clone());
        if is_file {
            configuration.set(spec.key, origin, |spec| read_file(spec, text), faults)
        } else {
            configuration.set(spec.key, origin, |spec| spec.kind.read_text(text), faults)
        }
    }
}

/// The option of a variable, and whether the variable names a file with the value.
/// `CRORE_TLS_KEY_FILE` is an option itself.
fn option_of(name: &str) -> Option<(&'static OptionSpec, bool)> {
    let find = |name: &str| OPTIONS.iter().find(|spec| spec.variable() == name);
    match find(name) {
        Some(spec) => Some((spec, false)),
        None => Some((find(name.strip_suffix(FILE_SUFFIX)?)?, true)),
    }
}

fn is_meant_for_us(name: &str) -> bool {
    name.strip_prefix("CRORE_").is_some_and(|rest| {
        !OTHER_VARIABLES.contains(&name)
            && !node::upgrade::SWITCHES.contains(&name)
            && !comes_from_an_orchestrator(rest)
    })
}

fn unknown_variable(name: &str) -> Fault {
    let names: Vec<String> = OPTIONS.iter().map(OptionSpec::variable).collect();
    let hint = nearest(name, names.iter().map(String::as_str))
        .map_or(String::new(), |near| format!(", did you mean {near}?"));
    Fault {
        origin: Origin::Variable(name.into()),
        key: String::new(),
        problem: format!("unknown variable{hint}"),
        expected: "CRORE_SECTION_NAME of an option (`crore config doc` lists them), optionally followed by _FILE; logs and rules are set in the file only".into(),
    }
}

/// The value that a file holds; line ends at its end do not belong to it, and lines of a list are
/// its parts.
fn read_file(spec: &OptionSpec, path: &str) -> Result<super::Value, Refusal> {
    let text = read_text(path).map_err(|error| Refusal {
        problem: format!("cannot read {path}: {error}"),
        expected: "a file with the value".into(),
    })?;
    let text = text.trim_end_matches(['\n', '\r']);
    let value = if spec.kind.is_list() {
        spec.kind.read_text(&text.replace(['\n', '\r'], ","))
    } else {
        spec.kind.read_text(text)
    };
    value.map_err(|refusal| Refusal {
        problem: format!("the content of {path} is not a valid value"),
        expected: refusal.expected,
    })
}

fn read_text(path: &str) -> io::Result<String> {
    let mut text = String::new();
    let mut file = File::open(path)?.take(FILE_BYTES_MAX + 1);
    file.read_to_string(&mut text)?;
    if text.len() as u64 > FILE_BYTES_MAX {
        Err(io::Error::other("the value is far too long"))
    } else {
        Ok(text)
    }
}

/// Kubernetes and Docker links put `CRORE_SERVICE_HOST`, `CRORE_PORT_8800_TCP` and the like into
/// the environment of every container beside a service that is named `crore` or `crore-...`; none
/// of them is meant for us.
fn comes_from_an_orchestrator(rest: &str) -> bool {
    let is_port = |part: &str| {
        part.is_empty()
            || part
                .strip_prefix('_')
                .and_then(|digits| digits.bytes().next())
                .is_some_and(|byte| byte.is_ascii_digit())
    };
    rest.ends_with("SERVICE_HOST")
        || rest.contains("SERVICE_PORT")
        || rest.strip_prefix("PORT").is_some_and(is_port)
        || rest.find("_PORT").is_some_and(|place| is_port(&rest[place + 5..]))
}

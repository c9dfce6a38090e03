//! The result as a file: remarks, then sections and tables.

use super::broker::{Broker, LEVELS, Listener};
use super::source::{Remark, quote};
use super::who::Control;
use broker::entitlement::Permissions;
use std::fmt::Write;
use std::net::SocketAddr;

/// The sections, in the order of the file.
const SECTIONS: [&str; 8] =
    ["node", "listen", "tls", "mqtt", "sys", "logging", "limits", "entitlement"];

/// The directory of logs.
const DATA_DIR: &str = "/var/lib/crore";

/// The tables of a node whose messages and sessions are on disk.
const ON_DISK: &str = "
[[log]]
name = \"memory\"

[[log]]
name = \"disk\"
durability = \"disk\"

[[rule]]
filter = \"#\"
log = \"disk\"

[[rule]]
filter = \"$mqtt/#\"
log = \"disk\"
";

/// Options with their values in TOML.
type Options = Vec<(&'static str, String)>;

/// The file. `name` is that of the source.
pub fn write(name: &str, mut broker: Broker, control: &Control) -> String {
    let mut options = Options::new();
    if broker.is_persistent {
        options.push(("node.data_dir", word(DATA_DIR)));
    }
    listen(&mut broker, control, &mut options);
    if let Some(level) = broker.log_level {
        options.push(("logging.level", word(LEVELS[level])));
    }
    options.append(&mut broker.options);
    if options.iter().all(|(key, _)| *key != "mqtt.session_expiry_v3") {
        // Mosquitto keeps sessions for ever; this is the longest time.
        options.push(("mqtt.session_expiry_v3", word("365d")));
    }
    if options.iter().all(|(key, _)| *key != "sys.mosquitto") {
        // Mosquitto publishes its figures, unless `sys_interval` is 0.
        options.push(("sys.mosquitto", "true".into()));
    }
    if control.is_closed {
        // Mosquitto acknowledges refused publications of version 3, too.
        options.push(("mqtt.v3_refusals", word("acknowledge")));
    }
    who(control, &mut options);
    let mut text = format!("# By `crore bridge` from {}.\n", quote(name));
    if !broker.remarks.is_empty() {
        text.push_str("#\n# These lines have no equivalent:\n");
    }
    for Remark { place, text: remark } in &broker.remarks {
        let _ = writeln!(text, "# {place}: {}", remark.replace(char::is_control, "?"));
    }
    write_sections(&mut text, &options);
    if broker.is_persistent {
        text.push_str(ON_DISK);
    }
    for (user, permissions) in &control.grants {
        write_grant(&mut text, user.as_deref(), permissions);
    }
    text
}

fn write_sections(text: &mut String, options: &Options) {
    for section in SECTIONS {
        let mut is_begun = false;
        for (at, (key, value)) in options.iter().enumerate() {
            // The last of two values holds, as in Mosquitto.
            let is_last = options[at + 1..].iter().all(|(later, _)| later != key);
            let name = key.split_once('.').filter(|(of, _)| *of == section && is_last);
            if let Some((_, name)) = name {
                if !std::mem::replace(&mut is_begun, true) {
                    let _ = write!(text, "\n[{section}]\n");
                }
                let _ = writeln!(text, "{name} = {value}");
            }
        }
    }
}

fn write_grant(text: &mut String, user: Option<&str>, permissions: &Permissions) {
    text.push_str("\n[[grant]]\n");
    if let Some(user) = user {
        let _ = writeln!(text, "user = {}", word(user));
    }
    for (name, filters) in
        [("subscribe", &permissions.subscribe), ("publish", &permissions.publish)]
    {
        if !filters.is_empty() {
            let _ = writeln!(text, "{name} = {}", list(filters.iter().map(|filter| &**filter)));
        }
    }
}

/// Addresses, certificate and limits of listeners.
fn listen(broker: &mut Broker, control: &Control, options: &mut Options) {
    let mut listeners: Vec<Listener> =
        broker.listeners.iter().filter(|listener| !listener.is_left_out).cloned().collect();
    listeners.retain(|listener| listener.port.is_some());
    let default = &broker.listeners[0];
    if !broker.has_listeners() && !default.is_left_out {
        let address = default.address.or(Some(std::net::Ipv4Addr::LOCALHOST.into()));
        listeners.push(Listener { port: Some(1883), address, ..default.clone() });
    }
    certificate(broker, &mut listeners, options);
    let addresses = |is_web_socket: bool, is_secured: bool| -> Vec<SocketAddr> {
        let of_kind = |listener: &&Listener| {
            listener.is_web_socket == is_web_socket && listener.certificate.is_some() == is_secured
        };
        listeners.iter().filter(of_kind).filter_map(Listener::socket).collect()
    };
    let mut push = |key, addresses: &[SocketAddr]| {
        if !addresses.is_empty() {
            let texts: Vec<String> = addresses.iter().map(ToString::to_string).collect();
            options.push((key, list(texts.iter().map(String::as_str))));
        }
    };
    let plain = [addresses(true, false), addresses(false, false)];
    let secured = [addresses(true, true), addresses(false, true)];
    push("listen.clients", &plain[0]);
    push("tls.listen", &secured[0]);
    push("mqtt.listen", &plain[1]);
    push("mqtt.tls_listen", &secured[1]);
    let all = plain.iter().chain(&secured).flatten();
    if !control.is_closed && all.clone().any(|address| !address.ip().is_loopback()) {
        options.push(("listen.open", "true".into()));
        if plain[0].is_empty() {
            options.push(("listen.clients", word("127.0.0.1:8800")));
        }
        if secured[0].is_empty() && !secured[1].is_empty() {
            options.push(("tls.listen", word("127.0.0.1:8843")));
        }
    }
    for (key, is_secured) in [("listen.connections_max", false), ("tls.connections_max", true)] {
        let of_kind =
            listeners.iter().filter(|listener| listener.certificate.is_some() == is_secured);
        // One without a limit has none.
        let counts: Option<Vec<u64>> =
            of_kind.map(|listener| listener.connections_max.map(u64::from)).collect();
        if let Some(count) = counts.map(|counts| counts.iter().sum::<u64>()).filter(|sum| *sum > 0)
        {
            options.push((key, count.min(u64::from(u32::MAX) - 1).to_string()));
        }
    }
}

/// One certificate is for all listeners; those with another one are left out.
fn certificate(broker: &mut Broker, listeners: &mut Vec<Listener>, options: &mut Options) {
    let mut chosen = None;
    listeners.retain(|listener| {
        let Some((line, file)) = &listener.certificate else {
            return true;
        };
        let Some(key) = &listener.key else {
            let text = "certfile without keyfile: the listener is left out";
            broker.remarks.push(line.remark(text));
            return false;
        };
        let pair = (file.clone(), key.clone());
        let is_same = *chosen.get_or_insert_with(|| pair.clone()) == pair;
        if !is_same {
            let text = "another certificate cannot be expressed: the node has one for all listeners, and this listener is left out; use one certificate with all names";
            broker.remarks.push(line.remark(text));
        }
        is_same
    });
    if let Some((file, key)) = chosen {
        options.push(("tls.certificate_file", word(&file.display().to_string())));
        options.push(("tls.key_file", word(&key.display().to_string())));
    }
}

fn who(control: &Control, options: &mut Options) {
    if !control.is_closed {
        return;
    }
    options.push(("entitlement.mode", word("tokens")));
    if let Some(file) = &control.users_file {
        options.push(("entitlement.users_file", word(&file.display().to_string())));
    }
    for (key, filters) in [
        ("entitlement.anonymous_subscribe", &control.anonymous.subscribe),
        ("entitlement.anonymous_publish", &control.anonymous.publish),
    ] {
        if !filters.is_empty() {
            options.push((key, list(filters.iter().map(|filter| &**filter))));
        }
    }
}

fn list<'a>(texts: impl Iterator<Item = &'a str>) -> String {
    format!("[{}]", texts.map(word).collect::<Vec<_>>().join(", "))
}

/// A string of TOML: it escapes as JSON does, and one sign more.
fn word(text: &str) -> String {
    serde_json::Value::from(text).to_string().replace('\u{7f}', "\\u007F")
}

//! The options of a Mosquitto configuration, line by line.

use super::known::{self, Fate};
use super::source::{Line, Remark, quote};
use crate::configuration::fault::nearest;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;

/// A listener.
#[derive(Clone, Default, Debug)]
pub struct Listener {
    /// The place of its line; empty for the default listener.
    pub place: String,
    /// Its port; none where Crore cannot listen there.
    pub port: Option<u16>,
    /// Its address; every address without one.
    pub address: Option<IpAddr>,
    /// Whether it is for IPv6 (`socket_domain`).
    pub is_ipv6: bool,
    /// Whether it is for WebSockets.
    pub is_web_socket: bool,
    /// The certificate, with its line.
    pub certificate: Option<(Line, PathBuf)>,
    /// The certificate's key.
    pub key: Option<PathBuf>,
    /// The maximum number of connections.
    pub connections_max: Option<u32>,
    /// Its own `allow_anonymous`.
    pub allow_anonymous: Option<bool>,
    /// A line keeps clients out in a way that Crore does not have.
    pub is_left_out: bool,
}

/// A value with its line.
pub type Said<T> = Option<(Line, T)>;

/// A whole configuration.
#[derive(Default, Debug)]
pub struct Broker {
    /// Its listeners, in order. The first is the default one.
    pub listeners: Vec<Listener>,
    /// Numbers and words that become one option each: the option, and its value in TOML.
    pub options: Vec<(&'static str, String)>,
    /// `allow_anonymous`; false if one of several lines says so.
    pub allow_anonymous: Option<bool>,
    /// Whether `allow_anonymous` is that of a listener (`per_listener_settings`).
    pub is_by_listener: bool,
    /// Whether a plugin decides on permissions.
    pub has_plugin: bool,
    /// Whether there are several access lists.
    pub has_several_lists: bool,
    /// `password_file`.
    pub password_file: Said<PathBuf>,
    /// `acl_file`.
    pub acl_file: Said<PathBuf>,
    /// Whether logs are on disk.
    pub is_persistent: bool,
    /// The least severe level of `log_type`.
    pub log_level: Option<usize>,
    /// Lines without an equivalent.
    pub remarks: Vec<Remark>,
    /// The line of the bridge that the next lines belong to.
    bridge: Option<String>,
}

/// Crore's levels, the most severe first.
pub const LEVELS: [&str; 4] = ["error", "warn", "info", "debug"];

/// The largest message without changes of other limits, in bytes.
const MESSAGE_BYTES_MAX: u64 = 1 << 20;
/// The longest value, in bytes: a path.
const VALUE_BYTES_MAX: usize = 2_048;
/// The largest size of a packet, in bytes.
const BYTES_MAX: u64 = 256 << 20;

impl Listener {
    /// Its address and port. Without an address it is every IPv4 address, as for `listen.open`.
    pub fn socket(&self) -> Option<SocketAddr> {
        let every: IpAddr =
            if self.is_ipv6 { Ipv6Addr::UNSPECIFIED.into() } else { Ipv4Addr::UNSPECIFIED.into() };
        Some(SocketAddr::new(self.address.unwrap_or(every), self.port?))
    }
}

impl Broker {
    /// A configuration without a line.
    pub fn new() -> Broker {
        Broker { listeners: vec![Listener::default()], ..Broker::default() }
    }

    /// Whether a line gives a listener.
    pub fn has_listeners(&self) -> bool {
        self.listeners.len() > 1 || self.listeners[0].port.is_some()
    }

    /// Whether clients without a user are permitted.
    pub fn is_open(&self) -> bool {
        let mut listeners = self.listeners.iter().filter(|listener| listener.port.is_some());
        match self.allow_anonymous {
            _ if self.has_plugin => false,
            // Without a listener only this machine can connect.
            None => !self.has_listeners(),
            Some(allows) if !self.is_by_listener => allows,
            Some(_) => listeners.all(|listener| listener.allow_anonymous == Some(true)),
        }
    }

    /// Takes a line.
    pub fn take(&mut self, line: &Line) {
        match known::fate(&line.key) {
            None => self.unknown(line),
            Some(Fate::Bridge) => self.bridge(line),
            Some(Fate::Meaningless(reason)) => {
                let text = format!("{} has no meaning here: {reason}", line.key);
                self.remarks.push(line.remark(text));
            }
            Some(Fate::Impossible(reason, way)) => {
                self.has_plugin |= line.key.contains("plugin");
                let text = format!("{} cannot be expressed: {reason}; {way}", line.key);
                self.remarks.push(line.remark(text));
            }
            Some(Fate::Translated) => {
                if let Err(problem) = self.translate(line) {
                    let text = format!("{} {}: {problem}", line.key, quote(&line.value));
                    self.remarks.push(line.remark(text));
                }
            }
        }
    }

    fn unknown(&mut self, line: &Line) {
        let meant = nearest(&line.key, known::OPTIONS.iter().map(|(name, _)| *name));
        let hint = meant.map_or(String::new(), |meant| format!(", did you mean {meant}?"));
        let text = format!("{}: unknown option{hint}", quote(&line.key));
        self.remarks.push(line.remark(text));
    }

    fn bridge(&mut self, line: &Line) {
        let text = match &self.bridge {
            Some(place) if line.key != "connection" => {
                format!("{} belongs to the bridge of {place}", line.key)
            }
            _ => {
                self.bridge = Some(line.place.clone());
                format!(
                    "{} cannot be expressed: Crore has no bridges; keep a Mosquitto whose bridge connects to this node, or a program that subscribes there and publishes here",
                    line.key
                )
            }
        };
        self.remarks.push(line.remark(text));
    }

    fn translate(&mut self, line: &Line) -> Result<(), String> {
        let value = &*line.value;
        if value.chars().any(char::is_control) || value.len() > VALUE_BYTES_MAX {
            return Err("a control character, or too long".into());
        }
        match &*line.key {
            "listener"
            | "port"
            | "bind_address"
            | "socket_domain"
            | "protocol"
            | "certfile"
            | "keyfile"
            | "max_connections"
            | "require_certificate"
            | "mount_point"
            | "psk_hint" => self.of_listener(line)?,
            "allow_anonymous" | "listener_allow_anonymous" => {
                let allows = switch(value)?;
                if self.allow_anonymous.is_some_and(|before| before != allows) {
                    let text = "all listeners have one value of allow_anonymous here: false";
                    self.remarks.push(line.remark(text));
                }
                self.allow_anonymous = Some(allows && self.allow_anonymous != Some(false));
                self.is_by_listener |= line.key == "listener_allow_anonymous";
                if let Some(listener) = self.listeners.last_mut() {
                    listener.allow_anonymous = Some(allows);
                }
            }
            "password_file" => set_once(&mut self.password_file, line)?,
            "acl_file" => {
                self.has_several_lists |= self.acl_file.is_some();
                set_once(&mut self.acl_file, line)?;
            }
            "per_listener_settings" => {
                self.is_by_listener = switch(value)?;
                if self.is_by_listener {
                    let text = "per_listener_settings cannot be expressed: who may connect is one decision for all listeners; run a node for each, or use one password file";
                    self.remarks.push(line.remark(text));
                }
            }
            "persistence" => self.is_persistent = switch(value)?,
            "log_type" => self.log_type(value)?,
            _ => self.of_one_option(line)?,
        }
        Ok(())
    }

    fn of_listener(&mut self, line: &Line) -> Result<(), String> {
        if line.key == "listener" {
            self.listeners.push(Listener { place: line.place.clone(), ..Listener::default() });
        }
        let Some(listener) = self.listeners.last_mut() else { return Ok(()) };
        match (&*line.key, line.words()[..].split_first()) {
            (_, None) => return Err("a value is missing".into()),
            ("listener", Some((port, address))) => {
                listener.place.clone_from(&line.place);
                let number: u16 = port.parse().map_err(|_| "no port")?;
                if number == 0 {
                    return Err(
                        "Crore listens on no socket in the file system; use 127.0.0.1".into()
                    );
                }
                listener.port = Some(number);
                if let Some(address) = address.first() {
                    listener.address =
                        Some(address_of(address).inspect_err(|_| listener.port = None)?);
                }
            }
            ("port", Some((port, _))) => {
                listener.place.clone_from(&line.place);
                let number: u16 = port.parse().map_err(|_| "no port")?;
                listener.port = (number > 0).then_some(number);
            }
            ("bind_address", Some((address, _))) => listener.address = Some(address_of(address)?),
            ("socket_domain", Some((word, _))) => listener.is_ipv6 = *word == "ipv6",
            ("protocol", Some((&"mqtt", _))) => listener.is_web_socket = false,
            ("protocol", Some((&"websockets", _))) => listener.is_web_socket = true,
            ("protocol", Some(_)) => return Err("Crore speaks mqtt and websockets".into()),
            ("certfile", Some(_)) => {
                listener.certificate = Some((line.clone(), line.value.clone().into()));
            }
            ("keyfile", Some(_)) => listener.key = Some(line.value.clone().into()),
            ("require_certificate", Some((word, _))) => {
                if switch(word)? {
                    listener.is_left_out = true;
                    return Err("it cannot be expressed: certificates of clients hold for all listeners with TLS, so the listener is left out; set tls.client_ca_file by hand (docs/entitlement.md)".into());
                }
            }
            ("mount_point", Some(_)) => {
                listener.is_left_out = true;
                return Err("it cannot be expressed: topics have one name for all listeners, so the listener is left out; run a second node for it".into());
            }
            ("psk_hint", Some(_)) => {
                listener.is_left_out = true;
                return Err("it cannot be expressed: Crore has no pre-shared keys, so the listener is left out; use certificates".into());
            }
            (_, Some((number, _))) => {
                // -1: no limit.
                listener.connections_max = number.parse().ok().filter(|number| *number > 0);
            }
        }
        Ok(())
    }

    /// Options that are one option of Crore.
    fn of_one_option(&mut self, line: &Line) -> Result<(), String> {
        let number = || line.value.parse::<i64>().map_err(|_| "no number".to_owned());
        // Not positive: no limit.
        let within =
            |max: u64| -> Result<u64, String> { Ok(number()?.max(0).unsigned_abs().min(max)) };
        let limited = |max: u64| -> Result<Option<u64>, String> {
            Ok(Some(within(max)?).filter(|number| *number > 0))
        };
        let mut set = |option, value: String| self.options.push((option, value));
        match &*line.key {
            "max_inflight_messages" => {
                let count = limited(65_535)?.unwrap_or(65_535).to_string();
                set("mqtt.inflight_max", count.clone());
                set("mqtt.receive_max", count);
            }
            "max_keepalive" => set("mqtt.keep_alive_max", format!("\"{}s\"", within(65_535)?)),
            "max_packet_size" => {
                if let Some(bytes) = limited(BYTES_MAX)? {
                    set("mqtt.packet_bytes_max", bytes.max(20).to_string());
                }
            }
            "max_qos" | "maximum_qos" => set("mqtt.qos_max", within(2)?.to_string()),
            "max_topic_alias" => set("mqtt.topic_alias_max", within(65_535)?.to_string()),
            "max_topic_alias_broker" => {
                set("mqtt.topic_aliases_sent_max", within(255)?.to_string());
            }
            "message_size_limit" => {
                let bytes = limited(BYTES_MAX)?.filter(|bytes| *bytes <= MESSAGE_BYTES_MAX);
                let bytes = bytes.ok_or("limits.message_bytes_max stays 1MiB; a larger one needs larger websocket.frame_bytes_max and limits (docs/configuration.md)")?;
                set("limits.message_bytes_max", bytes.to_string());
            }
            "memory_limit" => {
                if let Some(bytes) = limited(64 << 40)? {
                    set("limits.memory_bytes_max", bytes.max(16 << 20).to_string());
                }
            }
            "global_max_connections" => {
                if let Some(count) = limited(u64::from(u32::MAX) - 1)? {
                    set("limits.connections_max", count.to_string());
                }
            }
            "persistent_client_expiration" => {
                set("mqtt.session_expiry_v3", format!("\"{}s\"", span_s(&line.value)?));
            }
            "allow_zero_length_clientid" => {
                set("mqtt.assigned_ids", switch(&line.value)?.to_string());
            }
            "retain_available" => set("mqtt.retained", switch(&line.value)?.to_string()),
            "sys_interval" => {
                let seconds = within(3_600)?;
                set("sys.mosquitto", (seconds > 0).to_string());
                if seconds > 0 {
                    set("sys.interval", format!("\"{seconds}s\""));
                }
            }
            "tls_version" => match line.value.trim_start_matches("tlsv") {
                version @ ("1.2" | "1.3") => set("tls.version_min", format!("\"{version}\"")),
                _ => return Err("the node speaks TLS 1.2 and 1.3".into()),
            },
            _ => return Err("it is not followed here".into()),
        }
        Ok(())
    }

    fn log_type(&mut self, word: &str) -> Result<(), String> {
        let level = match word {
            "none" | "error" => 0,
            "warning" => 1,
            "notice" | "information" | "subscribe" | "unsubscribe" => 2,
            "debug" | "websockets" | "internal" | "all" => 3,
            _ => return Err("no type of log lines".into()),
        };
        self.log_level = self.log_level.max(Some(level));
        Ok(())
    }
}

/// Crore has one of these files.
fn set_once(said: &mut Said<PathBuf>, line: &Line) -> Result<(), String> {
    match said {
        _ if line.value.is_empty() => Err("a value is missing".into()),
        Some((first, _)) => {
            let place = &first.place;
            Err(format!("it cannot be expressed: {place} has another one; join the files"))
        }
        None => {
            *said = Some((line.clone(), line.value.clone().into()));
            Ok(())
        }
    }
}

fn switch(word: &str) -> Result<bool, String> {
    match word {
        "true" | "1" => Ok(true),
        "false" | "0" => Ok(false),
        _ => Err("neither true nor false".into()),
    }
}

fn address_of(word: &str) -> Result<IpAddr, String> {
    match word {
        "localhost" => Ok(Ipv4Addr::LOCALHOST.into()),
        _ => word.parse().map_err(|_| "no IP address; Crore listens on IP addresses".into()),
    }
}

/// Seconds of a span such as `14d`; at most a year.
fn span_s(text: &str) -> Result<u64, String> {
    const HOUR_S: u64 = 3_600;
    const YEAR_S: u64 = 365 * 24 * HOUR_S;
    let bad = || "no span such as 14d".to_owned();
    let last = text.chars().last().ok_or_else(bad)?;
    let unit_s = match last {
        'h' => HOUR_S,
        'd' => 24 * HOUR_S,
        'w' => 7 * 24 * HOUR_S,
        'm' => 30 * 24 * HOUR_S,
        'y' => YEAR_S,
        _ => return Err(bad()),
    };
    let count: u64 = text[..text.len() - last.len_utf8()].trim().parse().map_err(|_| bad())?;
    Ok(count.saturating_mul(unit_s).min(YEAR_S))
}

//! Flags of `mqtt pub` and `mqtt sub`: the server, the client's session, its will.

use crate::commands::connection::{Secret, read_secret};
use crate::exit::Ending;
use anyhow::anyhow;
use bench::units::parse_duration;
use client::url::Endpoint;
use std::path::PathBuf;
use std::time::Duration;
use tls::{ClientSettings, Identity, Roots};
use wire::mqtt::{Connect, Properties, Property, Qos, Secret as Password, Version, Will};

/// Flags of the connection and the session.
#[derive(Clone, Debug, clap::Args)]
pub struct SessionArguments {
    /// Address of the server: mqtt://host:port, or mqtts:// with TLS. A bare host means mqtt://.
    #[arg(
        long,
        value_name = "URL",
        env = "CRORE_MQTT_URL",
        default_value = "mqtt://127.0.0.1:1883"
    )]
    pub url: String,
    /// With TLS: trust the certificates of this PEM file instead of the system's.
    #[arg(long, value_name = "FILE", conflicts_with = "insecure")]
    pub ca: Option<PathBuf>,
    /// With TLS: accept any certificate. The connection is encrypted, but the server is not
    /// verified.
    #[arg(long)]
    pub insecure: bool,
    /// With TLS: PEM file with the client's certificate, for a server that asks for one.
    #[arg(long, value_name = "FILE", requires = "key")]
    pub cert: Option<PathBuf>,
    /// PEM file with the private key of the client's certificate.
    #[arg(long, value_name = "FILE", requires = "cert")]
    pub key: Option<PathBuf>,
    /// Version of the protocol: 3 (3.1.1) or 5.
    #[arg(long, value_name = "VERSION", default_value_t = 5, value_parser = clap::value_parser!(u8).range(3..=5))]
    pub mqtt_version: u8,
    /// Client identifier. The default is a random one.
    #[arg(long, short, value_name = "ID")]
    pub id: Option<String>,
    /// User name. A node of Crore does not use it.
    #[arg(long, short, value_name = "NAME")]
    pub user: Option<String>,
    /// Password; at a node of Crore, the token or API key. Other users of the machine can read a
    /// command line: use the environment or --password-file instead.
    #[arg(long, value_name = "PASSWORD", env = "CRORE_MQTT_PASSWORD", hide_env_values = true)]
    pub password: Option<Secret>,
    /// File with the password. It takes precedence over --password.
    #[arg(long, value_name = "FILE", env = "CRORE_MQTT_PASSWORD_FILE")]
    pub password_file: Option<PathBuf>,
    /// Time that the session outlives its connection: the server keeps subscriptions and messages.
    /// Without it, the session ends with the connection.
    #[arg(long, value_name = "DURATION", requires = "id", value_parser = parse_duration)]
    pub session_expiry: Option<Duration>,
    /// Begin a new session, even if the server has one of this client.
    #[arg(long)]
    pub clean: bool,
    /// Longest silence of the client, in whole seconds; it then pings the server. 0s: none.
    #[arg(long, value_name = "DURATION", default_value = "60s", value_parser = parse_duration)]
    pub keep_alive: Duration,
    #[command(flatten)]
    will: WillArguments,
}

/// Flags of the will.
#[derive(Clone, Debug, clap::Args)]
struct WillArguments {
    /// Topic of the will: the message that the server publishes if it loses the client.
    #[arg(long, value_name = "TOPIC", value_parser = parse_topic)]
    will_topic: Option<String>,
    /// The will.
    #[arg(long, value_name = "MESSAGE", requires = "will_topic", default_value = "")]
    will_message: String,
    /// QoS of the will.
    #[arg(long, value_name = "QOS", requires = "will_topic", default_value_t = 1, value_parser = parse_qos())]
    will_qos: u8,
    /// Make the will the topic's retained message.
    #[arg(long, requires = "will_topic")]
    will_retain: bool,
    /// Time between the loss of the client and the will. Needs version 5.
    #[arg(long, value_name = "DURATION", requires = "will_topic", value_parser = parse_duration)]
    will_delay: Option<Duration>,
}

/// The parameters of a session, checked.
#[derive(Debug)]
pub struct Session {
    /// The server.
    pub endpoint: Endpoint,
    /// The version of the protocol.
    pub version: Version,
    /// The TLS client, if the server has TLS.
    pub tls: Option<tls::Client>,
    /// The identifier.
    pub id: String,
    keep_alive_s: u16,
    expiry_s: u32,
    /// The first connection begins a new session.
    is_clean: bool,
    user: Option<String>,
    password: Option<String>,
    will: WillArguments,
}

impl SessionArguments {
    /// Checks the flags, and reads the files that they name.
    ///
    /// # Errors
    /// Flags that do not go together, an invalid address, or a file that cannot be read.
    pub fn session(&self) -> Result<Session, Ending> {
        let usage = |text: &str| Err(Ending::Usage(text.to_owned()));
        let endpoint =
            Endpoint::parse_mqtt(&self.url).map_err(|error| Ending::Usage(error.to_string()))?;
        let roots = Roots::of_flags(self.ca.as_deref(), self.insecure);
        let identity = self.cert.clone().zip(self.key.clone());
        let identity =
            identity.map(|(certificate_file, key_file)| Identity { certificate_file, key_file });
        let settings = ClientSettings { roots, identity, ..ClientSettings::default() };
        if settings.is_given() && !endpoint.is_tls {
            return usage("--ca, --insecure and --cert are for addresses with TLS: use mqtts://");
        }
        let is_v5 = self.mqtt_version == 5;
        if !is_v5 && self.clean && self.session_expiry.is_some() {
            return usage("--clean with --session-expiry needs version 5");
        }
        if !is_v5 && self.will.will_delay.is_some() {
            return usage("--will-delay needs version 5");
        }
        let tls = endpoint.is_tls.then(|| tls::Client::load(&settings)).transpose();
        let password = match &self.password_file {
            Some(path) => Some(read_secret("the password", path)?),
            None => self.password.as_ref().map(|secret| secret.text().to_owned()),
        };
        let seconds = |span: Duration| u32::try_from(span.as_secs()).unwrap_or(u32::MAX);
        Ok(Session {
            endpoint,
            version: if is_v5 { Version::V5 } else { Version::V3_1_1 },
            tls: tls.map_err(|error| anyhow!("{error}"))?,
            id: self.id.clone().unwrap_or_else(random_id),
            keep_alive_s: u16::try_from(self.keep_alive.as_secs()).unwrap_or(u16::MAX),
            expiry_s: self.session_expiry.map_or(0, seconds),
            is_clean: self.clean || self.session_expiry.is_none(),
            user: self.user.clone(),
            password,
            will: self.will.clone(),
        })
    }
}

impl Session {
    /// Whether the session outlives its connection.
    pub fn is_lasting(&self) -> bool {
        self.expiry_s > 0
    }

    /// Gives CONNECT to `with`. Only the first connection may end an earlier session of a client
    /// whose session lasts.
    pub fn connect<T>(&self, is_first: bool, with: impl FnOnce(&Connect<'_>) -> T) -> T {
        let is_v5 = self.version.has_properties();
        let expiry = [Property::SessionExpiry(self.expiry_s)];
        let properties: &[Property<'_>] = if is_v5 && self.is_lasting() { &expiry } else { &[] };
        let delay_s = self.will.will_delay.map_or(0, |delay| delay.as_secs() as u32);
        let delay = [Property::WillDelay(delay_s)];
        let will_properties: &[Property<'_>] = if delay_s > 0 { &delay } else { &[] };
        let will = self.will.will_topic.as_ref().map(|topic| Will {
            qos: qos(self.will.will_qos),
            retain: self.will.will_retain,
            topic,
            payload: self.will.will_message.as_bytes(),
            properties: Properties::from(will_properties),
        });
        // Version 3 has a password only behind a user name.
        let needs_user = self.password.is_some() && !is_v5;
        with(&Connect {
            version: self.version,
            clean_start: if self.is_lasting() { is_first && self.is_clean } else { true },
            keep_alive_s: self.keep_alive_s,
            properties: Properties::from(properties),
            client_id: &self.id,
            will,
            user_name: self.user.as_deref().or(needs_user.then_some("")),
            password: self.password.as_ref().map(|text| Password(text.as_bytes())),
        })
    }

    /// The keep alive that the client proposes, in seconds.
    pub fn keep_alive_s(&self) -> u16 {
        self.keep_alive_s
    }
}

/// The values of a flag for QoS.
pub fn parse_qos() -> clap::builder::RangedI64ValueParser<u8> {
    clap::value_parser!(u8).range(..=2)
}

/// The QoS of a checked flag.
pub fn qos(number: u8) -> Qos {
    Qos::from_bits(number).unwrap_or_default()
}

/// Checks a topic.
///
/// # Errors
/// It is empty, too long, or has a wildcard.
pub fn parse_topic(text: &str) -> Result<String, String> {
    match wire::mqtt::check_topic(text) {
        Ok(()) if text.len() <= wire::mqtt::FIELD_BYTES_MAX => Ok(text.to_owned()),
        Ok(()) => Err("the topic is longer than 65,535 bytes".to_owned()),
        Err(error) => Err(error.to_string()),
    }
}

/// An identifier that no other client has.
fn random_id() -> String {
    format!("crore-{:016x}", bench::payload::seed_from_entropy())
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        session: SessionArguments,
    }

    fn session(line: &str) -> Result<Session, String> {
        let words = std::iter::once("mqtt").chain(line.split_ascii_whitespace());
        let line = Line::try_parse_from(words).map_err(|error| error.to_string())?;
        line.session.session().map_err(|ending| ending.describe())
    }

    #[test]
    fn a_session_ends_with_its_connection_unless_it_has_an_expiry() {
        for (line, is_first, clean_start, expiry_s) in [
            ("", true, true, None),
            ("", false, true, None),
            ("--id a --session-expiry 60s", true, false, Some(60)),
            ("--id a --session-expiry 60s --clean", true, true, Some(60)),
            ("--id a --session-expiry 60s --clean", false, false, Some(60)),
            ("--id a --session-expiry 60s --mqtt-version 3", true, false, None),
            ("--id a --mqtt-version 3", false, true, None),
        ] {
            session(line).unwrap().connect(is_first, |connect| {
                assert_eq!(connect.clean_start, clean_start, "{line}");
                assert_eq!(connect.properties.session_expiry_s(), expiry_s, "{line}");
            });
        }
    }

    #[test]
    fn a_will_and_a_password_go_with_connect() {
        let line = "--will-topic gone/a --will-message bye --will-qos 0 --will-retain --will-delay 5s \
                    --password secret";
        session(line).unwrap().connect(true, |connect| {
            let will = connect.will.unwrap();
            assert_eq!((will.topic, will.payload, will.qos), ("gone/a", &b"bye"[..], Qos::Zero));
            assert_eq!((will.retain, will.properties.will_delay_s()), (true, Some(5)));
            assert_eq!((connect.user_name, connect.password), (None, Some(Password(b"secret"))));
        });
        session("--password secret --mqtt-version 3").unwrap().connect(true, |connect| {
            assert_eq!(connect.user_name, Some(""));
        });
    }

    #[test]
    fn flags_that_do_not_go_together_are_refused() {
        for (line, said) in [
            ("--url ws://a", "mqtt or mqtts"),
            ("--url mqtt://a --insecure", "use mqtts://"),
            ("--url mqtt://a --cert a --key b", "use mqtts://"),
            ("--url mqtts://a --cert a", "--key"),
            ("--url mqtts://a --insecure --cert nowhere --key b", "nowhere"),
            ("--session-expiry 5s", "--id"),
            ("--id a --session-expiry 5s --clean --mqtt-version 3", "needs version 5"),
            ("--will-topic a --will-delay 5s --mqtt-version 3", "needs version 5"),
            ("--will-message a", "--will-topic"),
            ("--will-topic a/#", "wildcard"),
            ("--mqtt-version 6", "3..=5"),
        ] {
            let refusal = session(line).unwrap_err();
            assert!(refusal.contains(said), "{line}: {refusal}");
        }
    }
}

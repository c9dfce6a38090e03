//! Settings as properties of librdkafka.

use crate::settings::{EngineSettings, Login, Security};

type Properties = Vec<(String, String)>;

/// Properties of the client that reads.
pub(crate) fn consumer(settings: &EngineSettings) -> Properties {
    let buffer_kib = (settings.buffer_bytes_max / 1_024).max(64);
    let mut properties = common(settings);
    add(
        &mut properties,
        &[
            // librdkafka demands a group, even for partitions that are assigned. It has no member.
            ("group.id", "crore"),
            ("enable.auto.commit", "false"),
            ("enable.auto.offset.store", "false"),
            ("enable.partition.eof", "true"),
            // A position that is gone is an event, never a silent jump.
            ("auto.offset.reset", "error"),
            ("isolation.level", "read_committed"),
            ("check.crcs", "true"),
            ("fetch.min.bytes", "1"),
            ("fetch.wait.max.ms", "500"),
            ("fetch.error.backoff.ms", "100"),
            ("fetch.queue.backoff.ms", "5"),
            ("queued.min.messages", "100000"),
            ("queued.max.messages.kbytes", &buffer_kib.to_string()),
            ("fetch.message.max.bytes", "1048576"),
            ("fetch.max.bytes", "8388608"),
        ],
    );
    finish(settings, properties)
}

/// Properties of the client that sends and asks.
pub(crate) fn producer(settings: &EngineSettings) -> Properties {
    let mut properties = common(settings);
    add(
        &mut properties,
        &[
            ("enable.idempotence", "true"),
            ("acks", "all"),
            ("linger.ms", "0"),
            ("compression.type", &settings.compression),
            ("message.timeout.ms", &settings.produce_timeout_ms.to_string()),
            ("request.timeout.ms", &settings.request_timeout_ms.to_string()),
            ("retry.backoff.ms", "20"),
            ("retry.backoff.max.ms", "500"),
            ("queue.buffering.max.messages", &settings.pending_max.max(1).to_string()),
            ("queue.buffering.max.kbytes", "65536"),
            ("message.max.bytes", &message_bytes_max(settings).to_string()),
        ],
    );
    finish(settings, properties)
}

/// Properties of a client that only asks.
pub(crate) fn questions(settings: &EngineSettings) -> Properties {
    let mut properties = common(settings);
    // Then lines tell of brokers that close the connection.
    properties.retain(|(name, _)| name != "log_level");
    add(&mut properties, &[("log_level", "6")]);
    finish(settings, properties)
}

/// The payload with its key and headers.
fn message_bytes_max(settings: &EngineSettings) -> u32 {
    settings.payload_bytes_max.saturating_add(64 << 10).min(1_000_000_000)
}

fn common(settings: &EngineSettings) -> Properties {
    let mut properties = Properties::new();
    add(
        &mut properties,
        &[
            ("bootstrap.servers", &settings.bootstrap),
            ("client.id", &settings.client_id),
            ("log.queue", "true"),
            ("log_level", "5"),
            ("socket.nagle.disable", "true"),
            ("socket.keepalive.enable", "true"),
            ("socket.timeout.ms", &settings.request_timeout_ms.max(2_000).to_string()),
            ("socket.connection.setup.timeout.ms", "3000"),
            ("reconnect.backoff.ms", "50"),
            ("reconnect.backoff.max.ms", "1000"),
            // A new leader is known within a second, also if the old one only fell silent.
            ("topic.metadata.refresh.interval.ms", "1000"),
            ("topic.metadata.refresh.fast.interval.ms", "50"),
            ("allow.auto.create.topics", "false"),
            ("client.dns.lookup", "use_all_dns_ips"),
        ],
    );
    if !settings.rack.is_empty() {
        add(&mut properties, &[("client.rack", &settings.rack)]);
    }
    secure(&settings.security, &mut properties);
    properties
}

fn secure(security: &Security, properties: &mut Properties) {
    let protocol = match (&security.tls, &security.login) {
        (None, Login::None) => "plaintext",
        (Some(_), Login::None) => "ssl",
        (None, _) => "sasl_plaintext",
        (Some(_), _) => "sasl_ssl",
    };
    add(properties, &[("security.protocol", protocol)]);
    if let Some(tls) = &security.tls {
        // OpenSSL that is linked statically does not know the system's folder.
        let probe = "probe".to_owned();
        let is_given = !tls.authorities_file.is_empty();
        let authorities = if is_given { &tls.authorities_file } else { &probe };
        let files = [
            ("ssl.ca.location", authorities),
            ("ssl.certificate.location", &tls.certificate_file),
            ("ssl.key.location", &tls.key_file),
            ("ssl.key.password", &tls.key_password),
        ];
        let named = files.into_iter().filter(|(_, value)| !value.is_empty());
        properties.extend(named.map(|(name, value)| (name.to_owned(), value.clone())));
    }
    let (mechanism, user) = match &security.login {
        Login::None => return,
        Login::Plain { user, password } => ("PLAIN", Some((user, password))),
        Login::Scram { is_512: false, user, password } => ("SCRAM-SHA-256", Some((user, password))),
        Login::Scram { is_512: true, user, password } => ("SCRAM-SHA-512", Some((user, password))),
        Login::Token(_) => ("OAUTHBEARER", None),
    };
    add(properties, &[("sasl.mechanisms", mechanism)]);
    if let Some((user, password)) = user {
        add(properties, &[("sasl.username", user), ("sasl.password", password)]);
    }
}

fn finish(settings: &EngineSettings, mut properties: Properties) -> Properties {
    for (name, value) in &settings.properties {
        properties.retain(|(known, _)| known != name);
        properties.push((name.clone(), value.clone()));
    }
    properties
}

fn add(properties: &mut Properties, more: &[(&str, &str)]) {
    properties.extend(more.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::TlsSettings;

    #[test]
    fn librdkafka_takes_the_properties() {
        let settings = EngineSettings::new("127.0.0.1:1");
        kafka::Client::new(kafka::Kind::Consumer, &consumer(&settings)).expect("a consumer");
        kafka::Client::new(kafka::Kind::Producer, &producer(&settings)).expect("a producer");
        kafka::Client::new(kafka::Kind::Producer, &questions(&settings)).expect("a client");
    }

    #[test]
    fn security_is_in_the_properties() {
        let check = |security, expected: &str| {
            let settings = EngineSettings { security, ..EngineSettings::new("h:1") };
            let all = questions(&settings);
            let found = all.iter().filter(|(name, _)| {
                ["sasl.", "ssl.", "security."].iter().any(|prefix| name.starts_with(prefix))
            });
            let found: Vec<_> = found.map(|(name, value)| format!("{name}={value}")).collect();
            assert_eq!(found.join(" "), expected);
        };
        check(Security::default(), "security.protocol=plaintext");
        let login = Login::Plain { user: "u".to_owned(), password: "p".to_owned() };
        check(
            Security { tls: None, login },
            "security.protocol=sasl_plaintext sasl.mechanisms=PLAIN sasl.username=u \
             sasl.password=p",
        );
        let tls = TlsSettings { authorities_file: "ca.pem".to_owned(), ..TlsSettings::default() };
        let login = Login::Scram { is_512: true, user: "u".to_owned(), password: "p".to_owned() };
        check(
            Security { tls: Some(tls), login },
            "security.protocol=sasl_ssl ssl.ca.location=ca.pem sasl.mechanisms=SCRAM-SHA-512 \
             sasl.username=u sasl.password=p",
        );
    }

    #[test]
    fn further_properties_win() {
        let more = vec![("fetch.wait.max.ms".to_owned(), "20".to_owned())];
        let settings = EngineSettings { properties: more, ..EngineSettings::new("h:1") };
        let all = consumer(&settings);
        let found: Vec<_> = all.iter().filter(|(name, _)| name == "fetch.wait.max.ms").collect();
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].1, "20");
    }
}

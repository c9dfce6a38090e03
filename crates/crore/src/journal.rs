//! The access log and the audit log: events of clients from the edges, as log lines.
//!
//! Place: between the node's queue and the log, on a thread of its own. Invariant: events contain
//! no secrets (`broker::journal`), and this module adds none; fields from clients are quoted, so
//! that no field can imitate another line.

use crate::logging::{Level, Log, Target};
use broker::journal::{Client, Entry, Event, Operation};
use broker::mail::Code as ErrorCode;
use node::journal::JournalReceiver;
use std::io;
use std::net::IpAddr;
use std::time::{Duration, UNIX_EPOCH};

/// Writes the events until the node has stopped. The first `plain_count` listeners have no TLS.
///
/// # Errors
/// The system refuses a thread.
pub fn watch(mut receiver: JournalReceiver, plain_count: usize, log: Log) -> io::Result<()> {
    let tell = move || {
        while let Some(batch) = receiver.next_batch() {
            for entry in &batch.entries {
                write(entry, plain_count, log);
            }
            if batch.lost > 0 {
                log.count_left_out(batch.lost);
                log.to(Target::Logging).write(
                    Level::Warn,
                    "Log lines about clients were dropped: the node produced them faster than it could write them.",
                    &[("count", &batch.lost.to_string())],
                );
            }
        }
    };
    let thread = std::thread::Builder::new().name("journal".into());
    thread.spawn(tell).map(|_| ())
}

fn write(entry: &Entry, plain_count: usize, log: Log) {
    let time = UNIX_EPOCH + Duration::from_millis(entry.time_ms);
    let put = |target: Target, level: Level, sentence: &str, fields: &Fields| {
        let fields: Vec<(&str, &str)> =
            fields.0.iter().map(|(name, value)| (*name, value.as_str())).collect();
        log.to(target).write_at(time, level, sentence, &fields);
    };
    match &entry.event {
        Event::Connected(client) => {
            let fields = Fields::of(client, plain_count);
            put(Target::Access, Level::Info, "A client has connected.", &fields);
        }
        Event::Disconnected { client, code, duration_ms } => {
            let mut fields = Fields::of(client, plain_count).and("code", code.to_string());
            if let Some(duration_ms) = duration_ms {
                fields = fields.and("duration_ms", duration_ms.to_string());
            }
            put(Target::Access, Level::Info, "A client has disconnected.", &fields);
        }
        Event::Requested { client, method, path, status, bytes, duration_ms } => {
            let fields = Fields::of(client, plain_count)
                .and("method", or_dash(method))
                .and("path", or_dash(path))
                .and("status", status.to_string())
                .and("bytes", bytes.to_string())
                .and("duration_ms", duration_ms.to_string());
            let level = match status {
                500.. => Level::Warn,
                _ => Level::Info,
            };
            put(Target::Access, level, "A request was answered.", &fields);
        }
        Event::Decided { client, operation, topic, refusal } => {
            let fields = Fields::of_decision(client, plain_count, *operation, topic, *refusal);
            match refusal {
                None => {
                    put(Target::Audit, Level::Info, "An action of a client was permitted.", &fields)
                }
                Some(_) => {
                    put(Target::Audit, Level::Warn, "An action of a client was refused.", &fields)
                }
            }
        }
        Event::OriginRefused { client, origin, count } => {
            let fields = Fields::of(client, plain_count)
                .and("origin", or_dash(origin))
                .and("count", count.to_string());
            put(
                Target::Entitlement,
                Level::Warn,
                "Requests from pages of an origin outside http.allowed_origins were refused.",
                &fields,
            );
        }
        Event::LeftOut { access, audit } => {
            log.count_left_out(access + audit);
            for (target, count) in [(Target::Access, access), (Target::Audit, audit)] {
                if *count > 0 {
                    let fields = Fields::default().and("count", count.to_string());
                    let sentence =
                        "Log lines were dropped: their number exceeded the limit per second.";
                    put(target, Level::Warn, sentence, &fields);
                }
            }
        }
    }
}

/// Names and values of the fields of a line.
#[derive(Default)]
struct Fields(Vec<(&'static str, String)>);

impl Fields {
    fn of(client: &Client, plain_count: usize) -> Fields {
        let address = client.address.map_or("-".into(), |address: IpAddr| address.to_string());
        let mut fields = Fields::default()
            .and("connection", client.connection.to_string())
            .and("transport", client.transport.word().into())
            .and("address", address);
        if let Some(listener) = client.listener {
            let is_tls = usize::from(listener) >= plain_count;
            fields = fields.and("tls", is_tls.to_string());
        }
        match &*client.subject {
            "" => fields,
            subject => fields.and("sub", subject.into()),
        }
    }

    fn of_decision(
        client: &Client,
        plain_count: usize,
        operation: Operation,
        topic: &str,
        refusal: Option<ErrorCode>,
    ) -> Fields {
        let result = if refusal.is_none() { "granted" } else { "denied" };
        let mut fields = Fields::of(client, plain_count)
            .and("result", result.into())
            .and("action", operation.word().into());
        if !topic.is_empty() {
            fields = fields.and("topic", topic.into());
        }
        match refusal {
            None => fields,
            Some(code) => fields.and("reason", code.name().into()),
        }
    }

    fn and(mut self, name: &'static str, value: String) -> Fields {
        self.0.push((name, value));
        self
    }
}

fn or_dash(text: &str) -> String {
    let text = if text.is_empty() { "-" } else { text };
    text.into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::logging::{Format, Levels, Wanted};
    use broker::entitlement::Action;
    use broker::journal::Transport;

    fn client() -> Client {
        Client {
            connection: 7,
            transport: Transport::Native,
            address: Some([10, 0, 0, 1].into()),
            listener: Some(1),
            subject: "an na\nb".into(),
        }
    }

    /// The JSON of the line that comes of an event, with all levels on.
    fn line(event: Event) -> serde_json::Value {
        let mut levels = Levels::new(Level::Debug);
        levels.set(Target::Access, Some(Level::Debug));
        levels.set(Target::Audit, Some(Level::Debug));
        let log = Log::new(Format::Text, &levels);
        write(&Entry { time_ms: 0, event }, 1, log);
        let found =
            log.recent().find(&Wanted { after: 0, level: Level::Debug, target: None, len_max: 2 });
        assert_eq!(found.lines.len(), 1);
        serde_json::from_str(&found.lines[0]).unwrap()
    }

    #[test]
    fn sessions_and_requests() {
        let connected = line(Event::Connected(client()));
        for (name, value) in [
            ("target", "access"),
            ("time", "1970-01-01T00:00:00.000Z"),
            ("connection", "7"),
            ("address", "10.0.0.1"),
            ("transport", "native"),
            ("tls", "true"),
            ("sub", "an na\nb"),
        ] {
            assert_eq!(connected[name], value, "{name}");
        }
        let disconnected =
            line(Event::Disconnected { client: client(), code: 3_004, duration_ms: Some(5) });
        assert_eq!(disconnected["code"], "3004");
        assert_eq!(disconnected["duration_ms"], "5");
        let requested = line(Event::Requested {
            client: client(),
            method: "".into(),
            path: "/a".into(),
            status: 503,
            bytes: 9,
            duration_ms: 1,
        });
        assert_eq!(requested["method"], "-");
        assert_eq!(requested["level"], "warn");
    }

    #[test]
    fn decisions() {
        let denied = line(Event::Decided {
            client: client(),
            operation: Operation::Act(Action::Publish),
            topic: "a/b".into(),
            refusal: Some(ErrorCode::Forbidden),
        });
        for (name, value) in [
            ("target", "audit"),
            ("level", "warn"),
            ("result", "denied"),
            ("action", "publish"),
            ("topic", "a/b"),
            ("reason", "forbidden"),
        ] {
            assert_eq!(denied[name], value, "{name}");
        }
        let granted = line(Event::Decided {
            client: client(),
            operation: Operation::Authenticate,
            topic: "".into(),
            refusal: None,
        });
        assert_eq!(granted["result"], "granted");
        assert_eq!(granted["level"], "info");
        assert!(granted.get("topic").is_none() && granted.get("reason").is_none());
    }

    #[test]
    fn what_was_left_out_is_said() {
        let left_out = line(Event::LeftOut { access: 1_234, audit: 0 });
        assert_eq!(left_out["target"], "access");
        assert_eq!(left_out["count"], "1234");
    }
}

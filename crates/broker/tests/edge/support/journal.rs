//! Entries of an edge about its clients, as text.

use broker::journal::{Client, Entry, Event};

pub fn text(entry: &Entry) -> String {
    match &entry.event {
        Event::Connected(client) => format!("connected {}", name(client)),
        Event::Disconnected { client, code, duration_ms } => {
            let duration = duration_ms.map_or("?".into(), |ms| ms.to_string());
            format!("disconnected {} {code} after {duration} ms", name(client))
        }
        Event::Requested { client, method, path, status, .. } => {
            format!("requested {} {method} {path} {status}", name(client))
        }
        Event::Decided { client, operation, topic, refusal } => {
            let result = refusal.map_or("granted", |code| code.name());
            format!("decided {} {} {topic} {result}", name(client), operation.word())
        }
        Event::OriginRefused { client, origin, count } => {
            format!("origin refused {} {origin} {count}", name(client))
        }
        Event::LeftOut { access, audit } => format!("left out {access} {audit}"),
    }
}

fn name(client: &Client) -> String {
    let address = client.address.map_or("-".into(), |address| address.to_string());
    let listener = client.listener.map_or("-".into(), |listener| listener.to_string());
    let subject = match &*client.subject {
        "" => "nobody",
        subject => subject,
    };
    format!("{} {address}:{listener} {subject}", client.transport.word())
}

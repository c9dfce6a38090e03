//! Output of `mqtt sub`: the words of `crore sub`, for what a message of MQTT has.
//!
//! Invariant: one message is one line, and no payload can move a terminal's cursor.

use crate::commands::messages::{escape, payload_json, payload_text};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};
use std::io::{BufWriter, Stdout, Write};
use wire::mqtt::{Properties, Property, Publish, UserProperty};

/// The form of a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Form {
    /// The payload.
    Payload,
    /// Topic and payload.
    Verbose,
    /// An object.
    Json,
}

/// Standard output.
pub struct Printer {
    output: BufWriter<Stdout>,
    form: Form,
}

impl Printer {
    /// A printer of this form.
    pub fn new(form: Form) -> Printer {
        Printer { output: BufWriter::new(std::io::stdout()), form }
    }

    /// Prints a message.
    ///
    /// # Errors
    /// Standard output fails.
    pub fn print(&mut self, message: &Publish<'_>) -> std::io::Result<()> {
        writeln!(self.output, "{}", line(message, self.form))
    }

    /// Writes everything out.
    ///
    /// # Errors
    /// Standard output fails.
    pub fn flush(&mut self) -> std::io::Result<()> {
        self.output.flush()
    }
}

fn line(message: &Publish<'_>, form: Form) -> String {
    match form {
        Form::Payload => payload_text(message.payload),
        Form::Verbose => format!("{} {}", escape(message.topic), payload_text(message.payload)),
        Form::Json => object(message).to_string(),
    }
}

fn object(message: &Publish<'_>) -> Value {
    let mut object = Map::new();
    object.insert("event".into(), "message".into());
    object.insert("topic".into(), message.topic.into());
    let (key, value) = payload_json(message.payload);
    object.insert(key.into(), value);
    object.insert("qos".into(), (message.delivery.qos() as u8).into());
    object.insert("retain".into(), message.retain.into());
    if !message.properties.is_empty() {
        object.insert("properties".into(), properties(&message.properties));
    }
    Value::Object(object)
}

/// The properties of a message. User properties are pairs: names may repeat, and keep their order.
fn properties(properties: &Properties<'_>) -> Value {
    let mut object = Map::new();
    let mut insert = |name: &str, value: Option<Value>| {
        if let Some(value) = value {
            object.insert(name.to_owned(), value);
        }
    };
    insert("content_type", properties.content_type().map(Value::from));
    insert("payload_is_text", properties.payload_format().map(Value::from));
    insert("expiry_s", properties.message_expiry_s().map(Value::from));
    insert("response_topic", properties.response_topic().map(Value::from));
    let correlation = properties.correlation_data().map(|data| STANDARD.encode(data).into());
    insert("b64correlation", correlation);
    let ids: Vec<u32> = properties.subscription_ids().map(|id| id.get()).collect();
    insert("subscription_ids", (!ids.is_empty()).then(|| json!(ids)));
    let user = properties.iter().filter_map(|property| match property {
        Property::User(UserProperty { name, value }) => Some(json!([name, value])),
        _ => None,
    });
    let user: Vec<Value> = user.collect();
    insert("user", (!user.is_empty()).then_some(Value::Array(user)));
    Value::Object(object)
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::mqtt::Delivery;

    fn check(payload: &[u8], properties: &[Property<'_>], form: Form, expected: &str) {
        let message = Publish {
            delivery: Delivery::Zero,
            retain: true,
            topic: "a/b",
            properties: Properties::from(properties),
            payload,
        };
        assert_eq!(line(&message, form), expected);
    }

    #[test]
    fn a_message_is_one_line() {
        check(b"two\nlines", &[], Form::Payload, "two\\nlines");
        check(b"\x1b[2J", &[], Form::Verbose, "a/b \\u{1b}[2J");
        check(b"\xff\x00", &[], Form::Verbose, "a/b base64:/wA=");
        let plain = r#"{"data":"x","event":"message","qos":0,"retain":true,"topic":"a/b"}"#;
        check(b"x", &[], Form::Json, plain);
    }

    #[test]
    fn objects_have_the_properties() {
        let user = |name, value| Property::User(UserProperty { name, value });
        let properties = [
            Property::ContentType("text/plain"),
            Property::CorrelationData(b"\x01"),
            user("k", "1"),
            user("k", "2"),
        ];
        let expected = r#"{"data":"x","event":"message","properties":{"b64correlation":"AQ==","content_type":"text/plain","user":[["k","1"],["k","2"]]},"qos":0,"retain":true,"topic":"a/b"}"#;
        check(b"x", &properties, Form::Json, expected);
    }
}

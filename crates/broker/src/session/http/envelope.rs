//! The JSON envelope of `POST /publish`: one message or many, each to one topic or many.

use super::fault::Fault;
use super::once::{self, Once};
use super::publish::{PUBLICATIONS_MAX, encode_attributes};
use crate::mail::{IDEMPOTENCY_KEY_BYTES_MAX, PRODUCER_ID_BYTES_MAX};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde::de::{IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fmt;
use std::marker::PhantomData;
use wire::native::{ErrorCode, Tag};

/// `POST /publish`.
enum Envelope<'a> {
    Many(Many<'a>),
    Batch(Batch<'a>),
    One(Item<'a>),
}

#[derive(Deserialize)]
#[serde(transparent)]
struct Many<'a> {
    #[serde(borrow, deserialize_with = "items")]
    items: Vec<Item<'a>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Batch<'a> {
    #[serde(borrow, deserialize_with = "items")]
    batch: Vec<Item<'a>>,
}

/// The maximum number of parsed messages, or topics of one message: one more than permitted. An
/// empty message takes two bytes of a body and a hundred times as much in memory.
const ITEMS_MAX: usize = PUBLICATIONS_MAX + 1;

/// The first [`ITEMS_MAX`] items of a list; what follows is not examined.
fn items<'de, T: Deserialize<'de>, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Vec<T>, D::Error> {
    struct Items<T>(PhantomData<T>);

    impl<'de, T: Deserialize<'de>> Visitor<'de> for Items<T> {
        type Value = Vec<T>;

        fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
            formatter.write_str("a list")
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
            let mut items = Vec::new();
            while items.len() < ITEMS_MAX
                && let Some(item) = list.next_element()?
            {
                items.push(item);
            }
            while list.next_element::<IgnoredAny>()?.is_some() {}
            Ok(items)
        }
    }

    deserializer.deserialize_seq(Items(PhantomData))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Item<'a> {
    #[serde(borrow)]
    topic: Option<Cow<'a, str>>,
    #[serde(default, deserialize_with = "items")]
    topics: Vec<String>,
    #[serde(borrow, default, deserialize_with = "present")]
    data: Option<&'a RawValue>,
    #[serde(borrow)]
    b64data: Option<Cow<'a, str>>,
    #[serde(borrow)]
    content_type: Option<Cow<'a, str>>,
    #[serde(default, deserialize_with = "tags")]
    tags: Vec<(String, String)>,
    #[serde(default)]
    retain: bool,
    #[serde(borrow)]
    idempotency_key: Option<Cow<'a, str>>,
    #[serde(borrow)]
    producer: Option<Producer<'a>>,
    #[serde(borrow)]
    expected_epoch: Option<Epoch<'a>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Producer<'a> {
    #[serde(borrow)]
    id: Cow<'a, str>,
    sequence: u64,
}

/// Answers have it as a string, as it may be beyond what a number holds in JavaScript.
#[derive(Deserialize)]
#[serde(untagged)]
enum Epoch<'a> {
    Text(#[serde(borrow)] Cow<'a, str>),
    Number(u64),
}

/// Keys with a value each, or with a list of them: then the message has the tag once for each.
fn tags<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<(String, String)>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Values {
        One(String),
        Many(Vec<String>),
    }

    struct Tags;

    impl<'de> Visitor<'de> for Tags {
        type Value = Vec<(String, String)>;

        fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
            formatter.write_str("an object of strings, or of lists of strings")
        }

        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
            let mut tags = Vec::new();
            while let Some((key, values)) = map.next_entry::<String, Values>()? {
                match values {
                    Values::One(value) => tags.push((key, value)),
                    Values::Many(values) => {
                        tags.extend(values.into_iter().map(|value| (key.clone(), value)));
                    }
                }
            }
            Ok(tags)
        }
    }

    deserializer.deserialize_map(Tags)
}

/// A member that is there, `null` too: that is a value like any other.
fn present<'de: 'a, 'a, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<&'a RawValue>, D::Error> {
    <&'a RawValue>::deserialize(deserializer).map(Some)
}

/// One message for some topics.
pub(crate) struct Message {
    pub topics: Vec<String>,
    pub payload: Vec<u8>,
    pub attributes: Vec<u8>,
    pub retain: bool,
    pub once: Once,
}

/// The messages of an envelope, and whether it is one message to one topic.
///
/// `all` is what the request's headers say of every message: its key stands for the first one, and
/// with the message's place behind it for each of the others.
pub(crate) fn parse_envelope(body: &[u8], all: &Once) -> Result<(Vec<Message>, bool), Fault> {
    let text = std::str::from_utf8(body).map_err(|_| ErrorCode::MalformedUtf8)?;
    // Of the three forms, the first significant byte and one key decide, so that the error speaks
    // of the right one.
    let first = text.trim_start().as_bytes().first();
    let malformed = |error: serde_json::Error| malformed(&error.to_string());
    let envelope = if first == Some(&b'[') {
        Envelope::Many(serde_json::from_str(text).map_err(malformed)?)
    } else {
        match serde_json::from_str::<Item<'_>>(text) {
            Ok(item) => Envelope::One(item),
            Err(error) => match serde_json::from_str::<Batch<'_>>(text) {
                Ok(batch) => Envelope::Batch(batch),
                Err(of_batch) if text.contains("\"batch\"") => return Err(malformed(of_batch)),
                Err(_) => return Err(malformed(error)),
            },
        }
    };
    let (items, is_list) = match envelope {
        Envelope::Many(Many { items }) | Envelope::Batch(Batch { batch: items }) => (items, true),
        Envelope::One(item) => (vec![item], false),
    };
    let mut messages = Vec::new();
    let mut count = 0;
    for (place, item) in items.into_iter().enumerate() {
        let message = parse_item(place, item, all)?;
        count += message.topics.len();
        if count > PUBLICATIONS_MAX {
            let detail = format!("at most {PUBLICATIONS_MAX} publications in one request");
            return Err(Fault::new(ErrorCode::TooManyTopics, detail));
        }
        messages.push(message);
    }
    let single = !is_list && messages.iter().all(|message| message.topics.len() == 1);
    Ok((messages, single))
}

fn parse_item(place: usize, item: Item<'_>, all: &Once) -> Result<Message, Fault> {
    let mut topics = item.topics;
    let many = !topics.is_empty();
    if let Some(topic) = item.topic {
        if many {
            return Err(malformed("`topic` and `topics` exclude each other"));
        }
        topics.push(topic.into_owned());
    }
    if topics.is_empty() {
        return Err(ErrorCode::TopicRequired.into());
    }
    let mut names = BTreeSet::new();
    if let Some(twice) = topics.iter().find(|topic| !names.insert(topic.as_str())) {
        let detail = format!("`topics` names {twice:?} twice");
        return Err(Fault::new(ErrorCode::RepeatedTopic, detail));
    }
    let once = once_of(place, item.producer, item.idempotency_key, item.expected_epoch, all)?;
    if once.producer.is_some() && topics.len() > 1 {
        // In the log of one partition the second would be taken for a repetition of the first.
        return Err(malformed("a `producer` has one sequence for each topic: one `topic` only"));
    }
    let mut content_type = item.content_type;
    let payload = match (item.data, item.b64data) {
        (Some(_), Some(_)) => {
            return Err(malformed("`data` and `b64data` exclude each other"));
        }
        (None, None) => return Err(ErrorCode::PayloadRequired.into()),
        (None, Some(text)) => BASE64
            .decode(text.as_bytes())
            .map_err(|error| Fault::new(ErrorCode::MalformedJson, format!("`b64data`: {error}")))?,
        // A string is its text; any other value is kept as the JSON that it is.
        (Some(raw), None) => match serde_json::from_str::<Cow<'_, str>>(raw.get()) {
            Ok(text) => text.into_owned().into_bytes(),
            Err(_) => {
                content_type = content_type.or(Some(Cow::Borrowed("application/json")));
                raw.get().as_bytes().to_vec()
            }
        },
    };
    let tags: Vec<Tag<'_>> = item.tags.iter().map(|(key, value)| Tag { key, value }).collect();
    let attributes = encode_attributes(content_type.as_deref(), &tags)?;
    Ok(Message { topics, payload, attributes, retain: item.retain, once })
}

/// The terms of one message: its own fields win over the request's headers.
fn once_of(
    place: usize,
    producer: Option<Producer<'_>>,
    key: Option<Cow<'_, str>>,
    epoch: Option<Epoch<'_>>,
    all: &Once,
) -> Result<Once, Fault> {
    let expected_epoch = match epoch {
        None => all.expected_epoch,
        Some(Epoch::Number(epoch)) => Some(epoch),
        Some(Epoch::Text(text)) => {
            let parsed = once::epoch(&text);
            Some(parsed.ok_or_else(|| malformed("`expected_epoch` is not an epoch"))?)
        }
    };
    let mut once = Once { expected_epoch, ..Once::default() };
    match (producer, key) {
        (Some(_), Some(_)) => {
            return Err(malformed("`producer` and `idempotency_key` exclude each other"));
        }
        (Some(Producer { id, sequence }), None) => {
            if !(1..=PRODUCER_ID_BYTES_MAX).contains(&id.len()) || sequence == 0 {
                let detail = format!(
                    "`producer` has an `id` of 1 to {PRODUCER_ID_BYTES_MAX} bytes and a `sequence` from 1"
                );
                return Err(Fault::new(ErrorCode::MalformedJson, detail));
            }
            once.producer = Some((id.into_owned(), sequence));
        }
        (None, Some(key)) => {
            if !(1..=IDEMPOTENCY_KEY_BYTES_MAX).contains(&key.len()) {
                let detail =
                    format!("`idempotency_key` has 1 to {IDEMPOTENCY_KEY_BYTES_MAX} bytes");
                return Err(Fault::new(ErrorCode::MalformedJson, detail));
            }
            once.idempotency_key = key.into_owned().into_bytes();
        }
        (None, None) => {
            once.idempotency_key.clone_from(&all.idempotency_key);
            if !once.idempotency_key.is_empty() && place > 0 {
                once.idempotency_key.push(0);
                once.idempotency_key.extend_from_slice(place.to_string().as_bytes());
            }
        }
    }
    Ok(once)
}

fn malformed(detail: &str) -> Fault {
    Fault::new(ErrorCode::MalformedJson, detail.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn envelopes() {
        fn check(body: &str, expected: &[(&str, &str)], single: bool) {
            let Ok((messages, is_single)) = parse_envelope(body.as_bytes(), &Once::default())
            else {
                panic!("{body}")
            };
            let found: Vec<(String, String)> = messages
                .iter()
                .map(|m| (m.topics.join(","), String::from_utf8_lossy(&m.payload).into_owned()))
                .collect();
            let expected: Vec<(String, String)> =
                expected.iter().map(|(a, b)| (a.to_string(), b.to_string())).collect();
            assert_eq!((found, is_single), (expected, single), "{body}");
        }
        check(r#"{"topic":"a","data":"hi"}"#, &[("a", "hi")], true);
        check(r#"{"topic":"a","data":"h\"i\n"}"#, &[("a", "h\"i\n")], true);
        check(r#"{"topic":"a","data":{"x": [1]}}"#, &[("a", r#"{"x": [1]}"#)], true);
        check(r#"{"topic":"a","data":null}"#, &[("a", "null")], true);
        check(r#"{"topics":["a","b"],"b64data":"aGk="}"#, &[("a,b", "hi")], false);
        check(
            r#"[{"topic":"a","data":1},{"topic":"b","data":2}]"#,
            &[("a", "1"), ("b", "2")],
            false,
        );
        check(r#"{"batch":[{"topic":"a","data":"","tags":{"k":"v"}}]}"#, &[("a", "")], false);
        check("[]", &[], false);
    }

    /// Items beyond the bound take no memory: the parser does not read them.
    #[test]
    fn a_list_has_a_bound() {
        let items = r#"{"topic":"a","data":1},"#.repeat(5_000);
        for body in
            [format!("[{items}{{\"topic\":7}}]"), format!("{{\"batch\":[{items}{{\"topic\":7}}]}}")]
        {
            let Err(fault) = parse_envelope(body.as_bytes(), &Once::default()) else {
                panic!("5,001 messages are taken");
            };
            // Not malformed, as the last one would be.
            assert_eq!(fault.code, ErrorCode::TooManyTopics);
        }
        let cut = format!("[{items}");
        assert!(parse_envelope(cut.as_bytes(), &Once::default()).is_err());
    }

    /// Producer, key and epoch of each message, given the headers' key and epoch.
    #[test]
    fn once() {
        type Expected = (Option<(&'static str, u64)>, &'static str, Option<u64>);
        fn check(body: &str, key: &str, expected: &[Expected]) {
            let all =
                Once { idempotency_key: key.into(), expected_epoch: Some(7), ..Once::default() };
            let Ok((messages, _)) = parse_envelope(body.as_bytes(), &all) else { panic!("{body}") };
            let found: Vec<_> = messages
                .iter()
                .map(|Message { once, .. }| {
                    let producer = once.producer.as_ref();
                    (
                        producer.map(|(id, sequence)| (id.as_str(), *sequence)),
                        std::str::from_utf8(&once.idempotency_key).unwrap(),
                        once.expected_epoch,
                    )
                })
                .collect();
            assert_eq!(found, expected, "{body}");
        }
        check(r#"{"topic":"a","data":1}"#, "", &[(None, "", Some(7))]);
        check(
            r#"[{"topic":"a","data":1},{"topic":"a","data":1}]"#,
            "k",
            &[(None, "k", Some(7)), (None, "k\u{0}1", Some(7))],
        );
        check(
            r#"[{"topic":"a","data":1},{"topic":"a","data":1,"idempotency_key":"own","expected_epoch":"18446744073709551615"},
                {"topic":"a","data":1,"producer":{"id":"p","sequence":9},"expected_epoch":5}]"#,
            "k",
            &[(None, "k", Some(7)), (None, "own", Some(u64::MAX)), (Some(("p", 9)), "", Some(5))],
        );
    }

    #[test]
    fn malformed_envelopes() {
        fn check(body: &[u8], code: ErrorCode) {
            match parse_envelope(body, &Once::default()) {
                Ok(_) => panic!("{}", String::from_utf8_lossy(body)),
                Err(fault) => assert_eq!(
                    fault.code,
                    code,
                    "{}: {}",
                    String::from_utf8_lossy(body),
                    fault.detail
                ),
            }
        }
        check(b"", ErrorCode::MalformedJson);
        check(b"{", ErrorCode::MalformedJson);
        check(b"\xff", ErrorCode::MalformedUtf8);
        check(br#"{"data":"hi"}"#, ErrorCode::TopicRequired);
        check(br#"{"topic":"a"}"#, ErrorCode::PayloadRequired);
        check(br#"{"topic":"a","data":1,"b64data":""}"#, ErrorCode::MalformedJson);
        check(br#"{"topic":"a","topics":["b"],"data":1}"#, ErrorCode::MalformedJson);
        check(br#"{"topic":"a","b64data":"%%"}"#, ErrorCode::MalformedJson);
        for rest in [
            r#""colour":"red""#,
            r#""idempotency_key":"""#,
            r#""idempotency_key":1"#,
            r#""producer":{"id":"","sequence":1}"#,
            r#""producer":{"id":"p","sequence":0}"#,
            r#""producer":{"id":"p","sequence":-1}"#,
            r#""producer":{"id":"p"}"#,
            r#""producer":{"id":"p","sequence":1},"idempotency_key":"k""#,
            r#""expected_epoch":"x""#,
            r#""expected_epoch":-1"#,
        ] {
            let body = format!(r#"{{"topic":"a","data":1,{rest}}}"#);
            check(body.as_bytes(), ErrorCode::MalformedJson);
        }
        let two = br#"{"topics":["a","b"],"data":1,"producer":{"id":"p","sequence":1}}"#;
        check(two, ErrorCode::MalformedJson);
        let long = format!(
            r#"{{"topic":"a","data":1,"idempotency_key":"{}"}}"#,
            "k".repeat(IDEMPOTENCY_KEY_BYTES_MAX + 1)
        );
        check(long.as_bytes(), ErrorCode::MalformedJson);
        check(br#"{"batch":[{"topic":1}]}"#, ErrorCode::MalformedJson);
        check(
            &[&b"{\"topic\":\"a\",\"data\":"[..], &vec![b'['; 100_000]].concat(),
            ErrorCode::MalformedJson,
        );
    }
}

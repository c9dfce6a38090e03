//! Publishing over HTTP: the raw body to one topic, or the JSON envelope to one or many, singly or in a batch.

use super::State;
use super::http::{Answer, Fault};
use super::json;
use super::route;
use crate::edge::{Edge, flag};
use crate::mail::{Appended, Publication, PublishRefusal, Reply, Request as Letter};
use crate::position::Position;
use crate::topic::TopicName;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde::Deserialize;
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::collections::BTreeMap;
use wire::http::Target;
use wire::http::problem::append_json_string;
use wire::http::request::Request;
use wire::native::{Attributes, ErrorCode, Tag};

/// What is to become of a request's body.
pub(super) enum Intent {
    /// One message to one topic: the body is the payload.
    One {
        topic: String,
        attributes: Vec<u8>,
        retain: bool,
    },
    /// The JSON envelope.
    Envelope,
}

/// Publications of one request that wait for their acknowledgements.
pub(crate) struct Publishing {
    answer: Answer,
    /// By the request number of each; in the order of the request.
    results: Vec<(String, Option<Result<Appended, PublishRefusal>>)>,
    waiting: usize,
    /// One publication to one topic is answered without a list.
    single: bool,
}

/// Content type and tags of one message, in bytes as they are kept.
pub(super) const MAX_TAGS_BYTES: usize = 16 << 10;
/// Publications of one request.
const PUBLICATIONS_MAX: usize = 1_000;

/// `POST /publish`.
#[derive(Deserialize)]
#[serde(untagged)]
enum Envelope<'a> {
    Many(#[serde(borrow)] Vec<Item<'a>>),
    Batch(#[serde(borrow)] Batch<'a>),
    One(#[serde(borrow)] Item<'a>),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Batch<'a> {
    #[serde(borrow)]
    batch: Vec<Item<'a>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Item<'a> {
    #[serde(borrow)]
    topic: Option<Cow<'a, str>>,
    #[serde(default)]
    topics: Vec<String>,
    #[serde(borrow, default, deserialize_with = "present")]
    data: Option<&'a RawValue>,
    #[serde(borrow)]
    b64data: Option<Cow<'a, str>>,
    #[serde(borrow)]
    content_type: Option<Cow<'a, str>>,
    #[serde(default)]
    tags: BTreeMap<String, String>,
    #[serde(default)]
    retain: bool,
}

/// A member that is there, `null` too: that is a value like any other.
fn present<'de: 'a, 'a, D: serde::Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<&'a RawValue>, D::Error> {
    <&'a RawValue>::deserialize(deserializer).map(Some)
}

/// One message for some topics.
struct Message {
    topics: Vec<String>,
    payload: Vec<u8>,
    attributes: Vec<u8>,
    retain: bool,
}

impl Intent {
    /// What `POST /topics/...` asks for.
    pub fn one(topic: String, request: &Request<'_>, target: &Target<'_>) -> Result<Intent, Fault> {
        let retain = route::switch(target, "retain")?;
        // CloudEvents in binary mode: `ce-` headers pass through as tags.
        let mut tags = Vec::new();
        for (name, value) in request.fields.iter() {
            if name.len() > 3 && name[..3].eq_ignore_ascii_case("ce-") {
                let value = std::str::from_utf8(value).map_err(|_| ErrorCode::MalformedUtf8)?;
                tags.push((name.to_ascii_lowercase(), value));
            }
        }
        let tags: Vec<Tag<'_>> = tags.iter().map(|(key, value)| Tag { key, value }).collect();
        let attributes = encode_attributes(request.header_text("content-type"), &tags)?;
        Ok(Intent::One {
            topic,
            attributes,
            retain,
        })
    }
}

impl Edge {
    /// Publishes what a complete body asks for; nothing is published unless all of it can be understood.
    pub(super) fn publish_body(
        &mut self,
        index: u32,
        intent: Intent,
        body: Vec<u8>,
        answer: &Answer,
    ) -> Result<(), Fault> {
        let (messages, single) = match intent {
            Intent::One {
                topic,
                attributes,
                retain,
            } => (
                vec![Message {
                    topics: vec![topic],
                    payload: body,
                    attributes,
                    retain,
                }],
                true,
            ),
            Intent::Envelope => parse_envelope(&body)?,
        };
        let count: usize = messages.iter().map(|message| message.topics.len()).sum();
        if count > PUBLICATIONS_MAX {
            let detail = format!("at most {PUBLICATIONS_MAX} publications in one request");
            return Err(Fault::new(ErrorCode::TooManyTopics, detail));
        }
        for message in &messages {
            for topic in &message.topics {
                TopicName::parse(topic)
                    .map_err(|error| Fault::topic(ErrorCode::MalformedTopic, error))?;
                let (rule, _) = self.settings.locate(topic);
                let rule = &self.settings.rules[usize::from(rule)];
                let limit = rule
                    .message_bytes_max
                    .min(self.settings.limits.message_bytes_max);
                if message.payload.len() > limit as usize {
                    let detail = format!("a message of {topic} has at most {limit} bytes");
                    return Err(Fault::new(ErrorCode::MessageTooLarge, detail));
                }
            }
        }
        let connection = self.slots.key(index);
        let mut results = Vec::with_capacity(count);
        for message in messages {
            let payload = self.mail.copy(&message.payload);
            let attributes = self.mail.copy(&message.attributes);
            for topic in message.topics {
                let (rule, partition) = self.settings.locate(&topic);
                let publication = Publication {
                    topic: self.mail.copy(topic.as_bytes()),
                    attributes: attributes.clone(),
                    payload: payload.clone(),
                    retain: message.retain,
                    ..Publication::default()
                };
                let reply = Some(Reply {
                    connection,
                    request: results.len() as u32,
                });
                self.statistics.publishes += 1;
                self.request(
                    self.settings.home_of(partition),
                    Letter::Publish {
                        partition,
                        rule,
                        reply,
                        publication,
                    },
                );
                results.push((topic, None));
            }
        }
        if results.is_empty() {
            self.answer_json(index, answer, 200, b"{\"results\":[]}");
            return Ok(());
        }
        self.slots[index].set(flag::PAUSED);
        let waiting = results.len();
        self.set_state(
            index,
            State::Publishing(Publishing {
                answer: answer.clone(),
                results,
                waiting,
                single,
            }),
        );
        Ok(())
    }

    pub(super) fn http_published(
        &mut self,
        index: u32,
        request: u32,
        result: Result<Appended, PublishRefusal>,
    ) {
        let Some(State::Publishing(publishing)) = self.state(index) else {
            return;
        };
        if let Some((_, place)) = publishing.results.get_mut(request as usize)
            && place.replace(result).is_none()
        {
            publishing.waiting -= 1;
        }
        if publishing.waiting > 0 {
            return;
        }
        let Some(State::Publishing(publishing)) = self.take_state(index) else {
            return;
        };
        let mut body = Vec::new();
        match &publishing.results[..] {
            [(_, Some(Err(refusal)))] if publishing.single => {
                return self.answer_fault(index, &publishing.answer, &(*refusal).into());
            }
            [(_, Some(Ok(appended)))] if publishing.single => {
                body.push(b'{');
                append_appended(&mut body, appended);
                body.push(b'}');
            }
            results => append_results(&mut body, results),
        }
        self.answer_json(index, &publishing.answer, 200, &body);
    }
}

fn append_results(
    body: &mut Vec<u8>,
    results: &[(String, Option<Result<Appended, PublishRefusal>>)],
) {
    body.extend_from_slice(b"{\"results\":[");
    for (count, (topic, result)) in results.iter().enumerate() {
        body.extend_from_slice(if count > 0 {
            b",{\"topic\":"
        } else {
            b"{\"topic\":"
        });
        append_json_string(body, topic);
        body.push(b',');
        match result {
            Some(Ok(appended)) => append_appended(body, appended),
            Some(Err(refusal)) => append_error(body, *refusal),
            None => append_error(body, ErrorCode::Internal.into()),
        }
        body.push(b'}');
    }
    body.extend_from_slice(b"]}");
}

fn append_appended(body: &mut Vec<u8>, appended: &Appended) {
    let Appended {
        position,
        duplicate,
    } = appended;
    json::append(
        body,
        format_args!(
            "\"epoch\":\"{}\",\"offset\":{},\"duplicate\":{duplicate}",
            position.epoch, position.offset
        ),
    );
}

fn append_error(body: &mut Vec<u8>, PublishRefusal { code, present }: PublishRefusal) {
    json::append(
        body,
        format_args!(
            "\"error\":{{\"code\":\"{}\",\"status\":{},\"temporary\":{},\"detail\":",
            code.name(),
            code.http_status(),
            code.temporary()
        ),
    );
    append_json_string(body, code.text());
    if let Some(Position { epoch, offset }) = present {
        json::append(
            body,
            format_args!(",\"epoch\":\"{epoch}\",\"head\":{offset}"),
        );
    }
    body.push(b'}');
}

/// The messages of an envelope, and whether it is one message to one topic.
fn parse_envelope(body: &[u8]) -> Result<(Vec<Message>, bool), Fault> {
    let text = std::str::from_utf8(body).map_err(|_| ErrorCode::MalformedUtf8)?;
    // Of the three forms, the first significant byte and one key decide, so that the error speaks of the right one.
    let first = text.trim_start().as_bytes().first();
    let malformed =
        |error: serde_json::Error| Fault::new(ErrorCode::MalformedJson, error.to_string());
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
        Envelope::Many(items) | Envelope::Batch(Batch { batch: items }) => (items, true),
        Envelope::One(item) => (vec![item], false),
    };
    let messages: Vec<Message> = items
        .into_iter()
        .map(parse_item)
        .collect::<Result<_, _>>()?;
    let single = !is_list && messages.iter().all(|message| message.topics.len() == 1);
    Ok((messages, single))
}

fn parse_item(item: Item<'_>) -> Result<Message, Fault> {
    let mut topics = item.topics;
    let many = !topics.is_empty();
    if let Some(topic) = item.topic {
        if many {
            return Err(Fault::new(
                ErrorCode::MalformedJson,
                "`topic` and `topics` exclude each other".to_owned(),
            ));
        }
        topics.push(topic.into_owned());
    }
    if topics.is_empty() {
        return Err(ErrorCode::TopicRequired.into());
    }
    let mut content_type = item.content_type;
    let payload = match (item.data, item.b64data) {
        (Some(_), Some(_)) => {
            return Err(Fault::new(
                ErrorCode::MalformedJson,
                "`data` and `b64data` exclude each other".to_owned(),
            ));
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
    let tags: Vec<Tag<'_>> = item
        .tags
        .iter()
        .map(|(key, value)| Tag { key, value })
        .collect();
    let attributes = encode_attributes(content_type.as_deref(), &tags)?;
    Ok(Message {
        topics,
        payload,
        attributes,
        retain: item.retain,
    })
}

fn encode_attributes(content_type: Option<&str>, tags: &[Tag<'_>]) -> Result<Vec<u8>, Fault> {
    let attributes = Attributes {
        content_type,
        tags: tags.into(),
    };
    let mut block = Vec::new();
    if !attributes.is_empty() {
        attributes.encode_block(&mut block);
    }
    if block.len() > MAX_TAGS_BYTES {
        let detail = format!("content type and tags take at most {MAX_TAGS_BYTES} bytes");
        return Err(Fault::new(ErrorCode::TooManyTags, detail));
    }
    Ok(block)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn envelopes() {
        fn check(body: &str, expected: &[(&str, &str)], single: bool) {
            let Ok((messages, is_single)) = parse_envelope(body.as_bytes()) else {
                panic!("{body}")
            };
            let found: Vec<(String, String)> = messages
                .iter()
                .map(|m| {
                    (
                        m.topics.join(","),
                        String::from_utf8_lossy(&m.payload).into_owned(),
                    )
                })
                .collect();
            let expected: Vec<(String, String)> = expected
                .iter()
                .map(|(a, b)| (a.to_string(), b.to_string()))
                .collect();
            assert_eq!((found, is_single), (expected, single), "{body}");
        }
        check(r#"{"topic":"a","data":"hi"}"#, &[("a", "hi")], true);
        check(r#"{"topic":"a","data":"h\"i\n"}"#, &[("a", "h\"i\n")], true);
        check(
            r#"{"topic":"a","data":{"x": [1]}}"#,
            &[("a", r#"{"x": [1]}"#)],
            true,
        );
        check(r#"{"topic":"a","data":null}"#, &[("a", "null")], true);
        check(
            r#"{"topics":["a","b"],"b64data":"aGk="}"#,
            &[("a,b", "hi")],
            false,
        );
        check(
            r#"[{"topic":"a","data":1},{"topic":"b","data":2}]"#,
            &[("a", "1"), ("b", "2")],
            false,
        );
        check(
            r#"{"batch":[{"topic":"a","data":"","tags":{"k":"v"}}]}"#,
            &[("a", "")],
            false,
        );
        check("[]", &[], false);
    }

    #[test]
    fn malformed_envelopes() {
        fn check(body: &[u8], code: ErrorCode) {
            match parse_envelope(body) {
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
        check(
            br#"{"topic":"a","data":1,"b64data":""}"#,
            ErrorCode::MalformedJson,
        );
        check(
            br#"{"topic":"a","topics":["b"],"data":1}"#,
            ErrorCode::MalformedJson,
        );
        check(br#"{"topic":"a","b64data":"%%"}"#, ErrorCode::MalformedJson);
        check(
            br#"{"topic":"a","data":1,"colour":"red"}"#,
            ErrorCode::MalformedJson,
        );
        check(br#"{"batch":[{"topic":1}]}"#, ErrorCode::MalformedJson);
        check(
            &[&b"{\"topic\":\"a\",\"data\":"[..], &vec![b'['; 100_000]].concat(),
            ErrorCode::MalformedJson,
        );
    }
}

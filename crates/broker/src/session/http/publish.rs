//! Publishing over HTTP: the raw body to one topic, or the JSON envelope to one or many, singly or
//! in a batch.

use super::answer::Answer;
use super::fault::Fault;
use super::once::Once;
use super::parameters;
use crate::admission::ATTRIBUTES_BYTES_MAX;
use crate::session::json;

use crate::mail::{Appended, PublishRefusal, Reply};
use crate::position::Position;
use stdx::handing::Hand;
use wire::http::Target;
use wire::http::problem::append_json_string;
use wire::http::request::Request;
use wire::native::{Attributes, ErrorCode, Tag};

/// The use of a request's body.
#[derive(Hand)]
pub(crate) enum Intent {
    /// One message to one topic: the body is the payload.
    One {
        topic: String,
        attributes: Vec<u8>,
        /// The attributes name text because the client has not named a type.
        is_guessed: bool,
        retain: bool,
        once: Once,
    },
    /// The JSON envelope, and the headers' terms of all its messages.
    Envelope(Once),
}

/// Publications of one request that wait for their acknowledgements.
#[derive(Hand)]
pub(crate) struct Publishing {
    pub answer: Answer,
    /// The result of each publication by request number, from `FIRST_REQUEST` on; in the order of
    /// the request.
    pub results: Vec<(String, Option<Result<Appended, PublishRefusal>>)>,
    pub waiting: usize,
    /// One publication to one topic is answered without a list.
    pub single: bool,
}

/// The number of the first publication of a request: all of them wait for their acknowledgements.
pub(crate) const FIRST_REQUEST: u32 = Reply::REFUSALS_ONLY + 1;
/// Publications of one request.
pub(crate) const PUBLICATIONS_MAX: usize = 1_000;

impl Intent {
    /// The intent of `POST /topics/...`.
    pub fn one(topic: String, request: &Request<'_>, target: &Target<'_>) -> Result<Intent, Fault> {
        let retain = parameters::switch(target, "retain")?;
        // CloudEvents in binary mode: `ce-` headers pass through as tags.
        let mut tags = Vec::new();
        for (name, value) in request.fields.iter() {
            if name.len() > 3 && name[..3].eq_ignore_ascii_case("ce-") {
                let value = std::str::from_utf8(value).map_err(|_| ErrorCode::MalformedUtf8)?;
                tags.push((name.to_ascii_lowercase(), value));
            }
        }
        let tags: Vec<Tag<'_>> = tags.iter().map(|(key, value)| Tag { key, value }).collect();
        let content_type = request.header_text("content-type");
        let is_guessed = content_type.is_some_and(is_form);
        let content_type = if is_guessed { Some(TEXT) } else { content_type };
        let attributes = encode_attributes(content_type, &tags)?;
        Ok(Intent::One { topic, attributes, is_guessed, retain, once: Once::of(request)? })
    }

    /// The intent of `POST /publish`.
    pub fn envelope(request: &Request<'_>) -> Result<Intent, Fault> {
        Ok(Intent::Envelope(Once::of(request)?))
    }
}

/// Whether the type is curl's default, which says nothing about the body: text gets the type of
/// text, and other bytes have no type. A real form has a parameter, `; charset=utf-8`.
fn is_form(content_type: &str) -> bool {
    let form = "application/x-www-form-urlencoded";
    content_type.trim_ascii().eq_ignore_ascii_case(form)
}

const TEXT: &str = "text/plain; charset=utf-8";

pub(crate) fn without_type(attributes: &[u8]) -> Result<Vec<u8>, Fault> {
    let tags = Attributes::decode_block(attributes).unwrap_or_default().tags;
    encode_attributes(None, &tags.iter().collect::<Vec<_>>())
}

pub(crate) fn append_results(
    body: &mut Vec<u8>,
    results: &[(String, Option<Result<Appended, PublishRefusal>>)],
) {
    body.extend_from_slice(b"{\"results\":[");
    for (count, (topic, result)) in results.iter().enumerate() {
        body.extend_from_slice(if count > 0 { b",{\"topic\":" } else { b"{\"topic\":" });
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

pub(crate) fn append_appended(body: &mut Vec<u8>, appended: &Appended) {
    let Appended { position, duplicate, .. } = appended;
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
        json::append(body, format_args!(",\"epoch\":\"{epoch}\",\"head\":{offset}"));
    }
    body.push(b'}');
}

pub(crate) fn encode_attributes(
    content_type: Option<&str>,
    tags: &[Tag<'_>],
) -> Result<Vec<u8>, Fault> {
    let attributes = Attributes { content_type, tags: tags.into() };
    let mut block = Vec::new();
    if !attributes.is_empty() {
        attributes.encode_block(&mut block);
    }
    if block.len() > ATTRIBUTES_BYTES_MAX {
        let detail = format!("content type and tags take at most {ATTRIBUTES_BYTES_MAX} bytes");
        return Err(Fault::new(ErrorCode::TooManyTags, detail));
    }
    Ok(block)
}

//! Query parameters: those that a request may have, and their values.
//!
//! Invariant: a parameter that the request's route does not know, or that comes twice, is refused
//! by its name. Otherwise a typing error would be a silent default.

use super::fault::Fault;
use super::route::{self, bad_target};
use crate::journal::start_of;
use crate::mail::Start;
use crate::position::Position;
use crate::settings::LagPolicy;
use std::borrow::Cow;
use stdx::handing::Hand;
use wire::http::Target;
use wire::native::ErrorCode;

/// Parameters of a page of history, and of a long poll.
pub(crate) const OF_TOPIC: &[&str] = &["since", "limit", "reverse", "wait", "data"];
/// Parameters of an event stream of one topic.
pub(crate) const OF_STREAM: &[&str] = &["since", "last", "snapshot", "policy"];
/// Parameters of every event stream: the spellings for the id of the last event.
pub(crate) const LAST_EVENT_ID: &[&str] =
    &["last-event-id", "Last-Event-ID", "lastEventId", "last_event_id"];
/// Parameters of `/events`, beside those of a stream.
pub(crate) const OF_EVENTS: &[&str] = &["topic", "data"];
/// Parameters of `POST /topics/...`.
pub(crate) const OF_PUBLICATION: &[&str] = &["retain"];
/// Maximum bytes of an unknown parameter's name in the refusal.
const NAME_BYTES_MAX: usize = 64;

/// Refuses parameters beside the `known` ones and `token`, and those that come twice.
/// `/topics?topic=` has its topic as one.
pub(crate) fn check(target: &Target<'_>, known: &[&[&str]]) -> Result<(), Fault> {
    let names_topic = route::names_topic(target)?;
    let may_repeat = |name: &str| name == "topic" && !names_topic;
    let mut seen = Vec::new();
    for pair in target.query_pairs() {
        let (name, _) = pair.map_err(bad_target)?;
        let is_known = known.iter().any(|names| names.contains(&&*name))
            || name == "token"
            || name == "topic" && names_topic;
        if !is_known {
            return Err(unknown(&name, known, names_topic));
        }
        if seen.contains(&name) && !may_repeat(&name) {
            return Err(malformed(format!("the parameter `{name}` comes twice")));
        }
        // Of known names; a topic that may be repeated is not collected.
        if !may_repeat(&name) {
            seen.push(name);
        }
    }
    Ok(())
}

fn unknown(name: &str, known: &[&[&str]], names_topic: bool) -> Fault {
    let mut detail =
        format!("there is no parameter `{}` here; known are: ", start_of(name, NAME_BYTES_MAX));
    if names_topic {
        detail.push_str("topic, ");
    }
    for name in known.iter().copied().flatten() {
        // One of its spellings is enough.
        if !LAST_EVENT_ID[1..].contains(name) {
            detail.push_str(name);
            detail.push_str(", ");
        }
    }
    detail.push_str("token");
    let is_of = |names: &[&str]| names.contains(&name) && !known.contains(&names);
    if is_of(OF_STREAM) || is_of(LAST_EVENT_ID) {
        detail.push_str("; event streams have it: `Accept: text/event-stream`");
    } else if is_of(OF_TOPIC) {
        detail.push_str("; pages of history and long polls have it");
    }
    Fault::new(ErrorCode::UnknownParameter, detail)
}

/// The form of JSON payloads in an answer's JSON.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Hand)]
pub(crate) enum DataForm {
    /// A string, like every text.
    #[default]
    Text,
    /// The JSON value itself.
    Json,
}

/// `data=text` or `data=json`.
pub(crate) fn data_form(target: &Target<'_>) -> Result<DataForm, Fault> {
    match value(target, "data")?.as_deref() {
        None | Some("text") => Ok(DataForm::Text),
        Some("json") => Ok(DataForm::Json),
        Some(_) => Err(malformed("`data` is `text` or `json`".to_owned())),
    }
}

/// `since=`, `last=` or `snapshot`; live without them.
pub(crate) fn start(target: &Target<'_>) -> Result<Start, Fault> {
    let since = position(target, "since")?;
    let last = number(target, "last")?;
    let snapshot = switch(target, "snapshot")?;
    match (since, last, snapshot) {
        (None, None, false) => Ok(Start::Live),
        (Some(position), None, false) => Ok(Start::Since(position)),
        (None, Some(count), false) => Ok(Start::Last(count)),
        (None, None, true) => Ok(Start::Snapshot),
        _ => Err(malformed("`since`, `last` and `snapshot` exclude each other".to_owned())),
    }
}

/// `policy=`: what becomes of the stream's topics when the client does not keep up; the rules say
/// it without one.
pub(crate) fn policy(target: &Target<'_>) -> Result<Option<LagPolicy>, Fault> {
    let policy = match value(target, "policy")?.as_deref() {
        None => return Ok(None),
        Some("replay") => LagPolicy::Replay,
        Some("conflate") => LagPolicy::Conflate,
        Some("drop") => LagPolicy::Drop,
        Some("disconnect") => LagPolicy::Disconnect,
        Some(_) => {
            let detail = "`policy` is `replay`, `conflate`, `drop` or `disconnect`";
            return Err(malformed(detail.to_owned()));
        }
    };
    Ok(Some(policy))
}

/// The id of the last event, which browsers cannot send as a header the first time; an empty one
/// counts as none.
pub(crate) fn last_event_id<'a>(target: &Target<'a>) -> Result<Option<Cow<'a, str>>, Fault> {
    for name in LAST_EVENT_ID {
        if let Some(value) = value(target, name)? {
            return Ok(Some(value).filter(|value| !value.is_empty()));
        }
    }
    Ok(None)
}

/// A whole number.
pub(crate) fn number(target: &Target<'_>, name: &str) -> Result<Option<u32>, Fault> {
    let Some(value) = value(target, name)? else {
        return Ok(None);
    };
    let number = value.parse().map_err(|_| {
        let detail = format!("`{name}` is a number from 0 to {}", u32::MAX);
        malformed(detail)
    })?;
    Ok(Some(number))
}

/// Yes or no; present without a value is yes.
pub(crate) fn switch(target: &Target<'_>, name: &str) -> Result<bool, Fault> {
    match value(target, name)?.as_deref() {
        None | Some("false" | "0" | "no") => Ok(false),
        Some("" | "true" | "1" | "yes") => Ok(true),
        Some(_) => Err(malformed(format!("`{name}` is `true` or `false`"))),
    }
}

/// A position.
pub(crate) fn position(target: &Target<'_>, name: &str) -> Result<Option<Position>, Fault> {
    let Some(value) = value(target, name)? else {
        return Ok(None);
    };
    let position = value.parse().map_err(|_| {
        let detail = format!("`{name}` is a position, EPOCH:OFFSET");
        Fault::new(ErrorCode::MalformedPosition, detail)
    })?;
    Ok(Some(position))
}

/// A duration in milliseconds: `25s`, `500ms`, `1m`, or plain seconds.
pub(crate) fn duration_ms(target: &Target<'_>, name: &str) -> Result<Option<u64>, Fault> {
    let Some(value) = value(target, name)? else {
        return Ok(None);
    };
    let split = value.find(|character: char| !character.is_ascii_digit()).unwrap_or(value.len());
    let (digits, unit) = value.split_at(split);
    let unit_ms = match unit {
        "ms" => Some(1),
        "" | "s" => Some(1_000),
        "m" => Some(60_000),
        _ => None,
    };
    let count: Option<u64> = digits.parse().ok();
    let duration_ms = unit_ms.and_then(|unit_ms: u64| count?.checked_mul(unit_ms));
    match duration_ms {
        None => Err(malformed(format!(
            "`{name}` is a duration: 25s, 500ms, 1m, or a number of seconds"
        ))),
        some => Ok(some),
    }
}

fn value<'a>(target: &Target<'a>, name: &str) -> Result<Option<Cow<'a, str>>, Fault> {
    Ok(target.query_value(name).map_err(bad_target)?)
}

fn malformed(detail: String) -> Fault {
    Fault::new(ErrorCode::MalformedParameter, detail)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_parameters() {
        let check = |target: &str, known: &[&[&str]], expected: Result<(), &str>| {
            let found = super::check(&Target::parse(target).unwrap(), known);
            let found = found.map_err(|fault| format!("{} {}", fault.code.name(), fault.detail));
            match (found, expected) {
                (Ok(()), Ok(())) => {}
                (Err(found), Err(expected)) if found.contains(expected) => {}
                (found, _) => panic!("{target}: {found:?}"),
            }
        };
        let unknown = |name: &str| format!("unknown_parameter there is no parameter `{name}`");
        check("/crore", &[], Ok(()));
        check("/crore?token=x", &[], Ok(()));
        check("/crore?x=1", &[], Err(&unknown("x")));
        check("/topics/a?since=1:2&limit=3", &[OF_TOPIC], Ok(()));
        check("/topics/a?topic=b", &[OF_TOPIC], Err(&unknown("topic")));
        check("/topics?topic=a&wait=1", &[OF_TOPIC], Ok(()));
        check("/topics/?topic=a&topic=b", &[OF_TOPIC], Err("comes twice"));
        check("/topics/a?wait=1&wait=2", &[OF_TOPIC], Err("`wait` comes twice"));
        check("/topics/a?last=1", &[OF_TOPIC], Err("event streams have it"));
        check("/topics/a?limit=1", &[OF_STREAM], Err("long polls have it"));
        check("/topics/a?%73ince=1:2", &[OF_TOPIC], Ok(()));
        let events: &[&[&str]] = &[OF_EVENTS, OF_STREAM, LAST_EVENT_ID];
        check("/events?topic=a&topic=b&lastEventId=1", events, Ok(()));
        check(
            "/events?topic=a&start=first",
            events,
            Err("known are: topic, data, since, last, snapshot, policy, last-event-id, token"),
        );
    }

    #[test]
    fn durations() {
        let check = |text: &str, expected: Result<u64, ErrorCode>| {
            let target = format!("/x?wait={text}");
            let found = duration_ms(&Target::parse(&target).unwrap(), "wait");
            let found = found.map(Option::unwrap).map_err(|fault| fault.code);
            assert_eq!(found, expected, "{text}");
        };
        check("25s", Ok(25_000));
        check("500ms", Ok(500));
        check("2", Ok(2_000));
        check("1m", Ok(60_000));
        for bad in ["", "s", "-1s", "1h", "1.5s", "99999999999999999999s"] {
            check(bad, Err(ErrorCode::MalformedParameter));
        }
    }

    #[test]
    fn starts() {
        let check = |query: &str, expected: Result<Start, ErrorCode>| {
            let target = format!("/x?{query}");
            let found = start(&Target::parse(&target).unwrap()).map_err(|fault| fault.code);
            assert_eq!(found, expected, "{query}");
        };
        check("", Ok(Start::Live));
        check("snapshot=0", Ok(Start::Live));
        check("snapshot", Ok(Start::Snapshot));
        check("last=3", Ok(Start::Last(3)));
        check("last=3&snapshot", Err(ErrorCode::MalformedParameter));
        check("since=1:2&last=3", Err(ErrorCode::MalformedParameter));
        check("since=1", Err(ErrorCode::MalformedPosition));
    }
}

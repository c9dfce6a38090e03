//! Where a request goes: its path and query as a [`Route`], and the parameters that several routes share.

use crate::position::Position;
use std::borrow::Cow;
use wire::http::Target;
use wire::http::target::TargetError;
use wire::native::ErrorCode;

/// What a request is for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Route {
    /// `/crore`: the native protocol over WebSocket.
    Native,
    /// `/echo` and `/ws/echo`.
    Echo,
    /// `/topics/` and a name, or `/topics?topic=`.
    Topic(String),
    /// `/publish`.
    Publish,
    /// `/events`.
    Events,
}

impl Route {
    /// The methods that it has, for `Allow`.
    pub fn methods(&self) -> &'static str {
        match self {
            Route::Native | Route::Echo | Route::Events => "GET, OPTIONS",
            Route::Topic(_) => "GET, POST, OPTIONS",
            Route::Publish => "POST, OPTIONS",
        }
    }

    /// The route of a target.
    ///
    /// # Errors
    /// `not_found`, `topic_required`, or `malformed_request` for escapes that do not decode.
    pub fn of(target: &Target<'_>) -> Result<Route, ErrorCode> {
        let path = target.path_decoded().map_err(bad_target)?;
        match &*path {
            "/crore" => Ok(Route::Native),
            "/echo" | "/ws/echo" => Ok(Route::Echo),
            "/publish" => Ok(Route::Publish),
            "/events" => Ok(Route::Events),
            "/topics" | "/topics/" => match target.query_value("topic").map_err(bad_target)? {
                Some(topic) => Ok(Route::Topic(topic.into_owned())),
                None => Err(ErrorCode::TopicRequired),
            },
            path => match path.strip_prefix("/topics/") {
                Some(topic) => Ok(Route::Topic(topic.to_owned())),
                None => Err(ErrorCode::NotFound),
            },
        }
    }
}

/// A query parameter by one of its names.
pub(super) fn parameter<'a>(
    target: &Target<'a>,
    names: &[&str],
) -> Result<Option<Cow<'a, str>>, ErrorCode> {
    for name in names {
        if let Some(value) = target.query_value(name).map_err(bad_target)? {
            return Ok(Some(value));
        }
    }
    Ok(None)
}

/// A whole number of a query parameter.
pub(super) fn number(target: &Target<'_>, name: &str) -> Result<Option<u32>, ErrorCode> {
    match parameter(target, &[name])? {
        None => Ok(None),
        Some(value) => value
            .parse()
            .map(Some)
            .map_err(|_| ErrorCode::MalformedParameter),
    }
}

/// Yes or no of a query parameter; present without a value is yes.
pub(super) fn switch(target: &Target<'_>, name: &str) -> Result<bool, ErrorCode> {
    match parameter(target, &[name])?.as_deref() {
        None | Some("false" | "0" | "no") => Ok(false),
        Some("" | "true" | "1" | "yes") => Ok(true),
        Some(_) => Err(ErrorCode::MalformedParameter),
    }
}

/// A position of a query parameter.
pub(super) fn position(target: &Target<'_>, name: &str) -> Result<Option<Position>, ErrorCode> {
    match parameter(target, &[name])? {
        None => Ok(None),
        Some(value) => value
            .parse()
            .map(Some)
            .map_err(|_| ErrorCode::MalformedPosition),
    }
}

/// A duration of a query parameter in milliseconds: `25s`, `500ms`, `1m`, or plain seconds.
pub(super) fn duration_ms(target: &Target<'_>, name: &str) -> Result<Option<u64>, ErrorCode> {
    let Some(value) = parameter(target, &[name])? else {
        return Ok(None);
    };
    let split = value
        .find(|character: char| !character.is_ascii_digit())
        .unwrap_or(value.len());
    let (digits, unit) = value.split_at(split);
    let unit_ms = match unit {
        "ms" => 1,
        "" | "s" => 1_000,
        "m" => 60_000,
        _ => return Err(ErrorCode::MalformedParameter),
    };
    let count: u64 = digits.parse().map_err(|_| ErrorCode::MalformedParameter)?;
    count
        .checked_mul(unit_ms)
        .map(Some)
        .ok_or(ErrorCode::MalformedParameter)
}

pub(super) fn bad_target(_: TargetError) -> ErrorCode {
    ErrorCode::MalformedRequest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn routes() {
        let check = |target: &str, expected: Result<Route, ErrorCode>| {
            let parsed = Target::parse(target).unwrap();
            assert_eq!(Route::of(&parsed), expected, "{target}");
        };
        check("/crore", Ok(Route::Native));
        check("/echo?x=1", Ok(Route::Echo));
        check("/topics/a/b", Ok(Route::Topic("a/b".into())));
        check("/topics//a/b", Ok(Route::Topic("/a/b".into())));
        check("/topics/a%2Fb%20c", Ok(Route::Topic("a/b c".into())));
        check("/topics?topic=a%2F%2B", Ok(Route::Topic("a/+".into())));
        check("/topics/", Err(ErrorCode::TopicRequired));
        check("/topics/%zz", Err(ErrorCode::MalformedRequest));
        check("/", Err(ErrorCode::NotFound));
        check("/Topics/a", Err(ErrorCode::NotFound));
    }

    #[test]
    fn durations() {
        let check = |text: &str, expected| {
            let target = format!("/x?wait={text}");
            assert_eq!(
                duration_ms(&Target::parse(&target).unwrap(), "wait"),
                expected,
                "{text}"
            );
        };
        check("25s", Ok(Some(25_000)));
        check("500ms", Ok(Some(500)));
        check("2", Ok(Some(2_000)));
        check("1m", Ok(Some(60_000)));
        for bad in ["", "s", "-1s", "1h", "1.5s", "99999999999999999999s"] {
            check(bad, Err(ErrorCode::MalformedParameter));
        }
    }
}

//! Routes of HTTP requests: path and query as a [`Route`]. `parameters` has their other parameters.

use wire::http::target::TargetError;
use wire::http::{Request, Target};
use wire::native::ErrorCode;

/// The target of a request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Route {
    /// `/`: a text for people.
    Greeting,
    /// `/crore`: the native protocol over WebSocket.
    Native,
    /// `/mqtt`: MQTT over WebSocket.
    Mqtt,
    /// `/echo` and `/ws/echo`.
    Echo,
    /// `/topics/` and a name, or `/topics?topic=`.
    Topic(String),
    /// `/retained/` and a name, or `/retained?topic=`: the topic's retained message.
    Retained(String),
    /// `/publish`.
    Publish,
    /// `/events`.
    Events,
    /// `/line`.
    #[cfg(feature = "line-protocol")]
    Line,
}

impl Route {
    /// The methods that it has, for `Allow`.
    pub fn methods(&self) -> &'static str {
        match self {
            Route::Greeting
            | Route::Native
            | Route::Mqtt
            | Route::Echo
            | Route::Events
            | Route::Retained(_) => "GET, OPTIONS",
            Route::Topic(_) => "GET, POST, OPTIONS",
            Route::Publish => "POST, OPTIONS",
            #[cfg(feature = "line-protocol")]
            Route::Line => "GET",
        }
    }

    /// The route of a target.
    ///
    /// # Errors
    /// `not_found`, `topic_required`, or `malformed_request` for escapes that do not decode.
    pub fn of(target: &Target<'_>) -> Result<Route, ErrorCode> {
        let path = target.path_decoded().map_err(bad_target)?;
        match &*path {
            "/" => Ok(Route::Greeting),
            "/crore" => Ok(Route::Native),
            "/mqtt" => Ok(Route::Mqtt),
            "/echo" | "/ws/echo" => Ok(Route::Echo),
            "/publish" => Ok(Route::Publish),
            "/events" => Ok(Route::Events),
            #[cfg(feature = "line-protocol")]
            "/line" => Ok(Route::Line),
            "/topics" | "/topics/" => topic_of(target).map(Route::Topic),
            "/retained" | "/retained/" => topic_of(target).map(Route::Retained),
            path => match path.split_once('/').and_then(|(_, path)| path.split_once('/')) {
                Some(("topics", topic)) => Ok(Route::Topic(topic.to_owned())),
                Some(("retained", topic)) => Ok(Route::Retained(topic.to_owned())),
                _ => Err(ErrorCode::NotFound),
            },
        }
    }
}

/// Whether the client asks for this media type by name.
pub(crate) fn accepts(request: &Request<'_>, media_type: &str) -> bool {
    request.fields.list("accept").any(|element| {
        let name = element.split(|&byte| byte == b';').next().unwrap_or_default();
        name.trim_ascii().eq_ignore_ascii_case(media_type.as_bytes())
    })
}

/// The topic of a path without one: the query names it, for clients and proxies that change paths.
fn topic_of(target: &Target<'_>) -> Result<String, ErrorCode> {
    let topic = target.query_value("topic").map_err(bad_target)?;
    let topic = topic.ok_or(ErrorCode::TopicRequired)?;
    Ok(topic.into_owned())
}

/// Whether the topic stands in the query.
pub(crate) fn names_topic(target: &Target<'_>) -> Result<bool, ErrorCode> {
    let path = target.path_decoded().map_err(bad_target)?;
    Ok(matches!(&*path, "/topics" | "/topics/" | "/retained" | "/retained/"))
}

pub(crate) fn bad_target(_: TargetError) -> ErrorCode {
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
        check("/mqtt", Ok(Route::Mqtt));
        check("/echo?x=1", Ok(Route::Echo));
        check("/topics/a/b", Ok(Route::Topic("a/b".into())));
        check("/topics//a/b", Ok(Route::Topic("/a/b".into())));
        check("/topics/a%2Fb%20c", Ok(Route::Topic("a/b c".into())));
        check("/topics?topic=a%2F%2B", Ok(Route::Topic("a/+".into())));
        check("/topics/", Err(ErrorCode::TopicRequired));
        check("/retained/a/b", Ok(Route::Retained("a/b".into())));
        check("/retained//a", Ok(Route::Retained("/a".into())));
        check("/retained?topic=a", Ok(Route::Retained("a".into())));
        check("/retained/", Err(ErrorCode::TopicRequired));
        check("/x/topics/a", Err(ErrorCode::NotFound));
        check("/topics/%zz", Err(ErrorCode::MalformedRequest));
        check("/", Ok(Route::Greeting));
        check("/index.html", Err(ErrorCode::NotFound));
        check("/Topics/a", Err(ErrorCode::NotFound));
    }
}

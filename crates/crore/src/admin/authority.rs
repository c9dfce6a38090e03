//! Authorization of operators, and the format of refusals.
//!
//! Place: before every route of `/api` except `/api/v1/session` ([`require`]); a new route needs no
//! check of its own.
//!
//! Invariants: a request is permitted by the operators' socket, where the kernel identifies the
//! peer, by an API key with `operate = true`, or by a browser's session. An address is not an
//! identity: a proxy on this machine connects from loopback for any client, and its requests may
//! look like a browser's in every field. If the configuration trusts loopback anyway, a request
//! with signs of a proxy needs a key. A request that changes something has the media type of JSON,
//! so that no web page can make a browser send it without a preflight request (which this port
//! never grants). Refusals are problems (RFC 9457).

use super::arrivals::Arrival;
use super::no_store;
use super::sessions::SignedIn;
use axum::body::{Body, Bytes};
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, Version, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use entitlement::TokenAuthenticator;
use serde_json::Value;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Time limit for a complete request body.
const BODY_WITHIN: Duration = Duration::from_secs(30);

/// Fields that proxies add, in addition to all that begin with `x-forwarded-`.
const PROXY_FIELDS: [&str; 10] = [
    "cf-connecting-ip",
    "client-ip",
    "fastly-client-ip",
    "forwarded",
    "true-client-ip",
    "via",
    "x-client-ip",
    "x-cluster-client-ip",
    "x-original-forwarded-for",
    "x-real-ip",
];

/// The way by which a request arrived.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Way {
    /// TCP, to an address other than loopback.
    Network,
    /// TCP over loopback, to an address of loopback.
    Loopback,
    /// The operators' socket, from a peer that the kernel has identified.
    Socket,
}

/// The authorization of operators.
#[derive(Clone)]
pub struct Authority {
    /// Whether requests over loopback need no key (`operators.api_key`).
    pub trusts_loopback: bool,
    /// Checks API keys.
    pub authenticator: Option<Arc<TokenAuthenticator>>,
}

impl Authority {
    /// Whether a request is permitted.
    pub fn permits(&self, request: &Request) -> bool {
        self.needs_nothing(request)
            || request.extensions().get::<SignedIn>().is_some()
            || self.knows_key(request.headers())
    }

    /// Whether a request is permitted by the way it arrived.
    pub fn needs_nothing(&self, request: &Request) -> bool {
        let arrival = request.extensions().get::<Arrival>();
        let is_local = match arrival.map(|arrival| arrival.way) {
            Some(Way::Socket) => true,
            Some(Way::Loopback) => self.trusts_loopback,
            Some(Way::Network) | None => false,
        };
        is_local && comes_directly(request.version(), request.headers())
    }

    /// Whether a request has an API key that permits it.
    pub fn knows_key(&self, headers: &HeaderMap) -> bool {
        let shown = headers
            .get(header::AUTHORIZATION)
            .and_then(|value| value.as_bytes().strip_prefix(b"Bearer "));
        let may_operate = |authenticator: &Arc<TokenAuthenticator>| {
            shown.is_some_and(|api_key| authenticator.may_operate(api_key, now_s()))
        };
        self.authenticator.as_ref().is_some_and(may_operate)
    }
}

/// Passes permitted requests on.
pub async fn require(State(authority): State<Authority>, request: Request, next: Next) -> Response {
    if !authority.permits(&request) {
        return unauthorized();
    }
    let Some(arrival) = request.extensions().get::<Arrival>().cloned() else {
        return next.run(request).await;
    };
    arrival.works();
    let response = next.run(request).await;
    arrival.has_worked();
    response
}

/// The answer to a request that is not permitted.
pub fn unauthorized() -> Response {
    challenge(
        "an API key with operate = true is required (Authorization: Bearer ...), or the operators' socket; \
         `crore login` makes a link for a browser",
    )
}

/// The answer to a request that is not permitted, with another reason. RFC 9110, section 11.6.1:
/// 401 names a scheme.
pub fn challenge(detail: &str) -> Response {
    let mut answer = problem(StatusCode::UNAUTHORIZED, "unauthorized", detail);
    let scheme = HeaderValue::from_static("Bearer");
    answer.headers_mut().insert(header::WWW_AUTHENTICATE, scheme);
    answer
}

/// Whether a request has no signs of a proxy. This is not a proof: a proxy may add none.
fn comes_directly(version: Version, headers: &HeaderMap) -> bool {
    let is_proxys = |name: &header::HeaderName| {
        name.as_str().starts_with("x-forwarded-") || PROXY_FIELDS.contains(&name.as_str())
    };
    // By default nginx sends requests with HTTP/1.0.
    version == Version::HTTP_11 && !headers.keys().any(is_proxys)
}

/// Checks that a request declares a JSON body.
///
/// # Errors
/// The answer to another request.
pub fn check_json(headers: &HeaderMap) -> Result<(), Box<Response>> {
    let media_type = headers
        .get(header::CONTENT_TYPE)
        .and_then(|value| value.to_str().ok())
        .map(|value| value.split(';').next().unwrap_or("").trim());
    match media_type {
        Some(name) if name.eq_ignore_ascii_case("application/json") => Ok(()),
        _ => Err(Box::new(problem(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            "unsupported_media_type",
            "Content-Type: application/json is required, even without a body",
        ))),
    }
}

/// The JSON body of a request, of at most the given size; `whose` names the bounded content.
///
/// # Errors
/// The answer to an invalid request.
pub async fn json_body(
    headers: &HeaderMap,
    body: Body,
    (bytes_max, whose): (usize, &str),
) -> Result<Bytes, Box<Response>> {
    check_json(headers)?;
    let read = tokio::time::timeout(BODY_WITHIN, axum::body::to_bytes(body, bytes_max));
    let refused = |status, code, detail: &str| Box::new(problem(status, code, detail));
    match read.await {
        Ok(Ok(bytes)) => Ok(bytes),
        Ok(Err(_)) => {
            let detail = format!("the body exceeds the size of {whose}");
            let status = StatusCode::PAYLOAD_TOO_LARGE;
            Err(refused(status, "body_too_large", &detail))
        }
        Err(_) => {
            let detail = format!("the body did not arrive within {} s", BODY_WITHIN.as_secs());
            let status = StatusCode::REQUEST_TIMEOUT;
            Err(refused(status, "request_timeout", &detail))
        }
    }
}

/// The answer for an error.
pub fn problem(status: StatusCode, code: &str, detail: &str) -> Response {
    problem_with(status, code, detail, &[])
}

/// The answer for an error, with further members.
pub fn problem_with(
    status: StatusCode,
    code: &str,
    detail: &str,
    members: &[(&str, Value)],
) -> Response {
    let mut body = serde_json::json!({
        "type": "about:blank",
        "title": status.canonical_reason().unwrap_or_default(),
        "status": status.as_u16(),
        "detail": detail,
        "code": code,
    });
    for (name, value) in members {
        body[*name] = value.clone();
    }
    let headers = no_store("application/problem+json");
    (status, headers, format!("{body}\n")).into_response()
}

/// The wall clock, seconds since 1970.
pub fn now_s() -> u64 {
    let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH);
    since_1970.unwrap_or_default().as_secs()
}

#[cfg(test)]
mod tests {
    use super::*;
    use broker::entitlement::{NEVER, Permissions};
    use entitlement::AuthenticatorSettings;
    use entitlement::api_keys::{ApiKey, new_api_key, sha256};
    use entitlement::notices::Notices;
    use entitlement::revocations::Revocations;

    fn authenticator(secret: &str, operates: bool) -> Arc<TokenAuthenticator> {
        let settings = AuthenticatorSettings {
            api_keys: vec![ApiKey {
                name: "operator".into(),
                sha256: sha256(secret.as_bytes()),
                expires_s: NEVER,
                permissions: Permissions::default(),
                operates,
            }],
            ..AuthenticatorSettings::default()
        };
        let (notices, _) = Notices::new();
        let revocations = Revocations::default();
        Arc::new(TokenAuthenticator::new(settings, revocations, 0, None, notices))
    }

    /// A request over loopback as curl makes it, with a field more.
    fn request(field: Option<(&'static str, &str)>) -> Request {
        let mut request = Request::builder().header("host", "127.0.0.1:8801");
        if let Some((name, value)) = field {
            request = request.header(name, value);
        }
        let mut request = request.body(Body::empty()).unwrap();
        let arrival = Arrival::of(Way::Loopback);
        request.extensions_mut().insert(arrival);
        request
    }

    #[test]
    fn a_key_or_a_session_or_the_socket() {
        let secret = new_api_key().unwrap();
        let check = |authenticator: Option<Arc<TokenAuthenticator>>, shown: Option<String>| {
            let authority = Authority { trusts_loopback: false, authenticator };
            authority.permits(&request(shown.as_deref().map(|shown| ("authorization", shown))))
        };
        let bearer = || Some(format!("Bearer {}", *secret));
        assert!(check(Some(authenticator(&secret, true)), bearer()));
        assert!(!check(None, bearer()));
        assert!(!check(Some(authenticator(&secret, false)), bearer()));
        for shown in [
            None,
            Some("Bearer ".into()),
            Some("Bearer crore_".into()),
            Some(secret.to_string()),
            Some(format!("Basic {}", *secret)),
            Some(format!("Bearer {}x", *secret)),
        ] {
            assert!(!check(Some(authenticator(&secret, true)), shown));
        }
        let authority = Authority { trusts_loopback: false, authenticator: None };
        let mut by_session = request(None);
        by_session.extensions_mut().insert(SignedIn);
        assert!(authority.permits(&by_session));
        let mut by_socket = request(None);
        by_socket.extensions_mut().insert(Arrival::of(Way::Socket));
        assert!(authority.permits(&by_socket));
    }

    /// A request that a proxy has forwarded has no local rights, not even over loopback or the
    /// socket.
    #[test]
    fn what_a_proxy_passes_on_is_not_local() {
        let authority = Authority { trusts_loopback: true, authenticator: None };
        for (way, may) in [(Way::Loopback, true), (Way::Socket, true), (Way::Network, false)] {
            let mut plain = request(Some(("user-agent", "curl")));
            plain.extensions_mut().insert(Arrival::of(way));
            assert_eq!(authority.permits(&plain), may, "{way:?}");
            let mut old = request(None);
            old.extensions_mut().insert(Arrival::of(way));
            *old.version_mut() = Version::HTTP_10;
            assert!(!authority.permits(&old), "{way:?}");
            let more = ["x-forwarded-for", "x-forwarded-proto", "x-forwarded-whatever"];
            for name in PROXY_FIELDS.into_iter().chain(more) {
                let mut passed_on = request(Some((name, "")));
                passed_on.extensions_mut().insert(Arrival::of(way));
                assert!(!authority.permits(&passed_on), "{way:?} {name}");
            }
        }
    }

    #[test]
    fn bodies_are_json_by_their_media_type() {
        let status = |media_type: Option<&str>| {
            let mut headers = HeaderMap::new();
            if let Some(media_type) = media_type {
                headers.insert(header::CONTENT_TYPE, media_type.parse().unwrap());
            }
            check_json(&headers).err().map(|answer| answer.status())
        };
        for good in ["application/json", "Application/JSON; charset=utf-8"] {
            assert_eq!(status(Some(good)), None, "{good}");
        }
        for bad in [
            None,
            Some("text/plain"),
            Some("application/jsonp"),
            Some("application/x-www-form-urlencoded"),
        ] {
            let refused = Some(StatusCode::UNSUPPORTED_MEDIA_TYPE);
            assert_eq!(status(bad), refused, "{bad:?}");
        }
    }
}

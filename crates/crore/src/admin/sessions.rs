//! `/api/v1/session`: a browser sends an operator's API key or the secret of a link once, and gets
//! a cookie for a session.
//!
//! Place: before the routes. A request with the cookie of a session gets the session's key as its
//! `Authorization`, or [`SignedIn`], so that [`Authority`] needs no cookies. An operator who is
//! already permitted requests a link (`crore login`, through the operators' socket), so that a
//! browser on the node's machine needs no API key.
//!
//! Invariants: a cookie is random, and looked up by its hash, so that the time of a comparison
//! reveals nothing; it is `HttpOnly` and `SameSite=Strict`; a request that changes something must
//! have this port's origin. A key is checked again at each request: a revoked or expired key ends
//! its sessions. Sessions end after [`SESSION_MAX`], and there are at most [`SESSIONS_MAX`]. A link
//! is valid for one session, within [`LINK_MAX`]; there are at most [`LINKS_MAX`] unused links.

use super::authority::{Authority, challenge, check_json, json_body, problem, unauthorized};
use super::{answer, no_store};
use crate::logging::{Level, Log};
use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use entitlement::api_keys::{new_api_key, sha256};
use serde::Deserialize;
use serde_json::json;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use zeroize::Zeroizing;

/// Maximum duration of a session.
const SESSION_MAX: Duration = Duration::from_secs(12 * 60 * 60);
/// Maximum number of sessions; a further one ends the oldest.
const SESSIONS_MAX: usize = 1_000;
/// Time for which a link is valid.
const LINK_MAX: Duration = Duration::from_secs(60 * 60);
/// Maximum number of unused links; a further one invalidates the oldest.
const LINKS_MAX: usize = 16;
/// Maximum size of a body, in bytes.
const BODY_BYTES_MAX: usize = 4 << 10;
/// Maximum size of an API key, in bytes.
const API_KEY_BYTES_MAX: usize = 512;
/// The cookie's name.
const COOKIE: &str = "crore_operator";

/// Marks a request of a browser that has logged in with a link.
#[derive(Clone)]
pub struct SignedIn;

struct Session {
    /// The key; none if the browser has logged in with a link.
    api_key: Option<Zeroizing<String>>,
    ends: Instant,
}

/// All sessions, by the hashes of their cookies, and the unused links.
#[derive(Default)]
pub struct Sessions(Mutex<Known>);

#[derive(Default)]
struct Known {
    sessions: BTreeMap<[u8; 32], Session>,
    /// Links by the hashes of their secrets, the oldest first.
    links: Vec<([u8; 32], Instant)>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "snake_case")]
enum Asked {
    ApiKey(String),
    Link(String),
}

/// The objects of the routes.
#[derive(Clone)]
pub struct Entrance {
    /// The authorization of operators.
    pub authority: Authority,
    /// The sessions.
    pub sessions: Arc<Sessions>,
    /// Further origins of browsers, which reach the port through a proxy.
    pub origins: Arc<[String]>,
    /// The base of links: the port's own origin.
    pub own_url: Arc<str>,
    /// The log for logins.
    pub log: Log,
}

/// The routes of browsers that are not logged in.
pub fn routes(entrance: Entrance) -> Router {
    Router::new().route("/api/v1/session", get(show).post(begin).delete(end)).with_state(entrance)
}

/// The route by which operators request links.
pub fn routes_of_links(entrance: Entrance) -> Router {
    Router::new().route("/api/v1/session/link", post(link)).with_state(entrance)
}

/// Whether the request is permitted, and whether that requires a key.
async fn show(State(entrance): State<Entrance>, request: Request) -> Response {
    let body = json!({
        "needs_api_key": !entrance.authority.needs_nothing(&request),
        "may_operate": entrance.authority.permits(&request),
    });
    (no_store("application/json"), format!("{body}\n")).into_response()
}

async fn link(State(entrance): State<Entrance>, headers: HeaderMap) -> Response {
    if let Err(refused) = check_json(&headers) {
        return *refused;
    }
    let Some(url) = entrance.sessions.link(&entrance.own_url) else {
        return without_randomness();
    };
    let sentence = "An operator has requested a login link.";
    entrance.log.write(Level::Info, sentence, &[]);
    let body = json!({"url": *url, "expires_in_s": LINK_MAX.as_secs()});
    answer(StatusCode::CREATED, &body)
}

async fn begin(State(entrance): State<Entrance>, headers: HeaderMap, body: Body) -> Response {
    let bytes = match json_body(&headers, body, (BODY_BYTES_MAX, "an API key")).await {
        Ok(bytes) => bytes,
        Err(refused) => return *refused,
    };
    // Serde's error might contain the key.
    let api_key = match serde_json::from_slice(&bytes) {
        Ok(Asked::ApiKey(api_key)) => {
            let api_key = Zeroizing::new(api_key);
            let Some(shown) = bearer(&api_key) else {
                let detail = "an API key must have 1 to 512 printable ASCII characters";
                return problem(StatusCode::BAD_REQUEST, "bad_request", detail);
            };
            let mut as_header = HeaderMap::new();
            as_header.insert(header::AUTHORIZATION, shown);
            if !entrance.authority.knows_key(&as_header) {
                return unauthorized();
            }
            Some(api_key)
        }
        Ok(Asked::Link(secret)) => {
            if entrance.sessions.use_up(&Zeroizing::new(secret)) {
                None
            } else {
                return challenge(
                    "this link was already used, has expired, or is from before the node's last start: `crore login` prints a new one",
                );
            }
        }
        Err(_) => {
            let detail = "expected `{\"api_key\": \"...\"}` or `{\"link\": \"...\"}`";
            return problem(StatusCode::BAD_REQUEST, "bad_request", detail);
        }
    };
    let Some(cookie) = entrance.sessions.begin(api_key) else {
        return without_randomness();
    };
    let sentence = "An operator has logged in.";
    entrance.log.write(Level::Info, sentence, &[]);
    let age_s = SESSION_MAX.as_secs();
    let secure = if came_by_tls(&headers) { "; Secure" } else { "" };
    set_cookie(&format!(
        "{COOKIE}={}; Path=/; HttpOnly; SameSite=Strict; Max-Age={age_s}{secure}",
        *cookie
    ))
}

async fn end(State(entrance): State<Entrance>, headers: HeaderMap) -> Response {
    if let Some(cookie) = cookie_of(&headers) {
        let mut known = entrance.sessions.open();
        known.sessions.remove(&sha256(cookie.as_bytes()));
    }
    set_cookie(&format!("{COOKIE}=; Path=/; HttpOnly; SameSite=Strict; Max-Age=0"))
}

/// Adds a session's key to the request.
pub async fn speak_for(
    State(entrance): State<Entrance>,
    mut request: Request,
    next: Next,
) -> Response {
    let is_silent = !request.headers().contains_key(header::AUTHORIZATION);
    if is_silent
        && let Some(cookie) = cookie_of(request.headers())
        && comes_from_here(request.method(), request.headers(), &entrance.origins)
        && let Some(shown) = entrance.sessions.shown_by(cookie)
    {
        match shown {
            Some(shown) => {
                request.headers_mut().insert(header::AUTHORIZATION, shown);
            }
            None => {
                request.extensions_mut().insert(SignedIn);
            }
        }
    }
    next.run(request).await
}

impl Sessions {
    /// Creates a link for one browser. None: the system provides no random numbers.
    pub fn link(&self, own_url: &str) -> Option<Zeroizing<String>> {
        let secret = new_api_key()?;
        let links = &mut self.open().links;
        let now = Instant::now();
        links.retain(|(_, ends)| *ends > now);
        if links.len() >= LINKS_MAX {
            links.remove(0);
        }
        links.push((sha256(secret.as_bytes()), now + LINK_MAX));
        // Browsers send the part after `#` to no server, so it is in no log.
        Some(Zeroizing::new(format!("{own_url}/admin#link={}", *secret)))
    }

    /// Uses up the link with this secret, and returns whether it was valid.
    fn use_up(&self, secret: &str) -> bool {
        let links = &mut self.open().links;
        let hash = sha256(secret.as_bytes());
        let found = links.iter().position(|(of, _)| *of == hash);
        found.is_some_and(|place| links.remove(place).1 > Instant::now())
    }

    /// Begins a session and returns its cookie.
    fn begin(&self, api_key: Option<Zeroizing<String>>) -> Option<Zeroizing<String>> {
        let cookie = new_api_key()?;
        let sessions = &mut self.open().sessions;
        let now = Instant::now();
        sessions.retain(|_, session| session.ends > now);
        if sessions.len() >= SESSIONS_MAX
            && let Some(oldest) =
                sessions.iter().min_by_key(|(_, session)| session.ends).map(|(hash, _)| *hash)
        {
            sessions.remove(&oldest);
        }
        let ends = now + SESSION_MAX;
        sessions.insert(sha256(cookie.as_bytes()), Session { api_key, ends });
        Some(cookie)
    }

    /// The key of an existing session; none if it began with a link.
    fn shown_by(&self, cookie: &str) -> Option<Option<HeaderValue>> {
        let known = self.open();
        let session = known.sessions.get(&sha256(cookie.as_bytes()))?;
        let api_key = session.api_key.as_ref();
        (session.ends > Instant::now()).then(|| api_key.and_then(|api_key| bearer(api_key)))
    }

    fn open(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Parses a key; none if its form is invalid.
fn bearer(api_key: &str) -> Option<HeaderValue> {
    let is_printable = api_key.bytes().all(|byte| byte.is_ascii_graphic());
    if !is_printable || !(1..=API_KEY_BYTES_MAX).contains(&api_key.len()) {
        return None;
    }
    let text = Zeroizing::new(format!("Bearer {api_key}"));
    let mut value = HeaderValue::from_str(&text).ok()?;
    value.set_sensitive(true);
    Some(value)
}

/// Reading is harmless, because no other page sees the answer. Other requests must have this port's
/// own origin, which is without TLS, or a configured origin of a proxy.
fn comes_from_here(method: &Method, headers: &HeaderMap, origins: &[String]) -> bool {
    if matches!(*method, Method::GET | Method::HEAD) {
        return true;
    }
    let text = |name| headers.get(name).and_then(|value| value.to_str().ok());
    let (Some(origin), Some(host)) = (text(header::ORIGIN), text(header::HOST)) else {
        return false;
    };
    let names_host = |origin: &str| {
        let authority = origin.split_once("://").map(|(_, authority)| authority);
        authority.is_some_and(|authority| authority.eq_ignore_ascii_case(host))
    };
    let is_listed = origins.iter().any(|one| one.eq_ignore_ascii_case(origin));
    // A proxied host has its own origin only with the listed scheme.
    let is_proxys = origins.iter().any(|one| names_host(one));
    let is_own = origin.starts_with("http://") && names_host(origin);
    is_listed || is_own && !is_proxys
}

/// Whether the browser reached a proxy in front of this port by TLS, according to the browser or
/// the proxy.
fn came_by_tls(headers: &HeaderMap) -> bool {
    let told = headers.get("x-forwarded-proto");
    let origin = headers.get(header::ORIGIN);
    told.is_some_and(|value| value.as_bytes().eq_ignore_ascii_case(b"https"))
        || origin.is_some_and(|value| value.as_bytes().starts_with(b"https://"))
}

fn cookie_of(headers: &HeaderMap) -> Option<&str> {
    let fields = headers.get_all(header::COOKIE).iter();
    fields
        .filter_map(|field| field.to_str().ok())
        .flat_map(|field| field.split(';'))
        .filter_map(|pair| pair.trim().split_once('='))
        .find_map(|(name, value)| (name == COOKIE).then_some(value))
}

fn without_randomness() -> Response {
    let detail = "the system provides no random numbers";
    problem(StatusCode::INTERNAL_SERVER_ERROR, "internal", detail)
}

fn set_cookie(cookie: &str) -> Response {
    match HeaderValue::from_str(cookie) {
        Ok(mut value) => {
            value.set_sensitive(true);
            let headers = [
                (header::SET_COOKIE, value),
                (header::CACHE_CONTROL, HeaderValue::from_static("no-store")),
            ];
            (StatusCode::NO_CONTENT, headers).into_response()
        }
        Err(_) => problem(
            StatusCode::INTERNAL_SERVER_ERROR,
            "internal",
            "the cookie could not be created",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(text: &str) -> Option<Zeroizing<String>> {
        Some(Zeroizing::new(text.into()))
    }

    #[test]
    fn a_link_is_good_for_one_session() {
        let sessions = Sessions::default();
        let secret_of = |url: &str| url.split_once("/admin#link=").unwrap().1.to_owned();
        let link = || secret_of(&sessions.link("http://127.0.0.1:8801").unwrap());
        let first = link();
        assert!(!sessions.use_up(""));
        assert!(sessions.use_up(&first));
        assert!(!sessions.use_up(&first));
        let cookie = sessions.begin(None).unwrap();
        assert!(matches!(sessions.shown_by(&cookie), Some(None)));
        assert!(sessions.shown_by("x").is_none());
        // The oldest gives way.
        let links: Vec<String> = (0..=LINKS_MAX).map(|_| link()).collect();
        assert!(!sessions.use_up(&links[0]));
        assert!(sessions.use_up(&links[1]));
        for (_, ends) in &mut sessions.open().links {
            *ends = Instant::now();
        }
        assert!(!sessions.use_up(&links[2]));
    }

    #[test]
    fn a_cookie_stands_for_its_key_until_the_session_ends() {
        let sessions = Sessions::default();
        let cookie = sessions.begin(key("crore_one")).unwrap();
        let other = sessions.begin(key("crore_two")).unwrap();
        assert_ne!(*cookie, *other);
        let shown = sessions.shown_by(&cookie).unwrap().unwrap();
        assert_eq!(shown.as_bytes(), b"Bearer crore_one");
        assert!(!format!("{shown:?}").contains("crore_one"));
        for stranger in ["", "x", &cookie[1..]] {
            assert!(sessions.shown_by(stranger).is_none());
        }
        for session in sessions.open().sessions.values_mut() {
            session.ends = Instant::now();
        }
        assert!(sessions.shown_by(&cookie).is_none());
    }

    #[test]
    fn there_are_so_many_sessions_and_no_more() {
        let sessions = Sessions::default();
        let first = sessions.begin(key("crore_one")).unwrap();
        for _ in 0..SESSIONS_MAX {
            sessions.begin(key("crore_one")).unwrap();
        }
        assert_eq!(sessions.open().sessions.len(), SESSIONS_MAX);
        assert!(sessions.shown_by(&first).is_none());
    }

    #[test]
    fn only_this_origin_changes_anything() {
        let check = |method: Method, origin: Option<&str>, host: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(header::HOST, host.parse().unwrap());
            if let Some(origin) = origin {
                headers.insert(header::ORIGIN, origin.parse().unwrap());
            }
            comes_from_here(&method, &headers, &["https://ops.example".into()])
        };
        assert!(check(Method::GET, None, "a:1"));
        assert!(check(Method::POST, Some("http://a:1"), "a:1"));
        assert!(check(Method::DELETE, Some("http://A:1"), "a:1"));
        assert!(!check(Method::POST, Some("http://ops.example"), "ops.example"));
        assert!(check(Method::POST, Some("https://ops.example"), "ops.example"));
        // Through the proxy that the configuration names, whatever it says the host is.
        assert!(check(Method::DELETE, Some("https://OPS.example"), "a:1"));
        for origin in [
            None,
            Some("https://a:1"),
            Some("http://ops.example"),
            Some("null"),
            Some("http://evil.example"),
            Some("http://a"),
        ] {
            assert!(!check(Method::POST, origin, "a:1"), "{origin:?}");
        }
    }

    #[test]
    fn the_cookie_among_others() {
        let mut headers = HeaderMap::new();
        headers.append(header::COOKIE, "a=b; crore_operator=xyz; c=d".parse().unwrap());
        assert_eq!(cookie_of(&headers), Some("xyz"));
        let mut other = HeaderMap::new();
        other.append(header::COOKIE, "crore_operator2=xyz".parse().unwrap());
        assert_eq!(cookie_of(&other), None);
    }
}

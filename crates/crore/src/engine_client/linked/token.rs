//! Tokens by which the node proves its identity to brokers: from a file that another program
//! renews, or from an OAuth 2 server for client credentials (RFC 6749, section 4.4).
//!
//! A source may wait for the server, so it is never called on a thread that serves messages.

use ::engine::{Token, TokenSource};
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use entitlement::https;
use fetch::{Request, Url};
use node::engine::{EngineToken, EngineTokenServer};
use serde::Deserialize;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Time limit for an answer of the server.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);
/// Bytes of a token and of a server's answer.
const BYTES_MAX: u64 = 64 << 10;
/// The life of a token that does not tell its end, in milliseconds: then it is read again.
const UNTOLD_LIFE_MS: u64 = 60_000;

/// The source of tokens.
///
/// # Errors
/// The URL is not valid, or the trusted certificates cannot be read.
pub fn source(token: &EngineToken) -> Result<TokenSource, String> {
    match token {
        EngineToken::File(file) => {
            let file = file.clone();
            Ok(Arc::new(move || of_file(&file)))
        }
        EngineToken::Server(server) => {
            let server = Server::of(server)?;
            Ok(Arc::new(move || server.request()))
        }
    }
}

fn of_file(file: &Path) -> Result<Token, String> {
    let text = read(file, "oauth_token_file")?;
    let token = token(text, None, &file.display().to_string());
    if token.expires_ms <= now_ms() {
        return Err(format!("the token in {} has expired", file.display()));
    }
    Ok(token)
}

/// A token with its end and the user's name, which its claims have if it is a JWT. The engine's
/// brokers verify it, not this node.
fn token(text: String, expires_ms: Option<u64>, source: &str) -> Token {
    let claims = text.split('.').nth(1).and_then(|part| URL_SAFE_NO_PAD.decode(part).ok());
    let claims: Claims =
        claims.and_then(|json| serde_json::from_slice(&json).ok()).unwrap_or_default();
    let told_ms = claims.exp.map(|seconds| (seconds.max(0.0) * 1e3) as u64);
    let expires_ms = expires_ms.or(told_ms).unwrap_or_else(|| now_ms() + UNTOLD_LIFE_MS);
    let principal = claims.sub.filter(|sub| !sub.is_empty()).unwrap_or_else(|| source.to_owned());
    Token { text, principal, expires_ms }
}

#[derive(Default, Deserialize)]
struct Claims {
    exp: Option<f64>,
    sub: Option<String>,
}

/// An OAuth 2 server.
struct Server {
    url: Url,
    settings: EngineTokenServer,
    tls: Arc<https::ClientConfig>,
}

/// The server's answer (RFC 6749, sections 5.1 and 5.2).
#[derive(Default, Deserialize)]
struct Granted {
    access_token: Option<String>,
    expires_in: Option<f64>,
    error: Option<String>,
    error_description: Option<String>,
}

impl Server {
    fn of(settings: &EngineTokenServer) -> Result<Server, String> {
        let url = Url::parse(&settings.url).ok_or("[engine] oauth_url: not a URL")?;
        let roots = settings.ca_file.clone().map_or(tls::Roots::System, tls::Roots::File);
        let roots = if url.is_https { Some(&roots) } else { None };
        let tls = tls::plain_client(roots).map_err(|error| {
            format!("[engine] oauth_ca_file: {}: {}", error.file.display(), error.problem)
        })?;
        Ok(Server { url, settings: settings.clone(), tls })
    }

    fn request(&self) -> Result<Token, String> {
        let secret = read(&self.settings.client_secret_file, "oauth_client_secret_file")?;
        let credentials = format!("{}:{}", encoded(&self.settings.client_id), encoded(&secret));
        let authorization = format!("Basic {}", STANDARD.encode(credentials));
        let mut body = "grant_type=client_credentials".to_owned();
        if let Some(scope) = &self.settings.scope {
            body += &format!("&scope={}", encoded(scope));
        }
        let request = Request {
            method: "POST",
            fields: &[
                ("Accept", "application/json"),
                ("Authorization", &authorization),
                ("Content-Type", "application/x-www-form-urlencoded"),
                ("User-Agent", "crore"),
            ],
            body: body.as_bytes(),
            ..Request::get(&self.url.authority, &self.url.target)
        };
        let asked_ms = now_ms();
        let answer = https::ask(&self.url, &self.tls, &request, (ANSWER_TIMEOUT, BYTES_MAX));
        let answer = answer.map_err(|reason| format!("{}: {reason}", self.settings.url))?;
        let granted: Granted = serde_json::from_slice(&answer.body).unwrap_or_default();
        let Some(text) = granted.access_token.filter(|_| answer.status == 200) else {
            let reason = granted.error_description.or(granted.error).unwrap_or_default();
            let status = answer.status;
            return Err(format!("{} answers {status}: {reason}", self.settings.url));
        };
        let expires_ms = granted.expires_in.map(|life| asked_ms + (life.max(0.0) * 1e3) as u64);
        Ok(token(text, expires_ms, &self.settings.client_id))
    }
}

/// A file with a secret, without the end of the line.
pub fn read(file: &Path, option: &str) -> Result<String, String> {
    let text = fs::read_to_string(file)
        .map_err(|error| format!("[engine] {option}: cannot read {}: {error}", file.display()))?;
    let text = text.trim_end_matches(['\r', '\n']);
    if text.is_empty() {
        return Err(format!("[engine] {option}: empty file {}", file.display()));
    }
    Ok(text.to_owned())
}

/// A value of a form, percent-encoded.
fn encoded(text: &str) -> String {
    let mut encoded = String::new();
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            // A string takes every text.
            let _ = write!(encoded, "%{byte:02X}");
        }
    }
    encoded
}

fn now_ms() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(now.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_has_the_end_and_the_name_of_its_claims() {
        let claims = URL_SAFE_NO_PAD.encode(r#"{"sub":"n1","exp":2000.5}"#);
        let found = token(format!("e30.{claims}."), None, "file");
        assert_eq!((&*found.principal, found.expires_ms), ("n1", 2_000_500));
        let found = token(format!("e30.{claims}."), Some(7), "file");
        assert_eq!(found.expires_ms, 7, "the server knows better");
        let found = token("opaque".to_owned(), None, "file");
        assert_eq!(found.principal, "file");
        assert!(found.expires_ms > now_ms());
    }

    #[test]
    fn credentials_are_encoded() {
        assert_eq!(encoded("a b/c:ü"), "a%20b%2Fc%3A%C3%BC");
    }
}

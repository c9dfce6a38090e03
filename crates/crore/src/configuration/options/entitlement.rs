//! Options of access control: the section `[entitlement]`, and the tables `[[token_key]]`,
//! `[[api_key]]` and `[[grant]]`.

use super::spec::{DAY_S, count, options, seconds, text};
use super::typed::{UnixMs, choice, choices};
use crate::configuration::value::{Kind, Secret};
use entitlement::algorithm::Algorithm;
use std::path::PathBuf;
use std::time::Duration;

options! {
    /// Access control. Clients present a token (JWT), an API key, a user's name and password, or a
    /// certificate (tls.client_ca_file); keys are in [[token_key]], [[api_key]], or in a key set of
    /// the issuer, users in users_file.
    section "entitlement": Entitlement;

    /// open: every client may do everything, for development. tokens: the token, the API key or the
    /// user of a client permits its actions; without one the anonymous lists do.
    mode: Mode = "open", choice::<Mode>(), Restart;
    /// Issuers (`iss`) whose tokens are accepted. Not given, or ["*"]: all with a known key.
    issuers: Vec<String> = "", Kind::Words, Reload;
    /// Audiences (`aud`) whose tokens are accepted. ["*"]: all, and tokens without `aud`. Required
    /// with jwks_url: an issuer signs for its other applications, too. Not given without jwks_url:
    /// all.
    audiences: Vec<String> = "", Kind::Words, Reload;
    /// Types (`typ` in the header) of accepted tokens, such as "at+jwt" (RFC 9068). Not given: all,
    /// and tokens without a type.
    token_types: Vec<String> = "", Kind::Words, Reload;
    /// Tolerated difference from the clocks of issuers: `exp` counts later, `nbf` and `iat`
    /// earlier.
    leeway: Duration = "5s", seconds(0, 300), Reload;
    /// The longest time from `iat` to `exp` of a token; the node removes revocations after it. 0s:
    /// no limit, and tokens need not expire.
    token_lifetime_max: Duration = "0s", seconds(0, 3_650 * DAY_S), Reload;
    /// One secret of at least 32 bytes that signs tokens (HS256), the simplest configuration.
    /// [[token_key]] has more keys.
    secret: Option<Secret> = example "at least 32 bytes that nobody guesses", Kind::Secret, Reload;
    /// A file with a key set (JWKS) of the issuer, read at the start and at a reload.
    jwks_file: Option<PathBuf> = example "/etc/crore/jwks.json", text(4_096), Reload;
    /// URL (https or http) of a key set (JWKS) of the issuer. If a fetch fails, the current keys
    /// stay in use.
    jwks_url: Option<String> = example "https://id.example.com/.well-known/jwks.json",
        text(2_048), Restart;
    /// Trusted certificates for jwks_url, in PEM. Not given: those of the system.
    jwks_ca_file: Option<PathBuf> = example "/etc/crore/ca.pem", text(4_096), Restart;
    /// Interval of fetches of the key set at jwks_url.
    jwks_refresh: Duration = "10m", seconds(1, 30 * DAY_S), Restart;
    /// The shortest interval of these fetches, when a token names an unknown key or a fetch has
    /// failed.
    jwks_refresh_min: Duration = "30s", seconds(1, DAY_S), Restart;
    /// A file with users and the hashes of their passwords, as `mosquitto_passwd` writes it; read
    /// at the start and at a reload. For clients of MQTT with user name and password, and for HTTP
    /// Basic authentication. [[grant]] has the users' permissions.
    users_file: Option<PathBuf> = example "/etc/crore/users", text(4_096), Reload;
    /// Time before the expiry of its token at which a client receives a notice.
    notice_before: Duration = "60s", seconds(0, DAY_S), Reload;
    /// Tokens in the cache of verified signatures, about 50 bytes each. A cached signature is not
    /// computed again.
    verified_max: usize = "1000000", count(0, 100_000_000), Restart;
    /// Filters that clients without a token may subscribe to.
    anonymous_subscribe: Vec<Box<str>> = "", Kind::Filters, Reload;
    /// Filters that clients without a token may publish to.
    anonymous_publish: Vec<Box<str>> = "", Kind::Filters, Reload;
    /// Filters whose history clients without a token may read.
    anonymous_history: Vec<Box<str>> = "", Kind::Filters, Reload;
}

options! {
    /// Keys that verify tokens, beside a key set of the issuer. Any number of them.
    table "token_key": TokenKeyTable;

    /// The name of the key in tokens (`kid`). Keys without one are tried in order, at most four.
    id: Option<String> = example "2026-01", text(255), Reload;
    /// The only algorithm that the key verifies. Required.
    algorithm: Option<Algorithm> = example "ES256", choice::<Algorithm>(), Reload;
    /// The issuer of the key: tokens that it signs must name this issuer (`iss`). Give it if there
    /// are keys of several issuers. Not given: any issuer.
    issuer: Option<String> = example "https://id.example.com", text(255), Reload;
    /// Secret of at least 32 bytes, for HS256, HS384 and HS512.
    secret: Option<Secret> = example "at least 32 bytes that nobody guesses", Kind::Secret, Reload;
    /// A file with the secret, without the end of the line.
    secret_file: Option<PathBuf> = example "/etc/crore/secret", text(4_096), Reload;
    /// Encoding of the secret.
    secret_encoding: String = "text", Kind::Choice(&["text", "base64", "hex"]), Reload;
    /// Public key in PEM, for the other algorithms.
    public_key_file: Option<PathBuf> = example "/etc/crore/issuer.pem", text(4_096), Reload;
}

options! {
    /// API keys of servers. Any number of them.
    table "api_key": ApiKeyTable;

    /// Name of the client that presents the key; `{sub}` in its filters. Required.
    name: Option<String> = example "prices", text(255), Reload;
    /// SHA-256 of the key. `crore token key` generates both. Required.
    sha256: Option<[u8; 32]> = example "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
        Kind::Hash, Reload;
    /// Filters that the client may subscribe to.
    subscribe: Vec<Box<str>> = "", Kind::Filters, Reload;
    /// Filters that the client may publish to.
    publish: Vec<Box<str>> = "", Kind::Filters, Reload;
    /// Filters whose history the client may read.
    history: Vec<Box<str>> = "", Kind::Filters, Reload;
    /// The moment at which the key expires. Not given: never.
    expires: Option<UnixMs> = example "2030-01-01T00:00:00Z", Kind::Moment, Reload;
    /// Whether the client may inspect clients and topics, and make changes, at the operators' port.
    operate: bool = "false", Kind::Boolean, Reload;
}

options! {
    /// Permissions of the users of entitlement.users_file and tls.client_ca_file. A user has the
    /// permissions of every grant with its name, and of every grant without a name. There may be
    /// any number of grants.
    table "grant": GrantTable;

    /// The user; `{sub}` in the filters. Not given: every user.
    user: Option<String> = example "anna", text(255), Reload;
    /// Filters that the user may subscribe to.
    subscribe: Vec<Box<str>> = "", Kind::Filters, Reload;
    /// Filters that the user may publish to.
    publish: Vec<Box<str>> = "", Kind::Filters, Reload;
    /// Filters whose history the user may read.
    history: Vec<Box<str>> = "", Kind::Filters, Reload;
}

/// Whether clients need tokens.
#[derive(PartialEq, Eq)]
pub enum Mode {
    /// They need none.
    Open,
    /// They need tokens or API keys.
    Tokens,
}

choices! { Mode: Open = "open", Tokens = "tokens" }
choices! {
    Algorithm: HS256 = "HS256", HS384 = "HS384", HS512 = "HS512", RS256 = "RS256", RS384 = "RS384",
    RS512 = "RS512", ES256 = "ES256", ES384 = "ES384", EdDSA = "EdDSA"
}

//! Options of access control: the section `[entitlement]`, and the tables `[[token_key]]` and
//! `[[api_key]]`.

use super::spec::{DAY_S, OptionSpec, count, live, option, seconds};
use crate::configuration::value::Kind;

/// The section, with its sentence.
pub const SECTION: (&str, &str) = (
    "entitlement",
    "Access control. Clients present a token (JWT) or an API key; keys are in [[token_key]], [[api_key]], or in a key set of the issuer.",
);

/// Longest path of a file.
const PATH: Kind = Kind::Text { bytes_max: 4_096 };

/// Options that stand once.
pub const ENTITLEMENT_OPTIONS: &[OptionSpec] = &[
    option(
        "entitlement.mode",
        Kind::Choice(&["open", "tokens"]),
        "open",
        "open: every client may do everything, for development. tokens: the token or API key of a client permits its actions; without one the anonymous lists do.",
    ),
    live(
        "entitlement.issuers",
        Kind::Words,
        "",
        "Issuers (`iss`) whose tokens are accepted. Not given, or [\"*\"]: all with a known key.",
    ),
    live(
        "entitlement.audiences",
        Kind::Words,
        "",
        "Audiences (`aud`) whose tokens are accepted. [\"*\"]: all, and tokens without `aud`. Required with jwks_url: an issuer signs for its other applications, too. Not given without jwks_url: all.",
    ),
    live(
        "entitlement.token_types",
        Kind::Words,
        "",
        "Types (`typ` in the header) of accepted tokens, such as \"at+jwt\" (RFC 9068). Not given: all, and tokens without a type.",
    ),
    live(
        "entitlement.leeway",
        seconds(0, 300),
        "5s",
        "Tolerated difference from the clocks of issuers: `exp` counts later, `nbf` and `iat` earlier.",
    ),
    live(
        "entitlement.token_lifetime_max",
        seconds(0, 3_650 * DAY_S),
        "0s",
        "The longest time from `iat` to `exp` of a token; the node removes revocations after it. 0s: no limit, and tokens need not expire.",
    ),
    live(
        "entitlement.secret",
        Kind::Secret,
        "",
        "One secret of at least 32 bytes that signs tokens (HS256), the simplest configuration. [[token_key]] has more keys.",
    ),
    live(
        "entitlement.jwks_file",
        PATH,
        "",
        "A file with a key set (JWKS) of the issuer, read at the start and at a reload.",
    ),
    option(
        "entitlement.jwks_url",
        Kind::Text { bytes_max: 2_048 },
        "",
        "URL (https or http) of a key set (JWKS) of the issuer. If a fetch fails, the current keys stay in use.",
    ),
    option(
        "entitlement.jwks_ca_file",
        PATH,
        "",
        "Trusted certificates for jwks_url, in PEM. Not given: those of the system.",
    ),
    option(
        "entitlement.jwks_refresh",
        seconds(1, 30 * DAY_S),
        "10m",
        "Interval of fetches of the key set at jwks_url.",
    ),
    option(
        "entitlement.jwks_refresh_min",
        seconds(1, DAY_S),
        "30s",
        "The shortest interval of these fetches, when a token names an unknown key or a fetch has failed.",
    ),
    live(
        "entitlement.notice_before",
        seconds(0, DAY_S),
        "60s",
        "Time before the expiry of its token at which a client receives a notice.",
    ),
    option(
        "entitlement.verified_max",
        count(0, 100_000_000),
        "1000000",
        "Tokens in the cache of verified signatures, about 50 bytes each. A cached signature is not computed again.",
    ),
    live(
        "entitlement.anonymous_subscribe",
        Kind::Filters,
        "",
        "Filters that clients without a token may subscribe to.",
    ),
    live(
        "entitlement.anonymous_publish",
        Kind::Filters,
        "",
        "Filters that clients without a token may publish to.",
    ),
    live(
        "entitlement.anonymous_history",
        Kind::Filters,
        "",
        "Filters whose history clients without a token may read.",
    ),
];

/// Keys of each `[[token_key]]`.
pub const TOKEN_KEY_OPTIONS: &[OptionSpec] = &[
    live(
        "id",
        Kind::Text { bytes_max: 255 },
        "",
        "The name of the key in tokens (`kid`). Keys without one are tried in order, at most four.",
    ),
    live(
        "algorithm",
        Kind::Choice(&[
            "HS256", "HS384", "HS512", "RS256", "RS384", "RS512", "ES256", "ES384", "EdDSA",
        ]),
        "",
        "The only algorithm that the key verifies. Required.",
    ),
    live(
        "issuer",
        Kind::Text { bytes_max: 255 },
        "",
        "The issuer of the key: tokens that it signs must name this issuer (`iss`). Give it if there are keys of several issuers. Not given: any issuer.",
    ),
    live("secret", Kind::Secret, "", "For HS256, HS384, HS512: the secret, at least 32 bytes."),
    live("secret_file", PATH, "", "A file with the secret, without the end of the line."),
    live(
        "secret_encoding",
        Kind::Choice(&["text", "base64", "hex"]),
        "text",
        "Encoding of the secret.",
    ),
    live("public_key_file", PATH, "", "For the other algorithms: the public key in PEM."),
];

/// Keys of each `[[api_key]]`.
pub const API_KEY_OPTIONS: &[OptionSpec] = &[
    live(
        "name",
        Kind::Text { bytes_max: 255 },
        "",
        "Name of the client that presents the key; `{sub}` in its filters. Required.",
    ),
    live(
        "sha256",
        Kind::Hash,
        "",
        "SHA-256 of the key. `crore token key` generates both. Required.",
    ),
    live("subscribe", Kind::Filters, "", "Filters that the client may subscribe to."),
    live("publish", Kind::Filters, "", "Filters that the client may publish to."),
    live("history", Kind::Filters, "", "Filters whose history the client may read."),
    live("expires", Kind::Moment, "", "The moment at which the key expires. Not given: never."),
    live(
        "operate",
        Kind::Boolean,
        "false",
        "Whether the client may inspect clients and topics, and make changes, at the operators' port.",
    ),
];

/// The tables of this part: name, a sentence, and keys.
pub const TABLES: &[(&str, &str, &[OptionSpec])] = &[
    (
        "token_key",
        "Keys that verify tokens, beside a key set of the issuer. Any number of them.",
        TOKEN_KEY_OPTIONS,
    ),
    ("api_key", "API keys of servers. Any number of them.", API_KEY_OPTIONS),
];

/// Options of this part that have no default.
#[cfg(test)]
pub const WITHOUT_DEFAULT: &[&str] = &[
    "entitlement.secret",
    "entitlement.jwks_file",
    "entitlement.jwks_url",
    "entitlement.jwks_ca_file",
];

/// The example in `crore.toml` for an option without a default.
pub fn example(name: &str) -> Option<&'static str> {
    Some(match name {
        "secret" => "at least 32 bytes that nobody guesses",
        "secret_file" => "/etc/crore/secret",
        "public_key_file" => "/etc/crore/issuer.pem",
        "jwks_file" => "/etc/crore/jwks.json",
        "jwks_url" => "https://id.example.com/.well-known/jwks.json",
        "jwks_ca_file" => "/etc/crore/ca.pem",
        "id" => "2026-01",
        "algorithm" => "ES256",
        "issuer" => "https://id.example.com",
        "name" => "prices",
        "sha256" => "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
        "expires" => "2030-01-01T00:00:00Z",
        _ => return None,
    })
}

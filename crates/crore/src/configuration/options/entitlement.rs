//! Options of who may do what: the section `[entitlement]`, and the tables `[[token_key]]` and
//! `[[api_key]]`.

use super::{DAY_S, OptionSpec, count, live, option, seconds};
use crate::configuration::value::Kind;

/// The section, with its sentence.
pub const SECTION: (&str, &str) = (
    "entitlement",
    "Who may do what. Clients show a token (JWT) or an API key; keys stand in [[token_key]], [[api_key]], or in a key set of the issuer.",
);

/// Longest path of a file.
const PATH: Kind = Kind::Text { bytes_max: 4_096 };

/// Options that stand once.
pub const ENTITLEMENT_OPTIONS: &[OptionSpec] = &[
    option(
        "entitlement.mode",
        Kind::Choice(&["open", "tokens"]),
        "open",
        "open: everybody may do everything, for development. tokens: a client may do what its token or API key permits, and without one what the anonymous lists permit.",
    ),
    live(
        "entitlement.issuers",
        Kind::Words,
        "",
        "Tokens must be of one of these issuers (`iss`). Not given, or [\"*\"]: of any whose key is known.",
    ),
    live(
        "entitlement.audiences",
        Kind::Words,
        "",
        "Tokens must be for one of these audiences (`aud`). [\"*\"]: for any, and those without `aud`. Must be given with jwks_url: an issuer's keys sign for its other applications, too. Elsewhere not given means any.",
    ),
    live(
        "entitlement.token_types",
        Kind::Words,
        "",
        "`typ` in the header of tokens must be one of these, such as \"at+jwt\" (RFC 9068). Not given: any, or none.",
    ),
    live(
        "entitlement.leeway",
        seconds(0, 300),
        "5s",
        "Clocks of issuers may differ by so much: `exp` counts later, `nbf` and `iat` earlier.",
    ),
    live(
        "entitlement.token_lifetime_max",
        seconds(0, 3_650 * DAY_S),
        "0s",
        "Tokens must have `exp`, at most so long after `iat`; revocations are then forgotten after so long. 0s: no bound, and tokens need not expire.",
    ),
    live(
        "entitlement.secret",
        Kind::Secret,
        "",
        "One secret of at least 32 bytes with which tokens are signed (HS256): the shortest way to begin. Others stand in [[token_key]].",
    ),
    live(
        "entitlement.jwks_file",
        PATH,
        "",
        "A key set (JWKS) of the issuer, as a file. Read at the start and at a reload.",
    ),
    option(
        "entitlement.jwks_url",
        Kind::Text { bytes_max: 2_048 },
        "",
        "A key set (JWKS) of the issuer, at its address (https or http). Old keys hold while it cannot be had.",
    ),
    option(
        "entitlement.jwks_ca_file",
        PATH,
        "",
        "Certificates to believe for jwks_url, in PEM. Not given: those of the system.",
    ),
    option(
        "entitlement.jwks_refresh",
        seconds(1, 30 * DAY_S),
        "10m",
        "The key set at jwks_url is fetched this often.",
    ),
    option(
        "entitlement.jwks_refresh_min",
        seconds(1, DAY_S),
        "30s",
        "And at most this often, when a token names a key that is not known or a fetch has failed.",
    ),
    live(
        "entitlement.notice_before",
        seconds(0, DAY_S),
        "60s",
        "Clients are told so long before their token expires.",
    ),
    option(
        "entitlement.verified_max",
        count(0, 100_000_000),
        "1000000",
        "Tokens that are known to be signed well, so that clients that come back cost no signature; about 50 bytes each.",
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
        "By which tokens name it (`kid`). Keys without one are tried in order, at most four.",
    ),
    live(
        "algorithm",
        Kind::Choice(&[
            "HS256", "HS384", "HS512", "RS256", "RS384", "RS512", "ES256", "ES384", "EdDSA",
        ]),
        "",
        "The only algorithm that it verifies. Must be given.",
    ),
    live(
        "issuer",
        Kind::Text { bytes_max: 255 },
        "",
        "Whose key it is: tokens that it has signed must name this issuer (`iss`). Give it where keys of several issuers are known. Not given: it may sign for any.",
    ),
    live("secret", Kind::Secret, "", "For HS256, HS384, HS512: the secret, at least 32 bytes."),
    live("secret_file", PATH, "", "The same from a file, without the line's end."),
    live(
        "secret_encoding",
        Kind::Choice(&["text", "base64", "hex"]),
        "text",
        "How the secret is written.",
    ),
    live("public_key_file", PATH, "", "For the other algorithms: the public key in PEM."),
];

/// Keys of each `[[api_key]]`.
pub const API_KEY_OPTIONS: &[OptionSpec] = &[
    live(
        "name",
        Kind::Text { bytes_max: 255 },
        "",
        "Who shows it; `{sub}` in its filters. Must be given.",
    ),
    live(
        "sha256",
        Kind::Hash,
        "",
        "SHA-256 of the key. `crore token key` makes both. Must be given.",
    ),
    live("subscribe", Kind::Filters, "", "Filters that it may subscribe to."),
    live("publish", Kind::Filters, "", "Filters that it may publish to."),
    live("history", Kind::Filters, "", "Filters whose history it may read."),
    live("expires", Kind::Moment, "", "It is refused from then on. Not given: never."),
    live(
        "operate",
        Kind::Boolean,
        "false",
        "It may look at clients and topics, and change things, at the operators' addresses that are not loopback.",
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

/// What stands in the file as an example where an option has no default.
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

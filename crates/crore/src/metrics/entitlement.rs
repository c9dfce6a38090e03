//! What `/metrics` says of tokens and API keys: verdicts, signatures, key sets, revocations. Never
//! by user.

use super::families::Families;
use broker::edge::EdgeStatistics;
use entitlement::Statistics;

/// Families of entitlement. They stand there also where nobody is asked for a token, as zeros.
pub fn write(families: &mut Families, statistics: &Statistics) {
    families.counters(
        "crore_credential_verdicts_total",
        "Checked tokens and API keys, by result.",
        "result",
        &[
            ("accepted", statistics.accepted),
            ("unauthorized", statistics.unauthorized),
            ("expired", statistics.expired),
            ("revoked", statistics.revoked),
            ("not_ready", statistics.not_ready),
        ],
    );
    families.counter(
        "crore_token_cache_hits_total",
        "Tokens whose signature was in the cache of verified signatures.",
        statistics.cache_hits,
    );
    families.counter(
        "crore_token_signatures_total",
        "Tokens whose signature was verified by computation.",
        statistics.signatures,
    );
    families.counter(
        "crore_key_set_fetches_total",
        "Fetches of the issuer's key set.",
        statistics.fetches,
    );
    families.counter(
        "crore_key_set_fetches_failed_total",
        "Failed fetches of the issuer's key set; the current keys stay in use.",
        statistics.fetches_failed,
    );
    for (name, help, value) in [
        ("crore_token_keys", "Keys that verify tokens.", statistics.keys),
        ("crore_api_keys", "API keys.", statistics.api_keys),
        (
            "crore_verified_tokens",
            "Tokens in the cache of verified signatures.",
            statistics.verified_tokens,
        ),
        ("crore_revocations", "Revocations in force.", statistics.revocations),
    ] {
        families.gauge(name, help, value);
    }
}

/// Families of what edges did about it.
pub fn write_edge(families: &mut Families, edge: &EdgeStatistics) {
    families.gauge(
        "crore_entitlements",
        "Distinct tokens and API keys of connected clients.",
        edge.entitlements,
    );
    families.counter(
        "crore_credential_questions_total",
        "Tokens and API keys that needed a check.",
        edge.questions,
    );
    families.counter(
        "crore_credentials_refused_total",
        "Tokens and API keys that were refused.",
        edge.credentials_refused,
    );
    let forbidden = &edge.forbidden;
    families.counters(
        "crore_forbidden_total",
        "Actions that the client's token, or the permissions of clients without a token, do not allow.",
        "action",
        &[
            ("subscribe", forbidden.subscribe),
            ("publish", forbidden.publish),
            ("history", forbidden.history),
        ],
    );
    families.counter("crore_renewals_total", "Sessions that renewed their token.", edge.renewals);
    families.counter(
        "crore_tokens_expired_total",
        "Connections closed because their token expired.",
        edge.tokens_expired,
    );
    families.counter(
        "crore_revoked_total",
        "Connections closed because their token was revoked.",
        edge.revoked,
    );
}

//! What `/metrics` says of tokens and API keys: verdicts, signatures, key sets, revocations. Never by user.

use super::exposition::Exposition;
use broker::edge::EdgeStatistics;
use entitlement::Statistics;

/// Families of entitlement. They stand there also where nobody is asked for a token, as zeros.
pub fn write(exposition: &mut Exposition, statistics: &Statistics) {
    exposition.counters(
        "crore_credential_verdicts_total",
        "Tokens and API keys that were judged, by what came of it.",
        "result",
        &[
            ("accepted", statistics.accepted),
            ("unauthorized", statistics.unauthorized),
            ("expired", statistics.expired),
            ("revoked", statistics.revoked),
            ("not_ready", statistics.not_ready),
        ],
    );
    exposition.counter(
        "crore_token_cache_hits_total",
        "Tokens whose signature was known.",
        statistics.cache_hits,
    );
    exposition.counter(
        "crore_token_signatures_total",
        "Tokens whose signature was computed.",
        statistics.signatures,
    );
    exposition.counter(
        "crore_key_set_fetches_total",
        "Times that the issuer's key set was asked for.",
        statistics.fetches,
    );
    exposition.counter(
        "crore_key_set_fetches_failed_total",
        "Of these: times that it could not be had; the keys that there are hold on.",
        statistics.fetches_failed,
    );
    for (name, help, value) in [
        (
            "crore_token_keys",
            "Keys that verify tokens now.",
            statistics.keys,
        ),
        ("crore_api_keys", "API keys now.", statistics.api_keys),
        (
            "crore_verified_tokens",
            "Tokens known to be signed well now.",
            statistics.verified_tokens,
        ),
        (
            "crore_revocations",
            "Revocations in force now.",
            statistics.revocations,
        ),
    ] {
        exposition.gauge(name, help, value);
    }
}

/// Families of what edges did about it.
pub fn write_edge(exposition: &mut Exposition, edge: &EdgeStatistics) {
    exposition.gauge(
        "crore_entitlements",
        "Distinct tokens and API keys whose clients are here now.",
        edge.entitlements,
    );
    exposition.counter(
        "crore_credential_questions_total",
        "Tokens and API keys that had to be judged.",
        edge.questions,
    );
    exposition.counter(
        "crore_credentials_refused_total",
        "Tokens and API keys that were refused.",
        edge.credentials_refused,
    );
    exposition.counter(
        "crore_forbidden_total",
        "Actions that their client's token does not permit.",
        edge.forbidden,
    );
    exposition.counter(
        "crore_renewals_total",
        "Sessions that went on with a new token.",
        edge.renewals,
    );
    exposition.counter(
        "crore_tokens_expired_total",
        "Connections ended because their token had expired.",
        edge.tokens_expired,
    );
    exposition.counter(
        "crore_revoked_total",
        "Connections ended because their token was revoked.",
        edge.revoked,
    );
}

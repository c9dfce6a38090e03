//! What `/metrics` says of tokens and API keys: verdicts, signatures, key sets, revocations. Never by user.

use super::families::Families;
use broker::edge::EdgeStatistics;
use entitlement::Statistics;

/// Families of entitlement. They stand there also where nobody is asked for a token, as zeros.
pub fn write(families: &mut Families, statistics: &Statistics) {
    families.counters(
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
    families.counter(
        "crore_token_cache_hits_total",
        "Tokens whose signature was known.",
        statistics.cache_hits,
    );
    families.counter(
        "crore_token_signatures_total",
        "Tokens whose signature was computed.",
        statistics.signatures,
    );
    families.counter(
        "crore_key_set_fetches_total",
        "Times that the issuer's key set was asked for.",
        statistics.fetches,
    );
    families.counter(
        "crore_key_set_fetches_failed_total",
        "Of these: times that it could not be had; the keys that there are hold on.",
        statistics.fetches_failed,
    );
    for (name, help, value) in [
        ("crore_token_keys", "Keys that verify tokens now.", statistics.keys),
        ("crore_api_keys", "API keys now.", statistics.api_keys),
        (
            "crore_verified_tokens",
            "Tokens known to be signed well now.",
            statistics.verified_tokens,
        ),
        ("crore_revocations", "Revocations in force now.", statistics.revocations),
    ] {
        families.gauge(name, help, value);
    }
}

/// Families of what edges did about it.
pub fn write_edge(families: &mut Families, edge: &EdgeStatistics) {
    families.gauge(
        "crore_entitlements",
        "Distinct tokens and API keys whose clients are here now.",
        edge.entitlements,
    );
    families.counter(
        "crore_credential_questions_total",
        "Tokens and API keys that had to be judged.",
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
        "Actions that their client's token does not permit, or nobody who shows none.",
        "action",
        &[
            ("subscribe", forbidden.subscribe),
            ("publish", forbidden.publish),
            ("history", forbidden.history),
        ],
    );
    families.counter(
        "crore_renewals_total",
        "Sessions that went on with a new token.",
        edge.renewals,
    );
    families.counter(
        "crore_tokens_expired_total",
        "Connections ended because their token had expired.",
        edge.tokens_expired,
    );
    families.counter(
        "crore_revoked_total",
        "Connections ended because their token was revoked.",
        edge.revoked,
    );
}

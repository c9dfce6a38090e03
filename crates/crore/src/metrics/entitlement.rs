//! The family of checked credentials. Never by user.

use super::families::Families;
use entitlement::Statistics;

/// The family of checked credentials; all zero without tokens.
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
}

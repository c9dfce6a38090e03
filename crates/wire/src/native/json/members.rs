//! The names of values that the binary form numbers.

use crate::native::{GapReason, Policy, SkipReason};
use std::borrow::Cow;

const POLICIES: [(Policy, &str); 4] = [
    (Policy::Replay, "replay"),
    (Policy::Conflate, "conflate"),
    (Policy::Drop, "drop"),
    (Policy::Disconnect, "disconnect"),
];

/// Reasons of gaps, by number.
const GAP_REASONS: [&str; 5] =
    ["evicted", "unknown_epoch", "beyond_head", "history_limit", "damaged"];

pub(super) fn policy(name: &str) -> Option<Policy> {
    POLICIES.iter().find(|(_, known)| *known == name).map(|(policy, _)| *policy)
}

pub(super) fn policy_name(policy: Policy) -> &'static str {
    POLICIES.iter().find(|(known, _)| *known == policy).map_or("", |(_, name)| name)
}

/// The name of a reason; an unknown one is its number as text.
pub(super) fn gap_reason_name(reason: GapReason) -> Cow<'static, str> {
    match GAP_REASONS.get(usize::from(reason.number())) {
        Some(name) => Cow::Borrowed(name),
        None => Cow::Owned(reason.number().to_string()),
    }
}

pub(super) fn gap_reason(name: &str) -> Option<GapReason> {
    let known = GAP_REASONS.iter().position(|known| *known == name);
    let number = known.map_or_else(|| name.parse().ok(), |number| u8::try_from(number).ok());
    number.map(GapReason::from_number)
}

/// The name of a reason; an unknown one is its number as text.
pub(super) fn skip_reason_name(reason: SkipReason) -> Cow<'static, str> {
    match reason {
        SkipReason::Conflated => Cow::Borrowed("conflated"),
        SkipReason::Dropped => Cow::Borrowed("dropped"),
        SkipReason::Other(number) => Cow::Owned(number.to_string()),
    }
}

pub(super) fn skip_reason(name: &str) -> Option<SkipReason> {
    match name {
        "conflated" => Some(SkipReason::Conflated),
        "dropped" => Some(SkipReason::Dropped),
        number => number.parse().ok().map(SkipReason::from_number),
    }
}

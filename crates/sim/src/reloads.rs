//! Reloads during a run: other limits; new, changed and removed rules.
//!
//! Drawn separately, so that worlds without them do not change. Lag policies stay the same, and so
//! do histories in lossless worlds: the checks of clients depend on them.

use crate::mutation::Mutation;
use crate::plan::Plan;
use broker::filters::FilterTrie;
use broker::settings::{RuleSettings, Settings};
use broker::topic::Filter;
use stdx::prng::Prng;

/// Filters of temporary rules, in addition to names of topics.
const FILTERS: [&str; 3] = ["a/+", "b/+/x", "b/2/#"];

/// Draws the times of a node's reloads, in one of four worlds.
pub fn draw(seed: u64, active_ms: u64, mutation: Option<Mutation>) -> Vec<u64> {
    let mut random = Prng::new(seed ^ 0x7e10_ad00);
    if mutation.is_some() || !random.chance(0.25) {
        return Vec::new();
    }
    let count = random.between(1, 6);
    let mut all: Vec<u64> = (0..count).map(|_| random.below(active_ms)).collect();
    all.sort_unstable();
    all
}

/// Draws the next settings of the node.
pub fn wanted(plan: &Plan, random: &mut Prng) -> Settings {
    let mut settings = (*plan.settings).clone();
    let mut pick = |choices: [u32; 3]| choices[random.below(3) as usize];
    settings.limits.outbox_len_max = pick([2, 10, 256]);
    settings.limits.requests_inflight_max = pick([1, 5, 4_096]);
    settings.limits.stream_credit_bytes = pick([200, 4_000, 8 << 20]);
    settings.limits.turn_frames_max = pick([1, 4, 64]);
    settings.limits.page_records_max = pick([1, 7, 256]);
    settings.limits.handshake_timeout_ms = pick([10_000, 20_000, 30_000]);
    if let Some(compression) = &mut settings.compression {
        compression.bytes_min = pick([16, 40, 200]);
        compression.level = pick([1, 5, 9]) as u8;
    }
    let mut rules: Vec<RuleSettings> = settings.rules.drain(..plan.rules_count()).collect();
    let topics = plan.topics.iter().map(String::as_str);
    for text in FILTERS.into_iter().chain(topics.take(3)) {
        if !random.chance(0.5) {
            continue;
        }
        // Within a rule of the start: so the log and the policy of its topics do not change.
        let Some(base) = plan.first_rule(text) else {
            continue;
        };
        let mut rule = RuleSettings { filter: text.into(), ..rules[base].clone() };
        if !plan.lossless {
            rule.history_messages_max = [0, 5, 1 << 30][random.below(3) as usize];
        }
        rules.push(rule);
    }
    settings.rule_filters = FilterTrie::default();
    for (number, rule) in (0..).zip(&rules) {
        if let Ok(filter) = Filter::parse(&rule.filter) {
            settings.rule_filters.insert(filter, number);
        }
    }
    settings.rules = rules;
    settings
}

//! New settings of a running node: the parts that take effect, and those that wait for the next
//! start.
//!
//! Pure: the shell makes the renewed settings once and hands them to all shards, each of which
//! takes them between two turns.
//!
//! Invariants:
//!
//! - shards, logs and partitions stay, so a topic stays where it is;
//!
//! - the number of a rule stands for the same filter for the life of the node: requests under way
//!   with it, and those that wait for a disk, are handled by that rule. The number of a removed
//!   rule keeps its last content, for those; it is given to another filter only when all numbers
//!   have been given;
//!
//! - no rule is taken that would move a topic to another log.
//!
//! A home may see the number of a rule that it has not heard of yet: edges may be told first. It
//! then looks the topic up in the rules that it has ([`Settings::rule_of`]).

use crate::filters::FilterTrie;
use crate::settings::{AddressSettings, EntitlementSettings, LogSettings, RuleSettings, Settings};
use crate::topic::Filter;

/// The reason why a rule stays as it was until the next start.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Wait {
    /// The rule names another log. Its other settings are in force.
    Log,
    /// The rule is new, and topics would move to another log.
    MovesTopics,
    /// The rule was removed, and its topics would move to another log.
    KeepsTopics,
    /// The rule names a log that is new itself.
    NewLog,
    /// There are as many rules as there can be.
    Full,
}

/// A rule that is not in force as it was asked for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Waiting {
    /// The filter of the rule.
    pub filter: Box<str>,
    /// Why.
    pub wait: Wait,
}

/// Rules have numbers of 16 bits.
const RULES_MAX: usize = u16::MAX as usize;

impl Settings {
    /// The settings of a node that runs with these and is asked for others; and which of the rules
    /// wait for its next start.
    pub fn renewed(&self, wanted: Settings) -> (Settings, Vec<Waiting>) {
        let mut renewal = Renewal {
            running: self,
            wanted: &wanted,
            rules: self.rules.clone(),
            numbers: self.rule_filters.clone(),
            waiting: Vec::new(),
        };
        renewal.renew();
        let Renewal { rules, numbers, waiting, .. } = renewal;
        let renewed = Settings {
            edges_count: self.edges_count,
            homes_count: self.homes_count,
            logs: renewed_logs(&self.logs, &wanted.logs),
            rules,
            rule_filters: numbers,
            limits: self.limits.renewed(wanted.limits),
            node_name: self.node_name.clone(),
            addresses: AddressSettings {
                // The shell's table is made at a start.
                are_counted: self.addresses.are_counted,
                are_loopback: self.addresses.are_loopback,
                ..wanted.addresses
            },
            // Whether anybody is asked who they are is decided at a start: there is an
            // authenticator, or there is none.
            entitlement: self.entitlement.as_ref().map(|running| {
                let wanted = wanted.entitlement.unwrap_or_else(|| running.clone());
                EntitlementSettings {
                    // The present connections have not been counted.
                    users_are_counted: running.users_are_counted,
                    ..wanted
                }
            }),
            ..wanted
        };
        (renewed, waiting)
    }

    /// A rule by its number; that of the topic if the number is not known yet.
    pub fn rule_of<'a>(&self, number: u16, topic: impl FnOnce() -> &'a [u8]) -> &RuleSettings {
        self.rules.get(usize::from(number)).unwrap_or_else(|| {
            let topic = std::str::from_utf8(topic()).unwrap_or_default();
            &self.rules[usize::from(self.locate(topic).0)]
        })
    }
}

/// Logs are what they were, but for what they may retain.
fn renewed_logs(running: &[LogSettings], wanted: &[LogSettings]) -> Vec<LogSettings> {
    let renewed = |log: &LogSettings| {
        let namesake = wanted.iter().find(|other| other.name == log.name);
        LogSettings {
            retained_bytes_max: namesake
                .map_or(log.retained_bytes_max, |other| other.retained_bytes_max),
            ..log.clone()
        }
    };
    running.iter().map(renewed).collect()
}

/// The renewal of the rules: from the running ones to the wanted ones.
struct Renewal<'a> {
    running: &'a Settings,
    wanted: &'a Settings,
    rules: Vec<RuleSettings>,
    /// The numbers of the rules in force; removed rules keep their numbers, too.
    numbers: FilterTrie<u16>,
    waiting: Vec<Waiting>,
}

impl Renewal<'_> {
    /// New rules come before old ones go: what covers the same topics with the same log takes them
    /// over.
    fn renew(&mut self) {
        if let Some(wanted) = self.wanted.rules.first() {
            self.change(0, wanted);
        }
        for wanted in self.wanted.rules.iter().skip(1) {
            let Ok(filter) = Filter::parse(&wanted.filter) else {
                continue;
            };
            match self.numbers.get(filter) {
                Some(&number) => self.change(number, wanted),
                None => self.add(filter, wanted),
            }
        }
        let mut kept: FilterTrie<()> = FilterTrie::default();
        for rule in self.wanted.rules.iter().skip(1) {
            if let Ok(filter) = Filter::parse(&rule.filter) {
                kept.insert(filter, ());
            }
        }
        for number in 1..self.rules.len() as u16 {
            let text = self.rules[usize::from(number)].filter.clone();
            if let Ok(filter) = Filter::parse(&text)
                && self.numbers.get(filter) == Some(&number)
                && kept.get(filter).is_none()
            {
                self.remove(filter, number);
            }
        }
    }

    /// The log of a wanted rule among those that there are.
    fn log_of(&self, wanted: &RuleSettings) -> Option<u16> {
        let name = &self.wanted.logs.get(usize::from(wanted.log))?.name;
        let place = self.running.logs.iter().position(|log| log.name == *name)?;
        Some(place as u16)
    }

    fn change(&mut self, number: u16, wanted: &RuleSettings) {
        let log = self.rules[usize::from(number)].log;
        if self.log_of(wanted) != Some(log) {
            self.wait(&wanted.filter, Wait::Log);
        }
        self.rules[usize::from(number)] = RuleSettings { log, ..wanted.clone() };
    }

    fn add(&mut self, filter: Filter<'_>, wanted: &RuleSettings) {
        let Some(log) = self.log_of(wanted) else {
            return self.wait(&wanted.filter, Wait::NewLog);
        };
        if self.may_move(filter, log) {
            return self.wait(&wanted.filter, Wait::MovesTopics);
        }
        let Some(number) = self.number_for(&wanted.filter) else {
            return self.wait(&wanted.filter, Wait::Full);
        };
        self.rules[usize::from(number)] = RuleSettings { log, ..wanted.clone() };
        self.numbers.insert(filter, number);
    }

    fn remove(&mut self, filter: Filter<'_>, number: u16) {
        self.numbers.remove(filter);
        let rule = &self.rules[usize::from(number)];
        if self.may_move(filter, rule.log) {
            self.numbers.insert(filter, number);
            self.wait(filter.as_str(), Wait::KeepsTopics);
        }
    }

    /// The number that the filter had before, or a new one, or that of a rule that has gone.
    fn number_for(&mut self, filter: &str) -> Option<u16> {
        let had = self.rules.iter().skip(1).position(|rule| *rule.filter == *filter);
        if let Some(place) = had {
            return Some(place as u16 + 1);
        }
        if self.rules.len() < RULES_MAX {
            self.rules.push(RuleSettings::default());
            return Some(self.rules.len() as u16 - 1);
        }
        (1..self.rules.len() as u16).find(|number| {
            let filter = Filter::parse(&self.rules[usize::from(*number)].filter);
            !filter.is_ok_and(|filter| self.numbers.get(filter) == Some(number))
        })
    }

    /// Whether some topic of a rule that is not in force would have another log with it than
    /// without it. It may be said of a rule that hides none but topics which others hide already;
    /// never the other way round.
    fn may_move(&self, filter: Filter<'_>, log: u16) -> bool {
        let base = self.numbers.most_specific(filter.as_str()).copied().unwrap_or(0);
        if self.rules[usize::from(base)].log != log {
            return true;
        }
        let base = Filter::parse(&self.rules[usize::from(base)].filter).ok();
        self.rules.iter().skip(1).zip(1_u16..).any(|(rule, number)| {
            let Ok(other) = Filter::parse(&rule.filter) else {
                return false;
            };
            rule.log != log
                && self.numbers.get(other) == Some(&number)
                && filter.overlaps(other)
                && filter.beats(other)
                && base.is_none_or(|base| other.beats(base))
        })
    }

    fn wait(&mut self, filter: &str, wait: Wait) {
        self.waiting.push(Waiting { filter: filter.into(), wait });
    }
}

#[cfg(test)]
mod tests;

//! Targets of log lines, and the level of each.
//!
//! Invariants: a target is one of a few words, and never names a client or a topic; targets whose
//! lines clients cause are off unless they are set explicitly.

use super::line::Level;
use std::fmt;
use std::sync::atomic::{AtomicU8, Ordering};

/// The subject of a line.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Target {
    /// The node: start, stop and threads.
    Node,
    /// The configuration and its reloads.
    Configuration,
    /// Actions of operators at their port.
    Operators,
    /// Tokens, API keys, revocations, key sets.
    Entitlement,
    /// Certificates.
    Tls,
    /// Resume tickets and their keys.
    Tickets,
    /// Reached limits of the node and of the machine.
    Limits,
    /// Logs of messages.
    Log,
    /// The writing of log lines.
    Logging,
    /// Connections of clients, and their HTTP requests.
    Access,
    /// Permitted and refused actions of clients.
    Audit,
}

/// All targets, ordered by number.
pub const TARGETS: [Target; 11] = [
    Target::Node,
    Target::Configuration,
    Target::Operators,
    Target::Entitlement,
    Target::Tls,
    Target::Tickets,
    Target::Limits,
    Target::Log,
    Target::Logging,
    Target::Access,
    Target::Audit,
];

/// The word for a target that is not written.
pub const OFF: &str = "off";

impl Target {
    /// The target with this name.
    pub fn parse(word: &str) -> Option<Target> {
        TARGETS.into_iter().find(|target| target.word() == word)
    }

    /// The name of the target.
    pub fn word(self) -> &'static str {
        match self {
            Target::Node => "node",
            Target::Configuration => "configuration",
            Target::Operators => "operators",
            Target::Entitlement => "entitlement",
            Target::Tls => "tls",
            Target::Tickets => "tickets",
            Target::Limits => "limits",
            Target::Log => "log",
            Target::Logging => "logging",
            Target::Access => "access",
            Target::Audit => "audit",
        }
    }

    /// Whether clients cause its lines.
    pub fn is_of_clients(self) -> bool {
        matches!(self, Target::Access | Target::Audit)
    }
}

/// The least severe written level of each target; none: no lines.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Levels([Option<Level>; TARGETS.len()]);

impl Levels {
    /// This level for all targets, except those whose lines clients cause.
    pub fn new(level: Level) -> Levels {
        Levels(TARGETS.map(|target| (!target.is_of_clients()).then_some(level)))
    }

    /// The least severe level that is written.
    pub fn of(&self, target: Target) -> Option<Level> {
        self.0[target as usize]
    }

    /// Sets the level.
    pub fn set(&mut self, target: Target, level: Option<Level>) {
        self.0[target as usize] = level;
    }
}

impl fmt::Display for Levels {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, target) in TARGETS.into_iter().enumerate() {
            let space = if place > 0 { " " } else { "" };
            let level = self.of(target).map_or(OFF, Level::word);
            write!(formatter, "{space}{}={level}", target.word())?;
        }
        Ok(())
    }
}

/// Parses `target=level`; none if it is invalid.
pub fn parse_pair(text: &str) -> Option<(Target, Option<Level>)> {
    let (target, level) = text.split_once('=')?;
    Some((Target::parse(target.trim())?, parse_level(level.trim())?))
}

/// Parses a level or `off`; none if it is invalid.
pub fn parse_level(word: &str) -> Option<Option<Level>> {
    match word {
        OFF => Some(None),
        word => Some(Some(Level::parse(word)?)),
    }
}

/// Levels that many threads read and one thread changes rarely.
#[derive(Debug)]
pub struct SharedLevels([AtomicU8; TARGETS.len()]);

impl SharedLevels {
    /// Creates them with these levels.
    pub fn new(levels: &Levels) -> SharedLevels {
        SharedLevels(levels.0.map(|level| AtomicU8::new(number(level))))
    }

    /// Replaces the levels.
    pub fn set(&self, levels: &Levels) {
        for (place, level) in self.0.iter().zip(levels.0) {
            place.store(number(level), Ordering::Relaxed);
        }
    }

    /// The present levels.
    pub fn get(&self) -> Levels {
        let levels = self.0.each_ref().map(|place| level(place.load(Ordering::Relaxed)));
        Levels(levels)
    }

    /// Whether a line of this level is written.
    pub fn is_on(&self, target: Target, level: Level) -> bool {
        number(Some(level)) <= self.0[target as usize].load(Ordering::Relaxed)
    }
}

fn number(level: Option<Level>) -> u8 {
    level.map_or(0, |level| level as u8 + 1)
}

fn level(number: u8) -> Option<Level> {
    let all = [Level::Error, Level::Warn, Level::Info, Level::Debug];
    all.get(usize::from(number).checked_sub(1)?).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_places_and_words_come_back() {
        for (place, target) in TARGETS.into_iter().enumerate() {
            assert_eq!(target as usize, place);
            assert_eq!(Target::parse(target.word()), Some(target));
        }
        assert_eq!(Target::parse("nobody"), None);
    }

    #[test]
    fn what_clients_cause_is_off_until_it_is_named() {
        let mut levels = Levels::new(Level::Warn);
        let shared = SharedLevels::new(&levels);
        assert!(shared.is_on(Target::Node, Level::Warn));
        assert!(!shared.is_on(Target::Node, Level::Info));
        assert!(!shared.is_on(Target::Access, Level::Error));
        let (target, level) = parse_pair("access=info").unwrap();
        levels.set(target, level);
        levels.set(Target::Node, None);
        shared.set(&levels);
        assert!(shared.is_on(Target::Access, Level::Info));
        assert!(!shared.is_on(Target::Access, Level::Debug));
        assert!(!shared.is_on(Target::Node, Level::Error));
        assert_eq!(shared.get(), levels);
        assert!(levels.to_string().starts_with("node=off configuration=warn "));
    }

    #[test]
    fn pairs() {
        assert_eq!(parse_pair("audit = off"), Some((Target::Audit, None)));
        for bad in ["audit", "audit=", "=info", "audit=loud", "a=info", "audit=Info"] {
            assert_eq!(parse_pair(bad), None, "{bad}");
        }
    }
}

//! From the configuration to the log: format, and the level of each target.
//!
//! Place: at the start and at a reload. Pure but for the log that is made.

use super::entries::Configuration;
use super::fault::Fault;
use crate::logging::{Format, Level, Levels, Log, OFF, TARGETS, Target, parse_pair};
use broker::settings::JournalSettings;

/// The log of a node.
pub fn log(configuration: &Configuration) -> Log {
    let format = match configuration.text("logging.format") {
        "json" => Format::Json,
        _ => Format::Text,
    };
    Log::new(format, &levels(configuration))
}

/// From which level on lines are written. `configuration` has been checked.
pub fn levels(configuration: &Configuration) -> Levels {
    let least = Level::parse(configuration.text("logging.level")).unwrap_or(Level::Info);
    let mut levels = Levels::new(least);
    let pairs = configuration.texts("logging.levels").iter();
    for (target, level) in pairs.filter_map(|text| parse_pair(text)) {
        levels.set(target, level);
    }
    levels
}

/// Events of clients that edges report.
pub fn journal(configuration: &Configuration) -> JournalSettings {
    let rate = |key| {
        let rate = configuration.number(key).unwrap_or(0);
        u32::try_from(rate).unwrap_or(u32::MAX)
    };
    let rates = JournalSettings {
        access_rate_max: rate("logging.access_rate_max"),
        audit_rate_max: rate("logging.audit_rate_max"),
        ..JournalSettings::default()
    };
    journal_of(rates, &levels(configuration))
}

/// The journal that these levels need.
pub fn journal_of(journal: JournalSettings, levels: &Levels) -> JournalSettings {
    let audit = levels.of(Target::Audit);
    JournalSettings {
        access: levels.of(Target::Access).is_some(),
        granted: audit >= Some(Level::Info),
        refused: audit >= Some(Level::Warn),
        ..journal
    }
}

/// Appends what is wrong with levels of targets.
pub(super) fn check(configuration: &Configuration, faults: &mut Vec<Fault>) {
    for text in configuration.texts("logging.levels") {
        if parse_pair(text).is_none() {
            let targets = TARGETS.map(|target| target.word()).join(", ");
            faults.push(Fault {
                origin: configuration.get("logging.levels").1.clone(),
                key: "logging.levels".into(),
                problem: format!("{text:?} is not a target with a level"),
                expected: format!(
                    "\"target=level\" with a target ({targets}) and a level (error, warn, info, debug or {OFF})"
                ),
            });
        }
    }
}

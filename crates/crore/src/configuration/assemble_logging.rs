//! From the configuration to the log: format, and the level of each target.
//!
//! Place: at the start and at a reload. Pure but for the log that is made.

use super::entries::Configuration;
use super::fault::Fault;
use super::options::Logging;
use crate::logging::{Level, Levels, Log, OFF, TARGETS, Target, parse_pair};
use broker::settings::JournalSettings;

/// The log of a node.
pub fn log(configuration: &Configuration) -> Log {
    Log::new(configuration.read::<Logging>().format, &levels(configuration))
}

/// From which level on lines are written. `configuration` has been checked.
pub fn levels(configuration: &Configuration) -> Levels {
    let logging: Logging = configuration.read();
    let mut levels = Levels::new(logging.level);
    for (target, level) in logging.levels.iter().filter_map(|text| parse_pair(text)) {
        levels.set(target, level);
    }
    levels
}

/// Events of clients that edges report.
pub fn journal(configuration: &Configuration) -> JournalSettings {
    let Logging { access_rate_max, audit_rate_max, .. } = configuration.read();
    let rates = JournalSettings { access_rate_max, audit_rate_max, ..JournalSettings::default() };
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

/// Appends the faults in the levels of targets.
pub(super) fn check(configuration: &Configuration, faults: &mut Vec<Fault>) {
    for text in configuration.read::<Logging>().levels {
        if parse_pair(&text).is_none() {
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

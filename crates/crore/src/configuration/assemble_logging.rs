//! From the configuration to the log: format, and the level of each target.
//!
//! Place: at the start and at a reload. Pure but for the log that is made.

use super::Configuration;
use super::fault::Fault;
use crate::logging::{Format, Level, Levels, Log, OFF, TARGETS, parse_pair};

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

/// Appends what is wrong with levels of targets.
pub(super) fn check(configuration: &Configuration, faults: &mut Vec<Fault>) {
    for text in configuration.texts("logging.levels") {
        if parse_pair(text).is_none() {
            let targets = TARGETS.map(|target| target.word()).join(", ");
            faults.push(Fault {
                origin: configuration.get("logging.levels").1.clone(),
                key: "logging.levels".into(),
                problem: format!("{text:?} is no target with its level"),
                expected: format!(
                    "\"target=level\" with one of {targets}; and error, warn, info, debug or {OFF}"
                ),
            });
        }
    }
}

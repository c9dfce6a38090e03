//! The engine's client, for a node with logs in an engine, and for `crore engine`.
//!
//! Everything that knows the engine's protocol is behind the cargo feature `engine`.

#[cfg(feature = "engine")]
mod linked;

use crate::cluster::topic::{Letter, WriteControl};
use crate::configuration::{Configuration, assemble_engine};
use crate::exit::Ending;
use crate::logging::Log;
use anyhow::anyhow;
use broker::settings::Settings;
use node::engine::{Engine, EngineOptions};

/// The client before its start; none if no log is in the engine. Weak topics that the operator
/// permits are logged.
///
/// # Errors
/// A topic is missing or not safe, or no broker answers.
pub fn prepare(
    configuration: &Configuration,
    settings: &Settings,
    log: Log,
) -> Result<Option<Box<dyn Engine>>, Ending> {
    let options = assemble_engine::engine(configuration);
    options.map(|options| linked::prepare(&options, configuration, settings, log)).transpose()
}

/// Creates the missing topics, or only says which these are. Returns lines for the operator.
///
/// # Errors
/// No log is in the engine, no broker answers, or a broker refuses a topic.
pub fn create_topics(
    configuration: &Configuration,
    settings: &Settings,
    is_dry_run: bool,
) -> Result<Vec<String>, Ending> {
    linked::create_topics(&needed(configuration)?, settings, is_dry_run)
}

/// Examines the topics. Returns lines for the operator, and whether a node would start.
///
/// # Errors
/// No log is in the engine, or no broker answers.
pub fn check_topics(
    configuration: &Configuration,
    settings: &Settings,
) -> Result<(Vec<String>, bool), Ending> {
    linked::check_topics(&needed(configuration)?, settings)
}

/// Begins to read the control topic of the cluster; none if no log is in the engine. `take` is
/// called on a thread of the engine's client, and must not wait.
///
/// # Errors
/// The topic is missing, or no broker answers.
pub fn follow(
    configuration: &Configuration,
    settings: &Settings,
    log: Log,
    take: TakeLetter,
) -> Result<Option<Box<dyn WriteControl>>, Ending> {
    let options = assemble_engine::engine(configuration);
    options.map(|options| linked::follow(&options, settings, log, take)).transpose()
}

/// Takes letters of the control topic.
pub type TakeLetter = Box<dyn FnMut(Letter) + Send>;

fn needed(configuration: &Configuration) -> Result<EngineOptions, Ending> {
    let options = assemble_engine::engine(configuration);
    options.ok_or_else(|| anyhow!("no [[log]] has durability = \"engine\"").into())
}

/// The end of a command that needs the engine.
#[cfg(not(feature = "engine"))]
pub fn missing() -> Ending {
    anyhow!("this program was built without the engine (cargo feature `engine`)").into()
}

/// A program without the engine. Its configuration has been checked: it has no log there.
#[cfg(not(feature = "engine"))]
mod linked {
    use super::{
        Configuration, Ending, Engine, EngineOptions, Log, Settings, TakeLetter, WriteControl,
        missing,
    };

    pub fn prepare(
        _: &EngineOptions,
        _: &Configuration,
        _: &Settings,
        _: Log,
    ) -> Result<Box<dyn Engine>, Ending> {
        Err(missing())
    }

    pub fn follow(
        _: &EngineOptions,
        _: &Settings,
        _: Log,
        _: TakeLetter,
    ) -> Result<Box<dyn WriteControl>, Ending> {
        Err(missing())
    }

    pub fn create_topics(_: &EngineOptions, _: &Settings, _: bool) -> Result<Vec<String>, Ending> {
        Err(missing())
    }

    pub fn check_topics(_: &EngineOptions, _: &Settings) -> Result<(Vec<String>, bool), Ending> {
        Err(missing())
    }
}

//! `crore engine`: the topics of logs in an engine, before a node starts.

use crate::configuration::{self, Configuration, assemble};
use crate::engine_client;
use crate::exit::Ending;
use crate::flags::ConfigurationArguments;
use crate::process;
use broker::settings::Settings;
use std::io::Write;

/// Arguments of `engine`.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, clap::Subcommand)]
enum What {
    /// Create the topics of logs in the engine that do not exist yet. Others stay as they are.
    Init {
        /// Print the missing topics, and create nothing.
        #[arg(long)]
        dry_run: bool,
        #[command(flatten)]
        configuration: ConfigurationArguments,
    },
    /// Examine the topics of logs in the engine, and print what they lack. The exit code is 1 if a
    /// node would not start with them.
    Check {
        #[command(flatten)]
        configuration: ConfigurationArguments,
    },
}

/// Runs the command.
///
/// # Errors
/// The configuration has a fault, no broker answers, or a topic is not as it should be.
pub fn run(arguments: &Arguments) -> Result<(), Ending> {
    match &arguments.what {
        What::Init { dry_run, configuration } => {
            let (configuration, settings) = load(configuration)?;
            print(&engine_client::create_topics(&configuration, &settings, *dry_run)?)
        }
        What::Check { configuration } => {
            let (configuration, settings) = load(configuration)?;
            let (lines, starts) = engine_client::check_topics(&configuration, &settings)?;
            print(&lines)?;
            if starts { Ok(()) } else { Err(Ending::FailedAndTold) }
        }
    }
}

/// Creates the topics of a configuration file, without the environment and without lines.
///
/// # Errors
/// The configuration has a fault, or no broker answers.
#[cfg(feature = "engine")]
pub fn init(file: &std::path::Path) -> Result<(), Ending> {
    let file = Some(file.to_owned());
    let sources = configuration::Sources { file, variables: Vec::new(), flags: Vec::new() };
    let configuration = configuration::load(&sources)?;
    let settings = assemble::settings(&configuration, process::cores_count());
    engine_client::create_topics(&configuration, &settings, false).map(drop)
}

fn load(arguments: &ConfigurationArguments) -> Result<(Configuration, Settings), Ending> {
    let configuration = configuration::load(&arguments.sources())?;
    let settings = assemble::settings(&configuration, process::cores_count());
    Ok((configuration, settings))
}

fn print(lines: &[String]) -> Result<(), Ending> {
    let mut out = std::io::stdout().lock();
    for line in lines {
        writeln!(out, "{line}")?;
    }
    Ok(())
}

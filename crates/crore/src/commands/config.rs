//! `crore config`: shows the effective configuration, its faults, and the reference.

use crate::configuration::{self, document, explain};
use crate::exit::Ending;
use crate::flags::ConfigurationArguments;
use std::io::Write;
use std::path::PathBuf;

/// Arguments of `config`.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, clap::Subcommand)]
enum What {
    /// Print the configuration in force, and the source of each value.
    Print {
        /// Print JSON.
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        configuration: ConfigurationArguments,
    },
    /// Check the configuration and print every fault with its location. The exit code is 78 if
    /// there is a fault.
    Check {
        /// Configuration file. The same as --config.
        file: Option<PathBuf>,
        #[command(flatten)]
        configuration: ConfigurationArguments,
    },
    /// Print a configuration file with every option, its default and help.
    Default,
    /// Print the reference page in Markdown, or the help of one section or option.
    Doc {
        /// Section (`limits`, `rule`) or option (`limits.topics_max`, `rule.filter`).
        name: Option<String>,
    },
    /// Print the rule that applies to a topic or filter, and the source of each of its values.
    Explain {
        /// Topic or filter.
        topic: String,
        #[command(flatten)]
        configuration: ConfigurationArguments,
    },
}

/// Runs the command.
///
/// # Errors
/// The configuration has a fault, the name is unknown, or standard output fails.
pub fn run(arguments: &Arguments) -> Result<(), Ending> {
    let text = match &arguments.what {
        What::Print { json, configuration } => {
            let configuration = configuration::load(&configuration.sources())?;
            if *json {
                format!("{:#}\n", document::as_json(&configuration))
            } else {
                document::in_force(&configuration)
            }
        }
        What::Check { file, configuration } => {
            let mut sources = configuration.sources();
            sources.file = file.clone().or(sources.file);
            configuration::load(&sources)?;
            match &sources.file {
                Some(path) => format!("{}: ok\n", path.display()),
                None => "defaults, environment and flags: ok\n".into(),
            }
        }
        What::Default => document::default_file(),
        What::Doc { name: None } => document::reference(),
        What::Doc { name: Some(name) } => document::help_of(name).map_err(Ending::Usage)?,
        What::Explain { topic, configuration } => {
            let configuration = configuration::load(&configuration.sources())?;
            explain::explain(&configuration, topic)
                .map_err(|error| Ending::Usage(format!("{topic:?}: {error}")))?
        }
    };
    std::io::stdout().lock().write_all(text.as_bytes())?;
    Ok(())
}

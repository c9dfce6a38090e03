//! `crore config`: what is in force, what is wrong, what there is.

use crate::cli::ConfigurationArguments;
use crate::configuration::{self, document, explain};
use crate::exit::Ending;
use std::io::Write;
use std::path::PathBuf;

/// What to show.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, clap::Subcommand)]
enum What {
    /// Print what is in force, and where each value comes from.
    Print {
        /// As JSON, for programs.
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        configuration: ConfigurationArguments,
    },
    /// Say what is wrong, and where; exit code 78 if anything is.
    Check {
        /// The file; the same as --config.
        file: Option<PathBuf>,
        #[command(flatten)]
        configuration: ConfigurationArguments,
    },
    /// Print a file with every option, its default and help.
    Default,
    /// Print the reference page, in Markdown; of one section or option its help.
    Doc {
        /// A section (`limits`, `rule`) or an option (`limits.topics_max`, `rule.filter`).
        name: Option<String>,
    },
    /// Print the rule that governs a topic or a filter, and where each of its values comes from.
    Explain {
        /// The topic, or a filter.
        topic: String,
        #[command(flatten)]
        configuration: ConfigurationArguments,
    },
}

/// Shows it.
///
/// # Errors
/// A fault in the configuration; a name that is none; standard output fails.
pub fn run(arguments: &Arguments) -> Result<(), Ending> {
    let text = match &arguments.what {
        What::Print { json, configuration } => {
            let configuration = configuration::load(&configuration.sources())?;
            match json {
                true => format!("{:#}\n", document::as_json(&configuration)),
                false => document::in_force(&configuration),
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

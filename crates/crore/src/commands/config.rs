//! `crore config`: what is in force, what is wrong, what there is.

use crate::cli::ConfigurationArguments;
use crate::configuration::{self, document};
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
    Print(ConfigurationArguments),
    /// Say what is wrong, and where; exit code 78 if anything is.
    Check {
        /// The file; the same as --config.
        file: Option<PathBuf>,
        #[command(flatten)]
        configuration: ConfigurationArguments,
    },
    /// Print a file with every option, its default and help.
    Default,
    /// Print the reference page, in Markdown.
    Doc,
}

/// Shows it.
///
/// # Errors
/// A fault in the configuration; standard output fails.
pub fn run(arguments: &Arguments) -> Result<(), Ending> {
    let text = match &arguments.what {
        What::Print(sources) => document::in_force(&configuration::load(&sources.sources())?),
        What::Check {
            file,
            configuration,
        } => {
            let mut sources = configuration.sources();
            sources.file = file.clone().or(sources.file);
            configuration::load(&sources)?;
            match &sources.file {
                Some(path) => format!("{}: ok\n", path.display()),
                None => "defaults, environment and flags: ok\n".into(),
            }
        }
        What::Default => document::default_file(),
        What::Doc => document::reference(),
    };
    std::io::stdout().lock().write_all(text.as_bytes())?;
    Ok(())
}

//! `crore completion`.

use crate::exit::Ending;
use clap::CommandFactory;
use clap_complete::Shell;
use std::io::Write;

/// Arguments of `completion`.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Shell to generate the script for.
    pub shell: Shell,
}

/// Prints the script.
///
/// # Errors
/// Standard output fails.
pub fn run(arguments: &Arguments) -> Result<(), Ending> {
    let mut script = Vec::new();
    let mut command = crate::cli::Arguments::command();
    clap_complete::generate(arguments.shell, &mut command, "crore", &mut script);
    std::io::stdout().lock().write_all(&script)?;
    Ok(())
}

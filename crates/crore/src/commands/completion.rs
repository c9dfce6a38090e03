//! `crore completion`.

use crate::exit::Ending;
use clap::Command;
use clap_complete::Shell;
use std::io::Write;

/// Arguments of `completion`.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Shell to generate the script for.
    pub shell: Shell,
}

/// Prints the script of this command line.
///
/// # Errors
/// Standard output fails.
pub fn run(arguments: &Arguments, mut command: Command) -> Result<(), Ending> {
    let mut script = Vec::new();
    clap_complete::generate(arguments.shell, &mut command, "crore", &mut script);
    std::io::stdout().lock().write_all(&script)?;
    Ok(())
}

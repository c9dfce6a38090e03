//! `crore bridge`: a configuration of Mosquitto as one of Crore.

use crate::configuration;
use crate::exit::Ending;
use crate::mosquitto;
use anyhow::Context;
use std::io::Write;
use std::path::PathBuf;

/// Arguments of `bridge`.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Configuration file of Mosquitto. Files that it names are read relative to its directory.
    file: PathBuf,
}

/// Runs the command.
///
/// # Errors
/// The file cannot be read, the result has a fault, or standard output fails.
pub fn run(arguments: &Arguments) -> Result<(), Ending> {
    let file = &arguments.file;
    let text =
        mosquitto::translate(file).with_context(|| format!("cannot read {}", file.display()))?;
    std::io::stdout().lock().write_all(text.as_bytes())?;
    // A fault is one of values that contradict each other, such as two listeners on one port.
    configuration::load_text(&PathBuf::from("crore.toml"), &text)?;
    Ok(())
}

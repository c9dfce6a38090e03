//! `crore man`: the manual page, generated from the declaration of the command line.

use crate::cli::Arguments as CommandLine;
use crate::exit::Ending;
use clap::CommandFactory;
use std::io::Write;

/// Prints the page of the program, then one section for each command.
///
/// # Errors
/// Standard output cannot be written.
pub fn run() -> Result<(), Ending> {
    let page = clap_mangen::Man::new(CommandLine::command());
    let mut out = Vec::new();
    page.render(&mut out)?;
    std::io::stdout().write_all(&out)?;
    Ok(())
}

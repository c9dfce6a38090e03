//! `crore metrics`: the reference page of all metrics.

use crate::exit::Ending;
use crate::metrics::reference;
use std::io::Write;

/// Prints the page.
///
/// # Errors
/// Standard output fails.
pub fn run() -> Result<(), Ending> {
    let mut output = std::io::stdout().lock();
    output.write_all(reference::reference().as_bytes())?;
    Ok(())
}

//! `crore version`.

use crate::exit::Ending;
use std::io::Write;

/// The commit of the build, if it was built in a repository.
pub const COMMIT: Option<&str> = option_env!("BUILD_COMMIT");

/// Prints version, commit and compiler.
///
/// # Errors
/// Standard output fails.
pub fn run() -> Result<(), Ending> {
    let mut output = std::io::stdout().lock();
    writeln!(output, "crore {}", env!("CARGO_PKG_VERSION"))?;
    writeln!(output, "commit {}", COMMIT.unwrap_or("unknown"))?;
    writeln!(output, "compiler {}", option_env!("BUILD_COMPILER").unwrap_or("unknown"))?;
    Ok(())
}

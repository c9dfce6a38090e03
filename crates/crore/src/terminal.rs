//! What a terminal may be shown: colours and progress only where a person looks, never in a file or a pipe.

use std::io::IsTerminal;

/// Whether standard output is a terminal that redraws.
pub fn output_redraws() -> bool {
    std::io::stdout().is_terminal() && std::env::var_os("TERM").is_none_or(|term| term != "dumb")
}

/// Whether standard output takes colours (<https://no-color.org>).
pub fn output_has_colours() -> bool {
    output_redraws() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}

/// Columns of the terminal on standard output; 80 where it does not tell.
pub fn output_columns() -> usize {
    match rustix::termios::tcgetwinsize(std::io::stdout()) {
        Ok(size) if size.ws_col > 0 => usize::from(size.ws_col),
        _ => 80,
    }
}

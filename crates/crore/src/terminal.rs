//! Terminal output: colours and progress only on a terminal, never in a file or a pipe.

use rustix::termios::{LocalModes, OptionalActions, tcsetattr};
use std::io::{self, IsTerminal, Write};

/// Whether standard output is a terminal that redraws.
pub fn output_redraws() -> bool {
    std::io::stdout().is_terminal() && std::env::var_os("TERM").is_none_or(|term| term != "dumb")
}

/// Whether standard output supports colours (<https://no-color.org>).
pub fn output_has_colours() -> bool {
    output_redraws() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}

/// Columns of the terminal on standard output; 80 if they are unknown.
pub fn output_columns() -> usize {
    match rustix::termios::tcgetwinsize(std::io::stdout()) {
        Ok(size) if size.ws_col > 0 => usize::from(size.ws_col),
        _ => 80,
    }
}

/// Columns and rows of the terminal on standard output, if they are known.
pub fn output_size() -> Option<(usize, usize)> {
    let size = rustix::termios::tcgetwinsize(std::io::stdout()).ok()?;
    (size.ws_col > 0 && size.ws_row > 0).then_some((size.ws_col.into(), size.ws_row.into()))
}

/// The terminal as one screen that is redrawn, with keys delivered at once and without echo.
/// Dropping it restores the terminal.
pub struct Screen {
    /// The previous state of standard input; none if it is not a terminal.
    before: Option<rustix::termios::Termios>,
}

impl Screen {
    /// Takes over the terminal.
    ///
    /// # Errors
    /// Standard output cannot be written to.
    pub fn open() -> io::Result<Screen> {
        let before = rustix::termios::tcgetattr(std::io::stdin()).ok();
        if let Some(before) = &before {
            let mut now = before.clone();
            now.local_modes -= LocalModes::ICANON | LocalModes::ECHO;
            // Without raw mode, keys arrive at the end of their line; the rest works.
            let _ = tcsetattr(std::io::stdin(), OptionalActions::Now, &now);
        }
        let screen = Screen { before };
        let mut output = std::io::stdout();
        // Switch to the alternate screen and hide the cursor.
        output.write_all(b"\x1b[?1049h\x1b[?25l")?;
        output.flush()?;
        Ok(screen)
    }

    /// Draws these lines over the previous ones.
    ///
    /// # Errors
    /// Standard output cannot be written to.
    pub fn show(&self, lines: &[String]) -> io::Result<()> {
        // Draw from the top; clear the rest of each line, and everything below the last.
        let text = format!("\x1b[H{}\x1b[K\x1b[J", lines.join("\x1b[K\r\n"));
        let mut output = std::io::stdout();
        output.write_all(text.as_bytes())?;
        output.flush()
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        // No error can be reported here.
        let mut output = std::io::stdout();
        let _ = output.write_all(b"\x1b[?25h\x1b[?1049l");
        let _ = output.flush();
        if let Some(before) = &self.before {
            let _ = tcsetattr(std::io::stdin(), OptionalActions::Now, before);
        }
    }
}

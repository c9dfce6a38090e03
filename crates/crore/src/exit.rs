//! The end of a command, and its exit code.

use crate::configuration::fault::Faults;
use crate::signals::Signal;
use std::io;
use std::process::ExitCode;

/// Every end except success.
#[derive(Debug)]
pub enum Ending {
    /// The command failed: 1.
    Failed(anyhow::Error),
    /// The command failed, and has printed the reason: 1.
    FailedAndTold,
    /// The command line is invalid: 2.
    Usage(String),
    /// The configuration is faulty: 78, as `EX_CONFIG` of BSD's sysexits.
    Configuration(Faults),
    /// A signal stopped the command: 128 plus the signal's number.
    Signal(Signal),
    /// The reader has closed standard output: not a failure.
    OutputClosed,
}

impl Ending {
    /// Writes the message to standard error and returns the exit code.
    pub fn report(self) -> ExitCode {
        let code = self.code();
        match self {
            Ending::Failed(error) => eprintln!("error: {error:#}"),
            Ending::Usage(text) => {
                eprintln!("error: {text}\n\nFor more information, try '--help'.")
            }
            Ending::Configuration(faults) => {
                for fault in &faults.0 {
                    eprintln!("error: {fault}");
                }
            }
            Ending::FailedAndTold | Ending::Signal(_) | Ending::OutputClosed => {}
        }
        ExitCode::from(code)
    }

    /// The message, in one line.
    pub fn describe(&self) -> String {
        match self {
            Ending::Failed(error) => format!("{error:#}"),
            Ending::Usage(text) => text.clone(),
            Ending::Configuration(faults) => {
                let faults: Vec<String> = faults.0.iter().map(ToString::to_string).collect();
                faults.join("; ")
            }
            other => format!("the process ended with code {}", other.code()),
        }
    }

    /// The exit code.
    pub fn code(&self) -> u8 {
        match self {
            Ending::Failed(_) | Ending::FailedAndTold => 1,
            Ending::Usage(_) => 2,
            Ending::Configuration(_) => 78,
            Ending::Signal(signal) => signal.exit_code(),
            Ending::OutputClosed => 0,
        }
    }
}

impl From<anyhow::Error> for Ending {
    fn from(error: anyhow::Error) -> Self {
        Ending::Failed(error)
    }
}

impl From<Faults> for Ending {
    fn from(faults: Faults) -> Self {
        Ending::Configuration(faults)
    }
}

/// Converts errors of writes to standard output.
impl From<io::Error> for Ending {
    fn from(error: io::Error) -> Self {
        if error.kind() == io::ErrorKind::BrokenPipe {
            Ending::OutputClosed
        } else {
            Ending::Failed(error.into())
        }
    }
}

//! Plays the scenarios of `spec/scenarios` against an SDK: the application and the server in one
//! program.
//!
//! Place: outside the product. Every SDK's tests start the program `crore-script`; the Rust
//! client's use this library. `spec/scenarios/README.md` has the form of scenarios and the commands
//! of an [`Adapter`].
#![forbid(unsafe_code)]

mod frames;
mod matching;
mod model;
#[path = "../../wire/tests/native_json/mod.rs"]
mod native_json;
mod play;
mod random;
mod seen;
mod server;

use std::path::Path;

use serde_json::Value;

pub use play::{Outcome, play};
pub use random::play_random;
pub use server::Server;

/// The driver of an SDK: carries out one command, and returns the effects since the last one.
pub trait Adapter {
    /// Carries out one command.
    ///
    /// # Errors
    /// The adapter has ended, or its reply is not JSON.
    fn call(&mut self, command: Value) -> Result<Value, String>;
}

/// The way to play a scenario.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mode {
    /// The SDK's core without sockets, in virtual time.
    Core,
    /// The SDK over real sockets.
    Wire,
}

impl Mode {
    /// The name in scenarios and commands.
    pub fn name(self) -> &'static str {
        match self {
            Mode::Core => "core",
            Mode::Wire => "wire",
        }
    }
}

/// Reads the scenarios of one file.
///
/// # Errors
/// The file cannot be read, or is not a list of scenarios.
pub fn read(file: &Path) -> Result<Vec<Value>, String> {
    let name = file.display();
    let text = std::fs::read_to_string(file).map_err(|error| format!("{name}: {error}"))?;
    let value: Value = serde_json::from_str(&text).map_err(|error| format!("{name}: {error}"))?;
    let scenarios = value["scenarios"].as_array().cloned();
    scenarios.ok_or_else(|| format!("{name}: no `scenarios`"))
}

//! Configuration: file < environment < flags, over declared defaults. One declaration per option
//! (`options.rs`) gives the file `crore.toml`, the documents, the environment's names and
//! validation.
//!
//! Unknown keys and bad values are faults with file, line, key and the expected value. All are
//! collected, and the command ends with exit code 78.

pub mod assemble;
pub mod assemble_engine;
pub mod assemble_logging;
pub mod changes;
pub mod document;
pub mod entries;
pub mod explain;
pub mod fault;
mod file;
mod moment;
pub mod options;
pub mod relations;
pub mod value;
mod variables;

pub use entries::{Configuration, Entry};
use fault::{Fault, Faults, Origin};
#[cfg(test)]
pub use file::read as read_file;
use options::OptionSpec;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use value::{Refusal, Value};

/// Sources of values, which override the defaults.
#[derive(Clone, Debug, Default)]
pub struct Sources {
    /// A configuration file.
    pub file: Option<PathBuf>,
    /// The environment; only names that start with `CRORE_` matter.
    pub variables: Vec<(String, String)>,
    /// Flags: the flag's name, the key and the value.
    pub flags: Vec<(&'static str, String, String)>,
}

/// Reads all sources and checks the whole.
///
/// # Errors
/// All faults of all sources. A file that cannot be read is one.
pub fn load(sources: &Sources) -> Result<Configuration, Faults> {
    let mut faults = Vec::new();
    let mut configuration = Configuration::default();
    if let Some(path) = &sources.file {
        let shared = Arc::new(path.clone());
        match std::fs::read_to_string(path) {
            Ok(text) => file::read(&shared, &text, &mut configuration, &mut faults),
            Err(error) => faults.push(Fault {
                origin: Origin::Flag("--config"),
                key: String::new(),
                problem: format!("cannot read {}: {error}", path.display()),
                expected: "a TOML file".into(),
            }),
        }
    }
    variables::read(&sources.variables, &mut configuration, &mut faults);
    for (flag, key, text) in &sources.flags {
        let read = |spec: &OptionSpec| {
            if spec.kind.is_secret() {
                Err(secret_in_flag(spec))
            } else {
                spec.kind.read_text(text)
            }
        };
        configuration.set(key, Origin::Flag(flag), read, &mut faults);
    }
    if !faults.is_empty() {
        return Err(Faults(faults));
    }
    check(&configuration)?;
    Ok(configuration)
}

/// Everybody on the machine can read a command line, for as long as the process runs and over its
/// upgrades.
fn secret_in_flag(spec: &OptionSpec) -> Refusal {
    let variable = spec.variable();
    Refusal {
        problem: "a secret on the command line is visible in the process list".into(),
        expected: format!(
            "{variable}_FILE=FILE or {variable} in the environment, or the configuration file"
        ),
    }
}

/// Checks a whole that did not come from one reading of the sources.
///
/// # Errors
/// Values that contradict each other.
pub fn check(configuration: &Configuration) -> Result<(), Faults> {
    let mut faults = Vec::new();
    relations::check(configuration, &mut faults);
    if faults.is_empty() { Ok(()) } else { Err(Faults(faults)) }
}

/// The text of one file, checked.
///
/// # Errors
/// All its faults.
pub fn load_text(path: &Path, text: &str) -> Result<Configuration, Faults> {
    let mut faults = Vec::new();
    let mut configuration = Configuration::default();
    file::read(&Arc::new(path.to_owned()), text, &mut configuration, &mut faults);
    if !faults.is_empty() {
        return Err(Faults(faults));
    }
    check(&configuration)?;
    Ok(configuration)
}

#[cfg(test)]
mod tests;

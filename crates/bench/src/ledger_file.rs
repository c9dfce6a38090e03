//! Ledgers as files: written at the end of a publishing run, waited for by an audit.
//!
//! Place: between the command line and [`crate::audit::Ledger`]. A file appears whole or not at
//! all, so that a reader never finds a part of one.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow};

use crate::audit::Ledger;

/// Writes a ledger under a name beside it, and renames that.
///
/// # Errors
/// The file cannot be written.
pub fn write(path: &Path, ledger: &Ledger) -> anyhow::Result<()> {
    let mut name = path.as_os_str().to_owned();
    name.push(".new");
    let new = PathBuf::from(name);
    std::fs::write(&new, ledger.write())
        .and_then(|()| std::fs::rename(&new, path))
        .with_context(|| format!("--ledger {}", path.display()))
}

/// Files that are waited for.
#[derive(Clone, Debug)]
pub struct Awaited {
    missing: Vec<PathBuf>,
    ledger: Ledger,
}

impl Awaited {
    /// These; none of them need be there yet.
    pub fn new(paths: &[PathBuf]) -> Awaited {
        Awaited { missing: paths.to_vec(), ledger: Ledger::default() }
    }

    /// Reads the files that have appeared. The last one completes the ledger, which is returned
    /// once.
    ///
    /// # Errors
    /// A file cannot be read, or is not a ledger.
    pub fn look(&mut self) -> anyhow::Result<Option<Ledger>> {
        if self.missing.is_empty() {
            return Ok(None);
        }
        let mut missing = Vec::new();
        for path in std::mem::take(&mut self.missing) {
            match std::fs::read_to_string(&path) {
                Ok(text) => self
                    .ledger
                    .read(&text)
                    .map_err(|error| anyhow!("--ledger {}: {error}", path.display()))?,
                Err(error) if error.kind() == ErrorKind::NotFound => missing.push(path),
                Err(error) => {
                    return Err(error).with_context(|| format!("--ledger {}", path.display()));
                }
            }
        }
        self.missing = missing;
        Ok(self.missing.is_empty().then(|| std::mem::take(&mut self.ledger)))
    }

    /// Whether some are still to come.
    pub fn is_waiting(&self) -> bool {
        !self.missing.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::audit::Entry;

    #[test]
    fn files_are_waited_for() {
        let folder = std::env::temp_dir().join(format!("crore-ledger-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(&folder).unwrap();
        let paths = ["a", "b"].map(|name| folder.join(name));
        let mut awaited = Awaited::new(&paths);
        let entry = Entry { acknowledged: 2, sequence: 3 };
        for (topic, path) in ["x", "y"].iter().zip(&paths) {
            assert!(awaited.look().unwrap().is_none() && awaited.is_waiting());
            let mut ledger = Ledger::default();
            ledger.insert((*topic).to_owned(), entry);
            write(path, &ledger).unwrap();
        }
        let ledger = awaited.look().unwrap().unwrap();
        assert_eq!((ledger.entry("x"), ledger.acknowledged()), (Some(entry), 4));
        assert!(awaited.look().unwrap().is_none() && !awaited.is_waiting());
        std::fs::write(&paths[0], "no ledger").unwrap();
        let said = Awaited::new(&paths).look().unwrap_err().to_string();
        assert!(said.contains("line 1"), "{said}");
        std::fs::remove_dir_all(&folder).unwrap();
    }
}

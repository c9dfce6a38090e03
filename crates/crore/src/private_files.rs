//! Files with secrets, and their access rights.
//!
//! Place: at a start of `serve`. New files are created private elsewhere. Invariant: no failure
//! here stops a start.

use crate::configuration::fault::Origin;
use crate::configuration::options::{Engine, Entitlement, LogTable, OPTIONS, Tls, TokenKeyTable};
use crate::configuration::{Configuration, Entry};
use crate::entitled::data_dir;
use crate::logging::Level;
use broker::settings::Durability;
use entitlement::revocation_file;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Restricts logs and revocations to their owner, and warns of files with secrets that other users
/// can read: their owner must change those.
pub fn notices(configuration: &Configuration) -> Vec<(Level, String)> {
    let mut notices = Vec::new();
    if let Some(directory) = data_dir(configuration) {
        notices.extend(close_data(configuration, &directory));
    }
    for file in secret_files(configuration) {
        if is_open(&file) {
            let sentence = format!(
                "every user of this machine can read {}, which contains a secret: run chmod 600 on it, and create a new secret if another user may have read it",
                file.display()
            );
            notices.push((Level::Warn, sentence));
        }
    }
    notices
}

/// An older version created files with the umask's mode.
fn close_data(configuration: &Configuration, directory: &Path) -> Vec<(Level, String)> {
    let mut notices = Vec::new();
    let mut tell = |path: &Path, closed: io::Result<u64>| {
        let path = path.display();
        match closed {
            Ok(0) => {}
            // The start of a log creates its directory.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Ok(_) => {
                let sentence = format!("other users could read {path}; now only its owner can");
                notices.push((Level::Warn, sentence));
            }
            Err(error) => {
                let sentence = format!("cannot restrict {path} to its owner: {error}");
                notices.push((Level::Warn, sentence));
            }
        }
    };
    for log in configuration.logs.iter().map(Entry::read::<LogTable>) {
        if log.durability != Durability::Disk && !log.mirror {
            continue;
        }
        let path = directory.join(log.name);
        tell(&path, disk::make_private(&path));
    }
    let path = directory.join(revocation_file::FILE_NAME);
    tell(&path, disk::make_one_private(&path).map(u64::from));
    notices
}

/// Files of the configuration that contain secrets.
fn secret_files(configuration: &Configuration) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for spec in OPTIONS.iter().filter(|spec| spec.kind.is_secret()) {
        if let Some((_, origin)) = configuration.given(spec.key) {
            files.extend(file_of(origin));
        }
    }
    for key in &configuration.token_keys {
        files.extend(key.read::<TokenKeyTable>().secret_file);
        if let Some((_, origin)) = key.get("secret") {
            files.extend(file_of(origin));
        }
    }
    files.extend(configuration.read::<Tls>().key_file);
    files.extend(configuration.read::<Entitlement>().users_file);
    let Engine { key_file, password_file, oauth_token_file, oauth_client_secret_file, .. } =
        configuration.read();
    let of_engine = [key_file, password_file, oauth_token_file, oauth_client_secret_file];
    files.extend(of_engine.into_iter().flatten());
    files.sort();
    files.dedup();
    files
}

/// The file that a value was read from.
fn file_of(origin: &Origin) -> Option<PathBuf> {
    match origin {
        Origin::File(path, _) => Some(path.to_path_buf()),
        Origin::Variable(name) if name.ends_with("_FILE") => std::env::var_os(name).map(Into::into),
        _ => None,
    }
}

/// Access of a group is a decision; access of all users is an oversight.
fn is_open(file: &Path) -> bool {
    std::fs::metadata(file).is_ok_and(|found| found.mode() & 0o004 != 0)
}

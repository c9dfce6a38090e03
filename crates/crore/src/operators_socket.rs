//! The operators' socket: operators of this machine reach a node through it without a key, because
//! the kernel identifies them.
//!
//! Place: created by `serve`, found by the commands. Without a configured path, its name contains
//! the operators' port, in the first usable directory of [`folders`], so that commands find it by
//! the port. Invariants: only its owner can access the file (0600), or also its group if the
//! configuration says so; a file with a live process is never replaced, except by the process that
//! takes over from it; and an upgrade leaves no moment without the file, because a new one replaces
//! it by `rename`.

use rustix::fs::{Gid, chown};
use rustix::process::geteuid;
use std::fs::{self, DirBuilder, Permissions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

/// The configured place of the socket.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Wanted {
    /// Automatic: named by the port, in a directory for such files.
    Auto,
    /// No socket.
    Off,
    /// This path; if it fails, the node does not start.
    At(PathBuf),
}

/// A listening socket. Dropping it removes the file, if the file is still this one.
#[derive(Debug)]
pub struct OperatorsSocket {
    /// The path of the file.
    pub path: PathBuf,
    /// Accepts connections.
    pub listener: UnixListener,
    /// Whether the file's mode admits its group.
    pub is_for_group: bool,
    /// Device and inode number of the file.
    is: (u64, u64),
}

impl Wanted {
    /// The configured place.
    pub fn of(text: &str) -> Wanted {
        match text {
            "auto" => Wanted::Auto,
            "off" => Wanted::Off,
            path => Wanted::At(path.into()),
        }
    }
}

impl OperatorsSocket {
    /// Creates the file. `group`: its members may connect, too. A process that takes over replaces
    /// the file of its predecessor.
    ///
    /// # Errors
    /// The reason of the failure. `AddrInUse` if another node serves the socket.
    pub fn make(path: &Path, group: Option<u32>, takes_over: bool) -> io::Result<OperatorsSocket> {
        if !takes_over {
            check_free(path)?;
        }
        // Clients cannot find the file by this name before it has its mode.
        let mut name = path.as_os_str().to_owned();
        name.push(format!(".{}", std::process::id()));
        let new = PathBuf::from(name);
        let _ = fs::remove_file(&new);
        let listener = UnixListener::bind(&new)?;
        let mode = if group.is_some() { 0o660 } else { 0o600 };
        let made = || -> io::Result<(u64, u64)> {
            fs::set_permissions(&new, Permissions::from_mode(mode))?;
            if let Some(group) = group {
                chown(&new, None, Some(Gid::from_raw(group)))?;
            }
            fs::rename(&new, path)?;
            let made = fs::symlink_metadata(path)?;
            Ok((made.dev(), made.ino()))
        };
        match made() {
            Ok(is) => Ok(OperatorsSocket {
                path: path.to_owned(),
                listener,
                is_for_group: group.is_some(),
                is,
            }),
            Err(error) => {
                let _ = fs::remove_file(&new);
                Err(error)
            }
        }
    }

    /// Creates the file in the first directory that allows it.
    ///
    /// # Errors
    /// The error of the last directory.
    pub fn make_for(
        port: u16,
        group: Option<u32>,
        takes_over: bool,
    ) -> io::Result<OperatorsSocket> {
        let mut result = Err(io::Error::from(ErrorKind::NotFound));
        for folder in folders() {
            let made = provide(&folder)
                .and_then(|()| OperatorsSocket::make(&folder.join(name(port)), group, takes_over));
            match made {
                Ok(made) => return Ok(made),
                Err(error) => result = Err(error),
            }
        }
        result
    }
}

impl Drop for OperatorsSocket {
    fn drop(&mut self) {
        let present = fs::symlink_metadata(&self.path);
        if present.is_ok_and(|present| (present.dev(), present.ino()) == self.is) {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Connects to the node with this operators' port through its socket, if it exists.
pub fn connect(port: u16) -> Option<UnixStream> {
    let folders = folders().into_iter().filter(|folder| is_safe(folder));
    let mut found = folders.map(|folder| UnixStream::connect(folder.join(name(port))));
    found.find_map(Result::ok)
}

/// Directories of such files: the service manager's directory of this service, the system's, the
/// user's, and one of the user's own below the temporary directory.
fn folders() -> Vec<PathBuf> {
    let variable = |name| std::env::var_os(name).filter(|value| !value.is_empty());
    let of_service = variable("RUNTIME_DIRECTORY").map(|value| {
        // Use the first of several.
        let value = value.to_string_lossy().into_owned();
        PathBuf::from(value.split(':').next().unwrap_or_default())
    });
    let of_user = variable("XDG_RUNTIME_DIR").map(|value| PathBuf::from(value).join("crore"));
    let of_system = Some(PathBuf::from("/run/crore"));
    [of_service, of_system, of_user, Some(temporary())].into_iter().flatten().collect()
}

fn temporary() -> PathBuf {
    std::env::temp_dir().join(format!("crore-{}", geteuid().as_raw()))
}

fn name(port: u16) -> String {
    format!("operators-{port}.sock")
}

/// Any user can create a directory below the temporary directory: it must belong to this user, and
/// be closed to others.
fn is_safe(folder: &Path) -> bool {
    folder != temporary()
        || fs::symlink_metadata(folder).is_ok_and(|found| {
            let is_closed = found.mode() & 0o077 == 0;
            found.is_dir() && found.uid() == geteuid().as_raw() && is_closed
        })
}

/// Creates the directory if it is missing.
fn provide(folder: &Path) -> io::Result<()> {
    match DirBuilder::new().mode(0o700).create(folder) {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => Err(error),
        _ if is_safe(folder) => Ok(()),
        _ => Err(io::Error::new(
            ErrorKind::PermissionDenied,
            format!("{} belongs to another user, or other users can access it", folder.display()),
        )),
    }
}

/// Removes the socket of a dead node; any other file stays.
fn check_free(path: &Path) -> io::Result<()> {
    let present = match fs::symlink_metadata(path) {
        Ok(present) => present,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    };
    let refused = |text: &str| {
        let text = format!("{}: {text}", path.display());
        Err(io::Error::new(ErrorKind::AddrInUse, text))
    };
    if !present.file_type().is_socket() {
        return refused("a file that is not a socket exists at this path");
    }
    match UnixStream::connect(path) {
        Err(error) if error.kind() == ErrorKind::ConnectionRefused => Ok(()),
        Err(error) => Err(error),
        Ok(_) => refused("another process serves this socket"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A folder of this test's own.
    fn folder(name: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("crore-{name}-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        folder
    }

    #[test]
    fn a_socket_is_its_owners_and_goes_with_its_node() {
        let folder = folder("socket");
        let path = folder.join("a.sock");
        let made = OperatorsSocket::make(&path, None, false).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
        assert!(UnixStream::connect(&path).is_ok());
        // It answers: another node does not take it.
        let error = OperatorsSocket::make(&path, None, false).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::AddrInUse);
        assert!(error.to_string().contains("another process"), "{error}");
        // The process that takes over does, and the end of the one before leaves the new file
        // alone.
        let next = OperatorsSocket::make(&path, None, true).unwrap();
        drop(made);
        assert!(UnixStream::connect(&path).is_ok());
        drop(next);
        assert!(!path.exists());
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn only_what_a_dead_node_has_left_is_replaced() {
        let folder = folder("stale");
        let path = folder.join("a.sock");
        let dead = UnixListener::bind(&path).unwrap();
        drop(dead);
        drop(OperatorsSocket::make(&path, None, false).unwrap());
        fs::write(&path, "of somebody").unwrap();
        let error = OperatorsSocket::make(&path, None, false).unwrap_err();
        assert!(error.to_string().contains("not a socket"), "{error}");
        assert_eq!(fs::read(&path).unwrap(), b"of somebody");
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 1);
        fs::remove_dir_all(folder).unwrap();
    }
}

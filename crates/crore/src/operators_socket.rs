//! The operators' socket: a file by which this machine's operators reach a node without a key, as the kernel says who they are.
//!
//! Place: made by `serve`, found by the commands. Without a path in the configuration its name has the operators' port, in the
//! first of [`folders`] that takes it; so commands find it by the port that they are told anyway. Invariants: the file is its
//! owner's alone (0600), or its group's too where the configuration says so; a file that answers is never replaced, but by the
//! process that takes over from it; and an upgrade leaves no moment without the file, as a new one takes its place by `rename`.

use rustix::fs::{Gid, chown};
use rustix::process::geteuid;
use std::fs::{self, DirBuilder, Permissions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

/// Where the configuration wants it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Wanted {
    /// By the port, in a folder for such files.
    Auto,
    /// Nowhere.
    Off,
    /// There, or the node does not start.
    At(PathBuf),
}

/// A socket that is listened on. Dropping it takes the file away, if it is still this one.
#[derive(Debug)]
pub struct OperatorsSocket {
    /// The file.
    pub path: PathBuf,
    /// Takes connections.
    pub listener: UnixListener,
    /// The file's mode lets its group in, too.
    pub is_for_group: bool,
    /// Device and number of the file.
    is: (u64, u64),
}

impl Wanted {
    /// As the configuration has it.
    pub fn of(text: &str) -> Wanted {
        match text {
            "auto" => Wanted::Auto,
            "off" => Wanted::Off,
            path => Wanted::At(path.into()),
        }
    }
}

impl OperatorsSocket {
    /// Makes the file. `group`: its members may come, too. A process that takes over replaces the file of the one before.
    ///
    /// # Errors
    /// Why not. Another node that answers there is `AddrInUse`.
    pub fn make(path: &Path, group: Option<u32>, takes_over: bool) -> io::Result<OperatorsSocket> {
        if !takes_over {
            check_free(path)?;
        }
        // Nobody finds it by this name before it has its mode.
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

    /// The same in the first folder that takes it.
    ///
    /// # Errors
    /// Why the last one did not.
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

/// A connection to the node whose operators' port this is, if its socket is there.
pub fn connect(port: u16) -> Option<UnixStream> {
    let folders = folders().into_iter().filter(|folder| is_safe(folder));
    let mut found = folders.map(|folder| UnixStream::connect(folder.join(name(port))));
    found.find_map(Result::ok)
}

/// Where such files are looked for: the service manager's folder for this service, the system's, the user's, and one of the
/// user's own among temporary files.
fn folders() -> Vec<PathBuf> {
    let variable = |name| std::env::var_os(name).filter(|value| !value.is_empty());
    let of_service = variable("RUNTIME_DIRECTORY").map(|value| {
        // The first of several.
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

/// Among temporary files anybody may make a folder of any name: it has to be this user's, and closed to others.
fn is_safe(folder: &Path) -> bool {
    folder != temporary()
        || fs::symlink_metadata(folder).is_ok_and(|found| {
            let is_closed = found.mode() & 0o077 == 0;
            found.is_dir() && found.uid() == geteuid().as_raw() && is_closed
        })
}

/// Makes the folder where it is not there.
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

/// What a node has left behind that is gone may be replaced; nothing else.
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
        // The process that takes over does, and the end of the one before leaves the new file alone.
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

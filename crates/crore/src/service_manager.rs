//! The service manager (systemd), if it started this process: notifications to it, and sockets from
//! it.
//!
//! The protocol is systemd's: datagrams of `NAME=value` lines to the socket `NOTIFY_SOCKET`
//! (sd_notify(3)), and listening sockets from descriptor 3 on (`LISTEN_FDS`, sd_listen_fds(3)).
//! Beside the path of messages. Invariants: a node serves even if the service manager does not
//! listen, so notifications never fail and never wait; environment variables count only if they
//! name this process.

use std::env;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::RawFd;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// The first descriptor passed by the service manager.
const FIRST_LISTENER: RawFd = 3;
/// The name of a socket without one.
const NAMELESS: &str = "unknown";
/// Maximum number of passed sockets.
const LISTENERS_MAX: usize = 256;

/// Reports that the node serves with a loaded configuration; `status` is for people.
pub fn ready(status: &str) {
    tell(&format!("READY=1\nSTATUS={}", line(status)));
}

/// Reports a reload; [`ready`] follows, whatever the result. The time of the report lets the
/// service manager match it with its request (`Type=notify-reload`).
pub fn reloading() {
    tell(&format!("RELOADING=1\nMONOTONIC_USEC={}", monotonic_us()));
}

/// Reports that the node stops, and the maximum time, however short the unit's own timeout is;
/// `status` is for people.
pub fn stopping(status: &str, within: Duration) {
    let within_us = within.as_micros();
    tell(&format!("STOPPING=1\nEXTEND_TIMEOUT_USEC={within_us}\nSTATUS={}", line(status)));
}

/// Sends watchdog notifications (`WatchdogSec=`), if the service manager requests them, while
/// `lives` returns true; none ends it. The service manager kills and restarts a silent node.
///
/// # Errors
/// The system refuses a thread.
pub fn watch(lives: impl Fn() -> Option<bool> + Send + 'static) -> io::Result<()> {
    let text = |name| env::var(name).ok();
    let Some(interval) = text("WATCHDOG_USEC").and_then(|us| watchdog_of(us, text("WATCHDOG_PID")))
    else {
        return Ok(());
    };
    let watching = move || {
        while let Some(is_alive) = lives() {
            if is_alive {
                tell("WATCHDOG=1");
            }
            // Half of the interval, so that one late notification is not fatal.
            std::thread::sleep(interval / 2);
        }
    };
    std::thread::Builder::new().name("watchdog".into()).spawn(watching)?;
    Ok(())
}

/// A listening socket passed by the service manager.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Inherited {
    /// The name in its unit (`FileDescriptorName=`).
    pub name: String,
    /// The descriptor in the table of this process.
    pub descriptor: RawFd,
}

/// The sockets passed to this process, in the order of their units.
///
/// # Errors
/// The environment variables are invalid.
pub fn inherited() -> Result<Vec<Inherited>, String> {
    let text = |name| env::var(name).unwrap_or_default();
    inherited_of(
        &text("LISTEN_PID"),
        &text("LISTEN_FDS"),
        &text("LISTEN_FDNAMES"),
        std::process::id(),
    )
}

/// Sends lines to the service manager.
pub fn tell(lines: &str) {
    if let Some(name) = env::var_os("NOTIFY_SOCKET") {
        tell_at(&name, lines);
    }
}

fn tell_at(name: &OsStr, lines: &str) {
    let address = match name.as_encoded_bytes().strip_prefix(b"@") {
        Some(abstract_name) => SocketAddr::from_abstract_name(abstract_name),
        None => SocketAddr::from_pathname(OsString::from(name)),
    };
    if let (Ok(socket), Ok(address)) = (UnixDatagram::unbound(), address) {
        // A full queue must not block the node.
        let _ = socket.set_nonblocking(true);
        let _ = socket.send_to_addr(lines.as_bytes(), &address);
    }
}

/// A text without line breaks, which would begin another line of the datagram.
fn line(text: &str) -> String {
    text.replace(['\n', '\r'], " ")
}

fn monotonic_us() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000 + now.tv_nsec as u64 / 1_000
}

fn watchdog_of(interval_us: String, process: Option<String>) -> Option<Duration> {
    let is_ours = process.is_none_or(|process| process == std::process::id().to_string());
    let interval_us: u64 = interval_us.parse().ok()?;
    (is_ours && interval_us > 0).then(|| Duration::from_micros(interval_us))
}

fn inherited_of(
    process: &str,
    count: &str,
    names: &str,
    own: u32,
) -> Result<Vec<Inherited>, String> {
    if count.is_empty() || process.parse() != Ok(own) {
        return Ok(Vec::new());
    }
    let count: usize =
        count.parse().ok().filter(|count| *count <= LISTENERS_MAX).ok_or_else(|| {
            format!("LISTEN_FDS is \"{count}\"; it must be from 0 to {LISTENERS_MAX}")
        })?;
    let names: Vec<&str> = match names {
        // The check of sd_listen_fds_with_names(3).
        "" => vec![NAMELESS; count],
        names => names.split(':').collect(),
    };
    if count > 0 && names.len() != count {
        return Err(format!("LISTEN_FDNAMES names {} sockets of {count}", names.len()));
    }
    let numbers = FIRST_LISTENER..;
    let listeners = numbers.zip(names).take(count);
    let listener =
        |(descriptor, name): (RawFd, &str)| Inherited { name: name.to_owned(), descriptor };
    Ok(listeners.map(listener).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn received(socket: &UnixDatagram) -> String {
        socket.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        let mut bytes = [0; 512];
        let length = socket.recv(&mut bytes).unwrap();
        String::from_utf8_lossy(&bytes[..length]).into_owned()
    }

    #[test]
    fn lines_reach_sockets_of_both_kinds() {
        let folder = env::temp_dir().join(format!("crore-notify-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(&folder).unwrap();
        let path = folder.join("notify");
        let socket = UnixDatagram::bind(&path).unwrap();
        tell_at(path.as_os_str(), "READY=1");
        assert_eq!(received(&socket), "READY=1");
        std::fs::remove_dir_all(&folder).unwrap();

        let name = format!("crore-notify-{}", std::process::id());
        let address = SocketAddr::from_abstract_name(&name).unwrap();
        let socket = UnixDatagram::bind_addr(&address).unwrap();
        tell_at(OsStr::new(&format!("@{name}")), "STOPPING=1");
        assert_eq!(received(&socket), "STOPPING=1");
    }

    #[test]
    fn nobody_waits_for_a_service_manager() {
        let name = format!("crore-notify-full-{}", std::process::id());
        let address = SocketAddr::from_abstract_name(&name).unwrap();
        let socket = UnixDatagram::bind_addr(&address).unwrap();
        // More than a queue of datagrams can hold, without a reader.
        for _ in 0..10_000 {
            tell_at(OsStr::new(&format!("@{name}")), "STATUS=x");
        }
        drop(socket);
        tell_at(OsStr::new(&format!("@{name}")), "STATUS=gone");
        tell_at(OsStr::new("/nowhere/at/all"), "STATUS=never there");
        tell_at(OsStr::new(""), "STATUS=nameless");
    }

    #[test]
    fn a_status_is_one_line() {
        assert_eq!(line("drains\nMAINPID=1\r\nREADY=1"), "drains MAINPID=1  READY=1");
        let before = monotonic_us();
        assert!(before > 0 && monotonic_us() >= before);
    }

    #[test]
    fn only_what_is_meant_for_this_process_counts() {
        let listener = |name: &str, descriptor| Inherited { name: name.into(), descriptor };
        let of = |process: &str, count: &str, names: &str| inherited_of(process, count, names, 77);
        let both = vec![listener("clients", 3), listener("operators", 4)];
        assert_eq!(of("77", "2", "clients:operators"), Ok(both));
        let nameless = vec![listener("unknown", 3), listener("unknown", 4)];
        assert_eq!(of("77", "2", ""), Ok(nameless));
        for (process, count, names) in [("", "", ""), ("78", "2", "a:b"), ("77", "0", "")] {
            assert_eq!(of(process, count, names), Ok(vec![]), "{process} {count} {names}");
        }
        for (count, names) in [("2", "clients"), ("1", "a:b"), ("-1", ""), ("257", ""), ("x", "")] {
            assert!(of("77", count, names).is_err(), "{count} {names}");
        }

        let own = std::process::id().to_string();
        let second = Some(Duration::from_secs(1));
        assert_eq!(watchdog_of("1000000".into(), None), second);
        assert_eq!(watchdog_of("1000000".into(), Some(own)), second);
        assert_eq!(watchdog_of("1000000".into(), Some("1".into())), None);
        assert_eq!(watchdog_of("0".into(), None), None);
        assert_eq!(watchdog_of("soon".into(), None), None);
    }
}

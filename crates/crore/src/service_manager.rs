//! The service manager that started this process, if one did (systemd): what it is told.
//!
//! The protocol is systemd's: datagrams of `NAME=value` lines to the socket `NOTIFY_SOCKET` (sd_notify(3)). Beside the path of messages. Invariants: a service
//! manager that does not listen is no reason not to serve, so that telling it something never fails and never waits; what
//! the environment says counts only where it names this process.

use std::env;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// The node serves, and goes by a configuration that it has read; `status` is for people.
pub fn ready(status: &str) {
    tell(&format!("READY=1\nSTATUS={}", line(status)));
}

/// The configuration is being read again; [`ready`] follows, whatever comes of it. With the moment of that, so that the
/// service manager knows which of its own requests this answers (`Type=notify-reload`).
pub fn reloading() {
    tell(&format!("RELOADING=1\nMONOTONIC_USEC={}", monotonic_us()));
}

/// The node ends; `status` says how far it is.
pub fn stopping(status: &str) {
    tell(&format!("STOPPING=1\nSTATUS={}", line(status)));
}

/// Where the service manager wants signs of life (`WatchdogSec=`), gives them as often as it needs them, as long as `lives`
/// says so; none ends it. Who does not live is killed and started again.
///
/// # Errors
/// There is no thread to do it.
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
            // Half of it: one that comes late is not the last.
            std::thread::sleep(interval / 2);
        }
    };
    std::thread::Builder::new()
        .name("watchdog".into())
        .spawn(watching)?;
    Ok(())
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
        // One whose queue is full must not hold the node up.
        let _ = socket.set_nonblocking(true);
        let _ = socket.send_to_addr(lines.as_bytes(), &address);
    }
}

/// A text without what would begin another line of the datagram.
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

#[cfg(test)]
mod tests {
    use super::*;

    fn received(socket: &UnixDatagram) -> String {
        socket
            .set_read_timeout(Some(Duration::from_secs(10)))
            .unwrap();
        let mut bytes = [0; 512];
        let length = socket.recv(&mut bytes).unwrap();
        String::from_utf8_lossy(&bytes[..length]).into_owned()
    }

    #[test]
    fn lines_reach_sockets_of_both_kinds() {
        let folder = env::temp_dir().join(format!("crore-notify-{}", std::process::id()));
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
        // More than any queue of datagrams holds, and nobody reads.
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
        assert_eq!(
            line("drains\nMAINPID=1\r\nREADY=1"),
            "drains MAINPID=1  READY=1"
        );
        let before = monotonic_us();
        assert!(before > 0 && monotonic_us() >= before);
    }

    #[test]
    fn only_what_is_meant_for_this_process_counts() {
        let own = std::process::id().to_string();
        let second = Some(Duration::from_secs(1));
        assert_eq!(watchdog_of("1000000".into(), None), second);
        assert_eq!(watchdog_of("1000000".into(), Some(own)), second);
        assert_eq!(watchdog_of("1000000".into(), Some("1".into())), None);
        assert_eq!(watchdog_of("0".into(), None), None);
        assert_eq!(watchdog_of("soon".into(), None), None);
    }
}

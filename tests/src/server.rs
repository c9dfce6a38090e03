//! A server of one test: started on free ports, ended with the test.

use std::env;
use std::fs;
use std::path::PathBuf;
use std::process;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::process::{Ended, Process};
use crate::tools;

/// For tests that move megabytes. On loopback a segment holds 64 KiB: the default send buffer has room for one, so
/// that each waits for the receiver's delayed acknowledgement, 40 to 200 ms. No real network does that.
pub const WIDE_SEND_BUFFER: &str = "[listen]\nsocket_send_bytes = \"512KiB\"\n";

/// A running `crore serve`. Dropping it kills it.
#[derive(Debug)]
pub struct Server {
    /// The process, its lines read up to `ready`.
    pub process: Process,
    /// `127.0.0.1:PORT` of the clients' listener.
    pub clients: String,
    /// `127.0.0.1:PORT` of the operators' listener.
    pub operators: String,
    _folder: Folder,
}

impl Server {
    /// Starts one with embedded defaults.
    pub fn start() -> Server {
        Server::with_configuration("")
    }

    /// Starts one with the text of a configuration file.
    pub fn with_configuration(configuration: &str) -> Server {
        let folder = Folder::new();
        let file = folder.0.join("crore.toml");
        fs::write(&file, configuration).expect("the folder is ours");
        let mut command = tools::crore();
        command.arg("serve").arg("--config").arg(file);
        command.args(["--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0"]);
        let mut process = Process::start(&mut command);
        let address = |line: &str, prefix: &str| {
            Some(line.strip_prefix(prefix)?.trim_end_matches('/').to_owned())
        };
        let clients = process.wait_for("address of clients", |line| {
            address(line, "listening clients http://")
        });
        let operators = process.wait_for("address of operators", |line| {
            address(line, "listening operators http://")
        });
        process.wait_for("readiness", |line| (line == "ready").then_some(()));
        Server {
            process,
            clients,
            operators,
            _folder: folder,
        }
    }

    /// The URL of a path (with its slash) at the clients' port.
    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.clients)
    }

    /// The same for WebSocket.
    pub fn ws_url(&self, path: &str) -> String {
        format!("ws://{}{path}", self.clients)
    }

    /// The URL of a path at the operators' port.
    pub fn operators_url(&self, path: &str) -> String {
        format!("http://{}{path}", self.operators)
    }

    /// Waits for its end, after a signal.
    pub fn end(self) -> Ended {
        self.process.end()
    }

    /// Bytes of memory that the process holds now.
    pub fn resident_bytes(&self) -> u64 {
        let path = format!("/proc/{}/smaps_rollup", self.process.id());
        let text = fs::read_to_string(path).expect("our child can be read");
        let line = text.lines().find_map(|line| line.strip_prefix("Pss:"));
        let kilobytes = line.and_then(|line| line.trim().strip_suffix(" kB"));
        kilobytes
            .and_then(|text| text.trim().parse::<u64>().ok())
            .expect("a number")
            * 1024
    }
}

/// A new folder, removed when dropped.
#[derive(Debug)]
struct Folder(PathBuf);

impl Folder {
    fn new() -> Folder {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = env::temp_dir().join(format!("crore-test-{}-{number}", process::id()));
        fs::create_dir_all(&path).expect("the temporary folder is writable");
        Folder(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // What stays behind is in the temporary folder.
        let _ = fs::remove_dir_all(&self.0);
    }
}

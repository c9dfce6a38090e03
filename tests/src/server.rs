//! A server for one test: started on free ports, stopped with the test.

use std::env;
use std::ffi::OsStr;
use std::fs;
use std::io::ErrorKind;
use std::path::PathBuf;
use std::process::{self, Command};
use std::sync::atomic::{AtomicU32, Ordering};

use crate::cable::{self, Cable};
use crate::process::{Ended, Process};
use crate::tools;

/// A buffer for tests that transfer megabytes. On loopback a segment holds 64 KiB: the default send
/// buffer has room for one, so that each waits for the receiver's delayed acknowledgement, 40 to
/// 200 ms. Real networks do not behave like that.
pub const WIDE_SEND_BUFFER: &str = "[listen]\nsocket_send_bytes = \"512KiB\"\n";

/// The variable of `operators.api_key`.
const ACCESS: &str = "CRORE_OPERATORS_API_KEY";

/// A running `crore serve`. Dropping it kills it.
#[derive(Debug)]
pub struct Server {
    /// The process; its lines up to `ready` are read.
    pub process: Process,
    /// `ADDRESS:PORT` of the clients' listener; see [`Place::new`].
    pub clients: String,
    /// `127.0.0.1:PORT` of the clients' listener with TLS; empty if there is none.
    pub tls_clients: String,
    /// `127.0.0.1:PORT` of the operators' listener.
    pub operators: String,
    _place: Option<Place>,
}

impl Server {
    /// Starts a server with the default configuration.
    pub fn start() -> Server {
        Server::with_configuration("")
    }

    /// Starts a server with the text of a configuration file.
    pub fn with_configuration(configuration: &str) -> Server {
        let mut place = Place::new("127.0.0.1:0");
        place.configure(configuration);
        let server = place.start();
        Server { _place: Some(place), ..server }
    }

    /// The URL of a path (with its slash) at the clients' port.
    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.clients)
    }

    /// The WebSocket URL of a path at the clients' port.
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

    /// The resident memory of the process in bytes.
    pub fn resident_bytes(&self) -> u64 {
        let path = format!("/proc/{}/smaps_rollup", self.process.id());
        let text = fs::read_to_string(path).expect("our child can be read");
        let line = text.lines().find_map(|line| line.strip_prefix("Pss:"));
        let kilobytes = line.and_then(|line| line.trim().strip_suffix(" kB"));
        kilobytes.and_then(|text| text.trim().parse::<u64>().ok()).expect("a number") * 1024
    }
}

/// The common parts of servers that are started one after the other: a folder, a configuration, an
/// address.
#[derive(Debug)]
pub struct Place {
    folder: Folder,
    listen: String,
    /// The interface, if the tests run over the node's own TCP.
    cable: Option<Cable>,
}

impl Place {
    /// Creates a folder. The first start on port 0 chooses a port, and all later ones listen there
    /// again.
    ///
    /// Each place has its own loopback address instead of 127.0.0.1: between two starts no other
    /// program can take its port there. Nor can a client that keeps connecting: its socket has
    /// 127.0.0.1, where a connect may reach itself and take the port.
    pub fn new(listen: &str) -> Place {
        let folder = Folder::new();
        let is_local = listen.starts_with("127.0.0.1:");
        let cable = (is_local && cable::is_wanted()).then(|| Cable::new(folder.number));
        let listen = match (listen.strip_prefix("127.0.0.1:"), &cable) {
            (Some(port), Some(cable)) => format!("{}:{port}", cable.address()),
            (Some(port), None) => format!("{}:{port}", folder.own_address()),
            (None, _) => listen.to_owned(),
        };
        let place = Place { folder, listen, cable };
        place.configure("");
        place
    }

    /// A path in the folder.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path.join(name)
    }

    /// The operators' socket of a server of this place, in the form for commands.
    pub fn operators_socket(&self, server: &Server) -> String {
        let (_, port) = server.operators.rsplit_once(':').expect("a port");
        let path = self.path("run").join(format!("operators-{port}.sock"));
        format!("unix:{}", path.display())
    }

    /// Sets the text of the configuration file.
    pub fn configure(&self, text: &str) {
        fs::write(self.path("crore.toml"), text).expect("the folder is ours");
    }

    /// Starts a server without waiting.
    pub fn launch(&self) -> Process {
        self.launch_as(tools::crore())
    }

    /// Starts a server that cannot write a byte to a file: its disk is full from the beginning.
    pub fn launch_without_room(&self) -> Process {
        self.launch_by(&["sh", "-c", "ulimit -f 0 && exec \"$0\" \"$@\""])
    }

    /// Starts a server by another program: the server's command line follows these words.
    pub fn launch_by(&self, words: &[impl AsRef<OsStr>]) -> Process {
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]);
        let crore = tools::crore();
        command.arg(crore.get_program()).env_remove("CRORE_BINARY");
        self.launch_as(command)
    }

    /// Starts a server whose successor in an upgrade dies at this point
    /// (`crates/node/src/upgrade/fail.rs`).
    pub fn launch_with_failing_upgrade(&self, place_of_death: u32) -> Process {
        let mut command = tools::switched_crore();
        command.env("CRORE_UPGRADE_FAIL_AT", place_of_death.to_string());
        self.launch_as(command)
    }

    fn launch_as(&self, mut command: Command) -> Process {
        // Tests are the only operators here, and need no key.
        command.env(ACCESS, "beyond_loopback");
        self.launch_command(&mut command)
    }

    fn launch_command(&self, command: &mut Command) -> Process {
        // Remains of a killed server are removed with the folder.
        command.env("RUNTIME_DIRECTORY", self.path("run"));
        command.arg("serve").arg("--config").arg(self.path("crore.toml"));
        command.args(["--listen", &self.listen, "--admin-listen", "127.0.0.1:0"]);
        command.args(self.cable.iter().flat_map(Cable::flags));
        Process::start(command)
    }

    /// Starts a server whose operators' port is the configured or the default one.
    pub fn start_by_default(&mut self) -> Server {
        let mut command = tools::crore();
        command.env_remove(ACCESS);
        let process = self.launch_command(&mut command);
        self.started(process)
    }

    /// Starts a server.
    pub fn start(&mut self) -> Server {
        let process = self.launch();
        self.started(process)
    }

    /// Waits until a server of this place is ready.
    pub fn started(&mut self, mut process: Process) -> Server {
        let address = |line: &str, prefix: &str| {
            let line = announced(line);
            Some(line.strip_prefix(prefix)?.trim_end_matches('/').to_owned())
        };
        let clients = process
            .wait_for("address of clients", |line| address(line, "listening clients http://"));
        let mut tls_clients = String::new();
        let mut operators = String::new();
        while operators.is_empty() {
            let (tls, other) = process.wait_for("address of operators", |line| {
                match address(line, "listening clients with TLS https://") {
                    Some(address) => Some((true, address)),
                    None => Some((false, address(line, "listening operators http://")?)),
                }
            });
            *(if tls { &mut tls_clients } else { &mut operators }) = other;
        }
        process.wait_for("readiness", |line| (announced(line) == "ready").then_some(()));
        self.listen.clone_from(&clients);
        Server { process, clients, tls_clients, operators, _place: None }
    }
}

/// A node's announcement at its start in the form of a text log, even if the log is JSON.
fn announced(line: &str) -> String {
    let Ok(fields) = serde_json::from_str::<serde_json::Value>(line) else {
        return line.to_owned();
    };
    let words = ["message", "url"].map(|name| fields[name].as_str());
    let words: Vec<&str> = words.into_iter().flatten().collect();
    words.join(" ")
}

/// A new folder, removed when dropped.
#[derive(Debug)]
struct Folder {
    path: PathBuf,
    /// Unique within this process.
    number: u32,
}

impl Folder {
    fn new() -> Folder {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        loop {
            let number = COUNT.fetch_add(1, Ordering::Relaxed);
            let path = env::temp_dir().join(format!("crore-test-{}-{number}", process::id()));
            match fs::create_dir(&path) {
                Ok(()) => return Folder { path, number },
                // The remains of a killed test whose process had this number.
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                Err(error) => panic!("the temporary folder is not writable: {error}"),
            }
        }
    }

    /// A loopback address that no other folder of this process has, and hardly one of another
    /// process.
    fn own_address(&self) -> String {
        let [_, _, high, low] = process::id().to_be_bytes();
        format!("127.{}.{low}.{}", 64 | high & 63, 1 + self.number % 254)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // Remains are in the temporary folder.
        let _ = fs::remove_dir_all(&self.path);
    }
}

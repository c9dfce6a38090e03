//! The server of a run: a process of its own, or one that is there already.
//!
//! Place: started first, ended last. Its own one is this very program on free ports, with a private
//! directory that goes with it. It ends when this process does, in whatever way that happens.

use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use fetch::Request;

use super::cores::Cores;
use super::network::{SERVER_ADDRESS, SERVER_INTERFACE};
use super::observe::ProcessFigures;
use crate::engine::NetworkDevice;

/// Maximum time until the server is ready: it first reads its log on disk.
const READY_PATIENCE: Duration = Duration::from_secs(120);
/// Maximum time until the server has ended; closing a million sockets takes seconds.
const END_PATIENCE: Duration = Duration::from_secs(60);
/// Maximum time for an answer of the operators' port.
const ASK_PATIENCE: Duration = Duration::from_secs(5);
/// Bytes of the metrics at most; a node has some tens of kilobytes.
const METRICS_BYTES_MAX: u64 = 16 << 20;
/// The file names that `crore tls self-signed` writes.
const CERTIFICATE: &str = "cert.pem";
const KEY: &str = "key.pem";
/// Lines of its output that a failure shows.
const SHOWN_LINES_MAX: usize = 20;

/// The parameters of the server of a run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ServerPlan {
    /// I/O threads.
    pub io_threads: u64,
    /// Clients connect over TLS, with a certificate that is made for the run.
    pub has_tls: bool,
    /// Clients use MQTT.
    pub has_mqtt: bool,
    /// Acknowledged messages are on disk.
    pub is_durable: bool,
    /// Topics have no history.
    pub has_no_history: bool,
    /// The device of a TCP of our own for subscribers; publishers and operators use loopback.
    pub device: Option<NetworkDevice>,
    /// Further options, as `--set` takes them.
    pub assignments: Vec<String>,
    /// Its cores.
    pub cores: Cores,
}

/// The clients' address, and the process behind it if it is known.
#[derive(Debug)]
pub struct Server {
    /// The clients' address as a URL with `ws` or `mqtt`.
    pub url: String,
    /// The publishers' address, likewise.
    pub publishers_url: String,
    /// The operators' address as `host:port`.
    pub operators: Option<String>,
    /// The process, where it is known.
    pub pid: Option<u32>,
    own: Option<Own>,
}

/// A process of ours.
#[derive(Debug)]
struct Own {
    plan: ServerPlan,
    child: Child,
    /// The server lives while this is open.
    life: Option<ChildStdin>,
    folder: Folder,
    output: PathBuf,
}

impl Server {
    /// One that is there already.
    pub fn foreign(url: &str, admin: Option<&str>, pid: Option<u32>) -> Server {
        let operators = admin.map(|admin| {
            let address = admin.trim_start_matches("http://");
            address.split('/').next().unwrap_or(address).to_owned()
        });
        let url = url.to_owned();
        Server { publishers_url: url.clone(), url, operators, pid, own: None }
    }

    /// Starts one; what it says goes to the file `output`.
    ///
    /// # Errors
    /// It does not get ready.
    pub fn start(plan: &ServerPlan, output: &Path) -> anyhow::Result<Server> {
        let folder = Folder::new()?;
        let (child, life, ready) = launch(plan, &folder.0, output, &plan.listen(8_800))?;
        Ok(Server {
            // http becomes ws, and https wss.
            url: ready.clients.replacen("http", "ws", 1),
            publishers_url: ready.publishers.replacen("http", "ws", 1),
            operators: Some(ready.operators.trim_start_matches("http://").to_owned()),
            pid: Some(child.id()),
            own: Some(Own {
                plan: plan.clone(),
                child,
                life: Some(life),
                folder,
                output: output.to_owned(),
            }),
        })
    }

    /// The certificate of one of our own that speaks TLS.
    pub fn certificate(&self) -> Option<PathBuf> {
        let own = self.own.as_ref().filter(|own| own.plan.has_tls)?;
        Some(own.folder.0.join(CERTIFICATE))
    }

    /// Whether it was started by the run.
    pub fn is_own(&self) -> bool {
        self.own.is_some()
    }

    /// The options that it was started with, as a file would have them.
    pub fn configuration(&self) -> Option<String> {
        self.own.as_ref().map(|own| configuration(&own.plan, &own.folder.0))
    }

    /// The figures of its process.
    pub fn figures(&self) -> Option<ProcessFigures> {
        ProcessFigures::read(self.pid?)
    }

    /// Whether it has ended by itself.
    pub fn has_ended(&mut self) -> bool {
        self.own.as_mut().is_some_and(|own| !matches!(own.child.try_wait(), Ok(None)))
    }

    /// Kills it, as a crash would.
    ///
    /// # Errors
    /// It is not ours.
    pub fn kill(&mut self) -> anyhow::Result<()> {
        let own = self.own.as_mut().context("only a server that this run started can be killed")?;
        own.child.kill()?;
        own.child.wait()?;
        self.pid = None;
        Ok(())
    }

    /// Starts it again, on the same port with the same data.
    ///
    /// # Errors
    /// It does not get ready.
    pub fn restart(&mut self) -> anyhow::Result<()> {
        let address = self.url.trim_start_matches("ws://").to_owned();
        let own =
            self.own.as_mut().context("only a server that this run started can be restarted")?;
        let (child, life, ready) =
            launch(&own.plan, &own.folder.0, &own.output, address.trim_end_matches('/'))?;
        self.pid = Some(child.id());
        self.operators = Some(ready.operators.trim_start_matches("http://").to_owned());
        own.child = child;
        own.life = Some(life);
        Ok(())
    }

    /// Its metrics, where it has any.
    pub fn metrics(&self) -> Option<Metrics> {
        let address = self.operators.as_ref()?;
        let answer = Request::get(address, "/metrics").ask(ASK_PATIENCE, METRICS_BYTES_MAX).ok()?;
        Some(Metrics(String::from_utf8(answer.ok().ok()?).ok()?))
    }
}

/// The text of a `/metrics`.
#[derive(Clone, Debug)]
pub struct Metrics(String);

impl Metrics {
    /// The sum of all series of this name.
    pub fn sum(&self, name: &str) -> Option<f64> {
        let values: Vec<f64> = self
            .0
            .lines()
            .filter_map(|line| {
                let rest = line.strip_prefix(name)?;
                if !rest.starts_with(['{', ' ']) {
                    return None;
                }
                rest.rsplit_once(' ')?.1.parse().ok()
            })
            .collect();
        (!values.is_empty()).then(|| values.iter().sum())
    }
}

impl Drop for Own {
    fn drop(&mut self) {
        self.life = None;
        let deadline = Instant::now() + END_PATIENCE;
        while Instant::now() < deadline {
            if !matches!(self.child.try_wait(), Ok(None)) {
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A new directory, removed when dropped.
#[derive(Debug)]
pub struct Folder(pub PathBuf);

impl Folder {
    /// Creates a folder that only its owner can read.
    ///
    /// # Errors
    /// The temporary directory is not writable.
    pub fn new() -> anyhow::Result<Folder> {
        use std::os::unix::fs::DirBuilderExt;
        let number = crate::payload::seed_from_entropy();
        let path = std::env::temp_dir().join(format!("crore-bench-{number:016x}"));
        std::fs::DirBuilder::new()
            .mode(0o700)
            .create(&path)
            .with_context(|| format!("{}", path.display()))?;
        Ok(Folder(path))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // A folder that cannot be removed stays in the temporary directory.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

impl ServerPlan {
    /// The addresses to listen on, separated by commas: of the subscribers, and of the publishers
    /// if that is another one. A namespace of the run's own has `port` free.
    fn listen(&self, port: u16) -> String {
        match self.device {
            Some(_) => format!("{SERVER_ADDRESS}:{port},127.0.0.1:{port}"),
            None => "127.0.0.1:0".to_owned(),
        }
    }
}

/// Options of a run's own server, as a file.
fn configuration(plan: &ServerPlan, folder: &Path) -> String {
    let mut text = format!("[node]\nio_threads = {}\ndrain_window = \"0s\"\n", plan.io_threads);
    if plan.is_durable {
        let data = folder.join("data");
        let _ = writeln!(text, "data_dir = {:?}", data.display().to_string());
        text.push_str("\n[[log]]\nname = \"disk\"\ndurability = \"disk\"\nbytes_max = \"4GiB\"\n");
    }
    if plan.has_mqtt {
        let option = if plan.has_tls { "tls_listen" } else { "listen" };
        let listen = plan.listen(1_883).replace(',', "\", \"");
        let _ = write!(text, "\n[mqtt]\n{option} = [\"{listen}\"]\n");
    }
    if let Some(device) = plan.device {
        let _ = write!(
            text,
            "\n[listen]\nopen = true\n\n[operators]\nsocket = \"off\"\n\n[user_network]\n\
             interface = \"{SERVER_INTERFACE}\"\naddresses = [\"{SERVER_ADDRESS}\"]\n\
             device = \"{}\"\nframes = \"all\"\n",
            device.text()
        );
    }
    if plan.has_no_history {
        text.push_str("\n[[rule]]\nfilter = \"#\"\nhistory_messages_max = 0\n");
    }
    text
}

fn launch(
    plan: &ServerPlan,
    folder: &Path,
    output: &Path,
    listen: &str,
) -> anyhow::Result<(Child, ChildStdin, Ready)> {
    let file = folder.join("crore.toml");
    std::fs::write(&file, configuration(plan, folder))?;
    let program = std::env::current_exe().context("cannot find the file of this program")?;
    let mut command = Command::new(&program);
    command.args(["serve", "--end-with-stdin", "--listen", listen]);
    if plan.has_tls {
        certify(&program, folder)?;
        command.args(["--tls-listen", "127.0.0.1:0", "--tls-certificate"]);
        command.arg(folder.join(CERTIFICATE)).arg("--tls-key").arg(folder.join(KEY));
    }
    command.args(["--admin-listen", "127.0.0.1:0", "--config"]);
    command.arg(&file);
    for assignment in &plan.assignments {
        command.args(["--set", assignment]);
    }
    for (name, _) in std::env::vars_os() {
        // Variables for another node do not apply to this one.
        if name.to_string_lossy().starts_with("CRORE_") || name == "NOTIFY_SOCKET" {
            command.env_remove(name);
        }
    }
    let mut log = std::fs::OpenOptions::new()
        .create(true)
        .append(true)
        .open(output)
        .with_context(|| format!("{}", output.display()))?;
    command.process_group(0).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(log.try_clone()?);
    let mut child = plan.cores.spawn(&mut command).context("cannot start the server")?;
    let life = child.stdin.take().context("the server has no standard input")?;
    let stdout = child.stdout.take().context("the server has no standard output")?;
    let (sender, lines) = channel();
    std::thread::Builder::new().name("bench-server".to_owned()).spawn(move || {
        for line in BufReader::new(stdout).lines().map_while(Result::ok) {
            let _ = writeln!(log, "{line}");
            // Without a receiver, reading continues, so that the server can continue to write.
            let _ = sender.send(line);
        }
    })?;
    match wait_until_ready(&lines, plan.has_mqtt) {
        Ok(ready) => Ok((child, life, ready)),
        Err(error) => {
            let _ = child.kill();
            let _ = child.wait();
            let said = std::fs::read_to_string(output).unwrap_or_default();
            let said: Vec<&str> = said.lines().collect();
            let last = said.len().saturating_sub(SHOWN_LINES_MAX);
            bail!("{error}; its output:\n{}", said[last..].join("\n"))
        }
    }
}

/// Makes a certificate for the address that the server listens on.
fn certify(program: &Path, folder: &Path) -> anyhow::Result<()> {
    let output = Command::new(program)
        .args(["tls", "self-signed", "--force", "--out"])
        .arg(folder)
        .output()
        .context("cannot generate a certificate")?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        bail!("cannot generate a certificate: {}", said.trim());
    }
    Ok(())
}

/// The addresses of a server that is ready.
struct Ready {
    clients: String,
    publishers: String,
    operators: String,
}

/// Waits for the addresses of clients and operators: of clients of MQTT, or of all others with TLS
/// if there is one. The first one is the subscribers', the last one the publishers'.
fn wait_until_ready(lines: &Receiver<String>, has_mqtt: bool) -> anyhow::Result<Ready> {
    let deadline = Instant::now() + READY_PATIENCE;
    let (mut plain, mut with_tls, mut of_mqtt) = (Vec::new(), Vec::new(), Vec::new());
    let mut operators = None;
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let line = lines.recv_timeout(left).context("the server did not become ready")?;
        if let Some(url) = line.strip_prefix("listening clients with TLS ") {
            with_tls.push(url.trim_end_matches('/').to_owned());
        } else if let Some(url) = line.strip_prefix("listening clients of MQTT ") {
            of_mqtt.push(url.to_owned());
        } else if let Some(url) = line.strip_prefix("listening clients ") {
            plain.push(url.trim_end_matches('/').to_owned());
        } else if let Some(url) = line.strip_prefix("listening operators ") {
            operators.get_or_insert_with(|| url.trim_end_matches('/').to_owned());
        } else if line == "ready" {
            let all = match () {
                () if has_mqtt => of_mqtt,
                () if with_tls.is_empty() => plain,
                () => with_tls,
            };
            let operators = operators.context("the server did not print its operators' address")?;
            let ends = all.first().cloned().zip(all.last().cloned());
            let (clients, publishers) = ends.context("the server did not print its addresses")?;
            return Ok(Ready { clients, publishers, operators });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metrics_are_summed_by_name() {
        let metrics = Metrics(
            "# HELP a x\na{shard=\"0\"} 2\na{shard=\"1\"} 3.5\na_total 9\nb 1\n".to_owned(),
        );
        assert_eq!(metrics.sum("a"), Some(5.5));
        assert_eq!(metrics.sum("a_total"), Some(9.0));
        assert_eq!(metrics.sum("c"), None);
    }

    #[test]
    fn folders_go_with_their_owner() {
        let folder = Folder::new().unwrap();
        let path = folder.0.clone();
        std::fs::write(path.join("x"), "y").unwrap();
        drop(folder);
        assert!(!path.exists());
    }

    #[test]
    fn configurations_are_toml() {
        let plan = ServerPlan {
            io_threads: 3,
            is_durable: true,
            has_no_history: true,
            ..ServerPlan::default()
        };
        let text = configuration(&plan, Path::new("/x \"y\""));
        assert!(text.contains("io_threads = 3\n"), "{text}");
        assert!(text.contains("data_dir = \"/x \\\"y\\\"/data\"\n"), "{text}");
        assert!(text.ends_with("history_messages_max = 0\n"), "{text}");
        let plan = ServerPlan {
            has_mqtt: true,
            device: Some(NetworkDevice::XdpGeneric),
            ..ServerPlan::default()
        };
        let text = configuration(&plan, Path::new("/"));
        assert!(text.contains("\nlisten = [\"198.18.0.1:1883\", \"127.0.0.1:1883\"]\n"), "{text}");
        assert!(
            text.contains("\naddresses = [\"198.18.0.1\"]\ndevice = \"xdp-generic\"\n"),
            "{text}"
        );
        let foreign = Server::foreign("ws://a:1", Some("http://b:2/metrics"), None);
        assert_eq!(foreign.operators.as_deref(), Some("b:2"));
    }
}

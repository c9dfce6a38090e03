//! Real brokers of Apache Kafka on this machine, for tests and for trying a cluster out.
//!
//! Each broker is a process of its own on a loopback address of its own, so that its ports stay
//! free while it is down. The jars come from [`fetch`], the files lie in a fresh folder.
//!
//! Invariants: no port is fixed. All brokers end when [`Kafka`] is dropped, stopped ones too.

#![forbid(unsafe_code)]
#![deny(clippy::unwrap_used)]

mod properties;
pub mod secured;

use secured::Listener;
use std::env;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Error};
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, TcpListener, TcpStream};
use std::os::unix::process::CommandExt;
use std::path::{self, Path, PathBuf};
use std::process::{self, Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// The project file of Maven that names the jars.
const POM: &str = include_str!("../pom.xml");

/// Version and goal of the plugin that copies the jars.
const COPY: &str = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies";

/// The maximum time of a broker's start.
const START_TIMEOUT: Duration = Duration::from_secs(120);

/// The set-up of brokers.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The number of brokers, each of them also a controller.
    pub brokers: u16,
    /// Further properties of all brokers; they win.
    pub properties: Vec<(String, String)>,
    /// Memory of each broker's heap, in megabytes.
    pub heap_mb: u32,
    /// Whether the brokers listen with TLS and SASL, too ([`secured::Listener`]).
    pub is_secured: bool,
}

/// Running brokers.
#[derive(Debug)]
pub struct Kafka {
    jars: PathBuf,
    folder: PathBuf,
    brokers: Vec<Broker>,
    heap_mb: u32,
}

#[derive(Debug)]
struct Broker {
    addresses: Addresses,
    process: Option<Child>,
    is_stopped: bool,
}

/// A broker's addresses.
#[derive(Clone, Debug)]
pub(crate) struct Addresses {
    /// Clients without TLS and login connect here.
    pub(crate) clients: SocketAddrV4,
    /// The other controllers connect here.
    pub(crate) controller: SocketAddrV4,
    /// Listeners with TLS or SASL, in the order of [`Listener::ALL`]; empty without them.
    pub(crate) secured: Vec<SocketAddrV4>,
}

impl Plan {
    /// So many brokers, with the defaults.
    pub fn new(brokers: u16) -> Plan {
        Plan { brokers, properties: Vec::new(), heap_mb: 384, is_secured: false }
    }
}

/// Fetches the jars with Maven into `folder`, once for each version of the project file, and
/// returns their folder.
///
/// # Errors
/// Maven is missing, or fails.
pub fn fetch(folder: &Path) -> io::Result<PathBuf> {
    let folder = &path::absolute(folder)?;
    let (jars, stamp, project) =
        (folder.join("jars"), folder.join(".installed"), folder.join("pom.xml"));
    if fs::read_to_string(&stamp).is_ok_and(|installed| installed == POM) {
        return Ok(jars);
    }
    fs::create_dir_all(folder)?;
    if jars.exists() {
        fs::remove_dir_all(&jars)?;
    }
    fs::write(&project, POM)?;
    let mut maven = Command::new("mvn");
    maven.args(["-B", "-ntp", "-q", "-f"]).arg(&project);
    maven.arg(COPY).arg(option("-DoutputDirectory=", &jars));
    maven.arg(option("-Dmaven.repo.local=", &folder.join("repository")));
    succeed(&mut maven)?;
    fs::write(&stamp, POM)?;
    Ok(jars)
}

impl Kafka {
    /// Starts brokers, and waits until all are there.
    ///
    /// # Errors
    /// Java is missing, or a broker does not start in time.
    pub fn start(jars: &Path, plan: &Plan) -> io::Result<Kafka> {
        let folder = fresh_folder()?;
        let further = if plan.is_secured { Listener::ALL.len() } else { 0 };
        let addresses = (1..=plan.brokers).map(|number| free_addresses(number, further));
        let addresses = addresses.collect::<io::Result<Vec<_>>>()?;
        let mut more = Vec::new();
        if plan.is_secured {
            secured::create_certificates(&folder, &addresses)?;
            more = secured::properties(&folder);
        }
        more.extend(plan.properties.iter().cloned());
        for number in 1..=plan.brokers {
            let text = properties::of(number, &addresses, &folder, &more);
            fs::write(folder.join(format!("{number}.properties")), text)?;
        }
        let broker = |addresses| Broker { addresses, process: None, is_stopped: false };
        let brokers = addresses.into_iter().map(broker).collect();
        let mut kafka = Kafka { jars: jars.to_path_buf(), folder, brokers, heap_mb: plan.heap_mb };
        for number in 1..=plan.brokers {
            kafka.format(number)?;
        }
        for number in 1..=plan.brokers {
            kafka.spawn(number)?;
        }
        for number in 1..=plan.brokers {
            kafka.wait_for(number)?;
        }
        Ok(kafka)
    }

    /// The addresses of all brokers, separated by commas.
    pub fn bootstrap(&self) -> String {
        self.joined(|addresses| Some(&addresses.clients))
    }

    /// The addresses of all brokers for this listener, separated by commas; empty unless
    /// [`Plan::is_secured`].
    pub fn bootstrap_of(&self, listener: Listener) -> String {
        self.joined(|addresses| addresses.secured.get(listener as usize))
    }

    fn joined(&self, select: impl Fn(&Addresses) -> Option<&SocketAddrV4>) -> String {
        let texts = self.brokers.iter().filter_map(|it| select(&it.addresses));
        texts.map(SocketAddrV4::to_string).collect::<Vec<_>>().join(",")
    }

    /// The folder with the brokers' files and their output.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Whether a broker runs, numbered from 1.
    pub fn is_running(&self, number: u16) -> bool {
        self.brokers[place(number)].process.is_some()
    }

    /// Kills a broker at once.
    ///
    /// # Errors
    /// The process cannot be killed.
    pub fn kill(&mut self, number: u16) -> io::Result<()> {
        let broker = &mut self.brokers[place(number)];
        broker.is_stopped = false;
        if let Some(mut process) = broker.process.take() {
            process.kill()?;
            process.wait()?;
        }
        Ok(())
    }

    /// Holds a broker's process: its connections stay, and nothing answers.
    ///
    /// # Errors
    /// The broker does not run.
    pub fn stop(&mut self, number: u16) -> io::Result<()> {
        self.signal(number, "-STOP")?;
        self.brokers[place(number)].is_stopped = true;
        Ok(())
    }

    /// Lets a held broker go on.
    ///
    /// # Errors
    /// The broker does not run.
    pub fn go_on(&mut self, number: u16) -> io::Result<()> {
        self.brokers[place(number)].is_stopped = false;
        self.signal(number, "-CONT")
    }

    /// Starts a broker that was killed, and waits until it is there.
    ///
    /// # Errors
    /// The broker does not start in time.
    pub fn restart(&mut self, number: u16) -> io::Result<()> {
        self.kill(number)?;
        self.spawn(number)?;
        self.wait_for(number)
    }

    /// Starts brokers that were killed, and waits until all are there: without a majority none
    /// starts alone.
    ///
    /// # Errors
    /// One does not start in time.
    pub fn restart_all(&mut self, numbers: &[u16]) -> io::Result<()> {
        for number in numbers {
            self.kill(*number)?;
            self.spawn(*number)?;
        }
        numbers.iter().try_for_each(|number| self.wait_for(*number))
    }

    /// A command of one of Kafka's own tools, by the name of its class. The caller adds its
    /// arguments.
    pub fn tool(&self, class: &str) -> Command {
        let mut command = self.java(128);
        command.arg(class);
        command
    }

    /// Ends with the thread that starts it, so that no broker is left behind by a process that was
    /// killed.
    fn java(&self, heap_mb: u32) -> Command {
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "KILL", "java"]);
        command.arg(format!("-Xms{}m", heap_mb / 2)).arg(format!("-Xmx{heap_mb}m"));
        command.args(["-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto"]);
        command
            .arg("-Dlog4j2.configurationFile=file:".to_owned() + &self.text("log4j2.properties"));
        command.arg("-cp").arg(option("", &self.jars.join("*")));
        // A terminal's interrupt is for the program that has started the brokers.
        command.current_dir(&self.folder).process_group(0);
        command
    }

    fn text(&self, file: &str) -> String {
        self.folder.join(file).to_string_lossy().into_owned()
    }

    fn format(&self, number: u16) -> io::Result<()> {
        let mut command = self.tool("kafka.tools.StorageTool");
        command.args(["format", "-t", properties::CLUSTER_ID, "-c"]);
        command.arg(self.folder.join(format!("{number}.properties")));
        if !self.brokers[place(number)].addresses.secured.is_empty() {
            command.args(secured::USERS);
        }
        command.stdout(Stdio::null());
        succeed(&mut command)
    }

    fn spawn(&mut self, number: u16) -> io::Result<()> {
        let output = File::options()
            .create(true)
            .append(true)
            .open(self.folder.join(format!("{number}.out")))?;
        let mut command = self.java(self.heap_mb);
        command.arg("kafka.Kafka").arg(self.folder.join(format!("{number}.properties")));
        command.stdin(Stdio::null()).stdout(output.try_clone()?).stderr(output);
        self.brokers[place(number)].process = Some(command.spawn()?);
        Ok(())
    }

    /// Waits until the broker takes connections, which is when it has its place in the cluster.
    fn wait_for(&mut self, number: u16) -> io::Result<()> {
        let end = Instant::now() + START_TIMEOUT;
        let broker = &mut self.brokers[place(number)];
        let address = SocketAddr::V4(broker.addresses.clients);
        let output = self.folder.join(format!("{number}.out"));
        loop {
            if TcpStream::connect_timeout(&address, Duration::from_millis(200)).is_ok() {
                return Ok(());
            }
            let ended = broker.process.as_mut().map(Child::try_wait).transpose()?.flatten();
            if ended.is_some() || Instant::now() > end {
                let text = fs::read_to_string(output).unwrap_or_default();
                let lines: Vec<&str> = text.lines().rev().take(20).collect();
                let lines: Vec<&str> = lines.into_iter().rev().collect();
                let text = format!("broker {number} does not start:\n{}", lines.join("\n"));
                return Err(Error::other(text));
            }
            thread::sleep(Duration::from_millis(100));
        }
    }

    fn signal(&self, number: u16, signal: &str) -> io::Result<()> {
        let process = self.brokers[place(number)].process.as_ref();
        let process = process.ok_or_else(|| Error::other(format!("broker {number} is down")))?;
        succeed(Command::new("kill").arg(signal).arg(process.id().to_string()))
    }
}

impl Drop for Kafka {
    fn drop(&mut self) {
        for broker in &mut self.brokers {
            // A held process is killed, too.
            if let Some(mut process) = broker.process.take() {
                _ = process.kill();
                _ = process.wait();
            }
        }
        _ = fs::remove_dir_all(&self.folder);
    }
}

/// The place of a broker's number in a list.
fn place(number: u16) -> usize {
    usize::from(number) - 1
}

fn option(name: &str, path: &Path) -> OsString {
    let mut option = OsString::from(name);
    option.push(path);
    option
}

fn succeed(command: &mut Command) -> io::Result<()> {
    let result = command.output();
    let named = |error: Error| Error::new(error.kind(), format!("{command:?}: {error}"));
    let output = result.map_err(named)?;
    if output.status.success() {
        return Ok(());
    }
    let text = String::from_utf8_lossy(&output.stderr).into_owned()
        + &String::from_utf8_lossy(&output.stdout);
    Err(Error::other(format!("{command:?} failed: {}", text.trim())))
}

/// The begin of a folder's name; the number of the process follows.
const FOLDER: &str = "crore-kafka-";

/// Removes the folders of processes that were killed.
fn remove_abandoned() {
    let Ok(folders) = fs::read_dir(env::temp_dir()) else { return };
    for folder in folders.flatten() {
        let name = folder.file_name().to_string_lossy().into_owned();
        let process = name.strip_prefix(FOLDER).and_then(|rest| rest.split('-').next());
        if process.is_some_and(|id| !Path::new("/proc").join(id).exists()) {
            _ = fs::remove_dir_all(folder.path());
        }
    }
}

fn fresh_folder() -> io::Result<PathBuf> {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    remove_abandoned();
    let folder = env::temp_dir().join(format!("{FOLDER}{}-{number}", process::id()));
    if folder.exists() {
        fs::remove_dir_all(&folder)?;
    }
    fs::create_dir_all(&folder)?;
    fs::write(folder.join("log4j2.properties"), properties::LOGGING)?;
    Ok(folder)
}

/// Free addresses for a broker. The loopback address differs by process and broker, so no other
/// program takes the ports while it is down.
fn free_addresses(number: u16, further: usize) -> io::Result<Addresses> {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let count = NUMBER.fetch_add(1, Ordering::Relaxed);
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().subsec_nanos();
    let mixed = process::id().wrapping_mul(0x9e37_79b9) ^ now.wrapping_add(count << 16);
    let [_, second, third, _] = mixed.to_be_bytes();
    let address = Ipv4Addr::new(127, 64 | (second & 0x3f), third, 10 + (number % 200) as u8);
    // All are open at once, so that they differ.
    let listeners = (0..2 + further).map(|_| TcpListener::bind((address, 0)));
    let listeners = listeners.collect::<io::Result<Vec<_>>>()?;
    let of = |listener: &TcpListener| Ok(SocketAddrV4::new(address, listener.local_addr()?.port()));
    let mut all = listeners.iter().map(of).collect::<io::Result<Vec<_>>>()?;
    let secured = all.split_off(2);
    Ok(Addresses { clients: all[0], controller: all[1], secured })
}

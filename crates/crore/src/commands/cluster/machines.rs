//! The brokers and nodes of the demo, on a thread of their own: a broker ends with the thread that
//! has started it, and a restart waits until the process serves.

use crate::commands::demo::server::{Server, Setup};
use crate::commands::engine;
use crate::exit::Ending;
use anyhow::{Context, anyhow};
use bench::run::Folder;
use brokers::{Kafka, Plan};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

/// The number of brokers, and of nodes.
pub const COUNT: usize = 3;
/// Partitions of the demo's log.
const PARTITIONS: u32 = 8;

/// A broker or a node, numbered from 0.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Machine {
    /// A broker.
    Broker(usize),
    /// A node.
    Node(usize),
}

/// The state of a broker or a node.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Life {
    /// It starts.
    #[default]
    Starting,
    /// It serves.
    Runs,
    /// It was killed.
    Down,
}

/// The states of all, for the display.
#[derive(Clone, Debug, Default)]
pub struct Lives {
    /// The brokers.
    pub brokers: [Life; COUNT],
    /// The nodes.
    pub nodes: [Life; COUNT],
    /// The reason of the last failed restart.
    pub trouble: Option<String>,
}

impl Lives {
    /// The state of one of them.
    pub fn of(&self, machine: Machine) -> Life {
        match machine {
            Machine::Broker(number) => self.brokers[number],
            Machine::Node(number) => self.nodes[number],
        }
    }

    fn set(&mut self, machine: Machine, life: Life) {
        match machine {
            Machine::Broker(number) => self.brokers[number] = life,
            Machine::Node(number) => self.nodes[number] = life,
        }
    }

    /// Whether all serve.
    pub fn all_run(&self) -> bool {
        self.brokers.iter().chain(&self.nodes).all(|life| *life == Life::Runs)
    }

    fn down(&self) -> Vec<Machine> {
        let brokers = (0..COUNT).map(Machine::Broker);
        let all = brokers.chain((0..COUNT).map(Machine::Node));
        all.filter(|machine| self.of(*machine) == Life::Down).collect()
    }
}

/// An order to the thread.
#[derive(Debug)]
enum Order {
    /// Kill a machine that runs, restart one that was killed.
    Toggle(Machine),
    /// Restart all that were killed.
    Mend,
}

/// All brokers and nodes. Dropping it ends them.
pub struct Machines {
    orders: Option<Sender<Order>>,
    lives: Arc<Mutex<Lives>>,
    thread: Option<JoinHandle<()>>,
    /// URLs of the nodes for clients. They stay the same over restarts.
    pub urls: Vec<String>,
}

impl Machines {
    /// Starts all of them; `told` gets a line for each step.
    ///
    /// # Errors
    /// Java or the jars are missing, or one of them does not start.
    pub fn start(jars: &Path, mut told: impl FnMut(&str)) -> Result<Machines, Ending> {
        let jars = usable(jars)?;
        let lives = Arc::new(Mutex::new(Lives::default()));
        let (orders, received) = channel();
        let (steps, progress) = channel();
        let shared = Arc::clone(&lives);
        let work = move || match Owned::start(&jars, &steps) {
            Ok(owned) => {
                let urls = owned.nodes.iter().map(|node| node.clients.clone()).collect();
                *lock(&shared) = Lives {
                    brokers: [Life::Runs; COUNT],
                    nodes: [Life::Runs; COUNT],
                    trouble: None,
                };
                // The other side goes only together with this thread.
                let _ = steps.send(Step::Ready(urls));
                drop(steps);
                owned.serve(&received, &shared);
            }
            Err(ending) => drop(steps.send(Step::Failed(ending))),
        };
        let thread = thread::Builder::new().name("crore-demo".into()).spawn(work)?;
        let mut machines =
            Machines { orders: Some(orders), lives, thread: Some(thread), urls: Vec::new() };
        for step in progress {
            match step {
                Step::Told(line) => told(&line),
                Step::Ready(urls) => machines.urls = urls,
                Step::Failed(ending) => return Err(ending),
            }
        }
        Ok(machines)
    }

    /// The present states.
    pub fn lives(&self) -> Lives {
        lock(&self.lives).clone()
    }

    /// Kills a machine that runs, or restarts one that was killed. One that starts is left alone.
    pub fn toggle(&self, machine: Machine) {
        let mut lives = lock(&self.lives);
        match lives.of(machine) {
            Life::Starting => return,
            // So that a second call waits.
            Life::Down => lives.set(machine, Life::Starting),
            Life::Runs => {}
        }
        self.order(Order::Toggle(machine));
    }

    /// Restarts all that were killed.
    pub fn mend(&self) {
        self.order(Order::Mend);
    }

    fn order(&self, order: Order) {
        if let Some(orders) = &self.orders {
            // The thread ends only in `drop`.
            let _ = orders.send(order);
        }
    }
}

impl Drop for Machines {
    fn drop(&mut self) {
        self.orders = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn lock(lives: &Mutex<Lives>) -> MutexGuard<'_, Lives> {
    lives.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The progress of the start.
enum Step {
    Told(String),
    Ready(Vec<String>),
    Failed(Ending),
}

/// The absolute folder, if it has Kafka's jars and this machine has Java.
fn usable(jars: &Path) -> Result<PathBuf, Ending> {
    let remedy = "`cargo xtask kafka --fetch` fetches them with Maven, and the folder `libs` of \
                  Kafka's archive (kafka.apache.org/downloads) has them; --jars names the folder";
    let is_kafka = |name: &str| name.starts_with("kafka_2.") && name.ends_with(".jar");
    let mut names = fs::read_dir(jars)
        .map(|entries| entries.flatten().map(|it| it.file_name().to_string_lossy().into_owned()))
        .map_err(|error| {
            anyhow!("cannot read the folder of Kafka's jars {}: {error}; {remedy}", jars.display())
        })?;
    if !names.any(|name| is_kafka(&name)) {
        return Err(anyhow!("{} has no jars of Apache Kafka; {remedy}", jars.display()).into());
    }
    for program in ["java", "setpriv"] {
        let folders = std::env::var_os("PATH").unwrap_or_default();
        if !std::env::split_paths(&folders).any(|folder| folder.join(program).is_file()) {
            let packages = "Java 17 or newer (Debian: default-jre-headless) and util-linux";
            return Err(anyhow!("there is no program `{program}`: install {packages}").into());
        }
    }
    let absolute = std::path::absolute(jars).context("the folder of Kafka's jars")?;
    Ok(absolute)
}

/// The processes and files that the thread owns.
struct Owned {
    // First, so that nodes end before their brokers.
    nodes: Vec<Server>,
    kafka: Kafka,
    folder: Folder,
}

impl Owned {
    fn start(jars: &Path, steps: &Sender<Step>) -> Result<Owned, Ending> {
        let tell = |line: String| drop(steps.send(Step::Told(line)));
        tell("Starting three brokers of Apache Kafka ...".to_owned());
        let plan = Plan::new(COUNT as u16);
        let kafka = Kafka::start(jars, &plan).context("the brokers do not start")?;
        let folder = Folder::new().context("cannot create a temporary directory")?;
        tell(format!("Brokers at {}; starting three nodes ...", kafka.bootstrap()));
        let mut owned = Owned { nodes: Vec::new(), kafka, folder };
        fs::write(owned.file(), owned.configuration())?;
        engine::init(&owned.file())?;
        for number in 0..COUNT {
            let address = |offset: usize| format!("127.0.{}.{}:0", offset, number + 1);
            let node = owned.node(number, [address(11), address(12)])?;
            tell(format!("Node n{} serves {}", number + 1, node.clients));
            owned.nodes.push(node);
        }
        Ok(owned)
    }

    fn file(&self) -> PathBuf {
        self.folder.0.join("crore.toml")
    }

    fn configuration(&self) -> String {
        let bootstrap = self.kafka.bootstrap();
        let servers: Vec<String> = bootstrap.split(',').map(|it| format!("\"{it}\"")).collect();
        // The nodes share the key of tickets; the demo ends with its cluster.
        format!(
            "[tickets]\nkeys = [\"{}\"]\n[engine]\nbootstrap_servers = [{}]\n\
             [[log]]\nname = \"demo\"\ndurability = \"engine\"\npartitions_count = {PARTITIONS}\n\
             age_max = \"1h\"\n",
            "5".repeat(64),
            servers.join(", ")
        )
    }

    fn node(&self, number: usize, addresses: [String; 2]) -> Result<Server, Ending> {
        let name = format!("node.name=n{}", number + 1);
        let arguments = ["--config".into(), self.file().into(), "--set".into(), name.into()];
        Server::start(1, &Setup { arguments: arguments.to_vec(), addresses: Some(addresses) })
    }

    /// Carries out orders until [`Machines`] is dropped.
    fn serve(mut self, orders: &Receiver<Order>, lives: &Mutex<Lives>) {
        for order in orders {
            match order {
                Order::Toggle(machine) => self.toggle(machine, lives),
                Order::Mend => {
                    let down = lock(lives).down();
                    down.into_iter().for_each(|machine| self.toggle(machine, lives));
                }
            }
        }
    }

    fn toggle(&mut self, machine: Machine, lives: &Mutex<Lives>) {
        let was = lock(lives).of(machine);
        let done = if was == Life::Runs {
            self.kill(machine).map(|()| Life::Down)
        } else {
            lock(lives).set(machine, Life::Starting);
            self.restart(machine).map(|()| Life::Runs)
        };
        let mut lives = lock(lives);
        lives.trouble = done.as_ref().err().map(Ending::describe);
        lives.set(machine, done.unwrap_or(Life::Down));
    }

    fn kill(&mut self, machine: Machine) -> Result<(), Ending> {
        match machine {
            Machine::Broker(number) => Ok(self.kafka.kill(number as u16 + 1)?),
            Machine::Node(number) => self.nodes[number].kill(),
        }
    }

    fn restart(&mut self, machine: Machine) -> Result<(), Ending> {
        match machine {
            Machine::Broker(number) => Ok(self.kafka.restart(number as u16 + 1)?),
            Machine::Node(number) => {
                let address = |url: &str| url.trim_start_matches("http://").to_owned();
                let before = &self.nodes[number];
                let addresses = [address(&before.clients), address(&before.operators)];
                self.nodes[number] = self.node(number, addresses)?;
                Ok(())
            }
        }
    }
}

//! Three nodes on three brokers, which a trial breaks and mends.

use std::fs;
use std::path::Path;
use std::process::Stdio;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use brokers::{Kafka, Plan};

use super::history::PARTITIONS;
use crate::cluster::{Nodes, readiness};
use crate::server::{Place, Server};
use crate::successor::Successor;
use crate::tools::crore;

/// The number of nodes, and of brokers.
pub const NODES: usize = 3;
/// The engine's topic.
pub const TOPIC: &str = "trial";
/// The node that has a mirror on disk, and little memory.
pub const MIRRORING: usize = 1;
/// Messages of each topic that nodes remember: those of the longest trial, so that no gap is due to
/// this limit.
const HISTORY_MESSAGES_MAX: u32 = 200_000;
/// Time limit for the engine and the nodes to be as before a fault.
pub const MENDING: Duration = Duration::from_secs(240);

/// The set-up of a world.
#[derive(Clone, Debug, Default)]
pub struct Setup {
    /// Copies of each partition; 0 for three.
    pub copies: u16,
    /// Settings of the engine's topic beyond those of `crore engine init`, as `name=value`.
    pub settings: Vec<&'static str>,
}

/// Brokers and nodes.
#[derive(Debug)]
pub struct World {
    /// The brokers.
    pub kafka: Kafka,
    /// Clients' addresses of the nodes.
    pub nodes: Nodes,
    places: Vec<Place>,
    servers: Vec<Option<Node>>,
}

#[derive(Debug)]
struct Node {
    server: Server,
    /// The present process, after a live upgrade.
    successor: Option<Successor>,
}

impl Node {
    fn signal(&self, name: &str) {
        match &self.successor {
            Some(successor) => successor.signal(name),
            None => self.server.process.signal(name),
        }
    }
}

impl World {
    /// Starts brokers and nodes, and creates the topics.
    pub fn start(folder: &Path, setup: &Setup) -> World {
        let jars = brokers::fetch(folder).expect("Kafka's jars");
        let kafka = Kafka::start(&jars, &Plan::new(NODES as u16)).expect("three brokers");
        let places: Vec<Place> = (0..NODES).map(|_| Place::new("127.0.0.1:0")).collect();
        for (number, place) in places.iter().enumerate() {
            let is_weak = !setup.settings.is_empty() || setup.copies > 0;
            place.configure(&configuration(&kafka, number, &place.path("data"), is_weak));
        }
        let mut world = World {
            kafka,
            nodes: Arc::new(Mutex::new(vec![String::new(); NODES])),
            places,
            servers: (0..NODES).map(|_| None).collect(),
        };
        world.create_topic(setup);
        let file = world.places[0].path("crore.toml");
        let created = crore().args(["engine", "init", "--config"]).arg(file).output();
        let created = created.expect("the program runs");
        assert!(created.status.success(), "{}", String::from_utf8_lossy(&created.stderr));
        (0..NODES).for_each(|number| world.start_node(number));
        world
    }

    /// Creates the topic with settings of its own; without them `crore engine init` does.
    pub fn create_topic(&self, setup: &Setup) {
        if setup.settings.is_empty() && setup.copies == 0 {
            return;
        }
        let copies = if setup.copies == 0 { NODES as u16 } else { setup.copies };
        let mut arguments = vec!["--create".to_owned(), "--partitions".into()];
        arguments.extend([PARTITIONS.to_string(), "--replication-factor".into()]);
        arguments.extend([copies.to_string(), "--config".into()]);
        arguments.push("message.timestamp.type=LogAppendTime".into());
        arguments.extend(["--config".to_owned(), "max.message.bytes=2000000".into()]);
        for setting in &setup.settings {
            arguments.extend(["--config".to_owned(), (*setting).to_owned()]);
        }
        self.change_topic(&arguments);
    }

    /// Runs Kafka's own tool on the topic.
    pub fn change_topic(&self, arguments: &[String]) {
        let mut tool = self.kafka.tool("org.apache.kafka.tools.TopicCommand");
        tool.args(["--bootstrap-server", &self.kafka.bootstrap(), "--topic", TOPIC]);
        let output = tool.args(arguments).output().expect("the tool runs");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    }

    /// Leader and copies in sync of each partition, or fewer while the brokers do not answer.
    pub fn partitions(&self) -> Vec<(Option<u16>, Vec<u16>)> {
        let mut tool = self.kafka.tool("org.apache.kafka.tools.TopicCommand");
        tool.args(["--bootstrap-server", &self.kafka.bootstrap(), "--topic", TOPIC, "--describe"]);
        let output = tool.stderr(Stdio::null()).output().expect("the tool runs");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let lines = text.lines().filter(|line| line.contains("Partition:"));
        let field = |line: &str, name: &str| {
            let rest = line.split_once(name).map_or("", |(_, rest)| rest);
            rest.split('\t').next().unwrap_or_default().trim().to_owned()
        };
        let numbers =
            |text: &str| text.split(',').filter_map(|it| it.trim().parse().ok()).collect();
        lines
            .map(|line| (field(line, "Leader:").parse().ok(), numbers(&field(line, "Isr:"))))
            .collect()
    }

    /// Waits until this holds for all partitions.
    pub fn wait_for_partitions(
        &self,
        what: &str,
        is_so: impl Fn(&(Option<u16>, Vec<u16>)) -> bool,
    ) {
        let deadline = Instant::now() + MENDING;
        loop {
            let partitions = self.partitions();
            if partitions.len() == PARTITIONS as usize && partitions.iter().all(&is_so) {
                return;
            }
            assert!(Instant::now() < deadline, "no {what}: {partitions:?}");
        }
    }

    /// Starts a node that does not run, and waits until it is ready.
    pub fn start_node(&mut self, number: usize) {
        let server = self.places[number].start();
        self.nodes.lock().unwrap_or_else(PoisonError::into_inner)[number]
            .clone_from(&server.clients);
        self.servers[number] = Some(Node { server, successor: None });
        self.wait_until_ready(number);
    }

    /// Waits until a node is ready.
    pub fn wait_until_ready(&self, number: usize) {
        let deadline = Instant::now() + MENDING;
        while readiness(self.node(number)) != 200 {
            assert!(Instant::now() < deadline, "node {number} is not ready");
            thread::sleep(Duration::from_millis(100));
        }
    }

    /// A running node.
    pub fn node(&self, number: usize) -> &Server {
        &self.servers[number].as_ref().expect("the node runs").server
    }

    /// Kills a node at once.
    pub fn kill_node(&mut self, number: usize) {
        let node = self.servers[number].take().expect("the node runs");
        match node.successor {
            Some(successor) => successor.kill(node.server),
            None => {
                node.server.process.signal("KILL");
                node.server.end();
            }
        }
    }

    /// Sends a node a signal.
    pub fn signal_node(&self, number: usize, name: &str) {
        self.servers[number].as_ref().expect("the node runs").signal(name);
    }

    /// Replaces a node's process while it serves.
    pub fn upgrade_node(&mut self, number: usize) {
        let node = self.servers[number].as_mut().expect("the node runs");
        node.successor = Some(match node.successor.take() {
            None => node.server.process.upgrade(),
            Some(successor) => successor.upgrade(&mut node.server.process),
        });
    }

    /// Removes the files of the mirror of a node that does not run.
    pub fn remove_mirror(&self, number: usize) {
        assert!(self.servers[number].is_none(), "the node does not run");
        fs::remove_dir_all(self.places[number].path("data").join(TOPIC)).expect("a mirror");
    }

    /// The reasons for which a node's partitions began anew.
    pub fn beginnings(&mut self, number: usize) -> Vec<String> {
        let node = self.servers[number].as_mut().expect("the node runs");
        node.server.process.lines_with("begins anew")
    }

    /// A page of the newest messages of a topic at a node.
    pub fn page(&self, number: usize, topic: &str) -> serde_json::Value {
        let url = self.node(number).url(&format!("/topics/{topic}?reverse=true&limit=1000"));
        crate::curl::curl(&[&url]).expect(200).json()
    }
}

fn configuration(kafka: &Kafka, number: usize, data: &Path, is_weak: bool) -> String {
    let bootstrap = kafka.bootstrap();
    let servers: Vec<String> = bootstrap.split(',').map(|it| format!("\"{it}\"")).collect();
    let mirror = if number == MIRRORING { "mirror = true\ncache_bytes = \"1MiB\"\n" } else { "" };
    format!(
        "[node]\nname = \"n{number}\"\nio_threads = 2\ndata_dir = {data:?}\n\
         address = \"ws://n{number}.example.com\"\n\
         [http]\nheartbeat_interval = \"1s\"\n\
         [limits]\nlog_stall_timeout = \"3s\"\npage_records_max = 1000\n\
         [engine]\nbootstrap_servers = [{}]\n\
         [[log]]\nname = \"{TOPIC}\"\ndurability = \"engine\"\npartitions_count = {PARTITIONS}\n\
         age_max = \"1h\"\nbytes_max = \"2GiB\"\nallow_weak = {is_weak}\n{mirror}\
         [[rule]]\nfilter = \"#\"\nlog = \"{TOPIC}\"\n\
         history_messages_max = {HISTORY_MESSAGES_MAX}\n",
        servers.join(", ")
    )
}

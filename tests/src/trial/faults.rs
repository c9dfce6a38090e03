//! The faults of trials. Each is a function that breaks something, waits for its effect, and mends
//! it; a trial repeats it until its time is over.

use std::fmt;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use super::load::Publisher;
use super::world::{MENDING, MIRRORING, NODES, Setup, World};
use crate::fleet::random::Random;

/// A fault.
#[derive(Clone, Copy)]
pub struct Fault {
    /// Its name.
    pub name: &'static str,
    /// Its effect, in one line.
    pub about: &'static str,
    /// Whether records may be lost, so that gaps have a cause.
    pub may_lose: bool,
    /// Copies of each partition; 0 for three.
    copies: u16,
    /// Settings of the engine's topic.
    settings: &'static [&'static str],
    /// One time.
    pub break_and_mend: fn(&mut Trial),
}

impl fmt::Debug for Fault {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name)
    }
}

impl Fault {
    /// The set-up of its world.
    pub fn setup(&self) -> Setup {
        Setup { copies: self.copies, settings: self.settings.to_vec() }
    }
}

/// A world under load.
#[derive(Debug)]
pub struct Trial {
    /// Brokers and nodes.
    pub world: World,
    /// The publishers through nodes.
    pub publishers: Vec<Publisher>,
    /// Chooses brokers and nodes.
    pub random: Random,
    /// The number of times that the fault has been done.
    pub times: u64,
}

const fn lossless(name: &'static str, about: &'static str, it: fn(&mut Trial)) -> Fault {
    Fault { name, about, may_lose: false, copies: 0, settings: &[], break_and_mend: it }
}

/// All faults.
pub const FAULTS: &[Fault] = &[
    lossless("calm", "nothing breaks; clients move", calm),
    lossless("broker-killed", "kill -9 of one broker, its controller too", broker_killed),
    lossless("two-brokers-killed", "kill -9 of two brokers: no majority", two_brokers_killed),
    lossless("all-brokers-killed", "kill -9 of all brokers", all_brokers_killed),
    lossless("broker-held", "a broker is held for 12 s", |trial| broker_held(trial, 12)),
    lossless("broker-held-long", "a broker is held for 40 s", |trial| broker_held(trial, 40)),
    lossless("broker-stutters", "a broker is held 9 s of 10", broker_stutters),
    lossless("all-brokers-held", "all brokers are held for 15 s", all_brokers_held),
    lossless("broker-unreachable", "packets to a broker are dropped for 15 s", broker_unreachable),
    lossless("node-killed", "kill -9 of a node", node_killed),
    lossless("node-held", "a node is held for 12 s", node_held),
    lossless("node-upgrades", "a node is replaced while it serves", node_upgrades),
    lossless("mirror-removed", "a node is killed, and its mirror removed", mirror_removed),
    lossless("node-and-broker-killed", "kill -9 of a node and of a broker", node_and_broker_killed),
    lossless("transactions", "another producer's transactions, killed in the middle", transactions),
    Fault {
        name: "unclean-election",
        about: "a broker that lacks records becomes the leader",
        may_lose: true,
        copies: 2,
        settings: &["unclean.leader.election.enable=true", "min.insync.replicas=1"],
        break_and_mend: unclean_election,
    },
];

impl Trial {
    fn any_broker(&mut self) -> u16 {
        1 + self.random.below(NODES as u64) as u16
    }

    fn any_node(&mut self) -> usize {
        self.random.below(NODES as u64) as usize
    }

    /// Waits until every publisher has so many more acknowledgements.
    #[track_caller]
    pub fn wait_for_progress(&self, count: u64) {
        let wanted: Vec<u64> = self.publishers.iter().map(|it| it.acknowledged() + count).collect();
        let deadline = Instant::now() + MENDING;
        while self.publishers.iter().zip(&wanted).any(|(it, wanted)| it.acknowledged() < *wanted) {
            assert!(Instant::now() < deadline, "publishing has stopped");
            thread::sleep(Duration::from_millis(20));
        }
    }

    /// Waits until all partitions have a leader and all their copies.
    fn wait_for_copies(&self, copies: usize) {
        self.world.wait_for_partitions("leader and copies", |(leader, in_sync)| {
            leader.is_some() && in_sync.len() == copies
        });
    }

    /// Waits until all is as before the fault.
    fn wait_for_recovery(&self) {
        self.wait_for_copies(NODES);
        (0..NODES).for_each(|number| self.world.wait_until_ready(number));
        self.wait_for_progress(100);
    }
}

fn pause(seconds: u64) {
    thread::sleep(Duration::from_secs(seconds));
}

fn calm(trial: &mut Trial) {
    trial.wait_for_progress(500);
}

fn broker_killed(trial: &mut Trial) {
    let broker = (trial.times % NODES as u64) as u16 + 1;
    trial.world.kafka.kill(broker).expect("the broker runs");
    trial.wait_for_progress(200);
    trial.world.kafka.restart(broker).expect("it starts");
    trial.wait_for_recovery();
}

fn two_brokers_killed(trial: &mut Trial) {
    let left = trial.any_broker();
    let killed: Vec<u16> = (1..=NODES as u16).filter(|broker| *broker != left).collect();
    for broker in &killed {
        trial.world.kafka.kill(*broker).expect("the broker runs");
    }
    pause(8);
    trial.world.kafka.restart_all(&killed).expect("they start");
    trial.wait_for_recovery();
}

fn all_brokers_killed(trial: &mut Trial) {
    for broker in 1..=NODES as u16 {
        trial.world.kafka.kill(broker).expect("the broker runs");
    }
    pause(5);
    trial.world.kafka.restart_all(&[1, 2, 3]).expect("they start");
    trial.wait_for_recovery();
}

fn broker_held(trial: &mut Trial, seconds: u64) {
    let broker = trial.any_broker();
    trial.world.kafka.stop(broker).expect("the broker runs");
    pause(seconds);
    trial.world.kafka.go_on(broker).expect("the broker was held");
    trial.wait_for_recovery();
}

fn broker_stutters(trial: &mut Trial) {
    let broker = trial.any_broker();
    for _ in 0..4 {
        trial.world.kafka.stop(broker).expect("the broker runs");
        pause(9);
        trial.world.kafka.go_on(broker).expect("the broker was held");
        pause(1);
    }
    trial.wait_for_recovery();
}

fn all_brokers_held(trial: &mut Trial) {
    for broker in 1..=NODES as u16 {
        trial.world.kafka.stop(broker).expect("the broker runs");
    }
    pause(15);
    for broker in 1..=NODES as u16 {
        trial.world.kafka.go_on(broker).expect("the broker was held");
    }
    trial.wait_for_recovery();
}

/// The kernel drops what goes to the broker's address; what the broker sends arrives.
fn broker_unreachable(trial: &mut Trial) {
    let place = usize::from(trial.any_broker()) - 1;
    let bootstrap = trial.world.kafka.bootstrap();
    let address = bootstrap.split(',').nth(place).and_then(|it| it.split(':').next());
    let route = Blackhole::add(address.expect("an address"));
    pause(15);
    drop(route);
    trial.wait_for_recovery();
}

/// A route that drops packets to an address, until it is dropped itself.
struct Blackhole(String);

impl Blackhole {
    fn add(address: &str) -> Blackhole {
        let route = Blackhole(format!("{address}/32"));
        assert!(route.change("add"), "the route needs root");
        route
    }

    fn change(&self, verb: &str) -> bool {
        let mut ip = Command::new("ip");
        ip.args(["route", verb, "blackhole", &self.0, "table", "local"]);
        ip.status().is_ok_and(|status| status.success())
    }
}

impl Drop for Blackhole {
    fn drop(&mut self) {
        self.change("del");
    }
}

fn node_killed(trial: &mut Trial) {
    let number = trial.any_node();
    trial.world.kill_node(number);
    trial.wait_for_progress(200);
    trial.world.start_node(number);
    trial.wait_for_progress(200);
}

fn node_held(trial: &mut Trial) {
    let number = trial.any_node();
    trial.world.signal_node(number, "STOP");
    pause(12);
    trial.world.signal_node(number, "CONT");
    trial.wait_for_recovery();
}

fn node_upgrades(trial: &mut Trial) {
    let number = trial.any_node();
    trial.world.upgrade_node(number);
    trial.wait_for_progress(500);
}

fn mirror_removed(trial: &mut Trial) {
    trial.world.kill_node(MIRRORING);
    trial.world.remove_mirror(MIRRORING);
    trial.world.start_node(MIRRORING);
    trial.wait_for_progress(500);
}

fn node_and_broker_killed(trial: &mut Trial) {
    let (number, broker) = (trial.any_node(), trial.any_broker());
    trial.world.kafka.kill(broker).expect("the broker runs");
    trial.world.kill_node(number);
    trial.wait_for_progress(100);
    trial.world.start_node(number);
    trial.world.kafka.restart(broker).expect("it starts");
    trial.wait_for_recovery();
}

/// Transactions of Kafka's own tool. The killed one stays open until the brokers abort it, and its
/// partitions wait for it. Its records have no key, so no node serves them.
fn transactions(trial: &mut Trial) {
    let mut tool = trial.world.kafka.tool("org.apache.kafka.tools.ProducerPerformance");
    tool.args(["--topic", super::world::TOPIC, "--num-records", "100000", "--record-size", "20"]);
    tool.args(["--throughput", "200", "--transactional-id", "trial"]);
    tool.args(["--transaction-duration-ms", "1500"]);
    let servers = format!("bootstrap.servers={}", trial.world.kafka.bootstrap());
    tool.args(["--command-property", &servers]);
    tool.args(["--command-property", "transaction.timeout.ms=8000"]);
    tool.stdout(std::process::Stdio::null()).stderr(std::process::Stdio::null());
    let mut child = tool.spawn().expect("the tool starts");
    pause(8);
    child.kill().expect("it runs");
    child.wait().expect("it was killed");
    trial.wait_for_recovery();
}

/// A follower dies; the leader alone takes records, and dies; the follower leads without them.
fn unclean_election(trial: &mut Trial) {
    let follower = trial.any_broker();
    let leader = follower % NODES as u16 + 1;
    trial.world.kafka.kill(follower).expect("the broker runs");
    trial.world.wait_for_partitions("follower out of sync", |(leader, in_sync)| {
        leader.is_some() && !in_sync.contains(&follower)
    });
    trial.wait_for_progress(200);
    trial.world.kafka.kill(leader).expect("the broker runs");
    trial.world.kafka.restart(follower).expect("it starts");
    trial.world.wait_for_partitions("leader", |(leader, _)| leader.is_some());
    trial.world.kafka.restart(leader).expect("it starts");
    trial.wait_for_copies(2);
    trial.wait_for_progress(200);
}

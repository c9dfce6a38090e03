//! Shared subscriptions of MQTT: each message comes to one member, on whichever node it is.

use std::collections::BTreeMap;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use end_to_end::process::{Process, with_input};

use super::{Cluster, FAILOVER_PATIENCE, NODES};

/// The number of messages of a round.
const ROUND: u32 = 100;

/// Members on all nodes share the messages, and each message comes to one of them. The part of a
/// node whose last member leaves goes to others, and back when it has one again.
pub fn groups_are_shared(cluster: &mut Cluster) {
    let mut members: Vec<Process> = (0..NODES).map(|node| member(cluster, node)).collect();
    let mut rounds = Rounds::default();
    let counts = rounds.play_until_all_share(cluster, &mut members);
    println!("  {counts:?} messages at the members of the nodes");

    let left = members.remove(1);
    left.signal("TERM");
    rounds.leaves(left);
    rounds.play(cluster, 1, &mut members);

    members.push(member(cluster, 1));
    rounds.play_until_all_share(cluster, &mut members);
    rounds.assert_once();
}

/// A node dies with its members: the others get its part, with what its members had not
/// acknowledged.
pub fn groups_survive_a_kill(cluster: &mut Cluster) {
    let mut members: Vec<Process> = (0..NODES).map(|node| member(cluster, node)).collect();
    let mut rounds = Rounds::default();
    rounds.play(cluster, 0, &mut members);
    let killed = members.remove(2);
    // It acknowledges nothing any more.
    killed.signal("STOP");
    rounds.publish(cluster, 0);
    let server = cluster.servers[2].take().expect("the node runs");
    server.process.signal("KILL");
    let began = Instant::now();
    killed.signal("KILL");
    drop(server);
    rounds.leaves(killed);
    let counts = rounds.play(cluster, 1, &mut members);
    let seconds = began.elapsed().as_secs_f64();
    println!("  {counts:?} messages at the members of the other nodes {seconds:.1} s after a kill");
    cluster.start_node(2);
    members.push(member(cluster, 2));
    rounds.play_until_all_share(cluster, &mut members);
}

/// The messages of a test, and what members got.
#[derive(Default)]
struct Rounds {
    published: u32,
    /// The messages of members that have left.
    left: Vec<u32>,
    /// The number of times that each message came.
    came: BTreeMap<u32, u32>,
}

impl Rounds {
    /// Publishes a round at a node, and waits until members have all messages; returns how many
    /// messages each member got in it.
    fn play(&mut self, cluster: &Cluster, node: usize, members: &mut [Process]) -> Vec<u32> {
        let before: Vec<usize> = members.iter_mut().map(|it| messages(it).len()).collect();
        self.publish(cluster, node);
        let deadline = Instant::now() + FAILOVER_PATIENCE;
        loop {
            let found: Vec<Vec<u32>> = members.iter_mut().map(messages).collect();
            self.came = BTreeMap::new();
            for number in found.iter().flatten().chain(&self.left) {
                *self.came.entry(*number).or_insert(0) += 1;
            }
            if self.came.len() == self.published as usize {
                let counts = found.iter().zip(before);
                return counts.map(|(found, before)| (found.len() - before) as u32).collect();
            }
            let missing = (0..self.published).filter(|number| !self.came.contains_key(number));
            let missing: Vec<u32> = missing.collect();
            assert!(Instant::now() < deadline, "nobody got {missing:?}");
            thread::sleep(Duration::from_millis(50));
        }
    }

    /// Rounds until each member gets a good part of one: a node's part begins some time after its
    /// first member.
    fn play_until_all_share(&mut self, cluster: &Cluster, members: &mut [Process]) -> Vec<u32> {
        let deadline = Instant::now() + FAILOVER_PATIENCE;
        loop {
            let counts = self.play(cluster, 0, members);
            if counts.iter().all(|count| *count > ROUND / 10) {
                return counts;
            }
            assert!(Instant::now() < deadline, "a member gets no part: {counts:?}");
        }
    }

    fn publish(&mut self, cluster: &Cluster, node: usize) {
        let (host, port) = cluster.node(node).clients.rsplit_once(':').expect("a port");
        let numbers = self.published..self.published + ROUND;
        let lines: String = numbers.map(|number| format!("{number}\n")).collect();
        let mut command = Command::new("mosquitto_pub");
        command.args(["-h", host, "-p", port, "-V", "5", "-q", "1", "-t", "shared/1", "-l"]);
        let output = with_input(&mut command, lines.as_bytes());
        assert!(output.status.success(), "{output:?}");
        self.published += ROUND;
    }

    /// A member gets no more messages.
    fn leaves(&mut self, member: Process) {
        let ended = member.end();
        self.left.extend(ended.lines.iter().filter_map(|line| number(line)));
    }

    fn assert_once(&self) {
        let again: Vec<_> = self.came.iter().filter(|(_, count)| **count > 1).collect();
        assert!(again.is_empty(), "{again:?}");
    }
}

/// A member of the group, once it is one.
fn member(cluster: &Cluster, node: usize) -> Process {
    let (host, port) = cluster.node(node).clients.rsplit_once(':').expect("a port");
    // Without it, the program writes its lines once it has many.
    let mut command = Command::new("stdbuf");
    command.args([
        "--output=L",
        "mosquitto_sub",
        "-h",
        host,
        "-p",
        port,
        "-V",
        "5",
        "-q",
        "1",
        "-d",
        "-F",
        "message %p",
    ]);
    let mut member = Process::start(command.args(["-t", "$share/workers/shared/#"]));
    member.wait_for("subscription", |line| line.starts_with("Subscribed").then_some(()));
    member
}

fn messages(member: &mut Process) -> Vec<u32> {
    member.lines_with("message ").iter().filter_map(|line| number(line)).collect()
}

fn number(line: &str) -> Option<u32> {
    line.strip_prefix("message ")?.parse().ok()
}

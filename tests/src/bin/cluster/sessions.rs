//! Sessions of MQTT: each continues at any node, and one connection has it.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};

use end_to_end::PATIENCE;
use end_to_end::curl::publish;
use end_to_end::metrics::Metrics;
use end_to_end::process::Process;
use end_to_end::raw::Raw;

use super::{Cluster, NODES};

/// Reason codes of DISCONNECT and CONNACK (MQTT 5.0, section 2.4).
const SESSION_TAKEN_OVER: u8 = 0x8e;

/// A session continues at another node, with what came meanwhile; a connection takes it from
/// another node's, also from one that is killed; a clean start ends it everywhere.
pub fn sessions_move(cluster: &mut Cluster) {
    subscribe(cluster, 0, &["-E"]).end_within(PATIENCE).assert_success();
    for number in 1..=3 {
        publish(&cluster.node(2).url("/topics/moving/1"), &number.to_string());
    }
    let ended = subscribe(cluster, 1, &["-C", "3"]).end_within(PATIENCE);
    ended.assert_success();
    assert_eq!(ended.lines, ["1 1", "1 2", "1 3"]);

    let (mut first, is_present) = connect(cluster, 1, false);
    assert!(is_present, "the session of mosquitto_sub");
    let (second, is_present) = connect(cluster, 2, false);
    assert!(is_present, "the session of another node's connection");
    assert_eq!(first.take(3)[2], SESSION_TAKEN_OVER);
    let server = cluster.servers[2].take().expect("the node runs");
    server.process.signal("KILL");
    drop((server, second));
    let (third, is_present) = connect(cluster, 0, false);
    assert!(is_present, "the session of a killed node's connection");
    publish_exactly_once(cluster, 1, "4");
    drop(third);
    cluster.start_node(2);
    let ended = subscribe(cluster, 2, &["-C", "1"]).end_within(PATIENCE);
    ended.assert_success();
    assert_eq!(ended.lines, ["2 4"]);

    for node in 0..NODES {
        let mut metrics = Metrics::of(&cluster.node(node).operators);
        metrics.wait_for("crore_mqtt_sessions_sleeping", |count| count == 1);
    }
    let (clean, is_present) = connect(cluster, 1, true);
    assert!(!is_present);
    drop(clean);
    let (_last, is_present) = connect(cluster, 0, false);
    assert!(is_present, "the session that the clean start began");
}

/// Mosquitto's client, with a session that lasts; prints the QoS and the payload of each message.
///
/// It may end while SUBACK is unread. Its system then drops what it has not sent yet, which with
/// Nagle's algorithm would be acknowledgements.
fn subscribe(cluster: &Cluster, node: usize, options: &[&str]) -> Process {
    let (host, port) = cluster.node(node).clients.rsplit_once(':').expect("a port");
    let mut command = Command::new("mosquitto_sub");
    command.args(["-h", host, "-p", port, "-V", "5", "-i", "mover", "-c", "-x", "3600"]);
    command.args(["-q", "2", "-t", "moving/#", "-F", "%q %p", "--nodelay"]);
    Process::start(command.args(options))
}

/// Publishes with QoS 2.
fn publish_exactly_once(cluster: &Cluster, node: usize, payload: &str) {
    let (host, port) = cluster.node(node).clients.rsplit_once(':').expect("a port");
    let mut command = Command::new("mosquitto_pub");
    command.args(["-h", host, "-p", port, "-q", "2", "-t", "moving/1", "-m", payload]);
    Process::start(&mut command).end_within(PATIENCE).assert_success();
}

/// A connection of the same session (MQTT 5.0, sections 3.1 and 3.2), and whether the session is
/// present.
fn connect(cluster: &Cluster, node: usize, is_clean: bool) -> (Raw, bool) {
    let mut raw = Raw::connect(&cluster.node(node).clients);
    let flags = u8::from(is_clean) << 1;
    let mut packet = b"\0\x04MQTT\x05".to_vec();
    // No keep-alive; the session expires after 3,600 s.
    packet.extend_from_slice(&[flags, 0, 0, 5, 0x11, 0, 0, 0x0e, 0x10]);
    packet.extend_from_slice(b"\0\x05mover");
    raw.send(&[&[0x10, packet.len() as u8], &packet[..]].concat());
    let answer = raw.take(4);
    assert_eq!((answer[0], answer[3]), (0x20, 0), "{answer:x?}");
    raw.take(usize::from(answer[1]) - 2);
    (raw, answer[2] == 1)
}

/// `tests/mqtt/crash.py` with its sessions on three nodes: whenever it asks for a kill, the node of
/// its clients is killed, and the next one is named. False: it has found a fault.
pub fn sessions_survive_kills(cluster: &mut Cluster, python: &Path, options: &[String]) -> bool {
    let mut command = Command::new(python);
    command.args(["tests/mqtt/crash.py", "--nodes", &cluster.node(0).clients]).args(options);
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut script = command.spawn().expect("Python runs");
    let mut answers = script.stdin.take().expect("a pipe");
    let lines = BufReader::new(script.stdout.take().expect("a pipe")).lines();
    let mut node = 0;
    for line in lines.map_while(Result::ok) {
        if line != "kill" {
            println!("  {line}");
            continue;
        }
        let server = cluster.servers[node].take().expect("the node runs");
        server.process.signal("KILL");
        drop(server);
        let killed = node;
        node = (node + 1) % NODES;
        writeln!(answers, "{}", cluster.node(node).clients).expect("the script reads");
        cluster.start_node(killed);
    }
    script.wait().expect("the script ends").success()
}

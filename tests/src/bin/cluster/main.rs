//! Three nodes on three brokers of Apache Kafka: any node serves any client, and neither a node nor
//! a broker that dies costs an acknowledged message.
//!
//! `cluster FOLDER [CASE]`: the folder for Kafka's jars. `CRORE_BINARY` must have the cargo feature
//! `engine`. The last line is `N passed, N failed`. Two cases are only run by their names: `demo`
//! starts brokers and nodes of its own, and `mqtt PYTHON [KILLS] [SESSIONS]` kills nodes under
//! sessions and groups of MQTT.

#![forbid(unsafe_code)]

mod compacted;
mod groups;
mod mirrored;
mod sessions;

use std::env;
use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::process::ExitCode;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use brokers::secured::{Listener, PASSWORD};
use brokers::{Kafka, Plan};
use end_to_end::PATIENCE;
use end_to_end::cluster::{
    Follower, Nodes, Publisher, configuration, configuration_with, living, publish_to,
    publish_within, readiness, told, wait_until, wait_until_ready,
};
use end_to_end::curl::{curl, publish};
use end_to_end::metrics::Metrics;
use end_to_end::native::{Frame, Native};
use end_to_end::process::Process;
use end_to_end::secured::{engine_command, login, publish_once_taken, text_of, trust};
use end_to_end::server::{Place, Server};
use end_to_end::tokens::{Issuer, revoke};
use end_to_end::tools::{crore, node as node_script};
use serde_json::{Value, json};

const NODES: usize = 3;
const DEMO: &str = "demo";
const MQTT: &str = "mqtt";
/// Time limit for the demo with its four kills.
const DEMO_PATIENCE: Duration = Duration::from_secs(400);
/// The close code of a session whose token was revoked.
const TOKEN_REVOKED: u16 = 3507;
/// Time limit for a refusal. A publication without an answer until then waits for the engine.
const REFUSAL_PATIENCE: Duration = Duration::from_secs(5);
/// The node that has a mirror on disk, and little memory.
const MIRRORING: usize = 1;
/// Time limit for a browser that visits one view.
const BROWSER_PATIENCE: Duration = Duration::from_secs(120);
/// The failover of a broker on a busy machine.
const FAILOVER_PATIENCE: Duration = Duration::from_secs(180);

struct Cluster {
    kafka: Kafka,
    issuer: Issuer,
    places: Vec<Place>,
    servers: Vec<Option<Server>>,
    nodes: Nodes,
}

type Case = (&'static str, fn(&mut Cluster));

const CASES: &[Case] = &[
    ("a message of any node reaches subscribers of all nodes", any_node_serves_all),
    ("a repetition at another node has the position of the first", repetitions_are_found),
    ("a client continues at another node by position", clients_move_by_position),
    ("a client continues at another node by ticket", clients_move_by_ticket),
    ("a session of MQTT continues at another node", sessions::sessions_move),
    ("members of a group on all nodes share its messages", groups::groups_are_shared),
    ("a revocation at one node is in force at all, also at one that was away", revocations_spread),
    ("tickets that one node refuses are refused by all", revoked_tickets_spread),
    ("the administration page and `crore top` show all nodes", operators_see_all_nodes),
    ("a drain sends clients to the nodes that live", a_drain_names_living_nodes),
    ("a node with TLS and SCRAM serves, and a wrong password is named", tls_and_scram_serve),
    ("a killed node costs its clients nothing", a_node_is_killed),
    ("a node with a mirror starts warm, and a lost mirror costs nothing", mirrored::a_mirror_lasts),
    ("a node upgrades in place under load", a_node_upgrades),
    ("the newest message of a compacted log lasts", compacted::the_newest_message_lasts),
    (
        "a repetition does not replace the newest message of a compacted log",
        compacted::a_repetition_does_not_replace_the_newest_message,
    ),
    ("a killed broker costs nothing", a_broker_is_killed),
    ("without the engine, publications are refused and history goes on", the_engine_is_gone),
];

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let Some(folder) = arguments.first() else {
        eprintln!("usage: cluster FOLDER [CASE]");
        return ExitCode::from(2);
    };
    let only = arguments.get(1);
    if only.is_some_and(|only| only == DEMO) {
        return demo(Path::new(folder));
    }
    let mut cluster = Cluster::start(Path::new(folder));
    if let Some(python) = arguments.get(2).filter(|_| only.is_some_and(|only| only == MQTT)) {
        let python = Path::new(python);
        let is_good = sessions::sessions_survive_kills(&mut cluster, python, &arguments[3..]);
        groups::groups_survive_a_kill(&mut cluster);
        println!("{} passed, {} failed", u32::from(is_good), u32::from(!is_good));
        return if is_good { ExitCode::SUCCESS } else { ExitCode::FAILURE };
    }
    let (mut passed, mut failed) = (0, 0);
    for (name, case) in CASES {
        if only.is_some_and(|only| !name.contains(&**only)) {
            continue;
        }
        let began = Instant::now();
        let ran = catch_unwind(AssertUnwindSafe(|| case(&mut cluster)));
        let verdict = if ran.is_ok() { "ok" } else { "FAILED" };
        *(if ran.is_ok() { &mut passed } else { &mut failed }) += 1;
        println!("{name} ... {verdict} in {:.1} s", began.elapsed().as_secs_f64());
        if ran.is_err() {
            break; // the next cases would meet what this one has left
        }
    }
    println!("{passed} passed, {failed} failed");
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// `crore cluster demo` without a terminal follows its schedule and ends with a verdict. Without
/// jars it names the remedy.
fn demo(folder: &Path) -> ExitCode {
    let jars = brokers::fetch(folder).expect("Kafka's jars");
    let command = |jars: &Path| {
        let mut command = crore();
        command.args(["cluster", "demo", "--jars"]).arg(jars);
        command
    };
    let refused = Process::start(&mut command(Path::new("/nowhere"))).end();
    assert_eq!(refused.status.code(), Some(1), "{:?}", refused.lines);
    assert!(refused.lines.concat().contains("cargo xtask kafka --fetch"), "{:?}", refused.lines);
    let ended = Process::start(&mut command(&jars)).end_within(DEMO_PATIENCE);
    ended.lines.iter().for_each(|line| println!("  {line}"));
    let has = |line: &str| ended.lines.iter().any(|found| found.contains(line));
    let steps = ["Kill broker 1.", "Restart broker 2.", "Kill node n1.", "Restart node n3."];
    let is_good = ended.status.success()
        && steps.into_iter().all(has)
        && has("Verdict: each acknowledged message came once and in order, without a gap.");
    println!("{} passed, {} failed", u32::from(is_good), u32::from(!is_good));
    if is_good { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

impl Cluster {
    fn start(folder: &Path) -> Cluster {
        let jars = brokers::fetch(folder).expect("Kafka's jars");
        let began = Instant::now();
        let plan = Plan { is_secured: true, ..Plan::new(3) };
        let kafka = Kafka::start(&jars, &plan).expect("three brokers");
        println!("three brokers run after {:.1} s", began.elapsed().as_secs_f64());
        let places: Vec<Place> = (0..NODES).map(|_| Place::new("127.0.0.1:0")).collect();
        let issuer = Issuer::new(&places[0], "HS256", "");
        for (number, place) in places.iter().enumerate() {
            let data = place.path("data");
            let mut text = configuration(&kafka, number, &data, &issuer);
            if number == MIRRORING {
                let log = "name = \"orders\"\n";
                let mirror = format!("{log}mirror = true\ncache_bytes = \"64KiB\"\n");
                text = text.replacen(log, &mirror, 1);
            }
            place.configure(&text);
        }
        let file = places[0].path("crore.toml");
        // A topic that is missing has a name.
        let refused = run(&["engine", "check", "--config", &file.to_string_lossy()]);
        assert!(refused.contains("topic orders: it does not exist"), "{refused}");
        let would = run(&["engine", "init", "--dry-run", "--config", &file.to_string_lossy()]);
        let control = "crore.control, unless it exists: the nodes' control topic";
        assert_eq!(
            would.trim(),
            format!(
                "would create orders: 8 partitions\nwould create prices: 2 partitions\n\
                 would create {control}"
            )
        );
        let created = run(&["engine", "init", "--config", &file.to_string_lossy()]);
        let control = "created crore.control: the nodes' control topic";
        let logs = "created orders: 8 partitions\ncreated prices: 2 partitions";
        assert_eq!(created.trim(), format!("{logs}\n{control}"));
        let mut cluster = Cluster {
            kafka,
            issuer,
            places,
            servers: (0..NODES).map(|_| None).collect(),
            nodes: Arc::new(Mutex::new(vec![String::new(); NODES])),
        };
        for number in 0..NODES {
            cluster.start_node(number);
        }
        println!("three nodes are ready after {:.1} s", began.elapsed().as_secs_f64());
        cluster
    }

    fn start_node(&mut self, number: usize) {
        let server = self.places[number].start();
        self.nodes.lock().unwrap()[number] = server.clients.clone();
        wait_until_ready(&server);
        self.servers[number] = Some(server);
    }

    fn node(&self, number: usize) -> &Server {
        self.servers[number].as_ref().expect("the node runs")
    }

    fn followers(&self, topic: &str) -> Vec<Follower> {
        (0..NODES).map(|number| Follower::begin(&self.nodes, number, topic)).collect()
    }

    /// Ends a flow: every follower has everything that was acknowledged, and nothing else.
    fn finish(publisher: Publisher, followers: Vec<Follower>) {
        let published = publisher.end();
        let count = published.acknowledged.len();
        println!(
            "  {count} acknowledged, longest silence {} ms, refusals {:?}",
            published.longest_silence.as_millis(),
            published.refusals
        );
        for follower in followers {
            follower.wait("last message", FAILOVER_PATIENCE, |found| found.messages.len() >= count);
            follower.end().assert_complete(&published);
        }
    }
}

fn run(arguments: &[&str]) -> String {
    let output = crore().args(arguments).output().expect("the program runs");
    format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    )
}

fn any_node_serves_all(cluster: &mut Cluster) {
    let followers = cluster.followers("any/1");
    let mut offsets = Vec::new();
    for number in 1..=60 {
        let node = cluster.node(number % NODES);
        let answer = publish_once_taken(&node.url("/topics/any/1"), &number.to_string());
        offsets.push(answer["offset"].as_u64().expect("an offset"));
    }
    assert!(offsets.is_sorted_by(|one, next| one < next), "{offsets:?}");
    for follower in followers {
        follower.wait("all messages", PATIENCE, |found| found.messages.len() >= 60);
        let found = follower.end();
        let expected: Vec<(u64, String)> =
            offsets.iter().copied().zip((1..=60).map(|number: u64| number.to_string())).collect();
        assert_eq!(found.messages, expected);
        assert!(found.gaps.is_empty());
    }
    let history = |number: usize| {
        let answer = curl(&[&cluster.node(number).url("/topics/any/1?limit=100")]);
        answer.expect(200).json()["messages"].clone()
    };
    assert_eq!(history(0).as_array().map(Vec::len), Some(60));
    assert!((1..NODES).all(|number| history(number) == history(0)), "histories agree");
    let mut metrics = Metrics::of(&cluster.node(0).operators);
    for name in [
        "crore_engine_records_total",
        "crore_engine_record_bytes_total",
        "crore_engine_produced_total",
        "crore_engine_produce_seconds_count",
        "crore_engine_partitions",
        "crore_engine_received_total",
        "crore_engine_batches_total",
        "crore_engine_beginnings_total",
    ] {
        metrics.wait_for(name, |count| count > 0);
    }
}

fn repetitions_are_found(cluster: &mut Cluster) {
    let send = |node: usize, message: &Value| {
        publish_to(&cluster.node(node).clients, message).expect("an answer")
    };
    let by_producer = |sequence: u64| json!({"topic": "once/1", "data": "p", "producer": {"id": "p", "sequence": sequence}});
    let first = send(0, &by_producer(1));
    assert_eq!(first["duplicate"], false, "{first}");
    for node in 0..NODES {
        let again = send(node, &by_producer(1));
        assert_eq!(
            (&again["offset"], &again["duplicate"]),
            (&first["offset"], &json!(true)),
            "{again}"
        );
    }
    let next = send(1, &by_producer(2));
    assert_eq!(next["duplicate"], false, "{next}");
    let by_key = json!({"topic": "once/2", "data": "k", "idempotency_key": "k-1"});
    let first = send(2, &by_key);
    assert_eq!(first["duplicate"], false, "{first}");
    for node in 0..NODES {
        let again = send(node, &by_key);
        assert_eq!(
            (&again["offset"], &again["duplicate"]),
            (&first["offset"], &json!(true)),
            "{again}"
        );
    }
    // Every node remembers the names, wherever they were published.
    Metrics::of(&cluster.node(2).operators).wait_for("crore_engine_names", |count| count > 0);
}

fn clients_move_by_position(cluster: &mut Cluster) {
    let at = |number: usize| cluster.node(number).url("/topics/moved/1");
    let first = publish(&at(0), "1");
    let since = format!("{}:{}", first["epoch"].as_str().unwrap(), first["offset"]);
    publish(&at(1), "2");
    publish(&at(2), "3");
    for number in 0..NODES {
        let url = format!("{}?since={since}", at(number));
        // A node that has not read so far waits.
        let deadline = Instant::now() + PATIENCE;
        loop {
            let page = curl(&[&url]).expect(200).json();
            assert!(page["gap"].is_null(), "{page}");
            let messages = page["messages"].as_array().unwrap();
            let payloads: Vec<&str> =
                messages.iter().filter_map(|message| message["data"].as_str()).collect();
            if payloads == ["2", "3"] {
                break;
            }
            assert!(Instant::now() < deadline, "{page}");
        }
    }
}

fn clients_move_by_ticket(cluster: &mut Cluster) {
    let (mut client, _) = Native::connect(&cluster.node(0).clients, None);
    let answer = client.subscribe_one(1, "ticket/1");
    assert!(matches!(answer, Frame::Subscribed { .. }), "{answer:?}");
    publish(&cluster.node(1).url("/topics/ticket/1"), "before");
    assert_eq!(payload(&mut client), "before");
    client.ask_ticket();
    let Frame::Ticket(ticket) = client.next_frame() else { panic!("a ticket") };
    drop(client);
    publish(&cluster.node(2).url("/topics/ticket/1"), "meanwhile");
    let (mut client, welcome) = Native::connect(&cluster.node(1).clients, Some((&ticket, &[])));
    assert!(matches!(welcome, Frame::Welcome { resumed: Some(1), .. }), "{welcome:?}");
    assert_eq!(payload(&mut client), "meanwhile");
    publish(&cluster.node(0).url("/topics/ticket/1"), "afterwards");
    assert_eq!(payload(&mut client), "afterwards");
}

fn operators_see_all_nodes(cluster: &mut Cluster) {
    for number in 0..NODES {
        wait_until("all nodes", || living(cluster.node(number)) == ["n0", "n1", "n2"]);
    }
    let operators = cluster.node(1).operators_url("");
    let page = [&cluster.node(1).operators_url("/")[..], "n1", "n0", "n1", "n2"];
    let page = Process::start(&mut node_script("cluster_page.cjs", &page));
    page.end_within(BROWSER_PATIENCE).assert_success();
    let top = Process::start(crore().args(["top", "--once", "--operators", &operators])).end();
    top.assert_success();
    let text = top.lines.join("\n");
    assert!(text.contains("cluster of 3 nodes, 3 living"), "{text}");
    assert!(["n0", "n1", "n2"].iter().all(|name| text.contains(name)), "{text}");
}

/// The status of a request with this token.
fn status_with(server: &Server, token: &str) -> u16 {
    curl(&[&server.url(&format!("/topics/news?token={token}"))]).status
}

fn revocations_spread(cluster: &mut Cluster) {
    for number in 0..NODES {
        let node = cluster.node(number);
        wait_until("all nodes", || living(node) == ["n0", "n1", "n2"]);
        Metrics::of(&node.operators).wait_for("crore_cluster_nodes", |count| count == 3);
    }
    let anna = cluster.issuer.token("--sub anna --jti 1 --all #");
    let ben = cluster.issuer.token("--sub ben --jti 2 --all #");
    let mut session = Native::with_token(&cluster.node(2).clients, &anna);
    revoke(cluster.node(0), "{\"sub\": \"anna\"}").expect(201);
    // A session of another node ends, and the token is refused there.
    assert_eq!(session.next_frame(), Frame::Closed(TOKEN_REVOKED));
    for number in 0..NODES {
        let node = cluster.node(number);
        wait_until("the revocation", || status_with(node, &anna) == 401);
        assert_eq!(status_with(node, &ben), 200);
    }
    // A node that was away has it from its first moment on.
    let server = cluster.servers[1].take().expect("the node runs");
    server.process.signal("KILL");
    drop(server);
    revoke(cluster.node(2), "{\"jti\": \"2\"}").expect(201);
    cluster.start_node(1);
    assert_eq!(status_with(cluster.node(1), &ben), 401);
    // Any node cancels it for all.
    let url = cluster.node(1).operators_url("/api/v1/revocations");
    let listed = curl(&[&url]).expect(200).json();
    let revocations = listed["revocations"].as_array().expect("a list");
    let of_ben = revocations.iter().find(|one| one["jti"] == "2").expect("ben's");
    curl(&["-X", "DELETE", &format!("{url}/{}", of_ben["id"])]).expect(204);
    for number in 0..NODES {
        let node = cluster.node(number);
        wait_until("the end of the revocation", || status_with(node, &ben) == 200);
        assert_eq!(status_with(node, &anna), 401);
    }
}

fn revoked_tickets_spread(cluster: &mut Cluster) {
    let (mut client, _) = Native::connect(&cluster.node(0).clients, None);
    let answer = client.subscribe_one(1, "ticket/2");
    assert!(matches!(answer, Frame::Subscribed { .. }), "{answer:?}");
    client.ask_ticket();
    let Frame::Ticket(ticket) = client.next_frame() else { panic!("a ticket") };
    let resumed_at = |server: &Server| {
        let (_, welcome) = Native::connect(&server.clients, Some((&ticket, &[])));
        let Frame::Welcome { resumed, .. } = welcome else { panic!("{welcome:?}") };
        resumed
    };
    assert_eq!(resumed_at(cluster.node(2)), Some(1));
    let file = cluster.places[1].path("crore.toml");
    let text = fs::read_to_string(&file).expect("the node's configuration");
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("a clock");
    let tickets = format!("[tickets]\nrevoked_before = {}\n", now.as_secs() + 1);
    fs::write(&file, text.replace("[tickets]\n", &tickets)).expect("the folder is ours");
    cluster.node(1).process.signal("HUP");
    for number in 0..NODES {
        wait_until("the tickets' end", || resumed_at(cluster.node(number)).is_none());
    }
    // A node that was away has it from its first moment on.
    let server = cluster.servers[2].take().expect("the node runs");
    server.process.signal("KILL");
    drop(server);
    cluster.start_node(2);
    assert_eq!(resumed_at(cluster.node(2)), None);
    // Without the option at the node that had it, all refuse as before.
    fs::write(&file, text).expect("the folder is ours");
    cluster.node(1).process.signal("HUP");
    Metrics::of(&cluster.node(1).operators)
        .wait_for("crore_reloads_total{result=\"taken\"}", |it| it == 2);
    assert_eq!(resumed_at(cluster.node(1)), None);
}

fn a_drain_names_living_nodes(cluster: &mut Cluster) {
    let drained = |number: usize, cluster: &mut Cluster| {
        let server = cluster.servers[number].take().expect("the node runs");
        let (mut client, _) = Native::connect(&server.clients, None);
        let answer = client.subscribe_one(1, "drained/1");
        assert!(matches!(answer, Frame::Subscribed { .. }), "{answer:?}");
        server.process.signal("TERM");
        let urls = loop {
            match client.next_frame() {
                Frame::GoAway { urls, .. } => break urls,
                Frame::CaughtUp(_) => {}
                other => panic!("a request to leave was expected: {other:?}"),
            }
        };
        drop(client);
        server.end().assert_success();
        urls
    };
    let url = |number: usize| format!("ws://n{number}.example.com");
    let joined = || told(cluster.node(1), "joined");
    let has = |name: &str| joined().iter().any(|event| event["node"] == name);
    wait_until("the events of the start", || has("n1") && has("n2"));
    let before = ["left", "joined"].map(|kind| told(cluster.node(1), kind).len());
    let mut urls = drained(2, cluster);
    urls.sort();
    assert_eq!(urls, [url(0), url(1)]);
    // The node that has left gets no clients.
    wait_until("the end of n2", || living(cluster.node(0)) == ["n0", "n1"]);
    assert_eq!(drained(0, cluster), [url(1)]);
    cluster.start_node(2);
    cluster.start_node(0);
    wait_until("all nodes", || living(cluster.node(1)) == ["n0", "n1", "n2"]);
    // Every node has published both events, and each is there once.
    let stopped = |name: &str| json!({ "node": name, "reason": "stopped" });
    for number in 0..NODES {
        let left = || told(cluster.node(number), "left").split_off(before[0]);
        wait_until("the ends of two nodes", || left() == [stopped("n2"), stopped("n0")]);
        let joined = || told(cluster.node(number), "joined").split_off(before[1]);
        let again = |name: &str| joined().iter().filter(|event| event["node"] == name).count() == 1;
        wait_until("their returns", || again("n0") && again("n2"));
    }
}

/// The step `engine` tries every way.
fn tls_and_scram_serve(cluster: &mut Cluster) {
    let mut place = Place::new("127.0.0.1:0");
    let servers = cluster.kafka.bootstrap_of(Listener::TlsLogin);
    let tls = trust(&cluster.kafka, Listener::TlsLogin);
    let with = |password: &str| {
        let login = login(&place, "SCRAM-SHA-512", password);
        place.configure(&configuration_with(&servers, 3, "", &format!("{tls}{login}")));
    };
    let check = || text_of(&engine_command("check", &place.path("crore.toml")));
    with("wrong");
    let refused = check();
    assert!(refused.contains("credentials with SASL mechanism SCRAM-SHA-512"), "{refused}");
    with(PASSWORD);
    let good = check();
    assert!(good.contains("topic orders: as it should be"), "{good}");
    let node = place.start();
    wait_until_ready(&node);
    let follower = Follower::begin(&cluster.nodes, 0, "secured/1");
    let sent = publish_once_taken(&node.url("/topics/secured/1"), "1");
    follower.wait("a message", PATIENCE, |found| found.messages.len() == 1);
    assert_eq!(follower.end().messages, [(sent["offset"].as_u64().unwrap(), "1".to_owned())]);
}

/// The next message; a gap would be a fault.
fn payload(client: &mut Native) -> String {
    loop {
        match client.next_frame() {
            Frame::Message { payload, .. } => return payload,
            Frame::Subscribed { .. } | Frame::CaughtUp(_) => {}
            other => panic!("a message was expected: {other:?}"),
        }
    }
}

fn a_node_is_killed(cluster: &mut Cluster) {
    let followers = cluster.followers("killed/1");
    let publisher = Publisher::begin(&cluster.nodes, 1, "killed/1");
    publisher.wait_for_more(100, FAILOVER_PATIENCE);
    let server = cluster.servers[1].take().expect("the node runs");
    server.process.signal("KILL");
    drop(server);
    publisher.wait_for_more(200, FAILOVER_PATIENCE);
    cluster.start_node(1);
    publisher.wait_for_more(100, FAILOVER_PATIENCE);
    Cluster::finish(publisher, followers);
}

fn a_node_upgrades(cluster: &mut Cluster) {
    for number in [2, MIRRORING] {
        let topic = format!("upgraded/{number}");
        let followers = cluster.followers(&topic);
        let publisher = Publisher::begin(&cluster.nodes, number, &topic);
        publisher.wait_for_more(100, FAILOVER_PATIENCE);
        let mut server = cluster.servers[number].take().expect("the node runs");
        let successor = server.process.upgrade();
        publisher.wait_for_more(100, FAILOVER_PATIENCE);
        let moves: usize = followers.iter().map(|follower| follower.followed().moves).sum();
        assert_eq!(moves, 0, "no client has lost its connection");
        Cluster::finish(publisher, followers);
        successor.kill(server);
        cluster.start_node(number);
    }
}

fn a_broker_is_killed(cluster: &mut Cluster) {
    let followers = cluster.followers("failover/1");
    // Topics in all partitions: whichever broker dies leads some of them.
    let publishers: Vec<Publisher> = (0..NODES)
        .map(|node| Publisher::begin(&cluster.nodes, node, &format!("failover/more/{node}")))
        .collect();
    let publisher = Publisher::begin(&cluster.nodes, 0, "failover/1");
    publisher.wait_for_more(100, FAILOVER_PATIENCE);
    for broker in 1..=3 {
        cluster.kafka.kill(broker).expect("the broker runs");
        publisher.wait_for_more(50, FAILOVER_PATIENCE);
        for publisher in &publishers {
            publisher.wait_for_more(20, FAILOVER_PATIENCE);
        }
        cluster.kafka.restart(broker).expect("the broker starts");
        publisher.wait_for_more(50, FAILOVER_PATIENCE);
    }
    for publisher in publishers {
        publisher.end();
    }
    Cluster::finish(publisher, followers);
}

fn the_engine_is_gone(cluster: &mut Cluster) {
    let followers = cluster.followers("outage/1");
    let publisher = Publisher::begin(&cluster.nodes, 0, "outage/1");
    publisher.wait_for_more(50, FAILOVER_PATIENCE);
    for follower in &followers {
        follower.wait("history", PATIENCE, |found| found.messages.len() >= 50);
    }
    for broker in 1..=3 {
        cluster.kafka.stop(broker).expect("the broker runs");
    }
    let began = Instant::now();
    // The engine may have the first ones: they wait. After `limits.log_stall_timeout` further ones
    // are refused by name, at once.
    let message = json!({"topic": "outage/2", "data": "x"});
    let first = {
        let (address, message) = (cluster.node(1).clients.clone(), message.clone());
        thread::spawn(move || publish_to(&address, &message).expect("an answer"))
    };
    let deadline = began + PATIENCE;
    let refused = loop {
        let answer = publish_within(&cluster.node(1).clients, &message, REFUSAL_PATIENCE);
        match answer.map(|answer| answer["error"].clone()) {
            Some(error) if error["code"] == "log_unavailable" => break error,
            other => assert!(Instant::now() < deadline, "no refusal: {other:?}"),
        }
    };
    println!("  refused {} ms after the outage began: {refused}", began.elapsed().as_millis());
    assert_eq!(refused["temporary"], true);
    // History and subscriptions go on.
    let history = curl(&[&cluster.node(2).url("/topics/outage/1?limit=10")]).expect(200).json();
    assert_eq!(history["messages"].as_array().map(Vec::len), Some(10), "{history}");
    let late = Follower::begin(&cluster.nodes, 1, "outage/1");
    assert!(late.end().gaps.is_empty());
    let deadline = Instant::now() + PATIENCE;
    while readiness(cluster.node(0)) == 200 {
        assert!(Instant::now() < deadline, "the node stays ready");
        thread::sleep(Duration::from_millis(200));
    }
    println!("  not ready after {} ms", began.elapsed().as_millis());
    let mut metrics = Metrics::of(&cluster.node(1).operators);
    for name in [
        "crore_engine_partitions_unavailable",
        "crore_engine_partitions_closed",
        "crore_engine_pending",
    ] {
        metrics.wait_for(name, |count| count > 0);
    }
    for name in ["crore_engine_silence_seconds", "crore_cluster_silence_seconds"] {
        let silence_s = metrics.scrape().value(name);
        assert!(silence_s > Some(3.0), "{name}: {silence_s:?}");
    }
    for broker in 1..=3 {
        cluster.kafka.go_on(broker).expect("the broker was stopped");
    }
    publisher.wait_for_more(50, FAILOVER_PATIENCE);
    let first = first.join().expect("a publisher without faults");
    let is_unknown = first["error"]["code"] == "outcome_unknown";
    assert!(first["offset"].is_u64() || is_unknown, "{first}");
    for number in 0..NODES {
        wait_until_ready(cluster.node(number));
    }
    Cluster::finish(publisher, followers);
    let restarts =
        Metrics::of(&cluster.node(0).operators).scrape().number("crore_engine_restarts_total");
    assert_eq!(restarts, 0, "no partition began anew");
    let mut one = Metrics::of(&cluster.node(1).operators);
    for name in ["crore_engine_errors_total", "crore_engine_stalls_total"] {
        one.wait_for(name, |count| count > 0);
    }
}

//! The command line: how the server starts and ends, `pub`, `sub` and `history` against it, and exit codes.

use end_to_end::curl::publish;
use end_to_end::process::{Ended, Process};
use end_to_end::proxy::Proxy;
use end_to_end::server::Server;
use end_to_end::tools::crore;

#[test]
fn signals_end_it_by_its_drain() {
    for (signal, codes) in [("TERM", [0, 143]), ("INT", [130, 130])] {
        let server = Server::with_configuration("[node]\ndrain_window = \"1s\"\n");
        let clients = server.clients.clone();
        server.process.signal(signal);
        let ended = server.end();
        let code = ended.status.code().unwrap_or(-1);
        assert!(codes.contains(&code), "{signal}: {:?}", ended);
        // Nobody else listens at a place's address.
        assert!(
            std::net::TcpStream::connect(clients).is_err(),
            "{signal}: still listening"
        );
    }
}

#[test]
fn wrong_configuration_is_told_with_its_place() {
    let check = |text: &str, expected: &[&str]| {
        let folder = std::env::temp_dir();
        let file = folder.join(format!("crore-wrong-{}.toml", std::process::id()));
        std::fs::write(&file, text).unwrap();
        let ended = run(&["serve", "--config", file.to_str().unwrap()]);
        std::fs::remove_file(&file).unwrap();
        assert_eq!(ended.status.code(), Some(78), "{ended:?}");
        let said = ended.lines.join("\n");
        assert!(expected.iter().all(|part| said.contains(part)), "{said}");
    };
    check(
        "[limits]\ntopics_mix = 5\n",
        &["crore-wrong-", ".toml:2", "topics_mix", "topics_max"],
    );
    check("[limts]\n", &[".toml:1", "limits"]);
    check(
        "[http]\nwait_max = 25\n[listen]\nsocket_send_bytes = \"64KB\"\n",
        &[
            ".toml:2",
            "http.wait_max",
            "25s",
            ".toml:4",
            "listen.socket_send_bytes",
            "64KiB",
        ],
    );
    check("[limits]\ntopics_max = \"many\"\n", &["topics_max", "2"]);
    check("[limits\n", &["crore-wrong-", "1"]);
}

#[test]
fn without_entitlement_only_loopback_is_served() {
    let ended = run(&[
        "serve",
        "--listen",
        "0.0.0.0:0",
        "--admin-listen",
        "127.0.0.1:0",
    ]);
    assert_eq!(ended.status.code(), Some(78), "{ended:?}");
    assert!(ended.lines.join("\n").contains("open"), "{ended:?}");
}

#[test]
fn a_wrong_command_line_exits_with_2() {
    for arguments in [&["sreve"][..], &["serve", "--no-such-flag"], &["sub"]] {
        let ended = run(arguments);
        assert_eq!(ended.status.code(), Some(2), "{arguments:?} {ended:?}");
    }
    for arguments in [&["--help"][..], &["version"], &["completion", "bash"]] {
        run(arguments).assert_success();
    }
}

#[test]
fn a_port_in_use_is_told() {
    let server = Server::start();
    let ended = run(&[
        "serve",
        "--listen",
        "127.0.0.1:0",
        "--admin-listen",
        &server.operators,
    ]);
    assert_eq!(ended.status.code(), Some(1), "{ended:?}");
    assert!(
        ended.lines.join("\n").contains(&server.operators),
        "{ended:?}"
    );
}

#[test]
fn what_is_published_is_heard() {
    let server = Server::start();
    let mut subscriber = subscribe(&server.clients, &["a/#"]);
    for payload in ["one", "two", "three"] {
        run(&["pub", "--url", &native(&server.clients), "a/b", payload]).assert_success();
    }
    for payload in ["one", "two", "three"] {
        assert_eq!(next_data(&mut subscriber), payload);
    }
    let history = run(&["history", "--url", &native(&server.clients), "a/b"]);
    let printed = history.lines.join("\n");
    history.assert_success();
    assert!(
        ["one", "two", "three"]
            .iter()
            .all(|payload| printed.contains(payload)),
        "{printed}"
    );
}

/// Each run is a connection of its own; what it repeats is answered with the first position.
#[test]
fn a_repeated_publication_is_appended_once() {
    let server = Server::start();
    let url = native(&server.clients);
    let published = |arguments: &[&str]| {
        let ended = run(&[&["pub", "--url", &url, "orders"], arguments].concat());
        let line = ended.lines.join("\n");
        ended.assert_success();
        line
    };
    let first = published(&["one", "--idempotency-key", "k"]);
    let again = published(&["one", "--idempotency-key", "k"]);
    assert_eq!(again, format!("{first} duplicate"));
    let epoch = first.split(':').next().unwrap();
    let produce = ["--producer", "p", "--expected-epoch", epoch, "--sequence"];
    let second = published(&[&["two"], &produce[..], &["7"]].concat());
    let again = published(&[&["two"], &produce[..], &["7"]].concat());
    assert_eq!(again, format!("{second} duplicate"));
    published(&["three", "--producer", "p"]);
    let check = |arguments: &[&str], expected: &str| {
        let ended = run(&[&["pub", "--url", &url, "orders"], arguments].concat());
        assert_eq!(ended.status.code(), Some(1), "{ended:?}");
        assert!(ended.lines.join("\n").contains(expected), "{ended:?}");
    };
    check(&["x", "--producer", "p", "--sequence", "6"], "code 402");
    check(&["x", "--expected-epoch", "1"], "code 401");
    let history = run(&["history", "--url", &url, "orders"]);
    let printed = history.lines.join("\n");
    assert_eq!(history.lines.len(), 3, "{printed}");
}

#[test]
fn a_subscriber_recovers_when_its_link_breaks() {
    let server = Server::start();
    let proxy = Proxy::to(&server.clients);
    let url = server.url("/topics/prices/oil");
    let mut subscriber = subscribe(&proxy.address, &["prices/oil"]);
    publish(&url, "before");
    assert_eq!(next_data(&mut subscriber), "before");
    proxy.cut();
    for number in 0..200 {
        publish(&url, &format!("missed {number}"));
    }
    proxy.mend();
    for number in 0..200 {
        assert_eq!(next_data(&mut subscriber), format!("missed {number}"));
    }
    publish(&url, "after");
    assert_eq!(next_data(&mut subscriber), "after");
    subscriber.signal("INT");
    assert_eq!(subscriber.end().status.code(), Some(130));
}

#[test]
fn the_configuration_explains_itself() {
    run(&["config", "default"]).assert_success();
    run(&["config", "doc"]).assert_success();
}

/// Starts `crore sub --json` and waits until it is subscribed.
fn subscribe(address: &str, filters: &[&str]) -> Process {
    let mut command = crore();
    command
        .args(["sub", "--json", "--url", &native(address)])
        .args(filters);
    let mut subscriber = Process::start(&mut command);
    for _ in filters {
        while subscriber.json()["event"] != "subscribed" {}
    }
    subscriber
}

/// The data of the next message. That a link broke and was opened again is left out, that anything is missing is not.
fn next_data(subscriber: &mut Process) -> String {
    loop {
        let happened = subscriber.json();
        match happened["event"].as_str() {
            Some("message") => return happened["data"].as_str().unwrap().to_owned(),
            Some("gap" | "skipped") | None => panic!("a message was expected: {happened}"),
            Some(_) => {}
        }
    }
}

fn native(address: &str) -> String {
    format!("ws://{address}")
}

fn run(arguments: &[&str]) -> Ended {
    Process::start(crore().args(arguments)).end()
}

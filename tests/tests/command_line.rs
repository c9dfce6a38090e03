//! The command line: start and end of the server, `pub`, `sub` and `history`, and exit codes.

use std::ffi::OsStr;

use end_to_end::curl::publish;
use end_to_end::process::{Ended, Process};
use end_to_end::proxy::Proxy;
use end_to_end::server::{Place, Server};
use end_to_end::tokens::{Issuer, configuration};
use end_to_end::tools::{crore, switched_crore};

#[test]
fn signals_drain_and_stop_the_node() {
    for (signal, codes) in [("TERM", [0, 143]), ("INT", [130, 130])] {
        let server = Server::with_configuration("[node]\ndrain_window = \"1s\"\n");
        let clients = server.clients.clone();
        server.process.signal(signal);
        let ended = server.end();
        let code = ended.status.code().unwrap_or(-1);
        assert!(codes.contains(&code), "{signal}: {:?}", ended);
        // No other program listens at a place's address.
        assert!(std::net::TcpStream::connect(clients).is_err(), "{signal}: still listening");
    }
}

/// Switches for tests are compiled with debug assertions only.
#[test]
fn a_release_has_no_switches_for_tests() {
    let has_switch = |program: &OsStr| {
        let bytes = std::fs::read(program).expect("the binary");
        let name = b"CRORE_UPGRADE_FAIL_AT";
        bytes.windows(name.len()).any(|window| window == name)
    };
    assert!(has_switch(switched_crore().get_program()), "the test looks for the wrong name");
    assert!(!has_switch(crore().get_program()));
    let mut command = crore();
    command.args(["config", "check"]).env("CRORE_UPGRADE_FAIL_AT", "1");
    let ended = Process::start(&mut command).end();
    let said = ended.lines.join("\n");
    assert!(said.contains("CRORE_UPGRADE_FAIL_AT: unknown variable"), "{said}");
}

/// A refusal for a missing token explains how to provide one; a refusal for a missing permission
/// names it.
#[test]
fn refusals_explain_the_remedy() {
    let mut place = Place::new("127.0.0.1:0");
    let issuer = Issuer::new(&place, "HS256", "");
    place.configure(&configuration("", &[&issuer]));
    let server = place.start();
    let url = format!("ws://{}", server.clients);
    let token = place.path("token");
    std::fs::write(&token, issuer.token("--sub anna --subscribe news"))
        .expect("the folder is ours");
    let token = token.to_str().expect("a path of ours");
    for (arguments, expected) in [
        (
            &["sub", "news", "--url", &url][..],
            "a valid token is required (unauthorized): use --token-file FILE or CRORE_TOKEN",
        ),
        (
            &["sub", "a/#", "--url", &url, "--token-file", token],
            "a/#: not permitted to subscribe to a/# (forbidden)",
        ),
        (
            &["pub", "a", "x", "--url", &url, "--token-file", token],
            "not permitted to publish to a (forbidden)",
        ),
        (
            &["history", "a", "--url", &url],
            "a valid token is required (unauthorized): use --token-file FILE or CRORE_TOKEN",
        ),
        (
            &["history", "a", "--url", &url, "--token-file", token],
            "not permitted to read the history of a (forbidden)",
        ),
    ] {
        let ended = run(arguments);
        let said = ended.lines.join("\n");
        assert_eq!(ended.status.code(), Some(1), "{said}");
        assert!(said.contains(expected), "{said}");
        assert!(!said.contains("code") && !said.contains("3502"), "{said}");
    }
}

/// Single commands do not wait for an absent node: nothing was sent, and they report the remedy.
#[test]
fn commands_fail_at_once_without_a_node() {
    // A reserved port without a listener, so that a connect is refused.
    let port = rustix::net::socket(
        rustix::net::AddressFamily::INET,
        rustix::net::SocketType::STREAM,
        None,
    )
    .expect("a socket");
    let any = std::net::SocketAddr::from(([127, 0, 0, 1], 0));
    rustix::net::bind(&port, &any).expect("a port");
    let address = rustix::net::getsockname(&port).expect("an address");
    let address = std::net::SocketAddr::try_from(address).expect("an address of IP");
    let url = format!("ws://{address}");
    let two = format!("{url},{url}");
    let line =
        format!("no node answers at {url}: connection refused; start one with `crore serve`");
    let lines = format!("no node answers at {url} or {url}: connection refused");
    for (arguments, expected, attempts) in [
        (&["pub", "a", "x", "--url", &url][..], &line, 0),
        (&["history", "a", "--url", &url], &line, 0),
        (&["pub", "a", "x", "--url", &two], &lines, 1),
    ] {
        let ended = run(arguments);
        let said = ended.lines.join("\n");
        assert_eq!(ended.status.code(), Some(1), "{said}");
        assert!(said.contains(expected), "{said}");
        assert!(said.contains("--url or CRORE_URL"), "{said}");
        assert!(!said.contains("acknowledge"), "{said}");
        assert_eq!(said.matches("next attempt").count(), attempts, "{said}");
    }
}

#[test]
fn an_invalid_address_gets_a_proposal() {
    for (listen, expected) in [
        (":8800", "write \"127.0.0.1:8800\", or \"0.0.0.0:8800\""),
        ("8800", "write \"127.0.0.1:8800\""),
        ("localhost:8800", "write \"127.0.0.1:8800\""),
        ("127.0.0.1", "the port is missing, as in \"127.0.0.1:8800\""),
    ] {
        let ended = run(&["serve", "--listen", listen]);
        let said = ended.lines.join("\n");
        assert_eq!(ended.status.code(), Some(78), "{said}");
        assert!(said.contains(expected), "{said}");
    }
}

#[test]
fn configuration_errors_name_their_place() {
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
    check("[limits]\ntopics_mix = 5\n", &["crore-wrong-", ".toml:2", "topics_mix", "topics_max"]);
    check("[limts]\n", &[".toml:1", "limits"]);
    check(
        "[http]\nwait_max = 25\n[listen]\nsocket_send_bytes = \"64KB\"\n",
        &[".toml:2", "http.wait_max", "25s", ".toml:4", "listen.socket_send_bytes", "64KiB"],
    );
    check("[limits]\ntopics_max = \"many\"\n", &["topics_max", "2"]);
    check("[limits\n", &["crore-wrong-", "1"]);
}

#[test]
fn without_entitlement_only_loopback_is_served() {
    let ended = run(&["serve", "--listen", "0.0.0.0:0", "--admin-listen", "127.0.0.1:0"]);
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
fn a_port_in_use_is_reported() {
    let server = Server::start();
    let ended = run(&["serve", "--listen", "127.0.0.1:0", "--admin-listen", &server.operators]);
    assert_eq!(ended.status.code(), Some(1), "{ended:?}");
    assert!(ended.lines.join("\n").contains(&server.operators), "{ended:?}");
}

#[test]
fn subscribers_receive_publications() {
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
    assert!(["one", "two", "three"].iter().all(|payload| printed.contains(payload)), "{printed}");
}

/// Each run has its own connection; its repetition is answered with the first position.
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
    check(&["x", "--producer", "p", "--sequence", "6"], "(out_of_order)");
    check(&["x", "--expected-epoch", "1"], "(epoch_mismatch)");
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
    command.args(["sub", "--json", "--url", &native(address)]).args(filters);
    let mut subscriber = Process::start(&mut command);
    for _ in filters {
        while subscriber.json()["event"] != "subscribed" {}
    }
    subscriber
}

/// The data of the next message. A broken link and its repair are skipped; a gap is not.
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

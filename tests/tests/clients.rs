//! Independent clients: npm's `ws` and `eventsource`, Python's `websockets`, a headless Chromium.

use std::time::Duration;

use end_to_end::curl::{curl, publish};
use end_to_end::process::{Process, assert_success};
use end_to_end::proxy::Proxy;
use end_to_end::server::{Place, Server};
use end_to_end::tokens::started;
use end_to_end::tools::{crore, node, python};
use serde_json::{Value, json};

/// The time limit for a browser to start and complete its test.
const BROWSER: Duration = Duration::from_secs(300);

/// Compresses short messages too, with one I/O thread, so that there is one compressor.
const COMPRESSED: &str = "[node]\nio_threads = 1\n\n[websocket]\ncompression = true\n\
    compression_bytes_min = 16\n";

#[test]
fn ws_receives_echoes() {
    let server = Server::start();
    for path in ["/echo", "/ws/echo"] {
        assert_success(&mut node("web_socket.cjs", &[&server.ws_url(path)]));
    }
}

#[test]
fn websockets_receives_echoes() {
    let server = Server::start();
    assert_success(&mut python("web_socket.py", &[&server.ws_url("/echo")]));
}

#[test]
fn compressed_echoes_are_received() {
    let server = Server::with_configuration(COMPRESSED);
    let url = server.ws_url("/echo");
    assert_success(&mut node("web_socket.cjs", &[&url, "compressed"]));
    assert_success(&mut python("web_socket.py", &[&url, "compressed"]));
}

/// Compressed once for both clients that request it; the third receives the uncompressed message.
#[test]
fn messages_are_compressed_for_willing_subscribers() {
    let server = Server::with_configuration(COMPRESSED);
    let url = format!("ws://{}", server.clients);
    let subscribe = |flags: &[&str]| {
        let mut command = crore();
        command.args(["sub", "prices", "--json", "--url", &url]).args(flags);
        Process::start(&mut command)
    };
    let mut subscribers = [subscribe(&["--compress"]), subscribe(&["--compress"]), subscribe(&[])];
    for subscriber in &mut subscribers {
        subscriber
            .wait_for("the subscription", |line| line.contains("\"subscribed\"").then_some(()));
    }
    let compressed = || {
        let metrics = curl(&[&server.operators_url("/metrics")]).body;
        let mut lines = metrics.lines();
        let value = lines.find_map(|line| line.strip_prefix("crore_compressed_messages_total "));
        value.and_then(|value| value.parse::<u64>().ok())
    };
    let before = compressed().expect("the counter");
    let payload = "bid 1.0823 ask 1.0825 ".repeat(40);
    publish(&server.url("/topics/prices"), &payload);
    for subscriber in &mut subscribers {
        subscriber.wait_for("the message", |line| line.contains(&payload).then_some(()));
    }
    assert_eq!(compressed(), Some(before + 1));
}

#[test]
fn the_native_protocol_requires_its_subprotocol() {
    let server = Server::start();
    let url = server.ws_url("/crore");
    let handshake = |subprotocols: &[&str]| {
        let arguments = [&[url.as_str()], subprotocols].concat();
        Process::start(&mut node("handshake.cjs", &arguments)).json()
    };
    let agreed = json!({ "open": true, "subprotocol": "crore.v1" });
    assert_eq!(handshake(&["crore.v1"]), agreed);
    assert_eq!(handshake(&["mqtt", "crore.v1"]), agreed);
    assert_eq!(handshake(&[]), json!({ "open": false, "status": 400 }));
    assert_eq!(handshake(&["mqtt"]), json!({ "open": false, "status": 400 }));
}

#[test]
fn eventsource_receives_each_message_once() {
    let server = Server::start();
    let mut source = event_source(&server.url("/events?topic=chat/1"));
    for number in 0..100 {
        publish(&server.url("/topics/chat/1"), &number.to_string());
    }
    for number in 0..100 {
        assert_eq!(next_payload(&mut source), number.to_string());
    }
}

/// The link breaks; the client reconnects by itself with `Last-Event-ID` and misses nothing.
#[test]
fn eventsource_misses_nothing_when_its_link_breaks() {
    let server = Server::start();
    let proxy = Proxy::to(&server.clients);
    let publish = |payload: &str| publish(&server.url("/topics/chat/2"), payload);
    let mut source = event_source(&format!("http://{}/events?topic=chat/2", proxy.address));
    publish("before");
    assert_eq!(next_payload(&mut source), "before");

    proxy.cut();
    source.wait_for("the broken link", |line| line.contains("\"error\"").then_some(()));
    let missed: Vec<String> = (0..50).map(|number| format!("missed {number}")).collect();
    missed.iter().for_each(|payload| {
        publish(payload);
    });
    proxy.mend();
    for payload in &missed {
        assert_eq!(&next_payload(&mut source), payload);
    }
    publish("after");
    assert_eq!(next_payload(&mut source), "after");
    source.assert_no_line(Duration::from_millis(300), |line| line.contains("\"message\""));
}

#[test]
fn the_live_page_works_in_a_browser() {
    let server = Server::start();
    let page = Process::start(&mut node("page.cjs", &[&server.operators_url("/")]));
    let mut page = page.with_patience(BROWSER);
    assert_eq!(page.json(), json!({ "watching": true }));
    publish(&server.url("/topics/demo/elsewhere"), "from elsewhere");
    page.end_within(BROWSER).assert_success();
}

/// A `kill -9`, then a drain while the page sleeps like a hidden one: the page shows every message
/// once, its own publication too.
#[test]
fn the_live_page_misses_nothing_when_the_node_restarts() {
    let mut place = Place::new("127.0.0.1:0");
    let configure = |place: &Place, origin: &str| {
        place.configure(&format!(
            "[node]\ndata_dir = {:?}\ndrain_window = \"1s\"\n[http]\nallowed_origins = [{origin}]\n\
             [[log]]\nname = \"kept\"\ndurability = \"disk\"\npartitions_count = 4\n\
             [[rule]]\nfilter = \"#\"\nlog = \"kept\"\n",
            place.path("data")
        ));
    };
    configure(&place, "");
    let server = place.start();
    // The operators' port of each start is another one here, and the page is of the first.
    configure(&place, &format!("{:?}", server.operators_url("")));
    let page = Process::start(&mut node("page.cjs", &[&server.operators_url("/"), "restarts"]));
    let mut page = page.with_patience(BROWSER);
    assert_eq!(page.json(), json!({ "watching": true }));
    publish(&server.url("/topics/demo/elsewhere"), "from elsewhere");
    assert_eq!(page.json(), json!({ "seen": true }));
    let publish_many = |server: &Server, word: &str| {
        for number in 1..=50 {
            publish(&server.url("/topics/demo/many"), &format!("{word} {number}"));
        }
    };
    drop(server);
    assert_eq!(page.json(), json!({ "reconnecting": true }));
    let server = place.start();
    publish_many(&server, "first");
    assert_eq!(page.json(), json!({ "sleeping": true }));
    server.process.signal("TERM");
    server.end().assert_success();
    let server = place.start();
    publish_many(&server, "second");
    page.signal("USR2");
    page.end_within(BROWSER).assert_success();
}

/// The page asks for a credential, keeps it to itself, and shows what it permits.
#[test]
fn the_live_page_works_with_a_token() {
    let (_place, issuer, server) = started("");
    let token = issuer.token("--sub operator --subscribe demo/# --publish demo/#");
    let mut page = node("page.cjs", &[&server.operators_url("/"), "token"]);
    let page = Process::start(page.env("TOKEN", token));
    page.end_within(BROWSER).assert_success();
}

/// The page reports messages that the log no longer has when it returns as a gap.
#[test]
fn the_live_page_shows_a_gap() {
    // The log is small: the messages missed by the page are evicted before it returns.
    let server = Server::with_configuration(
        "[[log]]\nname = \"memory\"\npartitions_count = 1\nbytes_max = \"256KiB\"\nsegment_bytes = \"64KiB\"\n[limits]\nmessage_bytes_max = \"48KiB\"\n",
    );
    let proxy = Proxy::to(&server.clients);
    let link = format!("http://{}", proxy.address);
    let page = Process::start(&mut node("page.cjs", &[&server.operators_url("/"), &link]));
    let mut page = page.with_patience(BROWSER);
    assert_eq!(page.json(), json!({ "watching": true }));
    publish(&server.url("/topics/demo/elsewhere"), "from elsewhere");
    assert_eq!(page.json(), json!({ "seen": true }));
    proxy.cut();
    assert_eq!(page.json(), json!({ "reconnecting": true }));
    for _ in 0..20 {
        publish(&server.url("/topics/demo/elsewhere"), &"x".repeat(40_000));
    }
    proxy.mend();
    page.end_within(BROWSER).assert_success();
}

/// Starts npm's `eventsource` and waits until it is subscribed.
fn event_source(url: &str) -> Process {
    let names = ["crore.start", "crore.caught_up", "crore.gap", "crore.skipped", "crore.error"];
    let arguments = [&[url], &names[..]].concat();
    let mut source = Process::start(&mut node("event_source.cjs", &arguments));
    assert_eq!(source.json(), json!({ "open": true }));
    assert_eq!(source.json()["event"], "crore.start");
    source
}

/// The payload of the next message. A broken link, its repair and the end of a replay are skipped;
/// a gap is not.
fn next_payload(source: &mut Process) -> String {
    loop {
        let happened = source.json();
        match happened["event"].as_str() {
            None | Some("crore.start" | "crore.caught_up") => {}
            Some("message") => {
                let data: Value = serde_json::from_str(happened["data"].as_str().unwrap()).unwrap();
                return data["data"].as_str().unwrap().to_owned();
            }
            _ => panic!("a message was expected: {happened}"),
        }
    }
}

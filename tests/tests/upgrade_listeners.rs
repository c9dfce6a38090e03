//! Live upgrades of nodes whose listeners do more than accept: limits on connections, and proxies
//! in front. For TLS see `upgrade_tls.rs`.

use end_to_end::curl::curl;
use end_to_end::metrics::Metrics;
use end_to_end::native::{Frame, Native};
use end_to_end::raw::Raw;
use end_to_end::server::{Place, Server};

/// The answer to a new client.
fn reported(address: &str) -> String {
    let mut raw = Raw::connect(address);
    raw.send(b"GET /topics/none HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    raw.read_to_close()
}

/// Earlier connections count, and make room when they close.
#[test]
fn limits_of_connections_hold() {
    let limits = [
        ("[limits]\nconnections_per_address_max = 2\n", "too_many_connections"),
        ("[listen]\nconnections_max = 2\n", "connections_full"),
    ];
    for (limit, code) in limits {
        let mut server = Server::with_configuration(&format!("[node]\nio_threads = 2\n{limit}"));
        let clients = server.clients.clone();
        let (mut one, _) = Native::connect(&clients, None);
        let (other, _) = Native::connect(&clients, None);
        one.subscribe_one(1, "news");
        let mut others = vec![other];
        let mut successor = server.process.upgrade();
        for round in 0..2 {
            let said = reported(&clients);
            assert!(said.contains(code), "{round}: {said}");
            // First a connection from before the upgrade closes, then one from after it.
            others.clear();
            let mut metrics = Metrics::of(&server.operators);
            metrics.wait_for("crore_connections", |count| count == 1);
            let (mut newcomer, _) = Native::connect(&clients, None);
            newcomer.publish(1, "news", "still here");
            let message = one.next_frame();
            assert!(matches!(message, Frame::Message { .. }), "{message:?}");
            others.push(newcomer);
            if round == 0 {
                successor = successor.upgrade(&mut server.process);
            }
        }
        let said = reported(&clients);
        assert!(said.contains(code), "{said}");
    }
}

/// A limit that only the new configuration has counts all present connections.
#[test]
fn a_new_limit_counts_present_connections() {
    let mut place = Place::new("127.0.0.1:0");
    let mut server = place.start();
    let clients = server.clients.clone();
    let (native, _) = Native::connect(&clients, None);
    place.configure("[listen]\nconnections_max = 1\n");
    let _successor = server.process.upgrade();
    let said = reported(&clients);
    assert!(said.contains("connections_full"), "{said}");
    drop(native);
    let mut metrics = Metrics::of(&server.operators);
    metrics.wait_for("crore_connections", |count| count == 0);
    let said = reported(&clients);
    assert!(said.starts_with("HTTP/1.1 200 "), "{said}");
}

/// A proxy's header for a client at this address.
fn header(client: &str) -> String {
    format!("PROXY TCP4 {client} 192.0.2.100 700 8800\r\n")
}

fn request(fields: &str) -> String {
    format!("GET /topics/news HTTP/1.1\r\nHost: localhost\r\n{fields}\r\n")
}

/// Clients behind a proxy keep their addresses, and count; a half-received header is completed.
#[test]
fn clients_behind_a_proxy_stay() {
    let mut server = Server::with_configuration(
        "[node]\nio_threads = 2\n[limits]\nconnections_per_address_max = 1\naddresses_exempt = [\"127.0.0.1\"]\n\
         [listen]\nproxy_protocol = \"required\"\nproxies = [\"127.0.0.0/8\"]\n",
    );
    let clients = server.clients.clone();
    let url = server.url("/topics/news");
    let publish = |text: &str| {
        curl(&["--haproxy-protocol", "--data-binary", text, &url]).expect(200);
    };
    let (one, two) = ("192.0.2.1", "192.0.2.2");
    let mut stream = Raw::connect(&clients);
    let request_stream = request("Accept: text/event-stream\r\n");
    stream.send((header(one) + &request_stream).as_bytes());
    stream.read_until(b"crore.start");
    let two_header = header(two);
    let (first, second) = two_header.split_at(14);
    let mut half = Raw::connect(&clients);
    half.send(first.as_bytes());
    let mut silent = Raw::connect(&clients);

    let mut successor = server.process.upgrade();
    for round in 0..2 {
        let text = format!("after upgrade {round}");
        publish(&text);
        stream.read_until(text.as_bytes());
        // The address has reached its limit.
        let mut another = Raw::connect(&clients);
        another.send((header(one) + &request("")).as_bytes());
        let said = another.read_to_close();
        assert!(said.contains("too_many_connections"), "{said}");
        if round == 0 {
            half.send((second.to_owned() + &request("")).as_bytes());
            assert_eq!(half.read_answer().0, 200);
            successor = successor.upgrade(&mut server.process);
        }
    }
    half.send(request("").as_bytes());
    assert_eq!(half.read_answer().0, 200);
    silent.send((header("192.0.2.3") + &request("")).as_bytes());
    assert_eq!(silent.read_answer().0, 200);
    // A connection without a header is still refused.
    let mut stranger = Raw::connect(&clients);
    stranger.send(request("").as_bytes());
    assert_eq!(stranger.read_to_close(), "");
    drop(stream);
    let mut metrics = Metrics::of(&server.operators);
    metrics.wait_for("crore_connections", |count| count == 2);
    let mut again = Raw::connect(&clients);
    again.send((header(one) + &request("")).as_bytes());
    assert_eq!(again.read_answer().0, 200);
}

/// A listener cannot move behind proxies during an upgrade: connections in its queue would be
/// misread.
#[test]
fn other_listeners_behind_proxies_are_refused() {
    let mut place = Place::new("127.0.0.1:0");
    let mut server = place.start();
    let (mut native, _) = Native::connect(&server.clients, None);
    native.subscribe_one(1, "news");
    place.configure("[listen]\nproxy_protocol = \"required\"\nproxies = [\"127.0.0.1\"]\n");
    server.process.upgrade_in_vain("behind proxies");
    native.publish(1, "news", "after");
    let frames = [native.next_frame(), native.next_frame()];
    let is_message = |frame: &Frame| matches!(frame, Frame::Message { .. });
    assert!(frames.iter().any(is_message), "{frames:?}");
}

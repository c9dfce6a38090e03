//! Live upgrades of nodes whose listeners do more than accept: limits that count connections.

use end_to_end::metrics::Metrics;
use end_to_end::native::{Frame, Native};
use end_to_end::raw::Raw;
use end_to_end::server::{Place, Server};

/// What a newcomer is told.
fn told(address: &str) -> String {
    let mut raw = Raw::connect(address);
    raw.send(b"GET /topics/none HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    raw.read_to_close()
}

/// Who was let in before counts, and makes room when it goes.
#[test]
fn limits_of_connections_hold() {
    let limits = [
        (
            "[limits]\nconnections_per_address_max = 2\n",
            "too_many_connections",
        ),
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
            let said = told(&clients);
            assert!(said.contains(code), "{round}: {said}");
            // First somebody leaves who was counted by the process before, then who came to this one.
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
        let said = told(&clients);
        assert!(said.contains(code), "{said}");
    }
}

/// A limit that the new configuration has and the old one had not counts everybody who is there.
#[test]
fn a_new_limit_counts_who_is_there() {
    let mut place = Place::new("127.0.0.1:0");
    let mut server = place.start();
    let clients = server.clients.clone();
    let (native, _) = Native::connect(&clients, None);
    place.configure("[listen]\nconnections_max = 1\n");
    let _successor = server.process.upgrade();
    let said = told(&clients);
    assert!(said.contains("connections_full"), "{said}");
    drop(native);
    let mut metrics = Metrics::of(&server.operators);
    metrics.wait_for("crore_connections", |count| count == 0);
    let said = told(&clients);
    assert!(said.starts_with("HTTP/1.1 200 "), "{said}");
}

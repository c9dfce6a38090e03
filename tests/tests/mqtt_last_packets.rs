//! The last packets of a client that closes while packets to it are unread: its system sends RST
//! then, and the packets count all the same.

use std::io::Write;
use std::net::TcpStream;

use end_to_end::metrics::Metrics;
use end_to_end::process::Process;
use end_to_end::server::Server;
use end_to_end::tools::crore;

const CLIENTS: u8 = 50;

/// CONNECT of version 3.1.1 with a clean session and the will `bye` on the topic `gone`.
fn connect(number: u8) -> Vec<u8> {
    let id = [b'c', b'0' + number / 10, b'0' + number % 10];
    let mut rest = b"\x00\x04MQTT\x04\x06\x00\x3c\x00\x03".to_vec();
    rest.extend(id);
    rest.extend(b"\x00\x04gone\x00\x03bye");
    let mut packet = vec![0x10, rest.len() as u8];
    packet.append(&mut rest);
    packet
}

/// Waits for CONNACK, and leaves it unread.
fn connected(server: &Server, number: u8) -> TcpStream {
    let mut socket = TcpStream::connect(&server.clients).expect("the node listens");
    socket.write_all(&connect(number)).expect("room");
    let mut buffer = [0; 4];
    while socket.peek(&mut buffer).expect("an answer") < buffer.len() {}
    assert_eq!(buffer, [0x20, 2, 0, 0], "CONNACK");
    socket
}

#[test]
fn a_will_is_not_published_after_disconnect() {
    let server = Server::with_configuration("[mqtt]\nlisten = \"127.0.0.1:0\"\n");
    let url = format!("mqtt://{}", server.clients);
    let mut subscribe = crore();
    let words = ["mqtt", "sub", "-t", "gone", "--count", "1", "--url", &url];
    let subscriber = Process::start(subscribe.args(words));
    let mut metrics = Metrics::of(&server.operators);
    metrics.wait_for("crore_subscriptions", |count| count == 1);
    for number in 0..CLIENTS {
        let mut socket = connected(&server, number);
        socket.write_all(&[0xe0, 0]).expect("room");
    }
    let scrape = metrics.wait_for("crore_connections", |count| count == 1);
    assert_eq!(scrape.number("crore_mqtt_wills_total"), 0);
    // Without DISCONNECT, the will follows.
    drop(connected(&server, CLIENTS));
    metrics.wait_for("crore_mqtt_wills_total", |count| count == 1);
    subscriber.end().assert_success();
}

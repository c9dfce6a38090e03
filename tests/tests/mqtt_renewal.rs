//! Enhanced authentication of MQTT on the real binary: a live connection continues with a new
//! token, over a live upgrade too.

use end_to_end::metrics::Metrics;
use end_to_end::raw::Raw;
use end_to_end::tokens::{now_s, started};
use serde_json::json;

const METHOD: &[u8] = b"crore-jwt";

/// A string or binary data of MQTT.
fn field(bytes: &[u8]) -> Vec<u8> {
    [&(bytes.len() as u16).to_be_bytes(), bytes].concat()
}

/// A length of MQTT: seven bits in each byte.
fn length(mut rest: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    loop {
        let low = (rest % 128) as u8;
        rest /= 128;
        if rest == 0 {
            bytes.push(low);
            return bytes;
        }
        bytes.push(low | 0x80);
    }
}

fn packet(first: u8, body: &[u8]) -> Vec<u8> {
    [&[first], &length(body.len())[..], body].concat()
}

/// Authentication method and data.
fn properties(token: &str) -> Vec<u8> {
    let method = [&[0x15], &field(METHOD)[..]].concat();
    let both = [&method[..], &[0x16], &field(token.as_bytes())].concat();
    [length(both.len()), both].concat()
}

fn connect(address: &str, token: &str) -> Raw {
    let mut raw = Raw::connect(address);
    let head = b"\0\x04MQTT\x05\x02\0\x3c";
    raw.send(&packet(0x10, &[&head[..], &properties(token), &field(b"sam")].concat()));
    raw
}

fn authenticate(raw: &mut Raw, token: &str) {
    raw.send(&packet(0xf0, &[&[0x19], &properties(token)[..]].concat()));
}

/// The next packet: its first byte, and the rest behind its length, which is below 128.
fn next(raw: &mut Raw) -> (u8, Vec<u8>) {
    let head = raw.take(2);
    (head[0], raw.take(usize::from(head[1])))
}

#[test]
fn a_connection_of_mqtt_continues_with_a_new_token() {
    let (_place, issuer, mut server) = started("[mqtt]\nlisten = \"127.0.0.1:0\"\n");
    let token = |topic: &str, subject: &str| {
        let permissions = json!({"publish": [topic], "subscribe": [topic]});
        let claims = json!({"sub": subject, "exp": now_s() + 600, "permissions": permissions});
        issuer.sign(&claims)
    };
    let mut raw = connect(&server.clients, &token("news", "anna"));
    let (kind, connack) = next(&mut raw);
    assert_eq!((kind, connack[1]), (0x20, 0));
    assert!(connack.windows(METHOD.len()).any(|part| part == METHOD), "{connack:?}");
    let publish = packet(0x32, &[&field(b"other")[..], &[0, 7, 0], b"hi"].concat());
    raw.send(&publish);
    let (kind, puback) = next(&mut raw);
    assert_eq!((kind, &puback[..3]), (0x40, &[0, 7, 0x87][..]));
    authenticate(&mut raw, &token("#", "anna"));
    let (kind, auth) = next(&mut raw);
    assert_eq!((kind, auth[0]), (0xf0, 0));
    raw.send(&publish);
    assert_eq!(next(&mut raw).1[..2], [0, 7]);
    let successor = server.process.upgrade();
    authenticate(&mut raw, &token("news", "anna"));
    assert_eq!(next(&mut raw).0, 0xf0);
    raw.send(&publish);
    assert_eq!(next(&mut raw).1[2], 0x87);
    // A token of somebody else ends the connection.
    authenticate(&mut raw, &token("#", "ben"));
    let (kind, disconnect) = next(&mut raw);
    assert_eq!((kind, disconnect[0]), (0xe0, 0x87));
    assert!(raw.closes_within(end_to_end::PATIENCE));
    let mut refused = connect(&server.clients, "no.to.ken");
    assert_eq!(next(&mut refused).1[1], 0x87);
    let scrape = Metrics::of(&server.operators).scrape();
    assert_eq!(scrape.number("crore_renewals_total"), 2);
    drop(successor);
}

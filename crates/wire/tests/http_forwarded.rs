//! The client behind a proxy: the rightmost address that does not belong to a trusted proxy,
//! regardless of the elements to its left.

use std::net::IpAddr;
use wire::Step;
use wire::http::forwarded::{UnknownClient, forwarded_client};
use wire::http::{ForwardedField, HeadLimits, HeadScan, Request};

fn client(
    field: ForwardedField,
    name: &str,
    lines: &[&str],
) -> Result<Option<IpAddr>, UnknownClient> {
    let mut head = b"GET / HTTP/1.1\r\nHost: h\r\n".to_vec();
    for line in lines {
        head.extend_from_slice(format!("{name}: {line}\r\n").as_bytes());
    }
    head.extend_from_slice(b"\r\n");
    let step = Request::decode(&head, &mut HeadScan::new(), &HeadLimits::default()).unwrap();
    let Step::Done { value, .. } = step else {
        panic!("the head is whole");
    };
    let is_trusted = |address: IpAddr| address.to_string().starts_with("10.");
    forwarded_client(&value.fields, field, is_trusted)
}

#[test]
fn x_forwarded_for_names_the_client() {
    let check = |lines: &[&str], expected: Result<&str, ()>| {
        let client = client(ForwardedField::XForwardedFor, "X-Forwarded-For", lines);
        let expected = expected.map(|text| Some(text.parse().unwrap()));
        assert_eq!(client, expected.map_err(|()| UnknownClient), "{lines:?}");
    };
    check(&["192.0.2.1"], Ok("192.0.2.1"));
    check(&["192.0.2.1, 10.0.0.1 ,10.0.0.2"], Ok("192.0.2.1"));
    check(&["203.0.113.9, 192.0.2.1, 10.0.0.1"], Ok("192.0.2.1"));
    check(&["203.0.113.9", "192.0.2.1", "10.0.0.1"], Ok("192.0.2.1"));
    check(&["garbage\", \", 192.0.2.1"], Ok("192.0.2.1"));
    check(&["10.0.0.9, 10.0.0.1"], Ok("10.0.0.9"));
    check(&["192.0.2.1:8080"], Ok("192.0.2.1"));
    check(&["[2001:db8::1]:8080"], Ok("2001:db8::1"));
    check(&["[2001:db8::1]"], Ok("2001:db8::1"));
    check(&["2001:db8::1"], Ok("2001:db8::1"));
    check(&["::ffff:10.0.0.1"], Ok("10.0.0.1"));
    for line in ["", "unknown", "192.0.2.1,", "192.0.2", "192.0.2.1, x, 10.0.0.1", "fe80::1%eth0"] {
        check(&[line], Err(()));
    }
    let none = client(ForwardedField::XForwardedFor, "Forwarded", &["for=192.0.2.1"]);
    assert_eq!(none, Ok(None));
}

#[test]
fn forwarded_names_the_client() {
    let check = |lines: &[&str], expected: Result<&str, ()>| {
        let client = client(ForwardedField::Forwarded, "Forwarded", lines);
        let expected = expected.map(|text| Some(text.parse().unwrap()));
        assert_eq!(client, expected.map_err(|()| UnknownClient), "{lines:?}");
    };
    check(&["for=192.0.2.43"], Ok("192.0.2.43"));
    check(&["For=\"[2001:db8:cafe::17]:4711\""], Ok("2001:db8:cafe::17"));
    check(&["for=192.0.2.60;proto=http;by=203.0.113.43"], Ok("192.0.2.60"));
    check(&["proto=http; for=\"192.0.2.60:1\" ;by=10.0.0.1"], Ok("192.0.2.60"));
    check(&["for=192.0.2.43, for=10.0.0.1"], Ok("192.0.2.43"));
    // A quote left open by the client hides nothing.
    check(&["for=\"evil, for=192.0.2.43, for=\"10.0.0.1\""], Ok("192.0.2.43"));
    for line in ["for=unknown", "for=_hidden", "proto=http", "for=\"192.0.2.1", "for=", "192.0.2.1"]
    {
        check(&[line], Err(()));
    }
}

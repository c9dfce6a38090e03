//! Names with a special meaning elsewhere: paths, wildcards, other encodings, other pages' origins.
//!
//! A name is only bytes to compare: it never becomes a file, a template or a pattern; filters are
//! separate. An invalid name is refused; a valid one is kept unchanged.

use end_to_end::curl::{curl, publish};
use end_to_end::raw::Raw;
use end_to_end::server::{Place, Server};

/// Decoded once, by the rules of RFC 3986, and strictly by those of UTF-8 (RFC 3629, sections 3 and
/// 10).
#[test]
fn invalid_names_are_refused() {
    let server = Server::start();
    let check = |path: &str, code: &str| {
        curl(&["--path-as-is", "-d", "x", &server.url(path)]).expect_problem(400, code);
    };
    // NUL and other controls, also those that other programs take for line ends or the end of a
    // text.
    for byte in ["00", "01", "09", "0a", "0d", "1b", "7f"] {
        check(&format!("/topics/a%{byte}b"), "malformed_topic");
    }
    // Overlong forms of `/`, `.` and NUL; a surrogate; beyond the last character; truncated; an
    // invalid first byte.
    for bytes in [
        "%c0%af",
        "%e0%80%af",
        "%f0%80%80%af",
        "%c0%ae%c0%ae",
        "%c0%80",
        "%ed%a0%80",
        "%ed%a0%bd%ed%b8%80",
        "%f4%90%80%80",
        "%f8%88%80%80%80",
        "%e2%82",
        "%80",
        "%ff%fe",
    ] {
        check(&format!("/topics/a{bytes}"), "malformed_request");
    }
    for escape in ["%", "%4", "%zz", "%u0041", "%-1"] {
        check(&format!("/topics/a{escape}"), "malformed_request");
    }
    for wildcard in ["+", "%2b", "%23", "a/%23", "a/+/b", "a+b"] {
        check(&format!("/topics/{wildcard}"), "malformed_topic");
    }
    check("/topics/?topic=a%2F..%2F%23", "malformed_topic");
    check(&format!("/topics/{}", "a".repeat(256)), "topic_too_long");
    check(&format!("/topics/{}", "%2f".repeat(256)), "topic_too_long");
    check(&format!("/topics/{}", "%e2%82%ac".repeat(86)), "topic_too_long");
}

/// No character is removed, combined or decoded twice, and all these names are different.
#[test]
fn unusual_names_are_kept_unchanged() {
    let mut place = Place::new("127.0.0.1:0");
    let data = place.path("data");
    place.configure(&format!(
        "[node]\ndata_dir = {data:?}\n\n[[log]]\nname = \"kept\"\ndurability = \"disk\"\n\n[[rule]]\nfilter = \"#\"\nlog = \"kept\"\n"
    ));
    let server = place.start();
    let levels = "/".repeat(255);
    let names = [
        ("..", ".."),
        ("../../etc/passwd", "../../etc/passwd"),
        ("%2e%2e%2f%2e%2e%2fx", "../../x"),
        ("a/../b", "a/../b"),
        ("b", "b"),
        ("a//b", "a//b"),
        ("a/b", "a/b"),
        ("a/b/", "a/b/"),
        ("%252e%252e%252f", "%2e%2e%2f"),
        ("%25%30%30", "%00"),
        ("..%5c..%5cboot.ini", "..\\..\\boot.ini"),
        ("%7e/.ssh", "~/.ssh"),
        ("%24%7bjndi:x%7d", "${jndi:x}"),
        ("%22%3e%3cscript%3e", "\"><script>"),
        ("';%20DROP%20TABLE%20x", "'; DROP TABLE x"),
        ("%e2%80%ae%c2%a0", "\u{202e}\u{a0}"),
        // The same letter to the eye, composed and decomposed.
        ("%c3%a9", "\u{e9}"),
        ("e%cc%81", "e\u{301}"),
        (levels.as_str(), levels.as_str()),
    ];
    for (number, (escaped, _)) in names.iter().enumerate() {
        let url = server.url(&format!("/topics/{escaped}"));
        curl(&["--path-as-is", "-d", &number.to_string(), &url]).expect(200);
    }
    for (number, (escaped, name)) in names.iter().enumerate() {
        let url = server.url(&format!("/topics/{escaped}"));
        let history = curl(&["--path-as-is", &url]).expect(200).json();
        assert_eq!(history["topic"], *name);
        let messages = history["messages"].as_array().map(Vec::len);
        assert_eq!(messages, Some(1), "{name}: {history}");
        assert_eq!(history["messages"][0]["data"], number.to_string(), "{name}");
    }
    // Files are named after logs, never after topics.
    let entries = std::fs::read_dir(place.path("")).expect("the folder is there");
    let mut found: Vec<_> = entries.map(|entry| entry.expect("an entry").file_name()).collect();
    found.sort();
    assert_eq!(found, ["crore.toml", "data", "run"]);
}

/// The levels of filters are bounded by their own option, not by their cost.
#[test]
fn filters_with_too_many_levels_are_refused() {
    let server = Server::start();
    let filter = "%2B/".repeat(40) + "%23";
    let url = server.url(&format!("/events?topic={filter}"));
    let mut raw = Raw::connect(&server.clients);
    let path = url.split_once(&server.clients).map_or("", |(_, path)| path);
    raw.send(format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n").as_bytes());
    raw.read_until(b"filter_too_wide");
}

/// A page of another origin opens a WebSocket with the user's cookies or network; browsers send the
/// page's origin, and that decides (RFC 6455, section 10.2). A similar origin is not sufficient.
#[test]
fn web_sockets_of_other_origins_are_refused() {
    let configuration = "[http]\nallowed_origins = [\"https://app.example\"]\n";
    let server = Server::with_configuration(configuration);
    let upgrade = |path: &str, lines: &str| {
        let mut raw = Raw::connect(&server.clients);
        let request = format!(
            "GET {path} HTTP/1.1\r\nHost: {}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
             Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\
             Sec-WebSocket-Protocol: crore.v1\r\n{lines}\r\n",
            server.clients
        );
        raw.send(request.as_bytes());
        raw.read_until(b"\r\n\r\n")
    };
    for path in ["/crore", "/echo", "/ws/echo"] {
        for origin in [
            "https://evil.example",
            "http://app.example",
            "https://app.example.evil.example",
            "https://evilapp.example",
            "https://app.example:444",
            "https://app.example/",
            "https://app.example, https://evil.example",
            "app.example",
            "null",
            "file://",
            "",
        ] {
            let head = upgrade(path, &format!("Origin: {origin}\r\n"));
            assert!(head.starts_with("HTTP/1.1 403 "), "{path} {origin}: {head}");
        }
        let twice = "Origin: https://app.example\r\nOrigin: https://evil.example\r\n";
        let head = upgrade(path, twice);
        assert!(head.starts_with("HTTP/1.1 4"), "{path} twice: {head}");
        for origin in [
            "https://app.example".to_owned(),
            format!("http://{}", server.clients),
            format!("http://{}", server.operators),
        ] {
            let head = upgrade(path, &format!("Origin: {origin}\r\n"));
            assert!(head.starts_with("HTTP/1.1 101 "), "{path} {origin}: {head}");
        }
        // Other clients than browsers send no origin, and could send any.
        assert!(upgrade(path, "").starts_with("HTTP/1.1 101 "), "{path}");
    }
    // A request without a preflight: a form's POST.
    let url = server.url("/topics/cross");
    let foreign = ["-H", "Origin: https://evil.example", "-d", "x", &url];
    curl(&foreign).expect_problem(403, "origin_forbidden");
    publish(&url, "own");
    let history = curl(&[&url]).expect(200).json();
    assert_eq!(history["messages"].as_array().map(Vec::len), Some(1));
}

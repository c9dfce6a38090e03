//! Ambiguous requests, from outside: if a front end reads one request and the server two, the
//! second is an attacker's. Sections are those of RFC 9112 unless another number stands before
//! them.
//!
//! Each case is refused with one answer and the end of the connection, or read in the only way of
//! the RFC. Behind every refused one follows a request that must never be processed, as if a front
//! end had passed it on.

use end_to_end::answers::{answers, statuses};
use end_to_end::curl::{curl, publish};
use end_to_end::raw::Raw;
use end_to_end::server::Server;

/// Limits small enough to reach.
const TIGHT: &str = r#"
[http]
head_bytes_max = "2KiB"
handshake_timeout = "1m"

[limits]
message_bytes_max = "4KiB"
"#;

/// A publication that must never arrive.
const SMUGGLED: &str =
    "POST /topics/smuggled HTTP/1.1\r\nHost: localhost\r\nContent-Length: 8\r\n\r\nsmuggled";

/// Processed if and only if the server knows the end of the request before it; `Connection` ends
/// the answers.
const SENTINEL: &str = "GET /sentinel HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
const SENTINEL_STATUS: u16 = 404;

const POST: &str = "POST /topics/framed HTTP/1.1\r\nHost: localhost\r\n";

/// Section 6.3: an untrustworthy length ends the connection.
#[test]
fn invalid_lengths_are_refused() {
    let refused = Refused::on(Server::with_configuration(TIGHT));
    for length in [
        "",
        " ",
        "+5",
        "-5",
        "5.0",
        "5e0",
        "0x5",
        "5h",
        "5 5",
        "5,5",
        "5, 5",
        "5;",
        "\"5\"",
        "five",
        "٥",
        "\u{b}5",
        "5\0",
        "18446744073709551616",
        "99999999999999999999999999999999",
    ] {
        refused.check(&[400], &format!("{POST}Content-Length: {length}\r\n\r\nhello"));
    }
    for lines in [
        "Content-Length: 5\r\nContent-Length: 5",
        "Content-Length: 5\r\nContent-Length: 6",
        "Content-Length: 5\r\ncontent-length: 0",
        "Content-Length: 0\r\nContent-Length: 5",
        "Content-Length: 5\r\n\tContent-Length: 6",
        "Content-Length : 5",
        "Content-Length\t: 5",
        "Content-Length\r\n: 5",
    ] {
        refused.check(&[400], &format!("{POST}{lines}\r\n\r\nhello"));
    }
    for length in ["4097", "9223372036854775808", "18446744073709551615"] {
        refused.check(&[413], &format!("{POST}Content-Length: {length}\r\n\r\nhello"));
    }
    refused.nothing_came_through();
}

/// Sections 6.1 and 6.3: the only transfer coding is `chunked`, alone, in HTTP/1.1, without a
/// length.
#[test]
fn transfer_codings_are_unambiguous() {
    let refused = Refused::on(Server::with_configuration(TIGHT));
    let body = "5\r\nhello\r\n0\r\n\r\n";
    for lines in [
        "Content-Length: 5\r\nTransfer-Encoding: chunked",
        "Transfer-Encoding: chunked\r\nContent-Length: 5",
        "Transfer-Encoding: chunked\r\nContent-Length: 0",
        "content-length: 15\r\ntransfer-encoding: chunked",
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked",
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity",
        "Transfer-Encoding: identity\r\nTransfer-Encoding: chunked",
        "Transfer-Encoding: chunked, identity",
        "Transfer-Encoding: chunked, chunked",
        "Transfer-Encoding: chunked,",
        "Transfer-Encoding: ,chunked",
        "Transfer-Encoding: identity",
        "Transfer-Encoding: xchunked",
        "Transfer-Encoding: chunkedx",
        "Transfer-Encoding: chunked;q=1",
        "Transfer-Encoding: \"chunked\"",
        "Transfer-Encoding: 'chunked'",
        "Transfer-Encoding: cow",
        "Transfer-Encoding:",
        "Transfer-Encoding: \u{b}chunked",
        "Transfer-Encoding: \u{a0}chunked",
        "Transfer-Encoding: chunked\0",
        "Transfer-Encoding : chunked",
        "Transfer-Encoding\t: chunked",
        "Transfer-Encoding\r\n : chunked",
        "Transfer-Encoding:\r\n chunked",
        "X: x\r\n Transfer-Encoding: chunked",
        " Transfer-Encoding: chunked",
        "X: x\nTransfer-Encoding: chunked",
        "X: x\rTransfer-Encoding: chunked",
        "Transfer-Encoding: chunked\r\r",
    ] {
        refused.check(&[400], &format!("{POST}{lines}\r\n\r\n{body}"));
    }
    for coding in ["gzip, chunked", "identity, chunked", "chunkeddd, chunked"] {
        refused.check(&[501], &format!("{POST}Transfer-Encoding: {coding}\r\n\r\n{body}"));
    }
    // A front end of HTTP/1.0 does not know chunks: it would take them for the next request.
    let old = "POST /topics/framed HTTP/1.0\r\nHost: localhost\r\nConnection: keep-alive\r\n";
    refused.check(&[400], &format!("{old}Transfer-Encoding: chunked\r\n\r\n{body}"));
    refused.nothing_came_through();
}

/// Section 7.1: a size in hexadecimal digits, CRLF, the data, CRLF. Text behind a semicolon is
/// ignored.
#[test]
fn malformed_chunks_are_refused() {
    let refused = Refused::on(Server::with_configuration(TIGHT));
    let chunked = format!("{POST}Transfer-Encoding: chunked\r\n\r\n");
    let extension = "x".repeat(20_000);
    for body in [
        "+5\r\nhello\r\n0\r\n\r\n",
        "-5\r\nhello\r\n0\r\n\r\n",
        "0x5\r\nhello\r\n0\r\n\r\n",
        " 5\r\nhello\r\n0\r\n\r\n",
        "\r\n5\r\nhello\r\n0\r\n\r\n",
        ";a=b\r\nhello\r\n0\r\n\r\n",
        "g\r\nhello\r\n0\r\n\r\n",
        "5,5\r\nhello\r\n0\r\n\r\n",
        "5 5\r\nhello\r\n0\r\n\r\n",
        "5\nhello\r\n0\r\n\r\n",
        "5\rhello\r\n0\r\n\r\n",
        "5\r\r\nhello\r\n0\r\n\r\n",
        "5;a\nhello\r\n0\r\n\r\n",
        "5;a\rb\r\nhello\r\n0\r\n\r\n",
        "5;\0\r\nhello\r\n0\r\n\r\n",
        "5\r\nhello\n0\r\n\r\n",
        "5\r\nhello0\r\n\r\n",
        "5\r\nhello!\r\n0\r\n\r\n",
        "4\r\nhello\r\n0\r\n\r\n",
        "5\r\nhello\r\n0\r\nX: y\n\r\n",
        "5\r\nhello\r\n0\r\n\n",
        "5\r\nhello\r\n0\n\r\n",
        "5\r\nhello\r\n00000000000000000\r\n\r\n",
        "00000000000000005\r\nhello\r\n0\r\n\r\n",
        &format!("5;{extension}\r\nhello\r\n0\r\n\r\n"),
    ] {
        refused.check(&[400], &format!("{chunked}{body}"));
    }
    for size in ["1001", "7fffffffffffffff", "ffffffffffffffff", "10000000000000000"] {
        refused.check(&[413], &format!("{chunked}{size}\r\nhello\r\n0\r\n\r\n"));
    }
    let trailers = format!("X: {}\r\n", "x".repeat(1_000)).repeat(10);
    refused.check(&[431], &format!("{chunked}5\r\nhello\r\n0\r\n{trailers}\r\n"));
    refused.nothing_came_through();
}

/// Sections 2.2 and 5: lines end with CRLF, a name ends with its colon, a value is on one line.
#[test]
fn malformed_lines_and_fields_are_refused() {
    let refused = Refused::on(Server::with_configuration(TIGHT));
    let get = |lines: &str| format!("GET /topics/a HTTP/1.1\r\nHost: localhost\r\n{lines}\r\n\r\n");
    for lines in [
        "X : 1",
        "X\t: 1",
        ": 1",
        "X",
        "X: 1\r\n folded",
        "X: 1\r\n\tfolded",
        "X: 1\rY: 2",
        "X: 1\nY: 2",
        "X: a\0b",
        "X\0: 1",
        "X: \u{1}",
        "X: \u{7f}",
        "X\u{e9}: 1",
        "X(: 1",
        "X[]: 1",
        "X\": 1",
        "X Y: 1",
    ] {
        refused.check(&[400], &get(lines));
    }
    refused.check(&[400], "GET /topics/a HTTP/1.1\nHost: x\n\n");
    refused.check(&[400], "GET /topics/a HTTP/1.1\r\nHost: x\n\r\n");
    refused.check(&[400], "GET /topics/a HTTP/1.1\rHost: localhost\r\r");
    refused.check(&[400], "GET /topics/a HTTP/1.1\r\n X: 1\r\nHost: localhost\r\n\r\n");
    refused
        .check(&[400], &format!("{}GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", "\r\n".repeat(6)));
    refused.check(&[431], &get(&format!("X: {}", "x".repeat(2_048))));
    refused.check(&[431], &get(&format!("{}: x", "x".repeat(2_048))));
    refused.check(&[431], &get(&"X: 1\r\n".repeat(64)));
    refused.nothing_came_through();
}

/// Section 3.2: one valid `Host`.
#[test]
fn a_request_has_one_valid_host() {
    let refused = Refused::on(Server::with_configuration(TIGHT));
    for lines in [
        "",
        "Host: localhost\r\nHost: localhost\r\n",
        "Host: localhost\r\nHost: y\r\n",
        "Host: x, y z\r\n",
        "Host: a@x\r\n",
        "Host: x/topics\r\n",
        "Host: x?y\r\n",
        "Host: x\\y\r\n",
        "Host: \u{e4}\r\n",
        "X-Host: localhost\r\n",
    ] {
        refused.check(&[400], &format!("GET /topics/a HTTP/1.1\r\n{lines}\r\n"));
    }
    refused.nothing_came_through();
}

/// Section 3: method, target and version with one space between them; only HTTP/1.0 and 1.1 are
/// supported.
#[test]
fn malformed_start_lines_are_refused() {
    let refused = Refused::on(Server::with_configuration(TIGHT));
    let line = |statuses: &[u16], line: &str| {
        refused.check(statuses, &format!("{line}\r\nHost: localhost\r\n\r\n"));
    };
    for text in [
        "GET",
        "GET /",
        "GET  /topics/a HTTP/1.1",
        "GET /topics/a  HTTP/1.1",
        "GET /topics/a HTTP/1.1 ",
        "GET\t/topics/a\tHTTP/1.1",
        " GET /topics/a HTTP/1.1",
        "GET /a b HTTP/1.1",
        "GE(T /topics/a HTTP/1.1",
        "GET /topics/\u{e9} HTTP/1.1",
        "GET /topics/a#b HTTP/1.1",
        "GET /topics/\u{1} HTTP/1.1",
        "GET /topics/a\0 HTTP/1.1",
        "GET /topics/a http/1.1",
        "GET /topics/a HTTP/1.1x",
        "GET /topics/a HTTP /1.1",
        "GET /topics/a HTTP/11",
        "GET /topics/a HTTPS/1.1",
    ] {
        line(&[400, 505], text);
    }
    for version in
        ["HTTP/0.9", "HTTP/1.2", "HTTP/1.10", "HTTP/01.1", "HTTP/2.0", "HTTP/3.0", "HTTP/9.9"]
    {
        line(&[400, 505], &format!("GET /topics/a {version}"));
    }
    // A request of HTTP/0.9 is a line, and its answer would be bytes without a head.
    refused.check(&[400], "GET /topics/a\r\n\r\n");
    // RFC 9113, section 3.4: a server of HTTP/1.1 refuses the preface by its design.
    refused.check(&[400, 505], "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
    line(&[414, 431], &format!("GET /topics/{} HTTP/1.1", "a".repeat(9_000)));
    // TLS on the plain port, and other protocols' first bytes.
    refused.check(&[400], "\u{16}\u{3}\u{1}\u{2}\u{0}\u{1}\u{0}\u{1}");
    refused.check(&[400], "\u{10}\u{c}\u{0}\u{4}MQTT\u{4}\u{2}\u{0}\u{3c}\r\n\r\n");
    refused.check(&[400, 505], "SSH-2.0-x\r\n\r\n");
    refused.check(&[400, 505], "PROXY TCP4 10.0.0.1 10.0.0.2 1 2\r\n\r\n");
    refused.nothing_came_through();
}

/// RFC 9110, section 10.1.1, and bodies in requests without one.
#[test]
fn unread_bodies_end_the_connection() {
    let refused = Refused::on(Server::with_configuration(TIGHT));
    for expectation in ["200-ok", "100-continue, 200-ok", "100-continue x", ""] {
        let lines = format!("Expect: {expectation}\r\nContent-Length: 5\r\n\r\nhello");
        refused.check(&[417], &format!("{POST}{lines}"));
    }
    refused.check(
        &[417],
        &format!("{POST}Expect: 100-continue\r\nExpect: other\r\nContent-Length: 5\r\n\r\nhello"),
    );
    // An unexpected body is not read, so the next request cannot be found.
    let body = "Content-Length: 5\r\n\r\nhello";
    for line in [
        "GET /topics/a",
        "GET /events?topic=a",
        "OPTIONS /topics/a",
        "TRACE /topics/a",
        "DELETE /topics/a",
    ] {
        refused.check(&[400, 405], &format!("{line} HTTP/1.1\r\nHost: localhost\r\n{body}"));
    }
    // RFC 9110, section 9.3.2: this answer has no body, so its length does not determine the next
    // request.
    let head = format!("HEAD /topics/a HTTP/1.1\r\nHost: localhost\r\n{body}{SMUGGLED}");
    let text = exchange(&refused.server, &head, false);
    assert!(text.starts_with("HTTP/1.1 405 ") && text.ends_with("\r\n\r\n"), "{text}");
    assert_eq!(text.matches("HTTP/1.1 ").count(), 1, "{text}");
    refused.check(&[400, 404], &format!("GET /nowhere HTTP/1.1\r\nHost: localhost\r\n{body}"));
    refused.check(&[400], &format!("CONNECT x:80 HTTP/1.1\r\nHost: localhost\r\n{body}"));
    let upgrade = "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n\
                   Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n";
    for path in ["/echo", "/crore"] {
        refused
            .check(&[400], &format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n{upgrade}{body}"));
        let chunks = "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n";
        refused
            .check(&[400], &format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n{upgrade}{chunks}"));
        // A failed handshake ends HTTP on the connection, as a successful one does.
        refused.check(&[426], &format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n"));
    }
    refused.nothing_came_through();
}

/// Unusual but unambiguous requests are read, and the next request begins at their end.
#[test]
fn unusual_requests_are_read_in_the_only_way() {
    let server = Server::with_configuration(TIGHT);
    let check = |expected: &[u16], request: &str| check_read(&server, expected, request);
    let publishes = |lines: &str| {
        check(&[200], &format!("{POST}{lines}"));
        let url = server.url("/topics/framed?limit=1&reverse=true");
        let newest = curl(&[&url]).expect(200).json();
        assert_eq!(newest["messages"][0]["data"], "hello", "{lines:?}");
        publish(&server.url("/topics/framed"), "between");
    };
    // Section 5.1: white space around a value is not part of it.
    publishes("Content-Length:5\r\n\r\nhello");
    publishes("Content-Length: \t 5 \t\r\n\r\nhello");
    publishes("Content-Length: 0000005\r\n\r\nhello");
    publishes("Transfer-Encoding:\tchunked \r\n\r\n5\r\nhello\r\n0\r\n\r\n");
    // Section 7: names of codings are case-insensitive. 7.1.1: extensions are ignored; 7.1.2: so
    // are trailers, whatever their content.
    publishes("Transfer-Encoding: CHUNKED\r\n\r\n2;a=\"b;c\"\r\nhe\r\n3 ; x\r\nllo\r\n0;y\r\n\r\n");
    publishes(
        "Transfer-Encoding: chunked\r\n\r\n0005\r\nhello\r\n000\r\nContent-Length: 500\r\nTransfer-Encoding: x\r\n\r\n",
    );
    // These fields only resemble those that frame a body.
    publishes("Transfer_Encoding: chunked\r\nContent_Length: 7\r\nContent-Length: 5\r\n\r\nhello");
    publishes(
        "X-Content-Length: 9\r\nContent-Length: 5\r\nTE: chunked\r\nTrailer: Content-Length\r\n\r\nhello",
    );
    // Section 2.2: an empty line before a request.
    check(&[404], "\r\n\r\nGET /nowhere HTTP/1.1\r\nHost: localhost\r\n\r\n");
    // RFC 9110, section 9.3.1: a length of 0 means no body.
    check(&[200], "GET /topics/a HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n");
}

/// Targets in other forms and unsupported methods have one meaning, too.
#[test]
fn unusual_targets_and_methods_are_answered() {
    let server = Server::with_configuration(TIGHT);
    let check = |expected: &[u16], request: &str| check_read(&server, expected, request);
    // Section 3.2.2: in the absolute form the target counts, regardless of `Host`.
    check(&[200], "GET http://other.example/topics/a HTTP/1.1\r\nHost: localhost\r\n\r\n");
    check(&[200], "GET http://localhost HTTP/1.1\r\nHost: localhost\r\n\r\n");
    for target in [
        "ftp://x/topics/a",
        "http://",
        "http:///topics/a",
        "//",
        "topics/a",
        "x:80",
        "?topic=a",
        "http:/topics/a",
    ] {
        let text = exchange(
            &server,
            &format!("GET {target} HTTP/1.1\r\nHost: localhost\r\n\r\n{SENTINEL}"),
            false,
        );
        let found = statuses(&text);
        assert!(matches!(found[..], [400 | 404, SENTINEL_STATUS]), "{target}: {found:?}");
    }
    // Section 3.2.3, and unsupported methods: nothing is tunnelled or sent back.
    check(&[400], "CONNECT localhost:80 HTTP/1.1\r\nHost: localhost:80\r\n\r\n");
    for method in ["TRACE", "PUT", "DELETE", "PATCH", "get", "GETT", "M-SEARCH", "PRI"] {
        let text = exchange(
            &server,
            &format!(
                "{method} /topics/a HTTP/1.1\r\nHost: localhost\r\nX-Secret: told\r\n\r\n{SENTINEL}"
            ),
            false,
        );
        let answers = answers(&text);
        assert_eq!(answers[0].status, 405, "{method}");
        assert!(answers[0].head.contains("\r\nAllow: "), "{method}: {}", answers[0].head);
        assert!(!text.contains("told"), "{method}: {text}");
        assert_eq!(answers.len(), 2, "{text}");
    }
    // RFC 9110, section 10.1.1: a waiting client receives one 100 Continue.
    let text = exchange(
        &server,
        &format!("{POST}Expect: 100-Continue\r\nContent-Length: 5\r\n\r\nhello{SENTINEL}"),
        false,
    );
    assert_eq!(statuses(&text), [100, 200, SENTINEL_STATUS]);
    // HTTP/1.0 has no expectations, and connections persist only on request.
    let text = exchange(
        &server,
        &format!(
            "POST /topics/framed HTTP/1.0\r\nExpect: 200-ok\r\nContent-Length: 5\r\n\r\nhello{SENTINEL}"
        ),
        false,
    );
    assert_eq!(statuses(&text), [200]);
}

/// Section 9.3.2: answers in the order of the requests, and none behind the one with `close`.
#[test]
fn no_answer_follows_a_close() {
    let server = Server::with_configuration(TIGHT);
    let get = "GET /topics/a HTTP/1.1\r\nHost: localhost\r\n";
    let text = exchange(&server, &format!("{get}Connection: close\r\n\r\n{SMUGGLED}"), false);
    assert_eq!(statuses(&text), [200]);
    let text =
        exchange(&server, &format!("{get}\r\n{get}\r\nGET / HTTP/1.1\r\n\r\n{SMUGGLED}"), false);
    assert_eq!(statuses(&text), [200, 200, 400]);
    assert_eq!(smuggled_count(&server), 0);
}

/// Checks the answers to a request, at once and byte by byte, and to the one behind it.
fn check_read(server: &Server, expected: &[u16], request: &str) {
    let all = [expected, &[SENTINEL_STATUS]].concat();
    for is_cut in [false, true] {
        let text = exchange(server, &format!("{request}{SENTINEL}"), is_cut);
        assert_eq!(statuses(&text), all, "{request:?} cut: {is_cut}\n{text}");
    }
}

/// A server, and the requests that it must refuse.
struct Refused {
    server: Server,
}

impl Refused {
    fn on(server: Server) -> Refused {
        Refused { server }
    }

    /// Checks for one of these answers and the close, whether the request arrives at once or byte
    /// by byte.
    #[track_caller]
    fn check(&self, expected: &[u16], request: &str) {
        for is_cut in [false, true] {
            let text = exchange(&self.server, &format!("{request}{SMUGGLED}"), is_cut);
            let found = statuses(&text);
            let is_expected = found.len() == 1 && expected.contains(&found[0]);
            assert!(is_expected, "{request:.300?} cut: {is_cut}: {found:?}\n{text}");
        }
    }

    /// Checks that no request behind a refused one was answered or processed, and others are
    /// served.
    #[track_caller]
    fn nothing_came_through(&self) {
        assert_eq!(smuggled_count(&self.server), 0);
        let framed = curl(&[&self.server.url("/topics/framed")]).expect(200).json();
        assert_eq!(framed["messages"].as_array().map(Vec::len), Some(0), "{framed}");
        publish(&self.server.url("/topics/still/serves"), "yes");
    }
}

/// Sends bytes in one piece or byte by byte, and reads until the server closes.
#[track_caller]
fn exchange(server: &Server, request: &str, is_cut: bool) -> String {
    let mut raw = Raw::connect(&server.clients);
    if is_cut {
        request.as_bytes().chunks(1).for_each(|byte| raw.send(byte))
    } else {
        raw.send(request.as_bytes())
    }
    raw.read_to_close()
}

fn smuggled_count(server: &Server) -> usize {
    let smuggled = curl(&[&server.url("/topics/smuggled")]).expect(200).json();
    smuggled["messages"].as_array().map_or(0, Vec::len)
}

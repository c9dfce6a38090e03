//! Heads of requests and responses: valid ones, and the refusal of every ambiguity between two
//! implementations. Each case also runs in pieces.

mod drive;

use drive::{Cuts, check_cuts};
use wire::Step;
use wire::http::head::{HEADERS_MAX, HeadError, HeadScan, Version};
use wire::http::request::RequestWriter;
use wire::http::{BodyFraming, HeadLimits, Request, Response, ResponseWriter};

const LIMITS: HeadLimits = HeadLimits { head_bytes_max: 4096, target_bytes_max: 64 };

/// Builds a GET with these field lines, `\n` standing for CRLF; `Host` is added unless the lines
/// begin with `!`.
fn head(lines: &str) -> String {
    let lines = match lines.strip_prefix('!') {
        Some(lines) => lines.to_string(),
        None => format!("Host: a\n{lines}"),
    };
    format!("GET / HTTP/1.1\n{lines}\n").replace('\n', "\r\n")
}

fn decode(head: &str) -> Result<Request<'_>, HeadError> {
    check_cuts(7, |cuts| drive::http_requests(head.as_bytes(), LIMITS, 1 << 20, cuts));
    let step = Request::decode(head.as_bytes(), &mut HeadScan::new(), &LIMITS)?;
    let Step::Done { value, consumed } = step else { panic!("unfinished: {head:?}") };
    assert_eq!(consumed, head.len());
    Ok(value)
}

fn refused(head: &str, error: HeadError, status: u16) {
    assert_eq!(decode(head), Err(error), "{head:?}");
    assert_eq!(error.status(), status);
    assert!(!error.to_string().is_empty());
}

#[test]
fn a_request_is_read() {
    let request = decode(
        "POST /topics/a%20b?x=y HTTP/1.1\r\nHost: a:8800\r\nContent-Length:  12 \r\n\
         X-Key: one\r\nx-key:two, three ,\r\nEmpty:\r\nExpect: 100-Continue\r\nLatin: \u{e9}\r\n\r\n",
    )
    .unwrap();
    assert_eq!((request.method, request.target), ("POST", "/topics/a%20b?x=y"));
    assert_eq!((request.version, request.body), (Version::Http11, BodyFraming::Length(12)));
    assert!(request.expect_continue && request.keep_alive());
    assert_eq!(request.header("X-KEY"), Some(&b"one"[..]));
    assert_eq!(request.header_text("empty"), Some(""));
    assert_eq!(request.header_text("latin"), Some("\u{e9}"));
    assert_eq!(request.header("none"), None);
    assert_eq!(request.fields.all("x-key").collect::<Vec<_>>(), [&b"one"[..], b"two, three ,"]);
    assert_eq!(request.fields.list("x-key").collect::<Vec<_>>(), [&b"one"[..], b"two", b"three"]);
    assert!(request.fields.list_contains("X-Key", "THREE"));
    assert_eq!(request.fields.iter().count(), 7);
}

#[test]
fn empty_lines_before_a_request_are_skipped_within_reason() {
    assert!(decode(&format!("\r\n{}", head(""))).is_ok());
    assert!(decode(&format!("\r\n\r\n{}", head(""))).is_ok());
    refused(&format!("{}{}", "\r\n".repeat(6), head("")), HeadError::BadStartLine, 400);
}

#[test]
fn keep_alive_depends_on_version_and_fields() {
    let cases = [
        ("1.1", "", true),
        ("1.1", "Connection: close\r\n", false),
        ("1.1", "Connection: x, Close\r\n", false),
        ("1.1", "Connection: Upgrade\r\n", true),
        ("1.0", "", false),
        ("1.0", "Connection: Keep-Alive\r\n", true),
        ("1.0", "Connection: keep-alive, close\r\n", false),
    ];
    for (version, lines, expected) in cases {
        let head = format!("GET / HTTP/{version}\r\nHost: a\r\n{lines}\r\n");
        assert_eq!(decode(&head).unwrap().keep_alive(), expected, "{head:?}");
    }
}

#[test]
fn the_framing_of_a_body_is_unambiguous() {
    let framing = |lines: &str| decode(&head(lines)).map(|request| request.body);
    assert_eq!(framing(""), Ok(BodyFraming::None));
    assert_eq!(framing("Content-Length: 0\n"), Ok(BodyFraming::Length(0)));
    assert_eq!(framing("Content-Length: 007\n"), Ok(BodyFraming::Length(7)));
    let most = format!("Content-Length: {}\n", 1 << 20);
    assert_eq!(framing(&most), Ok(BodyFraming::Length(1 << 20)));
    assert_eq!(framing("Transfer-Encoding: chunked\n"), Ok(BodyFraming::Chunked));
    assert_eq!(framing("transfer-encoding: Chunked\n"), Ok(BodyFraming::Chunked));
    for value in ["", "+1", "-1", "1 1", "1,1", "0x1", "1.0", "18446744073709551616"] {
        refused(&head(&format!("Content-Length: {value}\n")), HeadError::BadContentLength, 400);
    }
    let twice = "Content-Length: 1\nContent-Length: 1\n";
    refused(&head(twice), HeadError::BadContentLength, 400);
    refused(&head("Content-Length: 1\nContent-Length: 2\n"), HeadError::BadContentLength, 400);
    let both = "Content-Length: 1\nTransfer-Encoding: chunked\n";
    refused(&head(both), HeadError::ConflictingFraming, 400);
    for value in [
        "",
        "identity",
        "chunked, gzip",
        "chunked, chunked",
        "chunked,",
        ",chunked",
        "xchunked",
        "\"chunked\"",
    ] {
        let lines = format!("Transfer-Encoding: {value}\n");
        refused(&head(&lines), HeadError::BadTransferEncoding, 400);
    }
    let twice = "Transfer-Encoding: chunked\nTransfer-Encoding: chunked\n";
    refused(&head(twice), HeadError::BadTransferEncoding, 400);
    refused(&head("Transfer-Encoding: gzip, chunked\n"), HeadError::UnsupportedTransferCoding, 501);
    let old = "POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n";
    refused(old, HeadError::BadTransferEncoding, 400);
}

#[test]
fn a_host_is_required_and_valid() {
    refused(&head("!"), HeadError::MissingHost, 400);
    refused(&head("Host: a\n"), HeadError::BadHost, 400);
    for host in ["a b", "a/b", "user@a", "a\u{e9}", "a?b"] {
        refused(&head(&format!("!Host: {host}\n")), HeadError::BadHost, 400);
    }
    for host in ["", "a", "a:80", "127.0.0.1:8800", "[::1]:8800", "xn--9ca.example"] {
        assert!(decode(&head(&format!("!Host: {host}\n"))).is_ok(), "{host}");
    }
    assert!(decode("GET / HTTP/1.0\r\n\r\n").is_ok());
}

/// A front end might read these lines as one request and this codec as another.
#[test]
fn ambiguous_lines_are_refused() {
    refused(&head("X : 1\n"), HeadError::BadField, 400);
    refused(&head("X: 1\n folded\n"), HeadError::BadField, 400);
    refused(&head("X: 1\n\tfolded\n"), HeadError::BadField, 400);
    refused(&head("! X: 1\nHost: a\n"), HeadError::BadField, 400);
    refused(&head(": 1\n"), HeadError::BadField, 400);
    refused(&head("X\n"), HeadError::BadField, 400);
    refused(&head("X\u{e9}: 1\n"), HeadError::BadField, 400);
    refused(&head("X(: 1\n"), HeadError::BadField, 400);
    refused("GET / HTTP/1.1\nHost: a\n\n", HeadError::BadByte(b'\n'), 400);
    refused("GET / HTTP/1.1\r\nHost: a\n\r\n", HeadError::BadByte(b'\n'), 400);
    refused("GET / HTTP/1.1\r\nHost: a\rX: 1\r\n\r\n", HeadError::BadByte(b'\r'), 400);
    refused("GET / HTTP/1.1\r\nHost: a\r\r\n\r\n", HeadError::BadByte(b'\r'), 400);
    refused("GET / HTTP/1.1\r\nHost: a\0\r\n\r\n", HeadError::BadByte(0), 400);
    refused("GET / HTTP/1.1\r\nHost: \x7f\r\n\r\n", HeadError::BadByte(0x7f), 400);
}

#[test]
fn start_lines_are_checked() {
    for line in
        ["GET", "GET /", "GET  / HTTP/1.1", "GET / HTTP/1.1 ", "G@T( / HTTP/1.1", " GET / HTTP/1.1"]
    {
        let head = format!("{line}\r\nHost: a\r\n\r\n");
        let decoded = decode(&head);
        let error = decoded.expect_err(line);
        assert!(matches!(error.status(), 400 | 505), "{line} {error:?}");
    }
    for version in ["HTTP/2.0", "HTTP/1.2", "HTTP/0.9", "http/1.1", "HTTP/11", "HTTP/1."] {
        let head = format!("GET / {version}\r\nHost: a\r\n\r\n");
        let decoded = decode(&head);
        assert!(matches!(decoded.expect_err(version).status(), 400 | 505), "{version}");
    }
    refused("GET / HTTP/1.2\r\nHost: a\r\n\r\n", HeadError::UnsupportedVersion, 505);
    refused("GET /a#b HTTP/1.1\r\nHost: a\r\n\r\n", HeadError::BadTarget, 400);
    refused("GET /\u{e9} HTTP/1.1\r\nHost: a\r\n\r\n", HeadError::BadTarget, 400);
    let target = "/".repeat(65);
    let long = format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n");
    refused(&long, HeadError::TargetTooLong { target_bytes_max: 64 }, 414);
}

#[test]
fn limits_of_a_head_hold() {
    let fields = |count: usize| head(&"X: 1\n".repeat(count));
    assert!(decode(&fields(HEADERS_MAX - 1)).is_ok());
    refused(&fields(HEADERS_MAX), HeadError::TooManyHeaders, 431);
    let padding = |bytes: usize| head(&format!("X: {}\n", "x".repeat(bytes)));
    let room = 4096 - padding(0).len();
    assert!(decode(&padding(room)).is_ok());
    let too_large = HeadError::HeadTooLarge { head_bytes_max: 4096 };
    refused(&padding(room + 1), too_large, 431);
    // Refused before its end.
    let open = format!("GET / HTTP/1.1\r\nX: {}", "x".repeat(5000));
    let decoded = Request::decode(open.as_bytes(), &mut HeadScan::new(), &LIMITS);
    assert_eq!(decoded, Err(too_large));
    for lines in [
        "Expect: 200-ok\n",
        "Expect: 100-continue\nExpect: 200-ok\n",
        "Expect: 100-continue, 200-ok\n",
        "Expect:\n",
    ] {
        refused(&head(lines), HeadError::UnsupportedExpectation, 417);
    }
}

/// A byte that is invalid in HTTP is refused at once, not at the end of an endless head.
#[test]
fn noise_is_refused_early() {
    for (input, byte) in
        [(&b"\x16\x03\x01\x02"[..], 0x16), (b"GET /\0", 0), (b"GET / HTTP/1.1\n", b'\n')]
    {
        let decoded = Request::decode(input, &mut HeadScan::new(), &LIMITS);
        assert_eq!(decoded, Err(HeadError::BadByte(byte)));
    }
}

#[test]
fn pipelined_requests_with_bodies_are_read() {
    let input = "POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\none\
        POST /b HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3;x\r\ntwo\r\n0\r\nT: 1\r\n\r\n\
        GET /c HTTP/1.1\r\nHost: a\r\n\r\n";
    let lines = check_cuts(3, |cuts| drive::http_requests(input.as_bytes(), LIMITS, 10, cuts));
    assert_eq!(lines.len(), 6, "{lines:#?}");
    assert_eq!(lines[1], format!("body {:?}", b"one"));
    assert_eq!(lines[3], format!("body {:?}", b"two"));
    assert_eq!(lines[5], "0 bytes left");
}

#[test]
fn the_scan_is_idle_between_heads() {
    let mut scan = HeadScan::new();
    assert!(scan.is_idle());
    let input = head("");
    assert!(Request::decode(&input.as_bytes()[..9], &mut scan, &LIMITS).unwrap().done().is_none());
    assert!(!scan.is_idle());
    assert!(Request::decode(input.as_bytes(), &mut scan, &LIMITS).unwrap().done().is_some());
    assert!(scan.is_idle());
    assert_eq!(size_of::<HeadScan>(), 4);
}

#[test]
fn responses_are_written() {
    let mut out = Vec::new();
    ResponseWriter::new(&mut out, 200)
        .header("Content-Type", "text/plain\r\nInjected: 1")
        .keep_alive(false)
        .finish_with_body(b"hello");
    assert_eq!(
        String::from_utf8(out).unwrap(),
        "HTTP/1.1 200 OK\r\nContent-Type: text/plain  Injected: 1\r\nConnection: close\r\n\
         Content-Length: 5\r\n\r\nhello"
    );
    let mut out = Vec::new();
    ResponseWriter::new(&mut out, 200).keep_alive(true).finish_chunked();
    ResponseWriter::new(&mut out, 204).finish_head();
    ResponseWriter::new(&mut out, 404).finish_length(12).extend_from_slice(b"...");
    ResponseWriter::new(&mut out, 599).finish_head();
    assert_eq!(
        String::from_utf8(out).unwrap(),
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n\
         HTTP/1.1 204 No Content\r\n\r\n\
         HTTP/1.1 404 Not Found\r\nContent-Length: 12\r\n\r\n...\
         HTTP/1.1 599 \r\n\r\n"
    );
}

#[test]
fn responses_are_read() {
    let read = |head: &str, method: &str| {
        let decoded = Response::decode(head.as_bytes(), &mut HeadScan::new(), &LIMITS, method);
        let (response, _) = decoded.unwrap().done().unwrap();
        (response.status, response.body, response.keep_alive())
    };
    let cases = [
        ("200 OK\r\nContent-Length: 3\r\n", "GET", BodyFraming::Length(3), true),
        ("200 OK\r\nContent-Length: 3\r\n", "HEAD", BodyFraming::None, true),
        ("200 OK\r\nTransfer-Encoding: chunked\r\n", "GET", BodyFraming::Chunked, true),
        (
            "200 OK\r\nConnection: close\r\nContent-Length: 3\r\n",
            "GET",
            BodyFraming::Length(3),
            false,
        ),
        ("200 OK\r\n", "GET", BodyFraming::UntilClose, false),
        ("200 \r\n", "GET", BodyFraming::UntilClose, false),
        ("204 No Content\r\n", "GET", BodyFraming::None, true),
        ("304 Not Modified\r\nContent-Length: 3\r\n", "GET", BodyFraming::None, true),
        ("101 Switching Protocols\r\n", "GET", BodyFraming::None, true),
    ];
    for (rest, method, body, keep_alive) in cases {
        let head = format!("HTTP/1.1 {rest}\r\n");
        let (status, ..) = read(&head, method);
        assert_eq!(read(&head, method), (status, body, keep_alive), "{head:?}");
        check_cuts(9, |cuts: Cuts| drive::http_responses(head.as_bytes(), LIMITS, 10, cuts));
    }
    for head in [
        "HTTP/1.1 20 OK\r\n\r\n",
        "HTTP/2 200 OK\r\n\r\n",
        "HTTP/1.1 099 X\r\n\r\n",
        "nonsense\r\n\r\n",
    ] {
        let decoded = Response::decode(head.as_bytes(), &mut HeadScan::new(), &LIMITS, "GET");
        assert!(decoded.is_err(), "{head:?} {decoded:?}");
    }
}

#[test]
fn requests_are_written() {
    let mut out = Vec::new();
    RequestWriter::new(&mut out, "GET", "/a b\r\n", "h:1").header("X", "y\nz").finish();
    RequestWriter::new(&mut out, "POST", "/p", "h").finish_with_body(b"abc");
    RequestWriter::new(&mut out, "POST", "/q", "h").finish_chunked();
    assert_eq!(
        String::from_utf8(out.clone()).unwrap(),
        "GET /a_b__ HTTP/1.1\r\nHost: h:1\r\nX: y z\r\n\r\n\
         POST /p HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\nabc\
         POST /q HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n"
    );
    out.extend_from_slice(b"1\r\nx\r\n0\r\n\r\n");
    let lines = check_cuts(5, |cuts| drive::http_requests(&out, LIMITS, 10, cuts));
    assert_eq!(lines.len(), 6, "{lines:#?}");
}

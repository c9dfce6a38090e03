//! Pushes to a file, a socket and a server of the test, and what the log hears of those that fail.

use super::super::families::Families;
use super::super::line_protocol::tests::parse;
use super::*;
use crate::logging::{Format, Levels, Target as LogTarget, Wanted};
use std::io::{Read, Write};
use std::net::{TcpListener, UdpSocket};
use std::path::PathBuf;

fn gather() -> Gather {
    Arc::new(|| {
        let mut families = Families::default();
        families.counter("crore_a_total", "A.", 5_u64);
        let kinds: Vec<(&'static str, u64)> = vec![("x", 1); 60];
        families.gauges("crore_b", "B.", "kind", &kinds);
        families.finish()
    })
}

fn push(target: &str) -> Push {
    Push {
        target: Target::parse(target, 8 << 10).expect("a target"),
        interval: Duration::from_millis(20),
        node_name: "n".into(),
        gather: gather(),
        counters: Arc::default(),
        log: Log::new(Format::Text, &Levels::new(Level::Error)),
    }
}

/// A folder of the test, removed with it.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let name = format!("crore-push-{name}-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).unwrap();
        Folder(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn check_lines(text: &str) {
    assert_eq!(text.lines().count(), 61, "{text}");
    for line in text.lines() {
        let parsed = parse(line);
        assert!(parsed.name.starts_with("crore_"), "{line}");
        assert_eq!(parsed.tags["node"], "n");
        assert!(parsed.unix_ns > 1_700_000_000_000_000_000, "{line}");
    }
    assert_eq!(parse(text.lines().next().unwrap()).fields["value"], 5.0);
}

#[test]
fn targets() {
    let file = |path: &str| Target::File { path: path.into(), bytes_max: 9 };
    let http = |authority: &str, path: &str| Target::Http {
        authority: authority.into(),
        path: path.into(),
    };
    for (text, expected) in [
        ("file:/a b", Some(file("/a b"))),
        ("file:", None),
        ("udp:localhost:8094", Some(Target::Udp("localhost:8094".into()))),
        ("udp:[::1]:8094", Some(Target::Udp("[::1]:8094".into()))),
        ("udp:localhost", None),
        ("udp:::1:8094", None),
        ("udp:a:0", None),
        ("http://a:8086/write?db=x", Some(http("a:8086", "/write?db=x"))),
        ("http://a", Some(http("a:80", "/"))),
        ("http://a?b", Some(http("a:80", "/?b"))),
        ("http://[::1]:1/x", Some(http("[::1]:1", "/x"))),
        ("http://:1/x", None),
        ("http://a:/x", None),
        ("http://u@a:1/x", None),
        ("http://a:1/x\r\nEvil: y", None),
        ("https://a:1/x", None),
        ("/var/x", None),
        ("", None),
    ] {
        assert_eq!(Target::parse(text, 9), expected, "{text}");
    }
}

#[test]
fn what_the_log_shows_of_a_target_has_no_credentials() {
    let target = Target::parse("http://a:1/write?u=x&p=secret", 9).unwrap();
    assert_eq!(target.to_string(), "http://a:1/write");
}

#[test]
fn what_the_log_hears_stays_a_line_of_its_target() {
    let mut push = push("udp:127.0.0.1:1");
    push.log = Log::new(Format::Json, &Levels::new(Level::Info)).to(LogTarget::Operators);
    let refused = Err(io::Error::other("refused"));
    push.tell(&mut Telling::default(), &refused);
    let found =
        push.log.recent().find(&Wanted { after: 0, level: Level::Info, target: None, len_max: 2 });
    let line: serde_json::Value = serde_json::from_str(&found.lines[0]).unwrap();
    assert_eq!(line["target"], "operators");
    assert_eq!(line["to"], "udp:127.0.0.1:1");
    assert_eq!(line["error"], "refused");
}

#[test]
fn to_a_file_that_stays_bounded() {
    let folder = Folder::new("file");
    let path = folder.0.join("metrics.txt");
    let mut push = push(&format!("file:{}", path.display()));
    push.once().unwrap();
    let first = std::fs::read_to_string(&path).unwrap();
    check_lines(&first);
    push.once().unwrap();
    push.once().unwrap();
    push.once().unwrap();
    let length = |path: &PathBuf| std::fs::metadata(path).unwrap().len();
    let older = folder.0.join("metrics.txt.1");
    assert!(length(&path) <= 8 << 10 && length(&older) <= 8 << 10);
    // Both files together have every push that the rotation has not removed.
    let all = std::fs::read_to_string(&older).unwrap() + &std::fs::read_to_string(&path).unwrap();
    assert_eq!(all.lines().count() % 61, 0);
    assert!(all.lines().count() >= 2 * 61);
    let expected = PushCounts { sent: 4, failed: 0 };
    assert_eq!(push.counters.counts(), expected);
}

#[test]
fn to_a_socket_in_datagrams_that_fit() {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let address = socket.local_addr().unwrap();
    push(&format!("udp:{address}")).once().unwrap();
    let mut text = String::new();
    let mut datagrams = 0;
    while text.lines().count() < 61 {
        let mut datagram = [0; 65_536];
        let bytes = socket.recv(&mut datagram).unwrap();
        assert!(bytes <= 1_400, "{bytes}");
        let part = std::str::from_utf8(&datagram[..bytes]).unwrap();
        assert!(part.ends_with('\n'), "no line is cut");
        text.push_str(part);
        datagrams += 1;
    }
    assert!(datagrams > 1);
    check_lines(&text);
}

/// Answers one request with this, and returns what came.
fn serve_once(listener: TcpListener, answer: &'static str) -> std::thread::JoinHandle<String> {
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        let mut request = String::new();
        let mut part = [0; 4_096];
        let is_whole = |request: &str| {
            let (head, body) = request.split_once("\r\n\r\n")?;
            let length = head.lines().find_map(|line| line.strip_prefix("Content-Length: "))?;
            (body.len() == length.parse::<usize>().ok()?).then_some(())
        };
        while is_whole(&request).is_none() {
            let bytes = stream.read(&mut part).unwrap();
            assert!(bytes > 0, "{request}");
            request.push_str(std::str::from_utf8(&part[..bytes]).unwrap());
        }
        stream.write_all(answer.as_bytes()).unwrap();
        request
    })
}

#[test]
fn to_a_server() {
    for (answer, is_taken) in [
        ("HTTP/1.1 204 No Content\r\n\r\n", true),
        ("HTTP/1.1 400 Bad Request\r\n\r\n", false),
        ("SSH-2.0-x\r\n", false),
        ("", false),
    ] {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let server = serve_once(listener, answer);
        let mut push = push(&format!("http://{address}/write?db=crore"));
        assert_eq!(push.once().is_ok(), is_taken, "{answer}");
        let request = server.join().unwrap();
        let (head, body) = request.split_once("\r\n\r\n").unwrap();
        assert!(head.starts_with("POST /write?db=crore HTTP/1.1\r\n"), "{head}");
        assert!(head.contains(&format!("\r\nHost: {address}\r\n")), "{head}");
        check_lines(body);
        let counts = push.counters.counts();
        assert_eq!((counts.sent, counts.failed), (is_taken.into(), (!is_taken).into()));
    }
}

#[test]
fn nobody_there() {
    // A port without a listener.
    assert!(push("http://127.0.0.1:1/").once().is_err());
    assert!(push("file:/nowhere/at/all").once().is_err());
}

#[test]
fn it_goes_on_by_itself() {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let push = push(&format!("udp:{}", socket.local_addr().unwrap()));
    let counters = Arc::clone(&push.counters);
    spawn(push).unwrap();
    // More than one push brings.
    for _ in 0..10 {
        assert!(socket.recv(&mut [0; 65_536]).unwrap() > 0);
    }
    assert!(counters.counts().sent > 0);
}

#[test]
fn the_log_hears_of_failures_once_a_minute() {
    let mut telling = Telling::default();
    let began = Instant::now();
    let mut tell = |after_s: u64, is_taken: bool| {
        let result = if is_taken { Ok(()) } else { Err(io::Error::other("x")) };
        let line = telling.line(began + Duration::from_secs(after_s), &result);
        line.map(|(level, ..)| level)
    };
    assert_eq!(tell(0, true), None);
    assert_eq!(tell(1, false), Some(Level::Warn));
    assert_eq!(tell(2, false), None);
    assert_eq!(tell(60, false), None);
    assert_eq!(tell(61, false), Some(Level::Warn));
    assert_eq!(tell(62, true), Some(Level::Info));
    assert_eq!(tell(63, true), None);
    assert_eq!(tell(64, false), None);
    assert_eq!(tell(121, false), Some(Level::Warn));
}

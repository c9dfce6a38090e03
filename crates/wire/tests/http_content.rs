//! Formats inside HTTP: bodies, targets, event streams, problems.

mod drive;

use drive::check_cuts;
use wire::http::event_stream::{EventFieldError, OutgoingEvent, append_comment};
use wire::http::problem::append_json_string;
use wire::http::target::{TargetError, append_percent_encoded, percent_decode};
use wire::http::{BodyDecoder, BodyFraming, Problem, Target, body};

fn check_body(framing: BodyFraming, input: &str, expected: &[&str]) {
    let lines = check_cuts(11, |cuts| drive::http_body(input.as_bytes(), framing, 16, cuts));
    let mut lines: Vec<String> = lines;
    // The content appears as text.
    if let Some(content) = lines.first_mut().filter(|line| line.starts_with('[')) {
        let bytes =
            content.trim_matches(['[', ']']).split(", ").filter_map(|byte| byte.parse().ok());
        *content = String::from_utf8(bytes.collect()).unwrap();
    }
    assert_eq!(lines, expected, "{input:?}");
}

#[test]
fn bodies_of_known_length_are_read() {
    check_body(BodyFraming::None, "next", &["", "Ok(()), 4 bytes left"]);
    check_body(BodyFraming::Length(0), "next", &["", "Ok(()), 4 bytes left"]);
    check_body(BodyFraming::Length(3), "onenext", &["one", "Ok(()), 4 bytes left"]);
    check_body(BodyFraming::Length(5), "one", &["one", "Err(Truncated), 0 bytes left"]);
    check_body(BodyFraming::Length(17), "x", &["error 413 TooLarge { body_bytes_max: 16 }"]);
    check_body(BodyFraming::UntilClose, "one\r\n", &["one\r\n", "Ok(()), 0 bytes left"]);
    let long = "x".repeat(17);
    let too_large = "error 413 TooLarge { body_bytes_max: 16 }";
    check_body(BodyFraming::UntilClose, &long, &[&long[..16], too_large]);
}

#[test]
fn chunked_bodies_are_read() {
    let check = |input: &str, expected: &[&str]| check_body(BodyFraming::Chunked, input, expected);
    check("0\r\n\r\n", &["", "Ok(()), 0 bytes left"]);
    check("3\r\none\r\n2\r\nab\r\n0\r\n\r\nnext", &["oneab", "Ok(()), 4 bytes left"]);
    check("A\r\n0123456789\r\n000\r\n\r\n", &["0123456789", "Ok(()), 0 bytes left"]);
    check("3;a=b;c=\"d e\"\r\none\r\n0;x\r\n\r\n", &["one", "Ok(()), 0 bytes left"]);
    check("3 ;a\r\none\r\n0 \r\n\r\n", &["one", "Ok(()), 0 bytes left"]);
    check("0\r\nTrailer: x\r\nOther: y\r\n\r\nnext", &["", "Ok(()), 4 bytes left"]);
    check("3\r\non", &["on", "Err(Truncated), 0 bytes left"]);
    check("3\r\none\r\n", &["one", "Err(Truncated), 0 bytes left"]);
    check("0\r\n", &["", "Err(Truncated), 0 bytes left"]);

    let bad_size = "error 400 BadChunkSize";
    for input in [
        "\r\n",
        "x",
        "-1\r\n",
        "+1\r\n",
        " 1\r\n",
        "0x1\r\n",
        "1\n",
        "1 1\r\n",
        "00000000000000000\r\n",
    ] {
        check(input, &["", bad_size]);
    }
    check("1;a\nx", &["", "error 400 BadByte(10)"]);
    check("1;a\0", &["", "error 400 BadByte(0)"]);
    check("1\rx", &["", "error 400 BadByte(120)"]);
    check("1\r\nab", &["a", "error 400 BadChunkEnd"]);
    check("1\r\na\nb", &["a", "error 400 BadChunkEnd"]);
    check("1\r\na\r\r", &["a", "error 400 BadChunkEnd"]);
    check("0\r\n\n", &["", "error 400 BadByte(10)"]);
    check("0\r\nA: b\n", &["", "error 400 BadByte(10)"]);
    check("0\r\n\rx", &["", "error 400 BadByte(120)"]);

    let too_large = "error 413 TooLarge { body_bytes_max: 16 }";
    check("11\r\n", &["", too_large]);
    check("ffffffffffffffff\r\n", &["", too_large]);
    check("10\r\n0123456789abcdef\r\n1\r\n", &["0123456789abcdef", too_large]);
}

#[test]
fn extensions_and_trailers_are_bounded() {
    let extension = "x".repeat(usize::from(body::EXTENSION_BYTES_MAX));
    check_body(
        BodyFraming::Chunked,
        &format!("1;{extension}\r\n"),
        &["", "error 400 ExtensionsTooLarge"],
    );
    let many = "1;xxxxxxxx\r\na\r\n".repeat(10_000);
    let lines =
        drive::http_body(many.as_bytes(), BodyFraming::Chunked, 1 << 20, drive::Cuts::Whole);
    assert_eq!(lines[1], "error 400 ExtensionsTooLarge");
    let trailers = format!("0\r\n{}", "A: b\r\n".repeat(3000));
    check_body(BodyFraming::Chunked, &trailers, &["", "error 431 TrailersTooLarge"]);
}

#[test]
fn chunks_are_written() {
    let mut out = Vec::new();
    for bytes in [0, 1, 15, 16, 255, 256, 4096] {
        out.clear();
        body::append_chunk(&mut out, &vec![b'x'; bytes]);
        let expected = if bytes == 0 {
            String::new()
        } else {
            format!("{bytes:x}\r\n{}\r\n", "x".repeat(bytes))
        };
        assert_eq!(String::from_utf8(out.clone()).unwrap(), expected);
    }
    assert!(BodyDecoder::new(BodyFraming::None, 0).unwrap().is_end());
}

#[test]
fn targets_are_split() {
    let check = |target: &str, expected: Result<(&str, Option<&str>), TargetError>| {
        let parsed = Target::parse(target).map(|target| (target.path, target.query));
        assert_eq!(parsed, expected, "{target}");
    };
    check("/", Ok(("/", None)));
    check("*", Ok(("*", None)));
    check("/topics//a/b", Ok(("/topics//a/b", None)));
    check("/topics/../a/./b/", Ok(("/topics/../a/./b/", None)));
    check("/a?b?c", Ok(("/a", Some("b?c"))));
    check("/a?", Ok(("/a", Some(""))));
    check("//a", Ok(("//a", None)));
    check("http://host/a?b", Ok(("/a", Some("b"))));
    check("HTTPS://host:1", Ok(("/", None)));
    check("http://host?b", Ok(("/", Some("b"))));
    for bad in ["", "a", "a/b", "host:443", "http:///a", "http://", "ftp://host/", "?a"] {
        check(bad, Err(TargetError::BadForm));
    }
}

#[test]
fn percent_escapes_are_decoded() {
    let check = |encoded: &str, expected: Result<&str, TargetError>| {
        assert_eq!(
            percent_decode(encoded).as_deref().map_err(|error| *error),
            expected,
            "{encoded}"
        );
    };
    check("/a/b", Ok("/a/b"));
    check("a+b", Ok("a+b"));
    check("%2Fa%2fb%20c", Ok("/a/b c"));
    check("%E2%82%AC", Ok("€"));
    check("%00", Ok("\0"));
    check("%2525", Ok("%25"));
    for bad in ["%", "%1", "%1g", "%g1", "a%", "%%20", "%+1", "% 1"] {
        check(bad, Err(TargetError::BadEscape));
    }
    check("%ff", Err(TargetError::InvalidUtf8));
    check("%c0%80", Err(TargetError::InvalidUtf8));
    check("%e2%82", Err(TargetError::InvalidUtf8));

    for text in ["", "a/b c", "prix/€", "a+b&c=d#%?", "\0\n\"\u{10ffff}"] {
        let mut encoded = String::new();
        append_percent_encoded(&mut encoded, text);
        assert!(encoded.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'#'));
        assert_eq!(percent_decode(&encoded).unwrap(), text);
        let target = format!("/?topic={encoded}");
        let value = Target::parse(&target).unwrap().query_value("topic").unwrap().unwrap();
        assert_eq!(value, text);
    }
}

#[test]
fn queries_are_split_into_pairs() {
    let check = |query: &str, expected: &[(&str, &str)]| {
        let target = format!("/?{query}");
        let pairs: Result<Vec<_>, _> = Target::parse(&target).unwrap().query_pairs().collect();
        let pairs = pairs.unwrap();
        let pairs: Vec<(&str, &str)> =
            pairs.iter().map(|(name, value)| (&**name, &**value)).collect();
        assert_eq!(pairs, expected, "{query}");
    };
    check("", &[]);
    check("a=b&c=d", &[("a", "b"), ("c", "d")]);
    check("topic=a%2F%2B&topic=b+c", &[("topic", "a/+"), ("topic", "b c")]);
    check("a&b=&=c&&", &[("a", ""), ("b", ""), ("", "c")]);
    check("a=b=c", &[("a", "b=c")]);
    let bad = |query: &str| Target::parse(query).unwrap().query_pairs().find_map(Result::err);
    assert_eq!(bad("/?a=1&b=%zz"), Some(TargetError::BadEscape));
    assert_eq!(bad("/?%ff=1"), Some(TargetError::InvalidUtf8));
    let target = Target::parse("/?a=1&b=%zz").unwrap();
    assert_eq!(target.query_value("a").unwrap().unwrap(), "1");
    assert_eq!(target.query_value("c"), Err(TargetError::BadEscape));
    assert_eq!(Target::parse("/").unwrap().query_value("a"), Ok(None));
}

/// `expected` is one line for each item: `id|event|data`, `retry n`, `comment`; then `last id`.
fn check_stream(input: &str, expected: &[&str]) {
    let lines = check_cuts(13, |cuts| drive::event_stream(input.as_bytes(), 64, cuts));
    let expected: Vec<String> = expected
        .iter()
        .map(|line| match line.split('|').collect::<Vec<_>>()[..] {
            [id, event, data] => {
                format!("Event(IncomingEvent {{ last_event_id: {id:?}, event: {event:?}, data: {data:?} }})")
            }
            ["comment"] => "Comment".to_string(),
            [line] if line.starts_with("retry ") => format!("Retry({})", &line[6..]),
            [line] if line.starts_with("last ") => format!("last event id {:?}", &line[5..]),
            _ => line.to_string(),
        })
        .collect();
    assert_eq!(lines, expected, "{input:?}");
}

/// The examples of the standard, and its rules one by one.
#[test]
fn event_streams_are_read() {
    check_stream("data: YHOO\ndata: +2\ndata: 10\n\n", &["|message|YHOO\n+2\n10", "last "]);
    check_stream(
        ": test stream\n\ndata: first event\nid: 1\n\ndata:second event\nid\n\ndata:  third event\n\n",
        &[
            "comment",
            "1|message|first event",
            "|message|second event",
            "|message| third event",
            "last ",
        ],
    );
    check_stream("data\n\ndata\ndata\n\ndata:", &["|message|", "|message|\n", "last "]);
    check_stream("data:test\n\ndata: test\n\n", &["|message|test", "|message|test", "last "]);

    check_stream(
        "data: a\r\rdata: b\r\n\r\ndata: c\n\n",
        &["|message|a", "|message|b", "|message|c", "last "],
    );
    check_stream("\u{feff}data: a\n\n", &["|message|a", "last "]);
    check_stream("\u{feff}\u{feff}data: a\n\n", &["last "]);
    check_stream("data: a\n\n\u{feff}data: b\n\n", &["|message|a", "last "]);
    check_stream("id: 7\n\n", &["last 7"]);
    check_stream("id: 7\ndata: a\n", &["last "]);
    check_stream(
        "id: 7\ndata: a\n\nid: \0x\ndata: b\n\n",
        &["7|message|a", "7|message|b", "last 7"],
    );
    check_stream("event: add\ndata: 1\n\ndata: 2\n\n", &["|add|1", "|message|2", "last "]);
    check_stream("event: add\n\ndata: 2\n\n", &["|message|2", "last "]);
    check_stream(
        "retry: 1500\nretry: 1x\nretry:\nretry: 99999999999999999999999\n",
        &["retry 1500", "last "],
    );
    check_stream("Data: a\nunknown: b\n data: c\n\n", &["last "]);
    check_stream("data: a:b\n\n", &["|message|a:b", "last "]);
    check_stream("data: é€𝄞\n\n", &["|message|é€𝄞", "last "]);
    check_stream(":\n:\n\n", &["comment", "comment", "last "]);
    let long = "x".repeat(65);
    let too_large = "error TooLarge { event_bytes_max: 64 }";
    check_stream(&long, &[too_large]);
    check_stream(&format!("data: {}\n", &long[..59]), &[too_large]);
    check_stream(&"data: 12345678901234567890\n".repeat(4), &[too_large]);
}

#[test]
fn invalid_utf8_is_replaced() {
    let lines = check_cuts(1, |cuts| drive::event_stream(b"data: a\xffb\xe2\x82\n\n", 64, cuts));
    assert!(lines[0].contains("a\u{fffd}b\u{fffd}"), "{lines:?}");
}

#[test]
fn events_are_written() {
    let check = |event: OutgoingEvent<'_>, expected: Result<&str, EventFieldError>| {
        let mut out = Vec::new();
        let encoded = event.encode(&mut out).map(|()| String::from_utf8(out.clone()).unwrap());
        assert_eq!(encoded.as_deref().map_err(|error| *error), expected);
        assert_eq!(out.is_empty(), expected.is_err());
    };
    let event = OutgoingEvent::default();
    let all = OutgoingEvent {
        id: Some("e:1"),
        event: Some("add"),
        retry_ms: Some(2000),
        data: Some("x"),
    };
    check(all, Ok("retry: 2000\nid: e:1\nevent: add\ndata: x\n\n"));
    check(OutgoingEvent { data: Some(""), ..event }, Ok("data: \n\n"));
    check(
        OutgoingEvent { data: Some("a\nb\rc\r\nd\n"), ..event },
        Ok("data: a\ndata: b\ndata: c\ndata: d\ndata: \n\n"),
    );
    check(OutgoingEvent { data: Some(" a"), ..event }, Ok("data:  a\n\n"));
    check(OutgoingEvent { id: Some(""), ..event }, Ok("id: \n\n"));
    for id in ["\0", "a\n", "\r"] {
        check(
            OutgoingEvent { id: Some(id), data: Some("x"), ..event },
            Err(EventFieldError::BadId),
        );
    }
    check(OutgoingEvent { event: Some("a\nid: 1"), ..event }, Err(EventFieldError::BadEvent));

    let mut out = Vec::new();
    append_comment(&mut out, "");
    append_comment(&mut out, "a\ndata: b");
    assert_eq!(String::from_utf8(out).unwrap(), ":\n\n: a\n: data: b\n\n");
}

#[test]
fn problems_are_encoded() {
    let mut out = Vec::new();
    Problem {
        title: "Bad Request",
        status: 400,
        detail: "topic \"a\\b\"\n\u{1}é",
        code: "bad_topic",
        ..Problem::default()
    }
    .encode(&mut out);
    assert_eq!(
        String::from_utf8(out).unwrap(),
        "{\"type\":\"about:blank\",\"title\":\"Bad Request\",\
         \"detail\":\"topic \\\"a\\\\b\\\"\\n\\u0001é\",\"code\":\"bad_topic\",\"status\":400}"
    );
    let mut out = Vec::new();
    append_json_string(&mut out, "\u{0}\u{1f}\u{7f}\t\r/");
    assert_eq!(out, b"\"\\u0000\\u001f\x7f\\t\\r/\"");
}

/// The form of RFC 8259, byte by byte.
fn json_string(text: &str) -> String {
    let mut out = String::from("\"");
    for letter in text.chars() {
        match letter {
            '"' | '\\' => out.extend(['\\', letter]),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\0'..='\u{1f}' => out.push_str(&format!("\\u{:04x}", u32::from(letter))),
            _ => out.push(letter),
        }
    }
    out + "\""
}

/// Eight bytes are looked at together: each letter at each place in them, between others.
#[test]
fn a_json_string_escapes_at_every_place() {
    let letters: Vec<char> = ('\0'..='\u{ff}').chain(['\u{1f980}', '\u{20ac}']).collect();
    for between in ["", "a", "\u{80}", "\u{7f}", "!", "[", "\"", "\u{1f}"] {
        for place in 0..20 {
            for letter in &letters {
                let text =
                    format!("{}{letter}{}", between.repeat(place), between.repeat(20 - place));
                let mut out = b"x".to_vec();
                append_json_string(&mut out, &text);
                assert_eq!(String::from_utf8(out), Ok(format!("x{}", json_string(&text))));
            }
        }
    }
}

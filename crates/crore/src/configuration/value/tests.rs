//! Values as they are written, refused and shown.

use super::*;

#[test]
fn sizes_and_durations() {
    for (text, bytes) in [
        ("0", Some(0)),
        ("512", Some(512)),
        ("512B", Some(512)),
        ("64KiB", Some(65_536)),
        ("64 KiB", Some(65_536)),
        ("2GiB", Some(2 << 30)),
        ("64KB", None),
        ("64kib", None),
        ("-1", None),
        ("", None),
        ("KiB", None),
        ("1.5MiB", None),
        ("18446744073709551615KiB", None),
    ] {
        assert_eq!(parse_size(text), bytes, "{text}");
    }
    for (text, span_ms) in [
        ("250ms", Some(250)),
        ("25s", Some(25_000)),
        ("3m", Some(180_000)),
        ("1d", Some(86_400_000)),
        ("25", None),
        ("s", None),
        ("25 s", Some(25_000)),
        ("25sec", None),
    ] {
        assert_eq!(parse_duration(text), span_ms, "{text}");
    }
}

#[test]
fn shown_values_read_back() {
    let size = Kind::Size { min: 0, max: u64::MAX, auto: true };
    let duration = Kind::Duration { min_ms: 0, max_ms: u64::MAX, step_ms: 1, auto: true };
    for (kind, text, shown) in [
        (size, "262144", "\"256KiB\""),
        (size, "1000", "\"1000\""),
        (size, "0", "\"0\""),
        (size, "auto", "\"auto\""),
        (duration, "180s", "\"180s\""),
        (duration, "1500ms", "\"1500ms\""),
        (duration, "60m", "\"1h\""),
        (duration, "0s", "\"0s\""),
        (Kind::Boolean, "true", "true"),
        (Kind::Text { bytes_max: 9 }, "a\"b", "\"a\\\"b\""),
        (Kind::Addresses, "127.0.0.1:1,[::1]:2", "[\"127.0.0.1:1\", \"[::1]:2\"]"),
        (Kind::Origins, "https://a.example", "[\"https://a.example\"]"),
        (Kind::Origins, "", "[]"),
        (Kind::Networks, "10.0.0.0/8, ::1", "[\"10.0.0.0/8\", \"::1/128\"]"),
    ] {
        let value = kind.read_text(text).unwrap();
        assert_eq!(value.to_string(), shown);
        let table: toml::Table = format!("x = {shown}").parse().unwrap();
        let again = match &table["x"] {
            toml::Value::String(text) => kind.read(&Raw::Text(text.clone())),
            toml::Value::Boolean(switch) => kind.read(&Raw::Boolean(*switch)),
            toml::Value::Array(parts) => kind.read(&Raw::Array(
                parts.iter().map(|part| Raw::Text(part.as_str().unwrap().into())).collect(),
            )),
            other => panic!("{other}"),
        };
        assert_eq!(again, Ok(value));
    }
}

#[test]
fn refusals_say_what_was_expected() {
    let count = Kind::Count { min: 1, max: 9, auto: true };
    for bad in ["0", "10", "-1", "x", "1.5", ""] {
        let refusal = count.read_text(bad).unwrap_err();
        assert_eq!(refusal.expected, "an integer from 1 to 9 or \"auto\"", "{bad}");
    }
    let seconds = Kind::Duration { min_ms: 0, max_ms: 60_000, step_ms: 1_000, auto: false };
    for bad in ["1500ms", "61s", "5", "auto"] {
        assert!(seconds.read_text(bad).is_err(), "{bad}");
    }
    for bad in ["example.com", "https://a/b", "https://", "HTTPS://a", "https://*"] {
        assert!(Kind::Origins.read_text(bad).is_err(), "{bad}");
    }
    for bad in ["00", &"0".repeat(63), &"g".repeat(64)] {
        let refusal = Kind::Keys.read_text(bad).unwrap_err();
        assert!(!refusal.problem.contains(bad), "{refusal:?}");
    }
    for bad in ["10.0.0.1/8", "10.0.0.0/33", "localhost", "::/129"] {
        assert!(Kind::Networks.read_text(bad).is_err(), "{bad}");
    }
    for bad in ["-1", "soon", "2026-01-31"] {
        assert!(Kind::Moment.read_text(bad).is_err(), "{bad}");
    }
    for bad in ["127.0.0.1", "localhost:80", "127.0.0.1:99999"] {
        assert!(Kind::Addresses.read_text(bad).is_err(), "{bad}");
    }
}

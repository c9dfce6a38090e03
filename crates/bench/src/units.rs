//! Durations and sizes as people write them: `30s`, `250ms`, `1h30m`, `64KiB`, `512`.
//!
//! Place: the command line's value parsers. Pure.

use std::time::Duration;

/// Reads a duration: a sequence of `<number><unit>` with the units `ns`, `us`, `µs`, `ms`, `s`,
/// `m`, `h`, `d`; the number may have a fraction. `0` needs no unit, any other bare number is
/// refused, as its unit is unclear.
///
/// # Errors
/// A sentence with the expected form.
pub fn parse_duration(text: &str) -> Result<Duration, String> {
    let text = text.trim();
    if text == "0" {
        return Ok(Duration::ZERO);
    }
    let expected = || format!("`{text}` is not a duration such as 250ms, 30s or 1h30m");
    let mut rest = text;
    let mut nanos = 0f64;
    while !rest.is_empty() {
        let digits = rest
            .find(|letter: char| !letter.is_ascii_digit() && letter != '.')
            .ok_or_else(expected)?;
        let number: f64 = rest[..digits].parse().map_err(|_| expected())?;
        rest = &rest[digits..];
        let letters = rest
            .find(|letter: char| letter.is_ascii_digit() || letter == '.')
            .unwrap_or(rest.len());
        let unit_ns = match &rest[..letters] {
            "ns" => 1.0,
            "us" | "µs" => 1e3,
            "ms" => 1e6,
            "s" => 1e9,
            "m" => 60e9,
            "h" => 3_600e9,
            "d" => 86_400e9,
            _ => return Err(expected()),
        };
        nanos += number * unit_ns;
        rest = &rest[letters..];
    }
    // Beyond u64 nanoseconds (584 years) nothing is meant seriously.
    if text.is_empty() || !nanos.is_finite() || nanos >= u64::MAX as f64 {
        return Err(expected());
    }
    Ok(Duration::from_nanos(nanos.round() as u64))
}

/// Reads a size in bytes: a whole number, alone or with `B`, `KiB`, `MiB`, `GiB` (powers of 1024)
/// or `kB`, `MB`, `GB` (powers of 1000).
///
/// # Errors
/// A sentence with the expected form.
pub fn parse_size(text: &str) -> Result<u64, String> {
    let text = text.trim();
    let expected = || format!("`{text}` is not a size such as 512, 64KiB or 1MiB");
    let digits = text.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(text.len());
    let number: u64 = text[..digits].parse().map_err(|_| expected())?;
    let unit = match text[digits..].trim_start() {
        "" | "B" => 1,
        "KiB" => 1 << 10,
        "MiB" => 1 << 20,
        "GiB" => 1 << 30,
        "kB" | "KB" => 1_000,
        "MB" => 1_000_000,
        "GB" => 1_000_000_000,
        _ => return Err(expected()),
    };
    number.checked_mul(unit).ok_or_else(expected)
}

/// Reads a rate per second: a number, perhaps with a fraction and the suffix `k` or `M`; `/s` may
/// follow.
///
/// # Errors
/// A sentence with the expected form.
pub fn parse_rate(text: &str) -> Result<f64, String> {
    let trimmed = text.trim();
    let expected = || format!("`{trimmed}` is not a rate per second such as 1000, 2.5k or 1M");
    let number = trimmed.strip_suffix("/s").unwrap_or(trimmed);
    let rate = scaled(number, &[('k', 1e3), ('M', 1e6)]).ok_or_else(expected)?;
    if rate < 0.0 {
        return Err(expected());
    }
    Ok(rate)
}

/// Reads a finite number with an optional unit at its end.
pub fn scaled(text: &str, units: &[(char, f64)]) -> Option<f64> {
    let found = units.iter().find_map(|(unit, factor)| Some((text.strip_suffix(*unit)?, *factor)));
    let (number, factor) = found.unwrap_or((text, 1.0));
    number.parse().ok().filter(|number: &f64| number.is_finite()).map(|number| number * factor)
}

/// A latency for people: three significant digits with the unit that fits (`840 µs`, `1.25 ms`,
/// `3.10 s`).
pub fn show_micros(micros: f64) -> String {
    let (value, unit) = match micros {
        m if m >= 1e6 => (m / 1e6, "s"),
        m if m >= 1e3 => (m / 1e3, "ms"),
        m => (m, "µs"),
    };
    let digits = if value >= 100.0 || unit == "µs" {
        0
    } else if value >= 10.0 {
        1
    } else {
        2
    };
    format!("{value:.digits$} {unit}")
}

/// A count for people, with thin separation of thousands: `1,234,567`.
pub fn show_count(count: u64) -> String {
    let digits = count.to_string();
    let mut shown = String::with_capacity(digits.len() * 4 / 3);
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            shown.push(',');
        }
        shown.push(digit);
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations() {
        fn check(text: &str, nanos: Option<u64>) {
            let read = parse_duration(text).ok().map(|duration| duration.as_nanos() as u64);
            assert_eq!(read, nanos, "{text}");
        }
        check("30s", Some(30_000_000_000));
        check("250ms", Some(250_000_000));
        check("1h30m", Some(5_400_000_000_000));
        check("1.5s", Some(1_500_000_000));
        check("7us", Some(7_000));
        check("7µs", Some(7_000));
        check("1d", Some(86_400_000_000_000));
        check("0", Some(0));
        for wrong in ["", "30", "s", "3x", "1..2s", "-1s", "99999999999d", "1 s", "."] {
            check(wrong, None);
        }
    }

    #[test]
    fn sizes() {
        fn check(text: &str, bytes: Option<u64>) {
            assert_eq!(parse_size(text).ok(), bytes, "{text}");
        }
        check("512", Some(512));
        check("64KiB", Some(65_536));
        check("64 KiB", Some(65_536));
        check("1MiB", Some(1 << 20));
        check("2kB", Some(2_000));
        check("1GiB", Some(1 << 30));
        for wrong in ["", "KiB", "1.5KiB", "-1", "64kib", "99999999999GiB"] {
            check(wrong, None);
        }
    }

    #[test]
    fn rates() {
        assert_eq!(parse_rate("1000"), Ok(1000.0));
        assert_eq!(parse_rate("2.5k/s"), Ok(2500.0));
        assert_eq!(parse_rate("1M"), Ok(1e6));
        for wrong in ["", "k", "-1", "nan", "inf", "1G"] {
            assert!(parse_rate(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn shown() {
        assert_eq!(show_micros(84.4), "84 µs");
        assert_eq!(show_micros(1_250.0), "1.25 ms");
        assert_eq!(show_micros(12_540.0), "12.5 ms");
        assert_eq!(show_micros(3_100_000.0), "3.10 s");
        assert_eq!(show_count(0), "0");
        assert_eq!(show_count(999), "999");
        assert_eq!(show_count(1_234_567), "1,234,567");
    }
}

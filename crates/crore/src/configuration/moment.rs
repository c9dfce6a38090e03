//! Moments of the wall clock as options give them: seconds since 1970, or the text of RFC 3339.
//!
//! Pure.

/// Milliseconds since 1970 of `2026-01-31T12:00:00Z`, with an optional fraction or
/// offset (`+02:00`). None for any other text, and for moments before 1970.
pub fn parse_moment(text: &str) -> Option<u64> {
    let (date, time) = text.split_once(['T', 't'])?;
    let mut parts = date.split('-').map(digits);
    let (year, month, day) = (parts.next()??, parts.next()??, parts.next()??);
    if parts.next().is_some() || date.len() != 10 {
        return None;
    }
    let split = time.find(['Z', 'z', '+', '-'])?;
    let (clock, zone) = time.split_at(split);
    let (clock, fraction) = clock.split_once('.').unwrap_or((clock, "0"));
    let mut parts = clock.split(':').map(digits);
    let (hour, minute, second) = (parts.next()??, parts.next()??, parts.next()??);
    if parts.next().is_some() || clock.len() != 8 {
        return None;
    }
    let is_real = (1..=12).contains(&month)
        && (1..=days_of(year, month)).contains(&day)
        && hour < 24
        && minute < 60
        && second < 60;
    if !is_real {
        return None;
    }
    let offset_min = match zone {
        "Z" | "z" => 0,
        _ => {
            let (hours, minutes) = zone[1..].split_once(':')?;
            let (hours, minutes) = (digits(hours)?, digits(minutes)?);
            if zone.len() != 6 || hours > 23 || minutes > 59 {
                return None;
            }
            let minutes = hours * 60 + minutes;
            if zone.starts_with('-') { -minutes } else { minutes }
        }
    };
    digits(fraction)?;
    let milliseconds = digits(&format!("{fraction:0<3}")[..3])?;
    let minutes = (days_before(year, month) + day - 1) * 24 * 60 + hour * 60 + minute - offset_min;
    u64::try_from((minutes * 60 + second) * 1_000 + milliseconds).ok()
}

fn digits(text: &str) -> Option<i64> {
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| text.parse().ok()).flatten()
}

fn is_leap(year: i64) -> bool {
    year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
}

fn days_of(year: i64, month: i64) -> i64 {
    match month {
        2 if is_leap(year) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Days from 1970 to the month's first.
fn days_before(year: i64, month: i64) -> i64 {
    let leaps = |years: i64| years / 4 - years / 100 + years / 400;
    let of_years = (year - 1970) * 365 + leaps(year - 1) - leaps(1969);
    of_years + (1..month).map(|month| days_of(year, month)).sum::<i64>()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments() {
        for (text, expected_ms) in [
            ("1970-01-01T00:00:00Z", Some(0)),
            ("1970-01-02T00:00:01.25Z", Some(86_401_250)),
            ("2000-02-29T12:00:00Z", Some(951_825_600_000)),
            ("2000-02-29T14:00:00+02:00", Some(951_825_600_000)),
            ("2000-02-29t09:30:00-02:30", Some(951_825_600_000)),
            ("2026-11-22T02:20:00Z", Some(1_795_314_000_000)),
            ("2100-03-01T00:00:00z", Some(4_107_542_400_000)),
            ("1969-12-31T23:59:59Z", None),
            ("1970-01-01T01:00:00+02:00", None),
            ("2001-02-29T12:00:00Z", None),
            ("2001-13-01T12:00:00Z", None),
            ("2001-01-01T24:00:00Z", None),
            ("2001-01-01T12:00:00", None),
            ("2001-01-01 12:00:00Z", None),
            ("2001-1-1T12:00:00Z", None),
            ("2001-01-01T12:00Z", None),
            ("2001-01-01T12:00:00.Z", None),
            ("2001-01-01T12:00:00+2:00", None),
            ("2001-01-01T12:00:00Zx", None),
            ("", None),
        ] {
            assert_eq!(parse_moment(text), expected_ms, "{text}");
        }
    }
}

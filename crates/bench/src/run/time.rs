//! Moments as people write them, in UTC.
//!
//! Place: the head of a report and the name of its directory. Pure.

use std::time::{SystemTime, UNIX_EPOCH};

/// `2026-01-31T12:00:00Z`.
pub fn rfc3339(moment: SystemTime) -> String {
    let (date, [hour, minute, second]) = parts(moment);
    format!("{date}T{hour:02}:{minute:02}:{second:02}Z")
}

/// `2026-01-31-120000`, for the name of a file.
pub fn compact(moment: SystemTime) -> String {
    let (date, [hour, minute, second]) = parts(moment);
    format!("{date}-{hour:02}{minute:02}{second:02}")
}

fn parts(moment: SystemTime) -> (String, [u64; 3]) {
    let seconds = moment.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let (mut days, of_day) = (seconds / 86_400, seconds % 86_400);
    let mut year = 1970;
    let is_leap = |year: u64| {
        year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400))
    };
    let length = |year| if is_leap(year) { 366 } else { 365 };
    while days >= length(year) {
        days -= length(year);
        year += 1;
    }
    let february = if is_leap(year) { 29 } else { 28 };
    let mut month = 1;
    for length in [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31] {
        if days < length {
            break;
        }
        days -= length;
        month += 1;
    }
    let date = format!("{year:04}-{month:02}-{:02}", days + 1);
    (date, [of_day / 3_600, of_day / 60 % 60, of_day % 60])
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn moments() {
        let check = |seconds, wanted: &str| {
            let moment = UNIX_EPOCH + Duration::from_secs(seconds);
            assert_eq!(rfc3339(moment), wanted);
        };
        check(0, "1970-01-01T00:00:00Z");
        check(951_782_399, "2000-02-28T23:59:59Z");
        check(951_782_400, "2000-02-29T00:00:00Z");
        check(1_704_067_199, "2023-12-31T23:59:59Z");
        check(4_107_542_400, "2100-03-01T00:00:00Z");
        assert_eq!(compact(UNIX_EPOCH), "1970-01-01-000000");
    }
}

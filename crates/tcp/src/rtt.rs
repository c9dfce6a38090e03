//! The retransmission timeout (RFC 6298), from a smoothed round trip in quarters of a millisecond.

use crate::line::{GUESSED, Line};

/// RFC 6298, 2.4 wants a second; every system in use takes less, and so does this one.
const RTO_MIN_MS: u32 = 200;
const RTO_MAX_MS: u32 = 60_000;
const KEPT_MAX_MS: u32 = 3_000;
/// The timeout before the first sample (RFC 6298, 2.1).
const RTO_FIRST_MS: u32 = 1_000;

/// Adds a sample, in microseconds.
pub(crate) fn sample(line: &mut Line, rtt_us: u32) {
    let rtt = (rtt_us / 250).min(u32::from(u16::MAX - 1)) as u16;
    if !is_known(line) {
        line.clear(GUESSED);
        (line.srtt, line.rttvar) = (rtt, rtt / 2);
        return;
    }
    let error = line.srtt.abs_diff(rtt);
    line.rttvar = ((3 * u32::from(line.rttvar) + u32::from(error)) / 4) as u16;
    line.srtt = ((7 * u32::from(line.srtt) + u32::from(rtt)) / 8) as u16;
}

/// The timeout in milliseconds, doubled for each time that it has passed in a row.
pub(crate) fn timeout_ms(line: &Line, backoff: u8) -> u32 {
    let first = if line.srtt == u16::MAX {
        RTO_FIRST_MS
    } else {
        // 4 times the variation. The least value is on that part, or a steady path would leave no
        // time for a delayed acknowledgement.
        u32::from(line.srtt) / 4 + u32::from(line.rttvar).max(RTO_MIN_MS)
    };
    (first << backoff.min(9)).min(RTO_MAX_MS)
}

/// Keeps a timeout that was long enough, at most three seconds of it, until a sample comes. The
/// acknowledged bytes had been sent again, so their round trip is not known (RFC 6298, 5; Karn's
/// algorithm).
pub(crate) fn keep(line: &mut Line, timeout_ms: u32) {
    let timeout_ms = timeout_ms.min(KEPT_MAX_MS);
    if is_known(line) {
        let rest_ms = timeout_ms.saturating_sub(u32::from(line.srtt) / 4);
        line.rttvar = line.rttvar.max(rest_ms as u16);
    } else {
        // A third is the round trip, and its half the variation, as after a first sample.
        line.set(GUESSED);
        let quarters = timeout_ms * 4 / 3;
        (line.srtt, line.rttvar) = (quarters as u16, (quarters / 2) as u16);
    }
}

/// Whether there was a sample.
pub(crate) fn is_known(line: &Line) -> bool {
    line.srtt != u16::MAX && !line.has(GUESSED)
}

/// The smoothed round trip in microseconds; 0 before the first sample.
pub(crate) fn smoothed_us(line: &Line) -> u32 {
    if is_known(line) { u32::from(line.srtt) * 250 } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_timeout_follows_the_samples() {
        let mut line = Line::vacant(1, 0);
        assert_eq!((timeout_ms(&line, 0), timeout_ms(&line, 3)), (1_000, 8_000));
        sample(&mut line, 100_000);
        assert_eq!((line.srtt, line.rttvar), (400, 200));
        // RFC 6298, 2.2: SRTT + 4 * RTTVAR, and RTTVAR is half of the first sample.
        assert_eq!(timeout_ms(&line, 0), 300);
        (0..50).for_each(|_| sample(&mut line, 100_000));
        assert_eq!(timeout_ms(&line, 0), 100 + RTO_MIN_MS);
        keep(&mut line, 4 * (100 + RTO_MIN_MS));
        assert_eq!(timeout_ms(&line, 0), 4 * (100 + RTO_MIN_MS));
        keep(&mut line, 60_000);
        assert_eq!(timeout_ms(&line, 0), 3_000);
        (0..50).for_each(|_| sample(&mut line, 100_000));
        assert_eq!(timeout_ms(&line, 0), 100 + RTO_MIN_MS);
        sample(&mut line, 3_000_000);
        assert!((3_000..3_500).contains(&timeout_ms(&line, 0)), "{}", timeout_ms(&line, 0));
        assert_eq!(timeout_ms(&line, 200), RTO_MAX_MS);
        sample(&mut line, u32::MAX);
        assert!(line.srtt < u16::MAX);
    }

    #[test]
    fn a_kept_timeout_holds_until_the_first_sample() {
        let mut line = Line::vacant(1, 0);
        for timeout in [2_000, 3_000] {
            keep(&mut line, timeout);
            assert!(timeout_ms(&line, 0).abs_diff(timeout) < 10 && !is_known(&line));
        }
        sample(&mut line, 100_000);
        assert_eq!((timeout_ms(&line, 0), is_known(&line)), (300, true));
    }
}

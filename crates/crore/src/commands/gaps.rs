//! Gaps of a filter as one sentence: a server reports them by partition, and a person needs one
//! line for one event.
//!
//! Place: between the events of `sub` and the terminal, beside `messages`. Programs (`--json`) get
//! every gap separately.

use super::messages::{cause_word, escape, position_text};
use client::{Event, GapCause, Position};

/// Maximum number of partitions whose ranges a sentence lists.
const RANGES_MAX: usize = 3;

/// Consecutive gaps of one filter with one reason.
#[derive(Default)]
pub struct FilterGaps {
    told: Vec<FilterGap>,
}

struct FilterGap {
    filter: String,
    partition: u32,
    from: Option<Position>,
    to: Option<Position>,
    cause: GapCause,
}

impl FilterGaps {
    /// Adds an event. Returns false if the event is not a gap of a partition, or has another filter
    /// or reason: then the caller prints the collected gaps first.
    pub fn take(&mut self, event: &Event) -> bool {
        let Event::Gap { filter, partition: Some(partition), from, to, cause, .. } = event else {
            return false;
        };
        let is_same = |told: &FilterGap| *told.filter == **filter && told.cause == *cause;
        if !self.told.first().is_none_or(is_same) {
            return false;
        }
        self.told.push(FilterGap {
            filter: filter.to_string(),
            partition: *partition,
            from: *from,
            to: *to,
            cause: *cause,
        });
        true
    }

    /// Takes the collected gaps as one sentence; none if there are no gaps.
    pub fn sentence(&mut self) -> Option<String> {
        let told = std::mem::take(&mut self.told);
        let first = told.first()?;
        let (filter, cause) = (escape(&first.filter), cause_word(first.cause));
        let place =
            |place: Option<Position>| place.map_or("an unknown position".into(), position_text);
        let range = |gap: &FilterGap| {
            let (from, to) = (place(gap.from), place(gap.to));
            format!("{} after {from} up to {to}", gap.partition)
        };
        let mut ranges: Vec<String> = told.iter().take(RANGES_MAX).map(range).collect();
        if told.len() > RANGES_MAX {
            ranges.push(format!("and {} more", told.len() - RANGES_MAX));
        }
        let (count, ranges) = (told.len(), ranges.join(", "));
        let partitions = if count == 1 { "partition" } else { "partitions" };
        Some(format!(
            "gap: {filter}: messages of {count} {partitions} are lost ({cause}): {ranges}"
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use client::{GapReason, SubscriptionId};

    fn gap(filter: &str, partition: Option<u32>, reason: GapReason) -> Event {
        let at = |offset| Some(Position { epoch: 7, offset });
        Event::Gap {
            subscription: SubscriptionId(1),
            filter: filter.into(),
            partition,
            from: partition.and_then(|partition| at(u64::from(partition))),
            to: at(100),
            cause: GapCause::Announced(reason),
        }
    }

    #[test]
    fn one_sentence_for_all_partitions() {
        let mut gaps = FilterGaps::default();
        assert_eq!(gaps.sentence(), None);
        assert!(!gaps.take(&gap("a", None, GapReason::Evicted)));
        assert!(gaps.take(&gap("a/\u{1b}#", Some(3), GapReason::Evicted)));
        assert_eq!(
            gaps.sentence().as_deref(),
            Some(
                "gap: a/\\u{1b}#: messages of 1 partition are lost (evicted): 3 after 7:3 up to 7:100"
            )
        );
        for partition in 0..64 {
            assert!(gaps.take(&gap("a/#", Some(partition), GapReason::Evicted)));
        }
        assert!(!gaps.take(&gap("a/#", Some(1), GapReason::UnknownEpoch)));
        assert!(!gaps.take(&gap("b/#", Some(1), GapReason::Evicted)));
        assert_eq!(
            gaps.sentence().as_deref(),
            Some(
                "gap: a/#: messages of 64 partitions are lost (evicted): 0 after 7:0 up to 7:100, \
                 1 after 7:1 up to 7:100, 2 after 7:2 up to 7:100, and 61 more"
            )
        );
        assert_eq!(gaps.sentence(), None);
    }
}

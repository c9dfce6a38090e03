//! A set of time spans, for a rate over the time of an activity instead of the whole run.
//!
//! Place: one in each tally, for connects. Pure. Merging in any order gives the same set, as long
//! as it is below its bound.

/// Between spans with less than this between them, it went on too.
const JOIN_NS: u64 = 1_000_000_000;
/// Beyond so many spans the newest ones are joined.
const SPANS_MAX: usize = 1_024;

/// Spans of the monotonic clock, ascending and apart.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Spans {
    spans: Vec<(u64, u64)>,
}

impl Spans {
    /// It went on from `begin_ns` to `end_ns`.
    pub fn add(&mut self, begin_ns: u64, end_ns: u64) {
        let (mut begin, mut end) = (begin_ns, end_ns.max(begin_ns));
        // Those from `low` to `high` are near enough to become one with it.
        let low = self.spans.partition_point(|(_, before)| before.saturating_add(JOIN_NS) < begin);
        let high = self.spans.partition_point(|(after, _)| *after <= end.saturating_add(JOIN_NS));
        if let Some((first, _)) = self.spans[low..high].first() {
            begin = begin.min(*first);
        }
        if let Some((_, last)) = self.spans[low..high].last() {
            end = end.max(*last);
        }
        if high == low + 1 {
            self.spans[low] = (begin, end);
        } else {
            self.spans.splice(low..high, [(begin, end)]);
        }
        if self.spans.len() > SPANS_MAX
            && let Some((_, end)) = self.spans.pop()
            && let Some(last) = self.spans.last_mut()
        {
            last.1 = end;
        }
    }

    /// Adds all of another set.
    pub fn merge(&mut self, other: &Spans) {
        for (begin, end) in &other.spans {
            self.add(*begin, *end);
        }
    }

    /// Empties it and keeps its memory.
    pub fn clear(&mut self) {
        self.spans.clear();
    }

    /// Total length, in seconds.
    pub fn seconds(&self) -> f64 {
        let nanos: u64 = self.spans.iter().map(|(begin, end)| end - begin).sum();
        nanos as f64 / 1e9
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_join() {
        fn check(added: &[(u64, u64)], joined: &[(u64, u64)]) {
            let seconds = |spans: &[(u64, u64)]| -> Vec<(u64, u64)> {
                spans
                    .iter()
                    .map(|(begin, end)| (begin * JOIN_NS / 10, end * JOIN_NS / 10))
                    .collect()
            };
            let mut spans = Spans::default();
            for (begin, end) in seconds(added) {
                spans.add(begin, end);
            }
            assert_eq!(spans.spans, seconds(joined), "{added:?}");
            let mut merged = Spans::default();
            for (begin, end) in seconds(added).into_iter().rev() {
                let mut one = Spans::default();
                one.add(begin, end);
                merged.merge(&one);
            }
            assert_eq!(merged, spans, "{added:?} the other way round");
        }
        check(&[], &[]);
        check(&[(10, 12), (11, 15)], &[(10, 15)]);
        check(&[(10, 12), (22, 23)], &[(10, 23)]);
        check(&[(10, 12), (23, 24)], &[(10, 12), (23, 24)]);
        check(&[(10, 12), (40, 41), (0, 60)], &[(0, 60)]);
        check(&[(10, 12), (30, 31), (20, 22)], &[(10, 31)]);
        check(&[(50, 60), (10, 12)], &[(10, 12), (50, 60)]);
    }

    #[test]
    fn what_lasts_is_counted_and_bounded() {
        let mut spans = Spans::default();
        spans.add(JOIN_NS, 2 * JOIN_NS);
        spans.add(10 * JOIN_NS, 10 * JOIN_NS + JOIN_NS / 2);
        assert!((spans.seconds() - 1.5).abs() < 1e-9);
        for number in 0..3 * SPANS_MAX as u64 {
            spans.add(number * 3 * JOIN_NS, number * 3 * JOIN_NS + 1);
        }
        assert_eq!(spans.spans.len(), SPANS_MAX);
        spans.clear();
        assert_eq!(spans, Spans::default());
    }
}

//! Latencies in a fixed number of classes, each at most 3 % wide.

/// Classes for each doubling.
const CLASSES: u64 = 32;

/// Counted values, in nanoseconds.
#[derive(Clone, Debug)]
pub struct Histogram {
    counts: Vec<u64>,
    count: u64,
    max: u64,
}

impl Histogram {
    /// Without values.
    pub fn new() -> Histogram {
        Histogram { counts: vec![0; class(u64::MAX) + 1], count: 0, max: 0 }
    }

    /// Counts one value.
    pub fn record(&mut self, value: u64) {
        self.counts[class(value)] += 1;
        self.count += 1;
        self.max = self.max.max(value);
    }

    /// Adds all values of another one.
    pub fn add(&mut self, other: &Histogram) {
        for (count, more) in self.counts.iter_mut().zip(&other.counts) {
            *count += more;
        }
        self.count += other.count;
        self.max = self.max.max(other.max);
    }

    /// The greatest value; 0 without values.
    pub fn max(&self) -> u64 {
        self.max
    }

    /// The least value that this part of all values does not exceed, from 0 to 1.
    pub fn quantile(&self, part: f64) -> u64 {
        let wanted = (self.count as f64 * part).ceil() as u64;
        let mut seen = 0;
        for (class, count) in self.counts.iter().enumerate() {
            seen += count;
            if seen >= wanted && *count > 0 {
                return end(class as u64).min(self.max);
            }
        }
        self.max
    }
}

/// The class of a value: exact below [`CLASSES`], then by its first bits.
fn class(value: u64) -> usize {
    let doublings = u64::from(64 - (value / CLASSES).leading_zeros());
    let class = match doublings {
        0 => value,
        _ => doublings * CLASSES + (value >> (doublings - 1)) - CLASSES,
    };
    class as usize
}

/// The greatest value of a class.
fn end(class: u64) -> u64 {
    let (doublings, rest) = (class / CLASSES, class % CLASSES);
    match doublings {
        0 => rest,
        _ => ((u128::from(CLASSES + rest + 1) << (doublings - 1)) - 1) as u64,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_class_ends_at_most_three_percent_above_its_values() {
        let values = (0..2_000).chain((11..64).flat_map(|bits| {
            let value = 1_u64 << bits;
            [value - 1, value, value + value / 3]
        }));
        for value in values.chain([u64::MAX]) {
            let end = end(class(value) as u64);
            assert!(end >= value && end - value <= value / 32, "{value} {end}");
        }
    }

    #[test]
    fn quantiles_and_the_maximum_are_those_of_all_values() {
        let mut all = Histogram::new();
        let mut half = Histogram::new();
        for value in 1..=20 {
            if value % 2 == 0 { all.record(value) } else { half.record(value) }
        }
        all.add(&half);
        assert_eq!([all.quantile(0.5), all.quantile(0.99), all.max()], [10, 20, 20]);
        assert_eq!(Histogram::new().quantile(0.5), 0);
    }
}

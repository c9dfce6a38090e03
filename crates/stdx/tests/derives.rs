//! The derives `Hand` and `Counters`, used as other crates use them.

use std::collections::BTreeSet;
use std::fmt::Debug;
use stdx::Counters;
use stdx::handing::{Hand, Input, layout_of};

#[derive(Debug, PartialEq, Hand)]
struct Unit;

#[derive(Debug, PartialEq, Hand)]
struct Wrapper(u32);

#[derive(Debug, PartialEq, Hand)]
struct Pair(u16, String);

#[derive(Debug, PartialEq, Hand)]
struct Generic<T, const COUNT: usize>
where
    T: Copy,
{
    values: [T; COUNT],
    pair: Pair,
}

#[derive(Debug, PartialEq, Hand)]
enum Choice {
    Nothing,
    Named { out: u8, input: u8 },
    Two(u8, bool),
}

fn bytes_of<T: Hand + Debug + PartialEq>(value: T) -> Vec<u8> {
    let mut bytes = Vec::new();
    value.give(&mut bytes);
    let mut input = Input::new(&bytes);
    assert_eq!(T::take(&mut input), Some(value));
    assert_eq!(input.left(), 0);
    bytes
}

#[test]
fn fields_are_encoded_in_their_order() {
    assert_eq!(bytes_of(Unit), []);
    assert_eq!(bytes_of(Wrapper(0x0403_0201)), [1, 2, 3, 4]);
    assert_eq!(bytes_of(Pair(0x0201, "a".into())), [1, 2, 1, 0, 0, 0, 0, 0, 0, 0, b'a']);
    let generic = Generic { values: [7_u8, 8], pair: Pair(0, String::new()) };
    assert_eq!(bytes_of(generic), [7, 8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
}

#[test]
fn a_variant_is_a_byte_before_its_fields() {
    assert_eq!(bytes_of(Choice::Nothing), [0]);
    assert_eq!(bytes_of(Choice::Named { out: 4, input: 5 }), [1, 4, 5]);
    assert_eq!(bytes_of(Choice::Two(6, true)), [2, 6, 1]);
    assert_eq!(Choice::take(&mut Input::new(&[3, 0, 0])), None);
    assert_eq!(Choice::take(&mut Input::new(&[2, 6])), None);
}

#[test]
fn a_layout_depends_on_names_and_types() {
    mod other {
        #[derive(stdx::handing::Hand)]
        pub struct Pair(pub u32, pub String);
        #[derive(stdx::handing::Hand)]
        pub struct Wrapper {
            pub number: u32,
        }
    }
    let layouts = [
        layout_of::<Pair>(),
        layout_of::<other::Pair>(),
        layout_of::<Wrapper>(),
        layout_of::<other::Wrapper>(),
        layout_of::<Generic<u8, 1>>(),
        layout_of::<Generic<u8, 2>>(),
        layout_of::<Choice>(),
    ];
    assert_eq!(BTreeSet::from(layouts).len(), layouts.len());
}

#[test]
fn counters_are_added_and_maxima_kept() {
    #[derive(Debug, Clone, Copy, PartialEq, Counters)]
    struct Inner(u64, u64);

    #[derive(Debug, Clone, Copy, PartialEq, Counters)]
    struct Outer {
        count: u64,
        #[counters(max)]
        longest_us: u64,
        inner: Inner,
    }

    let mut sum = Outer { count: 1, longest_us: 9, inner: Inner(10, 20) };
    sum += Outer { count: 2, longest_us: 4, inner: Inner(1, 2) };
    assert_eq!(sum, Outer { count: 3, longest_us: 9, inner: Inner(11, 22) });
    sum += Outer { count: 0, longest_us: 12, inner: Inner(0, 0) };
    assert_eq!(sum.longest_us, 12);
}

#[test]
fn a_field_declares_its_metric() {
    use stdx::histogram::Histogram;
    use stdx::metrics::{Metrics, Read};

    #[derive(Metrics)]
    struct Refused {
        full: u64,
        #[metric(limit = "rate_max")]
        too_fast: u64,
    }

    #[derive(Metrics)]
    struct Counted {
        /// Pings sent to
        /// quiet connections.
        #[metric("pings_total", limit = "ping_rate_max")]
        pings: u64,
        /// Refusals.
        #[metric("refusals_total", by = "reason")]
        refused: Refused,
        /// Turns.
        #[metric("turn_seconds")]
        turns: Histogram,
        unseen: u64,
    }

    let refused = Refused { full: 1, too_fast: 2 };
    let counted = Counted { pings: 3, refused, turns: Histogram::default(), unseen: 4 };
    let shown = Counted::METRICS.iter().map(|metric| {
        let samples = match metric.read {
            Read::Number(read) => read(&counted).to_string(),
            Read::By(label, read) => format!("{label} {:?}", read(&counted)),
            Read::Histogram(read) => read(&counted).count().to_string(),
        };
        format!("{}: {} {samples}", metric.name, metric.help)
    });
    let expected = [
        "pings_total: Pings sent to quiet connections. 3",
        "refusals_total: Refusals. reason [(\"full\", 1), (\"too_fast\", 2)]",
        "turn_seconds: Turns. 0",
    ];
    assert_eq!(shown.collect::<Vec<_>>(), expected);
    assert_eq!(counted.named(), [("pings", 3), ("unseen", 4)]);
    assert_eq!(counted.limits(), [("ping_rate_max", 3)]);
    assert_eq!(counted.refused.limits(), [("rate_max", 2)]);
}

#[test]
fn shared_counters_are_read_at_once() {
    use std::sync::atomic::Ordering;

    #[derive(Debug, PartialEq, Counters)]
    #[counters(shared = Counting)]
    struct Counted {
        pings: u64,
        errors: u64,
    }

    let counting = Counting::default();
    counting.errors.fetch_add(2, Ordering::Relaxed);
    assert_eq!(counting.statistics(), Counted { pings: 0, errors: 2 });
}

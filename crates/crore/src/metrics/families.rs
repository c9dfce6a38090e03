//! The metrics at one moment, as values: families with help, kind and samples. The texts for
//! Prometheus and for Telegraf are written from this list.
//!
//! Invariants: names are unique; those of counters, and only they, end in `_total`; labels have a
//! few known values, except for the family that names the version and the node.

use std::borrow::Cow;
use std::fmt;
use stdx::histogram::Histogram;
use stdx::metrics::{Metric, Metrics, Read};

/// The kind of a family.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// A number that only grows, until the node starts again.
    Counter,
    /// A number at this moment.
    Gauge,
    /// Durations by bucket, in seconds.
    Histogram,
}

impl Kind {
    /// The word for it.
    pub fn word(self) -> &'static str {
        match self {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
            Kind::Histogram => "histogram",
        }
    }
}

/// A number of a sample.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Number {
    /// A whole one.
    Whole(u64),
    /// One that may be below zero.
    Signed(i64),
    /// Seconds and shares.
    Real(f64),
}

impl fmt::Display for Number {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Number::Whole(number) => number.fmt(formatter),
            Number::Signed(number) => number.fmt(formatter),
            Number::Real(number) => number.fmt(formatter),
        }
    }
}

impl From<i64> for Number {
    fn from(number: i64) -> Number {
        Number::Signed(number)
    }
}

impl From<f64> for Number {
    fn from(number: f64) -> Number {
        Number::Real(number)
    }
}

impl From<u64> for Number {
    fn from(number: u64) -> Number {
        Number::Whole(number)
    }
}

impl From<u32> for Number {
    fn from(number: u32) -> Number {
        Number::Whole(number.into())
    }
}

impl From<u16> for Number {
    fn from(number: u16) -> Number {
        Number::Whole(number.into())
    }
}

impl From<u8> for Number {
    fn from(number: u8) -> Number {
        Number::Whole(number.into())
    }
}

impl From<usize> for Number {
    fn from(number: usize) -> Number {
        Number::Whole(number as u64)
    }
}

/// The value of a sample.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Value {
    /// The value of a counter or a gauge.
    Number(Number),
    /// The buckets of a histogram.
    Histogram(Histogram),
}

/// A label and its value.
pub type Label = (&'static str, Cow<'static, str>);

/// One series of a family.
#[derive(Clone, PartialEq, Debug)]
pub struct Sample {
    /// Labels that identify the series within its family.
    pub labels: Vec<Label>,
    /// Its value.
    pub value: Value,
}

/// Samples of one name.
#[derive(Clone, PartialEq, Debug)]
pub struct Family {
    /// The name.
    pub name: &'static str,
    /// Its help, in a sentence.
    pub help: &'static str,
    /// The type, as Prometheus names it.
    pub kind: Kind,
    /// At least one.
    pub samples: Vec<Sample>,
}

/// A list that grows by families. Names are checked when built for tests and debugging.
#[derive(Debug, Default)]
pub struct Families(Vec<Family>);

impl Families {
    /// The families that counters declare themselves.
    pub fn declared<T: Metrics>(&mut self, counters: &T) {
        for Metric { name, help, read } in T::METRICS {
            match read {
                Read::Number(read) if name.ends_with("_total") => {
                    self.counter(name, help, read(counters));
                }
                Read::Number(read) => self.gauge(name, help, read(counters)),
                Read::By(label, read) => self.counters(name, help, label, &read(counters)),
                Read::Histogram(read) => self.histogram(name, help, read(counters)),
            }
        }
    }

    /// A counter without labels; its name ends in `_total`.
    pub fn counter(&mut self, name: &'static str, help: &'static str, number: impl Into<Number>) {
        self.push(name, help, Kind::Counter, vec![plain(number.into())]);
    }

    /// A counter with one label of a few known values.
    pub fn counters(
        &mut self,
        name: &'static str,
        help: &'static str,
        label: &'static str,
        numbers: &[(&'static str, u64)],
    ) {
        self.push(name, help, Kind::Counter, labelled(label, numbers));
    }

    /// A counter with several labels of a few known values.
    pub fn counters_by(
        &mut self,
        name: &'static str,
        help: &'static str,
        numbers: impl IntoIterator<Item = (Vec<Label>, u64)>,
    ) {
        let samples = numbers
            .into_iter()
            .map(|(labels, number)| Sample { labels, value: Value::Number(number.into()) })
            .collect();
        self.push(name, help, Kind::Counter, samples);
    }

    /// A gauge without labels.
    pub fn gauge(&mut self, name: &'static str, help: &'static str, number: impl Into<Number>) {
        self.push(name, help, Kind::Gauge, vec![plain(number.into())]);
    }

    /// A gauge with one label of a few known values.
    pub fn gauges<N: Into<Number> + Copy>(
        &mut self,
        name: &'static str,
        help: &'static str,
        label: &'static str,
        numbers: &[(&'static str, N)],
    ) {
        self.push(name, help, Kind::Gauge, labelled(label, numbers));
    }

    /// A gauge that is always 1 and says something in its labels.
    pub fn information(
        &mut self,
        name: &'static str,
        help: &'static str,
        labels: &[(&'static str, &str)],
    ) {
        let labels =
            labels.iter().map(|(label, value)| (*label, Cow::Owned((*value).to_owned()))).collect();
        let sample = Sample { labels, value: Value::Number(Number::Whole(1)) };
        self.push(name, help, Kind::Gauge, vec![sample]);
    }

    /// A distribution of durations; its name ends in `_seconds`.
    pub fn histogram(&mut self, name: &'static str, help: &'static str, histogram: Histogram) {
        debug_assert!(name.ends_with("_seconds"), "{name}");
        let sample = Sample { labels: Vec::new(), value: Value::Histogram(histogram) };
        self.push(name, help, Kind::Histogram, vec![sample]);
    }

    /// All of them.
    pub fn finish(self) -> Vec<Family> {
        self.0
    }

    fn push(&mut self, name: &'static str, help: &'static str, kind: Kind, samples: Vec<Sample>) {
        debug_assert_eq!(kind == Kind::Counter, name.ends_with("_total"), "{name}");
        debug_assert!(self.0.iter().all(|family| family.name != name), "{name} stands twice");
        self.0.push(Family { name, help, kind, samples });
    }
}

fn plain(number: Number) -> Sample {
    Sample { labels: Vec::new(), value: Value::Number(number) }
}

fn labelled<N: Into<Number> + Copy>(
    label: &'static str,
    numbers: &[(&'static str, N)],
) -> Vec<Sample> {
    let sample = |(word, number): &(&'static str, N)| Sample {
        labels: vec![(label, Cow::Borrowed(*word))],
        ..plain((*number).into())
    };
    numbers.iter().map(sample).collect()
}

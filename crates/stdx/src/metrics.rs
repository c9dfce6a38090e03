//! Metrics as data: a counter's field declares the family that shows it.
//!
//! `#[metric("name_total")]` on a field of a structure that derives [`Metrics`] declares a family;
//! the field's doc comment is its help. A field is a `u64`, a [`Histogram`], or, with
//! `by = "label"`, a structure whose fields are the family's samples. `limit = "name"` says that
//! the field counts how often this limit was reached.

use crate::histogram::Histogram;
pub use derive::Metrics;

/// A family of a structure of counters.
#[derive(Debug)]
pub struct Metric<T> {
    /// The name; that of a counter ends in `_total`.
    pub name: &'static str,
    /// Its help, in a sentence.
    pub help: &'static str,
    /// Reads its samples.
    pub read: Read<T>,
}

/// Reads the samples of a family.
#[derive(Debug)]
pub enum Read<T> {
    /// One number.
    Number(fn(&T) -> u64),
    /// A label, and a number for each of its values.
    By(&'static str, fn(&T) -> Vec<(&'static str, u64)>),
    /// One histogram.
    Histogram(fn(&T) -> Histogram),
}

/// A structure of counters.
pub trait Metrics: Sized + 'static {
    /// The families that its fields declare, in their order.
    const METRICS: &'static [Metric<Self>];

    /// All numbers by the names of their fields.
    fn named(&self) -> Vec<(&'static str, u64)>;

    /// Numbers of times that limits were reached, for fields that name one.
    fn limits(&self) -> Vec<(&'static str, u64)>;
}

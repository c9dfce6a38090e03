//! librdkafka behind safe values: a client, its queues, and what comes out of them.
//!
//! Place on the path: `engine` alone uses it. No function here waits, except [`Queue::poll`] for
//! its timeout and the end of a client for its threads. librdkafka's threads put everything into
//! queues, which wake a file descriptor ([`Queue::wake`]); the only callback names the fault of a
//! certificate ([`certificate`]).
//!
//! Invariants: nothing borrowed from librdkafka leaves the call that lends it. Error codes are
//! numbers, never the enumeration of the bindings: a newer broker may send a code that it lacks.

#![deny(clippy::unwrap_used)]

mod admin;
pub mod certificate;
mod client;
mod consumer;
mod message;
mod producer;
mod queue;
mod transaction;

pub use admin::{
    ClusterDescription, NewTopic, PartitionDescription, TopicDescription, TopicResult,
};
pub use client::{Client, Error, Kind};
pub use consumer::{ListedOffset, OffsetQuery, Place};
pub use message::{MessageRef, Timestamp};
pub use producer::{Delivery, DeliveryStatus, Produce};
pub use queue::{Event, Queue};

/// Error codes of librdkafka (negative) and of the protocol that callers treat apart.
pub mod code {
    /// The end of a partition was reached.
    pub const PARTITION_END: i32 = -191;
    /// A position is not in the partition any more, and `auto.offset.reset` is `error`.
    pub const OFFSET_RESET: i32 = -140;
    /// TLS with a broker failed.
    pub const TLS: i32 = -181;
    /// A broker refused the credentials, or there are none.
    pub const AUTHENTICATION: i32 = -169;
    /// All brokers are down.
    pub const ALL_BROKERS_DOWN: i32 = -187;
    /// The client's queue is full.
    pub const QUEUE_FULL: i32 = -184;
    /// The record was not delivered in time.
    pub const TIMED_OUT: i32 = -192;
    /// An error that ends the client's use.
    pub const FATAL: i32 = -150;
    /// The broker does not know the topic.
    pub const UNKNOWN_TOPIC: i32 = 3;
    /// The partition has no leader.
    pub const NO_LEADER: i32 = 5;
    /// The broker is not the leader of the partition.
    pub const NOT_LEADER: i32 = 6;
    /// The record is larger than the topic permits.
    pub const TOO_LARGE: i32 = 10;
    /// The topic exists already.
    pub const TOPIC_EXISTS: i32 = 36;
}

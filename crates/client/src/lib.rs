//! The Rust client of Crore: subscribe, publish and reconnect, with a proof that no message was
//! lost.
//!
//! [`Client`] is blocking and has one thread of its own. It reconnects by itself (exponential
//! backoff with full jitter, over several URLs in turn), subscribes again from its cursors, and
//! reports missing messages: every message has its position, every hole is an [`Event::Gap`] with
//! its exact bounds, messages that the server skipped intentionally are [`Event::Skipped`], and
//! duplicates are dropped. A publication that was sent and not acknowledged before the connection
//! broke is [`RequestError::Unknown`], and is never repeated automatically; one with an [`Once`] is
//! repeated until it is answered, and is in the log exactly once.
//!
//! ```no_run
//! use client::{Client, Event, Options, Start};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let (client, events) = Client::connect(Options::new("ws://127.0.0.1:8800"))?;
//! client.subscribe("prices/eur", Start::Live)?;
//! for event in events {
//!     match event {
//!         Event::Message(message) => println!("{}: {:?}", message.topic, message.payload),
//!         Event::Gap { filter, from, to, .. } => println!("{filter}: lost {from:?} to {to:?}"),
//!         _ => {}
//!     }
//! }
//! # Ok(())
//! # }
//! ```
//!
//! Place: outside the node. [`session`] is the same without I/O, for programs with their own event
//! loop, and [`proof`] is the rule that detects holes.
#![forbid(unsafe_code)]
#![deny(clippy::unwrap_used)]

pub mod backoff;
mod client;
pub mod cursors;
mod fault;
mod ground;
pub mod proof;
mod queue;
pub mod session;
mod shell;
pub mod url;

pub use client::{
    Client, ConnectError, Events, EventsError, Options, Pending, RequestError, TokenSource,
};
pub use session::{
    CommandError, Event, GapCause, HistoryGap, HistoryOptions, HistoryPage, Message, Once,
    PublishOptions, Published, Reason, Report, ReportedGap, ServerError, Settings,
    SubscribeOptions, SubscriptionId,
};
/// The client's parts, for a loop with virtual time: what runs the scenarios of `spec/scenarios`.
#[cfg(feature = "scenarios")]
pub mod stage {
    pub use crate::client::{Command, Reply, Shared};
    pub use crate::fault::{Fault, plant};
    pub use crate::ground::Ground;
    /// The queues of commands and events.
    pub mod queue {
        pub use crate::queue::{Receiver, Sender, bounded};
    }
    pub use crate::shell::{Parts, Shell};
}
pub use wire::native::{
    CloseCode, ErrorCode, GapReason, PartitionPosition, Policy, Position, SkipReason, Start,
};

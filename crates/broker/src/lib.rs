//! The pub/sub core: values in, values out. No I/O, no clock, no threads, no entropy.
//!
//! A home ([`home`]) orders and stores topics; an edge ([`edge`]) serves connections. They know
//! each other only by [`mail`]. A home knows its durable logs by [`disk`], and logs outside of the
//! node by [`engine`].
#![forbid(unsafe_code)]
#![deny(clippy::unwrap_used, clippy::wildcard_enum_match_arm)]

mod admission;
mod attributes;
mod command;
pub mod disk;
pub mod edge;
pub mod engine;
pub mod entitlement;
mod epochs;
pub mod filters;
pub mod handing;
pub mod home;
mod ids;
pub mod inspect;
pub mod journal;
pub mod limits;
pub mod mail;
mod notice;
pub mod now;
pub mod position;
mod protocol;
pub mod reload;
mod request_class;
mod session;
pub mod settings;
pub mod sys;
pub mod ticket;
pub mod topic;

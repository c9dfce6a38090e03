//! Flows of an edge, by subject: every method of [`super::Edge`] that is not its interface.
//!
//! A flow asks the owners and the sessions, and passes values between them. Invariant: flows define
//! no types for others, and do not import each other.

mod admission;
mod ahead;
mod answers;
mod authenticate;
mod buffered;
mod command;
mod compress;
mod credential;
mod deliver;
mod deliver_filters;
mod drain;
mod end;
mod filters;
mod flush;
mod handing;
mod http;
mod http_history;
mod http_publish;
mod input;
mod inspect;
mod items;
mod journal;
mod json;
#[cfg(feature = "line-protocol")]
mod line;
mod links;
mod liveness;
mod lost;
mod memory;
mod mqtt;
mod native;
mod notify;
mod opening;
mod peers;
mod policies;
mod polls;
mod positions;
mod pressure;
mod producers;
mod rates;
mod recover;
mod recover_filters;
mod renewal;
mod restarted;
mod send;
mod slow;
mod spill;
mod streams;
mod subscribe;
mod ticket;
mod users;
mod websocket;

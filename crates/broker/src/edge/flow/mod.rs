//! What happens at an edge, by subject: every method of [`super::Edge`] that is not its interface.
//!
//! A flow asks the owners and the sessions, and passes values between them. Invariant: flows define
//! no types for others, and do not import each other.

mod admission;
mod command;
mod credential;
mod deliver;
mod deliver_filters;
mod filters;
mod greeting;
mod host;
mod http;
mod http_history;
mod http_publish;
mod items;
mod lost;
mod native;
mod opening;
mod policies;
mod positions;
mod recover;
mod recover_filters;
mod renewal;
mod spill;
mod subscribe;
mod ticket;
mod websocket;

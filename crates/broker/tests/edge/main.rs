//! Scripts for whole nodes: real bytes in, what each client saw out.
//!
//! One program, so that the node is linked once. `support` has the language.

mod abuse;
mod admission;
mod bounds;
mod churn;
mod compression;
mod counts;
mod drain;
mod driver;
mod early;
mod entitled;
mod entitled_ends;
mod entitled_http;
mod entitled_tickets;
mod events;
mod filter_bounds;
mod filter_policies;
mod filters;
mod hangs;
mod http;
mod http_long;
mod http_parameters;
mod input;
mod inspection;
mod journal;
mod json;
mod line;
mod lineages;
mod mqtt_connect;
mod mqtt_gaps;
mod mqtt_overlap;
mod mqtt_publish;
mod mqtt_random;
mod mqtt_records;
mod mqtt_retained;
mod mqtt_sessions;
mod mqtt_wills;
mod mqtt_window;
mod native;
mod native_ends;
mod once;
mod policies;
mod positions;
mod reload;
mod room;
mod slow;
mod stream_filters;
mod support;
mod sys;
mod ticket_bounds;
mod tickets;
#[path = "../transcript/mod.rs"]
mod transcript;
mod users;

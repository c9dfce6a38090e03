//! One function for each fuzz target. A binary in `fuzz_targets/` feeds it, `tests/replay.rs` runs
//! it over the committed corpus.
//!
//! A target asserts: no panic; equal results for all ways to split the input; and, where there is
//! an encoder, that decoded values encode to the input's bytes.
//!
//! A new target consists of a function here, its name in [`TARGETS`], one line in `fuzz_targets/`,
//! one entry in `Cargo.toml`, and seeds in [`seeds`].

mod engine_record;
mod entitlement;
mod handed;
mod http;
mod mqtt;
mod native;
mod node_record;
mod proxy;
pub mod seeds;
mod shard;
mod store;
mod tcp;
mod ticket;
mod tls;
mod websocket;

// The property tests of `wire` drive the decoders in the same way.
#[path = "../../crates/wire/tests/drive/mod.rs"]
mod drive;
#[path = "../../crates/wire/tests/mqtt/mod.rs"]
mod mqtt_support;
use mqtt_support::{rebuild, vectors};
// The tests of `tcp` run its targets with random input.
#[path = "../../crates/tcp/tests/fuzz_targets/mod.rs"]
mod tcp_targets;

pub use engine_record::engine_record;
pub use entitlement::token;
pub use handed::handed;
pub use http::{event_stream, http_body, http_request, http_response, http_target};
pub use mqtt::{mqtt_client, mqtt_server};
pub use native::{json_client_frame, json_server_frame, native_client_frame, native_server_frame};
pub use node_record::node_record;
pub use proxy::proxy;
pub use shard::shard;
pub use store::{store_index, store_segment};
pub use tcp::{tcp_life, tcp_options, tcp_packet, tcp_stack};
pub use ticket::ticket;
pub use tls::tls_record;
pub use websocket::{websocket_deflate, websocket_frame, websocket_handshake, websocket_message};

/// A target: accepts any bytes and panics when an assertion fails.
pub type Target = fn(&[u8]);

/// Registers functions of this crate as targets.
macro_rules! targets {
    ($($name:ident),* $(,)?) => { &[$((stringify!($name), $name as Target)),*] };
}

/// All targets by name.
pub const TARGETS: &[(&str, Target)] = targets![
    engine_record,
    websocket_frame,
    websocket_message,
    websocket_handshake,
    websocket_deflate,
    http_request,
    http_response,
    http_body,
    http_target,
    event_stream,
    native_client_frame,
    native_server_frame,
    json_client_frame,
    json_server_frame,
    handed,
    mqtt_client,
    mqtt_server,
    node_record,
    proxy,
    shard,
    store_index,
    store_segment,
    tcp_life,
    tcp_options,
    tcp_packet,
    tcp_stack,
    ticket,
    tls_record,
    token,
];

/// Takes the last eight bytes of the data as the seed of the cuts: the last ones, so that the
/// corpus stays readable.
fn split_seed(data: &[u8]) -> (u64, &[u8]) {
    match data.split_last_chunk::<8>() {
        Some((rest, seed)) => (u64::from_le_bytes(*seed), rest),
        None => (1, data),
    }
}

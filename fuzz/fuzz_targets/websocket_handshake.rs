//! Feeds `fuzz::websocket_handshake`.
#![no_main]
libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::websocket_handshake(data));

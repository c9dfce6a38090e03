//! Feeds `fuzz::websocket_frame`.
#![no_main]
libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::websocket_frame(data));

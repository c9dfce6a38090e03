//! Feeds `fuzz::websocket_message`.
#![no_main]
libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::websocket_message(data));

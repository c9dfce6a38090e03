//! Feeds `fuzz::json_server_frame`.
#![no_main]
libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::json_server_frame(data));

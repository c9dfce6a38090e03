//! Feeds `fuzz::json_client_frame`.
#![no_main]
libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::json_client_frame(data));

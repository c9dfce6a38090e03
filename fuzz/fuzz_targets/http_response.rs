//! Feeds `fuzz::http_response`.
#![no_main]
libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::http_response(data));

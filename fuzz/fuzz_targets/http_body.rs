//! Feeds `fuzz::http_body`.
#![no_main]
libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::http_body(data));

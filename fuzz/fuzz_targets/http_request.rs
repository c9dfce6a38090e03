//! Feeds `fuzz::http_request`.
#![no_main]
libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::http_request(data));

//! Feeds `fuzz::http_target`.
#![no_main]
libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::http_target(data));

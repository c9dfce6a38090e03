//! Feeds `fuzz::event_stream`.
#![no_main]
libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::event_stream(data));

//! Feeds `fuzz::store_segment`.
#![no_main]
libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::store_segment(data));

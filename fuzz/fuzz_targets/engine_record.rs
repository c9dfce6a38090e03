//! Feeds `fuzz::engine_record`.
#![no_main]
libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::engine_record(data));

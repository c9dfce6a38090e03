//! Feeds `fuzz::token`.
#![no_main]
libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::token(data));

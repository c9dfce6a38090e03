//! Feeds `fuzz::tcp_life`.
#![no_main]
libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::tcp_life(data));

//! Feeds `fuzz::tcp_stack`.
#![no_main]
libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::tcp_stack(data));

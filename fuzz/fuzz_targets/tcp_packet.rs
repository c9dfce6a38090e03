//! Feeds `fuzz::tcp_packet`.
#![no_main]
libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::tcp_packet(data));

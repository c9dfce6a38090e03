//! Feeds `fuzz::node_record`.
#![no_main]
libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::node_record(data));

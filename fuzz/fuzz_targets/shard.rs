//! Feeds `fuzz::shard`.
#![no_main]
libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::shard(data));

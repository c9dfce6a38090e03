//! Feeds `fuzz::mqtt_client`.
#![no_main]
libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::mqtt_client(data));

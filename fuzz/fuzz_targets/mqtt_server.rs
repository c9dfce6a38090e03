//! Feeds `fuzz::mqtt_server`.
#![no_main]
libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::mqtt_server(data));

//! Feeds `fuzz::native_client_frame`.
#![no_main]
libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::native_client_frame(data));
